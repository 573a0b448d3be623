"""Which leaves of a computation's parameters each leaf of its result depends on, without maps: quick, for computations of any size.

Tuples are taken apart and put together precisely; any other operation is taken to depend on all of its operands.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from xlashape.hlo import HloComputation, HloInstruction
from xlashape.indexing.ops.registry import element_starts, first_leaves, leaves
from xlashape.limits import spend

__all__ = ["Dependencies", "dependencies", "ends_first", "ordered", "origin", "origins", "reached_from", "reaching"]

MAX_COUNT = 1 << 20
PASSING = frozenset({"copy", "opt-barrier", "domain", "add-dependency"})
"""Operations whose result is their first operand."""
EXCHANGES = frozenset(
    "all-gather all-gather-start all-reduce all-reduce-start all-to-all collective-broadcast collective-permute"
    " collective-permute-start ragged-all-to-all reduce-scatter".split()
)
"""Operations that read what other replicas hold."""


class Dependencies(NamedTuple):
    """What can be said of a computation by looking at each of its instructions once."""

    leaves: tuple[int, ...]
    """For each leaf of the result a set of the parameters' leaves, all counted one after the other: bit i stands for leaf i."""
    instructions: int
    """How many instructions run, with those of the computations called; `MAX_COUNT` stands for that and more."""
    exchanges: bool
    """Whether any instruction reads what other replicas hold."""


def origin(instruction: HloInstruction, leaf: int) -> tuple[HloInstruction, int]:
    """The instruction, and its leaf, that a leaf is handed on from untouched, through tuples and copies."""
    at = instruction, leaf
    while (before := _handed_on_from(*at)) is not None:
        at = before
    return at


def origins(instruction: HloInstruction, count: int) -> list[tuple[HloInstruction, int]]:
    """The origin of each leaf. Ways that several leaves share are gone once."""
    found: list[tuple[HloInstruction, int]] = []
    known: dict[tuple[HloInstruction, int], tuple[HloInstruction, int]] = {}
    for leaf in range(count):
        at = instruction, leaf
        way: list[tuple[HloInstruction, int]] = []
        while (end := known.get(at)) is None and (before := _handed_on_from(*at)) is not None:
            way.append(at)
            at = before
        spend(len(way))
        found.append(at if end is None else end)
        known |= dict.fromkeys(way, found[-1])
    return found


def _handed_on_from(one: HloInstruction, at: int) -> tuple[HloInstruction, int] | None:
    """The leaf of an operand that a leaf is, untouched."""
    opcode = one.proto.opcode
    if opcode == "tuple":
        starts = element_starts(one.shape)
        if not 0 <= at < starts[-1] or len(starts) != len(one.operands) + 1:
            return None
        number = bisect_right(starts, at) - 1
        return one.operands[number], at - starts[number]
    if opcode == "get-tuple-element" and one.operands and one.operands[0].shape.is_tuple:
        starts = element_starts(one.operands[0].shape)
        if not 0 <= one.proto.tuple_index < len(starts) - 1:
            return None
        return one.operands[0], at + starts[one.proto.tuple_index]
    return (one.operands[0], at) if opcode in PASSING and one.operands else None


def reached_from(first: int, steps: Sequence[int]) -> int:
    """The leaves, as bits, that any number of steps leads to from `first`, which are among them; `steps` has those that one leads to."""
    found, pending = 0, first
    while pending:
        spend(1)
        leaf = pending.bit_length() - 1
        found |= 1 << leaf
        pending = (pending | steps[leaf]) & ~found
    return found


def reaching(last: int, steps: Sequence[int], order: Sequence[int]) -> int:
    """The leaves, as bits, from which any number of steps leads to some of `last`, which are among them. `order` is `ends_first`'s."""
    found, before = last, 0
    while found != before:
        before = found
        spend(len(order))
        for leaf in order:
            if steps[leaf] & found:
                found |= 1 << leaf
    return found


