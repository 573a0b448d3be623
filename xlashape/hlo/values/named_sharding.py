r"""Named shardings: for each dimension of an array, the axes of a device mesh that divide it.
`mesh['x'=2,'y'=4], [{'x'}, {}]` divides the first dimension along axis x.

named       := mesh ','? (whole | '[' (dim (',' dim)*)? ']' (',' list)*) (',' 'metadata=' metadata)?
             | ('single_device' | 'maximal_mesh') '[' 'device_id=' INT ']'             maximal_mesh: until jaxlib 0.10.2
whole       := 'replicated' | 'manual' | 'unreduced' ('=' reduction)? axes?          without axes: all of the mesh
axes        := '{' (axis (',' axis)*)? '}'
reduction   := 'sum' | 'max' | 'min' | 'unknown_' INT
dim         := '{' (axis (',' axis)* (',' '?')? | '?')? '}'         '?' where further axes may be added
list        := ('replicated' | 'unreduced' | 'manual') '=' reduction? '{' axis (',' axis)* '}'

Only `unreduced` has a reduction, which says how the values that the devices hold are combined. Without one they are
summed. The grammars of `mesh` and `axis` are in devices, that of `metadata` in metadata.
"""

from __future__ import annotations

from typing import Final

from xlashape.hlo.tokens import HloCursor
from xlashape.hlo.values.devices import Mesh, accept_single_device, axis_texts, mesh_text, parse_device_id, parse_mesh
from xlashape.hlo.values.enums import EnumWords, lower_case
from xlashape.hlo.values.metadata import metadata_texts, parse_metadata_messages
from xlashape.proto import xla

_REDUCTIONS: Final = EnumWords(lower_case(xla.NamedShardingProto.ReductionOpProto), "a reduction: sum, max or min")


def parse_named_sharding(cursor: HloCursor) -> xla.OpSharding | None:
    """Reads a named sharding, without the braces around it. None if a sharding of another kind comes next."""
    at = cursor.at
    sharding = xla.OpSharding(type=xla.OpSharding.REPLICATED)
    named = sharding.named_sharding
    if accept_single_device(cursor):
        named.mesh.device_ids.append(parse_device_id(cursor))
    elif cursor.accept("mesh"):
        mesh = parse_mesh(cursor)
        named.mesh.CopyFrom(mesh.message)
        cursor.accept(",")
        used = _parse_dimensions_and_lists(cursor, mesh, named)
        whole = [axis.mesh_axis_index for axis in used if not axis.HasField("sub_axis_info")]
        parts = {axis.mesh_axis_index for axis in used if axis.HasField("sub_axis_info")}
        if len(set(whole)) != len(whole) or parts & set(whole):
            raise cursor.error("an axis of the mesh is used twice", at=at)
    else:
        return None
    return sharding


def _parse_dimensions_and_lists(cursor: HloCursor, mesh: Mesh, named: xla.NamedShardingProto) -> list[xla.AxisRefProto]:
    """Reads the part of a named sharding that follows the mesh. Returns all axes that the part names."""
    used: list[xla.AxisRefProto] = []

    def axis() -> xla.AxisRefProto:
        used.append(mesh.parse_axis(cursor))
        return used[-1]

    def dimension() -> None:
        dim = named.dim_shardings.add()
        cursor.expect("{")
        dim.is_closed = True
        while not cursor.accept("}"):
            if cursor.accept("?"):
                dim.is_closed = False
                cursor.expect("}")
                return
            dim.axes.append(axis())
            if not cursor.accept(","):
                cursor.expect("}")
                return

    is_whole = True
    if cursor.accept("manual"):
        named.manual_axes.extend(mesh.all_axes())
    elif cursor.accept("unreduced"):
        if cursor.accept("="):
            named.reduction_op = _REDUCTIONS.parse(cursor)
        if cursor.looking_at("{"):
            named.unreduced_axes.extend(cursor.parse_list(axis))
        else:
            named.unreduced_axes.extend(mesh.all_axes())
    elif not cursor.accept("replicated"):
        cursor.parse_list(dimension, "[", "]")
        is_whole = False
    lists = {"replicated": named.replicated_axes, "unreduced": named.unreduced_axes, "manual": named.manual_axes}
    while cursor.accept(","):
        at = cursor.at
        name = cursor.parse_attribute_name()
        if name == "metadata":
            named.metadata.extend(parse_metadata_messages(cursor))
        elif name in lists and not is_whole:
            if name == "unreduced" and not cursor.looking_at("{"):
                named.reduction_op = _REDUCTIONS.parse(cursor)
            lists[name].extend(cursor.parse_list(axis))
        else:
            raise cursor.error(
                f"expected {'metadata' if is_whole else 'replicated, unreduced, manual or metadata'}, found {name!r}",
                at=at,
            )
    return used


def named_sharding_text(named: xla.NamedShardingProto, *, metadata: bool) -> str:
    """The text of a named sharding, without braces."""
    mesh = named.mesh
    tail = ""
    if metadata and named.metadata:
        tail = f", metadata={{{', '.join(metadata_texts(named.metadata))}}}"
    if not mesh.axes and len(mesh.device_ids) == 1:
        return mesh_text(mesh) + tail
    reduction = _REDUCTIONS.text(named.reduction_op) if named.reduction_op else ""
    if not named.dim_shardings:
        whole = _whole(named)
        if whole:
            suffix = f"={reduction}" if whole == "unreduced" and reduction else ""
            return f"{mesh_text(mesh)}, {whole}{suffix}{tail}"
    dims: list[str] = []
    for dim in named.dim_shardings:
        parts = axis_texts(mesh, dim.axes)
        if not dim.is_closed:
            parts.append("?")
        dims.append(f"{{{', '.join(parts)}}}")
    text = f"{mesh_text(mesh)}, [{', '.join(dims)}]"
    for name, axes in (
        ("replicated=", named.replicated_axes),
        (f"unreduced={reduction}", named.unreduced_axes),
        ("manual=", named.manual_axes),
    ):
        if axes:
            text += f", {name}{{{', '.join(axis_texts(mesh, axes))}}}"
    return text + tail


def _whole(named: xla.NamedShardingProto) -> str:
    """The word that is written for a sharding without dimensions: "manual" or "unreduced" if all axes of the mesh are,
    "replicated" if no axis is named. "" for a sharding whose axes must be written."""
    lists = {"manual": named.manual_axes, "unreduced": named.unreduced_axes, "replicated": named.replicated_axes}
    used = [name for name, axes in lists.items() if axes]
    if not used:
        return "replicated"
    if len(used) > 1 or used == ["replicated"]:
        return ""
    axes = lists[used[0]]
    is_all = [axis.mesh_axis_index for axis in axes] == list(range(len(named.mesh.axes)))
    return used[0] if is_all and not any(axis.HasField("sub_axis_info") for axis in axes) else ""
