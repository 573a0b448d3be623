"""The parts of an indexing map as plain tuples: what text, protos and the algebra of maps take and return."""

from __future__ import annotations

from typing import Literal, NamedTuple

from xlashape.symbolic.expr.expression import Expr, Variable, VariableKind
from xlashape.symbolic.expr.interval import Interval

__all__ = ["MapParts", "Producer", "Var", "variable_names"]


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
