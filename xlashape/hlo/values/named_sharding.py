r"""Shardings over the named axes of a mesh.

named       := mesh ',' ('replicated' | '[' dim (',' dim)* ']') (',' list)*
             | 'maximal_mesh' '[' 'device_id=' INT ']'
dim         := '{' (axis (',' axis)* (',' '?')? | '?')? '}'         '?' where further axes may be added
list        := ('replicated' | 'unreduced' | 'manual') '=' '{' axis (',' axis)* '}' | 'metadata=' metadata
"""

from __future__ import annotations

from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.mesh import Mesh, axis_texts, mesh_text, parse_mesh
from xlashape.hlo.values.metadata import metadata_texts, parse_metadata_messages
from xlashape.proto import xla

__all__ = ["named_sharding_text", "parse_named_sharding"]


def parse_named_sharding(cursor: HloCursor) -> xla.OpSharding | None:
    """The named sharding within braces, these not included; None where what comes next is another sharding."""
    at = cursor.at
    sharding = xla.OpSharding(type=xla.OpSharding.REPLICATED)
    named = sharding.named_sharding
    if cursor.accept("maximal_mesh"):
        cursor.expect("[")
        cursor.expect("device_id=")
        named.mesh.device_ids.append(cursor.parse_int("a device"))
        cursor.expect("]")
    elif cursor.accept("mesh"):
        mesh = parse_mesh(cursor)
        named.mesh.CopyFrom(mesh.message)
        cursor.expect(",")
        used = _parse_dimensions_and_lists(cursor, mesh, named)
        whole = [axis.mesh_axis_index for axis in used if not axis.HasField("sub_axis_info")]
        parts = {axis.mesh_axis_index for axis in used if axis.HasField("sub_axis_info")}
        if len(set(whole)) != len(whole) or parts & set(whole):
            raise cursor.error("an axis of the mesh is used twice", at=at)
    else:
        return None
    return sharding


def _parse_dimensions_and_lists(cursor: HloCursor, mesh: Mesh, named: xla.NamedShardingProto) -> list[xla.AxisRefProto]:
    """What follows the mesh. Returns all axes that are used."""
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

    if not cursor.accept("replicated"):
        cursor.parse_list(dimension, "[", "]")
    lists = {"replicated": named.replicated_axes, "unreduced": named.unreduced_axes, "manual": named.manual_axes}
    while cursor.accept(","):
        at = cursor.at
        name = cursor.parse_attribute_name()
        if name == "metadata":
            named.metadata.extend(parse_metadata_messages(cursor))
        elif name in lists:
            lists[name].extend(cursor.parse_list(axis))
        else:
            raise cursor.error(f"expected replicated, unreduced, manual or metadata, found {name!r}", at=at)
    return used


def named_sharding_text(named: xla.NamedShardingProto, *, metadata: bool) -> str:
    """The text of a named sharding, without braces."""
    mesh = named.mesh
    tail = ""
    if metadata and named.metadata:
        tail = f", metadata={{{', '.join(metadata_texts(named.metadata))}}}"
    if not mesh.axes and len(mesh.device_ids) == 1:
        return f"maximal_mesh[device_id={mesh.device_ids[0]}]{tail}"
    dims: list[str] = []
    for dim in named.dim_shardings:
        parts = axis_texts(mesh, dim.axes)
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
            text += f", {name}={{{', '.join(axis_texts(mesh, axes))}}}"
    return text + tail
