"""Offsets that a computation is given, seen from its caller: two calls of one computation may read at two offsets."""

from __future__ import annotations

from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.operand_indexing import OperandIndexing, OperandIndexingSet

__all__ = ["given"]

_HANDING_ON = ("fusion", "call", "async-start")
"""Operations whose operands are the parameters of the computation that they call."""


def given(instruction: HloInstruction, answer: tuple[OperandIndexingSet, ...]) -> tuple[OperandIndexingSet, ...]:
    """An instruction's maps, with the arguments of a call as producers in place of the parameters that take them."""
    if instruction.proto.opcode not in _HANDING_ON or not any(one.runtime for read in answer for one in read):
        return answer
    (called,) = instruction.called_computations
    arguments = dict(zip(called.parameters, instruction.operands, strict=True))
    return tuple([OperandIndexingSet([_seen_from_caller(one, arguments) for one in read]) for read in answer])


def _seen_from_caller(one: OperandIndexing, arguments: dict[HloInstruction, HloInstruction]) -> OperandIndexing:
    if not one.runtime:
        return one
    producers = [
        producer.with_instruction(arguments.get(producer.instruction, producer.instruction)) for producer in one.runtime
    ]
    return one.replaced(one.map, tuple(producers))
