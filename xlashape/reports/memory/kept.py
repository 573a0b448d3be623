"""Values that a function keeps for the backward pass: in which steps of the program they are not needed, and which of
them belong to one call of the function, which computes all of them again before its backward pass begins."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple

from xlashape.hlo.flow import handed_on_to
from xlashape.hlo.module import HloInstruction
from xlashape.limits import spend
from xlashape.reports.memory.plan import Plan, holder_of
from xlashape.reports.memory.recomputing import instruction_of

_ALIKE: Final = 0.5
"""The part of the operations of a call that other calls of its function have as well."""
_FIRST: Final = 0.1
"""The part of what a call keeps that is used when its backward pass has begun."""


class Residual(NamedTuple):
    """A value that lives across the peak and can be computed again."""

    life: int
    instruction: HloInstruction
    origin: HloInstruction
    """The instruction whose metadata says where the value comes from."""
    size: int
    begin: int
    end: int
    """The first and the last step without the value in memory if it is computed again for its first use behind the
    peak."""


class Uses:
    """In which steps of a plan values are used."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @cached_property
    def _steps(self) -> dict[HloInstruction, int]:
        """The first step in which each instruction runs; in XLA's own assignment those that make a value have one."""
        steps = range(len(self._plan.steps.totals) - 1, 0, -1)
        return {made: step for step in steps if (made := instruction_of(self._plan, step)) is not None}

    def around(self, life: int, step: int) -> tuple[int, int]:
        """The last step up to this one in which the value of a life is used or made, and the first one behind it in
        which it is used; of a value whose uses are not known, the first and last steps in which it lives."""
        lives = self._plan.lives
        place = holder_of(self._plan, life, step)
        before, behind = lives.begins[life], lives.ends[life]
        if place.instruction is None:
            return before, behind
        pending, seen = [(place.instruction, place.shape_index)], {(place.instruction, place.shape_index)}
        while pending:
            made, index = pending.pop()
            for user in dict.fromkeys(made.users):
                for number, operand in enumerate(user.operands):
                    spend()
                    if operand is not made:
                        continue
                    passed = handed_on_to(user, number, index)
                    if passed is None:
                        at = self._steps.get(user, 0)
                        before = at if before < at <= step else before
                        behind = at if step < at < behind else behind
                    elif (user, passed) not in seen:
                        seen.add((user, passed))
                        pending.append((user, passed))
        return before, behind


def calls_of(kept: Sequence[Residual]) -> list[list[Residual]] | None:
    """What each call of a function keeps, by the first part in which the names of their operations differ, such as
    `block0` and `block1`, where these have the same operations of the same lines; None where names tell no calls
    apart."""
    paths = [each.origin.metadata.op_name.split("/") for each in kept]
    parts = enumerate(zip(*paths, strict=False))
    depth = next((at for at, names in parts if len({*names}) > 1), len(min(paths, key=len)))
    calls: dict[str, list[Residual]] = {}
    operations: dict[str, set[tuple[str, str]]] = {}
    for each, path in zip(kept, paths, strict=True):
        name = path[depth] if depth < len(path) else ""
        calls.setdefault(name, []).append(each)
        operations.setdefault(name, set()).add((each.origin.metadata.source, path[-1]))
    for name, own in operations.items():
        others = set[tuple[str, str]]().union(*[each for other, each in operations.items() if other != name])
        if len(own & others) < _ALIKE * len(own):
            return None
    return list(calls.values())


def layers_of(kept: Sequence[Residual]) -> list[list[Residual]]:
    """What a function keeps between one execution and the next of the operation that keeps most: what each layer of a
    loop in it keeps, where names do not say which layer an operation is of."""
    alike: dict[tuple[str, str], list[Residual]] = {}
    for each in kept:
        alike.setdefault((each.origin.metadata.source, each.origin.metadata.op_name), []).append(each)
    most = max(alike.values(), key=lambda same: sum([each.size for each in same]))
    ends = sorted({each.begin for each in most})
    layers: dict[int, list[Residual]] = {}
    for each in kept:
        layers.setdefault(bisect_left(ends, each.begin), []).append(each)
    return list(layers.values())


def without(totals: Sequence[int], kept: Sequence[Residual]) -> list[int]:
    """The bytes that live in each step, without what one call of a function keeps from its last use before the peak to
    the step in which the backward pass of the call begins."""
    less = [0] * (len(totals) + 1)
    begins = _backward_begins(kept)
    for each in kept:
        end = min(each.end, begins)
        if each.begin <= end:
            less[each.begin] += each.size
            less[end + 1] -= each.size
    return [total - part for total, part in zip(totals, accumulate(less), strict=False)]


def _backward_begins(kept: Sequence[Residual]) -> int:
    """The step behind which a tenth of what a call keeps has been used: the backward passes of other calls may use a
    value of this one, such as a mask, earlier."""
    ascending = sorted(kept, key=lambda each: each.end)
    used = accumulate([each.size for each in ascending])
    least = sum([each.size for each in kept]) * _FIRST
    return next(each.end for each, sizes in zip(ascending, used, strict=True) if sizes >= least)
