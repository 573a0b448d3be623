"""Tiled indexing: the worked examples, XLA's own answers, sizes, and what a wrong question is told."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlashape.errors import InvalidIndexError, InvalidShapeError
from xlashape.shape import COMBINE, WHOLE_DIMENSION, Layout, PrimitiveType, Shape, tiling
from xlashape.symbolic import IndexingMap, Interval, dim

ROWS = [json.loads(line) for line in (Path(__file__).parents[2] / "vectors" / "shapes.jsonl").read_text().splitlines()]


def positions(text: str) -> list[Any]:
    """The positions of all elements, nested as the array is."""
    shape = Shape.parse(text)
    rows = np.stack(np.meshgrid(*[np.arange(d) for d in shape.dimensions], indexing="ij"), -1).reshape(-1, shape.rank)
    return tiling.linear_indices(shape, rows).reshape(shape.dimensions).tolist()


# -- what is true ---------------------------------------------------------------------------


def test_untiled_orders() -> None:
    assert positions("f32[2,3]{0,1}") == [[0, 2, 4], [1, 3, 5]]
    assert positions("f32[2,3]{1,0}") == [[0, 1, 2], [3, 4, 5]]


def test_one_tile() -> None:
    shape = Shape.parse("f32[3,5]{1,0:T(2,2)}")
    assert tiling.linear_index(shape, (2, 3)) == (1 * 3 + 1) * 2 * 2 + (0 * 2 + 1) == 17
    assert tiling.physical_dimensions(shape) == (2, 3, 2, 2)
    assert tiling.physical_elements(shape) == 24
    assert tiling.physical_bytes(shape) == 96
    assert [tiling.multi_index(shape, p) for p in (17, 16, 18, 23)] == [(2, 3), (2, 2), None, None]


def test_repeated_tiles() -> None:
    assert positions("f32[4,8]{1,0:T(2,4)(2,1)}") == [
        [0, 2, 4, 6, 8, 10, 12, 14],
        [1, 3, 5, 7, 9, 11, 13, 15],
        [16, 18, 20, 22, 24, 26, 28, 30],
        [17, 19, 21, 23, 25, 27, 29, 31],
    ]


def test_combine() -> None:
    shape = Shape.parse("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}")
    merged = Shape.parse("f32[112,110]{1,0:T(2,3)}")
    assert tiling.physical_dimensions(shape) == (56, 37, 2, 3)
    assert tiling.physical_elements(shape) == tiling.physical_elements(merged)
    for index in [(0, 0, 0, 0, 0), (1, 6, 7, 10, 9), (1, 2, 3, 4, 5)]:
        a, b, c, d, e = index
        assert tiling.linear_index(shape, index) == tiling.linear_index(merged, ((a * 7 + b) * 8 + c, d * 10 + e))


def test_tiles_as_long_as_their_dimension() -> None:
    """Every tile of up to three of 2, 3, `*` and `d`: as with the size that `d` stands for. Positions are those of
    LayoutUtil::LinearIndex in jaxlib 0.12.0.1."""
    for text, byte_size, position in (("T(d,2)", 96, 19), ("T(2,d)", 96, 15), ("T(d,2)(2,1)", 96, 19)):
        shape = Shape.parse(f"f32[6,4]{{1,0:{text}}}")
        assert str(shape.layout) == f"{{1,0:{text}}}" and Shape.from_proto(shape.to_proto()) == shape
        assert (tiling.physical_bytes(shape), tiling.linear_index(shape, (3, 3))) == (byte_size, position)
    assert str(Shape.parse(f"f32[6,4]{{1,0:T({WHOLE_DIMENSION},2)}}")) == "f32[6,4]{1,0:T(d,2)}"
    for dims in ((6, 4), (4,), (2, 3, 4), (5, 1), (0, 4)):
        order = tuple(range(len(dims)))[::-1]
        for tile in (tile for length in (1, 2, 3) for tile in product((2, 3, COMBINE, WHOLE_DIMENSION), repeat=length)):
            shape = Shape.array("f32", dims, Layout(order, [tile]))
            assert Shape.parse(str(shape)) == Shape.from_proto(shape.to_proto()) == shape
            if tile[-1] == COMBINE:
                with pytest.raises(InvalidShapeError, match="its last size is '\\*', and there is no more minor"):
                    tiling.physical_bytes(shape)
                with pytest.raises(InvalidShapeError, match="its last size is '\\*', and there is no more minor"):
                    tiling.linear_indices(shape, [[0] * len(dims)])
                continue
            plain: list[int] = []
            merged = 1
            for size, t in zip([1] * len(tile) + list(dims), [1] * len(dims) + list(tile), strict=True):
                merged *= size
                plain.append(max(merged, 1) if t == WHOLE_DIMENSION else t)
                merged = merged if t == COMBINE else 1
            same = shape.replace(layout=Layout(order, [plain[len(dims) :]]))
            index = [list(index) for index in np.ndindex(dims)]
            assert tiling.physical_elements(shape) == tiling.physical_elements(same)
            if index:
                assert (tiling.linear_indices(shape, index) == tiling.linear_indices(same, index)).all()


def test_a_tile_longer_than_the_shape() -> None:
    shape = Shape.parse("f32[5]{0:T(2,4)}")
    assert tiling.physical_dimensions(shape) == (1, 2, 2, 4)
    assert [tiling.linear_index(shape, (i,)) for i in range(5)] == [0, 1, 2, 3, 8]
    assert [tiling.multi_index(shape, p) for p in range(16)] == [
        (0,),
        (1,),
        (2,),
        (3,),
        None,
        None,
        None,
        None,
        (4,),
        *[None] * 7,
    ]


def test_a_later_tile_that_reaches_the_counts() -> None:
    shape = Shape.parse("f32[1000]{0:T(1024)(128)(2,1)}")
    assert tiling.physical_dimensions(shape) == (1, 4, 128, 2, 1)
    assert tiling.linear_index(shape, (999,)) == 3 * 256 + (999 - 6 * 128 - 128) * 2 + 1
    assert tiling.physical_dimensions(Shape.parse("f32[9]{0:T(2)(2,2)}")) == (3, 1, 2, 2)


def test_scalars() -> None:
    plain, tiled = Shape.parse("f32[]"), Shape.parse("f32[]{:T(128)}")
    assert tiling.linear_index(plain, ()) == tiling.linear_index(tiled, ()) == 0
    assert (tiling.physical_elements(plain), tiling.physical_elements(tiled)) == (1, 128)
    assert tiling.multi_index(tiled, 0) == ()
    assert tiling.multi_index(tiled, 1) is None
    assert tiling.linear_indices(tiled, np.empty((3, 0), np.int64)).tolist() == [0, 0, 0]
    assert tiling.linear_indices(plain, [(), ()]).tolist() == [0, 0]
    rows, is_element = tiling.multi_indices(tiled, [0, 1])
    assert rows.shape == (2, 0)
    assert is_element.tolist() == [True, False]


def test_tail_padding() -> None:
    shape = Shape.parse("s16[127]{0:L(128)}")
    assert tiling.physical_elements(shape) == 128
    assert tiling.physical_bytes(shape) == 256
    assert tiling.physical_dimensions(shape) == (127,)
    assert tiling.multi_index(shape, 126) == (126,)
    assert tiling.multi_index(shape, 127) is None
    with pytest.raises(InvalidIndexError):
        tiling.multi_index(shape, 128)


@pytest.mark.parametrize(
    "text", ["f32[0]", "f32[3,0]{0,1:T(8,128)}", "f32[0,5]{1,0:T(8,128)(2,1)L(16)}", "f32[4,0,2]{2,1,0:T(*,*,3)}"]
)
def test_empty_arrays(text: str) -> None:
    shape = Shape.parse(text)
    assert tiling.physical_elements(shape) == tiling.physical_bytes(shape) == 0
    assert tiling.linear_indices(shape, np.empty((0, shape.rank), int)).shape == (0,)
    assert [part.shape for part in tiling.multi_indices(shape, [])] == [(0, shape.rank), (0,)]
    with pytest.raises(InvalidIndexError, match="size 0"):
        tiling.linear_index(shape, [0] * shape.rank)
    with pytest.raises(InvalidIndexError, match="size 0"):
        tiling.linear_indices(shape, [[0] * shape.rank])
    with pytest.raises(InvalidIndexError, match="0 elements"):
        tiling.multi_index(shape, 0)
    with pytest.raises(InvalidIndexError, match="0 elements"):
        tiling.multi_indices(shape, [0])
    assert tiling.physical_position(shape, (dim(0),) * shape.rank) == 0
    index, [(_, size)] = tiling.logical_index(shape, dim(0))
    assert index == (0,) * shape.rank
    assert size == 0


def test_packed_elements() -> None:
    assert tiling.physical_bytes(Shape.parse("s4[5]{0:E(4)}")) == 3
    assert tiling.physical_bytes(Shape.parse("s4[5]")) == 5
    assert tiling.physical_bytes(Shape.parse("u1[16,17]{1,0:T(8,128)(4,1)E(1)}")) == 256
    assert tiling.physical_bytes(Shape.parse("pred[3]")) == 3
    assert tiling.stored_bits(Shape.parse("s1[129]{0:E(32)}")) == 32


def test_dynamic_bounds_count_as_sizes() -> None:
    shape = Shape.parse("f32[<=3,5]{1,0:T(2,2)}")
    assert tiling.linear_index(shape, (2, 3)) == 17
    assert tiling.physical_elements(shape) == 24


def test_the_default_layout_and_buffers() -> None:
    bare = Shape(PrimitiveType.F32, (2, 3))
    assert bare.layout is None
    assert tiling.linear_index(bare, (1, 2)) == 5
    assert tiling.physical_elements(bare) == 6
    assert tiling.linear_index(Shape.parse("b(f32[3,5]{1,0:T(2,2)})"), (2, 3)) == 17


def test_split_configs_and_metadata_are_left_aside() -> None:
    assert tiling.physical_bytes(Shape.parse("f32[16,256]{1,0:T(8,128)SC(0:8)M(64)}")) == 4 * 16 * 256


def test_xla_agrees() -> None:
    """LinearIndex on one tile at most, without combine; sizes where XLA's shortcut is exact."""
    indices = sizes = 0
    for row in ROWS:
        shape = Shape.parse(row["text"])
        if not shape.is_array or shape.is_unbounded_dynamic:
            continue
        assert shape.layout is not None
        if "index" in row:
            position = tiling.linear_index(shape, row["index"])
            assert tiling.multi_index(shape, position) == tuple(row["index"])
            if not shape.layout.tiles:
                assert position == row["linear_index_untiled"]
        if "linear_index_one_tile" in row:
            assert tiling.linear_index(shape, row["index"]) == row["linear_index_one_tile"]
            indices += 1
        # ArraySize forgets the tail of an untiled array, and gives nothing for combine.
        tail_forgotten = not shape.layout.tiles and shape.layout.tail_padding_alignment_in_elements > 1
        if "array_size" in row and not tail_forgotten:
            assert tiling.physical_bytes(shape) == row["array_size"], row["text"]
            sizes += 1
    assert indices > 600
    assert sizes > 1000


