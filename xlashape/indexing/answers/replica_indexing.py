"""The replicas that hold the elements of an access across replicas."""

from __future__ import annotations

from xlashape.frozen import FrozenValue, set_field
from xlashape.symbolic import IndexingMap

__all__ = ["ReplicaIndexing"]


class ReplicaIndexing(FrozenValue):
    """Which replicas hold the elements of an access across replicas. Frozen and hashable.

    `map` leads from the dimensions of the access to a position in the list of replicas that the executing replica takes data from (input to
    output: gives data to). That list is

    - the executing replica's group in `groups`, or all replicas in order where `groups` is empty;
    - with `pairs` of (source, target): the executing replica's source (target).

    A replica that stands in its group several times stands for one of its partitions each time: partition 0 the first time, then partition 1, …

    A range variable of `map` means every replica of the list. `map` is undefined where the size of the group is not known.

    >>> every_second = ReplicaIndexing(IndexingMap.parse("(d0) -> (1), domain: d0 in [0, 3]"), ((0, 2), (1, 3)))
    >>> every_second.partners(3)
    (1, 3)
    """

    __slots__ = ("groups", "map", "pairs")
    _fields = ("map", "groups", "pairs")

    map: IndexingMap
    groups: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...] | None

    def __init__(
        self,
        map: IndexingMap,  # noqa: A002  # the proto's name
        groups: tuple[tuple[int, ...], ...] = (),
        pairs: tuple[tuple[int, int], ...] | None = None,
    ) -> None:
        set_field(self, "map", map)
        set_field(self, "groups", groups)
        set_field(self, "pairs", pairs)

    def partners(self, replica: int, *, backwards: bool = False) -> tuple[int, ...] | None:
        """The list that `map` gives positions in, for the executing replica `replica`; None where it is all replicas, by id.

        With pairs: the sources of the replica, or with `backwards` its targets. Empty where the replica takes no part.
        """
        if self.pairs is not None:
            if backwards:
                return tuple([target for source, target in self.pairs if source == replica])
            return tuple([source for source, target in self.pairs if target == replica])
        if not self.groups:
            return None
        return next((group for group in self.groups if replica in group), ())

    def __repr__(self) -> str:
        return str(self.map)
