"""Sums of the events of a profile, for the readers of both formats, `xplane.py` and `trace_json.py`.

A reader makes a `Timeline` for each timeline of a device and adds its events in the order of their beginnings. The
`Timeline` sums them in a `Tally`, by operation and by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from xlashape.limits import check

_MOST_OPERATIONS: Final = 1 << 22
_MOST_STEPS: Final = 1 << 20
_MOST_OPEN: Final = 1 << 20
_LEAST_SWEPT: Final = 64
WAITING: Final = "ThunkExecutor::Execute (wait for completion)"
"""The event of XLA's CPU client that begins when it has begun all instructions of an execution, and ends when they have
ended."""


class ProfiledOperation(NamedTuple):
    """The instruction that an event ran, or the several that one kernel ran, with what the profile itself says of it:
    None or empty where it says nothing."""

    names: tuple[str, ...]
    """The names of the instructions."""
    module: str
    """The name of the module."""
    program_id: int | None
    opcode: str = ""
    """The opcode, or the category that a TPU's profile names."""
    flops: int | None = None
    """FLOPs of one execution."""
    bytes: int | None = None
    """Bytes that one execution reads and writes."""
    source: str = ""
    """The line of the user's program."""
    op_name: str = ""
    """The operation of the user's program."""


class EventTimes:
    """The sums of the events of an operation or of a step, in picoseconds."""

    __slots__ = ("begin", "count", "longest", "own", "shortest", "total")

    def __init__(self) -> None:
        self.begin: int | None = None
        """When the step begins, where the events are those of a step; None where they are those of an operation."""
        self.count = 0
        self.total = 0
        self.own = 0
        """The part of `total` in which no event within these events ran."""
        self.shortest = 0
        self.longest = 0

    def add(self, duration: int, occurrences: int) -> None:
        """Counts an event, or `occurrences` that the profiler has summed up in one."""
        each = duration // occurrences if occurrences > 1 else duration
        if each < self.shortest or not self.count:
            self.shortest = each
        if each > self.longest:
            self.longest = each
        self.count += occurrences
        self.total += duration

    def take(self, other: EventTimes) -> None:
        """Adds the events of another sum."""
        if not other.count:
            return
        begins = [each for each in (self.begin, other.begin) if each is not None]
        self.begin = min(begins, default=None)
        self.shortest = min(self.shortest, other.shortest) if self.count else other.shortest
        self.longest = max(self.longest, other.longest)
        self.count += other.count
        self.total += other.total
        self.own += other.own


class Tally:
    """Sums of a profile's events: by operation, by step, and of the kernels whose operation is not known."""

    def __init__(self) -> None:
        self.operations: dict[ProfiledOperation, EventTimes] = {}
        self.steps: dict[str, EventTimes] = {}
        self.marked: set[str] = set()
        """The names of the steps that the program or the device has marked. Each other step is an execution of a
        program."""
        self.lost = EventTimes()
        """The kernels whose operation is not known."""
        self.lost_in_graphs = EventTimes()
        """The kernels among them that ran in a command buffer."""
        self.waited = EventTimes()
        """The times in which the host waits for the end of an execution, whose work goes on in other threads."""
        self.beside = 0
        """The time of events of threads that do not wait, and so may run while another one does."""
        self.runs: dict[tuple[str, int | None], set[tuple[str, str]]] = {}
        """The executions of each program, by module and program id: the device and the id of each, where the profile
        has one.
        """
        self.planes: set[str] = set()
        """The devices with operations, the host's CPU included."""
        self.teraflops = 0.0
        self.gigabytes = 0.0
        """The peaks that the profile states, in teraFLOP/s and gigabytes/s; 0 where it states none."""

    @property
    def missing(self) -> int:
        """How long the host waits at least while no event of an instruction runs: for threads of libraries."""
        return max(0, self.waited.total - self.beside)

    @property
    def is_in_part(self) -> bool:
        """Whether a tenth of the work or more has no event."""
        return 10 * self.missing > sum([each.own for each in self.operations.values()])

    def times_of(self, operation: ProfiledOperation) -> EventTimes:
        """The sums of an operation, made if there are none."""
        times = self.operations.get(operation)
        if times is None:
            check("operations of a profile", len(self.operations) + 1, _MOST_OPERATIONS)
            times = self.operations[operation] = EventTimes()
        return times

    def step(self, name: str) -> EventTimes:
        """The sums of a step, made if there are none."""
        times = self.steps.get(name)
        if times is None:
            check("steps of a profile", len(self.steps) + 1, _MOST_STEPS)
            times = self.steps[name] = EventTimes()
        return times

    def run(self, operation: ProfiledOperation, device: str, name: str) -> None:
        """Notes an execution of an operation's program on a device. `name` is the id of the execution."""
        runs = self.runs.setdefault((operation.module, operation.program_id), set())
        runs.add((device, name))
        check("executions in a profile", len(runs), _MOST_STEPS)

    def give_ids(self, ids: Mapping[tuple[str, int | None], int]) -> None:
        """Gives programs, by module and program id, other ids."""
        for operation in [each for each in self.operations if (each.module, each.program_id) in ids]:
            program_id = ids[operation.module, operation.program_id]
            self.operations[operation._replace(program_id=program_id)] = self.operations.pop(operation)
        for module, before in [each for each in self.runs if each in ids]:
            self.runs[module, ids[module, before]] = self.runs.pop((module, before))

    def take_line(self, line: Tally) -> None:
        """Adds the sums of a timeline."""
        self.take(line)
        if not line.waited.count:
            self.beside += sum([each.own for each in line.operations.values()])

    def take(self, other: Tally) -> None:
        """Adds the sums of another tally, but not its devices and peaks."""
        self.beside += other.beside
        for operation, times in other.operations.items():
            self.times_of(operation).take(times)
        for name, times in other.steps.items():
            self.step(name).take(times)
        self.marked |= other.marked
        for program, runs in other.runs.items():
            self.runs.setdefault(program, set()).update(runs)
        self.lost.take(other.lost)
        self.lost_in_graphs.take(other.lost_in_graphs)
        self.waited.take(other.waited)


