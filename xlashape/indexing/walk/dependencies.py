"""Dependencies between whole arrays, without maps of their elements.

- `dependencies`: which leaves of a computation's parameters each leaf of its result depends on. A leaf is an array
  within a tuple, counted depth first.
- `origin`: the instruction that computed a leaf, before tuples and copies handed it on unchanged.

Leaves are followed one by one through tuples and through operations that pass their first operand on. The result of any
other operation is taken to depend on all leaves of all its operands. A set of leaves is an int: bit i stands for leaf i
of all parameters' leaves, counted one parameter after the other. In a graph, `edges[i]` is the set of leaves that one
step leads to from leaf i.

A proto may list instructions in any order; `operands_first` gives an order in which operands come before their users.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from xlashape.hlo import HloComputation, HloInstruction
from xlashape.hlo.ops.operation import ResultSource
from xlashape.hlo.ops.registry import operation_of
from xlashape.indexing.answers.leaves import element_starts, first_leaves, leaf_count
from xlashape.limits import spend


def operands_first(computation: HloComputation) -> list[HloInstruction]:
    """The instructions, operands before their users; in the computation's own order where that has this property."""
    instructions = computation.instructions
    if all(operand.index < user.index for user in instructions for operand in user.operands):
        return list(instructions)
    missing = [len(set(instruction.operands)) for instruction in instructions]
    ready = [instruction for instruction in instructions if not missing[instruction.index]]
    for instruction in ready:  # the list grows during the loop
        for user in instruction.users:
            missing[user.index] -= 1
            if not missing[user.index]:
                ready.append(user)
    return ready


# -- arrays as a graph -------------------------------------------------------------------------


def reachable_from(start: int, edges: Sequence[int]) -> int:
    """The set of leaves that any number of steps, none included, leads to from the set `start`.

    >>> bin(reachable_from(0b001, [0b010, 0b010, 0b001]))
    '0b11'
    """
    found, pending = 0, start
    while pending:
        spend(1)
        leaf = pending.bit_length() - 1
        found |= 1 << leaf
        pending = (pending | edges[leaf]) & ~found
    return found


def reaching(end: int, edges: Sequence[int], order: Sequence[int]) -> int:
    """The set of leaves from which any number of steps, none included, leads to some leaf of the set `end`.

    `order` is what `successors_first` returns for the same edges. In that order, one pass over a graph without cycles
    finds all.

    >>> edges = [0b010, 0b010, 0b001]
    >>> bin(reaching(0b010, edges, successors_first(edges)))
    '0b111'
    """
    found, before = end, 0
    while found != before:
        before = found
        spend(len(order))
        for leaf in order:
            if edges[leaf] & found:
                found |= 1 << leaf
    return found


def successors_first(edges: Sequence[int]) -> list[int]:
    """All leaves in an order in which a leaf comes after those that a step from it leads to, except along cycles
    (depth-first postorder).
    """
    order: list[int] = []
    unseen = (1 << len(edges)) - 1
    while unseen:
        stack = [unseen.bit_length() - 1]
        unseen ^= 1 << stack[0]
        while stack:
            spend(1)
            successors = edges[stack[-1]] & unseen
            if successors:
                stack.append(successors.bit_length() - 1)
                unseen ^= 1 << stack[-1]
            else:
                order.append(stack.pop())
    return order


# -- origins -----------------------------------------------------------------------------------


def origin(instruction: HloInstruction, leaf: int) -> tuple[HloInstruction, int]:
    """The instruction that computes a leaf of `instruction`, and the number of the leaf in that instruction's result.

    >>> from xlashape.hlo import HloModule
    >>> text = '''HloModule m ENTRY e { p = f32[] parameter(0) t = (f32[]) tuple(p)
    ... ROOT r = f32[] get-tuple-element(t), index=0 }'''
    >>> computed_by, leaf = origin(HloModule.parse(text).entry.root, 0)
    >>> computed_by.name, leaf
    ('p', 0)
    """
    current = instruction, leaf
    while (source := _handed_on_from(*current)) is not None:
        current = source
    return current


def origins(instruction: HloInstruction, count: int) -> list[tuple[HloInstruction, int]]:
    """The origins of leaves 0 to count - 1. A path that several leaves share is followed once."""
    found: list[tuple[HloInstruction, int]] = []
    known: dict[tuple[HloInstruction, int], tuple[HloInstruction, int]] = {}
    for leaf in range(count):
        current = instruction, leaf
        path: list[tuple[HloInstruction, int]] = []
        while (end := known.get(current)) is None and (source := _handed_on_from(*current)) is not None:
            path.append(current)
            current = source
        spend(len(path))
        found.append(current if end is None else end)
        known |= dict.fromkeys(path, found[-1])
    return found


