"""Replica groups as values: every form expanded to the lists of its groups."""

from __future__ import annotations

from xlashape.frozen import FrozenValue, set_field
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.replica_groups import expanded_groups, parse_replica_groups
from xlashape.proto import xla

__all__ = ["ReplicaGroups"]


class ReplicaGroups(FrozenValue):
    """The groups of replicas or devices between which a collective exchanges data.

    >>> ReplicaGroups.parse("[2,2]<=[2,2]T(1,0)").groups
    ((0, 2), (1, 3))
    >>> ReplicaGroups.parse("mesh['a'=2,'b'=2] {'a'}").group_of(3)
    (1, 3)

    No groups stand for one group of all.
    """

    __slots__ = ("groups",)
    _fields = ("groups",)
    groups: tuple[tuple[int, ...], ...]

    def __init__(self, groups: tuple[tuple[int, ...], ...] = ()) -> None:
        set_field(self, "groups", tuple([tuple(group) for group in groups]))

    @classmethod
    def parse(cls, text: str) -> ReplicaGroups:
        """The groups written `text`, as behind `replica_groups=` in HLO text. ParseError otherwise."""
        cursor = HloCursor(text)
        data = parse_replica_groups(cursor)
        cursor.expect_end()
        return cls.from_instruction(xla.HloInstructionProto.FromString(data))

    @classmethod
    def from_instruction(cls, proto: xla.HloInstructionProto) -> ReplicaGroups:
        """The groups of an `xla.HloInstructionProto`. InvalidModuleError where its fields contradict each other."""
        return cls(tuple([tuple(group) for group in expanded_groups(proto)]))

    def group_of(self, device: int) -> tuple[int, ...] | None:
        """The group that has this replica or device, or None."""
        return next((group for group in self.groups if device in group), None)

    def __repr__(self) -> str:
        return f"ReplicaGroups({self.groups})"
