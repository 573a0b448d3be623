"""Functions on maps: they change the variables or results of a map, invert it, or enumerate the points of its domain
and of its image. `rescale_symbols` and `ranges_to_dims` match functions of `xla::IndexingMap`.

A function that changes the variables of a map does not simplify it: call `simplify` on what it returns.

`inverse` reads each result as a number in mixed radix, Σ coefficient × digit + constant. A digit is a variable or
another term without factor whose range is too small to reach the next larger coefficient, so a floor division and a mod
of the result give it. From the digits x / m and x mod m follows x, which is taken apart in the same way, until all
dimensions are known. At the end the simplifier must prove that the map followed by the inverse is the identity, so that
every inverse returned is right.

The points of a domain without constraints are counted without enumeration. Others are enumerated in blocks: every point
counts against the budget of `xlashape.limits`, and `maximum` bounds the number of points of one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import lcm
from typing import TYPE_CHECKING

from xlashape.base.math import ceil_div, product
from xlashape.errors import InvalidMapError, UnsupportedError
from xlashape.limits import INT64_MAX, check, spend
from xlashape.symbolic.expr import expression as ex
from xlashape.symbolic.expr.expression import Constant, Expr, Variable, VariableKind, const, dim, rng
from xlashape.symbolic.expr.ranges import Interval, Ranges
from xlashape.symbolic.map.indexing_map import IndexingMap, checked_map
from xlashape.symbolic.map.parts import Var, checked_integers, variable_bounds
from xlashape.symbolic.simplify.domain import Constraint, joined_digits
from xlashape.symbolic.simplify.rules.rule import Form
from xlashape.symbolic.simplify.simplifier import Simplifier

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def rescale_symbols(indexing_map: IndexingMap) -> IndexingMap:
    """Rescales the range variables of which a constraint `s mod k in [c, c]` allows only every k-th value: s becomes s
    * k + c.

    Each element of A keeps its set of elements of B; the range variables take other values. Constraints `s mod k in [c,
    c]` and `s mod l in [c, c]` are merged into one, for the least common multiple of k and l. Constraints on the same
    variable with different c are applied one after the other. Matches `xla::IndexingMap::RescaleSymbols`.

    >>> m = IndexingMap.parse("(d0)[s0] -> (d0 + s0), domain: d0 in [0, 3], s0 in [0, 12], s0 mod 6 in [0, 0]")
    >>> rescale_symbols(m)
    (d0)[s0] -> (d0 + s0 * 6), domain: d0 in [0, 3], s0 in [0, 2]
    >>> m = IndexingMap.parse(
    ...     "(d0)[s0] -> (s0), domain: d0 in [0, 3], s0 in [0, 12], s0 mod 2 in [0, 0], s0 mod 3 in [0, 0]"
    ... )
    >>> rescale_symbols(m)
    (d0)[s0] -> (s0 * 6), domain: d0 in [0, 3], s0 in [0, 2]
    """
    checked_map(indexing_map)
    while not indexing_map.is_undefined and not indexing_map.is_known_empty:
        congruence = next((c for c in indexing_map.constraints if _is_congruence_of_range(c[0], c[1])), None)
        if congruence is None:
            break
        indexing_map = _rescaled(indexing_map, *congruence)
    return indexing_map


def _is_congruence_of_range(expr: Expr, interval: Interval) -> bool:
    return (
        isinstance(expr, ex.Mod)
        and isinstance(expr.lhs, Variable)
        and expr.lhs.kind is VariableKind.RANGE
        and isinstance(expr.rhs, Constant)
        and interval.is_point
        and 0 <= interval.lower < expr.rhs.value
    )


def _rescaled(indexing_map: IndexingMap, expr: Expr, interval: Interval) -> IndexingMap:
    assert isinstance(expr, ex.Mod) and isinstance(expr.lhs, Variable)
    variable, first = expr.lhs, interval.lower
    merged: list[Constraint] = []
    step = 1
    for other, values in indexing_map.constraints:
        if isinstance(other, ex.Mod) and other.lhs is variable and values == interval:
            if _is_congruence_of_range(other, values) and isinstance(other.rhs, Constant):
                common = lcm(step, other.rhs.value)
                if common <= INT64_MAX:
                    step = common
                    merged.append((other, values))
    low, high = indexing_map.ranges[variable.index].bounds
    bounds = Interval(ceil_div(low - first, step), (high - first) // step)
    ranges = list(indexing_map.ranges)
    ranges[variable.index] = Var(bounds, ranges[variable.index].name)
    others = [constraint for constraint in indexing_map.constraints if constraint not in merged]
    replaced = {variable: variable * step + first}
    results, constraints = ex.substitute_in_map(indexing_map.results, others, replaced)
    return IndexingMap(indexing_map.dims, ranges, indexing_map.runtime, results, constraints)


def ranges_to_dims(indexing_map: IndexingMap, indices: Iterable[int] | None = None) -> IndexingMap:
    """Turns the range variables with these indices, by default all, into dimensions, which come after the existing
    ones.

    Matches `xla::ConvertRangeVariablesToDimensions`. Raises InvalidMapError for an index that is out of range.

    >>> m = IndexingMap.from_sizes([4], [8], [dim(0) * 8 + rng(0)])
    >>> ranges_to_dims(m)
    (d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]
    """
    checked_map(indexing_map)
    if indexing_map.is_undefined:
        return indexing_map
    count = len(indexing_map.ranges)
    moved = list(range(count)) if indices is None else list(dict.fromkeys(checked_integers(indices, "indices")))
    if not all(0 <= i < count for i in moved):
        raise InvalidMapError(
            f"the map has {count} range variables: expected indices below {count}, found "
            f"{next(i for i in moved if not 0 <= i < count)}"
        )
    stay = [i for i in range(count) if i not in set(moved)]
    replaced: dict[Variable, Expr] = {rng(i): dim(len(indexing_map.dims) + k) for k, i in enumerate(moved)}
    replaced |= {rng(i): rng(k) for k, i in enumerate(stay)}
    return _with_variables(
        indexing_map,
        [*indexing_map.dims, *(indexing_map.ranges[i] for i in moved)],
        [indexing_map.ranges[i] for i in stay],
        replaced,
    )


def _with_variables(
    indexing_map: IndexingMap, dims: Sequence[Var], ranges: Sequence[Var], replaced: dict[Variable, Expr]
) -> IndexingMap:
    results, constraints = ex.substitute_in_map(indexing_map.results, _domain(indexing_map), replaced)
    return IndexingMap(dims, ranges, indexing_map.runtime, results, constraints)


def _domain(indexing_map: IndexingMap) -> tuple[Constraint, ...]:
    """The constraints. A map known to be empty gets one that never holds, since its bounds need not show that it is
    empty.
    """
    return ((const(0), Interval(1, 1)),) if indexing_map.is_known_empty else indexing_map.constraints


def join_digits(indexing_map: IndexingMap) -> IndexingMap:
    """Simplifies a map, and writes adjacent digits of a mixed-radix number in its results as one.

    `simplify` leaves such digits as they are, because XLA does.

    >>> join_digits(IndexingMap.parse("(d0) -> (((d0 / 2) mod 4) * 2 + d0 mod 2), domain: d0 in [0, 99]"))
    (d0) -> (d0 mod 8), domain: d0 in [0, 99]
    """
    simple = checked_map(indexing_map).simplify()
    if simple.is_undefined or simple.is_known_empty:
        return simple
    results = joined_digits({**variable_bounds(simple.dims, simple.ranges, simple.runtime)}, simple.results)
    return IndexingMap(simple.dims, simple.ranges, simple.runtime, results, simple.constraints)


def select_results(indexing_map: IndexingMap, indices: Iterable[int]) -> IndexingMap:
    """The map with the results of these indices only, in this order. The domain stays. Raises InvalidMapError for an
    index that is out of range.

    >>> select_results(IndexingMap.identity([2, 3, 4]), [2, 0])
    (d0, d1, d2) -> (d2, d0), domain: d0 in [0, 1], d1 in [0, 2], d2 in [0, 3]
    """
    checked_map(indexing_map)
    if indexing_map.is_undefined:
        return indexing_map
    chosen = checked_integers(indices, "indices")
    for i in chosen:
        if not 0 <= i < len(indexing_map.results):
            raise InvalidMapError(
                f"the map has {len(indexing_map.results)} results: expected indices below {len(indexing_map.results)}, "
                f"found {i}"
            )
    return IndexingMap(
        indexing_map.dims,
        indexing_map.ranges,
        indexing_map.runtime,
        [indexing_map.results[i] for i in chosen],
        _domain(indexing_map),
    )


# -- inverses ----------------------------------------------------------------------------------


def inverse(indexing_map: IndexingMap) -> IndexingMap:
    """The map from B to A that undoes a map from A to B, simplified. Its domain is exactly the image of the map.

    Raises UnsupportedError if the map has range or runtime variables, is undefined, or is not found to be one-to-one.

    >>> inverse(IndexingMap.from_sizes([4, 8], results=[dim(1), dim(0)]))
    (d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]
    >>> inverse(IndexingMap.parse("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]"))
    (d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]
    """
    checked_map(indexing_map)
    if indexing_map.is_undefined:
        raise UnsupportedError("an undefined map has no inverse")
    if indexing_map.ranges or indexing_map.runtime:
        raise UnsupportedError("a map with range or runtime variables has no inverse: an element stands for several")
    forward = indexing_map.simplify()
    if forward.is_known_empty:
        return IndexingMap.empty()
    values = _Solver(forward).solve()
    if values is None:
        raise UnsupportedError(f"no inverse was found: the map may not be one-to-one: {indexing_map!s:.200}")
    bounds = image_bounds(forward)
    candidate = IndexingMap([Var(interval) for interval in bounds], (), (), values)
    if not _undoes(forward, candidate):
        raise UnsupportedError(f"no inverse was found: the map may not be one-to-one: {indexing_map!s:.200}")
    # A point of B is in the image if the candidate takes it into the domain of A and the map takes the result back to
    # the same point.
    back = candidate.compose_unsimplified(forward)
    constraints = [*back.constraints, *((result - dim(i), Interval(0, 0)) for i, result in enumerate(back.results))]
    return IndexingMap(back.dims, (), (), values, constraints).simplify()


def _undoes(forward: IndexingMap, candidate: IndexingMap) -> bool:
    """Whether the simplifier proves that the map followed by the candidate is the identity."""
    both = IndexingMap(
        forward.dims, (), (), forward.compose_unsimplified(candidate).results, forward.constraints
    ).simplify()
    return all(
        result is dim(i) or (var.bounds.is_point and result is const(var.bounds.lower))
        for i, (result, var) in enumerate(zip(both.results, both.dims, strict=True))
    )


class _Solver:
    """Solves a map for its dimensions. `known` holds the atoms (variables, divisions, mods) solved so far, as
    expressions of the map's results, which are written d0, d1, ….
    """

    def __init__(self, forward: IndexingMap) -> None:
        self.forward = forward
        self.simplifier = Simplifier({**variable_bounds(forward.dims, (), ())})
        self.known: dict[Expr, Expr] = {}

    def solve(self) -> list[Expr] | None:
        """The dimensions in terms of the results; None if one is not found."""
        for i, result in enumerate(self.forward.results):
            self._take_apart(self.simplifier.form_of(result), dim(i))
        while self._join():
            spend(1)
        values: list[Expr] = []
        for i, var in enumerate(self.forward.dims):
            value = const(var.bounds.lower) if var.bounds.is_point else self.known.get(dim(i))
            if value is None:
                return None
            values.append(value)
        return values

    def _take_apart(self, form: Form, value: Expr) -> None:
        """Solves the digits of a number in mixed radix, given as a linear form, from its value."""
        terms, constant = form
        ordered = sorted(terms.items(), key=lambda term: abs(term[1]))
        lows: list[int] = []
        for atom, coefficient in ordered:
            low, high = self.simplifier.range_of(atom)
            lows.append(low * coefficient if coefficient > 0 else high * coefficient)
        # Now value = Σ |coefficient| × digit, with all digits counted from 0.
        value = value - (constant + sum(lows))
        reach = 0
        for i, (atom, coefficient) in enumerate(ordered):
            size = abs(coefficient)
            low, high = self.simplifier.range_of(atom)
            next_size = abs(ordered[i + 1][1]) if i + 1 < len(ordered) else None
            reach += size * (high - low)
            digit = value // size if size > 1 else value
            if next_size is not None:
                if next_size % size or next_size <= reach:
                    return
                digit = digit % (next_size // size)
            self.known.setdefault(atom, digit + low if coefficient > 0 else high - digit)

    def _join(self) -> bool:
        """Solves one x for which x / m and x mod m are known. Returns whether there was one."""
        for atom, value in list(self.known.items()):
            if not isinstance(atom, ex.Mod) or not isinstance(atom.rhs, Constant):
                continue
            modulus = atom.rhs.value
            terms, constant = self.simplifier.floor_div(*self.simplifier.form_of(atom.lhs), modulus)
            if any(part not in self.known for part in terms):
                continue
            total: Expr = value + constant * modulus
            for part, coefficient in terms.items():
                total = total + self.known[part] * (coefficient * modulus)
            del self.known[atom]
            inner = self.simplifier.form_of(atom.lhs)
            if len(inner[0]) == 1 and inner[1] == 0 and next(iter(inner[0].values())) == 1:
                self.known.setdefault(next(iter(inner[0])), total)
            else:
                self._take_apart(inner, total)
            return True
        return False


# -- images ------------------------------------------------------------------------------------


MAX_POINTS = 100_000_000
"""The largest number of points that one call enumerates by default."""

_BLOCK = 1 << 16


def _bounds_of(indexing_map: IndexingMap) -> list[Interval]:
    """The bounds of all variables. Raises InvalidMapError for an undefined map."""
    if indexing_map.is_undefined:
        raise InvalidMapError("an undefined map has no domain")
    return [var.bounds for var in indexing_map.variables]


def image_bounds(indexing_map: IndexingMap) -> tuple[Interval, ...]:
    """For every result an interval that contains all its values. It is the smallest one if no variable occurs twice and
    the map has no constraints.

    The intervals of a map known to be empty are empty.

    >>> image_bounds(IndexingMap.parse("(d0) -> (d0 mod 8, d0 / 8), domain: d0 in [0, 31]"))
    ([0, 7], [0, 3])
    """
    checked_map(indexing_map)
    bounds = _bounds_of(indexing_map)
    if indexing_map.is_known_empty:
        return tuple([Interval(0, -1)] * len(indexing_map.results))
    ranges = Ranges.of_bounds(bounds, indexing_map.counts)
    return tuple([Interval(*ranges.of(result)) for result in indexing_map.results])


def domain_blocks(
    indexing_map: IndexingMap, maximum: int = MAX_POINTS
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The points of the domain in lexicographic order, and the results there: blocks of int64[n, variables] and
    int64[n, results].

    Raises LimitExceededError if the bounds of the variables, without constraints, allow more than `maximum` points.
    """
    import numpy as np  # loads on first use, to keep the start of the library short; so it does below

    checked_map(indexing_map)
    bounds = _bounds_of(indexing_map)
    if indexing_map.is_known_empty:
        return
    total = product(interval.size for interval in bounds)
    check("points of a box", total, maximum)
    for start in range(0, total, _BLOCK):
        remaining = np.arange(start, min(total, start + _BLOCK), dtype=np.int64)
        spend(1 + (len(remaining) >> 6))
        points = np.empty((len(remaining), len(bounds)), dtype=np.int64)
        for i in range(len(bounds) - 1, -1, -1):
            size = bounds[i].size
            points[:, i] = remaining % size + bounds[i].lower
            remaining = remaining // size
        results, inside = indexing_map.evaluate_batch(points)
        yield (points, results) if inside.all() else (points[inside], results[inside])