def _handed_on_from(instruction: HloInstruction, leaf: int) -> tuple[HloInstruction, int] | None:
    """The operand whose leaf the instruction hands on as `leaf`, and the number of that leaf in the operand; None where
    the instruction computes `leaf`.
    """
    row = operation_of(instruction.opcode)
    if row.source is ResultSource.OPERANDS:
        starts = element_starts(instruction.shape)
        if not 0 <= leaf < starts[-1] or len(starts) != len(instruction.operands) + 1:
            return None
        number = bisect_right(starts, leaf) - 1
        return instruction.operands[number], leaf - starts[number]
    if row.source is ResultSource.ELEMENT and instruction.operands and instruction.operands[0].shape.is_tuple:
        starts = element_starts(instruction.operands[0].shape)
        number = instruction.details.tuple_index
        return (instruction.operands[0], leaf + starts[number]) if 0 <= number < len(starts) - 1 else None
    passes = row.passes_first_operand_through and bool(instruction.operands)
    return (instruction.operands[0], leaf) if passes else None


# -- dependencies ------------------------------------------------------------------------------


MAX_COUNT = 1 << 20
"""The instructions of a computation are counted up to this number."""


class ComputationContents(NamedTuple):
    """What a computation and the computations that it calls hold."""

    instructions: int
    """How many instructions they have, those of a called computation counted once for each call; `MAX_COUNT` stands for
    that number and more.
    """
    exchanges: bool
    """Whether any instruction reads what other replicas hold."""


KnownContents: TypeAlias = dict[HloComputation, ComputationContents]
"""The contents found so far, shared by the questions of one `Analysis`."""


class Dependencies(NamedTuple):
    """What can be said of a computation by looking at each of its instructions once."""

    leaves: tuple[int, ...]
    """For each leaf of the result, the set of the parameters' leaves that it depends on."""
    contents: ComputationContents


def dependencies(computation: HloComputation, known: KnownContents) -> Dependencies:
    """The dependencies of a computation. The contents of the computations that it calls are added to `known`.

    >>> from xlashape.hlo import HloModule
    >>> text = '''HloModule m ENTRY e { p = (f32[], f32[]) parameter(0) q = f32[] get-tuple-element(p), index=1
    ... ROOT r = (f32[]) tuple(q) }'''
    >>> dependencies(HloModule.parse(text).entry, {})
    Dependencies(leaves=(2,), contents=ComputationContents(instructions=3, exchanges=False))
    """
    spend(len(computation.instructions))
    contents = _contents(computation, known)
    return Dependencies(_leaves_of_result(computation), contents)


def _leaves_of_result(computation: HloComputation) -> tuple[int, ...]:
    starts = first_leaves(tuple([parameter.shape for parameter in computation.parameters]))
    # For each instruction, by its index in the computation: the set of each leaf of a tuple, or the one set of an
    # array.
    sets: list[tuple[int, ...]] = [()] * len(computation.instructions)
    for instruction in operands_first(computation):
        row = instruction.kind.row
        if row.passes_first_operand_through or row.source is not ResultSource.COMPUTED:
            precise = _precise_sets(instruction, sets, starts)
            if precise is not None:
                sets[instruction.index] = precise
                continue
        union = steps = 0
        for operand in instruction.operands:
            operand_sets = sets[operand.index]
            steps += len(operand_sets)
            for leaf_set in operand_sets:
                union |= leaf_set
        spend(steps)
        sets[instruction.index] = (union,) * leaf_count(instruction.shape)
    return sets[computation.root.index]


def _precise_sets(
    instruction: HloInstruction, sets: list[tuple[int, ...]], starts: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The set of each leaf of a parameter, of a tuple or its element, or of an operation that passes its operand on;
    None for any other instruction, and for a malformed one.
    """
    count = leaf_count(instruction.shape)
    if instruction.kind.row.source is ResultSource.ARGUMENT:
        first = starts[instruction.parameter_number]
        return tuple([1 << (first + leaf) for leaf in range(count)])
    found: list[int] = []
    for leaf in range(count):
        source = _handed_on_from(instruction, leaf)
        if source is None or source[1] >= len(sets[source[0].index]):
            return None
        found.append(sets[source[0].index][source[1]])
    return tuple(found)


def _contents(computation: HloComputation, known: KnownContents) -> ComputationContents:
    stack = [computation]
    while stack:
        current = stack[-1]
        if current in known:
            stack.pop()
            continue
        called = [
            computation for instruction in current.instructions for computation in instruction.called_computations
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
            for opcode in {instruction.opcode for instruction in current.instructions}
        )
        known[current] = ComputationContents(min(count, MAX_COUNT), exchanges)
    return known[computation]
