"""Value numbering within one iteration: two producers with equal numbers have the same value.

A number stands for where a value was computed, seen through tuples, copies, and the fusions and calls that it was handed to. Scalar arithmetic is
compared by its opcode, attributes and operands' numbers, so that `i + 1` computed twice has one number.
"""

from __future__ import annotations

from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.indexing.answers.operand_indexing import RuntimeVariable
from xlashape.indexing.walk.dependencies.origins import origin

_COMPARED = frozenset(
    {
        Opcode.ADD,
        Opcode.AND,
        Opcode.CLAMP,
        Opcode.COMPARE,
        Opcode.CONSTANT,
        Opcode.CONVERT,
        Opcode.DIVIDE,
        Opcode.MAXIMUM,
        Opcode.MINIMUM,
        Opcode.MULTIPLY,
        Opcode.NEGATE,
        Opcode.NOT,
        Opcode.OR,
        Opcode.REMAINDER,
        Opcode.SELECT,
        Opcode.SIGN,
        Opcode.SUBTRACT,
        Opcode.XOR,
    }
)
"""Operations whose values are equal where their operands' values and their attributes are."""

MAX_DEPTH = 16
"""Operands of operands that are compared. Beyond, a value is equal to itself alone."""


class ValueNumbers:
    """The numbers of the values that one iteration of a body computes."""

    def __init__(self, body: HloComputation) -> None:
        self._body = body
        # Caches of one walk through one body.
        self._numbers: dict[object, int] = {}
        self._known: dict[tuple[HloInstruction, int], int] = {}
        self._callers: dict[HloComputation, HloInstruction | None] | None = None

    def of(self, producer: RuntimeVariable) -> object:
        """What identifies the value of the element that the producer's map leads to."""
        if producer.is_position:
            return id(producer.instruction)
        if not self._runs_once(producer.instruction.computation):
            # In a computation that is called twice, one instruction computes two values.
            return object()
        number = self._number(producer.instruction, producer.leaf, 0)
        return number, producer.map, producer.is_clamped, producer.bounds

    def _number(self, instruction: HloInstruction, leaf: int, depth: int) -> int:
        value = self._origin(instruction, leaf)
        number = self._known.get(value)
        if number is None:
            computed_by, computed_leaf = value
            key: object = (id(computed_by), computed_leaf)
            proto = computed_by.proto
            # A constant array may be large: it is equal to itself alone.
            is_array_constant = proto.opcode == Opcode.CONSTANT and bool(computed_by.shape.dimensions)
            if proto.opcode in _COMPARED and not is_array_constant and depth < MAX_DEPTH:
                is_constant = proto.opcode == Opcode.CONSTANT
                literal = proto.literal.SerializeToString(deterministic=True) if is_constant else b""
                operands = tuple([self._number(operand, 0, depth + 1) for operand in computed_by.operands])
                attributes = (proto.comparison_direction, proto.comparison_type, proto.comparison_order, literal)
                key = (proto.opcode, computed_by.shape, attributes, operands)
            number = self._known[value] = self._numbers.setdefault(key, len(self._numbers))
        return number

    def _origin(self, instruction: HloInstruction, leaf: int) -> tuple[HloInstruction, int]:
        """Where a value is computed, seen from within the fusions and calls that it is handed to."""
        computed_by, leaf = origin(instruction, leaf)
        while computed_by.proto.opcode == Opcode.PARAMETER and computed_by.computation is not self._body:
            caller = self._caller(computed_by.computation)
            if caller is None or not 0 <= computed_by.parameter_number < len(caller.operands):
                break
            computed_by, leaf = origin(caller.operands[computed_by.parameter_number], leaf)
        return computed_by, leaf

    def _runs_once(self, computation: HloComputation) -> bool:
        """Whether an iteration runs it once: it is the body, or is called by one instruction of a computation that runs once."""
        while computation is not self._body:
            caller = self._caller(computation)
            if caller is None:
                return False
            computation = caller.computation
        return True

    def _caller(self, computation: HloComputation) -> HloInstruction | None:
        """The one fusion or call that calls it; None where several instructions, or another operation, call it."""
        if self._callers is None:
            self._callers = {}
            seen, pending = {self._body}, [self._body]
            while pending:
                for instruction in pending.pop().instructions:
                    is_plain_call = instruction.proto.opcode in (Opcode.FUSION, Opcode.CALL)
                    for called in instruction.called_computations:
                        is_only = called not in self._callers and is_plain_call
                        self._callers[called] = instruction if is_only else None
                        if called not in seen:
                            seen.add(called)
                            pending.append(called)
        return self._callers.get(computation)
