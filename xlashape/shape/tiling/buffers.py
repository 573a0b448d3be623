"""Converts NumPy arrays to the buffers that XLA would hold and back, and buffers from one layout to another.

>>> import numpy as np
>>> shape = Shape.parse("s8[2,3]{1,0:T(2,2)}")
>>> buffer = pack(shape, np.array([[1, 2, 3], [4, 5, 6]], np.int8), fill=-1)
>>> buffer.view(np.int8).tolist(), unpack(shape, buffer).tolist()
([1, 2, 4, 5, 3, -1, 6, -1], [[1, 2, 3], [4, 5, 6]])

A buffer is `tiling.physical_bytes(shape)` bytes, little-endian, each element where `tiling.linear_index` says, in
`tiling.stored_bits(shape)` bits: types below 8 bits take a byte an element, or with `E(n)` n bits, the first element in
a byte's low-order bits. Padding is filled with `fill`, by default with zeros. Dynamic dimensions have their bounds as
sizes; metadata before the data is not part of the buffer here.

XLA has no such function. Where elements lie follows from the formula in `xlashape.shape.tiling.formula`.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xlashape import limits
from xlashape.errors import InvalidArgumentError, InvalidShapeError, LimitExceededError, UnsupportedError
from xlashape.shape.arguments import array_of
from xlashape.shape.parts.checks import brief
from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.tiling.formula import TileStep, geometry, physical_position
from xlashape.shape.tiling.padding import physical_bytes, stored_bits
from xlashape.shape.tiling.strided_copy import copy_block, copy_joined, joins, plan, view_strides
from xlashape.shape.value.shape import Shape

_Bytes = NDArray[np.uint8]

_PIECE = 1 << 15
"""The number of packed bytes that are made at a time, so that they and temporary arrays stay in the processor's cache.
"""


def pack_bits(elements: _Bytes, bits: int, value_bits: int, packed: _Bytes) -> None:
    """Writes the low `value_bits` of each byte of `elements` into `bits` bits of `packed`. Spare bits at the end of
    `packed` become 0.

    >>> packed = np.empty(2, np.uint8)
    >>> pack_bits(np.array([1, 2, 15], np.uint8), 4, 4, packed)
    >>> packed.tolist()
    [33, 15]
    """
    mask = (1 << value_bits) - 1
    per_byte = 8 // bits
    if bits == 1 or 8 % bits:
        # Pieces of 8·n elements fill whole bytes.
        for start in range(0, len(elements), 8 * _PIECE):
            piece = elements[start : start + 8 * _PIECE] & np.uint8(mask)
            single_bits = piece if bits == 1 else np.unpackbits(piece[:, None], axis=1, bitorder="little", count=bits)
            packed_piece = np.packbits(single_bits, bitorder="little")
            at = start * bits // 8
            packed[at : at + packed_piece.size] = packed_piece
        return
    whole = len(elements) // per_byte
    word = np.dtype(f"<u{per_byte}")
    for start in range(0, whole, _PIECE):
        stop = min(start + _PIECE, whole)
        # Element i of a word begins at bit 8·i and moves down to bit bits·i, in log2(per_byte) steps.
        words: NDArray[Any] = elements[start * per_byte : stop * per_byte].view(word) & word.type(
            _repeated(mask, per_byte)
        )
        for distance in _distances(bits):
            words |= words >> word.type(distance)
        np.copyto(packed[start:stop], words, casting="unsafe")
    if whole < len(packed):
        rest = [int(value) & mask for value in elements[whole * per_byte :]]
        packed[whole] = sum([value << (i * bits) for i, value in enumerate(rest)])


def unpack_bits(packed: _Bytes, bits: int, count: int) -> _Bytes:
    """The first `count` elements of `bits` bits each, in a byte for each element. The upper bits of the bytes are 0.

    >>> unpack_bits(np.array([33, 15], np.uint8), 4, 3).tolist()
    [1, 2, 15]
    """
    if bits == 1:
        return np.unpackbits(packed, count=count, bitorder="little")
    if 8 % bits:
        elements = np.empty(count, np.uint8)
        for start in range(0, count, 8 * _PIECE):
            length = min(8 * _PIECE, count - start)
            at = start * bits // 8
            single_bits = np.unpackbits(
                packed[at : at + -(-length * bits // 8)], count=length * bits, bitorder="little"
            )
            elements[start : start + length] = np.packbits(
                single_bits.reshape(length, bits), axis=1, bitorder="little"
            )[:, 0]
        return elements
    per_byte = 8 // bits
    word = np.dtype(f"<u{per_byte}")
    elements = np.empty(len(packed) * per_byte, np.uint8)
    mask = (1 << bits) - 1
    for start in range(0, len(packed), _PIECE):
        words: NDArray[Any] = packed[start : start + _PIECE].astype(word)
        for distance in reversed(_distances(bits)):
            words |= words << word.type(distance)
            # Keeps the copies that have moved and clears the rest. After this step groups are `distance` bits further
            # apart.
            words &= word.type(_kept(bits, per_byte, distance, mask))
        elements.view(word)[start : start + _PIECE] = words
    return elements[:count]


def _distances(bits: int) -> list[int]:
    """The distances, in bits, by which neighbours, then pairs of neighbours, and so on move towards each other.

    >>> _distances(4), _distances(2)
    ([4], [6, 12])
    """
    return [(8 - bits) * (1 << step) for step in range((8 // bits).bit_length() - 1)]


def _kept(bits: int, per_byte: int, distance: int, mask: int) -> int:
    """The mask of the bits that hold elements after the step of `_distances` that moves them apart by `distance`."""
    together = distance // (8 - bits)
    group = sum([mask << (i * bits) for i in range(together)])
    return sum([group << (8 * i) for i in range(0, per_byte, together)])


def _repeated(mask: int, count: int) -> int:
    return sum([mask << (8 * i) for i in range(count)])


# -- pack and unpack ---------------------------------------------------------------------------


_Array = NDArray[Any]

# Elements are moved as these types: NumPy copies its own types much faster than those of other packages.
_PLAIN = {1: "u1", 2: "<u2", 4: "<u4", 8: "<u8", 16: "<c16"}
_MAX_DIMENSIONS = 64 if int(cast("str", np.__version__).split(".")[0]) >= 2 else 32
"""The largest number of dimensions of a NumPy array."""
_GATHERED = 1 << 18
"""The number of elements whose positions are computed at a time, if the layout has no strides."""


def pack(
    shape: Shape, array: ArrayLike, *, fill: Any = None, out: NDArray[np.uint8] | None = None
) -> NDArray[np.uint8]:
    """The buffer of an array: uint8[physical_bytes].

    `array` has the shape's dimensions, its element type as NumPy or ml_dtypes has it, and any strides. Nested lists are
    accepted if the element type can hold every value. `fill` is the value of every padding element; None sets all their
    bits to 0. With `out`, a writable contiguous buffer of the right size, the bytes are written there.

    InvalidArgumentError for another type or size, or a `fill` that the type does not have; UnavailableError for a type
    that needs ml_dtypes where it is not installed; UnsupportedError for an `E(n)` that does not define how an element
    is stored; LimitExceededError for a buffer that does not fit in memory. Errors for shapes as in
    `tiling.linear_index`.
    """
    shape = array_of(shape)
    storage = _Storage(shape)
    values = _values(shape, storage, array)
    size, elements = physical_bytes(shape), geometry(shape).elements
    unit = _plain(_fill_value(shape, storage, fill))[()]
    # The system zeroes memory when it is first touched, which is cheaper than writing zeros where most of the buffer is
    # padding.
    zeroed = out is None and not storage.packed_bits and not unit and elements > 2 * values.size
    buffer = _new(shape, size, "u1", zero=zeroed) if out is None else _given(shape, size, out)
    if storage.packed_bits and _move_joined(shape, storage, _plain(values), buffer, into_buffer=True, unit=unit):
        return buffer
    flat = _new(shape, elements, "u1") if storage.packed_bits else buffer.view(_PLAIN[storage.dtype.itemsize])
    if not zeroed:
        _fill_padding(shape, flat, unit)
    _move(shape, _plain(values), flat, into_buffer=True)
    if storage.packed_bits:
        pack_bits(flat, storage.packed_bits, storage.value_bits, buffer)
    return buffer


def unpack(shape: Shape, buffer: Any, *, copy: bool | None = None) -> _Array:
    """The array whose buffer is given, with the shape's dimensions and element type. The inverse of `pack`.

    `buffer` is bytes or anything else with a buffer, such as a NumPy array; its length is
    `tiling.physical_bytes(shape)`. If the elements along every dimension are evenly spaced (no tiles, or tiles that do
    not divide a dimension), the array is a view of the buffer, read-only if the buffer is; otherwise it is a copy.
    `copy` is as in NumPy: True always copies, False raises UnsupportedError if a view is not possible.

    InvalidArgumentError for a buffer of another length; other errors as in `pack`.

    >>> unpack(Shape.parse("s8[2,3]{0,1}"), bytes([1, 4, 2, 5, 3, 6]), copy=False)
    array([[1, 2, 3],
           [4, 5, 6]], dtype=int8)
    """
    shape = array_of(shape)
    storage = _Storage(shape)
    given = _bytes_of(buffer)
    size = physical_bytes(shape)
    if given.size != size:
        raise InvalidArgumentError(f"the buffer of {brief(shape)} has {size} bytes, found {given.size}", field="buffer")
    dimensions = geometry(shape).dimensions
    limits.check("dimensions of a NumPy array", len(dimensions), _MAX_DIMENSIONS, field="shape")
    strides = None if storage.packed_bits else view_strides(shape)
    if not copy and strides is not None:
        item = storage.dtype.itemsize
        viewed: _Array = np.ndarray(dimensions, storage.dtype, given, 0, [stride * item for stride in strides])
        if not given.flags.writeable:
            viewed.flags.writeable = False
        return viewed
    if copy is False:
        why = "elements share bytes" if storage.packed_bits else "its tiles divide a dimension"
        raise UnsupportedError(f"an array cannot be a view of the buffer of {brief(shape)}: {why}")
    result = _new(shape, dimensions, storage.dtype)
    if storage.packed_bits and _move_joined(shape, storage, _plain(result), given, into_buffer=False):
        return result
    if storage.packed_bits:
        flat = unpack_bits(given, storage.packed_bits, geometry(shape).elements)
        if storage.dtype == np.bool_:
            np.minimum(flat, 1, out=flat)
    else:
        flat = given.view(_PLAIN[storage.dtype.itemsize])
    _move(shape, _plain(result), flat, into_buffer=False)
    return result


def relayout(buffer: Any, from_shape: Shape, to_shape: Shape, *, fill: Any = None) -> NDArray[np.uint8]:
    """Converts a buffer to another layout of the same array: the buffer of `from_shape` → a new buffer of `to_shape`.

    Both shapes have the same dimensions and element type; tiles, orders, packing and tail padding may differ. Errors as
    in `pack` and `unpack`, and InvalidShapeError where the arrays differ.

    >>> relayout(bytes(range(6)), Shape.parse("u8[2,3]{1,0}"), Shape.parse("u8[2,3]{0,1}")).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    source, target = array_of(from_shape), array_of(to_shape)
    if source.dimensions != target.dimensions or source.element_type != target.element_type:
        raise InvalidShapeError(f"{source} and {target} are not the same array in two layouts", field="to_shape")
    return pack(target, unpack(source, buffer), fill=fill)


