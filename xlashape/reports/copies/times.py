"""How often each computation of a module is executed, in one execution of the module."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import TopologicalSorter
from typing import NamedTuple

from xlashape.errors import XlashapeError
from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.indexing.walk.repeated.trip_count import trip_count
from xlashape.limits import INT64_MAX, spend
from xlashape.reports.copies.flow import Flow


class Times(NamedTuple):
    """A number of executions, and how it is known."""

    number: int
    is_lower_bound: bool = False
    """A loop whose number of iterations is not known counts once."""
    is_upper_bound: bool = False
    """A branch counts as often as its conditional."""

    @property
    def bound(self) -> str:
        """`exact`, `at least`, `at most`, or `unknown` for both."""
        if self.is_lower_bound:
            return "unknown" if self.is_upper_bound else "at least"
        return "at most" if self.is_upper_bound else "exact"


def executions(flow: Flow) -> dict[HloComputation, Times]:
    """How often each executed computation is executed.

    >>> from xlashape.hlo import HloModule
    >>> module = HloModule.parse('''HloModule m
    ... body { i = s32[] parameter(0) two = s32[] constant(2) ROOT n = s32[] add(i, two) }
    ... cond { i = s32[] parameter(0) ten = s32[] constant(10) ROOT c = pred[] compare(i, ten), direction=LT }
    ... ENTRY e { zero = s32[] constant(0) ROOT w = s32[] while(zero), condition=cond, body=body }''')
    >>> {computation.name: times.number for computation, times in executions(Flow(module)).items()}
    {'e': 1, 'body': 5, 'cond': 6}
    """
    order: TopologicalSorter[HloComputation] = TopologicalSorter()
    for computation, callers in flow.callers.items():
        order.add(computation, *[caller.computation for caller in callers])
    times: dict[HloComputation, Times] = {}
    for computation in order.static_order():
        spend(1)
        if computation is flow.module.entry:
            times[computation] = Times(1)
            continue
        parts = [part for caller in flow.callers[computation] for part in _parts(caller, computation, times)]
        times[computation] = Times(
            min(sum([part.number for part in parts]), INT64_MAX),
            any(part.is_lower_bound for part in parts),
            any(part.is_upper_bound for part in parts),
        )
    return times


def _parts(caller: HloInstruction, computation: HloComputation, times: dict[HloComputation, Times]) -> Iterator[Times]:
    outer = times[caller.computation]
    called = caller.called_computations
    if caller.opcode == Opcode.WHILE and len(called) == 2:
        body, condition = called
        try:
            count = trip_count(caller, body, condition)
        except XlashapeError:
            count = None
        for each in called:
            if each is computation:
                number = 1 if count is None else count + (each is condition)
                yield Times(outer.number * number, outer.is_lower_bound or count is None, outer.is_upper_bound)
    elif caller.opcode == Opcode.CONDITIONAL:
        yield Times(outer.number, outer.is_lower_bound, True)
    else:
        yield outer._replace(number=outer.number * called.count(computation))
