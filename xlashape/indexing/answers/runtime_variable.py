"""The instruction that produces the value of a runtime variable, and the element of its result that the value is."""

from __future__ import annotations

from xlashape.frozen import FrozenValue, set_field
from xlashape.hlo import HloInstruction, Opcode
from xlashape.indexing.answers.constant_values import scalar_value
from xlashape.symbolic import IndexingMap, Interval

__all__ = ["RuntimeVariable"]


class RuntimeVariable(FrozenValue):
    """Where the value of a runtime variable of a map comes from. Frozen and hashable; equal if producers are the same instruction.

    - `instruction` produces the value, in its leaf `leaf`.
    - `map` leads from the variables of the map that the runtime variable belongs to, to the element of the leaf that is the value. It has that
      map's dimensions. It has that map's range (runtime) variables too if the element depends on any of them.
    - `is_position`: the value is not an element but the position of the executing replica in its group of the collective `instruction`.
    - `is_clamped`: how the operation treats a value beyond `bounds`. Where it is true (dynamic-slice, gather) the nearest bound is used, else
      (scatter) nothing is accessed.
    - `bounds`: the bounds that the operation sets. None: those that the variable has in the map.

    In a composition, the variable's bounds in the map may be narrower than `bounds`: an offset into an array that was padded first may lead
    into the padding. Nothing is accessed where the value, clamped or not, lies outside the variable's bounds in the map.
    """

    __slots__ = ("bounds", "instruction", "is_clamped", "is_position", "leaf", "map")
    _fields = ("instruction", "map", "leaf", "is_position", "is_clamped", "bounds")

    instruction: HloInstruction
    map: IndexingMap
    leaf: int
    is_position: bool
    is_clamped: bool
    bounds: Interval | None

    def __init__(
        self,
        instruction: HloInstruction,
        map: IndexingMap,  # noqa: A002  # the proto's name
        leaf: int = 0,
        is_position: bool = False,
        is_clamped: bool = True,
        bounds: Interval | None = None,
    ) -> None:
        set_field(self, "instruction", instruction)
        set_field(self, "map", map)
        set_field(self, "leaf", leaf)
        set_field(self, "is_position", is_position)
        set_field(self, "is_clamped", is_clamped)
        set_field(self, "bounds", bounds)

    def with_map(self, map: IndexingMap) -> RuntimeVariable:  # noqa: A002  # the proto's name
        """The same producer, seen through another map."""
        return self.replace(map=map)

    def with_instruction(self, instruction: HloInstruction) -> RuntimeVariable:
        """The same value, produced by another instruction."""
        return self if instruction is self.instruction else self.replace(instruction=instruction)

    def matters(self, bounds: Interval) -> bool:
        """Whether the value decides if anything is accessed, even where no expression uses the variable: it may lie outside `bounds`.

        `bounds` are those that the variable has in its map.
        """
        if self.bounds is None:
            return False
        return not (self.is_clamped or self.is_position) or not bounds.contains(self.bounds)

    def __repr__(self) -> str:
        return f"{self.producer_text}; {self.map}"

    @property
    def producer_text(self) -> str:
        """The producer as XLA writes it: `parameter(1)`, `constant(7)`, else the name of the instruction."""
        instruction = self.instruction
        if self.is_position:
            return f"position in a group of {instruction.name}"
        opcode = instruction.proto.opcode
        if opcode == Opcode.PARAMETER:
            return f"parameter({instruction.parameter_number})"
        if opcode == Opcode.CONSTANT:
            value = scalar_value(instruction)
            return "constant" if value is None else f"constant({value})"
        return instruction.name
