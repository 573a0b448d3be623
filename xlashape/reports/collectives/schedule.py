"""What the schedule of a module puts between the begin and the end of each asynchronous collective. The order of a
computation's instructions is not that of its schedule, so a module without a schedule says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xlashape.hlo import HloComputation, HloInstruction, HloModule
from xlashape.hlo.collectives import Collective
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.limits import spend


def windows_of(module: HloModule, found: Sequence[Collective]) -> dict[HloInstruction, tuple[HloInstruction, ...]]:
    """Instruction of an asynchronous collective → the instructions that run between its begin and its end and do work:
    no collectives, and no begins and ends of asynchronous operations. Collectives of which the module does not say it
    are left out.
    """
    ids = {key & LOCAL_ID: value.instruction_ids for key, value in module.head.schedule.sequences.items()}
    ends = {each.begin for each in found if each.begin.kind.row.fuses_called_computation and each.end is not None}
    ends |= {each.end for each in found if each.end is not None}
    orders: dict[HloComputation, dict[HloInstruction, int]] = {}
    windows: dict[HloInstruction, tuple[HloInstruction, ...]] = {}
    for each in found:
        computation = each.begin.computation
        sequence = ids.get(computation.id & LOCAL_ID)
        if each.end is None or sequence is None:
            continue
        if computation not in orders:
            spend(len(sequence))
            orders[computation] = {step: number for number, step in enumerate(computation.resolve(sequence))}
        order = orders[computation]
        if each.begin not in order or each.end not in order:
            continue
        steps = list(order)[order[each.begin] + 1 : order[each.end]]
        spend(len(steps))
        windows[each.instruction] = tuple(_working(steps, ends))
    return windows


def _working(steps: Iterable[HloInstruction], ends: set[HloInstruction]) -> Iterable[HloInstruction]:
    for step in steps:
        row = step.kind.row
        is_begin_or_end = row.begins_asynchronously or row.ends_a_start or row.async_step is not None or step in ends
        if not (is_begin_or_end or row.exchange is not None or row.moves_no_data or row.is_given):
            yield step
