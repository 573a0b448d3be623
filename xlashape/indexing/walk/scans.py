"""Maps of a scan: a computation that takes one slice of each input after the other, and what it carried over from the slice before.

Operands are the inputs, then the first values of what is carried; results the stacked outputs, then the last values of what is carried. Inputs
and outputs have the scanned dimension, the slices that the computation sees do not. Step t of n takes slice t, of a reversed scan slice n - 1 - t.

An output's slice reads its own step's slices, and through what is carried those of some or all of the steps before: a cumulative sum's map is
`(d0)[s0] -> (s0)` with `d0 - s0` from 0 on. Steps are gone through one by one until their maps repeat; where they do not, every element is named
of what the remaining steps may read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xlashape.errors import InvalidArgumentError, InvalidModuleError, LimitExceededError
from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.operand_indexing import Knowledge, OperandIndexing, OperandIndexingSet
from xlashape.indexing.answers.sources import ReplicaIndexing
from xlashape.indexing.ops.build import dims_of, identity
from xlashape.indexing.ops.registry import leaves
from xlashape.indexing.walk.leaf_dependencies import Dependencies, ends_first, reached_from, reaching
from xlashape.indexing.walk.requests import WAYS_OF_ACCESS, Asking, Request, Steps
from xlashape.indexing.walk.rounds import MAX_INSTRUCTIONS, Compose, Dims, Member, Rounds, Walk, moved_to, start, whole
from xlashape.symbolic import Expr, IndexingMap, Interval, Var, Variable, VariableKind, const, dim, rng
from xlashape.symbolic.expr.substitute import substitute

__all__ = ["Scan"]


class _Lag(NamedTuple):
    """How many steps lie between what is read and what it is read for: from `least` to `most`, every so many."""

    least: int
    most: int
    every: int = 1


class _End(NamedTuple):
    """One end of a map: an array of slices, or one that is carried into the first step or out of the last."""

    sizes: Dims
    """Of a slice, or of what is carried."""
    time: int | None
    """The step it comes after: -1 into the first, n - 1 out of the last. None: a dimension says which slice."""


class Scan:
    """A scan, checked: operands and results fit its computation."""

    def __init__(self, instruction: HloInstruction, known: Dependencies, compose: Compose) -> None:
        self.name = instruction.name
        self.known = known
        self.compose = compose
        self.is_followed = known.instructions <= MAX_INSTRUCTIONS
        proto = instruction.proto
        self.body = instruction.called_computations[0]
        self.is_reverse = proto.is_reverse
        operands = [self._array(operand) for operand in instruction.operands]
        outputs = [dims_of(leaf) for leaf in leaves(instruction.shape)]
        carries = proto.num_carries
        self._require(len(proto.dimensions) == 1, "has not one dimension")
        self._require(0 <= carries <= min(len(operands), len(outputs)), f"has {carries} carries")
        self.axis: int = proto.dimensions[0]
        self.inputs, self.outputs = len(operands) - carries, len(outputs) - carries
        stacked = [*operands[: self.inputs], *outputs[: self.outputs]]
        self._require(bool(stacked) and all(0 <= self.axis < len(dims) for dims in stacked), "has nothing to scan")
        self.count = stacked[0][self.axis]
        self._require(all(dims[self.axis] == self.count for dims in stacked), "scans arrays of unlike many slices")
        self.sources = [self._end(dims, i < self.inputs, -1) for i, dims in enumerate(operands)]
        self.results = [self._end(dims, i < self.outputs, self.count - 1) for i, dims in enumerate(outputs)]
        taken = [self._array(parameter) for parameter in self.body.parameters]
        returned = [dims_of(leaf) for leaf in leaves(self.body.root.shape)]
        self._require(
            taken == [end.sizes for end in self.sources]
            and returned == [end.sizes for end in self.results]
            and operands[self.inputs :] == outputs[self.outputs :],
            "calls a computation that does not fit it",
        )

    def _require(self, condition: bool, message: str) -> None:
        if not condition:
            raise InvalidModuleError(f"instruction {self.name!r} (scan) {message}")

    def _array(self, operand: HloInstruction) -> Dims:
        self._require(not operand.shape.is_tuple, "has a tuple among its operands")
        return dims_of(operand.shape)

    def _end(self, dims: Dims, is_stacked: bool, time: int) -> _End:
        return _End((*dims[: self.axis], *dims[self.axis + 1 :]), None) if is_stacked else _End(dims, time)

    def from_output(self, output: int) -> Steps:
        """One set an operand."""
        if not 0 <= output < len(self.results):
            raise InvalidArgumentError(
                f"{self.name} has no output {output}: it has {len(self.results)}", field="output"
            )
        return _Backwards(self, output).sets()

    def from_operand(self, operand: int) -> Steps:
        """One set for each leaf of the result."""
        return _Forwards(self, operand).sets()


class _Way:
    """From one array of a scan to all those on the other side."""

    is_back: bool

    def __init__(self, scan: Scan, number: int) -> None:
        self.scan = scan
        self.number = number
        near, far = (scan.results, scan.sources) if self.is_back else (scan.sources, scan.results)
        self.source, self.targets = near[number], far
        self.carried_near, self.carried_far = (
            (scan.outputs, scan.inputs) if self.is_back else (scan.inputs, scan.outputs)
        )
        self._reached: int | None = None

    def sets(self) -> Steps:
        """One for each array on the other side."""
        scan = self.scan
        if not scan.count:
            return tuple([self._of_no_step(number) for number in range(len(self.targets))])
        found = Rounds([], None)
        if scan.is_followed:
            sizes = {number: end.sizes for number, end in enumerate(self.targets)}
            walk = Walk(scan.body, self.source.sizes, sizes, self._step, scan.compose, exchanged=scan.known.exchanges)
            try:
                found = yield from walk.rounds(start(self.source.sizes, _HERE), scan.count)
                # Before the first step nothing but the array itself is reached.
                found = Rounds(found.frontiers[1:], found.period)
            except LimitExceededError as error:
                if error.limit != WAYS_OF_ACCESS:
                    raise
                scan.is_followed = False
        return tuple([OperandIndexingSet(self._maps(found, number)) for number in range(len(self.targets))])

    def _step(self, leaf: int) -> Asking[Sequence[OperandIndexing]]:
        """One step on: what is carried enters another step, slices do not."""
        if leaf == _HERE:
            leaf = self.number
        elif leaf < self.carried_far:
            return ()
        else:
            leaf = leaf - self.carried_far + self.carried_near
        request = Request(self.scan.body, -1, leaf) if self.is_back else Request(self.scan.body, leaf, 0)
        answer = yield request
        return [moved_to(one, number) for number, members in enumerate(answer) for one in members]

    def _of_no_step(self, number: int) -> OperandIndexingSet:
        """What is carried into a scan of no slices is its result."""
        if number >= self.carried_far and number - self.carried_far == self.number - self.carried_near:
            return OperandIndexingSet([OperandIndexing(identity(self.source.sizes)[0].map)])
        return OperandIndexingSet()

    def _entering(self, number: int) -> int:
        """1 where a step lies between what is carried in and the first step that reads it."""
        if self.is_back:
            return 1 if number >= self.carried_far else 0
        return 1 if self.number >= self.carried_near else 0

    def _maps(self, reached: Rounds, number: int) -> list[OperandIndexing]:
        target, frontiers, period = self.targets[number], reached.frontiers, reached.period
        count = self.scan.count
        entering = self._entering(number)
        known = len(frontiers) - (period is not None)
        if self.source.time is not None and target.time is not None:
            found = reached.after(count - 1)
            if found is not None:
                return [
                    OperandIndexing(one.map, (), one.replica, every=one.knowledge is Knowledge.EVERY_ELEMENT)
                    for one in found.get(number, ())
                ]
            return self._every_element(number, target, 0)
        lags: dict[Member, list[int]] = {}
        for lag, frontier in enumerate(frontiers if period is None else frontiers[:-1]):
            for member in frontier.get(number, ()):
                lags.setdefault(member, []).append(lag)
        maps: dict[OperandIndexing, None] = {}
        for member, places in lags.items():
            for lag in _runs(places, known - 1, period, count):
                moved = lag._replace(least=lag.least + entering, most=lag.most + entering)
                maps |= dict.fromkeys(self._placed(member, target, moved))
        if period is None and known < count:
            maps |= dict.fromkeys(self._every_element(number, target, known + entering))
        return list(maps)

    def _every_element(self, number: int, target: _End, lag: int) -> list[OperandIndexing]:
        """What steps may read that were not gone through."""
        if not self._depends(number):
            return []
        member = whole(self.source.sizes, target.sizes, 0, exchanged=self.scan.known.exchanges)
        if self.source.time is not None and target.time is not None:
            return [member]
        return list(self._placed(member, target, _Lag(lag, self.scan.count)))

    def _depends(self, number: int) -> bool:
        """Whether any number of steps leads to an array."""
        results, inputs = self.scan.known.leaves, self.scan.inputs
        if self._reached is None:
            # From what a step takes to what the step before took.
            steps = (0,) * inputs + results[self.scan.outputs :]
            self._reached = (
                reached_from(results[self.number], steps)
                if self.is_back
                else reaching(1 << self.number, steps, ends_first(steps))
            )
        return bool(self._reached >> number & 1 if self.is_back else self._reached & results[number])

    # -- from slices to arrays ----------------------------------------------------------------------------------------------------

    def _placed(self, member: Member, target: _End, lag: _Lag) -> Iterator[OperandIndexing]:
        """A map between slices as one between arrays, for steps that lie that far apart; at most one end is what is carried."""
        axis, here = self.scan.axis, self.source.time
        found, replica = member.map, member.replica
        own = self._times_of_source(target, lag)
        if own.lower > own.upper:
            return
        time: Expr = const(here or 0)
        if here is None:
            time = self._time(dim(axis))
            found = _with_dimension(found, axis, self._times(own))
            if replica is not None:
                replica = ReplicaIndexing(
                    _with_dimension(replica.map, axis, self._times(own)), replica.groups, replica.pairs
                )
        ranges, results, constraints = list(found.ranges), list(found.results), list(found.constraints)
        if target.time is not None:
            there: Expr = const(target.time)
        elif lag.least == lag.most:
            there = time - lag.least if self.is_back else time + lag.least
        else:
            there = self._time(rng(len(ranges)))
            bounds = self._clipped(own if here is None else Interval(here, here), lag, forth=not self.is_back)
            if bounds.lower > bounds.upper:
                return
            ranges.append(Var(self._times(bounds)))
        if target.time is None:
            results.insert(axis, self._time(there))
        apart = time - there if self.is_back else there - time
        if lag.least < lag.most:
            farthest = self.scan.count - 1 if here is None and target.time is None else self.scan.count
            constraints.append((apart, Interval(lag.least, min(lag.most, farthest))))
        if lag.every > 1:
            constraints.append(((apart - lag.least) % lag.every, Interval(0, 0)))
        found = IndexingMap(found.dims, ranges, (), results, constraints).simplify().remove_unused_symbols().map
        if not found.is_known_empty:
            yield OperandIndexing(found, (), replica, every=member.knowledge is Knowledge.EVERY_ELEMENT)

    def _times_of_source(self, target: _End, lag: _Lag) -> Interval:
        """The steps that have another one so far before (after) them; of what is carried, whether any step lies so far away."""
        n = self.scan.count
        times = Interval(0, n - 1) if target.time is None else Interval(target.time, target.time)
        if self.source.time is None:
            return self._clipped(times, lag, forth=self.is_back)
        low, high = (lag.least, lag.most) if self.is_back else (-lag.most, -lag.least)
        return Interval(0, 0) if times.lower + low <= self.source.time <= times.upper + high else Interval(1, 0)

    def _clipped(self, times: Interval, lag: _Lag, *, forth: bool) -> Interval:
        """The steps that lie so far after (before) some of these."""
        low, high = (lag.least, lag.most) if forth else (-lag.most, -lag.least)
        return Interval(max(times.lower + low, 0), min(times.upper + high, self.scan.count - 1))

    def _time(self, place: Expr) -> Expr:
        """The step that takes a slice, or the slice that a step takes."""
        return -place + (self.scan.count - 1) if self.scan.is_reverse else place

    def _times(self, bounds: Interval) -> Interval:
        if not self.scan.is_reverse:
            return bounds
        return Interval(self.scan.count - 1 - bounds.upper, self.scan.count - 1 - bounds.lower)


class _Backwards(_Way):
    is_back = True


class _Forwards(_Way):
    is_back = False


_HERE = -1
"""Stands for the array that the way starts from, among the leaves of what steps lead to."""


def _runs(lags: list[int], last: int, period: int | None, count: int) -> Iterator[_Lag]:
    """Ascending lags up to `last` as runs, those within the last `period` with what they go on to, up to `count`."""
    left = set(lags)
    if period is not None:
        for lag in lags:
            if lag > last - period:
                least = lag
                # As far back as it was found in step.
                while least - period in left:
                    least -= period
                left -= set(range(least, lag + 1, period))
                yield _Lag(least, least + (count - least) // period * period, period)
    rest = sorted(left)
    while rest:
        end = 1
        while end < len(rest) and rest[end] == rest[0] + end:
            end += 1
        yield _Lag(rest[0], rest[end - 1])
        del rest[:end]


def _with_dimension(found: IndexingMap, axis: int, bounds: Interval) -> IndexingMap:
    """The same map with one more dimension."""
    if found.is_undefined or found.is_known_empty:
        return found
    shifted: dict[Variable, Expr] = {
        Variable(VariableKind.DIM, i): Variable(VariableKind.DIM, i + 1) for i in range(axis, len(found.dims))
    }
    exprs = substitute((*found.results, *(expr for expr, _ in found.constraints)), shifted)
    count = len(found.results)
    return IndexingMap(
        [*found.dims[:axis], Var(bounds), *found.dims[axis:]],
        found.ranges,
        found.runtime,
        exprs[:count],
        zip(exprs[count:], [interval for _, interval in found.constraints], strict=True),
    )
