"""Maps through a computation that runs again and again on a state: what the state depends on one round ago, two rounds ago, …

A step leads from a leaf of the state to leaves of the state one round before (or, forwards, after). Runtime variables have another value in
each round, so they become range variables: any value within their bounds, the same for all that have equal values within one round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from xlashape.hlo import HloComputation, HloInstruction
from xlashape.indexing.answers.operand_indexing import Knowledge, OperandIndexing
from xlashape.indexing.answers.sources import ReplicaIndexing, RuntimeVariable
from xlashape.indexing.ops.build import everything, identity
from xlashape.indexing.walk.leaf_dependencies import origin
from xlashape.indexing.walk.requests import Asking
from xlashape.limits import spend
from xlashape.symbolic import Expr, IndexingMap, Interval, Var, Variable, const, rng, rt
from xlashape.symbolic.expr.expression import sum_terms
from xlashape.symbolic.expr.substitute import substitute, variables_of

__all__ = [
    "MAX_INSTRUCTIONS",
    "Compose",
    "Dims",
    "Frontier",
    "Member",
    "Rounds",
    "Step",
    "Walk",
    "moved_to",
    "start",
    "whole",
]

MAX_INSTRUCTIONS = 1 << 8
"""Instructions of a body, with what it calls, whose maps are followed. Of larger ones it is told which arrays depend on which."""

MAX_WAYS = 32
"""Different maps to one leaf of the state, before they are given up for "every element"."""
MAX_ROUNDS = 32
"""Rounds that are gone through one by one."""
SPARE_RANGES = 2
"""Range variables of a map beyond one for each dimension of what it leads to, before it is given up for "every element"."""
MAX_NODES = 1 << 8
"""Nodes of a map's expressions, before it is given up for "every element": divisions may double them in every round."""

Dims: TypeAlias = tuple[int, ...]
Member: TypeAlias = OperandIndexing
"""A map to the leaf of the state that its `leaf` says, without runtime variables."""
Frontier: TypeAlias = dict[int, dict[Member, None]]
"""The maps that lead to each leaf of the state after some rounds."""
Compose: TypeAlias = Callable[[OperandIndexing, OperandIndexing], OperandIndexing]
Step: TypeAlias = Callable[[int], Asking[Sequence[OperandIndexing]]]
"""From a leaf of the state through one round: the `leaf` of each map says where it leads."""


class Rounds(NamedTuple):
    """The frontiers after 0, 1, … rounds."""

    frontiers: list[Frontier]
    period: int | None
    """The last one equals the one this many before it, and so on; None: nothing is known of what comes after the last one."""

    def after(self, count: int) -> Frontier | None:
        """The frontier after so many rounds."""
        last = len(self.frontiers) - 1
        if count <= last:
            return self.frontiers[count]
        if self.period is None:
            return None
        first = last - self.period
        return self.frontiers[first + (count - first) % self.period]


def start(dims: Dims, leaf: int) -> Frontier:
    """A leaf of the state itself."""
    return {leaf: {OperandIndexing(identity(dims)[0].map, leaf=leaf): None}}


def whole(dims: Dims, target: Dims, leaf: int, *, exchanged: bool = False) -> Member:
    """Every element of a leaf; on whichever replica, if that is not known."""
    replica = ReplicaIndexing(IndexingMap.undefined()) if exchanged else None
    return OperandIndexing(everything(dims, target).map, (), replica, leaf, every=True)


def moved_to(one: OperandIndexing, leaf: int) -> OperandIndexing:
    """The same access, counted as one to another leaf."""
    if one.leaf == leaf:
        return one
    return OperandIndexing(one.map, one.runtime, one.replica, leaf, every=one.knowledge is Knowledge.EVERY_ELEMENT)


