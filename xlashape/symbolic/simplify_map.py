"""Simplifying a whole map: its domain until nothing narrows it further, then its results, with all that the domain promises."""

from __future__ import annotations

from typing import NamedTuple

from xlashape.symbolic.constraints import Constraint, Domain
from xlashape.symbolic.expr import Expr, Variable
from xlashape.symbolic.promises import PromisedSimplifier

__all__ = ["Simplified", "simplify_parts"]

Bounds = tuple[int, int]


class Simplified(NamedTuple):
    """The parts of a simplified map."""

    bounds: dict[Variable, Bounds]
    results: tuple[Expr, ...]
    constraints: list[Constraint]


def simplify_parts(
    bounds: dict[Variable, Bounds], results: tuple[Expr, ...], constraints: list[Constraint]
) -> Simplified | None:
    """Simplifies results and constraints, which mention no variables but those in `bounds`, all of them non-empty. None if no point is in the domain."""
    domain = Domain(bounds, constraints)
    domain.simplify()
    if domain.is_empty:
        return None
    simplifier = domain.simplifier
    if domain.constraints:
        simplifier = PromisedSimplifier(simplifier, domain.constraints)
    return Simplified(domain.bounds, tuple([simplifier.simplify(result) for result in results]), domain.constraints)
