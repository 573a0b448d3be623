"""The order of a module that is edited: instructions after their operands and control predecessors, in the list and in
the schedule; computations after those that they call. An order that is right already stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlashape.hlo.editing.schedule import schedule_of
from xlashape.hlo.ir import HloComputation, HloInstruction, ModuleData
from xlashape.hlo.module_proto.order import post_order
from xlashape.hlo.module_proto.structure import LOCAL_ID


def needs(instruction: HloInstruction) -> tuple[HloInstruction, ...]:
    """What must have run before an instruction."""
    return (*instruction.control_predecessors, *instruction.operands)


def settle(computation: HloComputation) -> None:
    """Puts the instructions of a computation after what they need."""
    order = _settled(computation.instructions)
    if order is not None:
        computation.set_instructions(order)
    computation.is_ordered = True
    sequence = schedule_of(computation)
    if sequence is not None:
        by_local_id = computation.by_local_id()
        steps = [by_local_id[ident & LOCAL_ID] for ident in sequence.instruction_ids if ident & LOCAL_ID in by_local_id]
        settled = _settled(steps)
        if settled is not None:
            sequence.instruction_ids[:] = [each.id for each in settled]


def settle_after(instruction: HloInstruction) -> None:
    """Puts the instructions of a computation after what they need, after `instruction` or its users got other
    operands."""
    before, after = needs(instruction), instruction.users
    is_right = (
        instruction.computation.is_ordered
        and all(each.index < instruction.index for each in before)
        and all(each.index > instruction.index for each in after)
    )
    if not is_right or not _is_scheduled_between(instruction, before, after):
        settle(instruction.computation)


def _is_scheduled_between(
    instruction: HloInstruction, before: Sequence[HloInstruction], after: Sequence[HloInstruction]
) -> bool:
    """Whether the schedule runs an instruction after the instructions `before`, and before the instructions `after`.
    Also true without a schedule."""
    sequence = schedule_of(instruction.computation)
    if sequence is None or not (before or after):
        return True
    asked = {each.id & LOCAL_ID for each in (instruction, *before, *after)}
    step_of = {
        ident & LOCAL_ID: step for step, ident in enumerate(sequence.instruction_ids[:]) if ident & LOCAL_ID in asked
    }
    step = step_of.get(instruction.id & LOCAL_ID, 0)
    return all(step_of.get(each.id & LOCAL_ID, -1) < step for each in before) and all(
        step_of.get(each.id & LOCAL_ID, step + 1) > step for each in after
    )


def _settled(instructions: Sequence[HloInstruction]) -> list[HloInstruction] | None:
    """The instructions in an order in which each is after what it needs, close to the given one. None if the given one
    is right, which is usual."""
    index_of = {instruction: index for index, instruction in enumerate(instructions)}
    before = [[index_of[each] for each in needs(instruction) if each in index_of] for instruction in instructions]
    if all(each < index for index, needed in enumerate(before) for each in needed):
        return None
    return [instructions[index] for index in post_order(before, range(len(before)), is_counted=False)]


def settle_calls(module: ModuleData) -> None:
    """Sorts computations so that each stands after the computations that it calls."""
    computations = module.computations
    calls = [
        [called.index for instruction in each.instructions for called in instruction.called_computations]
        for each in computations
    ]
    if any(called > index for index, targets in enumerate(calls) for called in targets):
        module.set_computations(
            [computations[index] for index in post_order(calls, range(len(calls)), is_counted=False)]
        )


def dependencies(starts: Sequence[HloInstruction], first: int = 0) -> set[HloInstruction]:
    """The instructions `starts` and what they need, directly or not. In a computation whose instructions are in order,
    those with an index below `first` may be left out."""
    needed: set[HloInstruction] = set()
    pending = list(starts)
    while pending:
        each = pending.pop()
        if each not in needed and each.index >= first:
            needed.add(each)
            pending += each.operands
            pending += each.control_predecessors
    return needed
