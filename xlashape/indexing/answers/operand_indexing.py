"""The answers of the analysis: how one array is accessed, bound to the instructions of a module. Matches `xla::OperandIndexing`.

An `OperandIndexingSet` holds every way in which an operand is read (or, input to output, an output is reached): a fusion may read an operand
in several. It is a sequence; where it holds one answer, which is usual, it can be used as that one:

    for operand in output_to_input(root):
        operand.map                  # the one map; InvalidArgumentError names the number where there are several
        [one.map for one in operand] # always right
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import overload

from xlashape.errors import InvalidArgumentError
from xlashape.indexing.answers.sources import ReplicaIndexing, RuntimeVariable
from xlashape.symbolic import Expr, IndexingMap, Var, Variable, VariableKind
from xlashape.symbolic.expr.substitute import substitute, variables_of

__all__ = ["Knowledge", "OperandIndexing", "OperandIndexingSet"]


class Knowledge(Enum):
    """How much maps say."""

    EXACT = "exact"
    """These elements and no others; where values decide, those that some values lead to."""
    EVERY_ELEMENT = "every element"
    """Any element may be needed; nothing narrower is true of the operation."""
    UNKNOWN = "unknown"
    """This version cannot tell."""


class OperandIndexing:
    """One way in which an array is accessed.

    - `map`: from an element of the output (input to output: the operand) to elements of the array.
    - `runtime`: where the map's runtime variables come from, in their order.
    - `replica`: which replica holds the element, for operations across replicas; None: the executing one.
    - `leaf`: which array, where the operand is a tuple: its leaves counted depth first.
    - `knowledge`: EVERY_ELEMENT where nothing narrower is known to be true, UNKNOWN where the map is undefined.

    Two are equal if everything is, and producers are the same instructions. `str()` is XLA's text.
    """

    __slots__ = ("_every", "_hash", "_is_simple", "_simplified", "leaf", "map", "replica", "runtime")

    map: IndexingMap
    runtime: tuple[RuntimeVariable, ...]
    replica: ReplicaIndexing | None
    leaf: int

    def __init__(
        self,
        map: IndexingMap,  # noqa: A002  # the name in XLA and in the protos
        runtime: tuple[RuntimeVariable, ...] = (),
        replica: ReplicaIndexing | None = None,
        leaf: int = 0,
        *,
        every: bool = False,
    ) -> None:
        self.map = map
        self.runtime = runtime
        self.replica = replica
        self.leaf = leaf
        self._every = every
        self._hash: int | None = None
        self._is_simple = False
        self._simplified: OperandIndexing | None = None

    @property
    def knowledge(self) -> Knowledge:
        """How much the map says."""
        if self.map.is_undefined:
            return Knowledge.UNKNOWN
        return Knowledge.EVERY_ELEMENT if self._every else Knowledge.EXACT

    def simplify(self) -> OperandIndexing:
        """The same access in simplified form, without range and runtime variables that nothing depends on.

        A runtime variable's producer goes with it; a range variable stays while a producer's map depends on it.
        """
        if self._is_simple:
            return self
        found = self._simplified
        if found is None:
            found = self._with_map(self.map.simplify())._without_unused()
            if found is self:
                self._is_simple = True
            else:
                self._simplified = found
        return found

    def compose(self, second: OperandIndexing) -> OperandIndexing:
        """`self` leads from A to B, `second` from B to C: from A to C, simplified.

        Range and runtime variables of both are kept, those of `second` first, producers in the order of their variables.
        """
        every = self._every or second._every
        if self.map.is_undefined or second.map.is_undefined:
            return OperandIndexing(IndexingMap.undefined(), leaf=second.leaf)
        if self.map.is_known_empty or second.map.is_known_empty:
            return OperandIndexing(IndexingMap.empty(), leaf=second.leaf)
        composed = self.map.compose(second.map)
        if composed.is_known_empty:
            return OperandIndexing(IndexingMap.empty(), leaf=second.leaf)
        replica = self._composed_replica(second)
        if not self.runtime and not second.runtime:
            if composed.ranges:
                composed = composed.remove_unused_symbols().map
            return OperandIndexing(composed, (), replica, second.leaf, every=every)
        producers = [self._seen_through(second, producer) for producer in second.runtime]
        producers += [
            _moved(producer, composed, len(second.map.ranges), len(second.map.runtime)) for producer in self.runtime
        ]
        return OperandIndexing(composed, tuple(producers), replica, second.leaf, every=every)._without_unused()

    def _composed_replica(self, second: OperandIndexing) -> ReplicaIndexing | None:
        if second.replica is None:
            return self.replica
        if self.replica is not None:
            # Two exchanges one after the other: what the second one's group is depends on the replica that the first one leads to.
            return ReplicaIndexing(IndexingMap.undefined())
        theirs = second.replica
        if theirs.map.is_undefined or self.map.is_undefined or self.map.runtime:
            return (
                theirs
                if theirs.map.is_undefined
                else ReplicaIndexing(IndexingMap.undefined(), theirs.groups, theirs.pairs)
            )
        return ReplicaIndexing(self.map.compose(theirs.map).remove_unused_symbols().map, theirs.groups, theirs.pairs)

    def _seen_through(self, second: OperandIndexing, producer: RuntimeVariable) -> RuntimeVariable:
        """A producer of `second`'s, from the variables of the composition."""
        inner = producer.map
        # With all of the variables of the map it belongs to, so that those of the composition come out in the same order.
        widened = IndexingMap(inner.dims, second.map.ranges, second.map.runtime, inner.results)
        return producer.with_map(_trimmed(self.map.compose_unsimplified(widened)))

    def replaced(self, map: IndexingMap, runtime: tuple[RuntimeVariable, ...]) -> OperandIndexing:  # noqa: A002  # the proto's name
        """The same access with another map and its producers."""
        return OperandIndexing(map, runtime, self.replica, self.leaf, every=self._every)

    def _with_map(self, map: IndexingMap) -> OperandIndexing:  # noqa: A002  # the proto's name
        return (
            self if map is self.map else OperandIndexing(map, self.runtime, self.replica, self.leaf, every=self._every)
        )

    def _without_unused(self) -> OperandIndexing:
        """Without the range and runtime variables that neither the map nor a producer of a variable that stays depends on.

        A runtime variable stays, too, that may come to lie outside of its bounds: then nothing is accessed.
        """
        found = self.map
        if not found.ranges and not found.runtime:
            return self
        if found.is_known_empty or found.is_undefined:
            return OperandIndexing(found if found.is_undefined else IndexingMap.empty(), leaf=self.leaf)
        if not self.runtime:
            return self._with_map(found.remove_unused_symbols().map)
        used = set(found.used_variables())
        for i, (producer, var) in enumerate(zip(self.runtime, found.runtime, strict=True)):
            if producer.matters(var.bounds):
                used.add(Variable(VariableKind.RUNTIME, i))
        pending = [variable.index for variable in used if variable.kind is VariableKind.RUNTIME]
        while pending:
            for variable in variables_of(self.runtime[pending.pop()].map.results):
                if variable.kind is not VariableKind.DIM and variable not in used:
                    used.add(variable)
                    if variable.kind is VariableKind.RUNTIME:
                        pending.append(variable.index)
        ranges = [i for i in range(len(found.ranges)) if Variable(VariableKind.RANGE, i) in used]
        runtime = [i for i in range(len(found.runtime)) if Variable(VariableKind.RUNTIME, i) in used]
        if len(ranges) == len(found.ranges) and len(runtime) == len(found.runtime):
            return self
        renumbered: dict[Variable, Expr] = {
            Variable(VariableKind.RANGE, i): Variable(VariableKind.RANGE, at) for at, i in enumerate(ranges)
        }
        renumbered |= {
            Variable(VariableKind.RUNTIME, i): Variable(VariableKind.RUNTIME, at) for at, i in enumerate(runtime)
        }

        def kept(old: IndexingMap) -> IndexingMap:
            exprs = substitute((*old.results, *(expr for expr, _ in old.constraints)), renumbered)
            count = len(old.results)
            return IndexingMap(
                old.dims,
                [old.ranges[i] for i in ranges] if old.ranges else (),
                [old.runtime[i] for i in runtime] if old.runtime else (),
                exprs[:count],
                zip(exprs[count:], [interval for _, interval in old.constraints], strict=True),
            )

        producers = tuple([self.runtime[i].with_map(_trimmed(kept(self.runtime[i].map))) for i in runtime])
        return OperandIndexing(kept(found), producers, self.replica, self.leaf, every=self._every)

    def _key(self) -> tuple[object, ...]:
        return (self.map, self.runtime, self.replica, self.leaf, self._every)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self._key() == other._key() if isinstance(other, OperandIndexing) else NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._key())
        return self._hash

    def to_text(self, style: str = "xla") -> str:
        """The map, the producers of its runtime variables and the replica, as XLA prints them; `style` as in `IndexingMap.to_text`."""
        text = self.map.to_text(style)
        if self.runtime:
            names = [var.name or f"rt{i}" for i, var in enumerate(self.map.runtime)]
            producers = [
                f"{name}: {producer.producer_text}; {producer.map.to_text(style)}"
                for name, producer in zip(names, self.runtime, strict=True)
            ]
            text += "\nruntime variables:\n\n" + "\n".join(producers)
        if self.replica is not None:
            text += "\nreplica id:\n" + self.replica.map.to_text(style)
        return text

    def __repr__(self) -> str:
        return self.to_text()


