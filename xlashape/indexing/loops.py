"""Maps of a while loop: what its body passes through unchanged, and everything else.

How often the body runs is not known, so an element that it changes may come from any element that goes in: that is the answer, marked. The body
is looked at for what it hands on, not analysed.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache

from xlashape.errors import InvalidModuleError
from xlashape.hlo import HloComputation, HloInstruction
from xlashape.indexing.analysis import EMPTY, Answer
from xlashape.indexing.build import dims_of, everything, identity
from xlashape.indexing.operand_indexing import OperandIndexing, OperandIndexingSet
from xlashape.indexing.registry import element_starts, leaves
from xlashape.shape import Shape

__all__ = ["while_from_operand", "while_from_output"]

Dims = tuple[int, ...]


def while_from_output(instruction: HloInstruction, output: int) -> OperandIndexingSet:
    """What is passed through is what came in; any other element may come from every element."""
    arrays, body = _loop(instruction)
    if _unchanged(body, output):
        return OperandIndexingSet([OperandIndexing(identity(arrays[output])[0].map, leaf=output)])
    return _from_all(arrays[output], arrays)


def while_from_operand(instruction: HloInstruction, leaf: int) -> Answer:
    """An element takes part in itself where it is passed through, and in everything that is not."""
    arrays, body = _loop(instruction)
    found: list[OperandIndexingSet] = []
    for output, dims in enumerate(arrays):
        if not _unchanged(body, output):
            found.append(OperandIndexingSet([OperandIndexing(everything(arrays[leaf], dims).map, every=True)]))
        elif output == leaf:
            found.append(OperandIndexingSet([OperandIndexing(identity(dims)[0].map)]))
        else:
            found.append(EMPTY)
    return tuple(found)


@lru_cache(maxsize=1 << 10)
def _from_all(dims: Dims, arrays: tuple[Dims, ...]) -> OperandIndexingSet:
    return OperandIndexingSet(
        [OperandIndexing(everything(dims, own).map, leaf=leaf, every=True) for leaf, own in enumerate(arrays)]
    )


def _loop(instruction: HloInstruction) -> tuple[tuple[Dims, ...], HloComputation]:
    """The sizes of the arrays that go round, and the body."""
    called = instruction.called_computations
    arrays = _sizes(instruction)
    if len(called) == 2 and len(instruction.operands) == 1 and len(called[0].parameters) == 1:
        body = called[0]
        if all(_sizes(one) == arrays for one in (instruction.operands[0], body.parameters[0], body.root)):
            return arrays, body
    raise InvalidModuleError(f"instruction {instruction.name!r} (while) has a body or operands that do not fit it")


def _sizes(instruction: HloInstruction) -> tuple[Dims, ...]:
    return _sizes_of(instruction.shape)


@lru_cache(maxsize=1 << 10)
def _sizes_of(shape: Shape) -> tuple[Dims, ...]:
    return tuple([dims_of(leaf) for leaf in leaves(shape)])


_PASSING = frozenset({"copy", "opt-barrier", "domain", "add-dependency"})


def _unchanged(body: HloComputation, leaf: int) -> bool:
    """Whether the body's result holds at this leaf what its parameter holds there, untouched."""
    one = body.root
    at = leaf
    while True:
        opcode = one.proto.opcode
        if opcode == "parameter":
            return at == leaf
        if opcode == "tuple":
            starts = element_starts(one.shape)
            if at >= starts[-1] or len(starts) != len(one.operands) + 1:
                return False
            number = bisect_right(starts, at) - 1
            one, at = one.operands[number], at - starts[number]
        elif opcode == "get-tuple-element" and one.operands and one.operands[0].shape.is_tuple:
            starts = element_starts(one.operands[0].shape)
            if not 0 <= one.proto.tuple_index < len(starts) - 1:
                return False
            at += starts[one.proto.tuple_index]
            one = one.operands[0]
        elif opcode in _PASSING and one.operands:
            one = one.operands[0]
        else:
            return False
