"""The text of shardings, device lists and meshes. Matches XLA's HloSharding, NamedSharding, CollectiveDeviceList and Mesh.

sharding := '{' 'replicated' | 'manual' | 'unknown' | 'unreduced' | 'maximal device=' INT | devices | named  suffix* '}'
          | '{' sharding (', ' sharding)* '}'
devices  := 'devices=[' dims ']' (INT,… | '<=[' dims ']' ('T(' perm ')')?) last?
named    := mesh ', [' dim (', ' dim)* ']' (', replicated=' axes)? (', unreduced=' axes)? (', manual=' axes)?
mesh     := "mesh['a'=2,'b'=4]" (', device_ids=(' INT,… | '[' dims ']' 'T(' perm ')' ')')?
groups   := '{{0,1},{2,3}}' | '[2,4]<=[2,2,2]T(1,0,2)' | mesh ' {' axes '}'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xlashape.errors import InvalidModuleError
from xlashape.hlo.formatting import ints
from xlashape.hlo.values.metadata_text import metadata_fields
from xlashape.hlo.values.tiled_sharding import MAX_DEVICES, Tiles, canonical_iota, iota_devices, tiles_of, transposed
from xlashape.limits import MAX_SHAPE_DEPTH, check
from xlashape.math import product
from xlashape.proto import xla

__all__ = ["iota_text", "mesh_text", "replica_groups_text", "sharding_text"]

_TYPES = {
    xla.OpSharding.REPLICATED: "replicated",
    xla.OpSharding.MANUAL: "manual",
    xla.OpSharding.UNKNOWN: "unknown",
    xla.OpSharding.UNREDUCED: "unreduced",
}


def sharding_text(sharding: xla.OpSharding, *, metadata: bool = True, depth: int = 0) -> str:
    """The text of a sharding, braces included.

    Raises InvalidModuleError for a type that XLA does not know.

    >>> sharding_text(xla.OpSharding(type=xla.OpSharding.OTHER, tile_assignment_dimensions=[2, 1], tile_assignment_devices=[1, 0]))
    '{devices=[2,1]1,0}'
    """
    if sharding.HasField("named_sharding"):
        return _named_text(sharding.named_sharding, metadata)
    kind = sharding.type
    if kind == xla.OpSharding.TUPLE:
        check("levels of tuples in a sharding", depth, MAX_SHAPE_DEPTH)
        parts = [sharding_text(part, metadata=metadata, depth=depth + 1) for part in sharding.tuple_shardings]
        return "{" + numbered(parts) + "}"
    group = ""
    if sharding.is_shard_group:
        like = sharding.shard_group_type == xla.OpSharding.LIKE
        group = f" shard_{'like' if like else 'as'} {sharding.shard_group_id}"
    tail = group + (_metadata_text(sharding.metadata) if metadata else "")
    simple = _TYPES.get(kind)
    if simple is not None:
        return f"{{{simple}{tail}}}"
    if kind == xla.OpSharding.MAXIMAL:
        devices = sharding.tile_assignment_devices
        return f"{{maximal device={devices[0] if devices else 0}{tail}}}"
    if kind != xla.OpSharding.OTHER:
        raise InvalidModuleError(f"{kind} is no type of sharding")
    return f"{{{_tiled_text(tiles_of(sharding))}{tail}}}"


def numbered(parts: Sequence[str], interval: int = 5) -> str:
    """`a, b, c, d, e, /*index=5*/f`: a comment before every fifth, as XLA numbers long lists."""
    if len(parts) <= interval or not interval:
        return ", ".join(parts)
    return ", ".join([f"/*index={i}*/{part}" if i and i % interval == 0 else part for i, part in enumerate(parts)])


def _tiled_text(tiles: Tiles) -> str:
    tiled = tiles.dimensions[: len(tiles.dimensions) - len(tiles.last)]
    if len(tiles.last) <= 1 and product(tiled) == 1:
        kind = tiles.last[0] if tiles.last else xla.OpSharding.REPLICATED
        return _TYPES.get(kind, str(kind))
    text = f"devices=[{','.join(map(str, tiles.dimensions))}]"
    if tiles.iota is not None:
        text += "<=" + iota_text(*tiles.iota)
    else:
        text += ",".join(map(str, tiles.devices or ()))
    if tiles.last == [xla.OpSharding.REPLICATED]:
        return f"{text} last_tile_dim_replicate"
    if tiles.last:
        text += f" last_tile_dims={{{', '.join([_TYPES.get(kind, str(kind)) for kind in tiles.last])}}}"
    return text


def iota_text(reshape: Iterable[int], perm: Iterable[int]) -> str:
    """0, 1, 2, … reshaped and transposed: `[4,2]T(1,0)`, in the fewest dimensions.

    >>> iota_text([2, 2, 1, 3], [0, 1, 3, 2])
    '[12]'
    """
    sizes, order = canonical_iota(list(reshape), list(perm))
    text = f"[{','.join(map(str, sizes))}]"
    return text if len(order) < 2 else f"{text}T({','.join(map(str, order))})"


def _metadata_text(metadata: Sequence[xla.OpMetadata]) -> str:
    if not metadata:
        return ""
    parts = _metadata_parts(metadata)
    return f" metadata={parts[0]}" if len(parts) == 1 else f" metadata={{{', '.join(parts)}}}"


def _metadata_parts(metadata: Sequence[xla.OpMetadata]) -> list[str]:
    # Here stack frames keep their numbers of the proto.
    return [f"{{{metadata_fields(one, one.stack_frame_id)}}}" for one in metadata]


def mesh_text(mesh: xla.MeshProto) -> str:
    """`mesh['a'=2,'b'=4]` and its devices where they are not 0, 1, 2, …"""
    axes = ",".join([f"'{axis.name}'={axis.size}" for axis in mesh.axes])
    text = f"mesh[{axes}]"
    if mesh.HasField("iota_transform"):
        transform = mesh.iota_transform
        iota = iota_text(transform.reshape_dims, transform.transpose_perm)
        return f"{text}, device_ids=({iota})" if "T" in iota else text
    if mesh.device_ids:
        return f"{text}, device_ids=({','.join(map(str, mesh.device_ids))})"
    return text


def _axes_text(mesh: xla.MeshProto, axes: Iterable[xla.AxisRefProto]) -> list[str]:
    parts: list[str] = []
    for axis in axes:
        index = axis.mesh_axis_index
        if not 0 <= index < len(mesh.axes):
            raise InvalidModuleError(f"there is no axis {index} in a mesh of {len(mesh.axes)}")
        part = f"'{mesh.axes[index].name}'"
        if axis.HasField("sub_axis_info"):
            part += f":({axis.sub_axis_info.pre_size}){axis.sub_axis_info.size}"
        parts.append(part)
    return parts


def _named_text(named: xla.NamedShardingProto, metadata: bool) -> str:
    mesh = named.mesh
    tail = ""
    if metadata and named.metadata:
        tail = f", metadata={{{', '.join(_metadata_parts(named.metadata))}}}"
    if not mesh.axes and len(mesh.device_ids) == 1:
        return f"{{maximal_mesh[device_id={mesh.device_ids[0]}]{tail}}}"
    dims: list[str] = []
    for dim in named.dim_shardings:
        parts = _axes_text(mesh, dim.axes)
        if not dim.is_closed:
            parts.append("?")
        dims.append(f"{{{', '.join(parts)}}}")
    text = f"{mesh_text(mesh)}, [{', '.join(dims)}]" if dims else f"{mesh_text(mesh)}, replicated"
    for name, axes in (
        ("replicated", named.replicated_axes),
        ("unreduced", named.unreduced_axes),
        ("manual", named.manual_axes),
    ):
        if axes:
            text += f", {name}={{{', '.join(_axes_text(mesh, axes))}}}"
    return f"{{{text}{tail}}}"


def replica_groups_text(instruction: xla.HloInstructionProto, *, full: bool = False) -> str:
    """The replica groups of a collective, whichever of the four forms holds them; `full` writes iotas and meshes as lists."""
    if instruction.HasField("iota_collective_device_list"):
        iota = instruction.iota_collective_device_list
        if full:
            sizes = (iota.num_replica_groups, iota.num_devices_per_group)
            return _groups_text(iota_devices(iota.iota_reshape_dims, iota.iota_transpose_perm), *sizes)
        shape = f"[{iota.num_replica_groups},{iota.num_devices_per_group}]"
        return f"{shape}<={iota_text(iota.iota_reshape_dims, iota.iota_transpose_perm)}"
    if instruction.HasField("mesh_axes_replica_group_list"):
        groups = instruction.mesh_axes_replica_group_list
        if full:
            return _groups_text(*_mesh_groups(groups))
        return f"{mesh_text(groups.mesh)} {{{','.join(_axes_text(groups.mesh, groups.axes))}}}"
    if instruction.HasField("collective_device_list"):
        listed = instruction.collective_device_list.replica_groups
    else:
        listed = instruction.replica_groups
    return f"{{{','.join([ints(group.replica_ids) for group in listed])}}}"


def _groups_text(devices: list[int], groups: int, size: int) -> str:
    if groups < 0 or size < 0 or len(devices) != groups * size:
        raise InvalidModuleError(f"{len(devices)} devices do not make {groups} groups of {size}")
    return f"{{{','.join([ints(devices[i : i + size]) for i in range(0, len(devices), max(size, 1))])}}}"


def _mesh_groups(groups: xla.MeshAxesReplicaGroupListProto) -> tuple[list[int], int, int]:
    """The devices of a mesh, those that differ along the axes of a group only next to each other; groups; devices of a group."""
    mesh = groups.mesh
    total = product(axis.size for axis in mesh.axes)
    if total < 0:
        raise InvalidModuleError("the axes of a mesh have negative sizes")
    check("devices of a mesh", total, MAX_DEVICES)
    if mesh.HasField("iota_transform"):
        devices = iota_devices(mesh.iota_transform.reshape_dims, mesh.iota_transform.transpose_perm)
    else:
        devices = list(mesh.device_ids) or list(range(total))
    if len(devices) != total:
        raise InvalidModuleError(f"{len(devices)} devices for a mesh of {total}")
    # Each axis splits into what lies before, within and after the part that a group runs along.
    parts: dict[int, list[tuple[int, int]]] = {}
    for number, ref in enumerate(groups.axes):
        index = ref.mesh_axis_index
        if not 0 <= index < len(mesh.axes):
            raise InvalidModuleError(f"there is no axis {index} in a mesh of {len(mesh.axes)}")
        parts.setdefault(index, []).append((ref.sub_axis_info.pre_size if ref.HasField("sub_axis_info") else 1, number))
    sizes: list[int] = []
    inside: dict[int, int] = {}
    for index, axis in enumerate(mesh.axes):
        before = 1
        for pre, number in sorted(parts.get(index, [])):
            ref = groups.axes[number]
            size = ref.sub_axis_info.size if ref.HasField("sub_axis_info") else axis.size
            if pre <= 0 or size <= 0 or pre % before or axis.size % (pre * size):
                raise InvalidModuleError(f"axis {axis.name!r} of size {axis.size} has no part ({pre}){size}")
            sizes.append(pre // before)
            inside[number] = len(sizes)
            sizes.append(size)
            before = pre * size
        sizes.append(axis.size // before)
    along = [inside[number] for number in range(len(groups.axes))]
    order = [i for i in range(len(sizes)) if i not in along] + along
    size = product(sizes[i] for i in along)
    return transposed(devices, sizes, order), total // max(size, 1), size
