"""Tiled indexing against NumPy's own pad, reshape and transpose, on random shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from xlashape.shape import COMBINE, WHOLE_DIMENSION, Layout, Shape, Tile, tiling

PADDING = -1


def image(shape: Shape) -> NDArray[np.int64]:
    """What lies in the buffer: at each position the number of an element in row-major order, or PADDING.

    The definition of tiling in the words of NumPy, sharing nothing with the library's formula.
    """
    layout = shape.layout
    assert layout is not None
    order = layout.major_to_minor
    array = np.arange(math.prod(shape.dimensions), dtype=np.int64).reshape(shape.dimensions).transpose(order)
    for tile in layout.tiles:
        array = array.reshape((1,) * (len(tile.dimensions) - array.ndim) + array.shape)
        kept = list(array.shape[: array.ndim - len(tile.dimensions)])
        merged: list[int] = []
        running = 1
        for size, t in zip(array.shape[len(kept) :], tile.dimensions, strict=True):
            running *= size
            if t != COMBINE:
                merged.append(running)
                running = 1
        array = array.reshape(kept + merged)
        sizes = [t for t in tile.dimensions if t != COMBINE]
        sizes = [max(d, 1) if t == WHOLE_DIMENSION else t for d, t in zip(merged, sizes, strict=True)]
        array = np.pad(
            array,
            [(0, 0)] * len(kept) + [(0, -d % t) for d, t in zip(merged, sizes, strict=True)],
            constant_values=PADDING,
        )
        split = list(kept)
        for d, t in zip(array.shape[len(kept) :], sizes, strict=True):
            split += [d // t, t]
        array = array.reshape(split)
        axes = range(len(kept), len(split))
        array = array.transpose([*range(len(kept)), *axes[::2], *axes[1::2]])
    flat = array.reshape(-1)
    return np.pad(flat, (0, -flat.size % layout.tail_padding_alignment_in_elements), constant_values=PADDING)


@st.composite
def tiles(draw: st.DrawFn) -> Tile:
    length = draw(st.integers(1, 4))
    sizes = [draw(st.sampled_from([1, 2, 3, 4, 5, 8, COMBINE, WHOLE_DIMENSION])) for _ in range(length - 1)]
    return Tile([*sizes, draw(st.sampled_from([1, 2, 3, 4, 6, 8, WHOLE_DIMENSION]))])


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Arrays whose buffers have at most a few thousand elements; some of them empty, some scalars, some longer than
    their tiles."""
    while True:
        rank = draw(st.integers(0, 4))
        dimensions = [draw(st.sampled_from([0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17])) for _ in range(rank)]
        chosen = draw(st.lists(tiles(), max_size=3))
        order = draw(st.permutations(range(rank)))
        tail = draw(st.sampled_from([1, 1, 1, 2, 3, 16, 100]))
        shape = Shape.array("s32", dimensions, Layout(order, chosen, tail), [draw(st.booleans()) for _ in range(rank)])
        if tiling.physical_elements(shape) <= 20_000:
            return shape


def all_indices(dimensions: tuple[int, ...]) -> NDArray[np.int64]:
    """Every index, in row-major order: int64[elements, rank]."""
    return np.stack([axis.ravel() for axis in np.indices(dimensions)], 1) if dimensions else np.zeros((1, 0), np.int64)


@settings(max_examples=400, derandomize=True, deadline=None)
@given(shapes())
def test_every_element_and_every_position(shape: Shape) -> None:
    truth = image(shape)
    rows = all_indices(shape.dimensions)
    assert tiling.physical_elements(shape) == truth.size
    assert tiling.physical_bytes(shape) == 4 * truth.size
    assert (truth != PADDING).sum() == len(rows)

    where = np.empty(len(rows), np.int64)
    where[truth[truth != PADDING]] = np.flatnonzero(truth != PADDING)
    np.testing.assert_array_equal(tiling.linear_indices(shape, rows), where)

    back, is_element = tiling.multi_indices(shape, np.arange(truth.size))
    np.testing.assert_array_equal(is_element, truth != PADDING)
    np.testing.assert_array_equal(back[is_element], rows[truth[is_element]])
    assert (back[~is_element] == -1).all()


