"""What the state of a loop depends on in the state one iteration before, two iterations before, and so on. While loops
and scans share this algorithm. In plain words:

- *State*: the leaves (arrays) of the tuple that the body takes and returns. A `Frontier` holds, for each leaf of the
  state, the set of maps that lead there from the array asked about.
- *Start*: the frontier after 0 iterations holds the identity at the leaf asked about.
- *Step*: one iteration. Every map of the frontier is composed with every map of the body from the leaf that it has
  reached to the leaves of the state one iteration before (for maps from inputs to outputs: one iteration after). The
  results are the next frontier. An offset within the body has another value in each iteration, so its runtime variable
  becomes a range variable with the same bounds. Variables that have the same value within one iteration become the same
  range variable. `ValueNumbers` finds these: it gives equal values equal numbers. A value's number follows from the
  instruction that computes it, found through tuples, copies, fusions and calls. Scalar arithmetic is compared by
  opcode, attributes and the numbers of operands, so that `i + 1` computed twice has one number.
- *End*, of `StateWalk.frontiers` (for a known number of iterations): after that number of iterations, or when a
  frontier equals an earlier one. Frontiers then repeat, so the frontier after any number of iterations is known.
- *End*, of `StateWalk.closure` (for an unknown number): when no step adds a map to the union of all frontiers.

    body: (i, x) -> (i + 1, reverse(x))       x has 8 elements

    after 0 iterations: x reads x by (d0) -> (d0)
    after 1 iteration:  x reads x by (d0) -> (-d0 + 7)
    after 2 iterations: x reads x by (d0) -> (d0)           the frontier after 0 iterations again: a period of 2

What is given up, because maps may multiply or grow without end (`x = concatenate(x[1:], y)` shifts by one more in each
iteration):

- `frontiers` ends with an unknown period after `MAX_ITERATIONS`, or when a leaf has more than `MAX_ACCESSES` maps. The
  caller then falls back to `closure` or to "every element".
- `closure` replaces the maps of a leaf that has `MAX_ACCESSES` of them by "every element", marked as conservative.
- A single map with more than `SPARE_RANGES` extra range variables or more than `MAX_NODES` nodes becomes "every
  element" too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.hlo.ops.operation import ReadPattern
from xlashape.hlo.ops.registry import operation_of
from xlashape.indexing.answers.operand_indexing import Knowledge, OperandIndexing, ReplicaIndexing, RuntimeVariable
from xlashape.indexing.ops.rows import everything, identity
from xlashape.indexing.walk.coroutines import Coroutine
from xlashape.indexing.walk.dependencies import origin
from xlashape.limits import spend
from xlashape.symbolic import Expr, IndexingMap, Interval, Var, Variable, const, rng, rt
from xlashape.symbolic.expr.expression import substitute_in_map, sum_terms, variables_of

MAX_DEPTH = 16
"""How many levels of operands of operands are compared. A value at a deeper level counts as equal to itself alone."""


def _is_compared(instruction: HloInstruction) -> bool:
    """Whether equal operands mean equal values: constants, and elementwise operations, which have no attributes except
    those of a comparison."""
    row = operation_of(instruction.opcode)
    return (row.reads is ReadPattern.SAME and not row.attributes) or row.opcode in (Opcode.COMPARE, Opcode.CONSTANT)


class ValueNumbers:
    """The numbers of the values that one iteration of a body computes."""

    def __init__(self, body: HloComputation) -> None:
        self._body = body
        # Caches of one walk through one body.
        self._numbers: dict[object, int] = {}
        self._known: dict[tuple[HloInstruction, int], int] = {}
        self._callers: dict[HloComputation, HloInstruction | None] | None = None

    def of(self, producer: RuntimeVariable) -> object:
        """A key of the value of the element that the producer's map leads to: within one iteration, equal keys mean
        equal values.
        """
        if producer.is_position:
            return id(producer.instruction)
        if not self.runs_once(producer.instruction.computation):
            # In a computation that is called twice, one instruction computes two values.
            return object()
        number = self._number(producer.instruction, producer.leaf, 0)
        return number, producer.map, producer.is_clamped, producer.bounds

    def _number(self, instruction: HloInstruction, leaf: int, depth: int) -> int:
        value = self.origin(instruction, leaf)
        number = self._known.get(value)
        if number is None:
            computed_by, computed_leaf = value
            key: object = (id(computed_by), computed_leaf)
            proto = computed_by.details
            # A constant array may be large, so it is not compared: it counts as equal to itself alone.
            is_array_constant = proto.opcode == Opcode.CONSTANT and bool(computed_by.shape.dimensions)
            if _is_compared(computed_by) and not is_array_constant and depth < MAX_DEPTH:
                is_constant = proto.opcode == Opcode.CONSTANT
                literal = proto.literal.SerializeToString(deterministic=True) if is_constant else b""
                operands = tuple([self._number(operand, 0, depth + 1) for operand in computed_by.operands])
                attributes = (proto.comparison_direction, proto.comparison_type, proto.comparison_order, literal)
                key = (proto.opcode, computed_by.shape, attributes, operands)
            number = self._known[value] = self._numbers.setdefault(key, len(self._numbers))
        return number

    def origin(self, instruction: HloInstruction, leaf: int) -> tuple[HloInstruction, int]:
        """Where a value is computed, seen from within the fusions and calls that it is handed to."""
        computed_by, leaf = origin(instruction, leaf)
        while computed_by.opcode == Opcode.PARAMETER and computed_by.computation is not self._body:
            caller = self._caller(computed_by.computation)
            if caller is None or not 0 <= computed_by.parameter_number < len(caller.operands):
                break
            computed_by, leaf = origin(caller.operands[computed_by.parameter_number], leaf)
        return computed_by, leaf

    def runs_once(self, computation: HloComputation) -> bool:
        """Whether an iteration runs the computation once: it is the body, or only one instruction calls it, in a
        computation that runs once.
        """
        while computation is not self._body:
            caller = self._caller(computation)
            if caller is None:
                return False
            computation = caller.computation
        return True

    def _caller(self, computation: HloComputation) -> HloInstruction | None:
        """The one fusion or call that calls the computation; None where several instructions, or another operation,
        call it.
        """
        if self._callers is None:
            self._callers = {}
            seen, pending = {self._body}, [self._body]
            while pending:
                for instruction in pending.pop().instructions:
                    is_plain_call = instruction.opcode in (Opcode.FUSION, Opcode.CALL)
                    for called in instruction.called_computations:
                        is_only = called not in self._callers and is_plain_call
                        self._callers[called] = instruction if is_only else None
                        if called not in seen:
                            seen.add(called)
                            pending.append(called)
        return self._callers.get(computation)


# -- iterations --------------------------------------------------------------------------------


MAX_INSTRUCTIONS = 1 << 8
"""The most instructions of a body and the computations that it calls, for maps to be followed through it. Of a larger
body only the dependencies between arrays are used.
"""

MAX_ACCESSES = 32
"""Different maps to one leaf of the state, before they are given up for "every element"."""
MAX_ITERATIONS = 32
"""Iterations that are followed one by one."""
SPARE_RANGES = 2
"""Range variables of a map beyond one for each dimension of what it leads to, before it is given up for "every
element".
"""
MAX_NODES = 1 << 8
"""Nodes of a map's expressions, before it is given up for "every element": divisions may double them in every
iteration.
"""

Dims: TypeAlias = tuple[int, ...]
Frontier: TypeAlias = dict[int, dict[OperandIndexing, None]]
"""For each leaf of the state, the maps that lead there after some number of iterations, each once. The maps have no
runtime variables, and their `leaf` is the number of that leaf.
"""
Compose: TypeAlias = Callable[[OperandIndexing, OperandIndexing], OperandIndexing]
StepMaps: TypeAlias = Callable[[int], Coroutine[Sequence[OperandIndexing]]]
"""The maps of one iteration from a leaf of the state; the `leaf` of each map says where it leads."""


class Frontiers(NamedTuple):
    """The frontiers after 0, 1, … iterations."""

    listed: list[Frontier]
    period: int | None
    """The last frontier equals the one this many before it, and all later ones repeat. None: nothing is known beyond
    the last one.
    """

    def after(self, count: int) -> Frontier | None:
        """The frontier after so many iterations; None where it is not known.

        >>> frontiers = Frontiers([{0: {}}, {1: {}}, {2: {}}, {1: {}}], period=2)
        >>> frontiers.after(0), frontiers.after(7), frontiers.after(8)
        ({0: {}}, {1: {}}, {2: {}})
        """
        last = len(self.listed) - 1
        if count <= last:
            return self.listed[count]
        if self.period is None:
            return None
        first = last - self.period
        return self.listed[first + (count - first) % self.period]


def start_at(dims: Dims, leaf: int) -> Frontier:
    """The frontier after 0 iterations, of a walk that starts at a leaf of the sizes `dims`."""
    return {leaf: {OperandIndexing(identity(dims)[0].map, leaf=leaf): None}}


def every_element(dims: Dims, target: Dims, leaf: int, *, exchanges: bool = False) -> OperandIndexing:
    """The conservative access to every element of a leaf of the sizes `target`. `exchanges`: on a replica that is not
    known.
    """
    replica = ReplicaIndexing(IndexingMap.undefined()) if exchanges else None
    return OperandIndexing(everything(dims, target).map, (), replica, leaf, is_conservative=True)


@dataclass(eq=False, repr=False)
class StateWalk:
    """Follows an array through the iterations of a body.

    `dims` are the sizes of the array, `sizes` those of the leaves of the state that steps lead to. `step_maps` gives
    the maps of one iteration, `compose` the composition of two maps. `exchanges`: some step reads what other replicas
    hold.
    """

    body: HloComputation
    dims: Dims
    sizes: Mapping[int, Dims]
    step_maps: StepMaps
    compose: Compose
    exchanges: bool

    def __post_init__(self) -> None:
        self._identity = identity(self.dims)[0].map
        self._values = ValueNumbers(self.body)

    def frontiers(self, first: Frontier, count: int) -> Coroutine[Frontiers]:
        """The frontiers after 0, 1, … iterations, up to `count` iterations, to the first that equals an earlier one, or
        as far as they are followed.
        """
        listed = [first]
        indices = {_members(first): 0}
        while len(listed) <= min(count, MAX_ITERATIONS):
            following: Frontier = {}
            for leaf, accesses in listed[-1].items():
                for second in (yield from self.step_maps(leaf)):
                    reached = following.setdefault(second.leaf, {})
                    for access in accesses:
                        composed = self.through_step(access, second)
                        if not composed.map.is_known_empty:
                            reached[composed] = None
                    if len(reached) > MAX_ACCESSES:
                        return Frontiers(listed, None)
            following = {leaf: accesses for leaf, accesses in following.items() if accesses}
            listed.append(following)
            members = _members(following)
            if members in indices:
                return Frontiers(listed, len(listed) - 1 - indices[members])
            indices[members] = len(listed) - 1
        return Frontiers(listed, None)

    def closure(self, first: Frontier) -> Coroutine[Frontier]:
        """The union of the frontiers after any number of iterations. A leaf that too many maps lead to is reached in
        every element.
        """
        union: Frontier = {leaf: dict(accesses) for leaf, accesses in first.items()}
        pending = deque([access for accesses in first.values() for access in accesses])
        given_up: set[int] = set()
        # Leaves of which some map names every element on the executing replica. Other maps of such a leaf without a
        # replica add nothing.
        covered: set[int] = set()
        while pending:
            access = pending.popleft()
            if access not in union[access.leaf]:
                continue
            for second in (yield from self.step_maps(access.leaf)):
                if second.leaf in given_up:
                    continue
                composed = self.through_step(access, second)
                reached = union.setdefault(second.leaf, {})
                if composed in reached or composed.map.is_known_empty:
                    continue
                if composed.replica is None and second.leaf in covered:
                    continue
                full = everything(self.dims, self.sizes[second.leaf]).map
                if len(reached) >= MAX_ACCESSES:
                    given_up.add(second.leaf)
                    composed = every_element(self.dims, self.sizes[second.leaf], second.leaf, exchanges=self.exchanges)
                    reached.clear()
                elif composed.replica is None and composed.map == full:
                    covered.add(second.leaf)
                    for narrower in [other for other in reached if other.replica is None]:
                        del reached[narrower]
                reached[composed] = None
                pending.append(composed)
        return {leaf: accesses for leaf, accesses in union.items() if accesses}

    def through_step(self, access: OperandIndexing, second: OperandIndexing) -> OperandIndexing:
        """The composition of a map with a map of one iteration, without runtime variables; "every element" where the
        composition is too large.
        """
        spend(1)
        if access.map == self._identity and access.replica is None and access.knowledge is Knowledge.EXACT:
            composed = second.simplify()
        else:
            composed = self.compose(access, second)
        target = self.sizes[second.leaf]
        if composed.runtime:
            composed = of_any_iteration(composed, self._values)
        composed_map = composed.map
        if (
            composed_map.is_undefined
            or len(composed_map.ranges) > len(target) + SPARE_RANGES
            or node_count(composed_map) > MAX_NODES
        ):
            exchanges = second.replica is not None or access.replica is not None
            return every_element(self.dims, target, second.leaf, exchanges=exchanges)
        return composed


def node_count(indexing_map: IndexingMap) -> int:
    """The nodes of a map's expressions."""
    return sum([result.size for result in indexing_map.results]) + sum(
        [expr.size for expr, _ in indexing_map.constraints]
    )


