"""The parts of an indexing map as plain tuples: what text, protos and the algebra of maps take and return.

Their normal form: variables with bounds and distinct names, one sorted constraint an expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeVar

from xlashape.errors import InvalidMapError
from xlashape.symbolic.expr.expression import Constant, Expr, Operand, Variable, VariableKind, as_expr, const, order_key
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.expr.substitute import variables_of
from xlashape.symbolic.expr.text import default_name, is_name
from xlashape.symbolic.simplify.domain import Constraint


class Var(NamedTuple):
    """A variable of a map: its bounds and its name. An empty name means that it prints as d0, s0, rt0, …."""

    bounds: Interval
    name: str = ""


class Producer(NamedTuple):
    """What a text says about the origin of a runtime variable: the instruction, as written, and the map to its element, if given."""

    instruction: str
    map: MapParts | None


class MapParts(NamedTuple):
    """The parts of a map. `kind` tells a map from one that is known to be empty and one that is undefined.

    `producers` are in the order of the runtime variables. Only reading text fills them in.
    """

    kind: Literal["map", "empty", "undefined"] = "map"
    dims: tuple[Var, ...] = ()
    ranges: tuple[Var, ...] = ()
    runtime: tuple[Var, ...] = ()
    results: tuple[Expr, ...] = ()
    constraints: tuple[tuple[Expr, Interval], ...] = ()
    producers: tuple[Producer | None, ...] = ()


def variable_names(parts: MapParts) -> dict[Variable, str]:
    """The names of those variables of a map that have one."""
    groups = ((VariableKind.DIM, parts.dims), (VariableKind.RANGE, parts.ranges), (VariableKind.RUNTIME, parts.runtime))
    return {Variable(kind, i): var.name for kind, group in groups for i, var in enumerate(group) if var.name}


T = TypeVar("T")


def checked_parts(
    dims: Iterable[Var],
    ranges: Iterable[Var],
    runtime: Iterable[Var],
    results: Iterable[Operand],
    constraints: Iterable[tuple[Operand, Interval | tuple[int, int]]],
) -> MapParts:
    """The arguments of `IndexingMap` as parts. Raises InvalidMapError for what cannot be a map."""
    groups = [
        tuple([var._replace(name="") if var.name == default_name(kind, i) else var for i, var in enumerate(group)])
        for kind, group in zip(VariableKind, map(_checked_variables, (dims, ranges, runtime)), strict=True)
    ]
    expressions = tuple([as_expr(result) for result in checked_list(results, "results")])
    pairs = tuple([_checked_constraint(constraint) for constraint in checked_list(constraints, "constraints")])
    counts = [len(group) for group in groups]
    for variable in variables_of([*expressions, *(expr for expr, _ in pairs)]):
        if variable.index >= counts[variable.kind]:
            raise InvalidMapError(
                f"{variable!r} is not a variable of the map: it has {counts[variable.kind]} of that kind"
            )
    check_names(groups)
    return MapParts("map", groups[0], groups[1], groups[2], expressions, pairs)


def checked_list(values: Iterable[T], field: str) -> list[T]:
    """The values as a list. Raises InvalidMapError if they are not a sequence, which happens in code without types."""
    try:
        return list(values)
    except TypeError:
        raise InvalidMapError(f"{field} takes a sequence, not {type(values).__name__}", field=field) from None


def checked_integers(values: Iterable[int], field: str) -> list[int]:
    """The values as Python integers. Raises InvalidMapError if they are not a sequence of integers; NumPy's integers are accepted."""
    return [value if value.__class__ is int else const(value).value for value in checked_list(values, field)]


def _checked_variables(group: Iterable[Var]) -> tuple[Var, ...]:
    """Variables with checked bounds; a pair of bounds is a variable without name."""
    variables: list[Var] = []
    for var in checked_list(group, "variables"):
        bounds, name = var if isinstance(var, Var) else (var, "")  # pyright: ignore[reportUnnecessaryIsInstance]  # code without types
        variables.append(Var(_checked_interval(bounds), name))
    return tuple(variables)


