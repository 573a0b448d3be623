"""Following a state through the iterations of a computation: what it depends on one iteration ago, two iterations ago, …

The algorithm that while loops and scans share, in plain words.

- *State*: the leaves of the tuple that the body takes and returns. A `Frontier` holds, for each leaf of it, the set of maps that lead there from the
  array asked about.
- *Start*: the frontier after 0 iterations holds the identity at the leaf asked about.
- *Step*: one iteration. Every map of the frontier is composed with every map of the body from the leaf that it has reached to the leaves of the state
  one iteration before (going forwards: after). The results are the next frontier. An offset within the body has another value in each iteration, so
  its runtime variable becomes a range variable (`any_iteration`).
- *End*, of `StateWalk.frontiers` (for a known number of iterations): after that number of iterations, or when a frontier equals an earlier one; then
  they repeat with that period, and the frontier after any number of iterations is known.
- *End*, of `StateWalk.closure` (for an unknown number): when no step adds a map to the union of all frontiers.

    body: (i, x) -> (i + 1, reverse(x))       x has 8 elements

    after 0 iterations: x reads x by (d0) -> (d0)
    after 1 iteration:  x reads x by (d0) -> (-d0 + 7)
    after 2 iterations: x reads x by (d0) -> (d0)           the frontier after 0 iterations again: a period of 2

What is given up, because maps may multiply or grow without end (`x = concatenate(x[1:], y)` shifts by one more in each iteration):

- `frontiers` ends with an unknown period after `MAX_ITERATIONS`, or when a leaf has more than `MAX_ACCESSES` maps. The caller then falls back to
  `closure` or to "every element".
- `closure` replaces the maps of a leaf that has `MAX_ACCESSES` of them by "every element", marked as conservative.
- A single map with more than `SPARE_RANGES` extra range variables or more than `MAX_NODES` nodes becomes "every element" too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from xlashape.hlo import HloComputation
from xlashape.indexing.answers.operand_indexing import Knowledge, OperandIndexing
from xlashape.indexing.answers.replica_indexing import ReplicaIndexing
from xlashape.indexing.ops.build import everything, identity
from xlashape.indexing.walk.coroutines import Coroutine
from xlashape.indexing.walk.repeated.any_iteration import of_any_iteration
from xlashape.indexing.walk.repeated.value_numbers import ValueNumbers
from xlashape.limits import spend
from xlashape.symbolic import IndexingMap

__all__ = [
    "MAX_INSTRUCTIONS",
    "Compose",
    "Dims",
    "Frontier",
    "Frontiers",
    "StateWalk",
    "StepMaps",
    "every_element",
    "start_at",
]

MAX_INSTRUCTIONS = 1 << 8
"""Instructions of a body, with what it calls, whose maps are followed. Of a larger body only the dependencies between arrays are used."""

MAX_ACCESSES = 32
"""Different maps to one leaf of the state, before they are given up for "every element"."""
MAX_ITERATIONS = 32
"""Iterations that are followed one by one."""
SPARE_RANGES = 2
"""Range variables of a map beyond one for each dimension of what it leads to, before it is given up for "every element"."""
MAX_NODES = 1 << 8
"""Nodes of a map's expressions, before it is given up for "every element": divisions may double them in every iteration."""

Dims: TypeAlias = tuple[int, ...]
Frontier: TypeAlias = dict[int, dict[OperandIndexing, None]]
"""For each leaf of the state, the maps that lead there after some number of iterations, each once. They have no runtime variables, and the leaf is
theirs."""
Compose: TypeAlias = Callable[[OperandIndexing, OperandIndexing], OperandIndexing]
StepMaps: TypeAlias = Callable[[int], Coroutine[Sequence[OperandIndexing]]]
"""The maps of one iteration from a leaf of the state; the `leaf` of each map says where it leads."""


class Frontiers(NamedTuple):
    """The frontiers after 0, 1, … iterations."""

    listed: list[Frontier]
    period: int | None
    """The last frontier equals the one this many before it, and all later ones repeat. None: nothing is known beyond the last one."""

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
    """The conservative access to every element of a leaf of the sizes `target`. `exchanges`: on a replica that is not known."""
    replica = ReplicaIndexing(IndexingMap.undefined()) if exchanges else None
    return OperandIndexing(everything(dims, target).map, (), replica, leaf, is_conservative=True)


class StateWalk:
    """Follows an array through the iterations of a body.

    `dims` are the sizes of the array, `sizes` those of the leaves of the state that steps lead to, and `step_maps` gives the maps of one iteration.
    `exchanges`: some step reads what other replicas hold.
    """

    def __init__(
        self,
        body: HloComputation,
        dims: Dims,
        sizes: Mapping[int, Dims],
        step_maps: StepMaps,
        compose: Compose,
        *,
        exchanges: bool,
    ) -> None:
        self.body = body
        self.dims = dims
        self.sizes = sizes
        self.step_maps = step_maps
        self.compose = compose
        self.exchanges = exchanges
        self._identity = identity(dims)[0].map
        self._values = ValueNumbers(body)

    def frontiers(self, first: Frontier, count: int) -> Coroutine[Frontiers]:
        """The frontiers after 0 to `count` iterations, or until they repeat, or as far as they are followed."""
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
        """The union of the frontiers after any number of iterations. A leaf that too many maps lead to is reached in every element."""
        union: Frontier = {leaf: dict(accesses) for leaf, accesses in first.items()}
        pending = deque([access for accesses in first.values() for access in accesses])
        given_up: set[int] = set()
        # Leaves of which some map names every element on the executing replica: no other map without a replica says more.
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
        """The composition of a map with a map of one iteration, without runtime variables; "every element" where it grows too large."""
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
            or _node_count(composed_map) > MAX_NODES
        ):
            exchanges = second.replica is not None or access.replica is not None
            return every_element(self.dims, target, second.leaf, exchanges=exchanges)
        return composed


def _node_count(indexing_map: IndexingMap) -> int:
    return sum([result.size for result in indexing_map.results]) + sum(
        [expr.size for expr, _ in indexing_map.constraints]
    )


def _members(frontier: Frontier) -> frozenset[OperandIndexing]:
    """What two equal frontiers share: their accesses, each of which knows its leaf."""
    return frozenset([access for accesses in frontier.values() for access in accesses])
