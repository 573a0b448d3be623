"""The replica groups that compact forms stand for: a reshaped and transposed list of devices, or axes of a mesh."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from xlashape.errors import InvalidModuleError, LimitExceededError
from xlashape.hlo.values.device_lists import transposed
from xlashape.math import product
from xlashape.proto import xla

__all__ = ["MAX_REPLICAS", "iota_groups", "mesh_groups"]

MAX_REPLICAS = 1 << 20
"""The most replicas that a compact form may stand for."""

Ids = tuple[int, ...]


def iota_groups(message: xla.IotaReplicaGroupListProto) -> tuple[Ids, ...]:
    """The ids 0, 1, … reshaped, transposed and cut into groups of equal size.

    >>> iota_groups(xla.IotaReplicaGroupListProto(iota_reshape_dims=[2, 2], iota_transpose_perm=[1, 0], num_replica_groups=2, num_devices_per_group=2))
    ((0, 2), (1, 3))
    """
    shape = tuple(message.iota_reshape_dims)
    permutation = tuple(message.iota_transpose_perm) or tuple(range(len(shape)))
    count, size = message.num_replica_groups, message.num_devices_per_group
    total = product(shape)
    if (
        count < 0
        or size < 0
        or any(n < 0 for n in shape)
        or total != count * size
        or sorted(permutation) != list(range(len(shape)))
    ):
        raise InvalidModuleError(
            f"not a list of replica groups: [{count},{size}] of {list(shape)} transposed by {list(permutation)}"
        )
    return _cut(_grid(shape, permutation), size)


def mesh_groups(message: xla.MeshAxesReplicaGroupListProto) -> tuple[Ids, ...]:
    """Devices that differ in the named axes alone form a group. Within it, the first named axis is the most major."""
    mesh = message.mesh
    sizes = [axis.size for axis in mesh.axes]
    total = product(sizes)
    if not sizes or any(n <= 0 for n in sizes):
        raise InvalidModuleError(f"not a list of replica groups: a mesh of {sizes}")
    parts, named = _parts(sizes, message.axes)
    rest = [part for part in range(len(parts)) if part not in named]
    order = _grid(parts, (*rest, *named))
    devices = _devices(mesh, total)
    return _cut([devices[i] for i in order], product([parts[part] for part in named]))


def _parts(sizes: Sequence[int], axes: Sequence[xla.AxisRefProto]) -> tuple[Ids, list[int]]:
    """The mesh's axes cut into parts where a named sub-axis begins or ends, and the numbers of the named parts, in order."""
    ends = [{1, size} for size in sizes]
    spans: list[tuple[int, int, int]] = []
    for axis in axes:
        number = axis.mesh_axis_index
        if not 0 <= number < len(sizes):
            raise InvalidModuleError(f"not a list of replica groups: axis {number} of a mesh of {len(sizes)}")
        first, last = 1, sizes[number]
        if axis.HasField("sub_axis_info"):
            first, last = axis.sub_axis_info.pre_size, axis.sub_axis_info.pre_size * axis.sub_axis_info.size
        ends[number] |= {first, last}
        spans.append((number, first, last))
    parts: list[int] = []
    # The axis that each part belongs to, and the size of the axis before it.
    origins: list[tuple[int, int]] = []
    for number, cuts in enumerate(ends):
        ordered = sorted(cuts)
        for low, high in itertools.pairwise(ordered):
            if low < 1 or high % low:
                raise InvalidModuleError(f"not a list of replica groups: {sizes[number]} devices cut at {ordered}")
            parts.append(high // low)
            origins.append((number, low))
    named = [
        part
        for number, first, last in spans
        for part, (axis, low) in enumerate(origins)
        if axis == number and first <= low < last
    ]
    if len(set(named)) != len(named) or any(cut > size for cuts, size in zip(ends, sizes, strict=True) for cut in cuts):
        raise InvalidModuleError("not a list of replica groups: axes of the mesh that overlap")
    return tuple(parts), named


def _devices(mesh: xla.MeshProto, total: int) -> Sequence[int]:
    """The ids of the mesh's devices, in row-major order of its axes."""
    if mesh.device_ids:
        devices: Sequence[int] = list(mesh.device_ids)
    elif mesh.HasField("iota_transform"):
        shape = tuple(mesh.iota_transform.reshape_dims)
        permutation = tuple(mesh.iota_transform.transpose_perm) or tuple(range(len(shape)))
        if any(n <= 0 for n in shape) or sorted(permutation) != list(range(len(shape))) or product(shape) != total:
            raise InvalidModuleError(f"not a list of replica groups: {list(shape)} transposed by {list(permutation)}")
        devices = _grid(shape, permutation)
    else:
        devices = range(total)
    if len(devices) != total:
        raise InvalidModuleError(f"not a list of replica groups: {len(devices)} devices in a mesh of {total}")
    return devices


def _grid(shape: Sequence[int], permutation: Sequence[int]) -> list[int]:
    """The numbers 0, 1, … in that shape, transposed, listed in row-major order."""
    total = product(shape)
    if total > MAX_REPLICAS:
        raise LimitExceededError(
            f"replicas: {total} is more than {MAX_REPLICAS}", limit="replicas", maximum=MAX_REPLICAS, value=total
        )
    return transposed(list(range(total)), shape, permutation)


def _cut(ids: Sequence[int], size: int) -> tuple[Ids, ...]:
    return tuple([tuple(ids[start : start + size]) for start in range(0, len(ids), size)]) if size else ()