def _fill_value(shape: Shape, storage: _Storage, fill: Any) -> _Array:
    """`fill` as an array of no dimensions, or InvalidArgumentError if the type has no such value."""
    if fill is None:
        return np.zeros((), np.uint8).repeat(storage.dtype.itemsize).view(storage.dtype).reshape(())
    try:
        given: _Array = np.asarray(fill)
    except (ValueError, TypeError):
        given = np.empty(1)
    if given.ndim == 0:
        value = given if given.dtype == storage.dtype else _converted(shape.element_type, storage.dtype, given)
        if value is not None:
            return value
    raise InvalidArgumentError(f"fill takes a value of {shape.element_type.text}, found {fill!r:.60}", field="fill")


class _Storage:
    """How one element of a shape is stored: its NumPy type, the bits of its value, and `packed_bits`, the bits from one
    element to the next if elements share bytes, else 0.
    """

    __slots__ = ("dtype", "packed_bits", "value_bits")

    def __init__(self, shape: Shape) -> None:
        kind = shape.element_type
        stored, natural = stored_bits(shape), max(8, kind.bit_width)
        self.value_bits = 1 if kind is PrimitiveType.PRED else kind.bit_width
        self.packed_bits = stored if stored < 8 else 0
        fits = stored == self.value_bits if self.packed_bits and kind is not PrimitiveType.PRED else stored <= natural
        if not fits or (stored > 8 and stored != natural):
            raise UnsupportedError(
                f"the layout of {brief(shape)} stores a {kind.text} in {stored} bits, which says nothing of how"
            )
        self.dtype = kind.numpy_dtype()


