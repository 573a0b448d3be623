"""Checks of shapes that have to be arrays."""

from __future__ import annotations

from xlashape.errors import InvalidShapeError
from xlashape.shape.parts.error_text import brief
from xlashape.shape.value.shape import Shape

__all__ = ["array_of", "not_a_shape"]


def array_of(shape: Shape) -> Shape:
    """The shape itself if it is an array, the array a buffer holds, or InvalidShapeError."""
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    if shape.is_array:
        return shape
    if shape.is_buffer:
        return shape.tuple_shapes[0]
    raise InvalidShapeError(f"expected an array, found {brief(shape)}", field="shape")


def not_a_shape(value: object, field: str = "shape") -> InvalidShapeError:
    """The error for a value that is not a Shape. Functions with a cache raise it first: some values cannot even be hashed."""
    return InvalidShapeError(f"{field} takes a Shape, not {type(value).__name__}", field=field)
