"""Offsets that a computation is given, named from its caller: two calls of one computation may read at two offsets.

Within a called computation, the producer of an offset may be a parameter. Seen from the caller it is the argument that the parameter takes.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlashape.hlo import HloInstruction
from xlashape.hlo.ops.calls import Arguments
from xlashape.hlo.ops.registry import operation_of
from xlashape.indexing.answers.operand_indexing import OperandIndexing
from xlashape.indexing.answers.operand_indexing_set import Answer, OperandIndexingSet

__all__ = ["seen_from_caller", "with_call_arguments"]


def with_call_arguments(instruction: HloInstruction, answer: Answer) -> Answer:
    """The maps of a call, with its arguments as producers in place of the parameters that take them; any other answer as it is."""
    if operation_of(instruction.proto.opcode).calls.arguments is not Arguments.OPERANDS:
        return answer
    called = instruction.called_computations
    if len(called) != 1:  # a while loop, whose offsets differ from iteration to iteration
        return answer
    # A fusion may have more operands than parameters.
    return seen_from_caller(answer, dict(zip(called[0].parameters, instruction.operands, strict=False)))


def seen_from_caller(answer: Answer, arguments: Mapping[HloInstruction, HloInstruction]) -> Answer:
    """The maps with what a call passes, by parameter, as producers in place of the parameters."""
    if not any(access.runtime for accesses in answer for access in accesses):
        return answer
    return tuple(
        [OperandIndexingSet([_seen_from_caller(access, arguments) for access in accesses]) for accesses in answer]
    )


def _seen_from_caller(access: OperandIndexing, arguments: Mapping[HloInstruction, HloInstruction]) -> OperandIndexing:
    if not access.runtime:
        return access
    producers = [
        producer.with_instruction(arguments.get(producer.instruction, producer.instruction))
        for producer in access.runtime
    ]
    return access.with_map(access.map, tuple(producers))