def _plain(array: _Array) -> _Array:
    return array.view(_PLAIN[array.itemsize])


def _values(shape: Shape, storage: _Storage, array: ArrayLike) -> _Array:
    """`array` as a NumPy array of the shape's dimensions and type, in the machine's byte order. Not copied if it
    already is one.
    """
    try:
        values: _Array = np.asarray(array)
    except (ValueError, TypeError):
        raise InvalidArgumentError(
            f"{brief(shape)} takes an array, found rows of different lengths", field="array"
        ) from None
    dimensions = geometry(shape).dimensions
    if values.shape != dimensions:
        found = "[" + ",".join(map(str, values.shape)) + "]"
        raise InvalidArgumentError(
            f"{brief(shape)} takes an array of its dimensions, found one of {found}", field="array"
        )
    if values.dtype.newbyteorder("=") == storage.dtype:
        return values.astype(storage.dtype, copy=False)
    if not hasattr(array, "dtype"):
        converted = _converted(shape.element_type, storage.dtype, values)
        if converted is not None:
            return converted
    raise InvalidArgumentError(
        f"{brief(shape)} takes values of {storage.dtype.name}, found {values.dtype.name}", field="array"
    )


def _converted(kind: PrimitiveType, dtype: np.dtype[Any], values: _Array) -> _Array | None:
    """Plain numbers as `dtype`, or None if the type cannot hold one of them. Only real and complex types may round."""
    source = values.dtype.kind
    if not values.size:
        return values.astype(dtype)
    if source not in "biufc" or (source == "c" and not kind.is_complex):
        return None
    with np.errstate(all="ignore"):
        converted: _Array = values.astype(dtype)
        if kind.is_floating or kind.is_complex:
            return converted
        if source == "f":
            return converted if bool(np.all(converted.astype(values.dtype) == values)) else None
    bits = 1 if kind is PrimitiveType.PRED else kind.bit_width
    low, high = (-1 << bits - 1, (1 << bits - 1) - 1) if kind.is_signed_integral else (0, (1 << bits) - 1)
    return converted if low <= int(values.min()) and int(values.max()) <= high else None


