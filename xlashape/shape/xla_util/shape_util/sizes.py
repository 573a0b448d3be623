"""Functions of XLA's `ShapeUtil` on sizes: how many elements and bytes a shape has.

A buffer counts as the array it holds. Sizes beyond int64 raise SizeOverflowError. Arrays with an unbounded dimension
and shapes without elements (tokens, opaques) raise InvalidShapeError.
"""

from __future__ import annotations

from typing import NamedTuple

from xlashape.base.math import ceil_div, checked_int64, checked_product, round_up
from xlashape.errors import InvalidArgumentError, InvalidShapeError
from xlashape.shape import tiling
from xlashape.shape.arguments import array_of
from xlashape.shape.parts.checks import brief
from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.target import Target
from xlashape.shape.parts.tile import UNBOUNDED_SIZE
from xlashape.shape.value.shape import Shape
from xlashape.shape.value.shape_index import ShapeIndex
from xlashape.shape.xla_util.layout_util import max_split_size
from xlashape.shape.xla_util.shape_util._common import minor_to_major_of, require_tuple

__all__ = [
    "BufferSize", "array_data_size", "array_size", "buffers_of", "byte_size_of", "byte_size_of_elements",
    "byte_size_of_elements_recursive", "byte_size_of_primitive_type", "byte_size_of_tuple_index_table", "byte_strides",
    "element_size_in_bits", "elements_in", "elements_in_recursive", "extent_product", "is_zero_element_array",
    "packed_factor_for_1d_interleaved_array", "serialized_size", "static_extent_product", "unpacked_byte_strides",
]  # fmt: skip


def elements_in(shape: Shape) -> int:
    """The number of elements of an array, 1 for a scalar; a dynamic dimension counts with its bound.

    >>> elements_in(Shape.parse("f32[2,<=3]"))
    6
    """
    return extent_product(shape)


def elements_in_recursive(shape: Shape) -> int:
    """The number of elements of all arrays of a shape together.

    >>> elements_in_recursive(Shape.parse("(f32[2], (f32[3], s32[]))"))
    6
    """
    if shape.is_tuple:
        return checked_int64(
            sum([elements_in_recursive(inner) for inner in shape.tuple_shapes]), "the number of elements"
        )
    return elements_in(shape)


def extent_product(shape: Shape, *, bounded_dynamic_ok: bool = False) -> int:
    """The product of an array's sizes. With `bounded_dynamic_ok` unbounded dimensions are left out; otherwise they are
    refused.

    XLA's template also returns whether the product overflows. Here an overflow is a SizeOverflowError, which the
    constructor of such a shape raises already.
    """
    array = array_of(shape)
    if not bounded_dynamic_ok and UNBOUNDED_SIZE in array.dimensions:
        raise InvalidShapeError(f"{brief(shape)} has an unbounded dimension, so no number of elements", field="shape")
    return checked_product([size for size in array.dimensions if size != UNBOUNDED_SIZE], "the number of elements")


def static_extent_product(shape: Shape) -> int:
    """The product of an array's sizes, unbounded dimensions left out.

    >>> static_extent_product(Shape.parse("f32[2,?,3]"))
    6
    """
    return extent_product(shape, bounded_dynamic_ok=True)


def is_zero_element_array(shape: Shape) -> bool:
    """Whether the shape is an array, or a buffer of an array, with a dimension of size 0."""
    return (shape.is_array or shape.is_buffer) and 0 in array_of(shape).dimensions


def byte_size_of_primitive_type(element_type: PrimitiveType | str | int) -> int:
    """The bytes an element of the type takes when it is not packed: 1 for pred and for all types below 8 bits.

    >>> byte_size_of_primitive_type("bf16"), byte_size_of_primitive_type("s4")
    (2, 1)
    """
    kind = PrimitiveType.of(element_type)
    if not kind.is_array_type:
        raise InvalidArgumentError(f"{kind.text} is not the element type of an array", field="element_type")
    return ceil_div(kind.bit_width, 8)


def element_size_in_bits(shape: Shape) -> int:
    """The bits of one element in memory: the layout's `E(n)`, or without it the unpacked size of the element type.

    >>> element_size_in_bits(Shape.parse("s4[8]")), element_size_in_bits(Shape.parse("s4[8]{0:E(4)}"))
    (8, 4)
    """
    return tiling.stored_bits(shape)


