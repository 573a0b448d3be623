r"""Who a collective speaks to: replica_groups= and source_target_pairs=.

groups      := '{' ('{' ints '}' …)* '}' | '[' INT ',' INT ']' '<=' iota | 'mesh' mesh '{' axis … '}'
pairs       := '{' ('{' INT ',' INT '}' …)* '}'
"""

from __future__ import annotations

from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.mesh import canonical_iota, parse_axis, parse_iota, parse_mesh
from xlashape.proto import xla
from xlashape.proto.wire import Fields

__all__ = ["parse_replica_groups", "parse_source_target_pairs"]

_FIELDS = Fields(xla.HloInstructionProto)


def parse_replica_groups(cursor: HloCursor) -> bytes:
    """The groups of a collective, as whichever of its three fields they are."""
    if cursor.looking_at("{"):
        groups = cursor.parse_list(lambda: cursor.parse_ints(what="a replica"))
        return _FIELDS.message(
            "collective_device_list",
            xla.CollectiveDeviceListProto(replica_groups=[xla.ReplicaGroup(replica_ids=group) for group in groups]),
        )
    if cursor.accept("mesh"):
        mesh, numbers = parse_mesh(cursor)
        axes = cursor.parse_list(lambda: parse_axis(cursor, mesh, numbers))
        return _FIELDS.message("mesh_axes_replica_group_list", xla.MeshAxesReplicaGroupListProto(mesh=mesh, axes=axes))
    cursor.skip_space()
    at = cursor.at
    if not cursor.looking_at("["):
        cursor.fail("replica groups: '{{0,1},…}', '[2,4]<=[8]' or 'mesh[…]'")
    sizes = cursor.parse_ints("[", "]", "a number of groups")
    if len(sizes) != 2:
        raise cursor.error("expected the number of groups and the devices of one, [2,4]", at=at)
    cursor.expect("<=")
    dims, perm = canonical_iota(*parse_iota(cursor))
    return _FIELDS.message(
        "iota_collective_device_list",
        xla.IotaReplicaGroupListProto(
            num_replica_groups=sizes[0],
            num_devices_per_group=sizes[1],
            iota_reshape_dims=dims,
            iota_transpose_perm=perm,
        ),
    )


def parse_source_target_pairs(cursor: HloCursor) -> bytes:
    """'{' '{' INT ',' INT '}' … '}'."""

    def pair() -> bytes:
        cursor.skip_space()
        at = cursor.at
        ends = cursor.parse_ints(what="a device")
        if len(ends) != 2:
            raise cursor.error("expected a pair, {source,target}", at=at, expected="a pair")
        return _FIELDS.message("source_target_pairs", xla.SourceTarget(source=ends[0], target=ends[1]))

    return b"".join(cursor.parse_list(pair))
