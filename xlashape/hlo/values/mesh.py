r"""Devices: an iota of them, and meshes of named axes. What shardings and groups of replicas are written over.

iota        := '[' INT (',' INT)* ']' ('T(' INT (',' INT)* ')')?           the transposition where there are several dimensions
mesh        := '[' (string '=' INT (',' …)*)? ']' (',' 'device_ids=' '(' (iota | INT (',' INT)*) ')')?
axis        := string (':' '(' INT ')' INT)?
"""

from __future__ import annotations

from collections.abc import Sequence

from xlashape.hlo.lex import HloCursor
from xlashape.math import product
from xlashape.proto import xla

__all__ = ["MAX_DEVICES", "canonical_iota", "parse_axis", "parse_iota", "parse_mesh"]

MAX_DEVICES = 1 << 24
"""More devices than any machine has."""


def canonical_iota(dims: Sequence[int], perm: Sequence[int]) -> tuple[list[int], list[int]]:
    """An iota reshaped to `dims` and transposed by `perm`, with as few dimensions as give the same order of devices.

    >>> canonical_iota([2, 2, 2], [2, 0, 1]), canonical_iota([8, 1], [1, 0])
    (([4, 2], [1, 0]), ([8], [0]))
    """
    order = [dim for dim in perm if dims[dim] != 1]
    runs: list[list[int]] = []
    kept = sorted(order)
    rank = {dim: place for place, dim in enumerate(kept)}
    for dim in order:
        if runs and rank[dim] == rank[runs[-1][-1]] + 1:
            runs[-1].append(dim)
        else:
            runs.append([dim])
    if not runs:
        return [1], [0]
    source = sorted(range(len(runs)), key=lambda run: runs[run][0])
    place_of = {run: place for place, run in enumerate(source)}
    return [product(dims[dim] for dim in runs[run]) for run in source], [place_of[run] for run in range(len(runs))]


def parse_iota(cursor: HloCursor) -> tuple[list[int], list[int]]:
    """'[' ints ']' ('T(' ints ')')?, checked, as written."""
    cursor.skip_space()
    at = cursor.at
    dims = cursor.parse_ints("[", "]", "a dimension of the iota")
    if cursor.accept("T("):
        cursor.at -= 1
        perm = cursor.parse_ints("(", ")", "a dimension number")
    elif len(dims) > 1:
        cursor.fail("'T(', since the iota has several dimensions")
    else:
        perm = [0]
    if not dims or any(not 1 <= size <= MAX_DEVICES for size in dims) or product(dims) > MAX_DEVICES:
        raise cursor.error(f"the dimensions of an iota must be positive and their product at most {MAX_DEVICES}", at=at)
    if sorted(perm) != list(range(len(dims))):
        raise cursor.error("the transposition is no permutation of the iota's dimensions", at=at)
    return dims, perm


def parse_mesh(cursor: HloCursor) -> tuple[xla.MeshProto, dict[bytes, int]]:
    """What follows `mesh`: its axes and, behind a comma, its devices. Also the number of each axis by name."""
    at = cursor.at
    mesh = xla.MeshProto()
    numbers: dict[bytes, int] = {}

    def axis() -> None:
        name = cursor.parse_text("the name of an axis")
        cursor.expect("=")
        size = cursor.parse_int_between(1, MAX_DEVICES, "the size of an axis")
        if name in numbers:
            raise cursor.error(f"the mesh has two axes {name.decode()!r}", at=at)
        numbers[name] = len(numbers)
        mesh.axes.add(name=name.decode(), size=size)

    cursor.parse_list(axis, "[", "]")
    count = product(one.size for one in mesh.axes)
    if count > MAX_DEVICES:
        raise cursor.error(f"a mesh has at most {MAX_DEVICES} devices", at=at)
    before = cursor.at
    if cursor.accept(",") and cursor.accept("device_ids="):
        cursor.expect("(")
        if cursor.looking_at("["):
            dims, perm = canonical_iota(*parse_iota(cursor))
            if product(dims) != count:
                raise cursor.error(f"{product(dims)} devices for a mesh of {count}", at=at)
            if len(dims) > 1:
                mesh.iota_transform.reshape_dims.extend(dims)
                mesh.iota_transform.transpose_perm.extend(perm)
            cursor.expect(")")
        else:
            cursor.at = cursor.text.rindex("(", 0, cursor.at)
            devices = cursor.parse_ints("(", ")", "a device")
            if sorted(devices) != list(range(count)):
                raise cursor.error(f"the devices of the mesh are not 0 … {count - 1} in some order", at=at)
            if devices != list(range(count)):
                mesh.device_ids.extend(devices)
    else:
        cursor.at = before
    return mesh, numbers


def parse_axis(cursor: HloCursor, mesh: xla.MeshProto, numbers: dict[bytes, int]) -> xla.AxisRefProto:
    """An axis of `mesh` or a part of one."""
    cursor.skip_space()
    at = cursor.at
    name = cursor.parse_text("the name of an axis")
    if name not in numbers:
        raise cursor.error(f"the mesh has no axis {name.decode()!r}", at=at, expected="an axis of the mesh")
    axis = xla.AxisRefProto(mesh_axis_index=numbers[name])
    if cursor.accept(":"):
        cursor.expect("(")
        axis.sub_axis_info.pre_size = cursor.parse_int_between(1, MAX_DEVICES, "the size before the part")
        cursor.expect(")")
        axis.sub_axis_info.size = cursor.parse_int_between(2, MAX_DEVICES, "the size of the part")
        if mesh.axes[numbers[name]].size % (axis.sub_axis_info.pre_size * axis.sub_axis_info.size):
            raise cursor.error("the part does not divide its axis", at=at)
    return axis
