"""Maps of a sort of several arrays: each is put into an order that the arrays decide which the comparator reads, and no others."""

from __future__ import annotations

from xlashape.errors import InvalidModuleError
from xlashape.hlo import HloComputation, HloInstruction
from xlashape.indexing.ops.reduction import SORT_TO_INPUT, SORT_TO_OUTPUT
from xlashape.indexing.ops.registry import leaves
from xlashape.indexing.walk.analysis import EMPTY, Answer, from_operand, from_output
from xlashape.indexing.walk.leaf_dependencies import dependencies

__all__ = ["sort_from_operand", "sort_from_output"]

Counted = dict[HloComputation, tuple[int, bool]]


def sort_from_output(instruction: HloInstruction, output: int, counted: Counted) -> Answer:
    """The whole sorted dimension of the array itself, and of those that decide the order."""
    answer = from_output(instruction, output, SORT_TO_INPUT)
    deciding = _deciding(instruction, counted)
    return tuple([one if number == output or deciding >> number & 1 else EMPTY for number, one in enumerate(answer)])


def sort_from_operand(instruction: HloInstruction, operand: int, leaf: int, counted: Counted) -> Answer:
    """The whole sorted dimension of the array itself; of all, where it decides the order."""
    answer = from_operand(instruction, operand, leaf, SORT_TO_OUTPUT)
    if _deciding(instruction, counted) >> operand & 1:
        return answer
    return tuple([one if number == operand else EMPTY for number, one in enumerate(answer)])


def _deciding(instruction: HloInstruction, counted: Counted) -> int:
    """The arrays that the comparator reads, as bits. It takes two elements of each. Without a comparator it may be any."""
    count, called = len(instruction.operands), instruction.called_computations
    if not called:
        return (1 << count) - 1
    comparator = called[0]
    masks = dependencies(comparator, counted).leaves
    elements = [leaf for one in comparator.parameters for leaf in leaves(one.shape)]
    if len(called) > 1 or not len(comparator.parameters) == len(elements) == 2 * count or len(masks) != 1:
        raise InvalidModuleError(f"instruction {instruction.name!r} (sort) calls a comparator that does not fit it")
    return sum(1 << number for number in range(count) if masks[0] >> 2 * number & 3)
