"""Chooses the instructions that a drawing or a list of a module shows. `surroundings` gives the instructions near an
instruction, `ways` those on the paths between two, and `with_called` adds the computations that instructions call.

>>> module = HloModule.parse(
...     '''HloModule m ENTRY e { p = f32[8] parameter(0) n = f32[8] negate(p) a = f32[8] abs(p)
... ROOT s = f32[8] add(n, a) }'''
... )
>>> [each.name for each in surroundings(module.instruction("n"), 1)]
['n', 'p', 's']
>>> [each.name for each in ways(module.instruction("p"), module.instruction("n"))]
['p', 'n']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from xlashape.errors import InvalidArgumentError
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.limits import spend

MOST_DISTANCE: Final = 100


def surroundings(instruction: HloInstruction, distance: int) -> list[HloInstruction]:
    """The instruction and those of its computation that are at most `distance` operands, users or control dependencies
    away, the nearest first.

    Raises InvalidArgumentError for a distance outside 0 to 100.
    """
    if not 0 <= distance <= MOST_DISTANCE:
        raise InvalidArgumentError(f"expected 0 to {MOST_DISTANCE}, found {distance}", field="distance")
    followers = _followers(instruction.computation)
    return _reached(instruction, distance, lambda each: (*_predecessors(each), *followers[each.index]))


def ways(start: HloInstruction, end: HloInstruction) -> list[HloInstruction]:
    """Both instructions and all instructions on the paths from `start` to `end`, in the order of the computation. If
    there is no path, the two instructions alone.

    A path leads from an instruction to its users and control successors. Raises InvalidArgumentError for instructions
    of two computations.
    """
    if start.computation is not end.computation:
        raise InvalidArgumentError(
            f"{end.name!r} is in the computation {end.computation.name!r}, and {start.name!r} in "
            f"{start.computation.name!r}: there are ways within a computation only",
            field="to",
        )
    followers = _followers(start.computation)
    after = {each.index for each in _reached(start, None, lambda each: followers[each.index])}
    before = {each.index for each in _reached(end, None, _predecessors)}
    chosen = sorted((after & before) | {start.index, end.index})
    instructions = start.computation.instructions
    return [instructions[index] for index in chosen]


def with_called(instructions: Iterable[HloInstruction]) -> list[HloInstruction]:
    """The instructions, then those of all computations that they call, directly or not, each computation once."""
    found = list(instructions)
    present, seen = set(found), set[HloComputation]()
    for each in found:  # the list grows in the loop
        for called in each.called_computations:
            if called not in seen:
                seen.add(called)
                spend(len(called.instructions))
                found += [one for one in called.instructions if one not in present]
    return found


def in_order(module: HloModule, instructions: Iterable[HloInstruction]) -> list[HloInstruction]:
    """The instructions in the order of the module."""
    numbers = {computation: number for number, computation in enumerate(module.computations)}
    return sorted(instructions, key=lambda each: (numbers[each.computation], each.index))


def _predecessors(instruction: HloInstruction) -> Sequence[HloInstruction]:
    return (*instruction.operands, *instruction.control_predecessors)


def _followers(computation: HloComputation) -> list[list[HloInstruction]]:
    """For each instruction of a computation, by its index: its users and control successors."""
    found: list[list[HloInstruction]] = [[] for _ in computation.instructions]
    for each in computation.instructions:
        spend(1)
        for other in _predecessors(each):
            found[other.index].append(each)
    return found


def _reached(
    start: HloInstruction, distance: int | None, neighbours: Callable[[HloInstruction], Iterable[HloInstruction]]
) -> list[HloInstruction]:
    """`start` and the instructions at most `distance` steps to neighbours away, the nearest first. None: at any
    distance.
    """
    found, seen, at, level = [start], {start.index}, 0, 0
    while at < len(found) and level != distance:
        last = len(found)
        for each in found[at:last]:
            spend(1)
            for other in neighbours(each):
                if other.index not in seen:
                    seen.add(other.index)
                    found.append(other)
        at, level = last, level + 1
    return found