# -- the formula over expressions -----------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "f32[3,5]{1,0:T(2,2)}",
        "bf16[5,20,30]{0,2,1:T(8,16)(2,1)}",
        "f32[2,7,3]{2,1,0:T(*,4,2)}",
        "f32[10,10]{1,0:T(6,6)(4,4)}",
        "f32[1,4]",
    ],
)
def test_expressions(text: str) -> None:
    shape = Shape.parse(text)
    expression = tiling.physical_position(shape, [dim(i) for i in range(shape.rank)])
    forward = IndexingMap.from_sizes(shape.dimensions, results=[expression])
    index, conditions = tiling.logical_index(shape, dim(0))
    backward = IndexingMap.from_sizes(
        [tiling.physical_elements(shape)], results=[*index, *[condition.value for condition in conditions]]
    )
    for position in range(tiling.physical_elements(shape)):
        results = backward.evaluate((position,))
        assert results is not None
        is_element = all(value < size for value, (_, size) in zip(results[shape.rank :], conditions, strict=True))
        assert tiling.multi_index(shape, position) == (results[: shape.rank] if is_element else None)
        if is_element:
            assert forward.evaluate(results[: shape.rank]) == (position,)


def test_the_expression_of_the_worked_example() -> None:
    shape = Shape.parse("f32[3,5]{1,0:T(2,2)}")
    expression = tiling.physical_position(shape, (dim(0), dim(1)))
    assert expression == dim(0) // 2 * 12 + dim(1) // 2 * 4 + dim(0) % 2 * 2 + dim(1) % 2
    assert Interval(0, 23) == Interval.of_size(tiling.physical_elements(shape))


