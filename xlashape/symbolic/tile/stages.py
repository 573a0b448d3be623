"""Maps that divide sums, split into two maps: the sums, and what is made of them. Reshapes that collapse dimensions and split them elsewhere are such.

    (d0, d1) -> ((d0 * 6 + d1) / 16, (d0 * 6 + d1) mod 16)

is (d0, d1) -> (d0 * 6 + d1), followed by (d0) -> (d0 / 16, d0 mod 16). If the values of the first map for a tile are a run, then the tile reads what that
run reads through the second map.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

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

_TermSet: TypeAlias = frozenset[tuple[Expr, int]]
"""The terms of a sum, without its constant: pairs (atom, coefficient)."""


class Stages(NamedTuple):
    """A map as `first` followed by `second`. The results of `first`, which are the dimensions of `second`, are 0 at the start of a tile at index 0."""

    first: IndexingMap
    second: IndexingMap


def stages_of(simple: IndexingMap) -> Stages | None:
    """The stages of a simplified map; None if it divides no sum.

    >>> simple = IndexingMap.parse("(d0, d1, d2) -> ((d0 * 6 + d1) / 16, (d0 * 6 + d1) mod 16, d2), domain: d0 in [0, 7], d1 in [0, 5], d2 in [0, 2]")
    >>> for stage in stages_of(simple): print(stage)
    (d0, d1, d2) -> (d0 * 6 + d1, d2), domain: d0 in [0, 7], d1 in [0, 5], d2 in [0, 2]
    (d0, d1) -> (d0 / 16, d0 mod 16, d1), domain: d0 in [0, 47], d1 in [0, 2]
    """
    exprs = (*simple.results, *(expr for expr, _ in simple.constraints))
    sums = _divided_sums(exprs)
    if not sums:
        return None
    variables = [variable for group in simple.variable_expressions() for variable in group]
    bounds = dict(zip(variables, [var.bounds for var in simple.variables], strict=True))
    starts: dict[_TermSet, int] = {terms: _at_start(terms, bounds) for terms in sums}
    # The sums become dimensions with numbers above the map's own, until it is known which of those the second map keeps.
    placeholders = {terms: dim(len(simple.dims) + k) for k, terms in enumerate(sums)}
    replaced = _replaced(exprs, {terms: placeholders[terms] + starts[terms] for terms in sums})
    used_outside = variables_of(replaced)
    used_in_sums = variables_of([expression_of(dict(terms), 0) for terms in sums])
    kept = [variable for variable in variables[: len(simple.dims)] if variable in used_outside]
    kept += [
        variable
        for variable in variables
        if variable.kind is VariableKind.RANGE and variable in used_outside and variable in used_in_sums
    ]
    first_results = [expression_of(dict(terms), -starts[terms]) for terms in sums] + list(kept)
    ranges = Ranges({variable: (low, high) for variable, (low, high) in bounds.items()})
    second_dims = [Var(Interval(*ranges.of(result))) for result in first_results]
    second_ranges = [
        variable for variable in variables if variable.kind is VariableKind.RANGE and variable not in used_in_sums
    ]
    renumbered: dict[Variable, Expr] = {placeholders[terms]: dim(k) for k, terms in enumerate(sums)}
    renumbered |= {variable: dim(len(sums) + k) for k, variable in enumerate(kept)}
    renumbered |= {variable: Variable(VariableKind.RANGE, k) for k, variable in enumerate(second_ranges)}
    of_second = substitute(replaced, renumbered)
    count = len(simple.results)
    return Stages(
        IndexingMap(simple.dims, simple.ranges, (), first_results),
        IndexingMap(
            second_dims,
            [simple.ranges[variable.index] for variable in second_ranges],
            simple.runtime,
            of_second[:count],
            zip(of_second[count:], [interval for _, interval in simple.constraints], strict=True),
        ),
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
    """The sums of several terms that are divided, or taken modulo, without another such sum inside and without runtime variables."""
    sums: dict[_TermSet, None] = {}  # a set that keeps the order of insertion
    divides_sum: dict[Expr, bool] = {}
    for node in postorder(exprs):
        divides = isinstance(node, Binary) and (divides_sum[node.lhs] or divides_sum[node.rhs])
        if isinstance(node, FloorDiv | Mod) and isinstance(node.lhs, Add):
            terms, _ = _terms(node.lhs)
            spend(len(terms))
            if len(terms) > 1:
                has_runtime = any(variable.kind is VariableKind.RUNTIME for variable in variables_of([node.lhs]))
                if not divides and not has_runtime:
                    sums[frozenset(terms.items())] = None
                divides = True
        divides_sum[node] = divides
    return list(sums)


def _at_start(terms: _TermSet, bounds: dict[Variable, Interval]) -> int:
    """The value of a sum where every dimension is 0 and every range variable has its first value."""
    expr = expression_of(dict(terms), 0)
    values: dict[Variable, Expr] = {
        variable: Constant(0 if variable.kind is VariableKind.DIM else bounds[variable].lower)
        for variable in variables_of([expr])
    }
    (value,) = substitute((expr,), values)
    assert isinstance(value, Constant)
    return value.value


def _replaced(exprs: tuple[Expr, ...], values: dict[_TermSet, Expr]) -> tuple[Expr, ...]:
    """The expressions with the sums of `values`, and integer multiples of them, replaced. Constants added to a sum stay."""
    order = postorder(exprs)
    # A sum of many terms contains partial sums as nodes, which are not sums of the map.
    complete = set(exprs)
    for node in order:
        if isinstance(node, Binary) and not isinstance(node, Add):
            complete |= {node.lhs, node.rhs}
    replaced: dict[Expr, Expr] = {}
    for node in order:
        terms, constant = _terms(node) if isinstance(node, Add) and node in complete else ({}, 0)
        spend(1 + len(terms))
        value = None
        for terms_of_sum, replacement in values.items() if len(terms) > 1 else ():
            factor = _quotient(terms, dict(terms_of_sum))
            if factor:
                value = replacement * factor + constant
        if value is None and isinstance(node, Binary):
            value = node.__class__(replaced[node.lhs], replaced[node.rhs])
        replaced[node] = node if value is None else value
    return tuple([replaced[expr] for expr in exprs])


def _quotient(terms: dict[Expr, int], divisor: dict[Expr, int]) -> int:
    """The integer by which `terms` are a multiple of the terms `divisor`; 0 if there is none."""
    if terms.keys() != divisor.keys():
        return 0
    atom = next(iter(divisor))
    factor = terms[atom] // divisor[atom]
    return factor if all(terms[atom] == factor * coefficient for atom, coefficient in divisor.items()) else 0