def _moved(producer: RuntimeVariable, composed: IndexingMap, range_shift: int, runtime_shift: int) -> RuntimeVariable:
    """A producer of `first`'s in a composition, where the range and runtime variables of `second` come first."""
    old = producer.map
    shifts: dict[Variable, Expr] = {}
    if old.ranges and range_shift:
        shifts |= {
            Variable(VariableKind.RANGE, i): Variable(VariableKind.RANGE, i + range_shift)
            for i in range(len(old.ranges))
        }
    if old.runtime and runtime_shift:
        shifts |= {
            Variable(VariableKind.RUNTIME, i): Variable(VariableKind.RUNTIME, i + runtime_shift)
            for i in range(len(old.runtime))
        }
    if not shifts:
        ranges = _extended(old.ranges, composed.ranges)
        runtime = _extended(old.runtime, composed.runtime)
        return (
            producer
            if ranges is old.ranges and runtime is old.runtime
            else producer.with_map(IndexingMap(old.dims, ranges, runtime, old.results))
        )
    return producer.with_map(
        IndexingMap(
            old.dims,
            composed.ranges if old.ranges else (),
            composed.runtime if old.runtime else (),
            substitute(old.results, shifts),
        )
    )


def _extended(own: tuple[Var, ...], all_of_them: tuple[Var, ...]) -> tuple[Var, ...]:
    return all_of_them if own and len(own) != len(all_of_them) else own