def byte_size_of(shape: Shape, pointer_size: int | None = None, *, target: Target | str | None = None) -> int:
    """The bytes of a shape's own buffer. The buffer of an array holds its elements without any padding, with tiles
    ignored; that of a tuple is a table of pointers; that of an opaque is a pointer; a token has 0 bytes. A pointer
    takes 8 bytes unless `pointer_size` or the target says otherwise.

    With a target ("cpu", "gpu", "tpu" or a `Target`), the bytes are those that XLA reserves on such a device. On CPUs
    and GPUs an array with a dynamic dimension also has 4 bytes for each of its dimensions, behind its elements. On TPUs
    tiles and padding count, and a tuple's table is rounded up to 512 bytes, or to 32 bytes from v5p on. `buffers_of`
    lists the buffers of all elements of a tuple.

    `xlashape.shape.tiling.physical_bytes` counts tiles and padding on any device.

    >>> byte_size_of(Shape.parse("f32[3,5]{1,0:T(2,2)}")), byte_size_of(Shape.parse("(f32[3], s32[])"))
    (60, 16)
    >>> dynamic = Shape.parse("s64[<=4,1]")
    >>> (
    ...     byte_size_of(dynamic),
    ...     byte_size_of(dynamic, target="cpu"),
    ...     byte_size_of(Shape.parse("(f32[3], s32[])"), target="tpu"),
    ... )
    (32, 40, 512)
    """
    if target is None:
        return _plain_byte_size(shape, 8 if pointer_size is None else pointer_size)
    device = Target.of(target)
    if pointer_size is not None:
        device = device._replace(pointer_size=_pointer_size(pointer_size))
    return _byte_size_on(device, shape)


def _plain_byte_size(shape: Shape, pointer_size: int) -> int:
    if shape.is_tuple:
        return byte_size_of_tuple_index_table(shape, pointer_size)
    if shape.is_token:
        return 0
    if shape.is_opaque:
        return _pointer_size(pointer_size)
    return byte_size_of_elements(shape)


def _byte_size_on(device: Target, shape: Shape) -> int:
    if shape.is_tuple:
        table = byte_size_of_tuple_index_table(shape, device.pointer_size)
        aligned = ceil_div(table, device.table_alignment) * device.table_alignment
        return checked_int64(aligned, "the size of the table")
    if not (shape.is_array or shape.is_buffer):
        return _plain_byte_size(shape, device.pointer_size)
    array = array_of(shape)
    space = array.layout.memory_space if array.layout is not None else 0
    if device.scalar_elements and (array.is_scalar or space in device.small_spaces):
        alone = _untiled_size(device, array)
        if alone is not None:
            return alone
    size = tiling.physical_bytes(array) if device.counts_padding else byte_size_of_elements(array)
    if device.counts_padding and array.layout is not None:
        size += array.layout.dynamic_shape_metadata_prefix_bytes
    if any(array.dynamic_dimensions):
        size += device.dynamic_size_bytes * array.rank
    return checked_int64(size, f"the byte size of {brief(shape)}")


def _untiled_size(device: Target, array: Shape) -> int | None:
    """The bytes of a semaphore, or of a scalar or small array without tiles. None for an array whose size follows from
    its tiles."""
    layout = array.layout
    if layout is not None and array.is_scalar and layout.memory_space in device.semaphore_spaces:
        return 4
    if layout is None or not layout.tiles:
        elements = round_up(max(1, elements_in(array)), device.scalar_elements)
        return elements * byte_size_of_primitive_type(array.element_type)
    return None


class BufferSize(NamedTuple):
    """One buffer of a shape on a device."""

    shape_index: ShapeIndex
    """The index of the buffer in the shape. If a tuple is at this index, the buffer is its table of pointers."""
    shape: Shape
    byte_size: int


def buffers_of(shape: Shape, target: Target | str) -> tuple[BufferSize, ...]:
    """All buffers of a shape on a device. The table of a tuple comes before the buffers of its elements.

    >>> [
    ...     (str(buffer.shape_index), buffer.byte_size)
    ...     for buffer in buffers_of(Shape.parse("(f32[], f32[256]{0:T(128)})"), "tpu")
    ... ]
    [('{}', 512), ('{0}', 4096), ('{1}', 1024)]
    """
    device = Target.of(target)
    buffers: list[BufferSize] = []

    def add(inner: Shape, index: tuple[int, ...]) -> None:
        buffers.append(BufferSize(ShapeIndex(index), inner, _byte_size_on(device, inner)))
        if inner.is_tuple:
            for number, element in enumerate(inner.tuple_shapes):
                add(element, (*index, number))

    add(shape, ())
    return tuple(buffers)


def byte_size_of_elements(shape: Shape) -> int:
    """The bytes of an array's elements: their number × their size, rounded up to whole bytes if `E(n)` packs them.

    >>> byte_size_of_elements(Shape.parse("s4[5]")), byte_size_of_elements(Shape.parse("s4[5]{0:E(4)}"))
    (5, 3)
    """
    bits = elements_in(shape) * element_size_in_bits(shape)
    return checked_int64(ceil_div(bits, 8), f"the byte size of {brief(shape)}")


def byte_size_of_elements_recursive(shape: Shape) -> int:
    """The bytes of the elements of all arrays of a shape together; tuple tables, tokens and opaques count nothing.

    >>> byte_size_of_elements_recursive(Shape.parse("(f32[2], (f32[3], token[]))"))
    20
    """
    if shape.is_tuple:
        sizes = [byte_size_of_elements_recursive(inner) for inner in shape.tuple_shapes]
        return checked_int64(sum(sizes), f"the byte size of {brief(shape)}")
    return 0 if shape.is_token or shape.is_opaque else byte_size_of_elements(shape)


