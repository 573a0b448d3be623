"""The parts of an indexing map as plain tuples: what text, protos and algorithms give each other before they are a map."""

from __future__ import annotations

from typing import NamedTuple

from xlashape.symbolic.expr.expression import Expr, Variable, VariableKind
from xlashape.symbolic.expr.interval import Interval

__all__ = ["MapParts", "Producer", "Var", "variable_names"]


class Var(NamedTuple):
    """A variable of a map: its bounds, and its name if it has one of its own (else it prints as d0, s0, rt0, …)."""

    bounds: Interval
    name: str = ""


class Producer(NamedTuple):
    """Where text says that a runtime variable comes from: the instruction as written, and the map to its element, if given."""

    instruction: str
    map: MapParts | None


class MapParts(NamedTuple):
    """A map as text gives it. `kind` is "map", "empty" or "undefined"; `producers` stand in the order of the runtime variables."""

    kind: str = "map"
    dims: tuple[Var, ...] = ()
    ranges: tuple[Var, ...] = ()
    runtime: tuple[Var, ...] = ()
    results: tuple[Expr, ...] = ()
    constraints: tuple[tuple[Expr, Interval], ...] = ()
    producers: tuple[Producer | None, ...] = ()


def variable_names(parts: MapParts) -> dict[Variable, str]:
    """The names of the variables of a map that have one of their own."""
    groups = ((VariableKind.DIM, parts.dims), (VariableKind.RANGE, parts.ranges), (VariableKind.RUNTIME, parts.runtime))
    return {Variable(kind, i): var.name for kind, group in groups for i, var in enumerate(group) if var.name}
