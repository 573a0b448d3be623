"""Copies between an array and its tiled buffer that follow the strides of both, without computing positions of
elements.

If every division of the tiling formula divides a single dimension, and the divisors of a dimension divide each other,
the positions are linear in mixed-radix digits of the indices. The array then consists of a few blocks, and each block
is copied by one strided copy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from itertools import product as cartesian
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from xlashape.base.caches import cached
from xlashape.shape.parts.tile import Tile
from xlashape.shape.tiling.floor_sums import position_sums
from xlashape.shape.tiling.formula import geometry
from xlashape.shape.value.shape import Layout, Shape, shape_bytes

_Array = NDArray[Any]

_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_LITTLE_ENDIAN = sys.byteorder == "little"
_PIECE = 1 << 15
"""The number of elements of a piece that is copied at a time. A piece and its source stay in the second-level cache."""
_TRANSIT_BYTES = 1 << 19
"""The number of bytes of a buffer that are copied by way of the cache at a time."""
_WORDS_IN_PIECE = 1 << 20
"""The number of elements that are copied as parts of words or bytes at a time. They and temporary arrays stay in the
third-level cache, and a call of NumPy has so much work that its own time does not matter.
"""
_SIDE = 256
"""The largest number of rows and columns of a block that is transposed at a time."""
_GAP = 16
"""The number of unused elements after each row of a block in the cache. Without them the elements of a column would
share a few cache sets.
"""
_SMALL_BYTES = 1 << 16
"""For an array of fewer bytes the order of copying does not matter."""


class CopyAxis(NamedTuple):
    """One digit of an index. It has `length` values; a step of 1 is `index_step` in `dimension` and `stride` elements
    in the buffer.
    """

    dimension: int
    length: int
    index_step: int
    stride: int


class Block(NamedTuple):
    """The elements from index `starts` on that `axes` reach. A position is `offset` plus the sum of digit × stride."""

    starts: tuple[int, ...]
    offset: int
    axes: tuple[CopyAxis, ...]


class CopyPlan(NamedTuple):
    """The blocks of an array whose dimensions are put in the order `transpose` and then merged to the sizes
    `merged`.
    """

    transpose: tuple[int, ...]
    merged: tuple[int, ...]
    blocks: tuple[Block, ...]


class _Piece(NamedTuple):
    """A part of one dimension: it begins at index `start` and at `offset` in the buffer, and has these `axes`."""

    start: int
    offset: int
    axes: tuple[CopyAxis, ...]


def _weight(key: tuple[Shape], plan: CopyPlan) -> int:
    axes = sum([250 + 130 * len(block.axes) for block in plan.blocks])
    return shape_bytes(key[0]) + 400 + 80 * len(plan.merged) + axes


def plan(shape: Shape) -> CopyPlan | None:
    """The blocks of an array that is not empty, or None if its positions are not linear in digits of single
    dimensions.
    """
    copy_plan = _plan(shape)
    return copy_plan if copy_plan.blocks else None


@cached(max_bytes=2 << 20, weigh=_weight)
def _plan(shape: Shape) -> CopyPlan:
    """The plan of an array; a plan without blocks where its positions are not linear."""
    array = geometry(shape)
    dimensions = array.dimensions
    blocks = _blocks(shape)
    if blocks is not None:
        return CopyPlan(tuple(range(len(dimensions))), dimensions, blocks)
    # Where the first tile combines dimensions, the combined dimensions may have linear positions.
    first = array.steps[0]
    if all(len(group) == 1 for group in first.groups):
        return CopyPlan((), (), ())
    assert shape.layout is not None
    merged = (*first.kept, *first.sizes)
    layout = Layout(range(len(merged) - 1, -1, -1), [Tile(first.tile), *shape.layout.tiles[1:]])
    return CopyPlan(array.major_to_minor, merged, _blocks(Shape(shape.element_type, merged, layout=layout)) or ())


def view_strides(shape: Shape) -> tuple[int, ...] | None:
    """For each dimension the distance in elements from one index to the next, or None if the distances vary."""
    dimensions, sums = position_sums(shape)
    if sums.steps:
        return None
    strides = dict(sums.outputs[0])
    return tuple([strides.get(d, 0) for d in range(len(dimensions))])


def _blocks(shape: Shape) -> tuple[Block, ...] | None:
    dimensions, sums = position_sums(shape)
    rank = len(dimensions)
    # For each dimension: divisor → coefficient of its floor.
    floors: list[dict[int, int]] = [{1: 0} for _ in dimensions]
    for register, coefficient in sums.outputs[0]:
        if register < rank:
            floors[register][1] = coefficient
            continue
        terms, divisor = sums.steps[register - rank]
        if len(terms) != 1 or terms[0][1] != 1 or terms[0][0] >= rank:
            return None
        floors[terms[0][0]][divisor] = coefficient
    pieces: list[list[_Piece]] = []
    for d, size in enumerate(dimensions):
        divisors = sorted(floors[d])
        if any(b % a for a, b in pairwise(divisors)):
            return None
        strides: list[int] = []
        for q in divisors:
            strides.append(sum(c * (q // p) for p, c in floors[d].items() if p <= q))
        pieces.append(_pieces_of(d, size, divisors, strides))
    return tuple(
        [
            Block(
                tuple([piece.start for piece in chosen]),
                sum([piece.offset for piece in chosen]),
                tuple([axis for piece in chosen for axis in piece.axes]),
            )
            for chosen in cartesian(*pieces)
        ]
    )


def _pieces_of(dimension: int, size: int, divisors: Sequence[int], strides: Sequence[int]) -> list[_Piece]:
    """The complete tiles of a dimension, then the complete tiles of the next smaller divisor in the remainder, and so
    on.
    """
    pieces: list[_Piece] = []
    start = offset = 0
    for level in range(len(divisors) - 1, -1, -1):
        whole = (size - start) // divisors[level]
        if not whole:
            continue
        axes = [CopyAxis(dimension, whole, divisors[level], strides[level])]
        for k in range(level - 1, -1, -1):
            axes.append(CopyAxis(dimension, divisors[k + 1] // divisors[k], divisors[k], strides[k]))
        pieces.append(_Piece(start, offset, tuple([axis for axis in axes if axis.length > 1])))
        start += whole * divisors[level]
        offset += whole * strides[level]
    return pieces


def copy_block(array: _Array, buffer: _Array, block: Block, *, into_buffer: bool) -> None:
    """Copies the elements of a block: array → flat buffer, or back. Both have the same plain dtype of 1 to 16 bytes."""
    size = array.itemsize
    axes = _merged(
        [(axis.length, axis.stride * size, axis.index_step * array.strides[axis.dimension]) for axis in block.axes]
    )
    counts = [count for count, _, _ in axes]
    corner = array[(*[slice(start, None) for start in block.starts], ...)]
    in_array = np.lib.stride_tricks.as_strided(corner, counts, [stride for _, _, stride in axes])
    # The constructor checks that nothing lies outside the buffer.
    in_buffer: _Array = np.ndarray(counts, buffer.dtype, buffer, block.offset * size, [stride for _, stride, _ in axes])
    if not into_buffer:
        in_buffer.flags.writeable = False
    _copy(in_array, in_buffer, into_buffer)


def joins(block: Block, joined: int) -> bool:
    """Whether each byte of a buffer that stores `joined` elements in a byte has elements of one axis of the block."""
    aligned = not any(axis.stride % joined for axis in block.axes if axis.stride != 1)
    return aligned and block.offset % joined == 0 and any(a.stride == 1 and a.length % joined == 0 for a in block.axes)


def copy_joined(array: _Array, buffer: _Array, block: Block, bits: int, mask: int, *, into_buffer: bool) -> None:
    """`copy_block` for elements that take a byte each in the array and `bits` bits each in the buffer, side by side.
    `joins` must hold for the block.

    Only the bits of `mask` are written of an element, and the other bits of an element that is read are 0. The work is
    done piece by piece in the cache. A piece has the bytes of the buffer in the order of the array, so that most
    operations run along rows of the array.
    """
    joined = 8 // bits
    axes = _merged([(a.length, a.stride, a.index_step * array.strides[a.dimension]) for a in block.axes])
    count, _, step = axes.pop()
    if count > joined:
        axes.append((count // joined, joined, step * joined))
    counts = [count for count, _, _ in axes]
    corner = array[(*[slice(start, None) for start in block.starts], ...)]
    in_array = np.lib.stride_tricks.as_strided(
        corner, [*counts, joined], [*[stride for _, _, stride in axes], step], writeable=not into_buffer
    )
    strides = [stride // joined for _, stride, _ in axes]
    in_buffer: _Array = np.ndarray(counts, np.uint8, buffer, block.offset // joined, strides)
    # Rows of the piece are rows of the array: the axis with the smallest stride in the array comes last.
    order = sorted(range(len(counts)), key=lambda axis: -abs(axes[axis][2]))
    # Memory of the size of a piece is allocated once. If it were freed and allocated again for each piece, the system
    # would zero it each time.
    scratch: dict[int, _Array] = {}
    for piece, elements in _split(_WORDS_IN_PIECE // joined, in_buffer, in_array):
        # A piece lacks the first axes if `_split` has cut them into single indices.
        gone = len(counts) - piece.ndim
        kept = [axis - gone for axis in order if axis >= gone]
        rows = cast("_Array", elements.transpose(-1, *kept))
        together: _Array = np.empty(rows.shape[1:], np.uint8)
        inverse = sorted(range(len(kept)), key=kept.__getitem__)
        in_order = cast("_Array", together.transpose(inverse))
        if into_buffer:
            _join(rows, together, bits, mask)
        _copy(in_order, piece, into_buffer, scratch)
        if not into_buffer:
            words = _words_of(together)
            for i in range(joined):
                if i:
                    np.right_shift(words, words.dtype.type(bits), out=words)
                np.bitwise_and(together, np.uint8(mask), out=rows[i, ...])  # of one byte too, which has no axes


def _join(parts: _Array, together: _Array, bits: int, mask: int) -> None:
    """Puts the low bits of each part into its bits of the bytes of `together`."""
    np.bitwise_and(parts[0], np.uint8(mask), out=together)
    shifted = np.empty_like(together)
    words = _words_of(shifted)
    for i in range(1, len(parts)):
        np.copyto(shifted, parts[i])
        np.left_shift(words, words.dtype.type(i * bits), out=words)
        np.bitwise_and(shifted, np.uint8(mask << i * bits), out=shifted)
        np.bitwise_or(together, shifted, out=together)


def _words_of(elements: _Array) -> _Array:
    """Bytes as words, which shift 15 times as fast in NumPy; a mask has to clear the bits that come from other
    bytes.
    """
    return elements.reshape(-1).view(np.uint64 if elements.size % 8 == 0 else np.uint8)


def _merged(axes: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The axes as (count, stride in the buffer, stride in the array), most major in the buffer first. Neighbours are
    merged if their strides allow it.
    """
    joined: list[tuple[int, int, int]] = []
    for count, in_buffer, in_array in sorted(axes, key=lambda axis: -axis[1]):
        if joined and joined[-1][1] == count * in_buffer and joined[-1][2] == count * in_array:
            joined[-1] = (joined[-1][0] * count, in_buffer, in_array)
        else:
            joined.append((count, in_buffer, in_array))
    return joined