def _trimmed(producer: IndexingMap) -> IndexingMap:
    """A producer's map with results and dimensions alone where nothing else matters; its domain is that of the map it belongs to."""
    if producer.is_known_empty or producer.is_undefined:
        return producer
    kinds = {variable.kind for variable in variables_of(producer.results)}
    ranges = producer.ranges if VariableKind.RANGE in kinds else ()
    runtime = producer.runtime if VariableKind.RUNTIME in kinds else ()
    return IndexingMap(producer.dims, ranges, runtime, producer.results)


class OperandIndexingSet(Sequence[OperandIndexing]):
    """Every way in which an array is accessed, each once, in the order in which they were found. Frozen and hashable.

    Empty: no element is accessed. `map`, `runtime`, `replica` and `leaf` are those of its only member; `map` of an empty set is KNOWN EMPTY.
    Two sets are equal if they hold the same, in any order.
    """

    __slots__ = ("_hash", "_is_simple", "_members", "_simplified")

    def __init__(self, members: Iterable[OperandIndexing] = ()) -> None:
        found = tuple(members)
        self._members = found if len(found) < 2 else tuple(dict.fromkeys(found))
        self._hash: int | None = None
        self._is_simple = False
        self._simplified: OperandIndexingSet | None = None

    @overload
    def __getitem__(self, index: int) -> OperandIndexing: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[OperandIndexing, ...]: ...
    def __getitem__(self, index: int | slice) -> OperandIndexing | tuple[OperandIndexing, ...]:
        return self._members[index]

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[OperandIndexing]:
        return iter(self._members)

    @property
    def maps(self) -> tuple[IndexingMap, ...]:
        """The maps of the members."""
        return tuple([member.map for member in self._members])

    @property
    def map(self) -> IndexingMap:
        """The map of the only member; KNOWN EMPTY where there is none. InvalidArgumentError where there are several."""
        return self._only().map if self._members else IndexingMap.empty()

    @property
    def runtime(self) -> tuple[RuntimeVariable, ...]:
        """The runtime variables of the only member."""
        return self._only().runtime if self._members else ()

    @property
    def replica(self) -> ReplicaIndexing | None:
        """The replica of the only member."""
        return self._only().replica if self._members else None

    @property
    def leaf(self) -> int:
        """The leaf of the only member."""
        return self._only().leaf if self._members else 0

    @property
    def knowledge(self) -> Knowledge:
        """The least that any member says."""
        found = {member.knowledge for member in self._members}
        if Knowledge.UNKNOWN in found:
            return Knowledge.UNKNOWN
        return Knowledge.EVERY_ELEMENT if Knowledge.EVERY_ELEMENT in found else Knowledge.EXACT

    def simplify(self) -> OperandIndexingSet:
        """The set of the members' simplified forms, each once."""
        if self._is_simple:
            return self
        found = self._simplified
        if found is None:
            simplified = [member.simplify() for member in self._members]
            if all(new is old for new, old in zip(simplified, self._members, strict=True)):
                self._is_simple = True
                return self
            found = self._simplified = OperandIndexingSet(simplified)
        return found

    def to_text(self, style: str = "xla") -> str:
        """The members' texts, one after the other."""
        return "\n".join(member.to_text(style) for member in self._members)

    def _only(self) -> OperandIndexing:
        if len(self._members) == 1:
            return self._members[0]
        raise InvalidArgumentError(
            f"the array is accessed in {len(self._members)} ways: go through them instead of asking for the one map"
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, OperandIndexingSet):
            return NotImplemented
        return len(self) == len(other) and set(self._members) == set(other._members)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._members))
        return self._hash

    def __repr__(self) -> str:
        return f"{{{self.to_text()}}}"
