"""Maps through a loop in which the number of the iteration is a variable. Hard code: read `iterations` and `counters`
first.

Where every iteration reads or writes at another offset, the maps of one iteration hold for this iteration alone, and
the frontiers of `iterations` never repeat. Here a map leads to an element *and a time*: the element as it is before
iteration number `time`. The time is one more result of the map, an expression in its variables.

- *Start*: the array asked about, at the time n, after all of n iterations.
- *Step*: an array of the state, at a time. What it was computed from depends on how an iteration changes the array:
  - *not at all*: it is the array of the operand.
  - *carried*: among what an iteration reads is the same element of the same array (`sum + row`). Then any iteration t
    before the time contributes what it reads else, at the time t, and the operand's element is read too. t is a new
    range variable.
  - *written*: a dynamic-update-slice puts an update into the array at a known offset (`rows.at[i].set(row)`). An
    element comes from the last iteration t that overwrote it, or if none did from the operand's array.
  - *else*: all comes from the iteration before, t = time - 1, or from the operand where the time is 0.
- *End*: when all that was reached is arrays of the operand.

    for i in 0, 1, … 4: sums[i] = total; total = total + row[i]

    sums   (d0) -> sums[d0] at 5
           is written in iteration s0 = d0: (d0) -> total at d0
           is carried: (d0) -> the operand's total, and (d0)[s0] -> row[s0], d0 - s0 in [1, 4]

The answer is None where this does not end within `MAX_ITEMS` maps, and where what is read depends on more than
counters, if that is not only which elements: then maps name every offset and are marked as conservative.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.indexing.answers.operand_indexing import OperandIndexing, OperandIndexingSet
from xlashape.indexing.ops.rows import identity
from xlashape.indexing.walk.coroutines import FROM_RESULT, ComputationRequest, Coroutine
from xlashape.indexing.walk.repeated.counters import Counters, Piece, Pieces, clamped, overlaps
from xlashape.indexing.walk.repeated.iterations import (
    MAX_NODES,
    SPARE_RANGES,
    Dims,
    ValueNumbers,
    node_count,
    without_determined_ranges,
)
from xlashape.indexing.walk.repeated.repetition import LoopBody
from xlashape.limits import spend
from xlashape.symbolic import Expr, IndexingMap, Interval, Var, Variable, const, dim, rng, rt
from xlashape.symbolic.expr.expression import substitute_in_map

MAX_ITEMS = 64
"""Maps to arrays of the state, at any time, before the walk is given up."""

Constraints: TypeAlias = Sequence[tuple[Expr, Interval]]


# -- what an iteration does to an array -----------------------------------------------------------


class _Step(NamedTuple):
    """A step from an array of the state: a map from its element and a time to another element, and a time."""

    map: IndexingMap
    leaf: int
    is_conservative: bool


class _Change(NamedTuple):
    """How an iteration changes an array of the state."""

    to_operand: Sequence[_Step]
    """Steps to the operand's array; their maps have no time."""
    steps: Sequence[_Step]


class _Write(NamedTuple):
    """A dynamic-update-slice of a loop's array at known offsets: along one dimension at most they change."""

    instruction: HloInstruction
    sizes: Dims
    offsets: tuple[Piece, ...]


