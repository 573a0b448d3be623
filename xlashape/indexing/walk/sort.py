"""The maps of a sort of several arrays: the arrays that the comparator reads decide the order, and each array is put into that order."""

from __future__ import annotations

from xlashape.errors import InvalidModuleError
from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.leaves import leaves
from xlashape.indexing.answers.operand_indexing_set import NOT_ACCESSED, Answer
from xlashape.indexing.ops.reduction import SORT_INPUT_TO_OUTPUT, SORT_OUTPUT_TO_INPUT
from xlashape.indexing.walk.dependencies.leaf_dependencies import KnownContents, dependencies
from xlashape.indexing.walk.instruction_answers import answer_from_operand, answer_from_output

__all__ = ["sort_from_operand", "sort_from_output"]


def sort_from_output(instruction: HloInstruction, output: int, known: KnownContents) -> Answer:
    """The whole sorted dimension of the array itself, and of those that decide the order."""
    answer = answer_from_output(instruction, output, SORT_OUTPUT_TO_INPUT)
    deciding = _deciding(instruction, known)
    return tuple(
        [access if number == output or deciding >> number & 1 else NOT_ACCESSED for number, access in enumerate(answer)]
    )


def sort_from_operand(instruction: HloInstruction, operand: int, leaf: int, known: KnownContents) -> Answer:
    """The whole sorted dimension of the array itself; of all arrays, where this one decides the order."""
    answer = answer_from_operand(instruction, operand, leaf, SORT_INPUT_TO_OUTPUT)
    if _deciding(instruction, known) >> operand & 1:
        return answer
    return tuple([access if number == operand else NOT_ACCESSED for number, access in enumerate(answer)])


def _deciding(instruction: HloInstruction, known: KnownContents) -> int:
    """The operands that decide the order, as bits: those that the comparator reads, or all of them without a comparator.

    The comparator takes two elements of each operand, one after the other.
    """
    count, called = len(instruction.operands), instruction.called_computations
    if not called:
        return (1 << count) - 1
    comparator = called[0]
    read_by_result = dependencies(comparator, known).leaves
    elements = [leaf for parameter in comparator.parameters for leaf in leaves(parameter.shape)]
    fits = len(called) == 1 and len(comparator.parameters) == len(elements) == 2 * count and len(read_by_result) == 1
    if not fits:
        raise InvalidModuleError(f"instruction {instruction.name!r} (sort) calls a comparator that does not fit it")
    return sum(1 << number for number in range(count) if read_by_result[0] >> 2 * number & 3)
