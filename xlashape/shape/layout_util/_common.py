"""What the parts of `layout_util` share."""

from __future__ import annotations

from xlashape.shape.arguments.arrays import array_of
from xlashape.shape.value.shape import Layout, Shape

__all__ = ["has_layouts", "layout_of"]


def layout_of(shape: Shape) -> Layout:
    """The layout of an array; the default one if it has none."""
    array = array_of(shape)
    return Layout.default(array.rank) if array.layout is None else array.layout


def has_layouts(shape: Shape) -> bool:
    """Whether it is an array or a buffer of one."""
    return shape.is_array or shape.is_buffer
