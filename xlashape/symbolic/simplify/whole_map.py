"""Simplifying a whole map: its domain until nothing narrows it further, then its results, with all that the domain promises."""

from __future__ import annotations

from typing import NamedTuple

from xlashape.symbolic.expr.expression import Binary, Expr, Variable
from xlashape.symbolic.expr.substitute import variables_of
from xlashape.symbolic.simplify.constrained import ConstrainedSimplifier
from xlashape.symbolic.simplify.domain import Constraint, Domain

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
    return Simplified(domain.bounds, _simplified_results(domain, results), domain.constraints)


def _simplified_results(domain: Domain, results: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """By the bounds, and by the constraints where one has no variable that the result lacks: any other says nothing about it."""
    simplifier = domain.simplifier
    if not domain.constraints or not any(isinstance(result, Binary) for result in results):
        return tuple([simplifier.simplify(result) for result in results])
    needed = [variables_of([expr]) for expr, _ in domain.constraints]
    promised: ConstrainedSimplifier | None = None
    simplified: list[Expr] = []
    for result in results:
        variables = variables_of([result]) if isinstance(result, Binary) else set[Variable]()
        if any(wanted <= variables for wanted in needed):
            promised = promised or ConstrainedSimplifier(simplifier, domain.constraints)
            simplified.append(promised.simplify(result))
        else:
            simplified.append(simplifier.simplify(result))
    return tuple(simplified)
