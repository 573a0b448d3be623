"""Shapes and programs as XLA's `ShapeUtil` prints them."""

from __future__ import annotations

from xlashape.shape.arguments import not_a_shape
from xlashape.shape.text.shape import shape_text
from xlashape.shape.value.program_shape import ProgramShape, program_shape_text
from xlashape.shape.value.shape import Shape

__all__ = ["human_string", "human_string_with_layout"]


def human_string(shape: Shape | ProgramShape) -> str:
    """The text without layouts.

    >>> human_string(Shape.parse("f32[2,3]{0,1}")), human_string(ProgramShape.parse("(p0: f32[2]{0}) -> f32[]"))
    ('f32[2,3]', '(p0: f32[2]) -> f32[]')
    """
    return (
        program_shape_text(shape, layout=False) if isinstance(shape, ProgramShape) else shape_text(shape, layout=False)
    )


def human_string_with_layout(shape: Shape) -> str:
    """The text with layouts; the same as `str(shape)`.

    >>> human_string_with_layout(Shape.parse("f32[2,3]"))
    'f32[2,3]{1,0}'
    """
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    return str(shape)