def _checked_constraint(constraint: tuple[Operand, Interval | tuple[int, int]]) -> Constraint:
    try:
        expr, interval = constraint
    except (TypeError, ValueError):
        raise InvalidMapError(
            f"a constraint is an expression and an interval, not {constraint!r:.60}", field="constraints"
        ) from None
    return as_expr(expr), _checked_interval(interval)


def _checked_interval(value: Interval | tuple[int, int]) -> Interval:
    try:
        lower, upper = value
    except (TypeError, ValueError):
        raise InvalidMapError(f"an interval is a pair of integers, not {value!r:.60}") from None
    if lower.__class__ is not int or upper.__class__ is not int:
        lower, upper = const(lower).value, const(upper).value
    return Interval(lower, upper)


def check_names(groups: Sequence[tuple[Var, ...]]) -> None:
    """Raises InvalidMapError unless all variables print as different names."""
    names = [var.name for group in groups for var in group]  # a list: `any` over a generator takes three times as long
    if not any(names):
        return
    seen: set[str] = set()
    for kind, group in zip(VariableKind, groups, strict=True):
        for i, var in enumerate(group):
            name = var.name or default_name(kind, i)
            if not is_name(name):
                raise InvalidMapError(f"not a name for a variable: {name!r:.60}")
            if name in seen:
                raise InvalidMapError(f"two variables are named {name!r:.60}")
            seen.add(name)


def distinct_names(groups: Sequence[tuple[Var, ...]]) -> tuple[tuple[Var, ...], tuple[Var, ...], tuple[Var, ...]]:
    """Dimensions, range and runtime variables. A name is dropped if an earlier variable, or an unnamed one, prints as it."""
    if any(var.name for group in groups for var in group):
        taken = {
            default_name(kind, i) for kind, group in zip(VariableKind, groups, strict=True) for i in range(len(group))
        }
        distinct: list[tuple[Var, ...]] = []
        for group in groups:
            renamed: list[Var] = []
            for var in group:
                renamed.append(var._replace(name="") if var.name in taken else var)
                taken.add(var.name or "")
            distinct.append(tuple(renamed))
        groups = distinct
    return groups[0], groups[1], groups[2]


def normalized(parts: MapParts) -> MapParts:
    """The parts with one constraint an expression, sorted; those on variables become bounds, those on constants are decided.

    The kind becomes "empty" if the constraints or the bounds are seen to leave no point. An empty map has no constraints, and its results are 0.
    """
    if parts.kind == "undefined":
        return MapParts("undefined")
    dims, ranges, runtime, constraints = parts.dims, parts.ranges, parts.runtime, parts.constraints
    is_empty = parts.kind == "empty"
    if constraints:
        on_variables: dict[Variable, Interval] = {}
        merged: dict[Expr, Interval] = {}
        for expr, interval in constraints:
            if isinstance(expr, Constant):
                is_empty = is_empty or expr.value not in interval
            elif isinstance(expr, Variable):
                known = on_variables.get(expr)
                on_variables[expr] = interval if known is None else known.intersect(interval)
            else:
                known = merged.get(expr)
                merged[expr] = interval if known is None else known.intersect(interval)
        is_empty = is_empty or any(interval.lower > interval.upper for interval in merged.values())
        if on_variables:
            dims = _narrowed(VariableKind.DIM, dims, on_variables)
            ranges = _narrowed(VariableKind.RANGE, ranges, on_variables)
            runtime = _narrowed(VariableKind.RUNTIME, runtime, on_variables)
        constraints = tuple(
            sorted(merged.items(), key=lambda pair: order_key(pair[0])) if len(merged) > 1 else merged.items()
        )
    for group in (dims, ranges, runtime):
        for (lower, upper), _ in group:
            if lower > upper:
                is_empty = True
    if is_empty:
        return MapParts("empty", dims, ranges, runtime, (const(0),) * len(parts.results))
    if not parts.constraints:
        return parts
    return MapParts("map", dims, ranges, runtime, parts.results, constraints)


def _narrowed(kind: VariableKind, group: tuple[Var, ...], intervals: dict[Variable, Interval]) -> tuple[Var, ...]:
    narrowed: list[Var] = []
    for i, var in enumerate(group):
        interval = intervals.get(Variable(kind, i))
        narrowed.append(var if interval is None else Var(var.bounds.intersect(interval), var.name))
    return tuple(narrowed)
