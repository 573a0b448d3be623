r"""Which replicas or devices a collective exchanges data between: `replica_groups={{0,1},{2,3}}`.

groups      := '{' ('{' ints '}' (',' …)*)? '}' | '[' groups ',' size ']' '<=' iota | mesh '{' axis (',' axis)* '}'

The three forms are three fields. A fourth field, a plain list of groups, is what protos had first; it is written as the first form.
The second form in an older field (xlashape.hlo.older) is written as the second form.
In a fingerprint all devices are listed.
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.caches import cached
from xlashape.errors import InvalidModuleError
from xlashape.hlo.formatting import ints
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.older import iota_replica_groups
from xlashape.hlo.values.attribute import ABSENT, FIELDS, Attribute, Context
from xlashape.hlo.values.device_lists import MAX_DEVICES, Iota
from xlashape.hlo.values.mesh import axis_texts, mesh_devices_along, mesh_text, parse_mesh
from xlashape.math import product
from xlashape.proto import xla

__all__ = ["REPLICA_GROUPS", "expanded_groups", "parse_replica_groups"]


def parse_replica_groups(cursor: HloCursor) -> bytes:
    """The groups at the cursor, as fields of an instruction."""
    if cursor.looking_at("{"):
        groups = cursor.parse_list(lambda: cursor.parse_ints(what="a replica"))
        return FIELDS.message(
            "collective_device_list",
            xla.CollectiveDeviceListProto(replica_groups=[xla.ReplicaGroup(replica_ids=group) for group in groups]),
        )
    if cursor.accept("mesh"):
        mesh = parse_mesh(cursor)
        axes = cursor.parse_list(lambda: mesh.parse_axis(cursor))
        return FIELDS.message(
            "mesh_axes_replica_group_list", xla.MeshAxesReplicaGroupListProto(mesh=mesh.message, axes=axes)
        )
    cursor.skip_space()
    at = cursor.at
    if not cursor.looking_at("["):
        cursor.fail("replica groups: '{{0,1},…}', '[2,4]<=[8]' or 'mesh[…]'")
    sizes = cursor.parse_ints("[", "]", "a number of groups")
    if len(sizes) != 2:
        raise cursor.error("expected the number of groups and their size, [2,4]", at=at)
    cursor.expect("<=")
    iota = Iota.parse(cursor).canonical()
    if product(sizes) != iota.device_count:
        raise cursor.error(f"{sizes[0]} groups of {sizes[1]} do not hold {iota.device_count} devices", at=at)
    return FIELDS.message(
        "iota_collective_device_list",
        xla.IotaReplicaGroupListProto(
            num_replica_groups=sizes[0],
            num_devices_per_group=sizes[1],
            iota_reshape_dims=iota.sizes,
            iota_transpose_perm=iota.order,
        ),
    )


def _write(message: Any, context: Context) -> str:
    if message.iota_collective_device_list != ABSENT:
        text = _iota_text(message.iota_collective_device_list, context.is_fingerprint)
    elif message.mesh_axes_replica_group_list != ABSENT:
        text = _mesh_text(message.mesh_axes_replica_group_list, context.is_fingerprint)
    elif message.collective_device_list != ABSENT:
        text = _list_text(message.collective_device_list, context.is_fingerprint)
    else:
        groups = [xla.ReplicaGroup.FromString(data) for data in message.replica_groups]
        text = f"{{{','.join([ints(group.replica_ids) for group in groups])}}}"
    return f", replica_groups={text}"


@cached(max_bytes=4 << 20, weigh=lambda key, text: 300 + len(key[0]) + len(text))
def _list_text(data: bytes, listed: bool) -> str:
    groups = xla.CollectiveDeviceListProto.FromString(data)
    older = iota_replica_groups(groups)
    if older is not None:
        return _iota_text(older.SerializeToString(), listed)
    return f"{{{','.join([ints(group.replica_ids) for group in groups.replica_groups])}}}"


@cached(max_bytes=4 << 20, weigh=lambda key, text: 300 + len(key[0]) + len(text))
def _iota_text(data: bytes, listed: bool) -> str:
    groups = xla.IotaReplicaGroupListProto.FromString(data)
    iota = Iota.of(groups.iota_reshape_dims, groups.iota_transpose_perm)
    if listed:
        return _groups_text(iota.devices(), groups.num_replica_groups, groups.num_devices_per_group)
    return f"[{groups.num_replica_groups},{groups.num_devices_per_group}]<={iota}"


@cached(max_bytes=4 << 20, weigh=lambda key, text: 300 + len(key[0]) + len(text))
def _mesh_text(data: bytes, listed: bool) -> str:
    groups = xla.MeshAxesReplicaGroupListProto.FromString(data)
    if listed:
        return _groups_text(*_mesh_groups(groups))
    return f"{mesh_text(groups.mesh)} {{{','.join(axis_texts(groups.mesh, groups.axes))}}}"


def _groups_text(devices: list[int], groups: int, size: int) -> str:
    return f"{{{','.join([ints(group) for group in _cut(devices, groups, size)])}}}"


def _mesh_groups(groups: xla.MeshAxesReplicaGroupListProto, most: int = MAX_DEVICES) -> tuple[list[int], int, int]:
    """The devices group after group, the number of groups and the size of each.

    The devices of a group are those of the mesh that differ in their position along the axes of the groups only.
    """
    devices, sizes = mesh_devices_along(groups.mesh, groups.axes, most)
    size = product(sizes)
    return devices, len(devices) // max(size, 1), size


def expanded_groups(instruction: xla.HloInstructionProto, most: int = MAX_DEVICES) -> list[list[int]]:
    """The groups of an instruction in any of their forms.

    InvalidModuleError for devices that do not make these groups, LimitExceededError for a short form of more than `most` devices.
    """
    if instruction.HasField("iota_collective_device_list"):
        return _iota_groups(instruction.iota_collective_device_list, most)
    if instruction.HasField("mesh_axes_replica_group_list"):
        return _cut(*_mesh_groups(instruction.mesh_axes_replica_group_list, most))
    if instruction.HasField("collective_device_list"):
        older = iota_replica_groups(instruction.collective_device_list)
        if older is not None:
            return _iota_groups(older, most)
        return [list(group.replica_ids) for group in instruction.collective_device_list.replica_groups]
    return [list(group.replica_ids) for group in instruction.replica_groups]


def _iota_groups(groups: xla.IotaReplicaGroupListProto, most: int) -> list[list[int]]:
    iota = Iota.of(groups.iota_reshape_dims, groups.iota_transpose_perm)
    return _cut(iota.devices(most), groups.num_replica_groups, groups.num_devices_per_group)


def _cut(devices: list[int], groups: int, size: int) -> list[list[int]]:
    if groups < 0 or size < 0 or len(devices) != groups * size:
        raise InvalidModuleError(f"{len(devices)} devices do not make {groups} groups of {size}")
    return [devices[i : i + size] for i in range(0, len(devices), max(size, 1))]


REPLICA_GROUPS: Final = Attribute("replica_groups", parse_replica_groups, _write)