def byte_size_of_tuple_index_table(shape: Shape, pointer_size: int = 8) -> int:
    """The bytes of a tuple's pointers to its elements, without the pointers of inner tuples."""
    require_tuple(shape)
    return checked_int64(len(shape.tuple_shapes) * _pointer_size(pointer_size), "the byte size of the tuple's table")


def array_size(shape: Shape) -> int:
    """The bytes of an array's buffer, all padding included. For a tiled array with split configs, the bytes of the
    largest part.

    XLA's `ArraySize` differs in two cases: it counts the padding of the first tile alone, although a later tile may add
    more, and it ignores the tail padding of an array without tiles. In all other cases the two functions are equal.

    >>> array_size(Shape.parse("f32[3,5]{1,0:T(2,2)}"))
    96
    """
    array = array_of(shape)
    layout = array.layout
    if layout is not None and layout.tiles and layout.split_configs:
        sizes = [max_split_size(array, dimension) for dimension in range(array.rank)]
        array = array.replace(dimensions=sizes, layout=layout.replace(split_configs=()))
    return tiling.physical_bytes(array)


def array_data_size(shape: Shape) -> int:
    """The bytes of an array's buffer up to the end of the last element, without the padding behind it; 0 for an array
    without elements.

    >>> array_data_size(Shape.parse("f32[3,5]{1,0:T(2,2)}"))
    84
    """
    array = array_of(shape)
    if elements_in(array) == 0:
        return 0
    # The position grows with every coordinate, so the last element has the greatest position.
    last = tiling.linear_index(array, [size - 1 for size in array.dimensions])
    return checked_int64(ceil_div((last + 1) * element_size_in_bits(array), 8), f"the byte size of {brief(shape)}")


def byte_strides(shape: Shape) -> tuple[int, ...] | None:
    """The distance in bytes between neighbours along each dimension, tiles ignored; None if elements share bytes.

    >>> byte_strides(Shape.parse("f32[2,3]{0,1}")), byte_strides(Shape.parse("s4[2,4]{1,0:E(4)}"))
    ((4, 8), None)
    """
    layout = array_of(shape).layout
    if layout is not None and 0 < layout.element_size_in_bits < 8:
        return None
    return unpacked_byte_strides(shape)


def unpacked_byte_strides(shape: Shape) -> tuple[int, ...]:
    """The distance in bytes between neighbours along each dimension if every element takes whole bytes, tiles ignored.

    >>> unpacked_byte_strides(Shape.parse("s4[2,4]{1,0:E(4)}"))
    (4, 1)
    """
    array = array_of(shape)
    elements_in(array)  # refuses unbounded dimensions
    strides = [0] * array.rank
    stride = byte_size_of_primitive_type(array.element_type)
    for dimension in minor_to_major_of(array):
        strides[dimension] = stride
        # A size of 0 makes the more major strides 0. These strides are never used, and cannot overflow.
        stride = checked_int64(stride * array.dimensions[dimension], f"a byte stride of {brief(shape)}")
    return tuple(strides)


def packed_factor_for_1d_interleaved_array(shape: Shape) -> int:
    """How many elements of a one-dimensional interleaved array share a word: the first size of its third tile.

    InvalidShapeError unless the array has one dimension and three tiles, the third of two sizes.

    >>> packed_factor_for_1d_interleaved_array(Shape.parse("bf16[1024]{0:T(1024)(128)(2,1)}"))
    2
    """
    array = array_of(shape)
    tiles = () if array.layout is None else array.layout.tiles
    if array.rank != 1 or len(tiles) != 3 or len(tiles[2].dimensions) != 2:
        raise InvalidShapeError(f"{brief(shape)} is not an interleaved array of one dimension", field="shape")
    return tiles[2].dimensions[0]


def serialized_size(shape: Shape) -> int:
    """The bytes of a serialized literal of this shape: 8 of header, the ShapeProto, then the data of each array.

    Types below 8 bits, and pred, are packed; an array with dynamic dimensions also has 4 bytes for each of its
    dimensions. InvalidShapeError for tokens and opaques, which have no literals.

    >>> serialized_size(Shape.parse("f32[2]"))
    32
    """
    return checked_int64(8 + shape.to_proto().ByteSize() + _data_size(shape), "the serialized size")


def _data_size(shape: Shape) -> int:
    if shape.is_tuple:
        return sum([_data_size(inner) for inner in shape.tuple_shapes])
    array = array_of(shape)
    bits = 1 if array.element_type is PrimitiveType.PRED else array.element_type.bit_width
    sizes = 4 * array.rank if any(array.dynamic_dimensions) else 0
    return sizes + (ceil_div(elements_in(array) * bits, 8) if bits < 8 else byte_size_of_elements(array))


def _pointer_size(pointer_size: int) -> int:
    if pointer_size <= 0:
        raise InvalidArgumentError(f"a pointer takes 1 byte or more, not {pointer_size}", field="pointer_size")
    return pointer_size
