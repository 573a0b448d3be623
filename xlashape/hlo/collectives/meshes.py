r"""Meshes of devices with named axes, and the axes that the groups of a collective span.

    mesh   := 'mesh' as in shardings, "mesh['x'=2,'y'=4]" | axis (',' axis)*      axis := NAME '=' INT

`mesh_of` takes a mesh from a module, of these places the first one that has it: shardings and replica groups that spell
one; the shardings of parameters and outputs that protos keep (`spmd_parameters_shardings`); `xla.sdy.meshes`, the
meshes of Shardy, in a module before partitioning. Names that XLA made up itself, `axis_0`, …, count only where no
place has others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from itertools import product as product_of
from typing import Any, Final, NamedTuple, cast

from xlashape.base.math import factor_orders, product
from xlashape.errors import InvalidArgumentError, XlashapeError
from xlashape.hlo.collectives.groups import DeviceGroups
from xlashape.hlo.ir import ModuleData
from xlashape.hlo.values.attribute import whole
from xlashape.hlo.values.devices import mesh_device_ids, parse_mesh
from xlashape.limits import spend
from xlashape.proto import xla

_MOST_DEVICES: Final = 1 << 20
_MOST_CUTS: Final = 64
_MADE_UP: Final = re.compile(r"axis_\d{1,9}")
_SHARDY: Final = re.compile(r"#sdy\.mesh<\[([^\]<>]{0,4000})\](?:, ?device_ids ?= ?\[([^\]<>]{0,100000})\])?>")
_SHARDY_AXIS: Final = re.compile(r'"([^"]{1,200})"\s?=\s?(\d{1,9})')
_AXIS: Final = re.compile(r"\s?([A-Za-z_][\w.\-]{0,199})\s?=\s?(\d{1,9})\s?")


class DeviceMesh(NamedTuple):
    """Devices as an array with named axes.

    >>> mesh = DeviceMesh.of("data=2,model=4")
    >>> mesh.names, mesh.sizes, mesh.coordinates()[5]
    (('data', 'model'), (2, 4), (1, 1))
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    devices: tuple[int, ...] | None = None
    """The devices in row-major order; None where they are 0, 1, 2, …"""

    @staticmethod
    def of(x: Any) -> DeviceMesh:
        """The mesh in text, in a mapping from names to sizes, or in an object whose attribute `shape` is such a
        mapping, such as a `jax.sharding.Mesh`. Raises InvalidArgumentError.
        """
        x = getattr(x, "shape", x)
        if isinstance(x, DeviceMesh):
            return x
        if isinstance(x, Mapping):
            return _checked([(str(name), int(size)) for name, size in cast("Mapping[Any, Any]", x).items()])
        if not isinstance(x, str):
            raise InvalidArgumentError(f"expected a mesh such as 'data=4,model=2', found {x!r}", field="mesh")
        if x.strip().startswith("mesh"):
            try:
                return _of_proto(whole(lambda cursor: parse_mesh(_after_word(cursor)), x.strip()).message)
            except XlashapeError as error:
                raise InvalidArgumentError(f"no mesh: {error.message}", field="mesh") from error
        axes = [_AXIS.fullmatch(part) for part in x.split(",")]
        if any(each is None for each in axes):
            raise InvalidArgumentError(f"expected a mesh such as 'data=4,model=2', found {x[:200]!r}", field="mesh")
        return _checked([(each[1], int(each[2])) for each in axes if each is not None])

    def __str__(self) -> str:
        return ",".join([f"{name}={size}" for name, size in zip(self.names, self.sizes, strict=True)])

    def exchanged(self, targets: Mapping[int, int]) -> tuple[str, str] | None:
        """The two axes that change places if each device sends to its target; None where that is not what happens.

        >>> DeviceMesh.of("a=2,b=2").exchanged({0: 0, 1: 2, 2: 1, 3: 3})
        ('a', 'b')
        """
        places = self.coordinates()
        for one, other in combinations(range(len(self.sizes)), 2):
            order = list(range(len(self.sizes)))
            order[one], order[other] = other, one
            if all(
                tuple([places[source][axis] for axis in order]) == places.get(targets[source]) for source in targets
            ):
                return self.names[one], self.names[other]
        return None

    @property
    def device_count(self) -> int:
        """The number of devices."""
        return product(self.sizes)

    @property
    def is_named(self) -> bool:
        """Whether the program gave the names, and not XLA."""
        return not all(_MADE_UP.fullmatch(name) for name in self.names)

    def coordinates(self) -> dict[int, tuple[int, ...]]:
        """Device → its index in the mesh."""
        return dict(zip(self.devices or range(self.device_count), product_of(*map(range, self.sizes)), strict=True))


