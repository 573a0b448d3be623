"""Maps in two stages for tiles: sums that are divided, as reshapes have them that collapse dimensions and split them elsewhere.

    (d0, d1) -> ((d0 * 6 + d1) / 16, (d0 * 6 + d1) mod 16)

is (d0, d1) -> (d0 * 6 + d1) and then (d0) -> (d0 / 16, d0 mod 16). If a tile reads a run of the first, what it reads of the second is what the run does.
"""

from __future__ import annotations

from typing import NamedTuple

from xlashape.limits import spend
from xlashape.symbolic.expr.expression import (
    Add,
    Binary,
    Constant,
    Expr,
    FloorDiv,
    Mod,
    Mul,
    Variable,
    VariableKind,
    dim,
    postorder,
)
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.expr.ranges import Ranges
from xlashape.symbolic.expr.substitute import substitute, variables_of
from xlashape.symbolic.map.indexing_map import IndexingMap
from xlashape.symbolic.map.parts import Var
from xlashape.symbolic.simplify.linear_form import expression_of

__all__ = ["Stages", "stages_of"]

_TermSet = frozenset[tuple[Expr, int]]


class Stages(NamedTuple):
    """`second` after `first` is the map. Each result of `first` is a dimension of `second`, counted from 0 in a tile at 0."""

    first: IndexingMap
    second: IndexingMap


def stages_of(found: IndexingMap) -> Stages | None:
    """The stages of a simplified map; None where no sum is divided.

    >>> found = IndexingMap.parse("(d0, d1, d2) -> ((d0 * 6 + d1) / 16, (d0 * 6 + d1) mod 16, d2), domain: d0 in [0, 7], d1 in [0, 5], d2 in [0, 2]")
    >>> for stage in stages_of(found): print(stage)
    (d0, d1, d2) -> (d0 * 6 + d1, d2), domain: d0 in [0, 7], d1 in [0, 5], d2 in [0, 2]
    (d0, d1) -> (d0 / 16, d0 mod 16, d1), domain: d0 in [0, 47], d1 in [0, 2]
    """
    exprs = (*found.results, *(expr for expr, _ in found.constraints))
    sums = _divided_sums(exprs)
    if not sums:
        return None
    variables = [variable for group in found.variable_expressions() for variable in group]
    bounds = dict(zip(variables, [var.bounds for var in found.variables], strict=True))
    starts: dict[_TermSet, int] = {one: _at_start(one, bounds) for one in sums}
    # Placeholders beyond the map's own dimensions, until it is known which of those stay.
    placeholders = {one: dim(len(found.dims) + k) for k, one in enumerate(sums)}
    replaced = _replaced(exprs, {one: placeholders[one] + starts[one] for one in sums})
    left = variables_of(replaced)
    inner = variables_of([expression_of(dict(one), 0) for one in sums])
    kept = [variable for variable in variables[: len(found.dims)] if variable in left]
    kept += [variable for variable in variables if variable.kind is VariableKind.RANGE and variable in left & inner]
    sources = [expression_of(dict(one), -starts[one]) for one in sums] + list(kept)
    ranges = Ranges({variable: (low, high) for variable, (low, high) in bounds.items()})
    dims = [Var(Interval(*ranges.of(source))) for source in sources]
    others = [variable for variable in variables if variable.kind is VariableKind.RANGE and variable not in inner]
    renamed: dict[Variable, Expr] = {placeholders[one]: dim(k) for k, one in enumerate(sums)}
    renamed |= {variable: dim(len(sums) + k) for k, variable in enumerate(kept)}
    renamed |= {variable: Variable(VariableKind.RANGE, k) for k, variable in enumerate(others)}
    final = substitute(replaced, renamed)
    count = len(found.results)
    constraints = zip(final[count:], [interval for _, interval in found.constraints], strict=True)
    return Stages(
        IndexingMap(found.dims, found.ranges, (), sources),
        IndexingMap(dims, [found.ranges[v.index] for v in others], found.runtime, final[:count], constraints),
    )


def _terms(expr: Expr) -> tuple[dict[Expr, int], int]:
    """A simplified sum as Σ coefficient × atom + constant."""
    terms: dict[Expr, int] = {}
    constant = 0
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Add):
            stack += [node.lhs, node.rhs]
        elif isinstance(node, Constant):
            constant += node.value
        elif isinstance(node, Mul) and isinstance(node.rhs, Constant):
            terms[node.lhs] = terms.get(node.lhs, 0) + node.rhs.value
        else:
            terms[node] = terms.get(node, 0) + 1
    return terms, constant


def _divided_sums(exprs: tuple[Expr, ...]) -> list[_TermSet]:
    """Sums of several terms that are divided, those within which no sum is; with runtime variables, none."""
    found: dict[_TermSet, None] = {}
    has_one: dict[Expr, bool] = {}
    for node in postorder(exprs):
        within = isinstance(node, Binary) and (has_one[node.lhs] or has_one[node.rhs])
        if isinstance(node, FloorDiv | Mod) and isinstance(node.lhs, Add):
            terms, _ = _terms(node.lhs)
            spend(len(terms))
            if len(terms) > 1:
                moving = any(variable.kind is VariableKind.RUNTIME for variable in variables_of([node.lhs]))
                if not within and not moving:
                    found[frozenset(terms.items())] = None
                within = True
        has_one[node] = within
    return list(found)


def _at_start(one: _TermSet, bounds: dict[Variable, Interval]) -> int:
    """The sum at index 0 of every dimension and the first value of every range variable."""
    expr = expression_of(dict(one), 0)
    values: dict[Variable, Expr] = {
        variable: Constant(0 if variable.kind is VariableKind.DIM else bounds[variable].lower)
        for variable in variables_of([expr])
    }
    (value,) = substitute((expr,), values)
    assert isinstance(value, Constant)
    return value.value


def _replaced(exprs: tuple[Expr, ...], values: dict[_TermSet, Expr]) -> tuple[Expr, ...]:
    """The expressions with the sums, and multiples of them, replaced; constants beside them stay."""
    order = postorder(exprs)
    # A long sum is one with many beginnings; those are sums to nobody else.
    whole = set(exprs)
    for node in order:
        if isinstance(node, Binary) and not isinstance(node, Add):
            whole |= {node.lhs, node.rhs}
    made: dict[Expr, Expr] = {}
    for node in order:
        terms, constant = _terms(node) if isinstance(node, Add) and node in whole else ({}, 0)
        spend(1 + len(terms))
        value = None
        for one, replacement in values.items() if len(terms) > 1 else ():
            factor = _multiple(terms, dict(one))
            if factor:
                value = replacement * factor + constant
        if value is None and isinstance(node, Binary):
            value = node.__class__(made[node.lhs], made[node.rhs])
        made[node] = node if value is None else value
    return tuple([made[expr] for expr in exprs])


def _multiple(terms: dict[Expr, int], one: dict[Expr, int]) -> int:
    """The factor by which the terms are those of `one`; 0 if they are not."""
    if terms.keys() != one.keys():
        return 0
    atom = next(iter(one))
    factor = terms[atom] // one[atom]
    return factor if all(terms[atom] == factor * coefficient for atom, coefficient in one.items()) else 0