def domain_size(indexing_map: IndexingMap, maximum: int = MAX_POINTS) -> int:
    """How many points the domain has. Enumerates only the variables that constraints of the simplified map mention.

    >>> domain_size(IndexingMap.parse("(d0, d1) -> (d0), domain: d0 in [0, 9], d1 in [0, 9], d0 + d1 in [0, 3]"))
    10
    """
    checked_map(indexing_map)
    _bounds_of(indexing_map)
    simple = indexing_map.simplify()
    if simple.is_known_empty:
        return 0
    used = _constrained(simple)
    free = [var.bounds.size for i, var in enumerate(simple.variables) if i not in used]
    if not used:
        return product(free)
    kept = [i in used for i in range(len(simple.variables))]
    dims, ranges, _ = simple.counts
    constrained = IndexingMap(simple.dims, simple.ranges, simple.runtime, (), simple.constraints).keep_variables(
        kept[:dims], kept[dims : dims + ranges], kept[dims + ranges :]
    )
    return product(free) * sum(len(points) for points, _ in domain_blocks(constrained, maximum))


def _constrained(indexing_map: IndexingMap) -> set[int]:
    """The indices, in a point, of the variables that constraints mention."""
    offsets = (0, len(indexing_map.dims), len(indexing_map.dims) + len(indexing_map.ranges))
    return {
        offsets[variable.kind] + variable.index
        for variable in ex.variables_of([expr for expr, _ in indexing_map.constraints])
    }