def _checked(axes: Sequence[tuple[str, int]]) -> DeviceMesh:
    names, sizes = tuple([name for name, _ in axes]), tuple([size for _, size in axes])
    if any(size < 1 for size in sizes) or len(set(names)) < len(names) or product(sizes) > _MOST_DEVICES:
        raise InvalidArgumentError(
            f"the axes of a mesh have different names and positive sizes, of at most {_MOST_DEVICES} devices; found "
            f"{','.join([f'{name}={size}' for name, size in axes])[:200]}",
            field="mesh",
        )
    return DeviceMesh(names, sizes)


def _after_word(cursor: Any) -> Any:
    cursor.expect("mesh")
    return cursor


def _of_proto(mesh: xla.MeshProto) -> DeviceMesh:
    devices = mesh_device_ids(mesh, _MOST_DEVICES)
    is_iota = devices == list(range(len(devices)))
    made = _checked([(axis.name, axis.size) for axis in mesh.axes])
    return made if is_iota else made._replace(devices=tuple(devices))


# -- the mesh of a module ----------------------------------------------------------------------


def mesh_of(module: ModuleData) -> DeviceMesh | None:
    """The mesh of the most devices that a module names; None where it names none.

    >>> from xlashape.hlo import HloModule
    >>> text = "HloModule m ENTRY e { ROOT p = f32[8] parameter(0), sharding={mesh['x'=2,'y'=4], [{'x'}]} }"
    >>> mesh_of(HloModule.parse(text))
    DeviceMesh(names=('x', 'y'), sizes=(2, 4), devices=None)
    """
    made_up: DeviceMesh | None = None
    for meshes in (_spelled, _kept, _of_shardy):
        found = [each for each in meshes(module) if each.names]
        named = [each for each in found if each.is_named]
        if named:
            return max(named, key=lambda each: each.device_count)
        if found and made_up is None:
            made_up = max(found, key=lambda each: each.device_count)
    return made_up


def _spelled(module: ModuleData) -> Iterator[DeviceMesh]:
    seen: set[bytes] = set()
    for kind in dict.fromkeys([each.kind for each in module.instructions()]):
        message = kind.message
        protos: list[xla.MeshProto] = []
        if kind.row.exchange is not None and message.HasField("mesh_axes_replica_group_list"):
            protos.append(message.mesh_axes_replica_group_list.mesh)
        if message.HasField("sharding"):
            protos += _meshes(message.sharding)
        yield from _distinct(protos, seen)


def _kept(module: ModuleData) -> Iterator[DeviceMesh]:
    head = module.head
    protos = [mesh for each in (*head.spmd_parameters_shardings, head.spmd_output_sharding) for mesh in _meshes(each)]
    yield from _distinct(protos, set())


def _meshes(sharding: xla.OpSharding) -> list[xla.MeshProto]:
    parts = [sharding, *sharding.tuple_shardings]
    return [each.named_sharding.mesh for each in parts if each.HasField("named_sharding")]


def _distinct(protos: Iterable[xla.MeshProto], seen: set[bytes]) -> Iterator[DeviceMesh]:
    for proto in protos:
        data = proto.SerializeToString(deterministic=True)
        if data not in seen:
            seen.add(data)
            yield _of_proto(proto)


