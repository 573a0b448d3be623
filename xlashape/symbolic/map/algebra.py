"""The algebra of maps on their parts: composing two maps, simplifying one, and dropping variables."""

from __future__ import annotations

from collections.abc import Sequence

from xlashape.symbolic.expr.expression import Expr, Variable, VariableKind, const
from xlashape.symbolic.expr.interval import Bounds, Interval
from xlashape.symbolic.expr.substitute import substitute
from xlashape.symbolic.map.parts import MapParts, Var
from xlashape.symbolic.map.well_formed import distinct_names
from xlashape.symbolic.simplify.domain import Constraint
from xlashape.symbolic.simplify.whole_map import simplify_parts

__all__ = ["composed", "restricted", "simplified"]


def composed(first: MapParts, second: MapParts) -> MapParts:
    """The map from A to C, not simplified, where `first` maps A to B and `second` B to C. `first` has as many results as `second` dimensions.

    The dimensions of `second` are replaced by the results of `first`. The range variables of `second` come before those of `first`, and so do its
    runtime variables.
    """
    renumbered: dict[Variable, Expr] = {}
    for kind, count, shift in (
        (VariableKind.RANGE, len(first.ranges), len(second.ranges)),
        (VariableKind.RUNTIME, len(first.runtime), len(second.runtime)),
    ):
        if shift:
            renumbered.update({Variable(kind, i): Variable(kind, i + shift) for i in range(count)})
    of_first = substitute((*first.results, *(expr for expr, _ in first.constraints)), renumbered)
    first_results = of_first[: len(first.results)]
    replaced = {Variable(VariableKind.DIM, i): result for i, result in enumerate(first_results)}
    of_second = substitute((*second.results, *(expr for expr, _ in second.constraints)), replaced)
    constraints: list[Constraint] = [(expr, var.bounds) for expr, var in zip(first_results, second.dims, strict=True)]
    constraints += _with_intervals(of_second[len(second.results) :], second.constraints)
    constraints += _with_intervals(of_first[len(first.results) :], first.constraints)
    groups = distinct_names([first.dims, second.ranges + first.ranges, second.runtime + first.runtime])
    return MapParts("map", *groups, of_second[: len(second.results)], tuple(constraints))


def _with_intervals(exprs: Sequence[Expr], constraints: Sequence[Constraint]) -> list[Constraint]:
    """The constraints with their expressions replaced."""
    return [(expr, interval) for expr, (_, interval) in zip(exprs, constraints, strict=True)]


def simplified(parts: MapParts) -> MapParts:
    """The simplified map. Its kind is "empty" if the simplifier finds that no point is in the domain."""
    groups = (parts.dims, parts.ranges, parts.runtime)
    bounds: dict[Variable, Bounds] = {}
    for kind, group in zip(VariableKind, groups, strict=True):
        for i, var in enumerate(group):
            bounds[Variable(kind, i)] = var.bounds
    simple = simplify_parts(bounds, parts.results, list(parts.constraints))
    if simple is None:
        return MapParts("empty", *groups, (const(0),) * len(parts.results))
    dims, ranges, runtime = groups
    if simple.bounds is not bounds:
        dims, ranges, runtime = [
            tuple([Var(Interval(*simple.bounds[Variable(kind, i)]), var.name) for i, var in enumerate(group)])
            for kind, group in zip(VariableKind, groups, strict=True)
        ]
    return MapParts("map", dims, ranges, runtime, simple.results, tuple(simple.constraints))


def restricted(parts: MapParts, kept: tuple[Sequence[bool], Sequence[bool], Sequence[bool]]) -> MapParts:
    """The map without the dimensions, range and runtime variables whose flag in `kept` is False. No expression mentions those."""
    renumbered: dict[Variable, Expr] = {}
    groups: list[tuple[Var, ...]] = []
    for kind, group, flags in zip(VariableKind, (parts.dims, parts.ranges, parts.runtime), kept, strict=True):
        remaining: list[Var] = []
        for i, (var, keep) in enumerate(zip(group, flags, strict=True)):
            if keep:
                if len(remaining) != i:
                    renumbered[Variable(kind, i)] = Variable(kind, len(remaining))
                remaining.append(var)
        groups.append(tuple(remaining))
    exprs = substitute((*parts.results, *(expr for expr, _ in parts.constraints)), renumbered)
    constraints = _with_intervals(exprs[len(parts.results) :], parts.constraints)
    return MapParts(parts.kind, *distinct_names(groups), exprs[: len(parts.results)], tuple(constraints))
