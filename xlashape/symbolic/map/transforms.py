"""Maps made from maps: other variables, other results. None of these simplifies; what becomes simpler by them is for `simplify` to find out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xlashape.errors import InvalidMapError
from xlashape.math import ceil_div
from xlashape.symbolic.expr.expression import Constant, Expr, Mod, Variable, VariableKind, const, dim, rng
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.expr.substitute import substitute
from xlashape.symbolic.map.indexing_map import IndexingMap, checked_map
from xlashape.symbolic.map.parts import Var
from xlashape.symbolic.map.well_formed import checked_integers
from xlashape.symbolic.simplify.domain import Constraint

__all__ = ["ranges_to_dims", "rescale_symbols", "select_results"]


def rescale_symbols(found: IndexingMap) -> IndexingMap:
    """Range variables that a constraint `s mod k in [c, c]` allows every k-th value only, counted by one: s becomes s * k + c.

    The set of answers for every element stays the same; the values of the range variables do not. Several congruences of one variable are used one
    after the other. Matches `xla::IndexingMap::RescaleSymbols`.

    >>> m = IndexingMap.parse("(d0)[s0] -> (d0 + s0), domain: d0 in [0, 3], s0 in [0, 12], s0 mod 6 in [0, 0]")
    >>> rescale_symbols(m)
    (d0)[s0] -> (d0 + s0 * 6), domain: d0 in [0, 3], s0 in [0, 2]
    """
    checked_map(found)
    while not found.is_undefined and not found.is_known_empty:
        congruence = next((c for c in found.constraints if _is_congruence_of_range(c[0], c[1])), None)
        if congruence is None:
            break
        found = _rescaled(found, *congruence)
    return found


def _is_congruence_of_range(expr: Expr, interval: Interval) -> bool:
    return (
        isinstance(expr, Mod)
        and isinstance(expr.lhs, Variable)
        and expr.lhs.kind is VariableKind.RANGE
        and isinstance(expr.rhs, Constant)
        and interval.is_point
        and 0 <= interval.lower < expr.rhs.value
    )


def _rescaled(found: IndexingMap, expr: Expr, interval: Interval) -> IndexingMap:
    assert isinstance(expr, Mod) and isinstance(expr.lhs, Variable) and isinstance(expr.rhs, Constant)
    variable, step, first = expr.lhs, expr.rhs.value, interval.lower
    low, high = found.ranges[variable.index].bounds
    bounds = Interval(ceil_div(low - first, step), (high - first) // step)
    ranges = list(found.ranges)
    ranges[variable.index] = Var(bounds, ranges[variable.index].name)
    others = [constraint for constraint in found.constraints if constraint[0] is not expr]
    replaced = {variable: variable * step + first}
    exprs = substitute((*found.results, *(other for other, _ in others)), replaced)
    count = len(found.results)
    constraints = list(zip(exprs[count:], [kept for _, kept in others], strict=True))
    return IndexingMap(found.dims, ranges, found.runtime, exprs[:count], constraints)


def ranges_to_dims(found: IndexingMap, indices: Iterable[int] | None = None) -> IndexingMap:
    """The given range variables (all of them by default) as dimensions after the ones there are.

    Matches `xla::ConvertRangeVariablesToDimensions`. InvalidMapError for an index that no range variable has.

    >>> m = IndexingMap.from_sizes([4], [8], [dim(0) * 8 + rng(0)])
    >>> ranges_to_dims(m)
    (d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]
    """
    checked_map(found)
    if found.is_undefined:
        return found
    count = len(found.ranges)
    moved = list(range(count)) if indices is None else list(dict.fromkeys(checked_integers(indices, "indices")))
    if not all(0 <= i < count for i in moved):
        raise InvalidMapError(
            f"the map has {count} range variables; there is none of number {next(i for i in moved if not 0 <= i < count)}"
        )
    stay = [i for i in range(count) if i not in set(moved)]
    replaced: dict[Variable, Expr] = {rng(i): dim(len(found.dims) + place) for place, i in enumerate(moved)}
    replaced |= {rng(i): rng(place) for place, i in enumerate(stay)}
    return _with_variables(
        found,
        [*found.dims, *(found.ranges[i] for i in moved)],
        [found.ranges[i] for i in stay],
        replaced,
    )


def _with_variables(
    found: IndexingMap, dims: Sequence[Var], ranges: Sequence[Var], replaced: dict[Variable, Expr]
) -> IndexingMap:
    domain = _domain(found)
    exprs = substitute((*found.results, *(expr for expr, _ in domain)), replaced)
    count = len(found.results)
    constraints = list(zip(exprs[count:], [interval for _, interval in domain], strict=True))
    return IndexingMap(dims, ranges, found.runtime, exprs[:count], constraints)


def _domain(found: IndexingMap) -> tuple[Constraint, ...]:
    """The constraints; one that never holds where the map is known to be empty, which its bounds need not say."""
    return ((const(0), Interval(1, 1)),) if found.is_known_empty else found.constraints


def select_results(found: IndexingMap, indices: Iterable[int]) -> IndexingMap:
    """The map to some of the dimensions of its target, in the order given; the domain stays. InvalidMapError for a result that is not there.

    >>> select_results(IndexingMap.identity([2, 3, 4]), [2, 0])
    (d0, d1, d2) -> (d2, d0), domain: d0 in [0, 1], d1 in [0, 2], d2 in [0, 3]
    """
    checked_map(found)
    if found.is_undefined:
        return found
    chosen = checked_integers(indices, "indices")
    for i in chosen:
        if not 0 <= i < len(found.results):
            raise InvalidMapError(f"the map has {len(found.results)} results; there is none of number {i}")
    return IndexingMap(found.dims, found.ranges, found.runtime, [found.results[i] for i in chosen], _domain(found))
