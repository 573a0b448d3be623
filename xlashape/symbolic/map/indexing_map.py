"""Indexing maps: which elements of tensor B belong to one element of tensor A. Matches `xla::IndexingMap`.

    (d0, d1)[s0]{rt0} -> (d0 + rt0, s0), domain: d0 in [0, 9], d1 in [0, 19], s0 in [0, 4], rt0 in [0, 2], d0 + s0 in
    [0, 11]

The values of the dimensions d are the index of an element of A. That element belongs to the elements of B for all
values of the range variables s that the domain allows. A runtime variable rt has one value, which is known only at run
time. The map does not say which instruction produces that value: `xlashape.indexing` keeps the producers beside the
map, in the order of `runtime`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from xlashape.base.caches import cached
from xlashape.base.display import Displayed
from xlashape.base.frozen import Frozen, set_field
from xlashape.errors import InvalidMapError, SizeOverflowError, is_a
from xlashape.symbolic.expr import expression as ex
from xlashape.symbolic.expr.evaluate import CompiledExpressions
from xlashape.symbolic.expr.expression import Expr, Operand, Variable, VariableKind, const, dim
from xlashape.symbolic.expr.ranges import Bounds, Interval
from xlashape.symbolic.map import parts as map_parts
from xlashape.symbolic.map.parts import MapParts, Producer, Var
from xlashape.symbolic.simplify.domain import Constraint, simplify_parts

if TYPE_CHECKING:
    import numpy as np
    from google.protobuf.message import Message
    from numpy.typing import NDArray

    from xlashape.proto import v1

Flags: TypeAlias = tuple[tuple[bool, ...], tuple[bool, ...], tuple[bool, ...]]
"""For every dimension, range and runtime variable whether a map keeps it."""

_WITNESSES = 4096
"""How many points are tried to show that constraints on unused variables hold somewhere. For congruences (x mod m = c)
of simplified maps the first point suffices.
"""

_KEY = attrgetter("is_undefined", "is_known_empty", "dims", "ranges", "runtime", "results", "constraints")
"""The fields that two equal maps have in common."""


class IndexingMap(Frozen, Displayed):
    """A frozen, hashable map. Two maps are equal if they are written the same, names included; `same_function` compares
    what they compute.

    `dims`, `ranges` and `runtime` are the variables with their bounds, `results` has one expression for each dimension
    of B, and `constraints` are pairs (expression, interval), all of which hold in the domain. A constraint on a
    variable becomes part of its bounds. A constraint on a constant is dropped if it holds, and makes the map known to
    be empty if it does not.

    >>> m = IndexingMap.from_sizes([4, 8], results=[dim(0) * 8 + dim(1)])
    >>> m
    (d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]
    >>> m.evaluate((1, 2)), m.evaluate((4, 0))
    ((10,), None)
    """

    # A slot with an underscore keeps a value that is computed from the other slots. It is empty until the value is
    # first used.
    __slots__ = (
        "__weakref__",
        "_compiled",
        "_hash",
        "_simplified",
        "constraints",
        "dims",
        "is_known_empty",
        "is_undefined",
        "ranges",
        "results",
        "runtime",
    )

    dims: tuple[Var, ...]
    ranges: tuple[Var, ...]
    runtime: tuple[Var, ...]
    results: tuple[Expr, ...]
    constraints: tuple[Constraint, ...]
    is_known_empty: bool
    is_undefined: bool
    _compiled: CompiledExpressions
    _hash: int
    _simplified: IndexingMap | bool  # False until it is computed, True if this map is in simplified form

    # Construction

    def __init__(
        self,
        dims: Iterable[Var] = (),
        ranges: Iterable[Var] = (),
        runtime: Iterable[Var] = (),
        results: Iterable[Operand] = (),
        constraints: Iterable[tuple[Operand, Interval | tuple[int, int]]] = (),
    ) -> None:
        self._fill(map_parts.checked_parts(dims, ranges, runtime, results, constraints))

    @classmethod
    def _of(cls, parts: MapParts) -> IndexingMap:
        """The map of parts that are known to fit each other. Skips the checks of the constructor, which visit every
        expression.
        """
        made = cls.__new__(cls)
        made._fill(parts)
        return made

    def _fill(self, parts: MapParts) -> None:
        kind, dims, ranges, runtime, results, constraints, _ = map_parts.normalized(parts)
        set_field(self, "dims", dims)
        set_field(self, "ranges", ranges)
        set_field(self, "runtime", runtime)
        set_field(self, "results", results)
        set_field(self, "constraints", constraints)
        set_field(self, "is_known_empty", kind == "empty")
        set_field(self, "is_undefined", kind == "undefined")
        set_field(self, "_simplified", False)

    @classmethod
    def from_sizes(
        cls, dim_sizes: Iterable[int], range_sizes: Iterable[int] = (), results: Iterable[Operand] = ()
    ) -> IndexingMap:
        """The map with variables d0, d1, … and s0, s1, …, each in [0, size - 1], and these results. A size of 0 gives a
        map known to be empty.
        """
        dims, ranges = [
            [Var(Interval.of_size(size)) for size in map_parts.checked_integers(sizes, "sizes")]
            for sizes in (dim_sizes, range_sizes)
        ]
        return cls(dims, ranges, (), results)

    @classmethod
    def identity(cls, sizes: Iterable[int]) -> IndexingMap:
        """The map that takes every element of a tensor of these sizes to itself.

        >>> IndexingMap.identity([2, 3])
        (d0, d1) -> (d0, d1), domain: d0 in [0, 1], d1 in [0, 2]
        """
        sizes = map_parts.checked_list(sizes, "sizes")
        return cls.from_sizes(sizes, results=[dim(i) for i in range(len(sizes))])

    @classmethod
    def empty(cls) -> IndexingMap:
        """A map known to be empty: its domain has no points. Prints as KNOWN EMPTY."""
        return cls._of(MapParts("empty"))

    @classmethod
    def undefined(cls) -> IndexingMap:
        """A map of which nothing is known. Prints as UNDEFINED."""
        return cls._of(MapParts("undefined"))

    @classmethod
    def parse(cls, text: str) -> IndexingMap:
        """Reads a map in either spelling (see `xlashape.symbolic.map.parts`), without the producers of runtime
        variables. Raises ParseError.

        >>> IndexingMap.parse("(d0)[s0] -> (d0 floordiv 8, s0), domain: d0 in [0, 31], s0 in [0, 3], d0 + s0 in [0, 9]")
        (d0)[s0] -> (d0 / 8, s0), domain: d0 in [0, 31], s0 in [0, 3], d0 + s0 in [0, 9]
        """
        return cls.from_parts(map_parts.parse_map_parts(text))

    @classmethod
    def from_parts(cls, parts: MapParts) -> IndexingMap:
        """The map of these parts, without their producers. Checks the names, but not that expressions use variables of
        the map only.

        If the parts are of the kind "empty" or "undefined", only the kind is used.
        """
        if parts.kind != "map":
            return cls.empty() if parts.kind == "empty" else cls.undefined()
        map_parts.check_names([parts.dims, parts.ranges, parts.runtime])
        return cls._of(parts)

    # Equality, text, pickles and protos

    def _parts(self) -> MapParts:
        kind = "undefined" if self.is_undefined else "empty" if self.is_known_empty else "map"
        return MapParts(kind, *self._groups, self.results, self.constraints)

    @property
    def _groups(self) -> tuple[tuple[Var, ...], tuple[Var, ...], tuple[Var, ...]]:
        return self.dims, self.ranges, self.runtime

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, IndexingMap):
            return NotImplemented
        # The results come first, since they differ most often. Comparing field by field takes half of the time that
        # comparing two tuples of all fields takes.
        return (
            self.results == other.results
            and self.dims == other.dims
            and self.ranges == other.ranges
            and self.runtime == other.runtime
            and self.constraints == other.constraints
            and self.is_known_empty == other.is_known_empty
            and self.is_undefined == other.is_undefined
        )

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            value = hash(_KEY(self))
            set_field(self, "_hash", value)
            return value

    def __reduce__(self) -> tuple[Any, ...]:
        return (IndexingMap._of, (self._parts(),))

    def __repr__(self) -> str:
        return self.to_text()

    __str__ = __repr__

    def to_text(self, style: str = "xla") -> str:
        """One line of text. `style` "xla" writes floor division as `/`, "affine" as `floordiv`. SizeOverflowError if a
        number does not fit int64.

        >>> IndexingMap.from_sizes([32], results=[dim(0) // 8]).to_text(style="affine")
        '(d0) -> (d0 floordiv 8), domain: d0 in [0, 31]'
        """
        return map_parts.map_text(self._parts(), style)

    def to_proto(self) -> v1.IndexingMap:
        """A new `xlashape.v1.IndexingMap`. SizeOverflowError if a number does not fit int64."""
        # Protobuf loads on first use, to keep the start of the library short.
        from xlashape.symbolic.map.serde import parts_to_proto

        return parts_to_proto(self._parts())

    @classmethod
    def from_proto(cls, value: bytes | Message) -> IndexingMap:
        """The map of an `xlashape.v1.IndexingMap`: its bytes, or a message of any protobuf pool.

        Raises DecodeError for bytes that are not such a message, InvalidMapError with the path of the field for a
        message that cannot be a map, and LimitExceededError for expressions that are too deep or too long when written
        out.

        >>> m = IndexingMap.parse("(d0) -> (d0 mod 4), domain: d0 in [0, 31]")
        >>> IndexingMap.from_proto(m.to_proto()) == m
        True
        """
        from xlashape.symbolic.map.serde import parts_from_proto  # loads protobuf on first use

        parts = parts_from_proto(value)
        if parts.kind == "undefined":
            return cls.undefined()
        return cls(parts.dims, parts.ranges, parts.runtime, parts.results, parts.constraints)

    # Questions

    @property
    def variables(self) -> tuple[Var, ...]:
        """All variables in the order of a point: dimensions, ranges, runtime."""
        return self.dims + self.ranges + self.runtime

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many dimensions, range and runtime variables there are."""
        return (len(self.dims), len(self.ranges), len(self.runtime))

    @property
    def is_identity(self) -> bool:
        """Whether every element maps to itself: the results are d0, d1, … and the map has no constraints and no other
        variables.
        """
        if self.is_undefined or self.is_known_empty or self.ranges or self.runtime or self.constraints:
            return False
        return len(self.results) == len(self.dims) and all(result is dim(i) for i, result in enumerate(self.results))

    def variable_expressions(self) -> tuple[tuple[Variable, ...], tuple[Variable, ...], tuple[Variable, ...]]:
        """The variables as expressions: dimensions, ranges, runtime."""
        dims, ranges, runtime = [
            tuple([Variable(kind, i) for i in range(n)]) for kind, n in zip(VariableKind, self.counts, strict=True)
        ]
        return dims, ranges, runtime

    def used_variables(self) -> set[Variable]:
        """The variables that occur in results or constraints."""
        return ex.variables_of([*self.results, *(expr for expr, _ in self.constraints)])

    # Evaluation

    def evaluate(self, point: Sequence[int]) -> tuple[int, ...] | None:
        """The results at a point; None outside the domain. A point lists the values of the dimensions, then of the
        range variables, then of the runtime variables.

        SizeOverflowError if a value at a point of the domain has more than 128 bits. InvalidIndexError for a wrong
        number of values.
        """
        compiled = self._compiled_for("evaluated")
        results = compiled.evaluate(map_parts.checked_integers(point, "point"))
        return None if self.is_known_empty else results

    def evaluate_batch(self, points: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """int64[n, variables] → (int64[n, results], bool[n] "is in the domain"); rows outside the domain hold 0.

        Exact. Raises SizeOverflowError if, at a point of the domain, a result does not fit int64 or an intermediate
        value does not fit 128 bits.

        >>> results, inside = IndexingMap.from_sizes([32], results=[dim(0) // 8, dim(0) % 8]).evaluate_batch(
        ...     [[9], [31], [32]]
        ... )
        >>> results.tolist(), inside.tolist()
        ([[1, 1], [3, 7], [0, 0]], [True, True, False])
        """
        results, inside = self._compiled_for("evaluated").evaluate_batch(points)
        if self.is_known_empty:
            results[:] = 0
            inside[:] = False
        return results, inside

    def domain_points(self) -> Iterator[tuple[int, ...]]:
        """Every point of the domain in lexicographic order, computed lazily. Each point that is tried takes a step of
        the budget.
        """
        compiled = self._compiled_for("enumerated")
        if not self.is_known_empty:
            yield from compiled.domain_points()

    def _compiled_for(self, purpose: str) -> CompiledExpressions:
        if self.is_undefined:
            raise InvalidMapError(f"an undefined map cannot be {purpose}")
        try:
            return self._compiled
        except AttributeError:
            bounds = [var.bounds for var in self.variables]
            parts = ([const(0)] * len(self.results), ()) if self.is_known_empty else (self.results, self.constraints)
            compiled = CompiledExpressions(bounds, self.counts, *parts)
            set_field(self, "_compiled", compiled)
            return compiled

    # Algebra

    def compose(self, second: IndexingMap) -> IndexingMap:
        """`self` maps A to B, `second` B to C: the map from A to C, simplified.

        The dimensions are those of `self`. Range variables of both are kept, those of `second` first, and so are
        runtime variables: their producers are those of `second`, with maps composed with `self`, and then those of
        `self`. The domain of `second` becomes constraints on the results of `self`. The composition is undefined if
        either map is; otherwise it is known to be empty if either map is.

        >>> first = IndexingMap.parse("(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 7], s0 in [0, 3]")
        >>> first.compose(IndexingMap.parse("(d0) -> (d0 floordiv 4, d0 mod 4), domain: d0 in [0, 31]"))
        (d0)[s0] -> (d0, s0), domain: d0 in [0, 7], s0 in [0, 3]
        """
        return _composed(self, checked_map(second, "second"))

    def compose_unsimplified(self, second: IndexingMap) -> IndexingMap:
        """The composition that `compose` simplifies: the results of `self` replace the dimensions of `second`.

        A composition known to be empty has the number of results of `second`, too.
        """
        checked_map(second, "second")
        if self.is_undefined or second.is_undefined:
            return IndexingMap.undefined()
        if len(self.results) != len(second.dims):
            raise InvalidMapError(
                f"the first map has {len(self.results)} results, the second {len(second.dims)} dimensions"
            )
        groups = map_parts.distinct_names([self.dims, second.ranges + self.ranges, second.runtime + self.runtime])
        if self.is_known_empty or second.is_known_empty:
            return IndexingMap._of(MapParts("empty", *groups, second.results))
        renumbered: dict[Variable, Expr] = {}
        for kind, own, shift in (
            (VariableKind.RANGE, self.ranges, len(second.ranges)),
            (VariableKind.RUNTIME, self.runtime, len(second.runtime)),
        ):
            if shift:
                renumbered.update({Variable(kind, i): Variable(kind, i + shift) for i in range(len(own))})
        middle, own_constraints = ex.substitute_in_map(self.results, self.constraints, renumbered)
        replaced = {Variable(VariableKind.DIM, i): result for i, result in enumerate(middle)}
        results, second_constraints = ex.substitute_in_map(second.results, second.constraints, replaced)
        domain = [(expr, var.bounds) for expr, var in zip(middle, second.dims, strict=True)]
        return IndexingMap._of(MapParts("map", *groups, results, (*domain, *second_constraints, *own_constraints)))

    def simplify(self) -> IndexingMap:
        """The map in XLA's simplified form. It has the same variables, the same domain, and the same results at every
        point of the domain.

        >>> IndexingMap.parse("(d0, d1) -> (d0 + d1 / 16, d1 mod 16), domain: d0 in [0, 6], d1 in [0, 14]").simplify()
        (d0, d1) -> (d0, d1), domain: d0 in [0, 6], d1 in [0, 14]

        As in XLA the bounds that a congruence narrows are used for the results, and for the constraints only if the map
        is simplified again:

        >>> IndexingMap.parse("(d0) -> (d0), domain: d0 in [1, 15], d0 mod 8 in [0, 0]").simplify()
        (d0) -> (8), domain: d0 in [8, 8], d0 mod 8 in [0, 0]
        >>> IndexingMap.parse("(d0) -> (d0), domain: d0 in [1, 15], d0 mod 8 in [0, 0]").simplify().simplify()
        (d0) -> (8), domain: d0 in [8, 8]
        """
        simple = self._simplified
        if simple is False:
            is_simple = self.is_undefined or self.is_known_empty or self._is_plain()
            simple = self if is_simple else _simplified(self)
            if simple is self or not any(map(_is_congruence, simple.constraints)):
                set_field(simple, "_simplified", True)
            if simple == self:
                simple = True
            set_field(self, "_simplified", simple)
        return simple if isinstance(simple, IndexingMap) else self

    def _is_plain(self) -> bool:
        """Whether the map has no constraints, and its results are constants and variables of more than one value. Such
        a map is in simplified form.

        Half of the maps of a module are plain. Recognizing them saves a twentieth of the time of the first analysis of
        a module.
        """
        if self.constraints:
            return False
        groups = self._groups
        for result in self.results:
            if isinstance(result, Variable):
                lower, upper = groups[result.kind][result.index].bounds
                if lower == upper:
                    return False
            elif not isinstance(result, ex.Constant):
                return False
        return True

    def remove_unused_symbols(self) -> WithoutUnused:
        """The map without the range and runtime variables that only constraints on themselves mention. These
        constraints are dropped, too.

        The result says which variables were kept, so that the caller can keep the same producers. Matches
        `xla::IndexingMap::RemoveUnusedSymbols`, except that constraints stay if no point is found at which they hold.

        >>> IndexingMap.from_sizes([4], [5, 6], [dim(0) + Variable(VariableKind.RANGE, 1)]).remove_unused_symbols()
        WithoutUnused(map=(d0)[s0] -> (d0 + s0), domain: d0 in [0, 3], s0 in [0, 5], kept_ranges=(False, True), kept_runtime=())
        """  # noqa: E501 - an answer is one line
        if not self.ranges and not self.runtime:
            return WithoutUnused(self, (), ())
        kept, (_, ranges, runtime) = self._without_unused(VariableKind.RANGE, VariableKind.RUNTIME)
        return WithoutUnused(kept, ranges, runtime)

    def remove_unused_vars(self) -> tuple[IndexingMap, tuple[bool, ...], WithoutUnused]:
        """Removes unused dimensions after `remove_unused_symbols` has removed unused symbols. Returns the map, a flag
        for each dimension whether it was kept, and what `remove_unused_symbols` returned.

        >>> IndexingMap.from_sizes([4, 9], results=[dim(1)]).remove_unused_vars()[:2]
        ((d0) -> (d0), domain: d0 in [0, 8], (False, True))
        """
        without = self.remove_unused_symbols()
        kept, (dims, _, _) = without.map._without_unused(VariableKind.DIM)
        return kept, dims, without

    def _without_unused(self, *kinds: VariableKind) -> tuple[IndexingMap, Flags]:
        """The map without the unused variables of these kinds and without the constraints on them, and a flag for each
        variable whether it was kept.

        A variable is used if a result mentions it, or a constraint that also mentions a used variable or a variable of
        another kind. Constraints are dropped only if a point is found at which all of them hold. Otherwise a map
        without points could become a map with points.
        """
        constraints = self.constraints
        bounds = map_parts.variable_bounds(*self._groups)
        used = ex.variables_of(self.results) | {variable for variable in bounds if variable.kind not in kinds}
        if len(used) < len(bounds) and constraints:
            mentioned = [(constraint, ex.variables_of([constraint[0]])) for constraint in constraints]
            dropped = _constraints_apart(mentioned, used)
            variables = sorted(set[Variable]().union(*(names for _, names in dropped)), key=attrgetter("kind", "index"))
            apart = [constraint for constraint, _ in dropped]
            if apart and _hold_somewhere(apart, variables, bounds):
                constraints = tuple([kept for kept in constraints if kept not in apart])
            used.update(*(ex.variables_of([expr]) for expr, _ in constraints))
        dims, ranges, runtime = [
            tuple([Variable(kind, i) in used for i in range(len(group))])
            for kind, group in zip(VariableKind, self._groups, strict=True)
        ]
        return self._restricted((dims, ranges, runtime), constraints), (dims, ranges, runtime)

    def keep_variables(self, dims: Sequence[bool], ranges: Sequence[bool], runtime: Sequence[bool]) -> IndexingMap:
        """The map without the variables marked False, which no expression may mention. The other variables are
        renumbered.
        """
        return self._restricted((dims, ranges, runtime), self.constraints)

    def _restricted(self, kept: Sequence[Sequence[bool]], constraints: tuple[Constraint, ...]) -> IndexingMap:
        if all(map(all, kept)):
            return self
        renumbered: dict[Variable, Expr] = {}
        groups: list[tuple[Var, ...]] = []
        for kind, group, flags in zip(VariableKind, self._groups, kept, strict=True):
            numbers = [i for i, keep in zip(range(len(group)), flags, strict=True) if keep]
            renumbered |= {Variable(kind, old): Variable(kind, new) for new, old in enumerate(numbers) if new != old}
            groups.append(tuple([group[i] for i in numbers]))
        results, constraints = ex.substitute_in_map(self.results, constraints, renumbered)
        return IndexingMap._of(MapParts(self._parts().kind, *map_parts.distinct_names(groups), results, constraints))


def _is_congruence(constraint: Constraint) -> bool:
    """Whether a constraint of a simplified map is one on x mod m, for a variable x. Simplifying the map again may drop
    such a constraint.
    """
    expr, _ = constraint
    return isinstance(expr, ex.Mod) and isinstance(expr.lhs, Variable)


def _constraints_apart(
    mentioned: list[tuple[Constraint, set[Variable]]], used: set[Variable]
) -> list[tuple[Constraint, set[Variable]]]:
    """The constraints that share no variable with `used`, not even through other constraints. The variables of the
    other constraints are added to `used`.
    """
    apart = mentioned
    while True:
        touching = [names for _, names in apart if not names.isdisjoint(used)]
        if not touching:
            return apart
        apart = [pair for pair in apart if pair[1].isdisjoint(used)]
        used.update(*touching)


def _hold_somewhere(
    constraints: list[Constraint], variables: list[Variable], bounds: Mapping[Variable, Interval]
) -> bool:
    """Whether one of the first points within the bounds satisfies all the constraints."""
    renumbered: dict[Variable, Expr] = {variable: Variable(VariableKind.DIM, i) for i, variable in enumerate(variables)}
    _, renamed = ex.substitute_in_map((), constraints, renumbered)
    intervals = [bounds[variable] for variable in variables]
    compiled = CompiledExpressions(intervals, (len(intervals), 0, 0), (), renamed)
    points = product(*(range(interval.lower, interval.upper + 1) for interval in intervals))
    return any(_is_inside(compiled, point) for point in islice(points, _WITNESSES))


def _is_inside(compiled: CompiledExpressions, point: tuple[int, ...]) -> bool:
    try:
        return compiled.evaluate(point) is not None
    except SizeOverflowError:
        return False


def checked_map(value: IndexingMap, field: str = "map") -> IndexingMap:
    """The argument `value`. Raises InvalidMapError if it is not an IndexingMap, which happens in code without types."""
    if not is_a(value, IndexingMap):
        raise InvalidMapError(f"{field} takes an IndexingMap, not {type(value).__name__}", field=field)
    return value


class WithoutUnused(NamedTuple):
    """A map without unused variables, and a flag for every range and runtime variable of the original map whether it
    was kept.
    """

    map: IndexingMap
    kept_ranges: tuple[bool, ...]
    kept_runtime: tuple[bool, ...]


def parse_with_producers(text: str) -> tuple[IndexingMap, tuple[Producer | None, ...]]:
    """Reads a map and the producers of its runtime variables, in the order of these variables. A producer that the text
    does not give is None.
    """
    parts = map_parts.parse_map_parts(text)
    return IndexingMap.from_parts(parts), parts.producers


_LARGEST_CACHED = 256
"""The largest number of nodes of a map that the caches below keep. Larger maps are rare, and a few of them would
displace hundreds of others.
"""


def _bytes(maps: tuple[IndexingMap, ...], result: IndexingMap) -> int:
    """An upper bound of the bytes of a cache entry whose maps are compiled for evaluation, measured over the maps of
    the tests.

    Counts nodes as if expressions shared none. A map with more than `_LARGEST_CACHED` nodes weighs more than a cache
    keeps.
    """
    total = 0
    for kept in (*maps, result):
        variables, nodes = len(kept.dims) + len(kept.ranges) + len(kept.runtime), 0
        for expr in kept.results:
            nodes += expr.size
        for expr, _ in kept.constraints:
            nodes += expr.size
        total += 1000 + 300 * variables + (500 * nodes if nodes <= _LARGEST_CACHED else 1 << 62)
    return total


@cached(max_bytes=64 << 20, weigh=_bytes)
def _simplified(unsimplified: IndexingMap) -> IndexingMap:
    """The simplified map. The result is cached, since modules repeat their operations. It is known to be empty if the
    simplifier finds that no point is in the domain.
    """
    dims, ranges, runtime = groups = (unsimplified.dims, unsimplified.ranges, unsimplified.runtime)
    bounds: dict[Variable, Bounds] = {**map_parts.variable_bounds(*groups)}
    simple = simplify_parts(bounds, unsimplified.results, list(unsimplified.constraints))
    if simple is None:
        parts = MapParts("empty", dims, ranges, runtime, (const(0),) * len(unsimplified.results))
    else:
        if simple.bounds is not bounds:
            dims, ranges, runtime = [
                tuple([Var(Interval(*simple.bounds[Variable(kind, i)]), var.name) for i, var in enumerate(group)])
                for kind, group in zip(VariableKind, groups, strict=True)
            ]
        parts = MapParts("map", dims, ranges, runtime, simple.results, tuple(simple.constraints))
    return IndexingMap._of(parts)  # pyright: ignore[reportPrivateUsage]  # as a method of the class


# This cache saves a fifth of the time that the maps of ResNet-50 and Gemma 2 take, and most of the time of their report
# `reads`.
@cached(max_bytes=64 << 20, weigh=_bytes)
def _composed(first: IndexingMap, second: IndexingMap) -> IndexingMap:
    return first.compose_unsimplified(second).simplify()
