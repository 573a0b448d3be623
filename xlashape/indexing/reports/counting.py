"""How many points a map's domain has and how many elements it reaches, by a formula if possible, else by enumeration.

Variables that share no expression are independent, so the counts of groups of connected variables multiply. A group
without constraints is counted by a formula: its points always, its results where they are one sum of multiples of
variables. Any other group is enumerated with NumPy, if it has at most `MAX_POINTS` points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlashape.base.math import product
from xlashape.limits import INT64_MAX, spend
from xlashape.symbolic import Constant, Expr, IndexingMap, Interval, Mul, Var, Variable, VariableKind
from xlashape.symbolic.expr.expression import substitute_in_map, sum_terms, variables_of
from xlashape.symbolic.map.parts import variable_bounds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MAX_POINTS = 1 << 22
"""The most points of one group of variables that are enumerated."""
_MOST_MARKS = 1 << 26
"""The most bytes of a table with a mark for each row that is met."""


class _Group(NamedTuple):
    """Variables that expressions connect, and those expressions."""

    variables: tuple[Variable, ...]
    bounds: tuple[Interval, ...]
    results: tuple[Expr, ...]
    constraints: tuple[tuple[Expr, Interval], ...]


def fixed_runtime(indexing_map: IndexingMap) -> IndexingMap:
    """The map with every runtime variable replaced by its lower bound."""
    if not indexing_map.runtime or indexing_map.is_known_empty or indexing_map.is_undefined:
        return indexing_map
    values: dict[Variable, Expr] = {
        Variable(VariableKind.RUNTIME, i): Constant(var.bounds.lower) for i, var in enumerate(indexing_map.runtime)
    }
    results, constraints = substitute_in_map(indexing_map.results, indexing_map.constraints, values)
    return IndexingMap(indexing_map.dims, indexing_map.ranges, (), results, constraints)


def point_count(indexing_map: IndexingMap) -> int | None:
    """How many points the domain has; None where there are too many to enumerate.

    >>> point_count(IndexingMap.parse("(d0)[s0] -> (d0), domain: d0 in [0, 9], s0 in [0, 3], d0 + s0 in [0, 2]"))
    6
    """
    if indexing_map.is_known_empty:
        return 0
    counts = [_points_of_group(group) for group in _groups(indexing_map, results=False)]
    return None if None in counts else product(count for count in counts if count is not None)


def distinct_elements(indexing_map: IndexingMap) -> int | None:
    """How many different results the map has over its whole domain; None where there are too many points to enumerate.

    >>> distinct_elements(IndexingMap.parse("(d0)[s0] -> (d0 * 2 + s0), domain: d0 in [0, 999999999], s0 in [0, 2]"))
    2000000001
    """
    if indexing_map.is_known_empty:
        return 0
    counts = [_image_size(group) for group in _groups(indexing_map, results=True)]
    return None if None in counts else product(count for count in counts if count is not None)


def _groups(indexing_map: IndexingMap, *, results: bool) -> list[_Group]:
    """The variables in groups, by union-find: two variables that occur in one constraint, or with `results` in one
    result, are in the same group.
    """
    bounds = variable_bounds(indexing_map.dims, indexing_map.ranges, indexing_map.runtime)
    leader = {variable: variable for variable in bounds}

    def leader_of(variable: Variable) -> Variable:
        while leader[variable] is not variable:
            leader[variable] = leader[leader[variable]]
            variable = leader[variable]
        return variable

    used = [
        (expr, variables_of([expr]))
        for expr in (*(indexing_map.results if results else ()), *(expr for expr, _ in indexing_map.constraints))
    ]
    for _, connected in used:
        first = next(iter(connected), None)
        if first is not None:
            for other in connected:
                leader[leader_of(other)] = leader_of(first)
    members: dict[Variable, list[Variable]] = {}
    for variable in bounds:
        members.setdefault(leader_of(variable), []).append(variable)
    groups: list[_Group] = []
    for group in members.values():
        inside = set(group)
        groups.append(
            _Group(
                tuple(group),
                tuple([bounds[variable] for variable in group]),
                tuple([expr for expr in indexing_map.results if results and inside & variables_of([expr])]),
                tuple(
                    [(expr, interval) for expr, interval in indexing_map.constraints if inside & variables_of([expr])]
                ),
            )
        )
    return groups


def _points_of_group(group: _Group) -> int | None:
    size = product(bounds.size for bounds in group.bounds)
    if not group.constraints:
        return size
    return _enumerated(group)[0] if size <= MAX_POINTS else None


def _image_size(group: _Group) -> int | None:
    """How many different results the group has; None where there are too many points to enumerate."""
    size = product(bounds.size for bounds in group.bounds)
    if not group.results:
        # No result depends on these variables: only whether their constraints hold at any point matters.
        if not group.constraints:
            return min(size, 1)
        return min(_enumerated(group)[0], 1) if size <= MAX_POINTS else None
    if not group.constraints and len(group.results) == 1:
        count = _sum_image_size(group)
        if count is not None:
            return count
    return _enumerated(group)[1] if size <= MAX_POINTS else None


def _sum_image_size(group: _Group) -> int | None:
    """How many values the group's one result takes, if it is a sum Σ factor · variable; None where it is not, or the
    rule below does not apply.

    Variables are added by ascending |factor|. The values so far are all multiples of a step from 0 to `reach`
    (`is_dense`), or at least all different. A factor that is a multiple of the step and at most `reach` + step leaves
    no gap: the values stay dense. A factor beyond `reach` multiplies the number of values.
    """
    factors: dict[Variable, int] = {}
    for term in sum_terms(group.results[0]):
        if isinstance(term, Constant):
            continue
        variable, factor = (term.lhs, term.rhs) if isinstance(term, Mul) else (term, Constant(1))
        if not isinstance(variable, Variable) or not isinstance(factor, Constant) or variable in factors:
            return None
        factors[variable] = abs(factor.value)
    sizes = dict(zip(group.variables, [bounds.size for bounds in group.bounds], strict=True))
    count, step, reach, is_dense = 1, 0, 0, True
    for variable, factor in sorted(factors.items(), key=lambda pair: pair[1]):
        size = sizes[variable]
        if size == 1 or factor == 0:
            continue
        if step == 0:
            step, count = factor, size
        elif is_dense and factor % step == 0 and factor <= reach + step:
            count = (reach + factor * (size - 1)) // step + 1
        elif factor > reach:
            count, is_dense = count * size, False
        else:
            return None
        reach += factor * (size - 1)
    return count


def _enumerated(group: _Group) -> tuple[int, int]:
    """(points, different results), by enumeration."""
    renumbered: dict[Variable, Expr] = {
        variable: Variable(VariableKind.DIM, i) for i, variable in enumerate(group.variables)
    }
    results, constraints = substitute_in_map(group.results, group.constraints, renumbered)
    rows = reached_elements(IndexingMap([Var(bounds) for bounds in group.bounds], (), (), results, constraints))
    return len(rows), distinct_rows(rows)


def distinct_rows(rows: NDArray[np.int64]) -> int:
    """How many different rows there are.

    >>> import numpy as np
    >>> distinct_rows(np.array([[1, 5], [2, 5], [1, 5]]))
    2
    """
    import numpy as np

    if not rows.size:
        return min(len(rows), 1)
    lowest = rows.min(axis=0)
    sizes = [highest - low + 1 for highest, low in zip(rows.max(axis=0).tolist(), lowest.tolist(), strict=True)]
    box = product(sizes)
    if box > INT64_MAX:
        return len(np.unique(rows, axis=0))
    places = np.zeros(len(rows), np.int64)
    for column, size in enumerate(sizes):
        places = places * size + (rows[:, column] - lowest[column])
    if box > _MOST_MARKS:
        return len(np.unique(places))
    is_met = np.zeros(box, np.bool_)
    is_met[places] = True
    return int(np.count_nonzero(is_met))


def box_size(indexing_map: IndexingMap) -> int:
    """How many points the bounds of the variables allow."""
    return product(var.bounds.size for var in indexing_map.variables)


def reached_elements(indexing_map: IndexingMap) -> NDArray[np.int64]:
    """The results at every point of the domain: int64[points, results]. The caller sees to it that the bounds of the
    variables allow at most `MAX_POINTS` points."""
    import numpy as np

    if indexing_map.is_known_empty:
        return np.zeros((0, len(indexing_map.results)), dtype=np.int64)
    spend(box_size(indexing_map) // 64 + 1)
    axes = [np.arange(var.bounds.lower, var.bounds.upper + 1, dtype=np.int64) for var in indexing_map.variables]
    grid = np.meshgrid(*axes, indexing="ij")
    points = np.stack(grid, axis=-1).reshape(-1, len(axes)) if axes else np.zeros((1, 0), dtype=np.int64)
    results, inside = indexing_map.evaluate_batch(points)
    return results[inside]
