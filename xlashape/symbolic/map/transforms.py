"""Functions that change the variables or the results of a map. They do not simplify it: call `simplify` on what they return."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from math import lcm

from xlashape.errors import InvalidMapError
from xlashape.limits import INT64_MAX
from xlashape.math import ceil_div
from xlashape.symbolic.expr.expression import Constant, Expr, Mod, Variable, VariableKind, const, dim, rng
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.expr.substitute import substitute
from xlashape.symbolic.map.indexing_map import IndexingMap, checked_map
from xlashape.symbolic.map.parts import Var, checked_integers
from xlashape.symbolic.simplify.domain import Constraint
from xlashape.symbolic.simplify.whole_map import joined_digits


def rescale_symbols(indexing_map: IndexingMap) -> IndexingMap:
    """Rescales the range variables of which a constraint `s mod k in [c, c]` allows every k-th value only: s becomes s * k + c.

    Each element of A keeps its set of elements of B; the range variables take other values. Constraints `s mod k in [c, c]` and `s mod l in [c, c]`
    are one, for the least common multiple of k and l; others on the same variable are applied one after the other. Matches `xla::IndexingMap::RescaleSymbols`.

    >>> m = IndexingMap.parse("(d0)[s0] -> (d0 + s0), domain: d0 in [0, 3], s0 in [0, 12], s0 mod 6 in [0, 0]")
    >>> rescale_symbols(m)
    (d0)[s0] -> (d0 + s0 * 6), domain: d0 in [0, 3], s0 in [0, 2]
    >>> m = IndexingMap.parse("(d0)[s0] -> (s0), domain: d0 in [0, 3], s0 in [0, 12], s0 mod 2 in [0, 0], s0 mod 3 in [0, 0]")
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
        isinstance(expr, Mod)
        and isinstance(expr.lhs, Variable)
        and expr.lhs.kind is VariableKind.RANGE
        and isinstance(expr.rhs, Constant)
        and interval.is_point
        and 0 <= interval.lower < expr.rhs.value
    )


def _rescaled(indexing_map: IndexingMap, expr: Expr, interval: Interval) -> IndexingMap:
    assert isinstance(expr, Mod) and isinstance(expr.lhs, Variable)
    variable, first = expr.lhs, interval.lower
    merged: list[Constraint] = []
    step = 1
    for other, values in indexing_map.constraints:
        if isinstance(other, Mod) and other.lhs is variable and values == interval:
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
    exprs = substitute((*indexing_map.results, *(other for other, _ in others)), replaced)
    count = len(indexing_map.results)
    constraints = list(zip(exprs[count:], [kept for _, kept in others], strict=True))
    return IndexingMap(indexing_map.dims, ranges, indexing_map.runtime, exprs[:count], constraints)


def ranges_to_dims(indexing_map: IndexingMap, indices: Iterable[int] | None = None) -> IndexingMap:
    """Turns the range variables with these indices, by default all, into dimensions, which come after the existing ones.

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
            f"the map has {count} range variables: expected indices below {count}, found {next(i for i in moved if not 0 <= i < count)}"
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
    domain = _domain(indexing_map)
    exprs = substitute((*indexing_map.results, *(expr for expr, _ in domain)), replaced)
    count = len(indexing_map.results)
    constraints = list(zip(exprs[count:], [interval for _, interval in domain], strict=True))
    return IndexingMap(dims, ranges, indexing_map.runtime, exprs[:count], constraints)


def _domain(indexing_map: IndexingMap) -> tuple[Constraint, ...]:
    """The constraints. A map known to be empty gets one that never holds, since its bounds need not show that it is empty."""
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
    bounds = {
        variable: (var.bounds.lower, var.bounds.upper)
        for variable, var in zip(chain(*simple.variable_expressions()), simple.variables, strict=True)
    }
    results = joined_digits(bounds, simple.results)
    return IndexingMap(simple.dims, simple.ranges, simple.runtime, results, simple.constraints)


def select_results(indexing_map: IndexingMap, indices: Iterable[int]) -> IndexingMap:
    """The map with the results of these indices only, in this order. The domain stays. Raises InvalidMapError for an index that is out of range.

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
                f"the map has {len(indexing_map.results)} results: expected indices below {len(indexing_map.results)}, found {i}"
            )
    return IndexingMap(
        indexing_map.dims,
        indexing_map.ranges,
        indexing_map.runtime,
        [indexing_map.results[i] for i in chosen],
        _domain(indexing_map),
    )
