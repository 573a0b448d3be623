"""Composing maps and dropping their variables: parts of maps whose variables are replaced or numbered anew. Nothing is simplified here."""

from __future__ import annotations

from collections.abc import Sequence

from xlashape.symbolic.expr.expression import Expr, Variable, VariableKind
from xlashape.symbolic.expr.substitute import substitute
from xlashape.symbolic.map.parts import MapParts, Var
from xlashape.symbolic.map.well_formed import distinct_names
from xlashape.symbolic.simplify.domain import Constraint

__all__ = ["composed", "restricted"]


def composed(first: MapParts, second: MapParts) -> MapParts:
    """The results of `second` with the results of `first`, as many as it has dimensions, in their place; the variables of `second` come first."""
    moved: dict[Variable, Expr] = {}
    for kind, count, shift in (
        (VariableKind.RANGE, len(first.ranges), len(second.ranges)),
        (VariableKind.RUNTIME, len(first.runtime), len(second.runtime)),
    ):
        if shift:
            moved.update({Variable(kind, i): Variable(kind, i + shift) for i in range(count)})
    own = substitute((*first.results, *(expr for expr, _ in first.constraints)), moved)
    producers = own[: len(first.results)]
    replaced = {Variable(VariableKind.DIM, i): producer for i, producer in enumerate(producers)}
    theirs = substitute((*second.results, *(expr for expr, _ in second.constraints)), replaced)
    constraints: list[Constraint] = [(expr, var.bounds) for expr, var in zip(producers, second.dims, strict=True)]
    constraints += [
        (expr, interval) for expr, (_, interval) in zip(theirs[len(second.results) :], second.constraints, strict=True)
    ]
    constraints += [
        (expr, interval) for expr, (_, interval) in zip(own[len(first.results) :], first.constraints, strict=True)
    ]
    groups = distinct_names([first.dims, second.ranges + first.ranges, second.runtime + first.runtime])
    return MapParts("map", *groups, theirs[: len(second.results)], tuple(constraints))


def restricted(parts: MapParts, kept: tuple[Sequence[bool], Sequence[bool], Sequence[bool]]) -> MapParts:
    """Without the dimensions, ranges and runtime variables whose flag is False, which nothing mentions."""
    renumbered: dict[Variable, Expr] = {}
    groups: list[tuple[Var, ...]] = []
    for kind, group, flags in (
        (VariableKind.DIM, parts.dims, kept[0]),
        (VariableKind.RANGE, parts.ranges, kept[1]),
        (VariableKind.RUNTIME, parts.runtime, kept[2]),
    ):
        left: list[Var] = []
        for i, (var, keep) in enumerate(zip(group, flags, strict=True)):
            if keep:
                if len(left) != i:
                    renumbered[Variable(kind, i)] = Variable(kind, len(left))
                left.append(var)
        groups.append(tuple(left))
    exprs = substitute((*parts.results, *(expr for expr, _ in parts.constraints)), renumbered)
    constraints = [
        (expr, interval) for expr, (_, interval) in zip(exprs[len(parts.results) :], parts.constraints, strict=True)
    ]
    return MapParts("map", *distinct_names(groups), exprs[: len(parts.results)], tuple(constraints))