def _bytes_of(buffer: Any) -> NDArray[np.uint8]:
    if isinstance(buffer, np.ndarray):
        array: _Array = np.asarray(cast("_Array", buffer))
        if not array.dtype.hasobject:
            return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    else:
        try:
            with memoryview(buffer) as view:
                if view.nbytes == 0:
                    return np.empty(0, np.uint8)
                if not view.c_contiguous:
                    return np.frombuffer(view.tobytes(), np.uint8)
            return np.frombuffer(buffer, np.uint8)
        except (TypeError, ValueError, BufferError):
            pass
    raise InvalidArgumentError(
        f"expected the bytes of a buffer, found {type(cast('object', buffer)).__name__}", field="buffer"
    )


def _given(shape: Shape, size: int, out: NDArray[np.uint8]) -> NDArray[np.uint8]:
    given = _bytes_of(out)
    if given.size != size:
        raise InvalidArgumentError(f"the buffer of {brief(shape)} has {size} bytes, found {given.size}", field="out")
    if not given.flags.writeable or not np.may_share_memory(given, np.asarray(out)):
        raise InvalidArgumentError("out takes a writable contiguous buffer", field="out")
    return given


def _new(shape: Shape, sizes: int | tuple[int, ...], dtype: np.dtype[Any] | str, *, zero: bool = False) -> _Array:
    try:
        return np.zeros(sizes, dtype) if zero else np.empty(sizes, dtype)
    except (MemoryError, ValueError) as error:
        raise LimitExceededError(
            f"an array or buffer of {brief(shape)} does not fit in memory: {error}", limit="memory"
        ) from None