def _of_shardy(module: ModuleData) -> Iterator[DeviceMesh]:
    for match in _SHARDY.finditer(module.head.frontend_attributes.map.get("xla.sdy.meshes", "")):
        made = _checked([(name, int(size)) for name, size in _SHARDY_AXIS.findall(match[1])])
        devices = tuple([int(each) for each in (match[2] or "").split(",") if each.strip().isdecimal()])
        yield made._replace(devices=devices) if len(devices) == made.device_count else made


# -- the axes of groups ------------------------------------------------------------------------


def axes_of(groups: DeviceGroups, mesh: DeviceMesh) -> tuple[str, ...] | None:
    """The axes, or parts of axes such as `y:(2)2`, along which the members of the groups differ; for pairs those in
    which source and target differ. None where no axes give these groups.

    >>> axes_of(DeviceGroups("flattened", ((0, 1), (2, 3), (4, 5), (6, 7)), None), DeviceMesh(("x", "y"), (2, 4)))
    ('y:(2)2',)
    """
    at = mesh.coordinates()
    if any(device not in at for group in groups.members for device in group):
        return None
    if groups.pairs is not None:
        spend(len(groups.pairs))
        pairs = [(at[source], at[target]) for source, target in groups.pairs]
        differing = [any(a[axis] != b[axis] for a, b in pairs) for axis in range(len(mesh.sizes))]
        return tuple([name for name, differs in zip(mesh.names, differing, strict=True) if differs])
    count = sum([len(group) for group in groups.members])
    if count != mesh.device_count or len({device for group in groups.members for device in group}) != count:
        return None
    members = [[at[device] for device in group] for group in groups.members]
    spend(count * len(mesh.sizes))
    whole_axes = _spanned(members, mesh.sizes)
    if whole_axes is not None:
        return tuple([mesh.names[axis] for axis in whole_axes])
    for cut in _cuts(mesh.sizes):
        spend(count * len(cut))
        digits = [[_digits(index, cut) for index in group] for group in members]
        spanned = _spanned(digits, [size for _, _, size in cut])
        if spanned is not None:
            return tuple(_part_texts([cut[number] for number in spanned], mesh))
    return None


def _spanned(members: Sequence[Sequence[tuple[int, ...]]], sizes: Sequence[int]) -> list[int] | None:
    """The dimensions in which members of a group differ, if each group has all indices along these dimensions."""
    varying = [
        dim for dim in range(len(sizes)) if any(index[dim] != group[0][dim] for group in members for index in group)
    ]
    whole_size = product([sizes[dim] for dim in varying])
    return varying if all(len(group) == whole_size for group in members) else None


def _cuts(sizes: Sequence[int]) -> Iterator[list[tuple[int, int, int]]]:
    """Ways to cut all axes into factors: each factor as (axis, product of the factors before it, size)."""
    ways: list[list[tuple[int, int, int]]] = [[]]
    for axis, size in enumerate(sizes):
        orders = factor_orders(size)
        ways = [
            [*way, *[(axis, product(order[:number]), factor) for number, factor in enumerate(order)]]
            for way in ways
            for order in orders
        ][:_MOST_CUTS]
    yield from ways


def _digits(index: tuple[int, ...], cut: Sequence[tuple[int, int, int]]) -> tuple[int, ...]:
    """The index in the axes' factors; the last factor of an axis is the most minor one."""
    digits: list[int] = []
    rest = list(index)
    for axis, _, size in reversed(cut):
        digits.append(rest[axis] % size)
        rest[axis] //= size
    return tuple(reversed(digits))


def _part_texts(factors: Sequence[tuple[int, int, int]], mesh: DeviceMesh) -> Iterator[str]:
    """The text of these factors, neighbours of one axis together."""
    merged: list[tuple[int, int, int]] = []
    for axis, before, size in factors:
        if merged and merged[-1][0] == axis and merged[-1][1] * merged[-1][2] == before:
            merged[-1] = axis, merged[-1][1], merged[-1][2] * size
        else:
            merged.append((axis, before, size))
    for axis, before, size in merged:
        yield mesh.names[axis] if size == mesh.sizes[axis] else f"{mesh.names[axis]}:({before}){size}"
