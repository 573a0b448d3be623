"""Symbolic tiles against enumeration: for every tile, the elements read are the box that is answered, and boxes are
missed only where allowed.
"""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from xla_tiles import elements_of, elements_read

from xlashape.base.math import product
from xlashape.errors import InvalidArgumentError, LimitExceededError
from xlashape.symbolic import (
    Divides,
    IndexingMap,
    InRange,
    Interval,
    SymbolicTile,
    TileConstraints,
    dim,
    symbolic_tile,
)


def tile_of(text: str) -> SymbolicTile:
    tile = symbolic_tile(IndexingMap.parse(text))
    assert tile is not None
    return tile


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
        # Windows that overlap, with and without padding.
        "(d0)[s0] -> (d0 + s0), domain: d0 in [0, 9], s0 in [0, 4]",
        "(d0)[s0] -> (d0 * 2 + s0 - 1), domain: d0 in [0, 9], s0 in [0, 2], d0 * 2 + s0 in [1, 18]",
        "(d0)[s0] -> (d0 + s0 * 2), domain: d0 in [0, 9], s0 in [0, 3]",
        "(d0, d1)[s0] -> (d0 * 2 + d1 * 2 + s0 * 6), domain: d0 in [0, 3], d1 in [0, 2], s0 in [0, 2]",
        "(d0, d1) -> (d0 + d1), domain: d0 in [0, 3], d1 in [0, 7]",
        # Reversed, then collapsed: factors of both signs.
        "(d0, d1) -> (d0 * -8 + d1 + 24), domain: d0 in [0, 3], d1 in [0, 7]",
        "(d0)[s0, s1] -> (s0 * 5 - s1, d0), domain: d0 in [0, 3], s0 in [0, 3], s1 in [0, 4]",
        # Domains that do not begin at 0, or have every k-th index only.
        "(d0) -> (d0 - 3), domain: d0 in [3, 7]",
        "(d0) -> (d0 mod 4), domain: d0 in [3, 17]",
        "(d0) -> (d0), domain: d0 in [0, 31], d0 mod 2 in [0, 0]",
        "(d0) -> (d0 / 4), domain: d0 in [-9, 9]",
        "(d0, d1) -> (d0 / 2 - 1, (d1 - 1) / 3), domain: d0 in [2, 12], d1 in [1, 13], d0 mod 2 in [0, 0], (d1 + 2) "
        "mod 3 in [0, 0]",
        "(d0)[s0] -> (d0 + s0 / 2 - 1), domain: d0 in [0, 12], s0 in [0, 4], d0 * 2 + s0 in [2, 24], s0 mod 2 in [0, "
        "0]",
        "(d0)[s0] -> ((d0 * 3) / 2, s0), domain: d0 in [0, 9], s0 in [0, 2], (d0 * 3) mod 2 in [0, 0]",
        "(d0) -> ((d0 * 6 - 4) / 4), domain: d0 in [0, 9], (d0 * 6) mod 4 in [0, 0]",
        "(d0) -> (-d0), domain: d0 in [0, 9], d0 * 2 in [3, 13]",
        # What is cut off at the operand's end.
        "(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 5], rt0 in [0, 7], d0 + rt0 in [0, 7]",
        "(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7], d0 * 8 + d1 in [3, 20]",
        "(d0) -> (-d0 + 9), domain: d0 in [0, 9], -d0 in [-6, -2]",
        # Digits of 2, 3 and 4 dimensions, and remainders and quotients that are not digits of one number.
        "(d0) -> (d0 / 12, (d0 mod 12) / 4, d0 mod 4), domain: d0 in [0, 35]",
        "(d0) -> (d0 / 30, (d0 / 10) mod 3, (d0 / 5) mod 2, d0 mod 5), domain: d0 in [0, 59]",
        "(d0) -> (d0 / 8, d0 mod 3), domain: d0 in [0, 39]",
        "(d0) -> ((d0 + 2) / 3, (d0 mod 4) * -2), domain: d0 in [0, 30]",
        "(d0)[s0] -> (d0, s0 / 2, s0 mod 2), domain: d0 in [0, 3], s0 in [0, 7]",
        "(d0)[s0] -> (d0, s0 mod 4), domain: d0 in [0, 3], s0 in [5, 6]",
        # Sums that are divided: reshapes that collapse and split elsewhere, windows over dilated bases.
        "(d0, d1) -> ((d0 * 6 + d1) / 16, (d0 * 6 + d1) mod 16), domain: d0 in [0, 7], d1 in [0, 5]",
        "(d0, d1, d2) -> (d0, (d1 * 6 + d2) / 4, (d1 * 6 + d2) mod 4), domain: d0 in [0, 1], d1 in [0, 5], d2 in [0, "
        "5]",
        "(d0, d1) -> ((d0 * 4 + d1) / 6, (d0 * 4 + d1) mod 6, d1), domain: d0 in [0, 5], d1 in [0, 3]",
        "(d0)[s0] -> ((d0 + s0 - 1) / 2), domain: d0 in [0, 13], s0 in [0, 2], (d0 + s0 + 1) mod 2 in [0, 0], d0 + s0 "
        "in [1, 13]",
        "(d0)[s0] -> ((d0 + s0 + 2) / 5, s0), domain: d0 in [0, 9], s0 in [2, 2]",
        "(d0)[s0] -> ((d0 * 3 + s0) / 5), domain: d0 in [0, 9], s0 in [2, 4]",
        "(d0, d1) -> (((d0 * 5 + d1) / 3 + d0 * 10 + d1 * 2) / 7, d1), domain: d0 in [0, 5], d1 in [0, 4]",
        # Dimensions of one element.
        "(d0, d1) -> (d0 * 10 + d1, d1), domain: d0 in [0, 7], d1 in [0, 0]",
        "(d0)[s0] -> (d0 * 10 + s0), domain: d0 in [0, 7], s0 in [0, 0]",
    ],
)
def test_every_tile(text):
    """Every tile at every start: exactly what is read, or nothing is said; tiles at 0 are told."""
    m = IndexingMap.parse(text)
    tile = tile_of(text)
    boxes = 0
    for sizes in itertools.product(*(range(1, bounds.upper + 2) for bounds, _ in m.dims)):
        runtime = [sum(sizes) % (bounds.upper + 1) for bounds, _ in m.runtime]
        starts = [None, sizes, [2 * n for n in sizes], [1] * len(sizes), [5] * len(sizes)]
        for start in starts:
            read = elements_read(m, start or (0,) * len(sizes), sizes, runtime)
            answer = tile.evaluate(sizes, runtime, start)
            if answer is not None:
                boxes += start is None
                assert elements_of(answer) == read, (sizes, start)
                assert len(read) == product(answer.sizes), (sizes, start)
    assert boxes > 0


