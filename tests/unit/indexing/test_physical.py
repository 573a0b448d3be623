"""Layouts as maps, maps between positions, and the counts, strides and tiles that follow from them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hlo_builder import Builder, one_op
from map_enumeration import elements

from xlashape import indexing
from xlashape.errors import InvalidArgumentError, InvalidShapeError, LimitExceededError
from xlashape.indexing.answers.leaves import is_unbounded
from xlashape.indexing.reports import utilisation
from xlashape.indexing.reports.counting import distinct_elements, distinct_rows, point_count
from xlashape.shape import Shape, tiling
from xlashape.symbolic import IndexingMap, dim

SHAPES = [
    "f32[]",
    "f32[7]",
    "f32[3,5]",
    "f32[3,5]{0,1}",
    "f32[3,5]{1,0:T(2,2)}",
    "f32[4,8]{1,0:T(2,4)(2,1)}",
    "f32[3,4,5]{1,2,0:T(2,4)}",
    "f32[2,7,3,4,5]{4,3,2,1,0:T(*,*,2,*,3)}",
    "f32[5]{0:T(8)L(16)}",
    "f32[3,5]{1,0:T(4,4)(2,1)L(64)}",
    "f32[3,1]{1,0:T(2,128)}",
    "pred[5,3]{0,1:T(8,128)(32,1)}",
]


@pytest.mark.parametrize("text", SHAPES)
def test_a_layout_is_a_map(text: str) -> None:
    shape = Shape.parse(text)
    forth, back = indexing.logical_to_physical(shape), indexing.physical_to_logical(shape)
    places = {}
    for index in itertools.product(*[range(n) for n in shape.dimensions]):
        expected = (tiling.linear_index(shape, index),)
        assert forth.evaluate(index) == forth.simplify().evaluate(index) == expected
        places[expected] = index
    for position in range(tiling.physical_elements(shape)):
        assert back.evaluate((position,)) == back.simplify().evaluate((position,)) == places.get((position,))
    assert forth.compose(back).is_identity or 1 in shape.dimensions


def test_the_documented_layout() -> None:
    forth = indexing.logical_to_physical(Shape.parse("f32[3,5]{1,0:T(2,2)}"))
    expected = "(d0, d1) -> ((d0 floordiv 2) * 12 + (d1 floordiv 2) * 4 + (d0 mod 2) * 2 + d1 mod 2)"
    assert forth.to_text("affine") == f"{expected}, domain: d0 in [0, 2], d1 in [0, 4]"
    assert forth.evaluate((2, 3)) == (17,)


def test_what_has_no_positions() -> None:
    with pytest.raises(InvalidShapeError):
        indexing.logical_to_physical(Shape.parse("(f32[2], s32[])"))
    with pytest.raises(InvalidShapeError):
        indexing.physical_to_logical(Shape.parse("token[]"))
    with pytest.raises(InvalidArgumentError, match="no positions"):
        indexing.output_to_input_physical(one_op("after-all", "token[]", ["token[]"]))


@pytest.mark.parametrize(
    ("output", "operand"),
    [
        ("f32[5,3]", "f32[3,5]"),
        ("f32[5,3]{0,1}", "f32[3,5]"),
        ("f32[5,3]{1,0:T(2,2)}", "f32[3,5]{1,0:T(2,4)(2,1)}"),
        ("f32[5,3]{0,1:T(4)}", "f32[3,5]{1,0:T(2,2)}"),
    ],
)
def test_a_transpose_between_positions(output: str, operand: str) -> None:
    root = one_op("transpose", output, [operand], dimensions=[1, 0])
    (read,) = indexing.output_to_input_physical(root)
    out, source = root.shape, root.operands[0].shape
    found = {}
    for position in range(tiling.physical_elements(out)):
        at = read.map.evaluate((position,))
        index = tiling.multi_index(out, position)
        assert at == (None if index is None else (tiling.linear_index(source, (index[1], index[0])),))
        found[position] = at
    assert len({at for at in found.values() if at is not None}) == 15


def test_runtime_variables_stay() -> None:
    root = one_op("dynamic-slice", "f32[4]", ["f32[16]{0:T(8)}", "s32[]"], dynamic_slice_sizes=[4])
    source, offset = indexing.output_to_input_physical(root)
    assert str(source.map) == "(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 3], rt0 in [0, 12]"
    assert source.runtime[0].instruction is root.operands[1]
    assert str(offset.map) == "(d0) -> (0), domain: d0 in [0, 3]"


# -- counting
# ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "(d0, d1) -> (d0 + d1), domain: d0 in [0, 4], d1 in [0, 6]",
        "(d0, d1) -> (d0 * 3 + d1), domain: d0 in [0, 4], d1 in [0, 6]",
        "(d0, d1) -> (d0 * 9 + d1), domain: d0 in [0, 4], d1 in [0, 6]",
        "(d0, d1) -> (d0 * 9 - d1 * 2), domain: d0 in [0, 4], d1 in [0, 3]",
        "(d0, d1)[s0] -> (d0 * 100 + s0 * 10 + d1 * 7), domain: d0 in [0, 4], d1 in [0, 3], s0 in [0, 2]",
        "(d0, d1) -> (d0 / 2, d0 mod 2, d1), domain: d0 in [0, 8], d1 in [0, 3]",
        "(d0, d1) -> (d0), domain: d0 in [0, 8], d1 in [0, 3], d0 + d1 in [5, 6]",
        "(d0, d1) -> (), domain: d0 in [0, 8], d1 in [0, 3], d0 mod 5 in [4, 4]",
        "(d0, d1)[s0] -> (d0 - d0 / 3, s0), domain: d0 in [2, 8], d1 in [1, 3], s0 in [0, 4], s0 mod 2 in [1, 1]",
        "(d0) -> (5, 2), domain: d0 in [0, 8]",
        "() -> ()",
        "KNOWN EMPTY",
    ],
)
def test_counts(text: str) -> None:
    found = IndexingMap.parse(text)
    points = list(found.domain_points())
    assert point_count(found) == len(points)
    assert distinct_elements(found) == len({found.evaluate(point) for point in points})


def test_counts_of_large_maps() -> None:
    assert distinct_elements(IndexingMap.from_sizes([1 << 20, 1 << 20], results=[])) == 1
    big = IndexingMap.parse("(d0, d1) -> (d0 * 1048576 + d1, 0), domain: d0 in [0, 1048575], d1 in [0, 1048575]")
    assert (point_count(big), distinct_elements(big)) == (1 << 40, 1 << 40)
    hard = IndexingMap.parse("(d0, d1) -> ((d0 * 7 + d1) mod 1000003), domain: d0 in [0, 1048575], d1 in [0, 1048575]")
    assert (point_count(hard), distinct_elements(hard)) == (1 << 40, None)


# -- utilisation
# ----------------------------------------------------------------------------------------------------


def test_utilisation_of_a_slice_and_a_broadcast() -> None:
    parts = [{"start": 0, "limit": 10, "stride": 2}, {"start": 3, "limit": 7, "stride": 1}]
    (found,) = indexing.operand_utilisation(one_op("slice", "f32[5,4]", ["f32[10,8]"], slice_dimensions=parts))
    assert found == indexing.OperandUtilisation(80, 20, 20)
    assert (found.utilisation, found.reads_per_element) == (0.25, 1.0)
    (found,) = indexing.operand_utilisation(one_op("broadcast", "f32[6,4]", ["f32[4]"], dimensions=[1]))
    assert (found.utilisation, found.reads_per_element) == (1.0, 6.0)


def test_utilisation_of_a_dot() -> None:
    numbers = {"lhs_contracting_dimensions": [1], "rhs_contracting_dimensions": [0]}
    root = one_op("dot", "f32[1024,2048]", ["f32[1024,512]", "f32[512,2048]"], dot_dimension_numbers=numbers)
    lhs, rhs = indexing.operand_utilisation(root)
    assert (lhs.utilisation, lhs.reads_per_element) == (1.0, 2048.0)
    assert (rhs.utilisation, rhs.reads_per_element) == (1.0, 1024.0)


def test_utilisation_of_runtime_offsets() -> None:
    source, offset = indexing.operand_utilisation(
        one_op("dynamic-slice", "f32[4]", ["f32[16]", "s32[]"], dynamic_slice_sizes=[4])
    )
    assert source == indexing.OperandUtilisation(16, 4, 4)
    assert offset == indexing.OperandUtilisation(1, 1, 4)
    numbers = {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 1}
    root = one_op(
        "gather", "f32[5,8]", ["f32[100,8]", "s32[5,1]"], gather_dimension_numbers=numbers, gather_slice_sizes=[1, 8]
    )
    rows, indices = indexing.operand_utilisation(root)
    assert rows == indexing.OperandUtilisation(800, 40, 40, is_upper_bound=True)
    assert indices == indexing.OperandUtilisation(5, 5, 40)


def test_utilisation_of_several_accesses() -> None:
    inner = Builder("f")
    p = inner.parameter("f32[10]")
    first = inner.op("slice", "f32[6]", [p], slice_dimensions=[{"start": 0, "limit": 6, "stride": 1}])
    second = inner.op("slice", "f32[6]", [p], slice_dimensions=[{"start": 2, "limit": 8, "stride": 1}])
    inner.op("add", "f32[6]", [first, second])
    builder = Builder()
    builder.op("fusion", "f32[6]", [builder.parameter("f32[10]")], calls=[inner])
    (found,) = indexing.operand_utilisation(builder.root())
    assert found == indexing.OperandUtilisation(10, 8, 12)


def test_utilisation_of_what_is_not_known_or_not_read() -> None:
    root = one_op("frobnicate", "f32[4]", ["f32[4]"] * 3)
    found = indexing.operand_utilisation(root)
    assert [one.utilisation for one in found] == [None] * 3
    builder = Builder()
    builder.op("tuple", "(f32[4], f32[2])", [builder.parameter("f32[4]"), builder.parameter("f32[2]")])
    assert [one.distinct for one in indexing.operand_utilisation(builder.root(), 1)] == [0, 2]


def test_utilisation_looks_once_at_an_output_of_many_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder()
    operands = [builder.parameter("f32[2]") for _ in range(50)]
    builder.op("tuple", f"({', '.join(['f32[2]'] * 50)})", operands)
    root = builder.root()
    maps = indexing.output_to_input(root)
    looked: list[Shape] = []
    monkeypatch.setattr(utilisation, "is_unbounded", lambda shape: looked.append(shape) or is_unbounded(shape))
    assert len(utilisation.utilisation_of(root, maps)) == 50
    assert looked.count(root.shape) == 1
    assert len(looked) == 51


# -- coalescing
# ----------------------------------------------------------------------------------------------------


def test_coalescing() -> None:
    (same,) = indexing.coalescing(one_op("negate", "f32[64,64]", ["f32[64,64]"]))
    assert (same.stride, same.segments, same.ideal, same.efficiency) == (1, 1.0, 1, 1.0)
    (turned,) = indexing.coalescing(one_op("transpose", "f32[64,64]", ["f32[64,64]"], dimensions=[1, 0]))
    assert (turned.stride, turned.segments, turned.efficiency) == (64, 32.0, 1 / 32)
    (copied,) = indexing.coalescing(one_op("copy", "f32[64,64]{0,1}", ["f32[64,64]{1,0}"]))
    assert copied.stride == 64
    (free,) = indexing.coalescing(one_op("bitcast", "f32[4096]", ["f32[64,64]{0,1}"]))
    assert free.stride == 1
    (one,) = indexing.coalescing(one_op("broadcast", "f64[64]", ["f64[]"]))
    assert (one.stride, one.segments, one.ideal, one.efficiency) == (0, 1.0, 1.0, 1.0)
    rows, start = indexing.coalescing(one_op("reduce", "f32[64]", ["f32[64,100]", "f32[]"], dimensions=[1]))
    assert (rows.stride, rows.segments) == (100, 1.0)  # the lanes of a warp take successive elements of a row
    assert start.operand == 1
    with pytest.raises(InvalidArgumentError, match="at least 1"):
        indexing.coalescing(one_op("negate", "f32[4]", ["f32[4]"]), warp=0)


def test_coalescing_of_every_warp_by_hand() -> None:
    root = one_op("transpose", "bf16[6,40]{1,0:T(2,8)}", ["bf16[40,6]{1,0:T(8,2)}"], dimensions=[1, 0])
    (found,) = indexing.coalescing(root, warp=16, segment_bytes=32)
    (read,) = indexing.output_to_input_physical(root)
    counts = []
    for first in range(0, tiling.physical_elements(root.shape), 16):
        places = [at[0] for p in range(first, first + 16) if (at := read.map.evaluate((p,))) is not None]
        if places:
            counts.append(len({place * 2 // 32 for place in places}))
    assert found.segments == pytest.approx(sum(counts) / len(counts))


# -- tiles
# ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tile", "expected"),
    [
        ("(d0, d1) -> (d1, d0), domain: d0 in [0, 9], d1 in [0, 19]", [2, 5], ((0, 0), (5, 2), (1, 1))),
        ("(d0) -> (d0 * 2 + 3), domain: d0 in [0, 9]", [4], ((3,), (4,), (2,))),
        ("(d0) -> (-d0 + 9, 0), domain: d0 in [0, 9]", [4], ((6, 0), (4, 1), (1, 0))),
        ("(d0)[s0] -> (d0, s0), domain: d0 in [0, 9], s0 in [0, 4]", [4], ((0, 0), (4, 5), (1, 1))),
        ("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]", [16], ((0, 0), (2, 8), (1, 1))),
        ("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]", [4], ((0, 0), (1, 4), (0, 1))),
        ("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]", [12], None),
        ("(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]", [2, 8], ((0,), (16,), (1,))),
        ("(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]", [4, 1], ((0,), (4,), (8,))),
        ("(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]", [2, 4], None),
        ("(d0)[s0] -> (d0 * 8 + s0), domain: d0 in [0, 9], s0 in [0, 7]", [3], ((0,), (24,), (1,))),
        ("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 9], rt0 in [2, 5]", [3], ((2,), (3,), (1,))),
        ("(d0) -> (d0 - 4), domain: d0 in [4, 9]", [3], None),
    ],
)
def test_tiles(text: str, tile: list[int], expected: tuple[tuple[int, ...], ...] | None) -> None:
    found = indexing.push_tile(IndexingMap.parse(text), tile)
    assert found == (None if expected is None else indexing.TileBox(*expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(d0, d1) -> (d1, d0), domain: d0 in [0, 9], d1 in [0, 19]", ("(0, 0)", "(d1, d0)", "(1, 1)")),
        ("(d0, d1) -> (d0 * 2 + 3, d1), domain: d0 in [0, 9], d1 in [0, 19]", ("(3, 0)", "(d0, d1)", "(2, 1)")),
        (
            "(d0, d1)[s0] -> (d0, s0), domain: d0 in [0, 9], d1 in [0, 19], s0 in [0, 4]",
            ("(0, 0)", "(d0, 5)", "(1, 1)"),
        ),
        ("(d0) -> (-d0 + 9), domain: d0 in [0, 9]", ("(9)", "(d0)", "(-1)")),
        ("(d0) -> (0, d0), domain: d0 in [0, 9]", ("(0, 0)", "(1, d0)", "(0, 1)")),
        (
            "(d0)[s0, s1] -> (d0, s0 * 4 + s1), domain: d0 in [0, 1], s0 in [0, 3], s1 in [0, 3]",
            ("(0, 0)", "(d0, 16)", "(1, 1)"),
        ),
        ("(d0)[s0] -> (d0 * 8 + s0), domain: d0 in [0, 9], s0 in [0, 7]", ("(0)", "(d0 * 8)", "(1)")),
        ("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 9], rt0 in [0, 3]", ("(rt0)", "(d0)", "(1)")),
        (
            "(d0, d1)[s0] -> (d0, d1 + s0), domain: d0 in [0, 9], d1 in [0, 19], s0 in [0, 4]",
            ("(0, 0)", "(d0, d1 + 4)", "(1, 1)"),
        ),
        (
            "(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]",
            ("(0, 0)", "((d0 + 7) / 8, d0 - ((d0 - 1) / 8) * 8)", "(1, 1)"),
        ),
        (
            "(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]",
            ("(0)", "(d0 * d1)", "(((-d1 + 9) / 8) * (-((-d0 + 5) / 4) + 1) * 8 - ((-d1 + 9) / 8 - 1))"),
        ),
        ("(d0) -> (d0, d0), domain: d0 in [0, 3]", ("(0, 0)", "(d0, d0)", "(1, 1)")),
        ("(d0) -> ((d0 - 1) / 2), domain: d0 in [1, 9], (d0 - 1) mod 2 in [0, 0]", ("(0)", "(d0 / 2)", "(1)")),
        ("(d0, d1) -> (d0 * d1), domain: d0 in [0, 3], d1 in [0, 3]", None),
        ("KNOWN EMPTY", None),
        ("UNDEFINED", None),
    ],
)
def test_symbolic_tiles(text: str, expected: tuple[str, str, str] | None) -> None:
    """What XLA's SymbolicTile says, and what `push_tile` gives for tiles anywhere."""
    found = IndexingMap.parse(text)
    tile = indexing.symbolic_tile(found)
    if expected is None:
        assert tile is None
        return
    assert tile is not None
    maps = (tile.offset_map, tile.size_map, tile.stride_map)
    assert tuple(f"({', '.join(map(str, part.results))})" for part in maps) == expected
    runtime = [var.bounds.lower for var in found.runtime]
    told = 0
    for sizes in itertools.product(*[range(1, min(8, var.bounds.upper + 1) + 1) for var in found.dims]):
        for starts in ((0,) * len(sizes), sizes, (3,) * len(sizes)):
            box = tile.evaluate(sizes, runtime, starts)
            if box is None:
                continue
            told += 1
            pushed = indexing.push_tile(found, indexing.TileBox(starts, sizes, (1,) * len(sizes)))
            assert (pushed is None) == (0 in box.sizes)
            if pushed is not None:
                assert [axis(*one) for one in zip(*box, strict=True)] == [
                    axis(*one) for one in zip(*pushed, strict=True)
                ]
    assert told > 0


