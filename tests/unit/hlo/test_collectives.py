"""Collectives: which instructions are one, which devices they bring together, which bytes they move, which axes of a
mesh they span. The given programs come with what a simulation of single elements says of them."""

import gzip
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from xlashape.errors import InvalidArgumentError, InvalidModuleError, LimitExceededError
from xlashape.hlo import HloModule
from xlashape.hlo.collectives import (
    Collective,
    DeviceGrid,
    DeviceGroups,
    DeviceMesh,
    axes_of,
    device_grid,
    find_collectives,
    groups_of,
    mesh_of,
)
from xlashape.hlo.ops import exchange
from xlashape.hlo.ops.registry import OPERATIONS

VECTORS = Path(__file__).resolve().parents[2] / "vectors/collectives"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in gzip.decompress((VECTORS / "reference.jsonl.gz").read_bytes()).splitlines()
]
MESHES: dict[str, dict[str, Any]] = json.loads((VECTORS / "meshes.json").read_text())
FILES = sorted(path.name for path in VECTORS.glob("*.*.gz") if ".jsonl" not in path.name)

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"


@pytest.mark.parametrize("file", FILES)
def test_given_programs(file: str):
    program, kind, _ = file.split(".")
    module = HloModule.from_bytes(gzip.decompress((VECTORS / file).read_bytes()))
    about = MESHES[program]
    own = mesh_of(module)
    if about["named" if kind == "hlo" else "named_pb"]:
        assert own == DeviceMesh.of(about["axes"])
    else:
        assert own is None or not own.is_named
    mesh = own if own and own.is_named else DeviceMesh.of(about["axes"])
    found = find_collectives(module)
    grid = device_grid(module, found)
    assert grid.device_count == mesh.device_count
    expected = {row["name"]: row for row in ROWS if row["program"] == program}
    assert [each.instruction.name for each in found] == sorted(expected, key=[e.instruction.name for e in found].index)
    for each in found:
        row = expected[each.instruction.name]
        groups = groups_of(each, grid)
        moved = groups.moved(each)
        axes = axes_of(groups, mesh)
        assert {
            "names": sorted(part.name for part in each.parts),
            "opcode": str(each.instruction.opcode),
            "kind": each.exchange.kind,
            "mode": groups.mode,
            "group_size": groups.size,
            "groups": len(groups.members),
            "members": sorted(sorted(group) for group in groups.members),
            "bytes": each.size,
            "sent_bytes": moved.sent,
            "sent_all": moved.sent_all,
            "received_bytes": moved.received,
            "received_all": moved.received_all,
            "mesh_axes": None if axes is None else list(axes),
        } == {name: sorted(row[name]) if name == "names" else row[name] for name in (
            "names opcode kind mode group_size groups members bytes sent_bytes sent_all received_bytes received_all "
            "mesh_axes"
        ).split()}  # fmt: skip


def only(text: str) -> tuple[Collective, DeviceGroups]:
    module = HloModule.parse(text)
    (found,) = find_collectives(module)
    return found, groups_of(found, device_grid(module, [found]))


def test_transfers_between_partitions_are_pairs():
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,2},{3,3}}"}'
    body = f"""ENTRY e {{ p = f32[6] parameter(0) t = token[] after-all()
      s = (f32[6], u32[], token[]) send(p, t), channel_id=1, {pairs} d = token[] send-done(s), channel_id=1
      r = (f32[6], u32[], token[]) recv(t), channel_id=2, {pairs} e = (f32[6], token[]) recv-done(r), channel_id=2
      ROOT g = f32[6] get-tuple-element(e), index=0 }}"""
    module = HloModule.parse("HloModule m, num_partitions=4\n" + body)
    send, recv = find_collectives(module)
    grid = device_grid(module, [send, recv])
    groups = groups_of(send, grid)
    assert (groups.mode, groups.members) == ("cross_partition", ((0, 1, 2),))
    assert groups.moved(send) == exchange.Exchanged(24, 0, 48, 0)
    assert groups_of(recv, grid).moved(recv) == exchange.Exchanged(0, 24, 0, 48)
    assert (send.end, recv.end) == (module.instruction("d"), module.instruction("e"))
    host = body.replace("channel_id=1", "channel_id=1, is_host_transfer=true")
    assert [each.exchange.kind for each in find_collectives(HloModule.parse(f"HloModule m\n{host}"))] == ["recv"]


@pytest.mark.parametrize("text", ["{{0,1,2}}", "{{0}}", "{0,1}"])
def test_lists_that_are_no_pairs_are_refused(text: str):
    with pytest.raises(InvalidModuleError, match=r"instruction 's': _xla_send_recv_source_target_pairs"):
        only(f"""HloModule m, num_partitions=4 ENTRY e {{ p = f32[6] parameter(0) t = token[] after-all()
          s = (f32[6], u32[], token[]) send(p, t), channel_id=1,
            frontend_attributes={{_xla_send_recv_source_target_pairs="{text}"}}
          ROOT d = token[] send-done(s), channel_id=1 }}""")


