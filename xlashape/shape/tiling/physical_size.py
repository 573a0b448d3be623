"""The size of a buffer, padding included: its dimensions after tiling, its elements and its bytes."""

from __future__ import annotations

from xlashape.errors import SizeOverflowError
from xlashape.limits import INT64_MAX
from xlashape.math import ceil_div
from xlashape.shape.arguments import array_of, not_a_shape
from xlashape.shape.parts.checks import brief
from xlashape.shape.tiling.formula import geometry
from xlashape.shape.value.shape import Shape


def physical_dimensions(shape: Shape) -> tuple[int, ...]:
    """The sizes after all tiles, most major first; the tail padding is not among them. Errors as in `tiling.linear_index`.

    >>> physical_dimensions(Shape.parse("bf16[20,300]{1,0:T(8,128)(2,1)}"))
    (3, 3, 4, 128, 2, 1)
    """
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    return geometry(shape).physical


def physical_elements(shape: Shape) -> int:
    """The elements of the buffer, padding included. Errors as in `tiling.linear_index`.

    >>> physical_elements(Shape.parse("f32[3,5]{1,0:T(8,128)}"))
    1024
    """
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    return geometry(shape).elements


def physical_bytes(shape: Shape) -> int:
    """The bytes of the buffer, padding included; elements packed by `E(n)` share bytes. Errors as in `tiling.linear_index`.

    Split configs are ignored. Dynamic dimensions count with their bounds; the metadata that some devices put before the data is
    not counted.

    >>> physical_bytes(Shape.parse("f32[3,5]{1,0:T(8,128)}")), physical_bytes(Shape.parse("s4[5]{0:E(4)}"))
    (4096, 3)
    """
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    size = ceil_div(geometry(shape).elements * stored_bits(shape), 8)
    if size > INT64_MAX:
        raise SizeOverflowError(
            f"the bytes of {brief(shape)}, padding included, do not fit int64: {size}", field="shape"
        )
    return size


def stored_bits(shape: Shape) -> int:
    """The bits from one element of the buffer to the next: the layout's `E(n)`, else the type's own, a byte at least.

    >>> stored_bits(Shape.parse("s4[5]")), stored_bits(Shape.parse("s4[5]{0:E(4)}")), stored_bits(Shape.parse("pred[5]"))
    (8, 4, 8)
    """
    array = array_of(shape)
    bits = array.layout.element_size_in_bits if array.layout else 0
    return bits or max(8, array.element_type.bit_width)