def ends_first(steps: Sequence[int]) -> list[int]:
    """The leaves in an order in which what a step leads to comes before what it starts from, but for what goes round."""
    order: list[int] = []
    unseen = (1 << len(steps)) - 1
    while unseen:
        stack = [unseen.bit_length() - 1]
        unseen ^= 1 << stack[0]
        while stack:
            spend(1)
            following = steps[stack[-1]] & unseen
            if following:
                stack.append(following.bit_length() - 1)
                unseen ^= 1 << stack[-1]
            else:
                order.append(stack.pop())
    return order


def dependencies(computation: HloComputation, known: dict[HloComputation, tuple[int, bool]]) -> Dependencies:
    """One look at each instruction. What was counted of computations within is put into `known`, for the next time."""
    spend(len(computation.instructions))
    count, exchanges = _within(computation, known)
    return Dependencies(_leaves_of_result(computation), count, exchanges)


def _leaves_of_result(computation: HloComputation) -> tuple[int, ...]:
    starts = first_leaves(tuple([parameter.shape for parameter in computation.parameters]))
    instructions = computation.instructions
    known: list[tuple[int, ...]] = [()] * len(instructions)
    """By place. Of an array the leaves it depends on, of a tuple those of each of its leaves."""
    for one in ordered(computation):
        opcode = one.proto.opcode
        if opcode in _PRECISE:
            found = _precisely(one, known, starts)
            if found is not None:
                known[one.index] = found
                continue
        every = 0
        for operand in one.operands:
            masks = known[operand.index]
            spend(len(masks))
            for mask in masks:
                every |= mask
        shape = one.shape
        known[one.index] = (every,) * len(leaves(shape)) if shape.is_tuple else (every,)
    return known[computation.root.index]


def ordered(computation: HloComputation) -> list[HloInstruction]:
    """The instructions, operands before their users."""
    instructions = computation.instructions
    if all(operand.index < one.index for one in instructions for operand in one.operands):
        return list(instructions)
    missing = [len(set(one.operands)) for one in instructions]
    ready = [one for one in instructions if not missing[one.index]]
    for one in ready:  # grows while it is gone through
        for user in one.users:
            missing[user.index] -= 1
            if not missing[user.index]:
                ready.append(user)
    return ready


_PRECISE = frozenset({"parameter", "tuple", "get-tuple-element"}) | PASSING


def _precisely(one: HloInstruction, known: list[tuple[int, ...]], starts: tuple[int, ...]) -> tuple[int, ...] | None:
    opcode, count = one.proto.opcode, len(leaves(one.shape))
    if opcode == "parameter":
        first = starts[one.parameter_number]
        return tuple([1 << (first + leaf) for leaf in range(count)])
    operands = [known[operand.index] for operand in one.operands]
    if opcode == "tuple":
        found = tuple([mask for operand in operands for mask in operand])
    elif not operands:
        return None
    else:
        found = operands[0]
        if opcode == "get-tuple-element":
            source = one.operands[0].shape
            if not source.is_tuple or not 0 <= one.proto.tuple_index < len(source.tuple_shapes):
                return None
            first = element_starts(source)[one.proto.tuple_index]
            found = found[first : first + count]
    return found if len(found) == count else None


def _within(computation: HloComputation, known: dict[HloComputation, tuple[int, bool]]) -> tuple[int, bool]:
    """How many instructions run, up to a number, and whether any is an exchange."""
    stack = [computation]
    while stack:
        one = stack[-1]
        if one in known:
            stack.pop()
            continue
        called = [
            other
            for instruction in one.instructions
            if instruction.proto.called_computation_ids
            for other in instruction.called_computations
        ]
        missing = [other for other in called if other not in known]
        if missing:
            stack += missing
            continue
        stack.pop()
        spend(1)
        inner = [known[other] for other in called]
        count = len(one.instructions) + sum([count for count, _ in inner])
        exchanges = any(exchanges for _, exchanges in inner) or any(
            instruction.proto.opcode in EXCHANGES for instruction in one.instructions
        )
        known[one] = min(count, MAX_COUNT), exchanges
    return known[computation]
