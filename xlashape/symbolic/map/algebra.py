"""The algebra of maps on their parts: composing two maps, simplifying one, and dropping variables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice, product
from operator import attrgetter
from typing import TypeAlias

from xlashape.errors import SizeOverflowError
from xlashape.symbolic.expr.evaluate import CompiledExpressions
from xlashape.symbolic.expr.expression import (
    Constant,
    Expr,
    Mod,
    Variable,
    VariableKind,
    const,
    substitute_in_map,
    variables_of,
)
from xlashape.symbolic.expr.ranges import Bounds, Interval
from xlashape.symbolic.map.parts import MapParts, Var, distinct_names, variable_bounds
from xlashape.symbolic.simplify.domain import Constraint, simplify_parts

Flags: TypeAlias = tuple[tuple[bool, ...], tuple[bool, ...], tuple[bool, ...]]
"""For every dimension, range and runtime variable whether a map keeps it."""

_WITNESSES = 4096
"""How many points are tried to show that constraints on unused variables hold somewhere. The first one does for
congruences of simplified maps.
"""


def composed(first: MapParts, second: MapParts) -> MapParts:
    """The map from A to C, not simplified, where `first` maps A to B and `second` B to C. `first` has as many results
    as `second` dimensions.

    The dimensions of `second` are replaced by the results of `first`. The range variables of `second` come before those
    of `first`, and so do its runtime variables. The composition is known to be empty if either map is, and has the
    number of results of `second` even so.
    """
    if "empty" in (first.kind, second.kind):
        groups = distinct_names([first.dims, second.ranges + first.ranges, second.runtime + first.runtime])
        return MapParts("empty", *groups, second.results)
    renumbered: dict[Variable, Expr] = {}
    for kind, count, shift in (
        (VariableKind.RANGE, len(first.ranges), len(second.ranges)),
        (VariableKind.RUNTIME, len(first.runtime), len(second.runtime)),
    ):
        if shift:
            renumbered.update({Variable(kind, i): Variable(kind, i + shift) for i in range(count)})
    first_results, first_constraints = substitute_in_map(first.results, first.constraints, renumbered)
    replaced = {Variable(VariableKind.DIM, i): result for i, result in enumerate(first_results)}
    second_results, second_constraints = substitute_in_map(second.results, second.constraints, replaced)
    constraints: list[Constraint] = [(expr, var.bounds) for expr, var in zip(first_results, second.dims, strict=True)]
    constraints += [*second_constraints, *first_constraints]
    groups = distinct_names([first.dims, second.ranges + first.ranges, second.runtime + first.runtime])
    return MapParts("map", *groups, second_results, tuple(constraints))


def simplified(parts: MapParts) -> MapParts:
    """The simplified map. Its kind is "empty" if the simplifier finds that no point is in the domain."""
    groups = (parts.dims, parts.ranges, parts.runtime)
    bounds: dict[Variable, Bounds] = {**variable_bounds(*groups)}
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


def is_plain(parts: MapParts) -> bool:
    """Whether the results are constants and variables of more than one value, without constraints: such a map is
    simplified already.

    Half of the maps of a module are. Telling them apart saves a twentieth of the time of a first analysis of the
    module.
    """
    if parts.constraints:
        return False
    groups = (parts.dims, parts.ranges, parts.runtime)
    for result in parts.results:
        if isinstance(result, Variable):
            lower, upper = groups[result.kind][result.index].bounds
            if lower == upper:
                return False
        elif not isinstance(result, Constant):
            return False
    return True


def has_congruence(constraints: Sequence[Constraint]) -> bool:
    """Whether a constraint of a simplified map is x mod m of a variable x. It may go when the map is simplified
    again.
    """
    return any(isinstance(expr, Mod) and isinstance(expr.lhs, Variable) for expr, _ in constraints)


def restricted(parts: MapParts, kept: tuple[Sequence[bool], Sequence[bool], Sequence[bool]]) -> MapParts:
    """The map without the dimensions, range and runtime variables whose flag in `kept` is False. No expression mentions
    those.
    """
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
    results, constraints = substitute_in_map(parts.results, parts.constraints, renumbered)
    return MapParts(parts.kind, *distinct_names(groups), results, constraints)


def without_unused(parts: MapParts, kinds: Collection[VariableKind]) -> tuple[MapParts, Flags]:
    """Drops the variables of these kinds that only their own constraints mention, or nothing, with these constraints.
    Flags the variables kept.

    A variable is used if a result mentions it, or a constraint that also mentions a used variable or one of another
    kind. Constraints go only if a point is found at which all of them hold: without it, the map could lead somewhere
    where it had no points.
    """
    groups = (parts.dims, parts.ranges, parts.runtime)
    bounds = variable_bounds(*groups)
    used = variables_of(parts.results) | {variable for variable in bounds if variable.kind not in kinds}
    if len(used) < len(bounds) and parts.constraints:
        mentioned = [(constraint, variables_of([constraint[0]])) for constraint in parts.constraints]
        dropped = _constraints_apart(mentioned, used)
        variables = sorted(set[Variable]().union(*(names for _, names in dropped)), key=attrgetter("kind", "index"))
        if dropped and _hold_somewhere([constraint for constraint, _ in dropped], variables, bounds):
            apart = [constraint for constraint, _ in dropped]
            parts = parts._replace(constraints=tuple([kept for kept in parts.constraints if kept not in apart]))
        used.update(*(variables_of([expr]) for expr, _ in parts.constraints))
    dims, ranges, runtime = [
        tuple([Variable(kind, i) in used for i in range(len(group))])
        for kind, group in zip(VariableKind, groups, strict=True)
    ]
    flags = (dims, ranges, runtime)
    return (parts if len(used) == len(bounds) else restricted(parts, flags)), flags


def _constraints_apart(
    mentioned: list[tuple[Constraint, set[Variable]]], used: set[Variable]
) -> list[tuple[Constraint, set[Variable]]]:
    """The constraints that mention no variable in `used`, to which the variables of all the others are added."""
    apart = mentioned
    while True:
        touching = [names for _, names in apart if not names.isdisjoint(used)]
        if not touching:
            return apart
        apart = [pair for pair in apart if pair[1].isdisjoint(used)]
        used.update(*touching)


def _hold_somewhere(
    constraints: list[Constraint], variables: list[Variable], bounds: Mapping[Variable, Interval]
) -> bool:
    """Whether one of the first points within the bounds satisfies all the constraints."""
    renumbered: dict[Variable, Expr] = {variable: Variable(VariableKind.DIM, i) for i, variable in enumerate(variables)}
    _, renamed = substitute_in_map((), constraints, renumbered)
    intervals = [bounds[variable] for variable in variables]
    compiled = CompiledExpressions(intervals, (len(intervals), 0, 0), (), renamed)
    points = product(*(range(interval.lower, interval.upper + 1) for interval in intervals))
    return any(_is_inside(compiled, point) for point in islice(points, _WITNESSES))


def _is_inside(compiled: CompiledExpressions, point: tuple[int, ...]) -> bool:
    try:
        return compiled.evaluate(point) is not None
    except SizeOverflowError:
        return False