def axis(offset: int, size: int, stride: int) -> set[int]:
    return {offset + k * stride for k in range(size)}


def test_tiles_of_more_elements_than_are_enumerated() -> None:
    """The symbolic tile gives them."""
    large = indexing.TileBox((1 << 20, 0), (1 << 20, 1 << 20), (1, 1))
    found = IndexingMap.parse(
        "(d0, d1) -> (-d1 + 2097151, d0 / 1024, d0 mod 1024), domain: d0 in [0, 2097151], d1 in [0, 2097151]"
    )
    assert indexing.push_tile(found, large) == ((1 << 20, 1024, 0), (1 << 20, 1024, 1024), (1, 1, 1))
    assert indexing.push_tile(found, large._replace(sizes=(1 << 25, 1 << 25))) == (
        (0, 1024, 0),
        (1 << 21, 1024, 1024),
        (1, 1, 1),
    )
    assert indexing.push_tile(found, large._replace(offsets=(1 << 21, 0))) is None
    stepped = IndexingMap.identity([1 << 21, 1 << 21])
    assert indexing.push_tile(stepped, large._replace(strides=(1, 2))) == ((1 << 20, 0), (1 << 20, 1 << 20), (1, 2))


def test_tiles_by_enumeration() -> None:
    root = one_op("reshape", "f32[4,6]", ["f32[8,3]"])
    (read,) = indexing.output_to_input(root)
    for sizes in itertools.product(range(1, 5), range(1, 7)):
        for offsets in ((0, 0), (1, 2), (3, 3)):
            tile = indexing.TileBox(offsets, sizes, (1, 1))
            reached = {
                e
                for index in np.ndindex(*sizes)
                if all(o + i < n for o, i, n in zip(offsets, index, (4, 6), strict=True))
                for e in elements(read[0], tuple(o + i for o, i in zip(offsets, index, strict=True)))
            }
            found = indexing.push_tile(read.map, tile)
            if found is not None:
                axes = [range(o, o + max(1, s) * n, max(1, s))[:n] for o, n, s in zip(*found, strict=True)]
                assert set(itertools.product(*axes)) == reached
            else:
                rows, columns = ({e[i] for e in reached} for i in range(2))
                assert len(rows) * len(columns) != len(reached) or any(
                    np.ptp(np.diff(sorted(v))) for v in (rows, columns) if len(v) > 2
                )


