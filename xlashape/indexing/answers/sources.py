"""Where the values of runtime variables come from, and which replicas hold what is read across replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlashape.indexing.walk.constant_values import scalar_value
from xlashape.symbolic import IndexingMap, Interval

if TYPE_CHECKING:
    from xlashape.hlo import HloInstruction

__all__ = ["ReplicaIndexing", "RuntimeVariable"]


class RuntimeVariable:
    """Where the value of a runtime variable comes from.

    `instruction` produces it, in its leaf `leaf`; `map` leads from the variables of the map it belongs to, to the element that is the value. It
    has that map's dimensions; its range (runtime) variables too, all of them, if it depends on any. `is_position`: the value is no element
    but the position of the executing replica in its group of the collective `instruction`.

    A value beyond `bounds` counts as the nearest bound where the operation clamps it (dynamic-slice, gather; `is_clamped`); else (scatter) the
    access does not happen. Nor does it where the value, clamped or not, lies outside of the variable's bounds in the map, which in compositions
    may be narrower: of an array that was padded first, an offset may lead into the padding.
    """

    __slots__ = ("bounds", "instruction", "is_clamped", "is_position", "leaf", "map")

    instruction: HloInstruction
    map: IndexingMap
    leaf: int
    is_position: bool
    is_clamped: bool
    bounds: Interval | None
    """Of the operation. None: those that the variable has in the map."""

    def __init__(
        self,
        instruction: HloInstruction,
        map: IndexingMap,  # noqa: A002  # the proto's name
        leaf: int = 0,
        *,
        is_position: bool = False,
        is_clamped: bool = True,
        bounds: Interval | None = None,
    ) -> None:
        self.instruction = instruction
        self.map = map
        self.leaf = leaf
        self.is_position = is_position
        self.is_clamped = is_clamped
        self.bounds = bounds

    def with_map(self, map: IndexingMap) -> RuntimeVariable:  # noqa: A002  # the proto's name
        """The same producer, seen through another map."""
        return RuntimeVariable(
            self.instruction,
            map,
            self.leaf,
            is_position=self.is_position,
            is_clamped=self.is_clamped,
            bounds=self.bounds,
        )

    def with_instruction(self, instruction: HloInstruction) -> RuntimeVariable:
        """The same value, produced by another instruction."""
        if instruction is self.instruction:
            return self
        return RuntimeVariable(
            instruction,
            self.map,
            self.leaf,
            is_position=self.is_position,
            is_clamped=self.is_clamped,
            bounds=self.bounds,
        )

    def matters(self, bounds: Interval) -> bool:
        """Whether it decides about the access even if nothing else depends on it: it may come to lie outside of its bounds in the map."""
        if self.bounds is None:
            return False
        return not (self.is_clamped or self.is_position) or not bounds.contains(self.bounds)

    def _key(self) -> tuple[object, ...]:
        return (id(self.instruction), self.map, self.leaf, self.is_position, self.is_clamped, self.bounds)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, RuntimeVariable) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"{self.producer_text}; {self.map}"

    @property
    def producer_text(self) -> str:
        """The producer as XLA writes it: `parameter(1)`, `constant(7)`, else its name."""
        instruction = self.instruction
        if self.is_position:
            return f"position in a group of {instruction.name}"
        if instruction.proto.opcode == "parameter":
            return f"parameter({instruction.parameter_number})"
        if instruction.proto.opcode == "constant":
            value = scalar_value(instruction)
            return "constant" if value is None else f"constant({value})"
        return instruction.name


class ReplicaIndexing:
    """Which replicas hold the elements of an access across replicas.

    `map` leads from the dimensions of the access to a position in the list of replicas that the executing one takes data from (input to output:
    gives data to): its group in `groups` (without groups: all replicas in order), or with `pairs`, (source, target), its partner alone.
    Undefined where the size of the group is not known. A range variable of its own means: all of them.
    """

    __slots__ = ("groups", "map", "pairs")

    map: IndexingMap
    groups: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...] | None

    def __init__(
        self,
        map: IndexingMap,  # noqa: A002  # the proto's name
        groups: tuple[tuple[int, ...], ...] = (),
        pairs: tuple[tuple[int, int], ...] | None = None,
    ) -> None:
        self.map = map
        self.groups = groups
        self.pairs = pairs

    def partners(self, replica: int, *, backwards: bool = False) -> tuple[int, ...] | None:
        """The list that `map` gives positions in, for the executing replica; None where it is all replicas, by id.

        With pairs: the sources of the replica, or its targets `backwards`. Empty where it takes no part.
        """
        if self.pairs is not None:
            if backwards:
                return tuple([target for source, target in self.pairs if source == replica])
            return tuple([source for source, target in self.pairs if target == replica])
        if not self.groups:
            return None
        return next((group for group in self.groups if replica in group), ())

    def _key(self) -> tuple[object, ...]:
        return (self.map, self.groups, self.pairs)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, ReplicaIndexing) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return str(self.map)