def _copy(in_array: _Array, in_buffer: _Array, into_buffer: bool, scratch: dict[int, _Array] | None = None) -> None:
    """One strided copy, in an order that is fast in NumPy."""
    size, shape = in_array.itemsize, in_array.shape
    if not shape or (in_array.strides[-1] == size and in_buffer.strides[-1] == size and shape[-1] * size >= 64):
        _copy_runs(in_array, in_buffer, into_buffer)
        return
    inner = shape[-1]
    if in_buffer.strides[-1] == size and inner * size in _WORDS and len(shape) > 1:
        word = inner * size
        if (
            _LITTLE_ENDIAN
            and not any(stride % word for stride in in_buffer.strides[:-1])
            and in_buffer.ctypes.data % word == 0
        ):
            _copy_words(in_array, in_buffer, into_buffer, {} if scratch is None else scratch)
            return
    if in_array.nbytes > _SMALL_BYTES and inner < 8 and len(shape) > 1:
        for piece in _split(_PIECE, in_array, in_buffer):
            for i in range(inner):
                _assign(piece[0][..., i], piece[1][..., i], into_buffer)
        return
    nearest = min(range(len(shape)), key=lambda axis: (abs(in_array.strides[axis]), axis))
    if in_array.nbytes > _SMALL_BYTES and nearest != len(shape) - 1:
        _transpose(in_array, in_buffer, nearest, into_buffer)
        return
    _assign(in_array, in_buffer, into_buffer)


