"""Maps of any iteration: runtime variables become range variables.

Within one iteration an offset has one value. Over all iterations it may have any value within its bounds, and the maps of the walk do not count
iterations. So a runtime variable becomes a range variable with the same bounds. Runtime variables that have the same value within one iteration
become the same range variable.
"""

from __future__ import annotations

from xlashape.indexing.answers.operand_indexing import OperandIndexing
from xlashape.indexing.walk.repeated.value_numbers import ValueNumbers
from xlashape.symbolic import Expr, IndexingMap, Interval, Var, Variable, const, rng, rt
from xlashape.symbolic.expr.expression import sum_terms
from xlashape.symbolic.expr.substitute import substitute, variables_of

__all__ = ["of_any_iteration"]


def of_any_iteration(access: OperandIndexing, values: ValueNumbers) -> OperandIndexing:
    """The access with range variables in place of its runtime variables; simplified."""
    old = access.map
    if old.is_known_empty:
        return OperandIndexing(IndexingMap.empty(), leaf=access.leaf)
    replaced: dict[Variable, Expr] = {}
    range_of_value: dict[object, Expr] = {}
    bounds: list[Interval] = []
    for k, (producer, var) in enumerate(zip(access.runtime, old.runtime, strict=True)):
        value = (values.of(producer), var.bounds)
        if value not in range_of_value:
            range_of_value[value] = rng(len(old.ranges) + len(bounds))
            bounds.append(var.bounds)
        replaced[rt(k)] = range_of_value[value]
    exprs = substitute((*old.results, *(expr for expr, _ in old.constraints)), replaced)
    count = len(old.results)
    ranges = [*old.ranges, *(Var(interval) for interval in bounds)]
    constraints = zip(exprs[count:], [interval for _, interval in old.constraints], strict=True)
    with_ranges = IndexingMap(old.dims, ranges, (), exprs[:count], constraints)
    return access.with_map(_without_determined_ranges(with_ranges, len(old.ranges)), ()).simplify()


def _without_determined_ranges(indexing_map: IndexingMap, first: int) -> IndexingMap:
    """The map with range variables from number `first` on replaced where a constraint determines their value.

    An iteration that writes one row at an offset gives `d0 - s0 in [0, 0]`: then s0 is d0.

    >>> _without_determined_ranges(IndexingMap.parse("(d0)[s0] -> (s0), domain: d0 in [0, 9], s0 in [0, 9], d0 - s0 in [0, 0]"), 0).simplify()
    (d0)[s0] -> (d0), domain: d0 in [0, 9], s0 in [0, 9]
    """
    for number in range(first, len(indexing_map.ranges)):
        variable = rng(number)
        for index, (expr, bounds) in enumerate(indexing_map.constraints):
            if bounds.lower != bounds.upper:
                continue
            # Of the form: variable * sign + rest = constant.
            terms = sum_terms(expr)
            signs = [sign for sign in (1, -1) if variable * sign in terms]
            rest = [term for term in terms if term is not variable and term != variable * -1]
            if len(signs) != 1 or len(rest) != len(terms) - 1 or variable in variables_of(rest):
                continue
            value: Expr = const(bounds.lower)
            for term in rest:
                value = value - term
            value = value * signs[0]
            others = [constraint for other, constraint in enumerate(indexing_map.constraints) if other != index]
            exprs = substitute((*indexing_map.results, *(other for other, _ in others)), {variable: value})
            count = len(indexing_map.results)
            constraints = [*zip(exprs[count:], [interval for _, interval in others], strict=True)]
            constraints.append((value, indexing_map.ranges[number].bounds))
            indexing_map = IndexingMap(
                indexing_map.dims, indexing_map.ranges, indexing_map.runtime, exprs[:count], constraints
            )
            break
    return indexing_map
