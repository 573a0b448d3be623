"""Temporaries of an assignment that has no heap traces, which say when XLA's simulation of the heap gives memory to a
value and takes it away.

jaxlib 0.7.2 and newer drop the traces of an executable on CPU, so that their peak lacks all temporaries; texts of
assignments never had traces. The rest of the assignment says which values are in which allocation, at which offset, and
in the newest versions which of them live at the peak. The schedule of the module, where it is known, says when each
value lives.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.proto import xla
from xlashape.reports.memory.plan import TEMPORARY, Allocation, Lives, Place, Plan, Steps
from xlashape.reports.memory.schedule import flat_schedule
from xlashape.reports.memory.values import value_ranges

_LOST = "The heap traces of the temporaries are not there: when each lives follows from the schedule of the module."
_LOST_BUT_PEAK = (
    "The heap traces of the temporaries are not there, but the values that live at the peak are: the timeline "
    "has that moment alone."
)
_WHOLE = "When the temporaries live is not known: their allocations count as a whole."


class _Span(NamedTuple):
    """A span of times of the schedule in which a value takes memory of a temporary allocation."""

    value: int
    begin: int
    end: int


def is_untraced(plan: Plan, proto: xla.BufferAssignmentProto) -> bool:
    """Whether an assignment has temporaries and no trace of them."""
    return not proto.heap_simulator_traces and any(_is_temporary(each) for each in plan.allocations)


def with_temporaries(plan: Plan, proto: xla.BufferAssignmentProto) -> Plan:
    """The plan with the temporaries of an untraced assignment `proto` added. Its peak has bounds, unless the assignment
    itself confirms it."""
    temporary = {position for position, each in enumerate(plan.allocations) if _is_temporary(each)}
    whole = sum([plan.allocations[position].size for position in temporary])
    static = plan.steps.totals[0]
    at_peak = _at_peak(plan, proto, temporary)
    peak = None if at_peak is None else static + sum([plan.values.sizes[value] for value in at_peak])
    module = plan.module
    if module is not None and module.head.schedule.sequences:
        spans, instructions = _spans(plan, module, temporary)
        found = _with_lives(plan, spans, instructions)
        most = max(found.steps.totals)
        if peak is not None and len(temporary) == 1 and most == peak:
            return found._replace(bounds=None)
        least = static + _least(plan, spans)
        return found._replace(bounds=(min(least, most), max(most, static + whole)), notes=(*plan.notes, _LOST))
    if peak is not None and at_peak is not None:
        found = _with_lives(plan, [_Span(value, 0, 0) for value in at_peak], None)
        return found._replace(bounds=(static, max(static + whole, peak)), notes=(*plan.notes, _LOST_BUT_PEAK))
    standing = {
        plan.allocations[each].values[0]: plan.allocations[each]
        for each in sorted(temporary)
        if plan.allocations[each].values
    }
    sizes = list(plan.values.sizes)
    for value, allocation in standing.items():
        sizes[value] = allocation.size

    def place(value: int) -> Place:
        allocation = standing.get(value)
        if allocation is None or plan.values.sizes[value] == allocation.size:
            return plan.values.place(value)
        return Place(None, f"allocation {allocation.number}")

    standing_in = plan._replace(values=plan.values._replace(sizes=sizes, place=place))
    found = _with_lives(standing_in, [_Span(value, 0, 0) for value in standing], None)
    return found._replace(bounds=(static, static + whole), notes=(*plan.notes, _WHOLE))


def _is_temporary(each: Allocation) -> bool:
    return each.kind == TEMPORARY and not each.is_thread_local and each.size > 0


def _at_peak(plan: Plan, proto: xla.BufferAssignmentProto, temporary: set[int]) -> list[int] | None:
    """The values that live at the peak of the temporary allocations, as the assignment says; None where it does not."""
    if not proto.peak_buffers:
        return None
    positions = {each.number: position for position, each in enumerate(plan.allocations)}
    number_of = {logical.id: number for number, logical in enumerate(proto.logical_buffers)}
    said = {positions.get(each.index, -1): each for each in proto.peak_buffers}
    if not temporary <= said.keys():
        return None
    return [
        number_of[number]
        for position in sorted(temporary)
        for number in said[position].logical_buffer_ids
        if number in number_of and not _is_table(plan, number_of[number])
    ]


def _is_table(plan: Plan, value: int) -> bool:
    """Whether a value is a tuple's table of pointers, which no trace has."""
    shape = plan.values.place(value).shape
    return shape is not None and shape.is_tuple


def _spans(plan: Plan, module: HloModule, temporary: set[int]) -> tuple[list[_Span], Sequence[HloInstruction]]:
    """The spans in which values take the memory of temporary allocations. Values at the same offset are in the same
    memory, one after the other."""
    schedule = flat_schedule(module)
    ranges = value_ranges(module, schedule)
    by_place = {
        (made, leaf.shape_index): number
        for number, (made, leaf) in enumerate(zip(ranges.instructions, ranges.leaves, strict=True))
    }
    memory: dict[tuple[int, int], list[_Span]] = {}
    for position in sorted(temporary):
        for value in plan.allocations[position].values:
            place = plan.values.place(value)
            if place.instruction is None or (place.shape is not None and place.shape.is_tuple):
                continue
            number = by_place.get((place.instruction, place.shape_index))
            if number is not None:
                span = _Span(value, ranges.begins[number], ranges.ends[number])
                memory.setdefault((position, plan.values.offsets[value]), []).append(span)
    found: list[_Span] = []
    for spans in memory.values():
        spans.sort(key=lambda span: (span.begin, span.end))
        kept: list[_Span] = []
        for span in spans:
            if kept and span.begin <= kept[-1].end:
                last = kept.pop()
                if span.begin > last.begin and plan.values.sizes[span.value] == plan.values.sizes[last.value]:
                    # The value takes the memory over, as the state of a loop does.
                    kept.append(last._replace(end=span.begin - 1))
                    kept.append(span._replace(end=max(span.end, last.end)))
                else:
                    larger = max(last, span, key=lambda each: plan.values.sizes[each.value])
                    kept.append(_Span(larger.value, last.begin, max(last.end, span.end)))
            else:
                kept.append(span)
        found += kept
    return found, schedule.instructions


def _least(plan: Plan, spans: Sequence[_Span]) -> int:
    """The most bytes that the values of the spans need between two instructions, when no instruction runs."""
    change = [0] * (max([span.end for span in spans], default=0) + 2)
    for span in spans:
        change[span.begin] += plan.values.sizes[span.value]
        change[span.end] -= plan.values.sizes[span.value]
    return max(accumulate(change))


def _with_lives(plan: Plan, spans: Sequence[_Span], instructions: Sequence[HloInstruction] | None) -> Plan:
    """The plan with temporaries that live during these spans. A time of a span is one less than its step; without
    instructions, step 1 is the only one after step 0."""
    steps = 2 if instructions is None else len(instructions) + 1
    known = len(plan.lives.values)
    lives = Lives(
        [*plan.lives.values, *[span.value for span in spans]],
        [*plan.lives.begins, *[span.begin + 1 for span in spans]],
        [*[steps - 1] * known, *[min(span.end + 1, steps - 1) for span in spans]],
    )
    change = [0] * (steps + 1)
    for value, begin, end in zip(lives.values, lives.begins, lives.ends, strict=True):
        change[begin] += plan.values.sizes[value]
        change[end + 1] -= plan.values.sizes[value]
    totals = list(accumulate(change))[:steps]
    return plan._replace(lives=lives, steps=Steps([-1] * steps, totals, instructions), unpadded_peak=None)
