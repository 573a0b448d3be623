r"""Shardings in all spellings: values of this library, HLO text, Shardy's attributes, and objects of JAX.

    shardy   := '#sdy.sharding<' one '>' | '#sdy.sharding_per_value<[' '<' one '>' (', ' '<' one '>')* ']>'
    one      := (inline | '@' NAME) ', ' '[' dim (', ' dim)* ']' (', ' list)*
    inline   := 'mesh<[' axis (', ' axis)* ']' (', device_ids=[' INT (', ' INT)* ']')? '>'    axis := '"x"=2'
    dim      := '{"x", "y":(1)2, ?}' and maybe a priority, 'p1'
    list     := 'replicated={"z"}' | 'unreduced={"z"}'

A mesh that an attribute names by `@` comes from the caller. Objects are known by their attributes; no other library is
imported: a `jax.sharding.NamedSharding` has `mesh` and `spec`, others have `_to_xla_hlo_sharding`, and an array has
`sharding`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, Final, cast

from xlashape.base.math import product
from xlashape.errors import InvalidArgumentError
from xlashape.hlo.collectives.meshes import DeviceMesh
from xlashape.hlo.values.sharding import Sharding
from xlashape.shape import Shape

_ONE: Final = re.compile(
    r"<(?:@(?P<name>[\w.\-]{1,200})"
    r"|mesh<\[(?P<axes>[^\]<>]{0,4000})\](?:, ?device_ids ?= ?\[(?P<ids>[\d, ]{0,100000})\])?>)"
    r", ?(?P<rest>\[[^<>\[\]]{0,4000}\][^<>\[\]]{0,4000})>"
)
_MOST_AXES: Final = 5
_PRIORITY: Final = re.compile(r"\}p\d{1,9}")


def of(x: Any, shape: Shape | None = None, mesh: Any = None) -> Sharding:
    """The sharding of `x`: a Sharding, HLO text with its braces, an attribute of Shardy, a sharding of JAX, or an array
    of JAX.

    shape: the array, where the spelling does not say the number of dimensions, as a PartitionSpec that is shorter.
    mesh: what `@mesh` names in an attribute of Shardy: `"x=2,y=4"`, a mapping, or a `jax.sharding.Mesh`.
    Raises ParseError for other text, InvalidArgumentError for other objects.

    >>> str(of('#sdy.sharding<@mesh, [{"x"}, {}]>', mesh="x=2,y=2"))
    "{mesh['x'=2,'y'=2], [{'x'}, {}]}"
    """
    if isinstance(x, Sharding):
        return x
    if isinstance(x, str):
        return _of_shardy(x, mesh) if "#sdy" in x else Sharding.parse(x)
    held = getattr(x, "sharding", None)
    if held is not None:
        return of(held, shape if shape is not None else Shape.of(x))
    spec, devices = getattr(x, "spec", None), getattr(x, "mesh", None)
    if spec is not None and devices is not None and devices.shape:
        return _of_spec(spec, devices.shape, shape)
    to_hlo = getattr(x, "_to_xla_hlo_sharding", None)
    if to_hlo is None:
        raise InvalidArgumentError(f"expected a sharding, found {type(x).__name__}", field="sharding")
    if shape is None:
        raise InvalidArgumentError(f"the sharding {type(x).__name__} needs the shape of its array", field="shape")
    return Sharding.parse(str(Sharding.from_proto(cast("bytes", to_hlo(shape.rank).to_proto().SerializeToString()))))


def _of_spec(spec: Any, sizes: Mapping[str, int], shape: Shape | None) -> Sharding:
    """The sharding of a PartitionSpec over a mesh of these axes."""
    dims = [_dimension(each) for each in spec]
    rank = len(dims) if shape is None else shape.rank
    if len(dims) > rank:
        raise InvalidArgumentError(f"{spec} divides {len(dims)} dimensions, not those of {shape}", field="shape")
    mesh = ",".join([f"'{name}'={size}" for name, size in sizes.items()])
    text = f"mesh[{mesh}], [{', '.join([*dims, *['{}'] * (rank - len(dims))])}]"
    unreduced = sorted(getattr(spec, "unreduced", ()))
    if unreduced:
        text += f", unreduced={{{', '.join([repr(axis) for axis in unreduced])}}}"
    return Sharding.parse(f"{{{text}}}")


def _dimension(axes: Any) -> str:
    """A dimension of a PartitionSpec: None, the name of an axis, a tuple of names, or the mark of an unconstrained
    dimension, which is a class or an object of another kind.
    """
    if axes is None:
        return "{}"
    names = [axes] if isinstance(axes, str) else list(cast("Sequence[str]", axes)) if isinstance(axes, tuple) else ["?"]
    return "{" + ", ".join([name if name == "?" else f"'{name}'" for name in names]) + "}"


def _of_shardy(text: str, mesh: Any) -> Sharding:
    parts: list[str] = []
    for one in _ONE.finditer(text):
        if one["name"] is None:
            spelled = f"mesh[{one['axes']}]" + (f", device_ids=({one['ids']})" if one["ids"] else "")
        elif mesh is None:
            raise InvalidArgumentError(f"pass the mesh @{one['name']}, such as mesh='x=2,y=4'", field="mesh")
        else:
            spelled = _mesh_text(DeviceMesh.of(mesh))
        parts.append(_PRIORITY.sub("}", f"{{{spelled}, {one['rest']}}}").replace('"', "'"))
    if not parts:
        raise InvalidArgumentError(f"no sharding of Shardy: {text[:200]!r}", field="sharding")
    return Sharding.parse(parts[0] if "per_value" not in text else f"{{{', '.join(parts)}}}")


def _mesh_text(mesh: DeviceMesh) -> str:
    axes = ",".join([f"'{name}'={size}" for name, size in zip(mesh.names, mesh.sizes, strict=True)])
    return f"mesh[{axes}]" + (f", device_ids=({','.join(map(str, mesh.devices))})" if mesh.devices else "")


def spec_of(sharding: Sharding, mesh: DeviceMesh) -> str | None:
    """The PartitionSpec of JAX that gives a sharding of tiles on a mesh; None where no axes of the mesh give it.

    >>> spec_of(of("{devices=[1,8]<=[2,4]T(1,0)}"), DeviceMesh.of("x=2,y=4"))
    "P(None, ('y', 'x'))"
    """
    axes = axes_of_dimensions(sharding, mesh)
    if axes is None:
        return None
    texts = [repr(names[0]) if len(names) == 1 else repr(names) if names else "None" for names in axes]
    return f"P({', '.join(texts)})"


def axes_of_dimensions(sharding: Sharding, mesh: DeviceMesh) -> tuple[tuple[str, ...], ...] | None:
    """The axes of a mesh that divide each dimension, the major one first; none at all for a replicated array of any
    rank. None where no axes of the mesh give the sharding.

    >>> axes_of_dimensions(of("{devices=[1,8]<=[2,4]T(1,0)}"), DeviceMesh.of("x=2,y=4"))
    ((), ('y', 'x'))
    """
    if sharding.kind == "replicated":
        return ()
    if sharding.kind not in ("tiled", "named") or len(mesh.names) > _MOST_AXES:
        return None
    counts = sharding.tile_counts
    if counts is None:
        named = sharding.to_proto().named_sharding
        return None if named.manual_axes or named.unreduced_axes else ()
    for axes in _divided(counts, tuple(zip(mesh.names, mesh.sizes, strict=True))):
        dims = ", ".join([f"{{{', '.join([repr(name) for name in names])}}}" for names in axes])
        spelled = Sharding.parse(f"{{{_mesh_text(mesh)}, [{dims}]}}")
        holders = [list(map(sorted, each.holders or [])) for each in (spelled, sharding)]
        if holders[0] == holders[1]:
            return axes
    return None


def _divided(counts: Sequence[int], axes: tuple[tuple[str, int], ...]) -> Iterator[tuple[tuple[str, ...], ...]]:
    """The ways to give each dimension axes, in an order, whose sizes have its number of tiles as their product."""
    if not counts:
        yield ()
        return
    for length in range(len(axes) + 1):
        for chosen in permutations([each for each in axes if each[1] > 1], length):
            if product([size for _, size in chosen]) == counts[0]:
                rest = tuple([each for each in axes if each not in chosen])
                for following in _divided(counts[1:], rest):
                    yield (tuple([name for name, _ in chosen]), *following)


def device_count(sharding: Sharding) -> int | None:
    """The number of devices of a sharding; None where it names none."""
    proto = sharding.to_proto()
    if proto.HasField("named_sharding") and proto.named_sharding.mesh.axes:
        return product([axis.size for axis in proto.named_sharding.mesh.axes])
    devices = sharding.devices
    return None if devices is None else max(devices) + 1
