"""Which leaves of a computation's parameters each leaf of its result depends on.

Tuples are taken apart and put together precisely; any other operation is taken to depend on all of its operands. A set of leaves is an int: bit i
stands for leaf i of all parameters' leaves, counted one parameter after the other.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.hlo.ops.registry import operation_of
from xlashape.indexing.answers.leaves import element_starts, first_leaves, leaf_count
from xlashape.indexing.walk.dependencies.instruction_order import operands_first
from xlashape.limits import spend

MAX_COUNT = 1 << 20
"""Instructions are counted up to this number."""


class Contents(NamedTuple):
    """What a computation holds, with the computations that it calls."""

    instructions: int
    """How many instructions run; `MAX_COUNT` stands for that number and more."""
    exchanges: bool
    """Whether any instruction reads what other replicas hold."""


KnownContents: TypeAlias = dict[HloComputation, Contents]
"""The contents found so far, shared by the questions of one `Analysis`."""


class Dependencies(NamedTuple):
    """What can be said of a computation by looking at each of its instructions once."""

    leaves: tuple[int, ...]
    """For each leaf of the result, the set of the parameters' leaves that it depends on."""
    contents: Contents


def dependencies(computation: HloComputation, known: KnownContents) -> Dependencies:
    """The dependencies of a computation. The contents of the computations that it calls are added to `known`.

    >>> from xlashape.hlo import HloModule
    >>> text = "HloModule m ENTRY e { p = (f32[], f32[]) parameter(0) q = f32[] get-tuple-element(p), index=1 ROOT r = (f32[]) tuple(q) }"
    >>> dependencies(HloModule.parse(text).entry, {})
    Dependencies(leaves=(2,), contents=Contents(instructions=3, exchanges=False))
    """
    spend(len(computation.instructions))
    contents = _contents(computation, known)
    return Dependencies(_leaves_of_result(computation), contents)


def _leaves_of_result(computation: HloComputation) -> tuple[int, ...]:
    starts = first_leaves(tuple([parameter.shape for parameter in computation.parameters]))
    # For each instruction, by its index in the computation: the set of each leaf of a tuple, or the one set of an array.
    sets: list[tuple[int, ...]] = [()] * len(computation.instructions)
    opcodes = [instruction.proto.opcode for instruction in computation.instructions]
    precise_opcodes = _REARRANGING | {
        opcode for opcode in set(opcodes) if operation_of(opcode).passes_first_operand_through
    }
    for instruction in operands_first(computation):
        if opcodes[instruction.index] in precise_opcodes:
            precise = _precise_sets(instruction, sets, starts)
            if precise is not None:
                sets[instruction.index] = precise
                continue
        union = 0
        for operand in instruction.operands:
            operand_sets = sets[operand.index]
            spend(len(operand_sets))
            for leaf_set in operand_sets:
                union |= leaf_set
        shape = instruction.shape
        sets[instruction.index] = (union,) * leaf_count(shape) if shape.is_tuple else (union,)
    return sets[computation.root.index]


_REARRANGING = frozenset({Opcode.PARAMETER, Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT})


def _precise_sets(
    instruction: HloInstruction, sets: list[tuple[int, ...]], starts: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The set of each leaf of a parameter, or of an operation that rearranges leaves or passes them on; None for a malformed one."""
    opcode = instruction.proto.opcode
    if opcode == Opcode.PARAMETER:
        first = starts[instruction.parameter_number]
        return tuple([1 << (first + leaf) for leaf in range(leaf_count(instruction.shape))])
    if opcode == Opcode.TUPLE:
        leaf_sets = tuple([leaf_set for operand in instruction.operands for leaf_set in sets[operand.index]])
    elif not instruction.operands:
        return None
    else:
        leaf_sets = sets[instruction.operands[0].index]
        if opcode == Opcode.GET_TUPLE_ELEMENT:
            source = instruction.operands[0].shape
            if not source.is_tuple or not 0 <= instruction.proto.tuple_index < len(source.tuple_shapes):
                return None
            first = element_starts(source)[instruction.proto.tuple_index]
            leaf_sets = leaf_sets[first : first + leaf_count(instruction.shape)]
    return leaf_sets if len(leaf_sets) == leaf_count(instruction.shape) else None


def _contents(computation: HloComputation, known: KnownContents) -> Contents:
    stack = [computation]
    while stack:
        current = stack[-1]
        if current in known:
            stack.pop()
            continue
        called = [
            computation
            for instruction in current.instructions
            if instruction.proto.called_computation_ids
            for computation in instruction.called_computations
        ]
        missing = [computation for computation in called if computation not in known]
        if missing:
            stack += missing
            continue
        stack.pop()
        spend(1)
        within = [known[computation] for computation in called]
        count = len(current.instructions) + sum([contents.instructions for contents in within])
        exchanges = any(contents.exchanges for contents in within) or any(
            operation_of(opcode).exchanges_with_replicas
            for opcode in {instruction.proto.opcode for instruction in current.instructions}
        )
        known[current] = Contents(min(count, MAX_COUNT), exchanges)
    return known[computation]