def test_a_permute_of_a_part_moves_the_part():
    found, groups = only("""HloModule m, num_partitions=2 ENTRY e { p = bf16[8,8] parameter(0)
      q = bf16[8,8] parameter(1) z = s32[] constant(0) i = (s32[], s32[]) tuple(z, z)
      ROOT c = bf16[8,8] collective-permute(p, q, i, i), channel_id=1, source_target_pairs={{0,1},{1,0}},
        slice_sizes={{4,2}} }""")
    assert groups.moved(found).sent == 16


def test_a_ragged_exchange_has_a_bound():
    found, groups = only("""HloModule m, num_partitions=4 ENTRY e { p = f32[8] parameter(0) q = f32[16] parameter(1)
      o = s32[4] parameter(2) ROOT r = f32[16] ragged-all-to-all(p, q, o, o, o, o), channel_id=1,
        replica_groups={{0,1,2,3}} }""")
    assert found.exchange.is_bound
    assert groups.moved(found)[:2] == (32, 64)


def test_groups_of_other_devices_are_refused():
    with pytest.raises(InvalidModuleError, match="instruction 'r' names device 4; there are 2"):
        only(
            "HloModule m, num_partitions=2\n" + ADD + "ENTRY e { p = f32[8] parameter(0) ROOT r = f32[8] all-reduce(p),"
            " channel_id=1, replica_groups={{0,4}}, use_global_device_ids=true, to_apply=add }"
        )


def test_groups_are_bounded():
    with pytest.raises(LimitExceededError, match="devices"):
        only(
            "HloModule m, replica_count=1000000, num_partitions=4\n" + ADD + "ENTRY e { p = f32[8] parameter(0) "
            "ROOT r = f32[8] all-reduce(p), replica_groups={}, to_apply=add }"
        )


def test_every_exchange_moves_nothing_in_a_group_of_one():
    for row in OPERATIONS.values():
        if row.exchange is not None and row.exchange.numbers is not exchange.GroupNumbers.PAIRS:
            assert row.exchange.moved(1, 100, 100) == exchange.Exchanged()


def groups_along(mesh: DeviceMesh, digits: list[tuple[int, int, int]]) -> DeviceGroups:
    """The groups whose members differ in these parts of axes: (axis, product of the sizes before it, its size)."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for device, index in enumerate(product(*map(range, mesh.sizes))):
        key = list(index)
        for axis, before, size in digits:
            after = mesh.sizes[axis] // (before * size)
            key[axis] -= key[axis] // after % size * after
        found.setdefault(tuple(key), []).append(device)
    return DeviceGroups("flattened", tuple(map(tuple, found.values())), None)


@pytest.mark.parametrize("sizes", [(8,), (2, 8), (12,), (4, 6), (2, 3, 4), (16, 2), (30,)])
def test_axes_of_all_parts_of_axes(sizes: tuple[int, ...]):
    mesh = DeviceMesh(tuple("xyz"[: len(sizes)]), sizes)
    parts = [
        (axis, before, size)
        for axis, whole in enumerate(sizes)
        for before in range(1, whole)
        for size in range(2, whole + 1)
        if whole % (before * size) == 0
    ]
    for part in parts:
        axis, before, size = part
        name = mesh.names[axis]
        expected = name if size == sizes[axis] else f"{name}:({before}){size}"
        assert axes_of(groups_along(mesh, [part]), mesh) == (expected,)


def test_groups_that_no_axes_give():
    mesh = DeviceMesh.of("x=2,y=4")
    for members in (((0, 1, 2), (3, 4, 5), (6, 7)), ((0, 3), (1, 2), (4, 7), (5, 6)), ((0, 1),), ((0, 9),)):
        assert axes_of(DeviceGroups("flattened", members, None), mesh) is None
    alone = tuple([(device,) for device in range(8)])
    assert axes_of(DeviceGroups("flattened", alone, None), mesh) == ()


@pytest.mark.parametrize(
    "text", ["data", "a=2,a=2", "a=0", "a=2;b=2", "mesh['x'=2", "a=1048577", "a=2,", ""], ids=lambda text: text or "-"
)
def test_no_mesh(text: str):
    with pytest.raises(InvalidArgumentError) as caught:
        DeviceMesh.of(text)
    assert caught.value.field == "mesh"


def test_meshes_in_all_spellings():
    assert DeviceMesh.of("mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0))") == DeviceMesh(("x", "y"), (2, 2), (0, 2, 1, 3))
    assert DeviceMesh.of({"x": 2}) == DeviceMesh.of("x=2") == DeviceMesh.of("mesh['x'=2]")
    shardy = 'xla.sdy.meshes="{mesh = #sdy.mesh<[\\"x\\"=4, \\"y\\"=2]>}"'
    module = HloModule.parse(
        f"HloModule m, frontend_attributes={{{shardy}}} ENTRY e {{ ROOT p = f32[8] parameter(0) }}"
    )
    assert mesh_of(module) == DeviceMesh.of("x=4,y=2")


def test_the_size_of_a_mesh_is_the_number_of_partitions_where_nothing_states_it():
    module = HloModule.parse(
        "HloModule m\n" + ADD + "ENTRY e { p = f32[8] parameter(0) "
        "ROOT r = f32[8] all-reduce(p), channel_id=1, replica_groups={}, use_global_device_ids=true, to_apply=add }"
    )
    found = find_collectives(module)
    assert device_grid(module, found, 4) == DeviceGrid(1, 4, is_stated=False)
