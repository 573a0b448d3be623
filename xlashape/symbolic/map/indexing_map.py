"""Indexing maps: which elements of tensor B belong to one element of tensor A. Matches `xla::IndexingMap`.

    (d0, d1)[s0]{rt0} -> (d0 + rt0, s0), domain: d0 in [0, 9], d1 in [0, 19], s0 in [0, 4], rt0 in [0, 2], d0 + s0 in [0, 11]

A value of the dimensions d names an element of A. Every value of the range variables s that the domain allows belongs to the answer. Runtime variables
rt have one value, known only at run time; who produces it is kept by the floors above, in the order of `runtime`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from xlashape.errors import InvalidMapError
from xlashape.symbolic.expr.expression import Constant, Expr, Operand, Variable, VariableKind, as_expr, const, dim
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.expr.substitute import variables_of
from xlashape.symbolic.expr.text import default_name
from xlashape.symbolic.map.frozen_map import FrozenMap, fill, set_known_empty, set_undefined
from xlashape.symbolic.map.parts import MapParts, Producer, Var
from xlashape.symbolic.map.renumber import composed, restricted
from xlashape.symbolic.map.text import map_text, parse_map_parts
from xlashape.symbolic.map.well_formed import check_names, checked_interval, checked_variables, listed
from xlashape.symbolic.simplify.domain import Constraint
from xlashape.symbolic.simplify.whole_map import simplify_parts

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from xlashape.proto import v1

__all__ = ["IndexingMap", "Var", "WithoutUnused", "checked_map"]

_CACHED = 1 << 12
"""Simplified maps and compositions that are remembered. A large model has a few hundred different ones."""

_LARGEST_CACHED = 1 << 8
"""Nodes of a map that is remembered, at some 300 bytes each: larger ones would hold memory that nobody asked to keep."""


class IndexingMap(FrozenMap):
    """A frozen, hashable map. Two maps are equal if they are written the same, names included; see `same_function` for more.

    `dims`, `ranges` and `runtime` are the variables with their bounds, `results` one expression per dimension of B, `constraints` pairs
    (expression, interval), all of which hold in the domain. A constraint on a variable alone narrows its bounds instead; one on a constant goes
    away, or makes the map known to be empty.

    >>> m = IndexingMap.from_sizes([4, 8], results=[dim(0) * 8 + dim(1)])
    >>> m
    (d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]
    >>> m.evaluate((1, 2)), m.evaluate((4, 0))
    ((10,), None)
    """

    __slots__ = ()

    def __init__(
        self,
        dims: Iterable[Var] = (),
        ranges: Iterable[Var] = (),
        runtime: Iterable[Var] = (),
        results: Iterable[Operand] = (),
        constraints: Iterable[tuple[Operand, Interval | tuple[int, int]]] = (),
    ) -> None:
        groups = [checked_variables(group) for group in (dims, ranges, runtime)]
        groups = [
            tuple([var._replace(name="") if var.name == default_name(kind, i) else var for i, var in enumerate(group)])
            for kind, group in zip(VariableKind, groups, strict=True)
        ]
        expressions = tuple([as_expr(result) for result in listed(results, "results")])
        pairs = [_checked_constraint(constraint) for constraint in listed(constraints, "constraints")]
        counts = [len(group) for group in groups]
        for variable in variables_of([*expressions, *(expr for expr, _ in pairs)]):
            if variable.index >= counts[variable.kind]:
                raise InvalidMapError(
                    f"{variable!r} is not a variable of the map: it has {counts[variable.kind]} of that kind"
                )
        check_names(groups)
        fill(self, groups[0], groups[1], groups[2], expressions, pairs)

    # Construction

    @classmethod
    def _make(
        cls,
        dims: tuple[Var, ...],
        ranges: tuple[Var, ...],
        runtime: tuple[Var, ...],
        results: tuple[Expr, ...],
        constraints: Sequence[Constraint],
    ) -> IndexingMap:
        """Of parts that are known to fit each other."""
        made = object.__new__(cls)
        fill(made, dims, ranges, runtime, results, constraints)
        return made

    @classmethod
    def _of(cls, parts: MapParts) -> IndexingMap:
        return cls._make(parts.dims, parts.ranges, parts.runtime, parts.results, parts.constraints)

    @classmethod
    def from_sizes(
        cls, dim_sizes: Iterable[int], range_sizes: Iterable[int] = (), results: Iterable[Operand] = ()
    ) -> IndexingMap:
        """Variables d0, d1, … in [0, size - 1] and s0, s1, … likewise. A size of 0 gives a map known to be empty."""
        dims, ranges = [
            [Var(Interval.of_size(const(size).value)) for size in listed(sizes, "sizes")]
            for sizes in (dim_sizes, range_sizes)
        ]
        return cls(dims, ranges, (), results)

    @classmethod
    def identity(cls, sizes: Iterable[int]) -> IndexingMap:
        """Every element of a tensor of these sizes to itself.

        >>> IndexingMap.identity([2, 3])
        (d0, d1) -> (d0, d1), domain: d0 in [0, 1], d1 in [0, 2]
        """
        sizes = listed(sizes, "sizes")
        return cls.from_sizes(sizes, results=[dim(i) for i in range(len(sizes))])

    @classmethod
    def empty(cls) -> IndexingMap:
        """A map known to be empty: no point satisfies its domain. Prints as KNOWN EMPTY."""
        made = cls()
        set_known_empty(made, True)
        return made

    @classmethod
    def undefined(cls) -> IndexingMap:
        """A map of which nothing is known. Prints as UNDEFINED."""
        made = cls()
        set_undefined(made, True)
        return made

    @classmethod
    def parse(cls, text: str) -> IndexingMap:
        """Reads a map in either spelling (see `xlashape.symbolic.map.text`). Producers of runtime variables are read over. Raises ParseError.

        >>> IndexingMap.parse("(d0)[s0] -> (d0 floordiv 8, s0), domain: d0 in [0, 31], s0 in [0, 3], d0 + s0 in [0, 9]")
        (d0)[s0] -> (d0 / 8, s0), domain: d0 in [0, 31], s0 in [0, 3], d0 + s0 in [0, 9]
        """
        return cls.from_parts(parse_map_parts(text))

    @classmethod
    def from_parts(cls, parts: MapParts) -> IndexingMap:
        """What text says, as a map; the producers stay with `parts`."""
        if parts.kind != "map":
            return cls.empty() if parts.kind == "empty" else cls.undefined()
        check_names([parts.dims, parts.ranges, parts.runtime])
        return cls._of(parts)

    # Text, pickles and protos

    def __reduce__(self) -> tuple[Any, ...]:
        if self.is_undefined:
            return (IndexingMap.undefined, ())
        return (_rebuild, (self.dims, self.ranges, self.runtime, self.results, self.constraints, self.is_known_empty))

    def __repr__(self) -> str:
        return self.to_text()

    __str__ = __repr__

    def to_text(self, style: str = "xla") -> str:
        """One line of text. `style` "xla" writes floor division as `/`, "affine" as `floordiv`. SizeOverflowError if a number does not fit int64.

        >>> IndexingMap.from_sizes([32], results=[dim(0) // 8]).to_text(style="affine")
        '(d0) -> (d0 floordiv 8), domain: d0 in [0, 31]'
        """
        return map_text(self._parts(), style)

    def to_proto(self) -> v1.IndexingMap:
        """A new `xlashape.v1.IndexingMap`. SizeOverflowError if a number does not fit int64."""
        from xlashape.symbolic.map.serde import map_to_proto  # protobuf loads on first use

        return map_to_proto(self)

    @classmethod
    def from_proto(cls, value: bytes | Message) -> IndexingMap:
        """The map of an `xlashape.v1.IndexingMap`: its bytes, or a message of any protobuf pool.

        DecodeError for bytes that are none, InvalidMapError with the path of the field for a map that cannot be, LimitExceededError for
        expressions beyond the limits.

        >>> m = IndexingMap.parse("(d0) -> (d0 mod 4), domain: d0 in [0, 31]")
        >>> IndexingMap.from_proto(m.to_proto()) == m
        True
        """
        from xlashape.symbolic.map.serde import map_from_proto

        return map_from_proto(value)

    # Algebra

    def compose(self, second: IndexingMap) -> IndexingMap:
        """`self` maps A to B, `second` B to C: the map from A to C, simplified.

        The dimensions are those of `self`. Range variables of both are kept, those of `second` first; runtime variables likewise, so whoever keeps
        producers puts `second`'s before `self`'s, composing `self` with the maps of `second`'s producers. The domain of `second` becomes
        constraints on the results of `self`. Undefined if either is; else known empty if either is.

        >>> first = IndexingMap.parse("(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 7], s0 in [0, 3]")
        >>> first.compose(IndexingMap.parse("(d0) -> (d0 floordiv 4, d0 mod 4), domain: d0 in [0, 31]"))
        (d0)[s0] -> (d0, s0), domain: d0 in [0, 7], s0 in [0, 3]
        """
        checked_map(second, "second")
        if self._size() + second._size() > _LARGEST_CACHED:
            return _composed.__wrapped__(self, second)
        return _composed(self, second)

    def compose_unsimplified(self, second: IndexingMap) -> IndexingMap:
        """`compose` as substitution alone: the results of `second` with the results of `self` in place of its dimensions."""
        checked_map(second, "second")
        if self.is_undefined or second.is_undefined:
            return IndexingMap.undefined()
        if len(self.results) != len(second.dims):
            raise InvalidMapError(
                f"the first map has {len(self.results)} results, the second {len(second.dims)} dimensions"
            )
        if self.is_known_empty or second.is_known_empty:
            return IndexingMap.empty()
        return IndexingMap._of(composed(self._parts(), second._parts()))

    def simplify(self) -> IndexingMap:
        """The same function in XLA's simplified form: same variables, same domain, same results at every point of it.

        >>> IndexingMap.parse("(d0, d1) -> (d0 + d1 / 16, d1 mod 16), domain: d0 in [0, 6], d1 in [0, 14]").simplify()
        (d0, d1) -> (d0, d1), domain: d0 in [0, 6], d1 in [0, 14]
        """
        if self.is_undefined or self.is_known_empty:
            return self
        if "is_simplified" in self._cache:
            return self
        found = self._cache.get("simplified")
        if found is None:
            if not self.constraints:
                found = self._plainly_simplified()
            if found is None:
                found = _simplified(self) if self._size() <= _LARGEST_CACHED else _simplified.__wrapped__(self)
            if found == self:
                self._cache["is_simplified"] = True
                return self
            found._cache["is_simplified"] = True
            self._cache["simplified"] = found
        return found

    def _plainly_simplified(self) -> IndexingMap | None:
        """The simplified form of a map whose results are variables and constants alone, without constraints; None for any other map."""
        groups = (self.dims, self.ranges, self.runtime)
        fixed = False
        for result in self.results:
            if isinstance(result, Variable):
                lower, upper = groups[result.kind][result.index].bounds
                fixed = fixed or lower == upper
            elif not isinstance(result, Constant):
                return None
        if not fixed:
            return self
        results: list[Expr] = []
        for result in self.results:
            if isinstance(result, Variable):
                lower, upper = groups[result.kind][result.index].bounds
                results.append(Constant(lower) if lower == upper else result)
            else:
                results.append(result)
        return IndexingMap._make(self.dims, self.ranges, self.runtime, tuple(results), ())

    def remove_unused_symbols(self) -> WithoutUnused:
        """Without the range and runtime variables that nothing mentions. The answer also says which were kept, so that producers can follow.

        >>> IndexingMap.from_sizes([4], [5, 6], [dim(0) + Variable(VariableKind.RANGE, 1)]).remove_unused_symbols()
        WithoutUnused(map=(d0)[s0] -> (d0 + s0), domain: d0 in [0, 3], s0 in [0, 5], kept_ranges=(False, True), kept_runtime=())
        """
        if not self.ranges and not self.runtime:
            return WithoutUnused(self, (), ())
        used = self.used_variables()
        keep_ranges = tuple([Variable(VariableKind.RANGE, i) in used for i in range(len(self.ranges))])
        keep_runtime = tuple([Variable(VariableKind.RUNTIME, i) in used for i in range(len(self.runtime))])
        if all(keep_ranges) and all(keep_runtime):
            return WithoutUnused(self, keep_ranges, keep_runtime)
        kept = self.keep_variables((True,) * len(self.dims), keep_ranges, keep_runtime)
        return WithoutUnused(kept, keep_ranges, keep_runtime)

    def remove_unused_vars(self) -> tuple[IndexingMap, tuple[bool, ...], WithoutUnused]:
        """Also without the dimensions that nothing mentions: the map, which dimensions were kept, and what `remove_unused_symbols` answered.

        >>> IndexingMap.from_sizes([4, 9], results=[dim(1)]).remove_unused_vars()[:2]
        ((d0) -> (d0), domain: d0 in [0, 8], (False, True))
        """
        without = self.remove_unused_symbols()
        used = without.map.used_variables()
        keep = tuple([variable in used for variable in without.map.variable_expressions()[0]])
        _, ranges, runtime = without.map.counts
        return without.map.keep_variables(keep, (True,) * ranges, (True,) * runtime), keep, without

    def keep_variables(self, dims: Sequence[bool], ranges: Sequence[bool], runtime: Sequence[bool]) -> IndexingMap:
        """Without the variables marked False, which nothing may mention; those left are renumbered."""
        if all(dims) and all(ranges) and all(runtime):
            return self
        made = IndexingMap._of(restricted(self._parts(), (dims, ranges, runtime)))
        if self.is_known_empty:
            set_known_empty(made, True)
        return made


def checked_map(value: IndexingMap, field: str = "map") -> IndexingMap:
    """The map, or InvalidMapError for anything else. For callers without types."""
    if not isinstance(value, IndexingMap):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidMapError(f"{field} takes an IndexingMap, not {type(value).__name__}", field=field)
    return value


def _checked_constraint(constraint: tuple[Operand, Interval | tuple[int, int]]) -> tuple[Expr, Interval]:
    try:
        expr, interval = constraint
    except (TypeError, ValueError):
        raise InvalidMapError(
            f"a constraint is an expression and an interval, not {constraint!r:.60}", field="constraints"
        ) from None
    return as_expr(expr), checked_interval(interval)


class WithoutUnused(NamedTuple):
    """A map without unused variables, and which of them were kept: a flag for every variable there was."""

    map: IndexingMap
    kept_ranges: tuple[bool, ...]
    kept_runtime: tuple[bool, ...]


def parse_with_producers(text: str) -> tuple[IndexingMap, tuple[Producer | None, ...]]:
    """A map and what the text says about the producers of its runtime variables, in their order."""
    parts = parse_map_parts(text)
    return IndexingMap.from_parts(parts), parts.producers


@lru_cache(maxsize=_CACHED)
def _simplified(found: IndexingMap) -> IndexingMap:
    """Equal maps are simplified once: real modules repeat their operations."""
    bounds: dict[Variable, tuple[int, int]] = {}
    for kind, group in zip(VariableKind, (found.dims, found.ranges, found.runtime), strict=True):
        for i, var in enumerate(group):
            bounds[Variable(kind, i)] = var.bounds
    make = IndexingMap._make  # pyright: ignore[reportPrivateUsage]  # the class's own other half
    parts = simplify_parts(bounds, found.results, list(found.constraints))
    if parts is None:
        made = make(found.dims, found.ranges, found.runtime, (const(0),) * len(found.results), ())
        set_known_empty(made, True)
        return made
    groups = [found.dims, found.ranges, found.runtime]
    if parts.bounds is not bounds:
        groups = [
            tuple([Var(Interval(*parts.bounds[Variable(kind, i)]), var.name) for i, var in enumerate(group)])
            for kind, group in zip(VariableKind, groups, strict=True)
        ]
    return make(groups[0], groups[1], groups[2], parts.results, parts.constraints)


@lru_cache(maxsize=_CACHED)
def _composed(first: IndexingMap, second: IndexingMap) -> IndexingMap:
    return first.compose_unsimplified(second).simplify()


def _rebuild(*parts: Any) -> IndexingMap:
    made = IndexingMap._make(*parts[:5])  # pyright: ignore[reportPrivateUsage]
    if parts[5]:
        set_known_empty(made, True)
    return made