@settings(max_examples=150, derandomize=True, deadline=None)
@given(shapes(), st.data())
def test_single_questions_agree(shape: Shape, data: st.DataObject) -> None:
    truth = image(shape)
    if not truth.size:
        return
    position = data.draw(st.integers(0, truth.size - 1))
    index = tiling.multi_index(shape, position)
    if truth[position] == PADDING:
        assert index is None
    else:
        assert index == tuple(int(i) for i in np.unravel_index(truth[position], shape.dimensions))
        assert tiling.linear_index(shape, index) == position


@settings(max_examples=150, derandomize=True, deadline=None)
@given(shapes())
def test_the_formula_over_arrays(shape: Shape) -> None:
    """`physical_position` and `logical_index` as they stand, without the program made of them."""
    truth = image(shape)
    if not truth.size:
        return
    axes: list[Any] = list(np.indices(shape.dimensions, sparse=True))
    positions = np.broadcast_to(tiling.physical_position(shape, axes), shape.dimensions)
    np.testing.assert_array_equal(truth[positions.ravel()], np.arange(positions.size))

    index, conditions = tiling.logical_index(shape, np.arange(truth.size))
    is_element = np.ones(truth.size, bool)
    for value, size in conditions:
        is_element &= np.asarray(value) < size
    np.testing.assert_array_equal(is_element, truth != PADDING)
    for d, (coordinate, size) in enumerate(zip(index, shape.dimensions, strict=True)):
        expected = truth[is_element] // math.prod(shape.dimensions[d + 1 :]) % size
        np.testing.assert_array_equal(np.broadcast_to(coordinate, truth.shape)[is_element], expected)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.lists(st.integers(1, 1 << 14), min_size=1, max_size=4), st.lists(tiles(), max_size=3), st.data())
def test_large_sizes_by_round_trip(dimensions: list[int], chosen: list[Tile], data: st.DataObject) -> None:
    shape = Shape.array("u8", dimensions, Layout(data.draw(st.permutations(range(len(dimensions)))), chosen))
    index = tuple(data.draw(st.integers(0, size - 1)) for size in dimensions)
    position = tiling.linear_index(shape, index)
    assert tiling.physical_position(shape, index) == position
    assert tiling.multi_index(shape, position) == index
    assert tiling.linear_indices(shape, [index]).tolist() == [position]
    rows, is_element = tiling.multi_indices(shape, [position])
    assert rows.tolist() == [list(index)]
    assert is_element.tolist() == [True]


@settings(max_examples=300, derandomize=True, deadline=None)
@given(shapes(), st.sampled_from(["s8", "u16", "s32", "f64", "c128"]), st.booleans())
def test_whole_arrays(shape: Shape, element_type: str, reverse: bool) -> None:
    """`pack` and `unpack` place each element as the image does, whatever the strides of the array."""
    truth = image(shape)
    shape = shape.with_element_type(element_type)
    dtype = shape.element_type.numpy_dtype()
    numbers = np.arange(math.prod(shape.dimensions)) % 100
    values = numbers.reshape(shape.dimensions).astype(dtype)
    given_values = np.asfortranarray(values[::-1])[::-1] if reverse and shape.rank else values
    expected = np.full(truth.size, 101, dtype)
    expected[truth != PADDING] = values.ravel()[truth[truth != PADDING]]
    buffer = tiling.pack(shape, given_values, fill=101)
    np.testing.assert_array_equal(buffer.view(dtype), expected)
    np.testing.assert_array_equal(tiling.unpack(shape, buffer), values)
    np.testing.assert_array_equal(tiling.unpack(shape, buffer, copy=True), values)