def _members(frontier: Frontier) -> frozenset[OperandIndexing]:
    """All accesses of a frontier, each of which names its leaf: two frontiers are equal if these sets are."""
    return frozenset([access for accesses in frontier.values() for access in accesses])


def of_any_iteration(access: OperandIndexing, values: ValueNumbers) -> OperandIndexing:
    """The access with range variables in place of its runtime variables; simplified, and marked as conservative: not
    every iteration has every offset.
    """
    old = access.map
    if old.is_known_empty:
        return OperandIndexing(IndexingMap.empty(), leaf=access.leaf)
    replaced: dict[Variable, Expr] = {}
    range_of_value: dict[object, Expr] = {}
    bounds: list[Interval] = []
    for k, (producer, var) in enumerate(zip(access.runtime, old.runtime, strict=True)):
        value = (values.of(producer), var.bounds)
        if value not in range_of_value:
            range_of_value[value] = rng(len(old.ranges) + len(bounds))
            bounds.append(var.bounds)
        replaced[rt(k)] = range_of_value[value]
    results, constraints = substitute_in_map(old.results, old.constraints, replaced)
    ranges = [*old.ranges, *(Var(interval) for interval in bounds)]
    with_ranges = IndexingMap(old.dims, ranges, (), results, constraints)
    return access.replace(
        map=without_determined_ranges(with_ranges, len(old.ranges)), runtime=(), is_conservative=True
    ).simplify()