def _copy_runs(in_array: _Array, in_buffer: _Array, into_buffer: bool) -> None:
    """Copies runs of elements that are contiguous on both sides. A copy out of a buffer goes by way of the cache,
    because the runs of the buffer are read out of order.
    """
    if into_buffer or in_buffer.ndim <= 1 or in_buffer.nbytes <= _TRANSIT_BYTES:
        _assign(in_array, in_buffer, into_buffer)
        return
    transit = np.empty(_TRANSIT_BYTES // in_buffer.itemsize, in_buffer.dtype)
    for source, target in _split(transit.size, in_buffer, in_array):
        block = transit[: source.size].reshape(source.shape)
        np.copyto(block, source)
        np.copyto(target, block)


def _assign(in_array: _Array, in_buffer: _Array, into_buffer: bool) -> None:
    if into_buffer:
        np.copyto(in_buffer, in_array)
    else:
        np.copyto(in_array, in_buffer)


def _copy_words(in_array: _Array, in_buffer: _Array, into_buffer: bool, kept: dict[int, _Array]) -> None:
    """Copies elements of 2, 4 or 8 rows that alternate in the buffer. One element of each row together make a wider
    word there, and each element is a part of it.

    NumPy is fast at widening and narrowing casts and slow at strides of a few bytes. Part i of a word is the low part
    of the word that begins i elements later, so no shifts are needed.
    """
    parts, size = in_array.shape[-1], in_array.itemsize
    wide = np.dtype(_WORDS[parts * size])
    words: _Array = in_buffer.view(wide)[..., 0]
    copy_piece = _words_into_buffer if into_buffer else _words_from_buffer
    limit = min(_WORDS_IN_PIECE // parts, words.size)
    # One row for each part, with room for the word that begins later. The bytes before the first byte of a part stay 0.
    scratch = kept.get(limit)
    if scratch is None:
        scratch = kept[limit] = np.zeros((parts, (limit + 1) * wide.itemsize), np.uint8)
    for word, elements in _split(limit, words, in_array):
        copy_piece(word, elements, scratch)


def _words_into_buffer(words: _Array, elements: _Array, scratch: _Array) -> None:
    size, width = elements.itemsize, words.nbytes
    np.copyto(words, elements[..., 0])
    for i in range(1, elements.shape[-1]):
        late: _Array = scratch[i, i * size : i * size + width].view(words.dtype).reshape(words.shape)
        np.copyto(late, elements[..., i])
        np.bitwise_or(words, scratch[i, :width].view(words.dtype).reshape(words.shape), out=words)


def _words_from_buffer(words: _Array, elements: _Array, scratch: _Array) -> None:
    parts, size, count = elements.shape[-1], elements.itemsize, words.size
    flat = np.ascontiguousarray(words).reshape(-1)
    data = flat.view(np.uint8)
    planes: _Array = scratch.reshape(-1)[: parts * count * size].view(elements.dtype).reshape(parts, count)
    np.copyto(planes[0], flat, casting="unsafe")
    for i in range(1, parts):
        late: _Array = data[i * size : data.size - (parts - i) * size].view(words.dtype)
        np.copyto(planes[i, :-1], late, casting="unsafe")
        planes[i, -1] = flat[-1] >> words.dtype.type(8 * size * i)
    np.copyto(np.moveaxis(elements, -1, 0), planes.reshape(parts, *words.shape))


def _transpose(in_array: _Array, in_buffer: _Array, nearest: int, into_buffer: bool) -> None:
    """Copies if rows of one side are columns of the other, block by block by way of the cache. A block in the cache has
    the order of its source.
    """
    a, b = np.moveaxis(in_array, nearest, -2), np.moveaxis(in_buffer, nearest, -2)
    side = _SIDE if a.itemsize <= 4 else _SIDE // 2
    transit: dict[tuple[int, ...], _Array] = {}
    for i in range(0, a.shape[-2], side):
        for j in range(0, a.shape[-1], side):
            part = (..., slice(i, i + side), slice(j, j + side))
            for p, q in _split(side * side, a[part], b[part]):
                source, target = (np.swapaxes(p, -1, -2), np.swapaxes(q, -1, -2)) if into_buffer else (q, p)
                block = transit.get(source.shape)
                if block is None:
                    *outer, width = source.shape
                    block = transit[source.shape] = np.empty((*outer, width + _GAP), a.dtype)[..., :width]
                np.copyto(block, source)
                np.copyto(target, block)


def _split(limit: int, first: _Array, second: _Array) -> Iterator[tuple[_Array, _Array]]:
    """Both arrays, cut along their common first axes into parts of which `first` has at most `limit` elements or one
    row.
    """
    if first.size <= limit or first.ndim == 0:
        yield first, second
        return
    count = first.shape[0]
    step = limit // (first.size // count)
    if step == 0 and first.ndim > 1:
        for i in range(count):
            yield from _split(limit, first[i], second[i])
        return
    for i in range(0, count, max(1, step)):
        yield first[i : i + max(1, step)], second[i : i + max(1, step)]
