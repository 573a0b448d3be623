"""The attributes `replica_groups={{0,1},{2,3}}`, the groups of replicas or devices that exchange data in a collective,
and `source_target_pairs={{0,1},{1,0}}`, which device sends to which in a collective-permute.

groups      := '{' ('{' ints '}' (',' …)*)? '}' | '[' groups ',' size ']' '<=' iota
             | (mesh | single_device) '{' axis (',' axis)* '}'
pairs       := '{' (pair (',' pair)*)? '}'      pair := '{' source ',' target '}'

The groups have three forms: a list, an iota and a mesh. `xlashape.hlo.values.devices` has the grammars of the latter
two. A proto has a field for each form. The oldest protos have the groups in a fourth field, replica_groups, which is
written in the first form. Protos of jaxlib 0.4.35 to 0.8.3 have an iota in a field that the schema no longer has
(`xlashape.hlo.module_proto.schema_compat`); it is written in the second form. The text of a fingerprint always has the
first form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from xlashape.base.frozen import FrozenValue, set_field
from xlashape.base.math import product
from xlashape.errors import InvalidModuleError
from xlashape.hlo.module_proto.schema_compat import iota_replica_groups
from xlashape.hlo.tokens import HloCursor, ints
from xlashape.hlo.values.attribute import FIELDS, Attribute, Codec, Context, structured_list, whole
from xlashape.hlo.values.devices import (
    MAX_DEVICES,
    Iota,
    Mesh,
    accept_single_device,
    axis_texts,
    mesh_devices_along,
    mesh_text,
    parse_device_id,
    parse_mesh,
)
from xlashape.proto import xla


def parse_replica_groups(cursor: HloCursor) -> bytes:
    """Reads the groups at the cursor and returns them as serialized fields of HloInstructionProto."""
    if cursor.looking_at("{"):
        groups = cursor.parse_list(lambda: cursor.parse_ints(what="a replica"))
        return FIELDS.message(
            "collective_device_list",
            xla.CollectiveDeviceListProto(replica_groups=[xla.ReplicaGroup(replica_ids=group) for group in groups]),
        )
    is_single = accept_single_device(cursor)
    if is_single or cursor.accept("mesh"):
        mesh = Mesh(xla.MeshProto(device_ids=[parse_device_id(cursor)]), {}) if is_single else parse_mesh(cursor)
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


def _write_groups(message: xla.HloInstructionProto, context: Context) -> str:
    text = _listed(_groups_of(message)) if context.is_fingerprint else _text(message)
    return f", replica_groups={text}"


def _text(instruction: xla.HloInstructionProto) -> str:
    """The text of the groups of an instruction in the form that its proto has."""
    iota = _iota_of(instruction)
    if iota is not None:
        devices = Iota.of(iota.iota_reshape_dims, iota.iota_transpose_perm)
        return f"[{iota.num_replica_groups},{iota.num_devices_per_group}]<={devices}"
    if instruction.HasField("mesh_axes_replica_group_list"):
        groups = instruction.mesh_axes_replica_group_list
        return f"{mesh_text(groups.mesh)} {{{','.join(axis_texts(groups.mesh, groups.axes))}}}"
    return _listed(_groups_of(instruction))


def _listed(groups: Iterable[Iterable[int]]) -> str:
    return f"{{{','.join([ints(group) for group in groups])}}}"


def _mesh_groups(groups: xla.MeshAxesReplicaGroupListProto, most: int = MAX_DEVICES) -> tuple[list[int], int, int]:
    """All devices, one group after the other; the number of groups; the size of each.

    Two devices of the mesh are in the same group if their positions differ only along the axes of `groups`.
    """
    devices, sizes = mesh_devices_along(groups.mesh, groups.axes, most)
    size = product(sizes)
    return devices, len(devices) // max(size, 1), size


def _groups_of(instruction: xla.HloInstructionProto, most: int = MAX_DEVICES) -> list[list[int]]:
    """The groups of an instruction as lists of devices, whichever form its proto has.

    InvalidModuleError if the number of devices does not fit the groups, LimitExceededError for an iota or a mesh of
    more than `most` devices.
    """
    iota = _iota_of(instruction)
    if iota is not None:
        devices = Iota.of(iota.iota_reshape_dims, iota.iota_transpose_perm).devices(most)
        return _cut(devices, iota.num_replica_groups, iota.num_devices_per_group)
    if instruction.HasField("mesh_axes_replica_group_list"):
        return _cut(*_mesh_groups(instruction.mesh_axes_replica_group_list, most))
    is_list = instruction.HasField("collective_device_list")
    groups = instruction.collective_device_list.replica_groups if is_list else instruction.replica_groups
    return [list(group.replica_ids) for group in groups]


def _iota_of(instruction: xla.HloInstructionProto) -> xla.IotaReplicaGroupListProto | None:
    """The groups of an instruction in iota form, from today's field or the older one; None if they have another
    form."""
    if instruction.HasField("iota_collective_device_list"):
        return instruction.iota_collective_device_list
    if instruction.HasField("mesh_axes_replica_group_list"):
        return None
    return iota_replica_groups(instruction.collective_device_list)


def _cut(devices: list[int], groups: int, size: int) -> list[list[int]]:
    if groups < 0 or size < 0 or len(devices) != groups * size:
        raise InvalidModuleError(f"{len(devices)} devices do not make {groups} groups of {size}")
    return [devices[i : i + size] for i in range(0, len(devices), max(size, 1))]


_FORMS: Final = (
    "iota_collective_device_list",
    "mesh_axes_replica_group_list",
    "collective_device_list",
    "replica_groups",
)


class ReplicaGroups(FrozenValue):
    """The groups of replicas or devices between which a collective exchanges data.

    >>> groups = ReplicaGroups.parse("[2,2]<=[2,2]T(1,0)")
    >>> groups.groups, groups.group_of(3), str(groups)
    (((0, 2), (1, 3)), (1, 3), '[2,2]<=[2,2]T(1,0)')
    >>> ReplicaGroups.parse("mesh['a'=2,'b'=2] {'a'}") == groups == ReplicaGroups([(0, 2), (1, 3)])
    True

    An empty list means that all replicas or devices are one group. The form of the groups (list, iota or mesh) is kept
    for `write`; comparisons ignore it.
    """

    __slots__ = ("_expanded", "_serialized")
    _fields = ("groups",)
    _expanded: tuple[tuple[int, ...], ...] | None
    _serialized: bytes | None

    def __init__(self, groups: Iterable[Iterable[int]] = ()) -> None:
        set_field(self, "_expanded", tuple([tuple(group) for group in groups]))
        set_field(self, "_serialized", None)

    @classmethod
    def parse(cls, text: str) -> ReplicaGroups:
        """The groups that `text`, the value of `replica_groups=` in HLO text, describes. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> ReplicaGroups:
        """Reads the groups at the cursor. InvalidModuleError where they contradict each other."""
        return cls.from_instruction(xla.HloInstructionProto.FromString(parse_replica_groups(cursor)))

    def write(self) -> str:
        """The text of the groups in the form that was kept, such as `{{0,1},{2,3}}` or `[2,2]<=[4]`."""
        return _text(self.to_proto())

    @classmethod
    def of_proto(cls, message: xla.HloInstructionProto) -> ReplicaGroups:
        """The groups of an instruction, whichever of its fields has them. They are not checked until `groups` or
        `expand` makes lists of devices of them."""
        form = next((name for name in _FORMS[:3] if message.HasField(name)), "replica_groups")
        parts = message.replica_groups if form == "replica_groups" else [getattr(message, form)]
        groups = cls()
        set_field(groups, "_expanded", None)
        set_field(groups, "_serialized", b"".join([FIELDS.message(form, part) for part in parts]))
        return groups

    @classmethod
    def from_instruction(cls, proto: xla.HloInstructionProto) -> ReplicaGroups:
        """The groups of an instruction, expanded and checked. InvalidModuleError where the fields contradict each
        other."""
        groups = cls.of_proto(proto)
        _ = groups.groups
        return groups

    def to_proto(self) -> xla.HloInstructionProto:
        """A new HloInstructionProto with only the groups set."""
        if self._serialized is not None:
            return xla.HloInstructionProto.FromString(self._serialized)
        groups = [xla.ReplicaGroup(replica_ids=group) for group in self.groups]
        return xla.HloInstructionProto(collective_device_list=xla.CollectiveDeviceListProto(replica_groups=groups))

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The devices of each group, whichever form the groups have. Raises as `expand` does."""
        return self.expand()

    def expand(self, most: int = MAX_DEVICES) -> tuple[tuple[int, ...], ...]:
        """The devices of each group, as `groups`. LimitExceededError for an iota or a mesh of more than `most` devices,
        InvalidModuleError if the number of devices does not fit the groups.
        """
        expanded = self._expanded
        if expanded is None:
            expanded = tuple([tuple(group) for group in _groups_of(self.to_proto(), most)])
            set_field(self, "_expanded", expanded)
        return expanded

    def group_of(self, device: int) -> tuple[int, ...] | None:
        """The group that contains this replica or device, or None."""
        return next((group for group in self.groups if device in group), None)

    def __str__(self) -> str:
        return self.write()

    def __repr__(self) -> str:
        return f"ReplicaGroups({self.groups})"


def _put(instruction: xla.HloInstructionProto, value: Any) -> None:
    new = None if value is None else (value if isinstance(value, ReplicaGroups) else ReplicaGroups(value)).to_proto()
    for name in _FORMS:
        instruction.ClearField(name)
    if new is not None:
        instruction.MergeFrom(new)


def _is_said(_: ReplicaGroups) -> bool:
    # XLA writes the groups of every collective, also where there are none.
    return True


REPLICA_GROUPS: Final = Attribute(
    "replica_groups",
    parse_replica_groups,
    _write_groups,
    Codec(ReplicaGroups.of_proto, _put, "ReplicaGroups", _is_said),
)


# -- sources and targets -----------------------------------------------------------------------


class SourceTarget(NamedTuple):
    """A device that sends and the device that receives from it, in a collective-permute.

    >>> SourceTarget.parse("{0,1}")
    SourceTarget(source=0, target=1)
    """

    source: int
    target: int

    @classmethod
    def parse(cls, text: str) -> SourceTarget:
        """The pair that `text` describes, braces included. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> SourceTarget:
        """Reads the pair at the cursor."""
        cursor.skip_space()
        at = cursor.at
        ends = cursor.parse_ints(what="a device")
        if len(ends) != 2:
            raise cursor.error("expected a pair, {source,target}", at=at, expected="a pair")
        return cls(*ends)

    def write(self) -> str:
        """The text of the pair, such as `{0,1}`."""
        return f"{{{self.source},{self.target}}}"

    @classmethod
    def of_proto(cls, message: xla.SourceTarget) -> SourceTarget:
        """The pair of a message."""
        return cls(message.source, message.target)

    def to_proto(self) -> xla.SourceTarget:
        """A new `xla.SourceTarget`."""
        return xla.SourceTarget(source=self.source, target=self.target)


def _write_pairs(message: xla.HloInstructionProto, _context: Context) -> str:
    pairs = [SourceTarget.of_proto(each).write() for each in message.source_target_pairs]
    return f", source_target_pairs={{{','.join(pairs)}}}"


SOURCE_TARGET_PAIRS: Final = structured_list("source_target_pairs", SourceTarget, _write_pairs)
