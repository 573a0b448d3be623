"""How a loop or scan takes the maps of what its body runs: `LoopBody`."""

from __future__ import annotations

from xlashape.hlo import HloInstruction, Opcode
from xlashape.indexing.answers.operand_indexing import NOT_ACCESSED, Answer, OperandIndexingSet
from xlashape.indexing.walk.coroutines import Repetition
from xlashape.indexing.walk.repeated.counters import Counters


class LoopBody(Repetition):
    """How a loop takes the maps of the instructions that its body runs.

    An element that is overwritten before it is read is not read, and which of two arrays a select takes may follow from
    the counters. Where it is known, the maps follow; else they are marked as conservative.
    """

    def __init__(self, counters: Counters | None, written: HloInstruction | None = None) -> None:
        self._counters = counters
        self._written = written

    def seen(self, instruction: HloInstruction, answer: Answer) -> Answer:
        """The maps from the result of an instruction to its operands."""
        match instruction.opcode:
            case Opcode.DYNAMIC_UPDATE_SLICE | Opcode.SCATTER:
                if instruction is self._written:
                    return (NOT_ACCESSED, *answer[1:])
                return (_conservative(answer[0]), *answer[1:])
            case Opcode.SELECT | Opcode.CONDITIONAL:
                return self._of_choice(instruction, answer)
            case _:
                return answer

    def seen_backwards(self, instruction: HloInstruction, operand: int, answer: Answer) -> Answer:
        """The maps from an operand to the result."""
        if instruction.opcode in (Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER):
            is_kept = operand > 0
        else:
            is_kept = instruction.opcode not in (Opcode.SELECT, Opcode.CONDITIONAL) or not self._is_decided(instruction)
        return answer if is_kept else tuple([_conservative(writes) for writes in answer])

    def _of_choice(self, instruction: HloInstruction, answer: Answer) -> Answer:
        selector = instruction.operands[0]
        if selector.opcode == Opcode.BROADCAST:
            selector = selector.operands[0]
        value = None if self._counters is None else self._counters.of(selector)
        if value is not None and len(value) == 1 and not value[0].slope:
            taken = _operand_taken(instruction, value[0].base)
            return tuple([reads if number == taken else NOT_ACCESSED for number, reads in enumerate(answer)])
        return tuple([_conservative(reads) for reads in answer]) if self._is_decided(instruction) else answer

    def _is_decided(self, instruction: HloInstruction) -> bool:
        return self._counters is not None and self._counters.follows_from_counters(instruction.operands[0])


def _operand_taken(instruction: HloInstruction, value: int) -> int:
    """The operand that a select or conditional takes for the value of its selector."""
    count = len(instruction.operands) - 1
    if instruction.operands[0].shape.element_type.text == "pred":
        return 1 if value else 2
    return 1 + (value if 0 <= value < count else count - 1)


def _conservative(reads: OperandIndexingSet) -> OperandIndexingSet:
    return OperandIndexingSet([access.replace(is_conservative=True) for access in reads])