def image_size(indexing_map: IndexingMap, maximum: int = MAX_POINTS) -> int:
    """How many distinct tuples of results the map has.

    >>> image_size(IndexingMap.parse("(d0)[s0] -> (d0 + s0), domain: d0 in [0, 9], s0 in [0, 2]"))
    12
    """
    import numpy as np  # loads on first use, to keep the start of the library short; so it does below

    checked_map(indexing_map)
    _bounds_of(indexing_map)
    simple = indexing_map.simplify()
    if simple.is_known_empty:
        return 0
    used = simple.used_variables()
    flags = [[variable in used for variable in group] for group in simple.variable_expressions()]
    simple = simple.keep_variables(*flags)
    seen: np.ndarray | None = None
    for _, results in domain_blocks(simple, maximum):
        rows = np.unique(results, axis=0) if results.shape[1] else results[:1]
        seen = rows if seen is None else np.unique(np.concatenate([seen, rows]), axis=0) if rows.shape[1] else seen[:1]
    return 0 if seen is None else len(seen)


def same_function(a: IndexingMap, b: IndexingMap, maximum: int = MAX_POINTS) -> bool:
    """Whether two maps have the same domain and the same results everywhere on it. Names of variables do not matter.

    Maps with different numbers of variables or results are different. Two undefined maps are the same. If the
    simplified maps are not equal, the domains are enumerated.

    >>> same_function(IndexingMap.parse("(d0) -> (d0 mod 4), domain: d0 in [0, 3]"), IndexingMap.identity([4]))
    True
    """
    checked_map(a, "a")
    checked_map(b, "b")
    if a.is_undefined or b.is_undefined:
        return a.is_undefined and b.is_undefined
    if a.is_known_empty and b.is_known_empty:
        return True
    if a.is_known_empty or b.is_known_empty:
        other = b if a.is_known_empty else a
        return not any(len(points) for points, _ in domain_blocks(other, maximum))
    if a.counts != b.counts or len(a.results) != len(b.results):
        return False
    a, b = a.simplify(), b.simplify()
    if a == b:
        return True
    return _agrees(a, b, maximum) and _agrees(b, a, maximum)


def _agrees(a: IndexingMap, b: IndexingMap, maximum: int) -> bool:
    """Whether `b` has the results of `a` at every point of the domain of `a`."""
    for points, results in domain_blocks(a, maximum):
        others, inside = b.evaluate_batch(points)
        if not (inside.all() and (others == results).all()):
            return False
    return True
