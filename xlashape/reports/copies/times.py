"""How often each computation of a module is executed in one execution of the module, and how many bytes its movers
(`movers.py`: the instructions that only move data) then move.
"""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import TopologicalSorter
from typing import NamedTuple

from xlashape.errors import XlashapeError
from xlashape.hlo import HloComputation, HloInstruction, HloModule
from xlashape.hlo.flow import Flow
from xlashape.hlo.ops.operation import ResultSource
from xlashape.indexing.walk.repeated.trip_count import trip_count
from xlashape.limits import INT64_MAX, spend
from xlashape.reports.copies.movers import Mover, bytes_read, bytes_written, movers_of


class Times(NamedTuple):
    """A number of executions, and how it is known."""

    number: int
    is_lower_bound: bool = False
    """Whether the number may be too small: a loop whose number of iterations is not known counts as one iteration."""
    is_upper_bound: bool = False
    """Whether the number may be too large: a branch counts as often as its conditional, as if it were always taken."""

    @property
    def bound(self) -> str:
        """`exact`, `at least`, `at most`, or `unknown` for both."""
        if self.is_lower_bound:
            return "unknown" if self.is_upper_bound else "at least"
        return "at most" if self.is_upper_bound else "exact"


class Moved(NamedTuple):
    """The bytes that a mover moves; None where a size is not known."""

    read: int | None
    """The bytes that one execution of the mover reads."""
    written: int | None
    size: int | None
    """The bytes that one execution of the mover reads and writes."""
    total: int | None
    """The bytes that the mover reads and writes in one execution of the module."""


def moved_by(mover: Mover, times: Times, known: dict[tuple[object, ...], Moved]) -> Moved:
    """The bytes that a mover moves, if it is executed as often as `times` says. `known` keeps what was found for movers
    of the module, by what they are and what they move, unless a fusion moves it: a model has few that are not alike."""
    row = mover.row
    key = (row, times) if mover.is_fusion else (row.kind, times, *[operand.kind for operand in row.operands])
    found = known.get(key)
    if found is None:
        read, written = bytes_read(mover), bytes_written(mover)
        size = None if read is None or written is None else min(read + written, INT64_MAX)
        total = None if size is None else min(size * times.number, INT64_MAX)
        found = known[key] = Moved(read, written, size, total)
    return found


def copied_bytes(module: HloModule) -> Iterator[tuple[HloInstruction, int]]:
    """The executed instructions that `copies` has rows of, and how many bytes each moves in one execution of the
    module: 0 where that is not known.

    >>> module = HloModule.parse("HloModule m ENTRY e { p = f32[256] parameter(0) ROOT c = f32[256] copy(p) }")
    >>> [(each.name, size) for each, size in copied_bytes(module)]
    [('c', 2048)]
    """
    movers = list(movers_of(module))
    times = executions(Flow(module)).times if movers else {}
    known: dict[tuple[object, ...], Moved] = {}
    for mover in movers:
        yield mover.row, moved_by(mover, times[mover.row.computation], known).total or 0


class Executions(NamedTuple):
    """How often computations run in one execution of a module."""

    times: dict[HloComputation, Times]
    trips: dict[HloInstruction, int | None]
    """Loop → its number of iterations; None where that is not known."""


def executions(flow: Flow) -> Executions:
    """How often the entry computation and those that it executes run in one execution of the module.

    >>> from xlashape.hlo import HloModule
    >>> module = HloModule.parse('''HloModule m
    ... body { i = s32[] parameter(0) two = s32[] constant(2) ROOT n = s32[] add(i, two) }
    ... cond { i = s32[] parameter(0) ten = s32[] constant(10) ROOT c = pred[] compare(i, ten), direction=LT }
    ... ENTRY e { zero = s32[] constant(0) ROOT w = s32[] while(zero), condition=cond, body=body }''')
    >>> {computation.name: times.number for computation, times in executions(Flow(module)).times.items()}
    {'e': 1, 'body': 5, 'cond': 6}
    """
    order: TopologicalSorter[HloComputation] = TopologicalSorter()
    for computation, callers in flow.callers.items():
        order.add(computation, *[caller.computation for caller in callers])
    found = Executions({}, {})
    times = found.times
    for computation in order.static_order():
        spend(1)
        if computation is flow.module.entry:
            times[computation] = Times(1)
            continue
        parts = [part for caller in flow.callers[computation] for part in _parts(caller, computation, found)]
        times[computation] = Times(
            min(sum([part.number for part in parts]), INT64_MAX),
            any(part.is_lower_bound for part in parts),
            any(part.is_upper_bound for part in parts),
        )
    return found


def _parts(caller: HloInstruction, computation: HloComputation, found: Executions) -> Iterator[Times]:
    """How often `caller` executes a computation that it calls: one number, or two to be added if the computation is
    both the body and the condition of a loop.
    """
    outer = found.times[caller.computation]
    called = caller.called_computations
    if caller.kind.row.source is ResultSource.STATE and len(called) == 2:
        body, condition = called
        if caller not in found.trips:
            try:
                found.trips[caller] = trip_count(caller, body, condition)
            except XlashapeError:
                found.trips[caller] = None
        count = found.trips[caller]
        for each in called:
            if each is computation:
                number = 1 if count is None else count + (each is condition)
                yield Times(outer.number * number, outer.is_lower_bound or count is None, outer.is_upper_bound)
    elif caller.kind.row.source is ResultSource.BRANCH:
        yield Times(outer.number, outer.is_lower_bound, True)
    else:
        yield outer._replace(number=outer.number * called.count(computation))