@dataclass(eq=False, repr=False)
class TimedWalk:
    """Follows arrays of a loop's state back through `count` iterations of its body. `arrays` are the sizes of these
    arrays, and `is_changed` says which of them the body changes.
    """

    body: HloComputation
    count: int
    arrays: Sequence[Dims]
    is_changed: Sequence[bool]
    counters: Counters
    _values: ValueNumbers

    def __post_init__(self) -> None:
        self.plain = LoopBody(self.counters)
        self._changes: dict[int, _Change | None] = {}

    def from_output(self, output: int) -> Coroutine[OperandIndexingSet | None]:
        """The maps to the operand's arrays; None where they are not found."""
        dims = self.arrays[output]
        start = IndexingMap([Var(Interval(0, n - 1)) for n in dims], results=(*_index(dims), const(self.count)))
        pending = deque([(output, start, False)])
        reached = {(output, start, False)}
        found: dict[OperandIndexing, None] = {}
        while pending:
            leaf, known, is_conservative = pending.popleft()
            change = yield from self._change(leaf)
            if change is None:
                return None
            for step in change.to_operand:
                composed = _tidied(known.compose(step.map))
                if not composed.is_known_empty:
                    marked = is_conservative or step.is_conservative
                    found[OperandIndexing(composed, leaf=step.leaf, is_conservative=marked).simplify()] = None
            for step in change.steps:
                spend(1)
                composed = _tidied(known.compose(step.map))
                if composed.is_known_empty:
                    continue
                marked = is_conservative or step.is_conservative
                target = self.arrays[step.leaf]
                if len(composed.ranges) > len(target) + 1 + SPARE_RANGES or node_count(composed) > MAX_NODES:
                    return None
                item = step.leaf, composed, marked
                if item not in reached:
                    reached.add(item)
                    pending.append(item)
                    if len(reached) > MAX_ITEMS:
                        return None
        return OperandIndexingSet(found)

    def _change(self, leaf: int) -> Coroutine[_Change | None]:
        if leaf not in self._changes:
            self._changes[leaf] = yield from self._found_change(leaf)
        return self._changes[leaf]

    def _found_change(self, leaf: int) -> Coroutine[_Change | None]:
        dims = self.arrays[leaf]
        if not self.is_changed[leaf]:
            return _Change((self._to_operand(leaf, ()),), ())
        write = self._write(leaf)
        repetition = self.plain if write is None else LoopBody(self.counters, write.instruction)
        (reads,) = yield ComputationRequest(self.body, FROM_RESULT, leaf, repetition=repetition)
        if any(access.replica is not None or access.map.is_undefined for access in reads):
            return None
        if write is not None:
            return self._written(leaf, write, reads)
        same = identity(dims)[0].map
        carried = [access for access in reads if access.leaf == leaf and access.map == same and not access.runtime]
        time, steps = dim(len(dims)), list[_Step]()
        for access in reads:
            if carried and access in carried:
                continue
            for step, t, runs in self._timed(access):
                # An array that no iteration changes may be read by the last iteration as well as by any.
                is_any = carried and (self.is_changed[access.leaf] or t in step.map.used_variables() or runs)
                before = Interval(1, self.count if is_any else 1)
                steps.append(self._step(step, access.leaf, t, [*runs, (time - t, before)]))
        marked = any(access.is_conservative for access in carried)
        untouched = [] if carried else [(time, Interval(0, 0))]
        steps = [step._replace(is_conservative=step.is_conservative or marked) for step in steps]
        return _Change((self._to_operand(leaf, untouched)._replace(is_conservative=marked),), steps)

    def _to_operand(self, leaf: int, constraints: Constraints) -> _Step:
        dims = self.arrays[leaf]
        return _Step(IndexingMap(self._dims(dims), results=_index(dims), constraints=constraints), leaf, False)

    def _dims(self, dims: Dims) -> list[Var]:
        """The dimensions of a step: those of the array, and the time."""
        return [*[Var(Interval(0, n - 1)) for n in dims], Var(Interval(0, self.count))]

    def _step(self, access: OperandIndexing, leaf: int, t: Expr, constraints: Constraints) -> _Step:
        own = access.map
        dims = [*own.dims, Var(Interval(0, self.count))]
        whole = IndexingMap(dims, own.ranges, (), (*own.results, t), (*own.constraints, *constraints))
        return _Step(whole, leaf, access.is_conservative)

    def _timed(self, access: OperandIndexing) -> list[tuple[OperandIndexing, Expr, Constraints]]:
        """The access in runs of iterations in which all of its offsets are linear: with a range variable, the number of
        the iteration, in place of the runtime variables. An offset that is not known is one more range variable.
        """
        old = access.map
        known: list[Pieces] = []
        unknown: dict[Variable, Expr] = {}
        numbered: list[Variable] = []
        unclamped: list[tuple[Expr, Interval]] = []
        ranges = [*old.ranges, Var(Interval(0, self.count - 1))]
        for k, (producer, var) in enumerate(zip(access.runtime, old.runtime, strict=True)):
            value = None if producer.is_position else self._offset(producer.instruction, producer.leaf)
            if value is not None and producer.is_clamped:
                value = clamped(value, var.bounds.lower, var.bounds.upper)
            if value is None:
                unknown[rt(k)] = rng(len(ranges))
                ranges.append(Var(var.bounds))
                continue
            known.append(value)
            numbered.append(rt(k))
            if not producer.is_clamped:
                unclamped.append((rt(k), var.bounds))
        t = rng(len(old.ranges))
        results: list[tuple[OperandIndexing, Expr, Constraints]] = []
        for first, last, pieces in overlaps((Piece(0, self.count - 1, 0, 0),), *known):
            replaced: dict[Variable, Expr] = dict(unknown)
            for variable, piece in zip(numbered, pieces[1:], strict=True):
                replaced[variable] = t * piece.slope + piece.base
            changed, constraints = substitute_in_map(old.results, (*old.constraints, *unclamped), replaced)
            without = IndexingMap(old.dims, ranges, (), changed, constraints)
            marked = access.is_conservative or bool(unknown)
            bounds = [] if (first, last) == (0, self.count - 1) else [(t, Interval(first, last))]
            results.append((access.replace(map=without, runtime=(), is_conservative=marked), t, bounds))
        return results

    def _offset(self, instruction: HloInstruction, leaf: int) -> Pieces | None:
        return self.counters.of(instruction, leaf) if self._values.runs_once(instruction.computation) else None

    # -- arrays that are written into ---------------------------------------------------------------

    def _write(self, leaf: int) -> _Write | None:
        """The dynamic-update-slice that puts an update into this array in every iteration."""
        instruction, number = self._values.origin(self.body.root, leaf)
        while instruction.opcode in (Opcode.FUSION, Opcode.CALL):
            instruction, number = self._values.origin(instruction.called_computations[0].root, number)
        if instruction.opcode != Opcode.DYNAMIC_UPDATE_SLICE or not self._values.runs_once(instruction.computation):
            return None
        if self._values.origin(instruction.operands[0], 0) != (self.body.parameters[0], leaf):
            return None
        sizes, dims = instruction.operands[1].shape.dimensions, self.arrays[leaf]
        if len(instruction.operands) != 2 + len(dims):
            return None
        offsets: list[Piece] = []
        for operand, size, n in zip(instruction.operands[2:], sizes, dims, strict=True):
            value = self._offset(operand, 0)
            value = None if value is None else clamped(value, 0, n - size)
            if value is None or len(value) != 1:
                return None
            offsets.append(value[0])
        is_one = sum(bool(offset.slope) for offset in offsets) <= 1
        return _Write(instruction, sizes, tuple(offsets)) if is_one else None

    def _written(self, leaf: int, write: _Write, reads: OperandIndexingSet) -> _Change:
        dims = self.arrays[leaf]
        time = dim(len(dims))
        moving = next((d for d, offset in enumerate(write.offsets) if offset.slope), None)
        to_operand = [self._to_operand(leaf, [(time, Interval(0, 0))])]
        for d, (offset, size) in enumerate(zip(write.offsets, write.sizes, strict=True)):
            for outside in self._outside(dims[d], dim(d), offset, size, time):
                to_operand.append(self._to_operand(leaf, [(time, Interval(1, self.count)), *outside]))
        steps: list[_Step] = []
        for access in reads:
            for step, t, runs in self._timed(access):
                inside: Constraints = [
                    (dim(d) - t * offset.slope - offset.base, Interval(0, size - 1))
                    for d, (offset, size) in enumerate(zip(write.offsets, write.sizes, strict=True))
                ]
                # Whether a later iteration overwrites the element again.
                lasts: list[Constraints] = [[(time - t, Interval(1, self.count))]]
                if moving is None:
                    lasts = [[(time - t, Interval(1, 1))]]
                elif abs(write.offsets[moving].slope) < write.sizes[moving]:
                    slope, base = write.offsets[moving][2:]
                    place = dim(moving) - (t + 1) * slope - base
                    size, n = write.sizes[moving], dims[moving]
                    beyond = Interval(-n, -1) if slope > 0 else Interval(size, 2 * n)
                    lasts = [[(time - t, Interval(1, 1))], [(time - t, Interval(2, self.count)), (place, beyond)]]
                steps += [self._step(step, access.leaf, t, [*runs, *inside, *last]) for last in lasts]
        return _Change(to_operand, steps)

    def _outside(self, n: int, at: Expr, offset: Piece, size: int, time: Expr) -> list[Constraints]:
        """The ways in which an index along a dimension lies outside of all that iterations before a time overwrite."""
        low: Expr = const(offset.base)  # where the lowest update begins
        high = low + size  # where the highest update ends
        if offset.slope > 0:
            high = high + (time - 1) * offset.slope
        else:
            low = low + (time - 1) * offset.slope
        ways: list[Constraints] = [[(at - low, Interval(-n, -1))], [(at - high, Interval(0, n))]]
        gap = abs(offset.slope)
        if gap > size:
            between = (at - offset.base) % gap, Interval(size, gap - 1)
            ways.append([between, (at - low, Interval(0, n)), (at - high, Interval(-2 * n, -1))])
        return ways


def _index(dims: Dims) -> tuple[Expr, ...]:
    return tuple([dim(d) for d in range(len(dims))])


def _tidied(composed: IndexingMap) -> IndexingMap:
    return without_determined_ranges(composed, 0).simplify().remove_unused_symbols().map
