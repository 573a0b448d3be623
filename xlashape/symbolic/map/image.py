"""The domain and the image of a map: bounds of its results, the number of points of both, and whether two maps are the same function.

The points of a domain without constraints are counted without enumeration. Others are enumerated in blocks: every point counts against the budget of
`xlashape.limits`, and `maximum` bounds the number of points of one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xlashape.errors import InvalidMapError
from xlashape.limits import check, spend
from xlashape.math import product
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.expr.ranges import Ranges
from xlashape.symbolic.expr.substitute import variables_of
from xlashape.symbolic.map.indexing_map import IndexingMap, checked_map

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_POINTS = 100_000_000
"""The largest number of points that one call enumerates by default."""

_BLOCK = 1 << 16


def _bounds_of(indexing_map: IndexingMap) -> list[Interval]:
    """The bounds of all variables. Raises InvalidMapError for an undefined map."""
    if indexing_map.is_undefined:
        raise InvalidMapError("an undefined map has no domain")
    return [var.bounds for var in indexing_map.variables]


def image_bounds(indexing_map: IndexingMap) -> tuple[Interval, ...]:
    """For every result an interval that contains all its values: the smallest if no variable occurs twice and the map has no constraints.

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
    """The points of the domain in lexicographic order, and the results there: blocks of int64[n, variables] and int64[n, results].

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
    """How many points the domain has. Enumerates those variables only that constraints of the simplified map mention.

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
        for variable in variables_of([expr for expr, _ in indexing_map.constraints])
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

    Maps with different numbers of variables or results are different. Two undefined maps are the same. If the simplified maps are not equal, the
    domains are enumerated.

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
