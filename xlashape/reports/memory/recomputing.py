"""The peak of a training program whose loops compute again what they keep for the backward pass.

JAX writes a loop over layers, as `jax.lax.scan` does, as two loops: the first one stacks what the backward pass needs,
an array for each value with an element for each iteration; the second one takes the stacks apart. With
`jax.checkpoint` around the body, only what an iteration begins with is stacked, and each iteration of the second loop
first computes its part of the rest.

So the stacks live no longer, and their part of one iteration lives in the second loop. The estimate counts

    throughout      what the iterations begin with: it may be in a stack already
    inside          what one iteration keeps, or what the second loop holds today if that is more. Of what one fusion
                    makes, the largest array: a compiler computes the others where they are used. A TPU's on-chip
                    memory takes its part

The upper bound counts both, all arrays, what an iteration of the first loop takes for a while, nothing in on-chip
memory, and a tenth more. The operations that are added are
those of the body whose results the stacks depend on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple

from xlashape.base.math import counted
from xlashape.errors import XlashapeError
from xlashape.hlo.flow import Index, Value, handed_on_to
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import ResultSource
from xlashape.hlo.ops.registry import operation_of
from xlashape.limits import spend
from xlashape.reports.memory.inside import Inside, Iteration, behind_copies, behind_forms, body_of, lives_of
from xlashape.reports.memory.plan import FAST, TEMPORARY, Plan
from xlashape.reports.memory.schedule import leaf_bytes
from xlashape.reports.text import short_bytes
from xlashape.shape.value.shape import part_of

AGAIN: Final = re.compile(r"transpose\(|checkpoint|remat")
"""Parts of the names of operations of a backward pass, and of operations that are already computed again."""
_FAST_BYTES: Final = 128 << 20
"""The on-chip memory of a TPU."""
_SLACK: Final = 0.1
"""How much more temporaries may take than the upper bound counts, as a fraction of them."""


class Recomputed(NamedTuple):
    """An estimate, in bytes: the peak of memory of a program after the body of one of its loops is wrapped in
    `jax.checkpoint`."""

    text: str
    new_peak_bytes: int
    lower_bytes: int
    upper_bytes: int
    flops: int | None
    """What computing again adds; None where it is not known."""
    name: str
    """The instruction that writes the largest stack."""


class Recomputing:
    """The loops of a module, of which `plan` is the plan, that keep values for the backward pass."""

    def __init__(self, plan: Plan, module: HloModule) -> None:
        self._plan = plan
        self._module = module
        self._loops = [
            each
            for computation in module.computations
            for each in computation.instructions
            if operation_of(each.opcode).source is ResultSource.STATE and len(each.called_computations) == 2
        ]
        self._bodies: dict[HloInstruction, Iteration] = {}
        self._stacks = self._found_stacks()

    @property
    def lives(self) -> set[int]:
        """The lives of the plan that are those of stacks."""
        return {life for stacks in self._stacks.values() for life in stacks}

    def found(self) -> Iterator[Recomputed]:
        """For each loop whose stacked values live at the peak of memory, the peak if they are computed again."""
        lives = self._plan.lives
        peak = self._plan.steps.peak
        for loop, every in self._stacks.items():
            stacks = {life: number for life, number in every.items() if self._is_for_backward(loop, number)}
            body = loop.called_computations[0]
            times = self._times
            trips = times.get(body, 0) // max(1, times.get(loop.computation, 1))
            if trips > 1 and any(lives.begins[life] <= peak <= lives.ends[life] for life in stacks):
                made = self._without(loop, stacks, trips)
                if made is not None:
                    yield made

    def _found_stacks(self) -> dict[HloInstruction, dict[int, int]]:
        """Each loop of a forward pass → the lives of its stacks, each with its number in the state."""
        for loop in self._loops:
            if is_forward(_name_of(loop)):
                self._bodies[loop] = body_of(loop)
        return lives_of(self._plan, {loop: body.stacked for loop, body in self._bodies.items()}, (TEMPORARY,))

    def _is_for_backward(self, loop: HloInstruction, number: int) -> bool:
        """Whether only loops of the backward pass read a stack. What a loop returns for other uses is kept anyway."""
        pending: list[tuple[HloInstruction, Index]] = [(loop, (number,))]
        seen = set(pending)
        is_read = False
        while pending:
            spend()
            instruction, index = pending.pop()
            if instruction is instruction.computation.root:
                return False
            for user in instruction.users:
                for operand, each in enumerate(user.operands):
                    if each is not instruction:
                        continue
                    source = operation_of(user.opcode).source
                    if source is ResultSource.STATE:
                        if "transpose(" not in _name_of(user):
                            return False
                        is_read = True
                        continue
                    to = handed_on_to(user, operand, index)
                    if to is None and user.opcode in (Opcode.COPY, Opcode.COPY_START):
                        to = () if user.opcode is Opcode.COPY else (0,)
                    if to is None and source is not ResultSource.ELEMENT:
                        return False
                    if to is not None and (user, to) not in seen:
                        seen.add((user, to))
                        pending.append((user, to))
        return is_read

    # -- the peak -----------------------------------------------------------------------------

    def _without(self, loop: HloInstruction, stacks: Mapping[int, int], trips: int) -> Recomputed | None:
        """The peak with the body of a loop in `jax.checkpoint`; None where the loop of the backward pass is not
        found."""
        plan, totals, body = self._plan, self._plan.steps.totals, self._bodies[loop]
        sizes: dict[int, int] = {}
        change = [0] * (len(totals) + 1)
        for life, number in stacks.items():
            size = plan.values.sizes[plan.lives.values[life]]
            sizes[number] = max(size, sizes.get(number, 0))
            change[plan.lives.begins[life]] += size
            change[plan.lives.ends[life] + 1] -= size
        stacked = list(accumulate(change))
        begun_with: dict[int, int] = {}
        made_by: dict[HloInstruction, list[int]] = {}
        for number, inside in body.stacked.items():
            origin = behind_forms(inside)
            if origin.made is loop.called_computations[0].parameters[0] and origin.value.at[0] in body.carried:
                carry = origin.value.at[0]
                begun_with[carry] = max(sizes.get(number, 0), begun_with.get(carry, 0))
            elif number in sizes:
                made_by.setdefault(self._maker(loop, number), []).append(-(-sizes[number] // trips))
        kept = sum(
            [
                begun_with[number] if number in begun_with else trips * leaf_bytes(shape, plan.target)
                for number, shape in body.carried.items()
            ]
        )
        without = [total - (less and min(total, less - kept)) for total, less in zip(totals, stacked, strict=False)]
        loops = [each for each in self._loops if "transpose(" in _name_of(each)]
        backward = [step for step in self._steps_in(loops) if stacked[step]]
        if not backward or not made_by:
            return None
        inside = [without[step] for step in backward]
        are_inside = set(backward)
        outside = max([total for step, total in enumerate(without) if step not in are_inside])
        least, most = min(inside), max(inside)
        again = sum([max(each) for each in made_by.values()]) - (_FAST_BYTES if FAST in plan.values.spaces else 0)
        every = sum([sum(each) for each in made_by.values()])
        forward = [without[step] for step in self._steps_in([loop])] or [0]
        static = self._static
        upper = max(outside, most + every + max(forward) - min(forward))
        largest = max(made_by, key=lambda each: max(made_by[each]))
        return Recomputed(
            self._text(loop, sizes, trips, kept),
            max(outside, most, least + again),
            min(static, outside),
            upper + round(_SLACK * (upper - static)),
            self._flops(made_by),
            largest.name,
        )

    def _steps_in(self, loops: Iterable[HloInstruction]) -> list[int]:
        """The steps inside of loops."""
        pending = [loop.called_computations[0] for loop in loops]
        reached: set[HloComputation] = set()
        while pending:
            computation = pending.pop()
            if computation not in reached:
                reached.add(computation)
                pending += [called for each in computation.instructions for called in each.called_computations]
        return [
            step
            for step in range(1, len(self._plan.steps.totals))
            if (run := instruction_of(self._plan, step)) is not None and run.computation in reached
        ]

    @cached_property
    def _static(self) -> int:
        """The bytes of arguments, outputs and constants."""
        plan = self._plan
        values = [plan.lives.values[life] for life in plan.lives.at(plan.steps.peak)]
        return sum([plan.values.sizes[value] for value in values if plan.values.kinds[value] != TEMPORARY])

    def _maker(self, loop: HloInstruction, number: int) -> HloInstruction:
        """The instruction of the body that writes a stack."""
        return behind_copies(Inside(Value(loop.called_computations[0].root, (number,))), enters=False).made

    # -- what it costs ------------------------------------------------------------------------

    @cached_property
    def _times(self) -> Mapping[HloComputation, int]:
        """How often each computation runs."""
        from xlashape.reports.cost.program import runs_of  # deferred: it imports indexing maps

        return runs_of(self._module).times

    def _flops(self, makers: Iterable[HloInstruction]) -> int | None:
        """The operations of these instructions of a body and of all that they depend on, in all iterations."""
        from xlashape.reports.cost.program import costs_of

        try:
            costs = costs_of(self._module)
        except XlashapeError:  # shapes that do not fit each other
            return None
        pending = [*makers]
        needed = set(pending)
        total = 0
        while pending:
            spend()
            instruction = pending.pop()
            for each in (*instruction.operands, *_instructions_in(instruction)):
                if each not in needed:
                    needed.add(each)
                    pending.append(each)
            flops = costs.flops_of(instruction)
            if flops is None:
                return None
            total += flops
        return total

    def _text(self, loop: HloInstruction, sizes: Mapping[int, int], trips: int, kept: int) -> str:
        """The change in words. `sizes` are those of the stacks."""
        where = f" at {loop.metadata.source}" if loop.metadata.source else ""
        begin = f", {short_bytes(kept)}" if kept else ""
        return (
            f"jax.checkpoint(the body of the loop{where}): the backward pass computes what the {trips} iterations keep "
            f"for it, {counted(len(sizes), 'array')} of {short_bytes(sum(sizes.values()))} such as "
            f"{self._example(loop, sizes)}, again, one iteration at a time; only what each iteration begins with is "
            f"kept{begin}"
        )

    def _example(self, loop: HloInstruction, sizes: Mapping[int, int]) -> str:
        """The largest value of an iteration that a stack is of, if possible one whose line is known."""
        told: list[str] = []
        for number in sorted(sizes, key=lambda each: (-sizes[each], each)):
            made, at = behind_forms(self._bodies[loop].stacked[number]).value
            metadata = made.metadata
            shape = str((part_of(made.shape, at) or made.shape).without_layout())
            if metadata.source and metadata.op_name:
                return f"{shape} of {metadata.source} ({'/'.join(metadata.op_name.split('/')[-2:])})"
            told.append(shape)
        return told[0]


def is_forward(name: str) -> bool:
    """Whether an operation of this name is one of a forward pass whose derivative is taken."""
    return "jvp(" in name and not AGAIN.search(name)


def instruction_of(plan: Plan, step: int) -> HloInstruction | None:
    """The instruction that runs in a step."""
    steps = plan.steps
    if steps.instructions is not None:
        return steps.instructions[step - 1] if 0 < step <= len(steps.instructions) else None
    value = steps.values[step]
    return None if value < 0 else plan.values.place(value).instruction


def _name_of(loop: HloInstruction) -> str:
    """The operation that a loop is of: its own name, or that of an instruction of its body."""
    body = loop.called_computations[0].instructions
    return loop.metadata.op_name or next((name for each in body if "/while" in (name := each.metadata.op_name)), "")


def _instructions_in(instruction: HloInstruction) -> Iterator[HloInstruction]:
    for called in instruction.called_computations:
        yield from called.instructions
