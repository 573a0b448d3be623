"""Symbolic tiles against enumeration: for every tile, the elements read are the box that is answered, and boxes are missed only where allowed."""

from __future__ import annotations

import itertools

import pytest

from xlashape.errors import InvalidArgumentError
from xlashape.symbolic import IndexingMap, SymbolicTile, symbolic_tile


def tile_of(text: str) -> SymbolicTile:
    tile = symbolic_tile(IndexingMap.parse(text))
    assert tile is not None
    return tile


def box(offsets, sizes, strides):
    axes = [[o + i * s for i in range(n)] for o, n, s in zip(offsets, sizes, strides, strict=True)]
    return set(itertools.product(*axes))


@pytest.mark.parametrize(
    "text",
    [
        "(d0, d1) -> (d1, d0), domain: d0 in [0, 3], d1 in [0, 5]",
        "(d0) -> (d0 * 2 + 3), domain: d0 in [0, 9]",
        "(d0) -> (-d0 + 9), domain: d0 in [0, 9]",
        "(d0) -> (5), domain: d0 in [0, 9]",
        "() -> ()",
        "(d0)[s0] -> (d0, s0 * 2), domain: d0 in [0, 9], s0 in [3, 4]",
        "(d0)[s0] -> (d0 * 8 + s0), domain: d0 in [0, 9], s0 in [0, 7]",
        "(d0){rt0} -> (d0 + rt0 * 3), domain: d0 in [0, 9], rt0 in [0, 4]",
        "(d0) -> (d0 / 4), domain: d0 in [0, 30]",
        "(d0) -> (d0 mod 6), domain: d0 in [0, 30]",
        "(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]",
        "(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]",
        "(d0, d1, d2) -> (d0 * 20 + d1 * 10 + d2), domain: d0 in [0, 3], d1 in [0, 1], d2 in [0, 9]",
        "(d0, d1) -> (d0 * 32 + d1), domain: d0 in [0, 3], d1 in [0, 7]",
        "(d0, d1) -> ((d0 / 2) * 12 + d1 mod 4), domain: d0 in [0, 5], d1 in [0, 9]",
    ],
)
def test_every_tile(text):
    m = IndexingMap.parse(text)
    tile = tile_of(text)
    runtime = [var.bounds.upper for var in m.runtime]
    boxes = 0
    for sizes in itertools.product(*(range(1, var.bounds.upper + 2) for var in m.dims)):
        axes = [range(n) for n in sizes] + [range(low, high + 1) for (low, high), _ in m.ranges]
        read = {m.evaluate((*point, *runtime)) for point in itertools.product(*axes)}
        answer = tile.evaluate(sizes, runtime)
        if answer is not None:
            boxes += 1
            assert box(*answer) == read, sizes
            assert len(read) == len(list(itertools.product(*(range(n) for n in answer[1])))), sizes
    assert boxes > 0


@pytest.mark.parametrize(
    "text",
    [
        "(d0)[s0] -> (d0 + s0), domain: d0 in [0, 9], s0 in [0, 4]",
        "(d0, d1) -> (d0 * 32 + d1), domain: d0 in [0, 3], d1 in [0, 7]",
    ],
)
def test_overlaps_and_gaps_are_no_boxes(text):
    tile = tile_of(text)
    assert tile.evaluate([min(2, var.bounds.upper) for var in tile.sizes_of_tile]) is None


@pytest.mark.parametrize(
    "text",
    [
        "(d0) -> ((d0 * 3) / 4), domain: d0 in [0, 31]",
        "(d0, d1) -> (d0 * d1), domain: d0 in [0, 3], d1 in [0, 3]",
        "(d0) -> (d0), domain: d0 in [0, 31], d0 mod 2 in [0, 0]",
        "(d0) -> (d0), domain: d0 in [1, 31]",
        "UNDEFINED",
        "KNOWN EMPTY",
    ],
)
def test_what_has_no_symbolic_tile(text):
    assert symbolic_tile(IndexingMap.parse(text)) is None


def test_where_tiles_hold():
    tile = tile_of("(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]")
    assert [[(repr(expr), tuple(interval)) for expr, interval in way] for way in tile.alternatives] == [
        [("d0", (1, 1))],
        [("d1", (8, 8))],
        [("d1", (1, 1))],
    ]
    assert tile.evaluate([3, 8]) == ((0,), (24,), (1,))
    assert tile.evaluate([3, 1]) == ((0,), (3,), (8,))
    assert tile.evaluate([3, 4]) is None


def test_mistakes():
    tile = tile_of("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 9], rt0 in [0, 4]")
    for sizes, runtime in (([1, 2], [0]), ([1], []), ([0], [0]), ([11], [0]), ([1], [9])):
        with pytest.raises(InvalidArgumentError):
            tile.evaluate(sizes, runtime)