class Walk:
    """Goes from an array of the sizes `dims` through the rounds of `body`.

    `sizes` are those of the leaves of the state that steps lead to. `exchanged`: some step reads what other replicas hold.
    """

    def __init__(
        self,
        body: HloComputation,
        dims: Dims,
        sizes: Mapping[int, Dims],
        step: Step,
        compose: Compose,
        *,
        exchanged: bool,
    ) -> None:
        self.body = body
        self.dims = dims
        self._identity = identity(dims)[0].map
        self._values = _Values(body)
        self.sizes = sizes
        self.step = step
        self.compose = compose
        self.exchanged = exchanged

    def rounds(self, first: Frontier, most: int) -> Asking[Rounds]:
        """Round after round, `most` or until they repeat. A frontier of too many maps is given up: nothing is known of it then."""
        frontiers = [first]
        places = {_key(first): 0}
        while len(frontiers) <= min(most, MAX_ROUNDS):
            following: Frontier = {}
            for leaf, members in frontiers[-1].items():
                for second in (yield from self.step(leaf)):
                    target = following.setdefault(second.leaf, {})
                    for member in members:
                        found = self.through(member, second)
                        if not found.map.is_known_empty:
                            target[found] = None
                    if len(target) > MAX_WAYS:
                        return Rounds(frontiers, None)
            following = {leaf: members for leaf, members in following.items() if members}
            frontiers.append(following)
            key = _key(following)
            if key in places:
                return Rounds(frontiers, len(frontiers) - 1 - places[key])
            places[key] = len(frontiers) - 1
        return Rounds(frontiers, None)

    def closure(self, first: Frontier) -> Asking[Frontier]:
        """What is reached after any number of rounds, together. A leaf that is reached in too many ways is reached in every element."""
        found: Frontier = {leaf: dict(members) for leaf, members in first.items()}
        pending = deque([member for members in first.values() for member in members])
        given_up: set[int] = set()
        filled: set[int] = set()
        while pending:
            member = pending.popleft()
            if member not in found[member.leaf]:
                continue
            for second in (yield from self.step(member.leaf)):
                if second.leaf in given_up:
                    continue
                composed = self.through(member, second)
                there = found.setdefault(second.leaf, {})
                if composed in there or composed.map.is_known_empty:
                    continue
                if composed.replica is None and second.leaf in filled:
                    continue
                full = everything(self.dims, self.sizes[second.leaf]).map
                if len(there) >= MAX_WAYS:
                    given_up.add(second.leaf)
                    composed = self._whole(second.leaf)
                    there.clear()
                elif composed.replica is None and composed.map == full:
                    # Every element is named: no other map says more.
                    filled.add(second.leaf)
                    for one in [one for one in there if one.replica is None]:
                        del there[one]
                there[composed] = None
                pending.append(composed)
        return {leaf: members for leaf, members in found.items() if members}

    def through(self, member: Member, second: OperandIndexing) -> Member:
        """A map and one step more."""
        spend(1)
        if member.map == self._identity and member.replica is None and member.knowledge is Knowledge.EXACT:
            found = second.simplify()
        else:
            found = self.compose(member, second)
        target = self.sizes[second.leaf]
        if found.runtime:
            found = _of_any_round(found, self._values)
        if found.map.is_undefined or len(found.map.ranges) > len(target) + SPARE_RANGES or _is_long(found.map):
            exchanged = second.replica is not None or member.replica is not None
            return whole(self.dims, target, second.leaf, exchanged=exchanged)
        return found

    def _whole(self, leaf: int) -> Member:
        return whole(self.dims, self.sizes[leaf], leaf, exchanged=self.exchanged)


def _is_long(found: IndexingMap) -> bool:
    return sum([one.size for one in found.results]) + sum([one.size for one, _ in found.constraints]) > MAX_NODES


def _key(frontier: Frontier) -> frozenset[OperandIndexing]:
    return frozenset([member for members in frontier.values() for member in members])


# -- runtime variables ------------------------------------------------------------------------------------------------------------


def _of_any_round(found: OperandIndexing, values: _Values) -> Member:
    """Runtime variables made range variables, those of equal value one."""
    old = found.map
    if old.is_known_empty:
        return OperandIndexing(IndexingMap.empty(), leaf=found.leaf)
    replaced: dict[Variable, Expr] = {}
    added: dict[object, Expr] = {}
    bounds: list[Interval] = []
    for k, (producer, var) in enumerate(zip(found.runtime, old.runtime, strict=True)):
        key = (values.of(producer), var.bounds)
        if key not in added:
            added[key] = rng(len(old.ranges) + len(bounds))
            bounds.append(var.bounds)
        replaced[rt(k)] = added[key]
    exprs = substitute((*old.results, *(expr for expr, _ in old.constraints)), replaced)
    count = len(old.results)
    ranges = [*old.ranges, *(Var(interval) for interval in bounds)]
    constraints = zip(exprs[count:], [interval for _, interval in old.constraints], strict=True)
    named = _solved(IndexingMap(old.dims, ranges, (), exprs[:count], constraints), len(old.ranges))
    return found.replaced(named, ()).simplify()