@pytest.mark.parametrize(
    ("text", "sizes", "start", "expected"),
    [
        ("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]", [4], [12], ((1, 4), (1, 4), (1, 1))),
        ("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]", [4], [6], None),
        ("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]", [16], [8], ((1, 0), (2, 8), (1, 1))),
        ("(d0) -> (d0 / 3), domain: d0 in [0, 31]", [4], [8], ((2,), (2,), (1,))),
        ("(d0) -> (-d0 + 9), domain: d0 in [0, 9]", [4], [4], ((5,), (4,), (-1,))),
        ("(d0) -> (-d0 + 9), domain: d0 in [0, 9]", [4], [8], ((1,), (2,), (-1,))),
        ("(d0) -> (d0 - 3), domain: d0 in [3, 9]", [5], None, ((0,), (2,), (1,))),
        ("(d0) -> (d0 - 3), domain: d0 in [3, 9]", [5], [5], ((2,), (5,), (1,))),
        ("(d0) -> (d0 - 3), domain: d0 in [3, 9]", [2], None, ((-3,), (0,), (1,))),
    ],
)
def test_tiles_that_begin_anywhere(text, sizes, start, expected):
    found = tile_of(text).evaluate(sizes, (), start)
    assert found == expected


@pytest.mark.parametrize(
    "text",
    [
        "(d0, d1) -> (d0 * 32 + d1), domain: d0 in [0, 3], d1 in [0, 7]",
        "(d0) -> (d0, d0), domain: d0 in [0, 31]",
        "(d0, d1) -> (d0 * 8 + d1, d1), domain: d0 in [0, 3], d1 in [0, 7]",
        "(d0, d1)[s0] -> (d0 * 2 + s0 * 3, d1), domain: d0 in [0, 9], d1 in [0, 9], s0 in [0, 4]",
    ],
)
def test_gaps_and_diagonals_are_no_boxes(text):
    tile = tile_of(text)
    assert tile.evaluate([min(2, var.bounds.upper) for var in tile.sizes_of_tile]) is None