def test_what_is_known_is_not_computed() -> None:
    assert tiling.physical_position(Shape.parse("f32[4,1,100]{2,1,0:T(8,128)}"), (dim(0), dim(1), dim(2))) == dim(
        0
    ) * 1024 + dim(2)
    assert tiling.physical_position(Shape.parse("f32[1,1]{1,0:T(8,128)}"), (dim(0), dim(1))) == 0
    index, conditions = tiling.logical_index(Shape.parse("f32[16,256]{1,0:T(8,128)}"), dim(0))
    assert conditions == ()
    assert index == (dim(0) // 2048 * 8 + dim(0) // 128 % 8, dim(0) // 1024 % 2 * 128 + dim(0) % 128)


# -- batches of every kind ------------------------------------------------------------------

SHAPE = Shape.parse("f32[3,5]{1,0:T(2,2)}")
INDICES = [(0, 0), (2, 3), (1, 4)]
EXPECTED = [0, 17, 10]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i8", ">u2", object])
def test_row_types(dtype: str) -> None:
    assert tiling.linear_indices(SHAPE, np.array(INDICES, dtype)).tolist() == EXPECTED
    rows, is_element = tiling.multi_indices(SHAPE, np.array(EXPECTED, dtype))
    assert rows.tolist() == [list(index) for index in INDICES]
    assert is_element.all()
    assert (rows.dtype, is_element.dtype) == (np.int64, np.bool_)


def test_strided_and_read_only_rows() -> None:
    table = np.array(INDICES)
    wide = np.full((9, 7), 99)
    wide[::-3, 5:1:-3] = table
    wide.flags.writeable = False
    assert tiling.linear_indices(SHAPE, wide[::-3, 5:1:-3]).tolist() == EXPECTED
    assert tiling.linear_indices(SHAPE, np.asfortranarray(table)).tolist() == EXPECTED
    assert (
        tiling.linear_indices(SHAPE, np.frombuffer(table.astype("<i8").tobytes(), "<i8").reshape(3, 2)).tolist()
        == EXPECTED
    )
    assert tiling.linear_indices(SHAPE, np.broadcast_to(table[1], (4, 2))).tolist() == [17] * 4
    assert tiling.linear_indices(SHAPE, INDICES).tolist() == EXPECTED
    assert tiling.linear_indices(SHAPE, tuple(np.array(index) for index in INDICES)).tolist() == EXPECTED
    assert table.tolist() == [list(index) for index in INDICES]


def test_empty_batches() -> None:
    for rows in ([], (), np.empty((0, 2), np.int64), np.empty((0, 2), np.uint8)):
        result = tiling.linear_indices(SHAPE, rows)
        assert (result.shape, result.dtype) == ((0,), np.int64)
    rows, is_element = tiling.multi_indices(SHAPE, [])
    assert (rows.shape, rows.dtype, is_element.shape) == ((0, 2), np.int64, (0,))


@pytest.mark.parametrize(
    "text", ["f32[70,300,50]{1,2,0}", "bf16[9,300,500]{2,1,0:T(8,128)(2,1)}", "u8[50,60,70]{2,1,0:T(*,9,7)(4,5)}"]
)
def test_many_chunks(text: str) -> None:
    """More rows than one chunk holds, an uneven rest among them."""
    shape = Shape.parse(text)
    count = 100_003
    rng = np.random.default_rng(7)
    rows = np.stack([rng.integers(0, d, count) for d in shape.dimensions], 1)
    found = tiling.linear_indices(shape, rows)
    np.testing.assert_array_equal(found, tiling.physical_position(shape, rows.T))
    back, is_element = tiling.multi_indices(shape, found)
    np.testing.assert_array_equal(back, rows)
    assert is_element.all()
    rows[100_001, 1] = shape.dimensions[1]
    with pytest.raises(InvalidIndexError, match=f"row 100001: index {shape.dimensions[1]} is outside dimension 1"):
        tiling.linear_indices(shape, rows)
    found[99_999] = -5
    with pytest.raises(InvalidIndexError, match="row 99999: position -5 is outside the buffer"):
        tiling.multi_indices(shape, found)