def _fill_padding(shape: Shape, flat: _Array, unit: Any) -> None:
    """Writes `unit` into all padding. It may overwrite elements too, so it is called before they are written."""
    array = geometry(shape)
    if array.elements == math.prod(array.dimensions):
        return
    first = array.steps[0] if array.steps else None
    if first is not None and any(
        _pads(step) or len(step.kept) < len(first.kept) + len(first.tile) for step in array.steps[1:]
    ):
        flat.fill(unit)
        return
    # Only the first tile pads, and later tiles stay inside it: the padding is in the last tiles of each dimension.
    flat[array.tiled_elements :] = unit
    if first is not None and array.tiled_elements:
        tiles = flat[: array.tiled_elements].reshape(*first.kept, *first.counts, -1)
        for i, (size, t) in enumerate(zip(first.sizes, first.tile, strict=True), len(first.kept)):
            if size % t:
                tiles[(*[slice(None)] * i, -1)] = unit


def _pads(step: TileStep) -> bool:
    return any(size % t for size, t in zip(step.sizes, step.tile, strict=True))


def _move(shape: Shape, array: _Array, flat: _Array, *, into_buffer: bool) -> None:
    """Copies all elements between an array and its buffer. Padding is not changed."""
    if not array.size:
        return
    copy_plan = plan(shape)
    if copy_plan is None:
        _move_by_positions(shape, array, flat, into_buffer)
        return
    ordered = np.transpose(array, copy_plan.transpose)
    # Merging dimensions copies the array unless their strides fit together.
    merged = cast("_Array", ordered.reshape(copy_plan.merged))
    for block in copy_plan.blocks:
        copy_block(merged, flat, block, into_buffer=into_buffer)
    if not into_buffer and not np.may_share_memory(merged, array):
        ordered[...] = merged.reshape(ordered.shape)


def _move_joined(
    shape: Shape, storage: _Storage, array: _Array, buffer: _Bytes, *, into_buffer: bool, unit: Any = 0
) -> bool:
    """`_move` for elements that share bytes. False, with nothing moved, if the elements of a byte do not lie on one
    axis.
    """
    bits = storage.packed_bits
    copy_plan = plan(shape) if array.size and 8 % bits == 0 and bits == storage.value_bits else None
    if copy_plan is None or copy_plan.merged != array.shape or not all(joins(b, 8 // bits) for b in copy_plan.blocks):
        return False
    mask = (1 << bits) - 1
    if into_buffer and geometry(shape).elements > array.size:
        buffer.fill(_repeated_bits(int(unit) & mask, bits))
    for block in copy_plan.blocks:
        copy_joined(array, buffer, block, bits, mask, into_buffer=into_buffer)
    return True


def _repeated_bits(value: int, bits: int) -> int:
    return sum([value << at for at in range(0, 8, bits)])


def _move_by_positions(shape: Shape, array: _Array, flat: _Array, into_buffer: bool) -> None:
    """`_move` for tiles that do not divide each other: the positions of all elements are computed."""
    sizes = array.shape
    step = max(1, _GATHERED * sizes[0] // array.size)
    axes: list[Any] = list(np.indices(sizes, sparse=True))
    rows = axes[0]
    for start in range(0, sizes[0], step):
        axes[0] = rows[start : start + step]
        part = array[start : start + step]
        positions = np.broadcast_to(physical_position(shape, axes), part.shape)
        if into_buffer:
            flat[positions] = part
        else:
            part[...] = flat[positions]
