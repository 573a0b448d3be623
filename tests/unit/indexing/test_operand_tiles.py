"""Tiles of operands, against what the tile's elements read one by one."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest
from hlo_builder import one_op

from xlashape import indexing
from xlashape.errors import InvalidArgumentError, InvalidIndexError, LimitExceededError
from xlashape.hlo import HloModule
from xlashape.indexing import TileBox
from xlashape.indexing.reports import tiles
from xlashape.symbolic import IndexingMap

MAPS = [
    IndexingMap.parse(json.loads(line)["map"])
    for line in (Path(__file__).parents[2] / "vectors" / "symbolic_tiles.jsonl").read_text().splitlines()
]


def test_a_dot_reads_rows_and_columns() -> None:
    dot = one_op(
        "dot",
        "f32[64,96]",
        ["f32[64,128]", "f32[128,96]"],
        dot_dimension_numbers={"lhs_contracting_dimensions": [1], "rhs_contracting_dimensions": [0]},
    )
    lhs, rhs = indexing.operand_tiles(dot, TileBox((16, 32), (16, 32), (1, 1)))
    assert (lhs.operand, lhs.tile) == (0, ((16, 0), (16, 128), (1, 1)))
    assert (rhs.operand, rhs.tile) == (1, ((0, 32), (128, 32), (1, 1)))
    assert lhs.symbolic is not None
    assert [str(one) for one in lhs.symbolic.sizes] == ["d0", "128"]
    assert [one.tile for one in indexing.operand_tiles(dot)] == [None, None]


def test_one_tile_for_each_way_in_which_an_operand_is_read() -> None:
    module = HloModule.parse("""HloModule m
fused { p = f32[8,8]{1,0} parameter(0)  t = f32[8,8]{1,0} transpose(p), dimensions={1,0}  ROOT a = f32[8,8]{1,0} add(p, t) }
ENTRY main { p = f32[8,8]{1,0} parameter(0)  ROOT f = f32[8,8]{1,0} fusion(p), kind=kLoop, calls=fused }
""")
    found = indexing.operand_tiles(module.entry.root, TileBox((4, 0), (2, 4), (1, 1)))
    assert [one.operand for one in found] == [0, 0]
    assert {one.tile for one in found} == {((4, 0), (2, 4), (1, 1)), ((0, 4), (4, 2), (1, 1))}


def test_a_tile_may_reach_over_the_edge_and_begins_and_steps_within() -> None:
    negate = one_op("negate", "f32[160,160]", ["f32[160,160]"])

    def read(*box: tuple[int, ...]) -> object:
        tile = indexing.operand_tiles(negate, TileBox(*box))[0].tile
        assert tile is not None
        return tile.offsets, tile.sizes

    assert read((0, 0), (200, 8), (1, 1)) == ((0, 0), (160, 8))
    assert read((159, 159), (8, 8), (1, 1)) == ((159, 159), (1, 1))
    assert read((0, 0), (8, 8), (159, 1)) == ((0, 0), (2, 8))
    for stride in (160, 99999999999):
        with pytest.raises(
            InvalidArgumentError, match=f"stride {stride} along dimension 0, whose indices are 0 to 159"
        ):
            read((0, 0), (8, 8), (stride, 1))
        assert read((0, 0), (1, 8), (stride, 1)) == ((0, 0), (1, 8))  # which takes no step
    with pytest.raises(InvalidIndexError):
        read((160, 0), (8, 8), (1, 1))
    one = one_op("negate", "f32[1,160]", ["f32[1,160]"])
    tile = indexing.operand_tiles(one, [8, 8])[0].tile
    assert tile is not None
    assert tile.sizes == (1, 8)


def test_a_scalar_has_a_tile_of_rank_0() -> None:
    (found,) = indexing.operand_tiles(one_op("negate", "f32[]", ["f32[]"]), [])
    assert found.tile == ((), (), ())


def test_what_is_not_known_has_no_tile() -> None:
    (found,) = indexing.operand_tiles(one_op("negate", "f32[?]", ["f32[?]"]), [4])
    assert (found.symbolic, found.tile) == (None, None)


def test_the_symbolic_tile_is_the_enumerated_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    for number, found in enumerate(MAPS[::2]):
        draw = random.Random(number)
        for _ in range(12):
            box = TileBox(
                *([*zip(*[_interval(draw, var.bounds.upper) for var in found.dims], strict=True)] or [(), (), ()])
            )
            monkeypatch.setattr(tiles, "MAX_POINTS", 1 << 13)
            monkeypatch.setattr(tiles, "FEW_POINTS", 1 << 62)
            try:
                gone_through = indexing.push_tile(found, box)
            except LimitExceededError:
                continue
            monkeypatch.setattr(tiles, "FEW_POINTS", 0)
            assert indexing.push_tile(found, box) == gone_through
            compared += 1
    assert compared > 3000


def _interval(draw: random.Random, last: int) -> tuple[int, int, int]:
    size = draw.randint(1, max(1, min(6, last + 1)))
    return draw.randint(0, max(0, last + 1 - size)), size, draw.choice((1, 1, 1, 2))


def test_a_tile_is_cut_off_at_the_end() -> None:
    found = IndexingMap.identity([10, 1 << 40])
    assert indexing.push_tile(found, [1 << 50, 4]) == ((0, 0), (10, 4), (1, 1))
    assert indexing.push_tile(found, TileBox((8, 5), (4, 3), (1, 2))) == ((8, 5), (2, 3), (1, 2))
    assert indexing.push_tile(found, TileBox((10, 0), (4, 4), (1, 1))) is None
    for offset, size, stride in itertools.product((-3, 0, 9, 12), (1, 5), (-2, -1, 0, 1, 3)):
        reached = sorted({i for k in range(size) if 0 <= (i := offset + k * stride) < 10})
        pushed = indexing.push_tile(IndexingMap.identity([10]), TileBox((offset,), (size,), (stride,)))
        if not reached:
            assert pushed is None
        else:
            step = reached[1] - reached[0] if len(reached) > 1 else 0
            assert pushed == ((reached[0],), (len(reached),), (step,))


def test_invalid_arguments() -> None:
    negate = one_op("negate", "f32[4,8]", ["f32[4,8]"])
    with pytest.raises(InvalidArgumentError, match="a tile of rank 1 for a map of 2 dimensions"):
        indexing.operand_tiles(negate, [2])
    with pytest.raises(InvalidArgumentError, match="size 0 along dimension 1"):
        indexing.operand_tiles(negate, [2, 0])
    with pytest.raises(InvalidArgumentError, match="has no output 1"):
        indexing.operand_tiles(negate, [2, 2], output=1)
    for wrong in ("ab", [1.5, 2], [True, 2], 3, [None, 1], b"ab", TileBox((0, 0), (1, 1), ("a", 1))):
        with pytest.raises(InvalidArgumentError):
            indexing.operand_tiles(negate, wrong)
