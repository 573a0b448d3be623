"""The maps of a scan: a computation that takes one slice of each input after the other, and what it carried over from
the slice before.

Hard code: read `iterations` first, which holds the algorithm.

Operands are the inputs, then the initial values of the carries; results are the stacked outputs, then the final values
of the carries. Inputs and outputs have the scanned dimension, the slices that the body sees do not. Step t of n takes
slice t, of a reversed scan slice n - 1 - t.

Plain words:

- *State*: the carries. From a slice of an output, the walk goes back through the body: to slices of the inputs in the
  same step, and through the carries to slices in earlier steps. (From a slice of an input it goes forwards.)
- *Frontier k* holds the maps between slices that lie k steps apart: that number is the **lag**.
- *End*: as in `iterations`, after n steps or when the frontiers repeat. A map that appears in frontiers 2, 3, 4, … has
  the lags "2 to n".
- *Placing*: a map between slices with a run of lags becomes a map between whole arrays. It gets the scanned dimension
  on both sides, and a constraint that the two steps lie that far apart. Where there are several lags, the step on the
  far side is a range variable.

    a cumulative sum of 4 elements: carry and output are carry + slice

    frontier 0: the output's slice reads the input's slice by () -> ()
    frontier 1: through the carry, the input's slice one step before, by () -> (): the frontiers repeat with period 1
    placed:     (d0)[s0] -> (s0), domain: d0 in [0, 3], s0 in [0, 3], d0 - s0 in [0, 3]

The walk gives up in the same cases as in `iterations`. For the lags whose frontiers are not known, the maps name every
element of each array that the array asked about depends on (forwards: that depends on it), and are marked as
conservative.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xlashape.errors import InvalidModuleError, LimitExceededError
from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.leaves import dims_of, leaf_sizes
from xlashape.indexing.answers.operand_indexing import OperandIndexing, OperandIndexingSet, ReplicaIndexing, set_of
from xlashape.indexing.ops.rows import identity
from xlashape.indexing.walk.coroutines import ACCESSES, FROM_RESULT, ComputationRequest, Coroutine, MapsCoroutine
from xlashape.indexing.walk.dependencies import Dependencies, reachable_from, reaching, successors_first
from xlashape.indexing.walk.instruction_answers import check_output
from xlashape.indexing.walk.repeated import iterations
from xlashape.indexing.walk.repeated.iterations import Compose, Dims, Frontiers, StateWalk
from xlashape.indexing.walk.repeated.repetition import LoopBody
from xlashape.symbolic import Expr, IndexingMap, Interval, Var, Variable, VariableKind, const, dim, rng
from xlashape.symbolic.expr.expression import substitute_in_map


class _Lags(NamedTuple):
    """Numbers of steps that lie between a slice that is read and the slice that is computed from it: `least`, `least` +
    `stride`, … up to `most`.
    """

    least: int
    most: int
    stride: int = 1


class _Array(NamedTuple):
    """An operand or result of a scan, at one end of a map."""

    sizes: Dims
    """The sizes of a slice, or of a carry."""
    step: int | None
    """The step after which a carry has its value: -1 for an initial value, n - 1 for a final one. None for a stacked
    array of slices.
    """


class Scan:
    """A scan. `known` are the dependencies of its body. The constructor raises InvalidModuleError unless operands and
    results fit the body.
    """

    def __init__(self, instruction: HloInstruction, known: Dependencies, compose: Compose) -> None:
        self.instruction = instruction
        self.known = known
        self.compose = compose
        self.is_followed = known.contents.instructions <= iterations.MAX_INSTRUCTIONS
        """Whether the maps of the body are followed, instead of the dependencies between arrays alone."""
        proto = instruction.details
        self.body = instruction.called_computations[0]
        self.is_reverse = proto.is_reverse
        operands = [self._sizes(operand) for operand in instruction.operands]
        outputs = leaf_sizes(instruction.shape)
        carries = proto.num_carries
        self._require(len(proto.dimensions) == 1, f"needs exactly one dimension, not {len(proto.dimensions)}")
        self._require(0 <= carries <= min(len(operands), len(outputs)), f"has {carries} carries")
        self.axis: int = proto.dimensions[0]
        self.input_count, self.output_count = len(operands) - carries, len(outputs) - carries
        stacked = [*operands[: self.input_count], *outputs[: self.output_count]]
        self._require(bool(stacked) and all(0 <= self.axis < len(dims) for dims in stacked), "has nothing to scan")
        self.count = stacked[0][self.axis]
        """The number of steps."""
        self._require(
            all(dims[self.axis] == self.count for dims in stacked),
            "has scanned arrays that differ in length along the scanned dimension",
        )
        self.operands = [self._scan_array(dims, i < self.input_count, -1) for i, dims in enumerate(operands)]
        self.results = [self._scan_array(dims, i < self.output_count, self.count - 1) for i, dims in enumerate(outputs)]
        taken = [self._sizes(parameter) for parameter in self.body.parameters]
        returned = leaf_sizes(self.body.root.shape)
        self._require(
            taken == [array.sizes for array in self.operands]
            and returned == [array.sizes for array in self.results]
            and operands[self.input_count :] == outputs[self.output_count :],
            "calls a computation that does not fit it",
        )

    def _require(self, condition: bool, message: str) -> None:
        if not condition:
            raise InvalidModuleError(f"instruction {self.instruction.name!r} (scan) {message}")

    def _sizes(self, operand: HloInstruction) -> Dims:
        self._require(not operand.shape.is_tuple, "has a tuple among its operands")
        return dims_of(operand.shape)

    def _scan_array(self, dims: Dims, is_stacked: bool, step: int) -> _Array:
        if is_stacked:
            return _Array((*dims[: self.axis], *dims[self.axis + 1 :]), None)
        return _Array(dims, step)

    def from_output(self, output: int) -> MapsCoroutine:
        """For each operand, the set of maps to it from leaf `output` of the result."""
        check_output(self.instruction, output, len(self.results))
        return _ScanWalk(self, output, is_back=True).sets()

    def from_operand(self, operand: int) -> MapsCoroutine:
        """For each leaf of the result, the set of maps to it from operand `operand`."""
        return _ScanWalk(self, operand, is_back=False).sets()


class _ScanWalk:
    """The maps from one array of a scan, the source, to all arrays of the other side, the targets.

    Back: the source is a result, targets are operands. Forward: the other way round.
    """

    def __init__(self, scan: Scan, number: int, *, is_back: bool) -> None:
        self.scan = scan
        self.is_back = is_back
        self.number = number
        """The number of the source."""
        sources, self.targets = (scan.results, scan.operands) if self.is_back else (scan.operands, scan.results)
        self.source = sources[number]
        counts = (scan.output_count, scan.input_count)
        # Carries come after the stacked arrays, on both sides.
        self.first_source_carry, self.first_target_carry = counts if self.is_back else counts[::-1]
        self._mattering: int | None = None

    def sets(self) -> MapsCoroutine:
        """For each target, the set of maps to it from the source."""
        scan = self.scan
        if not scan.count:
            return tuple([self._without_steps(number) for number in range(len(self.targets))])
        followed = Frontiers([], None)
        if scan.is_followed:
            sizes = {number: array.sizes for number, array in enumerate(self.targets)}
            exchanges = scan.known.contents.exchanges
            walk = StateWalk(scan.body, self.source.sizes, sizes, self._step_maps, scan.compose, exchanges=exchanges)
            try:
                followed = yield from walk.frontiers(iterations.start_at(self.source.sizes, _SOURCE), scan.count)
                # The first frontier holds the source alone; lag 0 is what the first step of the walk reaches.
                followed = Frontiers(followed.listed[1:], followed.period)
            except LimitExceededError as error:
                if error.limit != ACCESSES:
                    raise
                scan.is_followed = False
        return tuple([OperandIndexingSet(self._accesses(followed, number)) for number in range(len(self.targets))])

    def _step_maps(self, leaf: int) -> Coroutine[Sequence[OperandIndexing]]:
        """The maps of the body from the source, or from a carry that the walk has reached. From a slice that it has
        reached, the walk does not go on.
        """
        if leaf == _SOURCE:
            leaf = self.number
        elif leaf < self.first_target_carry:
            return ()
        else:
            leaf = leaf - self.first_target_carry + self.first_source_carry
        body = self.scan.body
        answer = yield (
            ComputationRequest(body, FROM_RESULT, leaf, repetition=_BODY)
            if self.is_back
            else ComputationRequest(body, leaf, 0, repetition=_BODY)
        )
        return [access.with_leaf(number) for number, accesses in enumerate(answer) for access in accesses]

    def _without_steps(self, number: int) -> OperandIndexingSet:
        """The answer for a scan without slices: a carry ends with its initial value, and nothing else is accessed."""
        if (
            number >= self.first_target_carry
            and number - self.first_target_carry == self.number - self.first_source_carry
        ):
            return set_of(identity(self.source.sizes)[0].map)
        return OperandIndexingSet()

    def _extra_lag(self, number: int) -> int:
        """What is added to the lags of maps between the source and target `number`: 1 if one of the two is the initial
        value of a carry, whose step is -1 although step 0 of the scan reads it; else 0.
        """
        if self.is_back:
            return 1 if number >= self.first_target_carry else 0
        return 1 if self.number >= self.first_source_carry else 0

    def _accesses(self, followed: Frontiers, number: int) -> list[OperandIndexing]:
        """The accesses of one target."""
        target, frontiers, period = self.targets[number], followed.listed, followed.period
        count = self.scan.count
        if self.source.step is not None and target.step is not None:
            # From a final value to an initial value, or back: all steps lie between them.
            last = followed.after(count - 1)
            if last is not None:
                return [access.with_leaf(0) for access in last.get(number, ())]
            return self._every_element(number, target, 0)
        extra_lag = self._extra_lag(number)
        known = len(frontiers) - (period is not None)
        lags_of: dict[OperandIndexing, list[int]] = {}
        for lag, frontier in enumerate(frontiers if period is None else frontiers[:-1]):
            for access in frontier.get(number, ()):
                lags_of.setdefault(access, []).append(lag)
        placed: dict[OperandIndexing, None] = {}
        for access, listed in lags_of.items():
            for lags in _runs(listed, known - 1, period, count):
                moved = lags._replace(least=lags.least + extra_lag, most=lags.most + extra_lag)
                placed |= dict.fromkeys(self._placed(access, target, moved))
        if period is None and known < count:
            placed |= dict.fromkeys(self._every_element(number, target, known + extra_lag))
        return list(placed)

    def _every_element(self, number: int, target: _Array, least_lag: int) -> list[OperandIndexing]:
        """The accesses of steps that were not followed, from a lag on: every element."""
        if not self._depends_on(number):
            return []
        access = iterations.every_element(
            self.source.sizes, target.sizes, 0, exchanges=self.scan.known.contents.exchanges
        )
        if self.source.step is not None and target.step is not None:
            return [access]
        return list(self._placed(access, target, _Lags(least_lag, self.scan.count)))

    def _depends_on(self, number: int) -> bool:
        """Whether any number of steps leads from the source to target `number`."""
        results, inputs = self.scan.known.leaves, self.scan.input_count
        if self._mattering is None:
            # edges[i]: the operands of one step that operand i of the next step depends on.
            edges = (0,) * inputs + results[self.scan.output_count :]
            self._mattering = (
                reachable_from(results[self.number], edges)
                if self.is_back
                else reaching(1 << self.number, edges, successors_first(edges))
            )
        return bool(self._mattering >> number & 1 if self.is_back else self._mattering & results[number])

    # -- from slices to arrays ------------------------------------------------------------------

    def _placed(self, access: OperandIndexing, target: _Array, lags: _Lags) -> Iterator[OperandIndexing]:
        """A map between slices as a map between arrays, for steps at these lags. At most one end is a carry."""
        axis, source_step = self.scan.axis, self.source.step
        slice_map, replica = access.map, access.replica
        source_steps = self._steps_of_source(target, lags)
        if source_steps.lower > source_steps.upper:
            return
        step: Expr = const(source_step or 0)
        if source_step is None:
            step = self._step_or_index(dim(axis))
            slice_map = _with_dimension(slice_map, axis, self._indices(source_steps))
            if replica is not None:
                replica_map = _with_dimension(replica.map, axis, self._indices(source_steps))
                replica = ReplicaIndexing(replica_map, replica.groups, replica.pairs)
        ranges, results, constraints = list(slice_map.ranges), list(slice_map.results), list(slice_map.constraints)
        if target.step is not None:
            target_step: Expr = const(target.step)
        elif lags.least == lags.most:
            target_step = step - lags.least if self.is_back else step + lags.least
        else:
            target_step = self._step_or_index(rng(len(ranges)))
            near = source_steps if source_step is None else Interval(source_step, source_step)
            target_steps = self._shifted(near, lags, later=not self.is_back)
            if target_steps.lower > target_steps.upper:
                return
            ranges.append(Var(self._indices(target_steps)))
        if target.step is None:
            results.insert(axis, self._step_or_index(target_step))
        distance = step - target_step if self.is_back else target_step - step
        if lags.least < lags.most:
            farthest = self.scan.count - 1 if source_step is None and target.step is None else self.scan.count
            constraints.append((distance, Interval(lags.least, min(lags.most, farthest))))
        if lags.stride > 1:
            constraints.append(((distance - lags.least) % lags.stride, Interval(0, 0)))
        placed = IndexingMap(slice_map.dims, ranges, (), results, constraints).simplify().remove_unused_symbols().map
        if not placed.is_known_empty:
            yield OperandIndexing(placed, (), replica, 0, access.is_conservative)

    def _steps_of_source(self, target: _Array, lags: _Lags) -> Interval:
        """The steps of the source's slices that have a step of the target at one of the lags before (forward: after)
        them.

        Of a source that is a carry: [0, 0] if any step of the target lies at one of the lags, else an empty interval.
        """
        last = self.scan.count - 1
        target_steps = Interval(0, last) if target.step is None else Interval(target.step, target.step)
        if self.source.step is None:
            return self._shifted(target_steps, lags, later=self.is_back)
        low, high = (lags.least, lags.most) if self.is_back else (-lags.most, -lags.least)
        is_near = target_steps.lower + low <= self.source.step <= target_steps.upper + high
        return Interval(0, 0) if is_near else Interval(1, 0)

    def _shifted(self, steps: Interval, lags: _Lags, *, later: bool) -> Interval:
        """The steps of the scan that lie at one of the lags after (unless `later`: before) some step of `steps`."""
        low, high = (lags.least, lags.most) if later else (-lags.most, -lags.least)
        return Interval(max(steps.lower + low, 0), min(steps.upper + high, self.scan.count - 1))

    def _step_or_index(self, value: Expr) -> Expr:
        """The step that takes the slice of an index along the scanned dimension; or the index of the slice that a step
        takes.
        """
        return -value + (self.scan.count - 1) if self.scan.is_reverse else value

    def _indices(self, steps: Interval) -> Interval:
        """The indices along the scanned dimension of the slices that these steps take."""
        if not self.scan.is_reverse:
            return steps
        return Interval(self.scan.count - 1 - steps.upper, self.scan.count - 1 - steps.lower)


_BODY = LoopBody(None)

_SOURCE = -1
"""The leaf, in the first frontier, of the array that the walk starts from. Other leaves are numbers of targets."""


def _runs(lags: list[int], last: int, period: int | None, count: int) -> Iterator[_Lags]:
    """Ascending lags as runs. `last` is the last lag that was followed. Lags among the last `period` repeat with that
    stride, up to `count`.

    >>> list(_runs([0, 1, 2, 5], last=5, period=None, count=100))
    [_Lags(least=0, most=2, stride=1), _Lags(least=5, most=5, stride=1)]
    >>> list(_runs([1, 3, 5], last=6, period=2, count=100))
    [_Lags(least=1, most=99, stride=2)]
    """
    left = set(lags)
    if period is not None:
        for lag in lags:
            if lag > last - period:
                least = lag
                # The run begins as far back as the lags have this period.
                while least - period in left:
                    least -= period
                left -= set(range(least, lag + 1, period))
                yield _Lags(least, least + (count - least) // period * period, period)
    rest = sorted(left)
    while rest:
        end = 1
        while end < len(rest) and rest[end] == rest[0] + end:
            end += 1
        yield _Lags(rest[0], rest[end - 1])
        del rest[:end]


def _with_dimension(indexing_map: IndexingMap, axis: int, bounds: Interval) -> IndexingMap:
    """The same map with one more dimension, `axis`, that nothing depends on.

    >>> _with_dimension(IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 9]"), 0, Interval(0, 3))
    (d0, d1) -> (d1), domain: d0 in [0, 3], d1 in [0, 9]
    """
    if indexing_map.is_undefined or indexing_map.is_known_empty:
        return indexing_map
    shifted: dict[Variable, Expr] = {
        Variable(VariableKind.DIM, i): Variable(VariableKind.DIM, i + 1) for i in range(axis, len(indexing_map.dims))
    }
    dims = [*indexing_map.dims[:axis], Var(bounds), *indexing_map.dims[axis:]]
    results, constraints = substitute_in_map(indexing_map.results, indexing_map.constraints, shifted)
    return IndexingMap(dims, indexing_map.ranges, indexing_map.runtime, results, constraints)