def test_invalid_tiles() -> None:
    found = IndexingMap.identity([4, 4])
    for tile in ([1], [0, 1], [1, -1], 4, None, "44", [1, "4"], [1.0, 1], [True, 1]):
        with pytest.raises(InvalidArgumentError):
            indexing.push_tile(found, tile)
    with pytest.raises(InvalidArgumentError, match="undefined"):
        indexing.push_tile(IndexingMap.undefined(), [1])
    with pytest.raises(LimitExceededError, match="tile elements"):
        indexing.push_tile(IndexingMap.from_sizes([1 << 20, 1 << 20], results=[dim(0) * dim(1)]), [1 << 20, 1 << 20])


@pytest.mark.parametrize("columns", range(4))
@pytest.mark.parametrize("most", [1, 3, 1 << 12, 1 << 40, (1 << 63) - 1])
def test_different_rows_are_counted_as_numpy_counts_them(most: int, columns: int):
    """Small numbers are marked in a table, larger ones sorted as one number, and those beyond int64 as rows."""
    random = np.random.default_rng(most % 97 + columns)
    for count in (0, 1, 40):
        rows = random.integers(-most, most, (count, columns))
        rows = np.concatenate([rows, rows[: count // 2]])
        assert distinct_rows(rows) == (len(np.unique(rows, axis=0)) if columns else min(len(rows), 1))
