"""The schedule of a module that is edited: the order in which the instructions of each computation run. In a scheduled
module every computation has one, except those that fusions call. In other modules, the functions here do nothing."""

from __future__ import annotations

from collections.abc import Collection

from xlashape.hlo.ir import HloComputation, HloInstruction, ModuleData
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.proto import xla

_Sequence = xla.HloScheduleProto.InstructionSequence


def schedule_of(computation: HloComputation) -> _Sequence | None:
    """The schedule of a computation, if it has one."""
    if not _is_scheduled(computation.module):
        return None
    for key, sequence in computation.module.head.schedule.sequences.items():
        if key & LOCAL_ID == computation.id & LOCAL_ID:
            return sequence
    return None


def _is_scheduled(module: ModuleData) -> bool:
    return module.head.HasField("schedule")


def add_schedule(computation: HloComputation) -> None:
    """Gives a computation that has no schedule one, if the module is scheduled: the order of its list."""
    module = computation.module
    if _is_scheduled(module) and schedule_of(computation) is None:
        ids = [each.id for each in computation.instructions]
        module.head.schedule.sequences[computation.id].instruction_ids.extend(ids)


def remove_schedule(computation: HloComputation) -> None:
    """Removes the schedule of a computation."""
    if _is_scheduled(computation.module):
        sequences = computation.module.head.schedule.sequences
        for key in [key for key in sequences if key & LOCAL_ID == computation.id & LOCAL_ID]:
            del sequences[key]


def add_step(instruction: HloInstruction, anchor: HloInstruction | None) -> None:
    """Adds an instruction, which is not in the list of its computation yet, to the schedule: before the anchor, or
    without one after the last instruction that it needs, or at the end if it needs none."""
    sequence = schedule_of(instruction.computation)
    if sequence is None:
        return
    steps = list(sequence.instruction_ids)
    at = len(steps)
    if anchor is not None:
        at = next((step for step, ident in enumerate(steps) if ident & LOCAL_ID == anchor.id & LOCAL_ID), at)
    else:
        needed = {each.id & LOCAL_ID for each in (*instruction.control_predecessors, *instruction.operands)}
        at = max([step + 1 for step, ident in enumerate(steps) if ident & LOCAL_ID in needed], default=at)
    steps.insert(at, instruction.id)
    sequence.instruction_ids[:] = steps


def remove_steps(computation: HloComputation, unwanted: Collection[HloInstruction]) -> None:
    """Removes instructions from the schedule of their computation."""
    sequence = schedule_of(computation)
    if sequence is not None:
        ids = {each.id & LOCAL_ID for each in unwanted}
        sequence.instruction_ids[:] = [ident for ident in sequence.instruction_ids if ident & LOCAL_ID not in ids]