class OutOfOrder(Exception):
    """The events of a line are not in the order of their beginnings."""


class Timeline:
    """One timeline of a device, which counts its events in a tally. The time of an event within another one is not part
    of the own time of the outer event.

    Events are added in the order of their beginnings; of those that begin together the longest is first. `step_of`
    gives the name of the marked step at a time in picoseconds.
    """

    def __init__(self, tally: Tally, device: str, step_of: Callable[[int], str | None] | None = None) -> None:
        self._tally = tally
        self._device = device
        self._step_of = step_of
        self._open: list[_Open] = []
        self._sweep_at = _LEAST_SWEPT
        self._last = -1
        self._run: tuple[str, int | None, str] | None = None  # the execution of the last event

    def add(self, start: int, duration: int, operation: ProfiledOperation, occurrences: int = 1, run: str = "") -> None:
        """Counts an event, with times in picoseconds. `run` names the execution of a program that the event belongs to.

        Raises `OutOfOrder` for an event that begins before the one that was added last."""
        if start < self._last:
            raise OutOfOrder
        self._last = start
        self._close(start)
        if self._open:
            outer = self._open[-1]
            outer.within += min(start + duration, outer.end) - start
        times = self._tally.times_of(operation)
        times.add(duration, occurrences)
        if run and (run, operation.program_id, operation.module) != self._run:
            self._run = run, operation.program_id, operation.module
            self._tally.run(operation, self._device, run)
        name = self._step_of(start) if self._step_of is not None else None
        if name is not None:
            self._tally.marked.add(name)
        name = name if name is not None else run
        step = self._tally.step(name) if name else None
        if step is not None:
            step.count += occurrences
            step.begin = start if step.begin is None else min(step.begin, start)
        self._open.append(_Open(start + duration, duration, times, step))

    def finish(self) -> None:
        """Closes all events, after the last one was added."""
        self._close(None)

    def _close(self, before: int | None) -> None:
        opened = self._open
        while opened and (before is None or opened[-1].end <= before):
            opened.pop().close()
        if before is not None and len(opened) >= self._sweep_at:
            # Where events overlap without one being within the other, one that has ended lies below one that goes on.
            for each in opened:
                if each.end <= before:
                    each.close()
            opened[:] = [each for each in opened if each.end > before]
            check("events of a line at one time", len(opened), _MOST_OPEN)
            self._sweep_at = max(_LEAST_SWEPT, 2 * len(opened))


class _Open:
    """An event that has not ended, and the time of the events within it."""

    __slots__ = ("duration", "end", "step", "times", "within")

    def __init__(self, end: int, duration: int, times: EventTimes, step: EventTimes | None) -> None:
        self.end = end
        self.duration = duration
        self.times = times
        self.step = step
        self.within = 0

    def close(self) -> None:
        """Counts the time of this event in which no event within it ran."""
        own = max(0, self.duration - self.within)
        self.times.own += own
        if self.step is not None:
            self.step.own += own
            self.step.total += own


def in_order(
    events: Iterable[tuple[int, int, ProfiledOperation, int, str]], most: int
) -> list[tuple[int, int, ProfiledOperation, int, str]]:
    """Events (begin, duration, operation, occurrences, run) in the order of their beginnings, an event before those
    within it. Raises LimitExceededError for more than `most` events."""
    kept: list[tuple[int, int, ProfiledOperation, int, str]] = []
    for event in events:
        kept.append(event)
        check("events of a line that are not in order", len(kept), most)
    kept.sort(key=lambda event: (event[0], -event[1]))
    return kept