def without_determined_ranges(indexing_map: IndexingMap, first: int) -> IndexingMap:
    """The map with range variables from number `first` on replaced where a constraint determines their value.

    An iteration that writes one row at an offset gives `d0 - s0 in [0, 0]`: then s0 is d0.

    >>> without_determined_ranges(
    ...     IndexingMap.parse("(d0)[s0] -> (s0), domain: d0 in [0, 9], s0 in [0, 9], d0 - s0 in [0, 0]"), 0
    ... ).simplify()
    (d0)[s0] -> (d0), domain: d0 in [0, 9], s0 in [0, 9]
    """
    for number in range(first, len(indexing_map.ranges)):
        variable = rng(number)
        for index, (expr, bounds) in enumerate(indexing_map.constraints):
            if bounds.lower != bounds.upper:
                continue
            # Of the form: variable * sign + rest = constant.
            terms = sum_terms(expr)
            signs = [sign for sign in (1, -1) if variable * sign in terms]
            rest = [term for term in terms if term is not variable and term != variable * -1]
            if len(signs) != 1 or len(rest) != len(terms) - 1 or variable in variables_of(rest):
                continue
            value: Expr = const(bounds.lower)
            for term in rest:
                value = value - term
            value = value * signs[0]
            others = [constraint for other, constraint in enumerate(indexing_map.constraints) if other != index]
            results, constraints = substitute_in_map(indexing_map.results, others, {variable: value})
            constraints = (*constraints, (value, indexing_map.ranges[number].bounds))
            indexing_map = IndexingMap(
                indexing_map.dims, indexing_map.ranges, indexing_map.runtime, results, constraints
            )
            break
    return indexing_map
