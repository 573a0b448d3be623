"""XLA's own symbolic tiles of several hundred maps, judged by enumeration.

Each answer of ours has to be exactly what a tile reads. Where XLA's constraints hold and its box is right, so is ours.
Its text is ours, except where its box is wrong for some tile, which enumeration has to show, and for the rows of
KNOWN_GAPS.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from xla_tiles import elements_of, elements_read, normalised, read_tile

from xlashape.symbolic import IndexingMap, SymbolicTile, symbolic_tile

ROWS: list[dict[str, str]] = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "vectors" / "symbolic_tiles.jsonl").read_text().splitlines()
]
KINDS = sorted({row["kind"] for row in ROWS})

KNOWN_GAPS: dict[str, str] = {
    "(d0){rt0} -> (d0 * rt0), domain: d0 in [0, 3], rt0 in [0, 7]": "none of ours: a stride that is known at run time alone",
    "(d0) -> (d0 mod 4, (d0 / 3) mod 3, (d0 mod 4) * 2), domain: d0 in [-2, 0], d0 mod 4 in [0, 1]": (
        "a mod with a factor: XLA asks nothing of it, and is right as there is one index from 0"
    ),
    "(d0)[s0]{rt0} -> (-s0 + d0 + rt0 * 3), domain: d0 in [0, 0], s0 in [0, 15], rt0 in [0, 5]": (
        "factors of both signs: ours is counted from its least index, as XLA's is wrong where both digits move"
    ),
}
"""Maps whose tile is the same for every tile size, but written otherwise, with the reason."""

FEWER = {
    "(d0){rt0} -> (d0 * rt0), domain: d0 in [0, 3], rt0 in [0, 7]": "a stride that is known at run time alone",
    "(d0, d1) -> (d0 * d1), domain: d0 in [0, 3], d1 in [0, 2]": "XLA's is right for tiles of one element",
}
"""Maps for which XLA has a tile that is right for some sizes and we have none, with the reason."""

_TILES_A_MAP = 8


class Judged(NamedTuple):
    """What was found out about one row."""

    map: str
    verdict: str
    tiles: Counter[str]
    wrong: tuple[Any, ...] | None


def tiles_of(found: IndexingMap, rng: random.Random, most: int = _TILES_A_MAP) -> list[tuple[int, ...]]:
    axes: list[list[int]] = []
    for bounds, _ in found.dims:
        size = max(1, bounds.upper + 1)
        some = {1, 2, 3, 4, 6, 8, 12, 16, size // 2, size - 1, size} if most == _TILES_A_MAP else range(1, 65)
        axes.append(sorted(set(some) & set(range(1, size + 1))))
    every = list(itertools.islice(itertools.product(*axes), 4096))
    return every if len(every) <= most else rng.sample(every, most)


def runtime_of(found: IndexingMap, tile: SymbolicTile | None, rng: random.Random) -> list[int]:
    return [rng.randint(*var.bounds) for var in (tile.runtime if tile is not None else found.runtime)]


def judged(row: dict[str, str]) -> Judged:
    rng = random.Random(row["map"])
    found = IndexingMap.parse(row["map"])
    ours, theirs = symbolic_tile(found), read_tile(row["tile"], found)
    same = ours is not None and theirs is not None and normalised(str(ours)) == normalised(row["tile"])
    tiles: Counter[str] = Counter()
    wrong = None
    # A tile for which XLA is wrong may be a rare one.
    for sizes in tiles_of(found, rng, _TILES_A_MAP if same or theirs is None else 512):
        if wrong is not None and sum(tiles.values()) >= _TILES_A_MAP:
            break
        runtime = runtime_of(found, ours, rng)
        read = elements_read(found, (0,) * len(sizes), sizes, runtime)
        if read is None or not found.results:
            continue
        box = None if ours is None else ours.evaluate(sizes, runtime)
        assert box is None or elements_of(box) == read, (row["map"], sizes, runtime, box)
        if theirs is not None and theirs.holds(sizes, runtime):
            their_box = theirs.box(sizes, runtime)
            right = elements_of(their_box) == read
            assert box is not None or not right or row["map"] in FEWER, (row["map"], sizes, runtime, their_box)
            if not right:
                wrong = wrong or (sizes, runtime, their_box)
            tiles[
                "both right" if right else "XLA wrong, ours right" if box is not None else "XLA wrong, ours none"
            ] += 1
        else:
            tiles["neither" if box is None else "ours alone"] += 1
    if theirs is None:
        verdict = "none in both" if ours is None else "ours alone"
    elif same:
        verdict = "same text"
    else:
        verdict = "XLA wrong" if wrong else "written otherwise"
    return Judged(row["map"], verdict, tiles, wrong)


@cache
def judged_kind(kind: str) -> tuple[Judged, ...]:
    return tuple([judged(row) for row in ROWS if row["kind"] == kind])


@pytest.mark.parametrize("kind", KINDS)
def test_as_xla_or_better(kind: str) -> None:
    found = judged_kind(kind)
    verdicts = Counter([one.verdict for one in found])
    print(f"{kind}: {len(found)} maps, {dict(verdicts)}; tiles: {dict(sum([one.tiles for one in found], Counter()))}")
    otherwise = {one.map for one in found if one.verdict == "written otherwise"}
    listed = {row["map"] for row in ROWS if row["kind"] == kind and row["map"] in KNOWN_GAPS}
    assert otherwise == listed


def test_shares() -> None:
    found = [one for kind in KINDS for one in judged_kind(kind)]
    verdicts = Counter([one.verdict for one in found])
    tiles = sum([one.tiles for one in found], Counter[str]())
    print(f"{len(found)} maps: {dict(verdicts)}; tiles: {dict(tiles)}")
    answered = verdicts["same text"] + verdicts["XLA wrong"] + verdicts["written otherwise"]
    assert verdicts["same text"] / (answered - verdicts["XLA wrong"]) > 0.98
    assert tiles["both right"] > 1500
    assert tiles["ours alone"] > 400


@pytest.mark.parametrize(
    ("text", "sizes", "ours"),
    [
        # Two results with one dimension are taken for a box: this one is a diagonal.
        ("(d0) -> (d0, d0), domain: d0 in [0, 3]", [2], None),
        ("(d0, d1) -> (d0 * 8 + d1, d1), domain: d0 in [0, 3], d1 in [0, 7]", [2, 8], None),
        ("(d0)[s0] -> (d0, s0, s0 * 2), domain: d0 in [0, 3], s0 in [0, 4]", [1], None),
        ("(d0) -> (d0 / 8, d0 mod 16), domain: d0 in [0, 31]", [16], None),
        ("(d0) -> (d0 / 8, d0 mod 3), domain: d0 in [0, 23]", [9], None),
        # A mod with a factor has no constraints: what wraps around is taken for what does not.
        ("(d0) -> ((d0 mod 3) * 2 + 1), domain: d0 in [0, 9]", [4], None),
        # Factors of both signs: the tile does not begin at its first element.
        ("(d0, d1) -> (d0 * -8 + d1 + 24), domain: d0 in [0, 3], d1 in [0, 7]", [2, 8], ((16,), (16,), (1,))),
        # Indices outside of the domain count as read.
        ("(d0) -> (d0 - 3), domain: d0 in [3, 7]", [5], ((0,), (2,), (1,))),
        # A product of dimensions is taken for a multiple of one.
        ("(d0, d1) -> (d0 * d1), domain: d0 in [0, 3], d1 in [0, 2]", [3, 2], None),
    ],
)
def test_where_xla_is_wrong(text: str, sizes: list[int], ours: tuple[Any, ...] | None) -> None:
    """XLA's constraints hold, and its box is not what is read."""
    found = IndexingMap.parse(text)
    (row,) = [row for row in ROWS if row["map"] == text]
    theirs, tile = read_tile(row["tile"], found), symbolic_tile(found)
    read = elements_read(found, (0,) * len(sizes), sizes, ())
    assert theirs is not None and theirs.holds(sizes, ())
    assert elements_of(theirs.box(sizes, ())) != read
    box = None if tile is None else tile.evaluate(sizes)
    assert box == ours
    assert box is None or elements_of(box) == read


