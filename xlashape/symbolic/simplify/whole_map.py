"""Simplifying a whole map: first its domain, as long as that narrows a bound or shortens a constraint, then its results under that domain."""

from __future__ import annotations

from typing import NamedTuple

from xlashape.symbolic.expr.expression import Binary, Expr, Variable
from xlashape.symbolic.expr.interval import Bounds
from xlashape.symbolic.expr.substitute import variables_of
from xlashape.symbolic.simplify.constrained import ConstrainedSimplifier
from xlashape.symbolic.simplify.domain import Constraint, Domain
from xlashape.symbolic.simplify.rules import sum as sum_rules
from xlashape.symbolic.simplify.simplifier import Simplifier


class Simplified(NamedTuple):
    """The parts of a simplified map."""

    bounds: dict[Variable, Bounds]
    results: tuple[Expr, ...]
    constraints: list[Constraint]


def simplify_parts(
    bounds: dict[Variable, Bounds], results: tuple[Expr, ...], constraints: list[Constraint]
) -> Simplified | None:
    """Simplifies results and constraints over the variables in `bounds`, none of them empty. None if no point is in the domain."""
    domain = Domain(bounds, constraints)
    domain.simplify()
    if domain.is_empty:
        return None
    return Simplified(domain.bounds, _simplified_results(domain, results), domain.constraints)


def _simplified_results(domain: Domain, results: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The results simplified by the bounds. A result that has all variables of some constraint is simplified by the constraints as well."""
    simplifier = domain.simplifier
    if not domain.constraints or not any(isinstance(result, Binary) for result in results):
        return tuple([simplifier.simplify(result) for result in results])
    variables_of_constraints = [variables_of([expr]) for expr, _ in domain.constraints]
    constrained: ConstrainedSimplifier | None = None
    simplified: list[Expr] = []
    for result in results:
        variables = variables_of([result]) if isinstance(result, Binary) else set[Variable]()
        if any(of_constraint <= variables for of_constraint in variables_of_constraints):
            constrained = constrained or ConstrainedSimplifier(simplifier, domain.constraints)
            simplified.append(constrained.simplify(result))
        else:
            simplified.append(simplifier.simplify(result))
    return tuple(simplified)


class _DigitJoiner(Simplifier):
    """Simplifies, and writes adjacent digits of a mixed-radix number as one."""

    __slots__ = ()
    _sum_rules = (*sum_rules.RULES, sum_rules.adjacent_digits)


def joined_digits(bounds: dict[Variable, Bounds], results: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Simplified results with adjacent digits joined: ((x / 2) mod 4) * 2 + x mod 2 becomes x mod 8."""
    joiner = _DigitJoiner(bounds)
    return tuple([joiner.simplify(result) for result in results])