def _solved(found: IndexingMap, first: int) -> IndexingMap:
    """Without the range variables from number `first` on whose value a constraint says: that of an offset that places one row where it is asked for."""
    for number in range(first, len(found.ranges)):
        variable = rng(number)
        for place, (expr, bounds) in enumerate(found.constraints):
            if bounds.lower != bounds.upper:
                continue
            terms = sum_terms(expr)
            signs = [sign for sign in (1, -1) if variable * sign in terms]
            rest = [term for term in terms if term is not variable and term != variable * -1]
            if len(signs) != 1 or len(rest) != len(terms) - 1 or variable in variables_of(rest):
                continue
            # variable * sign + rest = value
            value: Expr = const(bounds.lower)
            for term in rest:
                value = value - term
            value = value * signs[0]
            others = [one for at, one in enumerate(found.constraints) if at != place]
            exprs = substitute((*found.results, *(one for one, _ in others)), {variable: value})
            count = len(found.results)
            constraints = [*zip(exprs[count:], [interval for _, interval in others], strict=True)]
            constraints.append((value, found.ranges[number].bounds))
            found = IndexingMap(found.dims, found.ranges, found.runtime, exprs[:count], constraints)
            break
    return found


_SCALAR = frozenset(
    "add and clamp compare constant convert divide maximum minimum multiply negate not or remainder select sign subtract xor".split()
)
"""Operations whose value is known to be equal where their operands and attributes are."""
MAX_DEPTH = 16


class _Values:
    """Names for values: two producers of one round with the same name have the same value."""

    def __init__(self, body: HloComputation) -> None:
        self._body = body
        self._names: dict[object, int] = {}
        self._known: dict[tuple[HloInstruction, int], int] = {}
        self._callers: dict[HloComputation, HloInstruction | None] | None = None

    def of(self, producer: RuntimeVariable) -> object:
        """Of the element that the producer's map leads to."""
        if producer.is_position:
            return id(producer.instruction)
        if not self._runs_once(producer.instruction.computation):
            # A computation that is called twice computes two values by the same instruction.
            return object()
        return self._name(producer.instruction, producer.leaf, 0), producer.map, producer.is_clamped, producer.bounds

    def _name(self, instruction: HloInstruction, leaf: int, depth: int) -> int:
        at = self._origin(instruction, leaf)
        name = self._known.get(at)
        if name is None:
            one = at[0]
            key: object = (id(one), at[1])
            proto = one.proto
            # A constant array may be large: it is itself alone.
            is_compared = proto.opcode in _SCALAR and not (proto.opcode == "constant" and one.shape.dimensions)
            if is_compared and depth < MAX_DEPTH:
                literal = proto.literal.SerializeToString(deterministic=True) if proto.opcode == "constant" else b""
                operands = tuple([self._name(operand, 0, depth + 1) for operand in one.operands])
                key = (proto.opcode, one.shape, proto.comparison_direction, proto.comparison_type, literal, operands)
            name = self._known[at] = self._names.setdefault(key, len(self._names))
        return name

    def _origin(self, instruction: HloInstruction, leaf: int) -> tuple[HloInstruction, int]:
        """Where a value was computed, beyond the fusions and calls that it was handed to."""
        one, at = origin(instruction, leaf)
        while one.proto.opcode == "parameter" and one.computation is not self._body:
            caller = self._caller(one.computation)
            if caller is None or not 0 <= one.parameter_number < len(caller.operands):
                break
            one, at = origin(caller.operands[one.parameter_number], at)
        return one, at

    def _runs_once(self, computation: HloComputation) -> bool:
        """Whether a round runs it once: it is the body, or called from one place of what runs once."""
        while computation is not self._body:
            caller = self._caller(computation)
            if caller is None:
                return False
            computation = caller.computation
        return True

    def _caller(self, computation: HloComputation) -> HloInstruction | None:
        """The fusion or call that alone calls it."""
        if self._callers is None:
            self._callers = {}
            seen, pending = {self._body}, [self._body]
            while pending:
                for instruction in pending.pop().instructions:
                    for called in instruction.called_computations:
                        is_only = called not in self._callers and instruction.proto.opcode in ("fusion", "call")
                        self._callers[called] = instruction if is_only else None
                        if called not in seen:
                            seen.add(called)
                            pending.append(called)
        return self._callers.get(computation)
