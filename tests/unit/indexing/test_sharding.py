"""Shardings as maps, and what it takes to go from one to another. The given reshardings come with the boxes that JAX
gives each device; tests/with_jax/test_sharding.py compares maps with arrays of JAX."""

import gzip
import json
from itertools import product
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import xlashape as xs
from xlashape.errors import InvalidArgumentError

VECTORS = Path(__file__).resolve().parents[2] / "vectors/collectives"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in gzip.decompress((VECTORS / "reshards.jsonl.gz").read_bytes()).splitlines()
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['shape']} {'-'.join(row['specs'])}")
def test_given_reshardings(row: dict[str, Any]):
    shape = xs.Shape.parse(row["shape"])
    made = xs.sharding.reshard(shape, row["a"], row["b"], devices=8)
    assert (made.received_bytes, made.received_all) == (row["received_bytes"], row["received_all"])
    for text, boxes in zip((row["a"], row["b"]), row["boxes"], strict=True):
        index_map = xs.sharding.map(shape, text, devices=8)
        local = [range(size) for size in xs.sharding.shard_shape(shape, text).dimensions]
        for device, box in enumerate(boxes):
            corners = [(size[0], size[-1]) for size in local]
            assert index_map.evaluate((device, *[low for low, _ in corners])) == tuple([first for first, _ in box])
            assert index_map.evaluate((device, *[high for _, high in corners])) == tuple([end - 1 for _, end in box])
    assert made.steps is not None
    assert made.received_bytes <= sum(step.received_bytes for step in made.steps)
    if not made.received_bytes:
        assert made.collectives == ()


def held(shape: xs.Shape, sharding: Any, device: int) -> set[tuple[int, ...]]:
    index_map = xs.sharding.map(shape, sharding, devices=8)
    local = product(*[range(size) for size in xs.sharding.shard_shape(shape, sharding).dimensions])
    return {index for each in local if (index := index_map.evaluate((device, *each))) is not None}


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if prod(xs.Shape.parse(row["shape"]).dimensions) <= 4096],
    ids=lambda row: f"{row['shape']} {'-'.join(row['specs'])}",
)
def test_each_step_brings_what_it_says(row: dict[str, Any]):
    """No device lacks more than the step receives, and the last step's sharding holds what is wanted."""
    shape = xs.Shape.parse(row["shape"])
    made = xs.sharding.reshard(shape, row["a"], row["b"], devices=8)
    before: Any = row["a"]
    for step in made.steps or ():
        lacked = [len(held(shape, step.sharding, device) - held(shape, before, device)) for device in range(8)]
        assert max(lacked) * xs.shape_util.byte_size_of_primitive_type(shape.element_type) <= step.received_bytes
        before = step.sharding
    for device in range(8):
        assert held(shape, before, device) == held(shape, row["b"], device)


def test_devices_in_any_order_have_a_map():
    shape = xs.Shape.parse("f32[7]")
    text = "{devices=[4]2,0,3,1}"
    assert [sorted(held(shape, text, device)) for device in range(4)] == [
        [(2,), (3,)],
        [(6,)],
        [(0,), (1,)],
        [(4,), (5,)],
    ]


def test_one_device_has_a_map():
    index_map = xs.sharding.map("f32[2]", "{maximal device=3}")
    assert (index_map.evaluate((3, 1)), index_map.evaluate((0, 1))) == ((1,), None)
    made = xs.sharding.reshard("f32[2]", "{maximal device=3}", "{replicated}")
    assert (made.received, made.steps) == ((8, 8, 8, 0), None)


@pytest.mark.parametrize(
    ("sharding", "message"),
    [
        ("{manual}", "a sharding of kind manual places no elements: the program says what each device holds"),
        ("{unreduced}", "a sharding of kind unreduced places no elements: each device holds a summand"),
        ("{replicated}", "{replicated} names no devices: pass how many there are"),
        ("{devices=[2,2]<=[4]}", "{devices=[2,2]<=[4]} divides 2 dimensions, not those of f32[4]{0}"),
        (object(), "expected a sharding, found object"),
        ('#sdy.sharding<@mesh, [{"x"}]>', "pass the mesh @mesh, such as mesh='x=2,y=4'"),
        ("#sdy.sharding<[]>", "no sharding of Shardy: '#sdy.sharding<[]>'"),
    ],
)
def test_no_map(sharding: Any, message: str):
    with pytest.raises(InvalidArgumentError) as caught:
        xs.sharding.map("f32[4]", sharding)
    assert caught.value.message == message


def test_attributes_of_shardy():
    inline = '#sdy.sharding<mesh<["x"=2, "y"=4]>, [{"y":(1)2, "x", ?}p1, {}], replicated={"y":(2)2}>'
    assert str(xs.sharding.of(inline)) == "{mesh['x'=2,'y'=4], [{'y':(1)2, 'x', ?}, {}], replicated={'y':(2)2}}"
    several = '#sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, [{}]>]>'
    assert [str(each) for each in xs.sharding.of(several, mesh={"x": 2}).elements] == [
        "{mesh['x'=2], [{'x'}]}",
        "{mesh['x'=2], [{}]}",
    ]
    ordered = '#sdy.sharding<mesh<["x"=2], device_ids=[1, 0]>, [{"x"}]>'
    assert xs.sharding.devices_of("f32[4]", xs.sharding.of(ordered), (0,)) == (1,)


def test_objects_that_look_like_those_of_jax():
    mesh = SimpleNamespace(shape={"x": 2, "y": 2})
    sharding = SimpleNamespace(mesh=mesh, spec=(("y", "x"),))
    assert str(xs.sharding.of(sharding, xs.Shape.parse("f32[8,2]"))) == "{mesh['x'=2,'y'=2], [{'y', 'x'}, {}]}"
    with pytest.raises(InvalidArgumentError, match="divides 1 dimensions"):
        xs.sharding.of(sharding, xs.Shape.parse("f32[]"))


def test_bytes_of_small_elements_and_tiles():
    packed = xs.sharding.local_bytes("s4[8,4]{1,0:E(4)}", "{devices=[2,1]<=[2]}")
    assert [packed.evaluate((1, column)) for column in range(4)] == [(2,), (2,), (3,), (3,)]
    tiled = xs.sharding.local_bytes("f32[6,5]{1,0:T(2,2)}", "{devices=[2,1]<=[2]}")
    part = xs.Shape.parse("f32[3,5]{1,0:T(2,2)}")
    assert tiled.evaluate((2, 3)) == (4 * xs.tiling.linear_index(part, (2, 3)),)
