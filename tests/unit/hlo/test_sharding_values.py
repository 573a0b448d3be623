"""Which device holds which part of an array: against jaxlib and against NumPy.

tests/vectors/sharding_tiles.jsonl holds shardings, shapes, and what the HloSharding of jaxlib 0.12.0.1 says of them:
the sizes of a shard, and for tiled shardings the dimensions and the devices of the tile assignment.
"""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlashape import HloModule, Shape
from xlashape.errors import InvalidArgumentError, InvalidModuleError, ParseError
from xlashape.hlo import ReplicaGroups, Shard, Sharding

VECTORS = Path(__file__).parents[2] / "vectors" / "sharding_tiles.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]


def test_shards_are_those_of_jaxlib() -> None:
    for row in ROWS:
        sharding, shape = Sharding.parse(row["sharding"]), Shape.parse(row["shape"])
        assert list(sharding.shard_shape(shape).dimensions) == row["shard"], row
        assert Sharding.from_proto(sharding.to_proto()) == sharding
        assert str(Sharding.parse(str(sharding))) == str(sharding)


def test_holders_are_those_of_jaxlibs_tile_assignment() -> None:
    """The devices that jaxlib lists, as an array of tiles and a last dimension of the devices that hold the same
    tile."""
    compared = 0
    for row in ROWS:
        if "tiles" not in row:
            continue
        sharding, shape = Sharding.parse(row["sharding"]), Shape.parse(row["shape"])
        counts = row["tiles"][: shape.rank]
        devices = np.array(row["devices"]).reshape(*counts, -1)
        assert sharding.devices == tuple(range(devices.size))
        for device in range(devices.size):
            tile = np.argwhere(devices == device)[0][:-1].tolist()
            shard = sharding.tile_of(device, shape)
            length = [math.ceil(size / count) for size, count in zip(shape.dimensions, counts, strict=True)]
            offset = [min(t * n, size) for t, n, size in zip(tile, length, shape.dimensions, strict=True)]
            sizes = [min(n, size - o) for n, size, o in zip(length, shape.dimensions, offset, strict=True)]
            assert shard == Shard(tuple(offset), tuple(sizes)), (row, device)
            compared += 1
        assert sharding.tile_of(devices.size, shape) is None
    assert compared > 2000


def test_shards_cover_the_array() -> None:
    """Every element is held by the devices that `devices_of` names, and by no other."""
    for row in ROWS[::4]:
        sharding, shape = Sharding.parse(row["sharding"]), Shape.parse(row["shape"])
        if sharding.devices is None or math.prod(shape.dimensions) > 200:
            continue
        holders: dict[tuple[int, ...], list[int]] = {
            index: [] for index in itertools.product(*map(range, shape.dimensions))
        }
        for device in sharding.devices:
            shard = sharding.tile_of(device, shape)
            assert shard is not None
            for index in itertools.product(*map(range, shard.sizes)):
                holders[tuple([o + i for o, i in zip(shard.offset, index, strict=True)])].append(device)
        for index, devices in holders.items():
            assert sharding.devices_of(index, shape) == tuple(devices)


@pytest.mark.parametrize(
    ("text", "kind", "counts", "devices"),
    [
        ("{replicated}", "replicated", None, None),
        ("{manual}", "manual", None, None),
        ("{maximal device=3}", "maximal", None, (3,)),
        ("{single_device[device_id=2]}", "named", None, (2,)),
        ("{mesh['a'=2,'b'=2], replicated}", "named", None, (0, 1, 2, 3)),
        ("{mesh['a'=2,'b'=2], [{'b'}, {}]}", "named", (2, 1), (0, 1, 2, 3)),
        ("{devices=[2,2]<=[4] last_tile_dims={manual}}", "tiled", (2,), (0, 1, 2, 3)),
    ],
)
def test_kinds(text: str, kind: str, counts: tuple[int, ...] | None, devices: tuple[int, ...] | None) -> None:
    sharding = Sharding.parse(text)
    assert (sharding.kind, sharding.tile_counts, sharding.devices) == (kind, counts, devices)


def test_tuples() -> None:
    sharding = Sharding.parse("{{devices=[2]<=[2]}, {replicated}, {maximal device=1}}")
    assert [str(element) for element in sharding.elements] == [
        "{devices=[2]<=[2]}",
        "{replicated}",
        "{maximal device=1}",
    ]
    shape = Shape.parse("(f32[5], (s32[3,3], token[]))")
    assert str(sharding.shard_shape(shape)) == "(f32[3]{0}, (s32[3,3]{1,0}, token[]))"
    with pytest.raises(InvalidArgumentError, match="3 shardings for 1 leaves"):
        sharding.shard_shape(Shape.parse("(f32[5])"))
    with pytest.raises(InvalidArgumentError, match="does not tile one array"):
        sharding.tile_of(0, Shape.parse("f32[5]"))


def test_what_is_refused() -> None:
    tiled = Sharding.parse("{devices=[2,2]<=[4]}")
    with pytest.raises(InvalidArgumentError, match="divides 2 dimensions"):
        tiled.tile_of(0, Shape.parse("f32[5]"))
    with pytest.raises(InvalidArgumentError, match="unbounded"):
        tiled.tile_of(0, Shape.parse("f32[?,4]"))
    with pytest.raises(InvalidArgumentError, match="is outside"):
        tiled.devices_of((5, 0), Shape.parse("f32[5,4]"))
    with pytest.raises(ParseError):
        Sharding.parse("{devices=[2,2]<=[4]} more")
    with pytest.raises(InvalidModuleError):
        Sharding.from_proto(b"\xff")


def test_sharding_and_groups_of_instructions() -> None:
    module = HloModule.parse(
        """HloModule m, num_partitions=4
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { p = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  ROOT r = f32[8] all-reduce(p), replica_groups=[2,2]<=[2,2]T(1,0), use_global_device_ids=true, channel_id=1, to_apply=add }"""
    )
    p, r = module.instruction("p"), module.instruction("r")
    assert p.sharding is not None
    assert p.sharding.tile_of(2, p.shape) == Shard((4,), (2,))
    assert r.sharding is None
    assert p.replica_groups.groups == ()
    assert r.replica_groups.groups == ((0, 2), (1, 3))


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{{0,1},{2}}", ((0, 1), (2,))),
        ("{}", ()),
        ("[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("[4,2]<=[2,2,2]T(2,0,1)", ((0, 2), (4, 6), (1, 3), (5, 7))),
        ("mesh['a'=2,'b'=4] {'a'}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['a'=2,'b'=4] {'b':(2)2,'a'}", ((0, 4, 1, 5), (2, 6, 3, 7))),
    ],
)
def test_replica_groups(text: str, groups: tuple[tuple[int, ...], ...]) -> None:
    """The expansions are those of NumPy: `arange` reshaped, transposed, and reshaped to the groups."""
    assert ReplicaGroups.parse(text).groups == groups