@pytest.mark.parametrize(
    "text",
    [
        "(d0) -> ((d0 * 3) / 4), domain: d0 in [0, 31]",
        "(d0, d1) -> (d0 * d1), domain: d0 in [0, 3], d1 in [0, 3]",
        "(d0) -> ((d0 + 1) mod 3), domain: d0 in [0, 31]",
        "(d0)[s0] -> (d0, s0 mod 3), domain: d0 in [0, 3], s0 in [2, 3]",
        "(d0)[s0] -> (d0, s0, s0 * 2), domain: d0 in [0, 3], s0 in [1, 4]",
        "(d0, d1) -> (d0, d1), domain: d0 in [0, 3], d1 in [0, 3], d0 + d1 in [0, 3]",
        "(d0) -> (min(d0, 3)), domain: d0 in [0, 31]",
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
        [("d1", (1, 1))],
        [("d1", (8, 8))],
    ]
    assert tile.alternatives is tile.constraints.alternatives
    assert tile.evaluate([3, 8]) == ((0,), (24,), (1,))
    assert tile.evaluate([3, 1]) == ((0,), (3,), (8,))
    assert tile.evaluate([3, 4]) is None


def test_nothing_read():
    """A domain without points: the tile of every size has size 0."""
    tile = tile_of("(d0, d1) -> (d0, d1 + 3), domain: d0 in [0, 3], d1 in [0, 3], d1 in [5, 6]")
    assert tile.evaluate([2, 2]) == tile.evaluate([2, 2], (), [1, 1]) == ((0, 0), (0, 0), (0, 0))
    assert "size_map: (d0, d1) -> (0, 0)" in str(tile)
    # Domains of which it takes a second look to see that they have no points.
    for text in (
        "(d0) -> ((d0 mod 3) * 2 + 5), domain: d0 in [0, 7], (d0 mod 3) * 2 + 5 in [0, 1]",
        "(d0)[s0] -> (d0, s0 / 2), domain: d0 in [0, 7], s0 in [2, 2], (s0 + 1) mod 2 in [0, 0]",
    ):
        assert 0 in tile_of(text).evaluate([3]).sizes
    scalar = tile_of("(d0) -> (), domain: d0 in [3, 4]")
    assert scalar.evaluate([4]) == ((), (), ())
    assert scalar.evaluate([3]) is None


def test_maps_of_a_tile():
    tile = tile_of(
        "(d0, d1){rt0, rt1} -> (d0 * 2 + rt1, d1 / 3), domain: d0 in [0, 9], d1 in [0, 7], rt0 in [0, 3], rt1 in [0, 5]"
    )
    assert str(tile.offset_map) == (
        "(d0, d1){rt0, rt1} -> (rt1, 0), domain: d0 in [1, 10], d1 in [1, 8], rt0 in [0, 3], rt1 in [0, 5]"
    )
    assert str(tile.size_map) == "(d0, d1) -> (d0, (d1 + 2) / 3), domain: d0 in [1, 10], d1 in [1, 8]"
    assert str(tile.stride_map) == "(d0, d1) -> (2, 1), domain: d0 in [1, 10], d1 in [1, 8]"
    assert (
        tile.to_text()
        == str(tile)
        == (
            "Symbolic tile with\n"
            "  offset_map: (d0, d1)[s0] -> (s0, 0)\n"
            "  size_map: (d0, d1) -> (d0, (d1 + 2) / 3)\n"
            "  stride_map: (d0, d1) -> (2, 1)\n"
            "  rt_vars: s0 in [0, 5],"
        )
    )
    assert tile.constraints.is_always


def test_values():
    """Tiles are values: equal, hashable, and pickled."""
    text = "(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]"
    one, other = tile_of(text), tile_of(text)
    assert one == other and hash(one) == hash(other)
    again = pickle.loads(pickle.dumps(one))
    assert again == one and again.evaluate([16], start=[8]) == one.evaluate([16], start=[8])
    assert one != tile_of("(d0) -> (d0 / 4, d0 mod 4), domain: d0 in [0, 31]")
    # The same expressions, but cut off elsewhere.
    ends = [
        tile_of(f"(d0){{rt0}} -> (d0 + rt0), domain: d0 in [0, 5], rt0 in [0, 7], d0 + rt0 in [0, {end}]")
        for end in (7, 8)
    ]
    assert str(ends[0]) == str(ends[1]) and ends[0] != ends[1]


def test_constraints():
    one, eight = InRange(dim(0), Interval(1, 1)), InRange(dim(0), Interval(8, 8))
    either = TileConstraints.any_of([[one], [eight]])
    assert (either & TileConstraints.any_of([[one]])).alternatives == ((one,),)
    assert (either & TileConstraints.any_of([[InRange(dim(0), Interval(3, 4))]])).is_unsatisfiable
    assert either & TileConstraints.always() == TileConstraints.always() & either == either
    assert (either & TileConstraints.unsatisfiable()).is_unsatisfiable
    assert TileConstraints.any_of([[one], []]).is_always
    assert str(TileConstraints.any_of([[Divides(dim(0) + 3, 8), Divides(dim(0) + 3, 8)]])) == "8 mod (d0 + 3) in [0, 0]"
    for value, holds in ((-4, True), (0, False), (3, False), (8, True), (16, False)):
        assert Divides(dim(0), 8).holds(value) == holds


def test_very_many_alternatives():
    digits = [f"(d{i} / 2) mod 3, d{i} mod 2" for i in range(8)]
    names = ", ".join(f"d{i}" for i in range(8))
    domain = ", ".join(f"d{i} in [0, 5]" for i in range(8))
    with pytest.raises(LimitExceededError, match="tile alternatives"):
        symbolic_tile(
            IndexingMap.parse(f"({names}) -> ({', '.join(digits).replace('mod 3', 'mod 2')}), domain: {domain}")
        )


def test_sums_that_are_divided():
    """A tile of the collapsed dimensions is a run of the sum; the run is then split."""
    tile = tile_of("(d0, d1) -> ((d0 * 6 + d1) / 16, (d0 * 6 + d1) mod 16), domain: d0 in [0, 7], d1 in [0, 5]")
    assert str(tile.constraints) == (
        "(d0 * d1) mod 16 in [0, 0] && d0 in [1, 1] || (d0 * d1) mod 16 in [0, 0] && d1 in [6, 6] || "
        "16 mod (d0 * d1) in [0, 0] && d0 in [1, 1] || 16 mod (d0 * d1) in [0, 0] && d1 in [6, 6]"
    )
    assert tile.evaluate([8, 6]) == ((0, 0), (3, 16), (1, 1))
    assert tile.evaluate([1, 4], start=[2, 0]) == ((0, 12), (1, 4), (1, 1))
    assert tile.evaluate([1, 4], start=[2, 2]) is None
    with pytest.raises(InvalidArgumentError):
        tile.evaluate([9, 1])
    assert pickle.loads(pickle.dumps(tile)).evaluate([8, 6]) == tile.evaluate([8, 6])


def test_large_tiles():
    """The elements of a tile are not enumerated."""
    tile = tile_of("(d0) -> (d0 / 1048576, (d0 / 1024) mod 1024, d0 mod 1024), domain: d0 in [0, 1073741823]")
    assert tile.evaluate([1 << 29], (), [1 << 29]) == ((512, 0, 0), (512, 1024, 1024), (1, 1, 1))
    assert tile.evaluate([1 << 19], (), [3 << 19]) == ((1, 512, 0), (1, 512, 1024), (1, 1, 1))
    assert tile.evaluate([1 << 20], (), [1 << 19]) is None
    diagonal = tile_of("(d0) -> (d0, d0), domain: d0 in [0, 1073741823]")
    assert diagonal.evaluate([1], (), [7]) == ((7, 7), (1, 1), (1, 1))
    assert diagonal.evaluate([2]) is None


def test_numbers_of_numpy():
    tile = tile_of("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]")
    box = tile.evaluate(np.array([16]), start=np.array([8], dtype=np.int32))
    assert box == ((1, 0), (2, 8), (1, 1))
    assert all(type(number) is int for part in box for number in part)


@pytest.mark.parametrize("wrong", [["4"], [4.0], [True], [None], None, 4, "4"])
def test_no_numbers(wrong):
    tile = tile_of("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]")
    with pytest.raises(InvalidArgumentError, match="tile sizes are integers"):
        tile.evaluate(wrong)
    if wrong is not None:
        with pytest.raises(InvalidArgumentError, match="tile starts are integers"):
            tile.evaluate([4], start=wrong)


def test_mistakes():
    tile = tile_of("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 9], rt0 in [0, 4]")
    for sizes, runtime, start in (
        ([1, 2], [0], None),
        ([1], [], None),
        ([0], [0], None),
        ([11], [0], None),
        ([1], [9], None),
        ([1], [0], [0, 0]),
    ):
        with pytest.raises(InvalidArgumentError):
            tile.evaluate(sizes, runtime, start)


def test_many_values_of_digits_that_are_not_those_of_a_number():
    """The digits of a range variable with more values than are enumerated are not known to be independent."""
    text = "(d0)[s0] -> (s0 / 3, s0 mod 8), domain: d0 in [0, 3], s0 in [0, {}]"
    assert symbolic_tile(IndexingMap.parse(text.format(9999))) is None


def test_congruences_without_a_solution():
    assert symbolic_tile(IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 30], (d0 * 6 + 1) mod 4 in [2, 2]")) is None
    tile = symbolic_tile(IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 1], (d0 * 3 + 1) mod 4 in [2, 2]"))
    assert tile is not None and tile.evaluate([1]) == ((0,), (0,), (0,))


def test_tiles_are_frozen_values():
    text = "(d0, d1) -> ((d0 * 6 + d1) / 16, (d0 * 6 + d1) mod 16), domain: d0 in [0, 7], d1 in [0, 5]"
    for tile in (tile_of(text), tile_of("(d0)[s0] -> (d0 * 2 + s0), domain: d0 in [0, 8], s0 in [0, 2]")):
        copy = pickle.loads(pickle.dumps(tile))
        assert copy == tile and hash(copy) == hash(tile) and repr(copy) == repr(tile)
        assert repr(tile).startswith("SymbolicTile(sizes_of_tile=(Var(bounds=[1, ") and "_digits" not in repr(tile)
        with pytest.raises(AttributeError, match="frozen"):
            tile.sizes = ()
