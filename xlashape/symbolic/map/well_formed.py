"""What makes parts a map: variables with bounds and distinct names, constraints merged and in order, an empty domain seen as such."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from xlashape.errors import InvalidMapError
from xlashape.symbolic.expr.expression import Constant, Expr, Variable, VariableKind, const
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.expr.order import order_key
from xlashape.symbolic.expr.text import default_name, is_name
from xlashape.symbolic.map.parts import Var
from xlashape.symbolic.simplify.domain import Constraint

__all__ = [
    "MergedDomain",
    "check_names",
    "checked_interval",
    "checked_variables",
    "distinct_names",
    "listed",
    "merged_domain",
]

T = TypeVar("T")


class MergedDomain(NamedTuple):
    """The variables of a map, the constraints that are more than bounds, and whether they are seen to leave no point."""

    dims: tuple[Var, ...]
    ranges: tuple[Var, ...]
    runtime: tuple[Var, ...]
    constraints: tuple[Constraint, ...]
    is_empty: bool


def listed(values: Iterable[T], field: str) -> list[T]:
    """The values. InvalidMapError for what is no sequence. For callers without types."""
    try:
        return list(values)
    except TypeError:
        raise InvalidMapError(f"{field} takes a sequence, not {type(values).__name__}", field=field) from None


def checked_variables(group: Iterable[Var]) -> tuple[Var, ...]:
    """Variables as given, a pair of bounds or with a name. Raises InvalidMapError."""
    made: list[Var] = []
    for var in listed(group, "variables"):
        bounds, name = var if isinstance(var, Var) else (var, "")  # pyright: ignore[reportUnnecessaryIsInstance]
        made.append(Var(checked_interval(bounds), name))
    return tuple(made)


def checked_interval(value: Interval | tuple[int, int]) -> Interval:
    """A pair of integers as an interval. Raises InvalidMapError."""
    try:
        lower, upper = value
    except (TypeError, ValueError):
        raise InvalidMapError(f"an interval is a pair of integers, not {value!r:.60}") from None
    if lower.__class__ is not int or upper.__class__ is not int:
        lower, upper = const(lower).value, const(upper).value
    return Interval(lower, upper)


def check_names(groups: Sequence[tuple[Var, ...]]) -> None:
    """Raises InvalidMapError unless every variable prints as a name of its own."""
    if not any(var.name for group in groups for var in group):
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
    """Dimensions, ranges and runtime variables with names dropped where another variable already prints the same."""
    if any(var.name for group in groups for var in group):
        taken = {
            default_name(kind, i) for kind, group in zip(VariableKind, groups, strict=True) for i in range(len(group))
        }
        distinct: list[tuple[Var, ...]] = []
        for group in groups:
            fresh: list[Var] = []
            for var in group:
                fresh.append(var._replace(name="") if var.name in taken else var)
                taken.add(var.name or "")
            distinct.append(tuple(fresh))
        groups = distinct
    return groups[0], groups[1], groups[2]


def merged_domain(
    dims: tuple[Var, ...], ranges: tuple[Var, ...], runtime: tuple[Var, ...], constraints: Sequence[Constraint]
) -> MergedDomain:
    """One interval per expression, those of variables in their bounds; constraints on constants go away."""
    empty = False
    if constraints:
        narrowed: dict[Variable, Interval] = {}
        merged: dict[Expr, Interval] = {}
        for expr, interval in constraints:
            if isinstance(expr, Constant):
                empty = empty or expr.value not in interval
            elif isinstance(expr, Variable):
                known = narrowed.get(expr)
                narrowed[expr] = interval if known is None else known.intersect(interval)
            else:
                known = merged.get(expr)
                merged[expr] = interval if known is None else known.intersect(interval)
        empty = empty or any(interval.lower > interval.upper for interval in merged.values())
        if narrowed:
            dims = _narrow(VariableKind.DIM, dims, narrowed)
            ranges = _narrow(VariableKind.RANGE, ranges, narrowed)
            runtime = _narrow(VariableKind.RUNTIME, runtime, narrowed)
        kept = sorted(merged.items(), key=lambda pair: order_key(pair[0])) if len(merged) > 1 else merged.items()
        constraints = tuple(kept)
    for group in (dims, ranges, runtime):
        for (lower, upper), _ in group:
            if lower > upper:
                empty = True
    return MergedDomain(dims, ranges, runtime, () if empty else tuple(constraints), empty)


def _narrow(kind: VariableKind, group: tuple[Var, ...], narrowed: dict[Variable, Interval]) -> tuple[Var, ...]:
    result: list[Var] = []
    for i, var in enumerate(group):
        interval = narrowed.get(Variable(kind, i))
        result.append(var if interval is None else Var(var.bounds.intersect(interval), var.name))
    return tuple(result)
