"""Where a map goes and how often: bounds of its results, the number of points of its domain and image, equality as functions.

Counting takes a closed form where no constraint asks for more, and enumerates in blocks otherwise; every point tried counts against the budget
of `xlashape.limits`, and `maximum` bounds a single question.
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

__all__ = ["MAX_POINTS", "domain_blocks", "domain_size", "image_bounds", "image_size", "same_function"]

MAX_POINTS = 100_000_000
"""Points of a box that one question enumerates at most, by default."""

_BLOCK = 1 << 16


def _box(found: IndexingMap) -> list[Interval]:
    if found.is_undefined:
        raise InvalidMapError("an undefined map has no domain")
    return [var.bounds for var in found.variables]


def image_bounds(found: IndexingMap) -> tuple[Interval, ...]:
    """For every result an interval that holds all its values: the tightest one where no variable occurs twice and no constraint bites.

    Intervals of a known empty map are empty.

    >>> image_bounds(IndexingMap.parse("(d0) -> (d0 mod 8, d0 / 8), domain: d0 in [0, 31]"))
    ([0, 7], [0, 3])
    """
    checked_map(found)
    bounds = _box(found)
    if found.is_known_empty:
        return tuple([Interval(0, -1)] * len(found.results))
    ranges = Ranges.of_bounds(bounds, found.counts)
    return tuple([Interval(*ranges.of(result)) for result in found.results])


def domain_blocks(
    found: IndexingMap, maximum: int = MAX_POINTS
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The points of the domain, in order, and the results there: blocks of int64[n, variables] and int64[n, results].

    LimitExceededError if the box of the variables' bounds holds more than `maximum` points.
    """
    checked_map(found)
    import numpy as np

    bounds = _box(found)
    if found.is_known_empty:
        return
    total = product(interval.size for interval in bounds)
    check("points of a box", total, maximum)
    for start in range(0, total, _BLOCK):
        position = np.arange(start, min(total, start + _BLOCK), dtype=np.int64)
        spend(1 + (len(position) >> 6))
        points = np.empty((len(position), len(bounds)), dtype=np.int64)
        for i in range(len(bounds) - 1, -1, -1):
            size = bounds[i].size
            points[:, i] = position % size + bounds[i].lower
            position = position // size
        results, inside = found.evaluate_batch(points)
        yield (points, results) if inside.all() else (points[inside], results[inside])


def domain_size(found: IndexingMap, maximum: int = MAX_POINTS) -> int:
    """How many points the domain has. Enumerates only where the simplified map still has constraints.

    >>> domain_size(IndexingMap.parse("(d0, d1) -> (d0), domain: d0 in [0, 9], d1 in [0, 9], d0 + d1 in [0, 3]"))
    10
    """
    checked_map(found)
    _box(found)
    simple = found.simplify()
    if simple.is_known_empty:
        return 0
    used = _constrained(simple)
    free = [var.bounds.size for i, var in enumerate(simple.variables) if i not in used]
    if not used:
        return product(free)
    kept = [i in used for i in range(len(simple.variables))]
    dims, ranges, _ = simple.counts
    narrow = IndexingMap(simple.dims, simple.ranges, simple.runtime, (), simple.constraints).keep_variables(
        kept[:dims], kept[dims : dims + ranges], kept[dims + ranges :]
    )
    return product(free) * sum(len(points) for points, _ in domain_blocks(narrow, maximum))


def _constrained(found: IndexingMap) -> set[int]:
    """The places, in a point, of the variables that constraints mention."""
    offsets = (0, len(found.dims), len(found.dims) + len(found.ranges))
    return {
        offsets[variable.kind] + variable.index for variable in variables_of([expr for expr, _ in found.constraints])
    }


def image_size(found: IndexingMap, maximum: int = MAX_POINTS) -> int:
    """How many distinct tuples of results the map has.

    >>> image_size(IndexingMap.parse("(d0)[s0] -> (d0 + s0), domain: d0 in [0, 9], s0 in [0, 2]"))
    12
    """
    checked_map(found)
    import numpy as np

    _box(found)
    simple = found.simplify()
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
    """Whether two maps have the same domain and the same results everywhere on it. Names of variables do not count.

    Maps with different numbers of variables or results are different. Two undefined maps are the same. Decided by simplified forms where these are
    equal, by enumeration otherwise.

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
    for points, results in domain_blocks(a, maximum):
        others, inside = b.evaluate_batch(points)
        if not (inside.all() and (others == results).all()):
            return False
    return True