@pytest.mark.parametrize("kind", KINDS)
def test_maps_say_what_evaluate_says(kind: str) -> None:
    """offset_map, size_map and stride_map at the tile's sizes are the box, where nothing is cut off."""
    rng = random.Random(kind)
    for row in [row for row in ROWS if row["kind"] == kind]:
        found = IndexingMap.parse(row["map"])
        tile = symbolic_tile(found)
        if tile is None or found.constraints or any(0 not in bounds for bounds, _ in found.dims):
            continue
        for sizes in tiles_of(found, rng):
            runtime = runtime_of(found, tile, rng)
            box = tile.evaluate(sizes, runtime)
            if box is None:
                continue
            assert box.offsets == tile.offset_map.evaluate((*sizes, *runtime)), row["map"]
            assert box.sizes == tile.size_map.evaluate(sizes), row["map"]
            strides = tile.stride_map.evaluate(sizes)
            assert strides is not None
            for size, stride, told in zip(box.sizes, box.strides, strides, strict=True):
                assert stride == told or size == 1, row["map"]


@pytest.mark.parametrize("kind", KINDS)
def test_tiles_anywhere(kind: str) -> None:
    """A tile that begins elsewhere: exactly what it reads, or nothing is said."""
    rng = random.Random(kind)
    for row in [row for row in ROWS if row["kind"] == kind]:
        found = IndexingMap.parse(row["map"])
        tile = symbolic_tile(found)
        if tile is None or not found.results:
            continue
        for sizes in tiles_of(found, rng)[:4]:
            runtime = runtime_of(found, tile, rng)
            for start in (
                [rng.randint(bounds.lower, max(bounds)) for bounds, _ in found.dims],
                [
                    size * rng.randint(0, max(0, bounds.upper) // size)
                    for size, (bounds, _) in zip(sizes, found.dims, strict=True)
                ],
            ):
                read = elements_read(found, start, sizes, runtime)
                box = tile.evaluate(sizes, runtime, start)
                if read is not None and box is not None:
                    assert elements_of(box) == read, (row["map"], start, sizes, runtime, box)
