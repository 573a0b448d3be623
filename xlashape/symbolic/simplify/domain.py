"""Simplifies a whole map: first its domain, then its results under that domain. Matches `xla::IndexingMap::Simplify`.

Constraints narrow the bounds of variables, and narrower bounds simplify constraints. Both steps are repeated as long as
a bound becomes narrower or a constraint shorter.
"""

from __future__ import annotations

from math import gcd, lcm
from typing import NamedTuple

from xlashape.base.math import ceil_div
from xlashape.limits import INT64_MAX, spend
from xlashape.symbolic.expr.expression import Add, Binary, Constant, Expr, FloorDiv, Mod, Variable, variables_of
from xlashape.symbolic.expr.ranges import Bounds, Interval
from xlashape.symbolic.simplify.constrained import ConstrainedSimplifier
from xlashape.symbolic.simplify.rules import sum as sum_rules
from xlashape.symbolic.simplify.rules.floordiv import splits
from xlashape.symbolic.simplify.rules.rule import Form, Terms, domain_law, expression_of
from xlashape.symbolic.simplify.simplifier import Simplifier

Constraint = tuple[Expr, Interval]


class MapDomain:
    """The domain of a map while it is simplified.

    `bounds` are the variables' intervals and `constraints` the conditions on other expressions. `is_empty` is set once
    bounds and constraints exclude each other.

    Constraints are simplified by the bounds of the variables alone, never by each other: of two that imply each other,
    one must stay. A constraint x mod m = c is called a congruence.
    """

    __slots__ = ("bounds", "constraints", "is_empty", "simplifier")

    def __init__(self, bounds: dict[Variable, Bounds], constraints: list[Constraint]) -> None:
        self.bounds = bounds
        self.constraints = constraints
        self.is_empty = False
        self.simplifier = Simplifier(bounds)

    def simplify(self) -> None:
        """Repeats `_step` until nothing changes, then merges the congruences. Each repetition makes a bound narrower or
        a constraint shorter.

        Congruences narrow bounds, too. As in XLA the constraints are not simplified by these narrower bounds: a
        congruence that leaves its variable one value stays until the map is simplified again.
        """
        while self.constraints and not self.is_empty:
            spend(1 + len(self.constraints))
            before, bounds = self.constraints, self.bounds
            self._step()
            if self.bounds is not bounds:
                self.simplifier = self.simplifier.within(self.bounds)
            elif self.constraints == before:
                break
        if self.is_empty:
            return
        bounds = self.bounds
        self.constraints = self._congruences(self.constraints)
        if self.bounds is not bounds and not self.is_empty:
            self.simplifier = self.simplifier.within(self.bounds)
            self.is_empty = any(self._excludes(constraint) for constraint in self.constraints)

    def _excludes(self, constraint: Constraint) -> bool:
        """Whether the range of the constraint's expression and its interval have no value in common."""
        expr, interval = constraint
        low, high = self.simplifier.range_of_form(*self.simplifier.form_of(expr))
        return high < interval.lower or interval.upper < low

    @domain_law(
        ("d0 in [0, 5], d1 in [0, 10], d0 + d1 in [23, 80]", ""),
        ("d0 in [0, 5], d1 in [0, 10], (d0 + d1) mod 4 in [5, 6]", ""),
        ("d0 in [0, 5], d1 in [0, 10], d0 + d1 in [-3, 15]", "d0 in [0, 5], d1 in [0, 10]"),
    )
    def _step(self) -> None:
        """Simplifies every constraint once, and merges constraints on the same expression by intersecting their
        intervals. Constraints on variables become bounds.

        A constraint is dropped if the range of its expression lies within its interval. The domain is empty if range
        and interval have no value in common.
        """
        merged: dict[Expr, Interval] = {}
        for expr, interval in self.constraints:
            expr, interval = self._simplified(expr, interval)
            if interval.lower > interval.upper:
                self.is_empty = True
                return
            if isinstance(expr, Constant):
                if expr.value not in interval:
                    self.is_empty = True
                    return
            elif isinstance(expr, Variable):
                self._narrow(expr, interval.lower, interval.upper)
            else:
                low, high = self.simplifier.range_of_form(*self.simplifier.form_of(expr))
                if high < interval.lower or interval.upper < low:
                    self.is_empty = True
                    return
                if interval.lower > low or high > interval.upper:
                    known = merged.get(expr)
                    merged[expr] = interval if known is None else known.intersect(interval)
        self.constraints = list(merged.items())
        self.is_empty = self.is_empty or any(interval.is_empty for _, interval in self.constraints)

    def _narrow(self, variable: Variable, low: int, high: int) -> None:
        before = self.bounds[variable]
        low, high = max(low, before[0]), min(high, before[1])
        if low > high:
            self.is_empty = True
        elif (low, high) != before:
            self.bounds = {**self.bounds, variable: (low, high)}

    @domain_law(
        (
            "d0 in [-9, 9], d1 in [-9, 9], (d0 - d1 + 3) / 4 in [0, 1]",
            "d0 in [-9, 9], d1 in [-9, 9], -d1 + d0 in [-3, 4]",
        ),
        ("d0 in [0, 9], d0 + 2 in [5, 20]", "d0 in [3, 9]"),
    )
    def _simplified(self, expr: Expr, interval: Interval) -> Constraint:
        """The constraint after moving constants, factors and floor divisions into the interval. Constants that are
        added to the expression as written are moved before the expression is simplified.

        x + c in [a, b] is x in [a - c, b - c]; x / d in [a, b] is x in [a d, b d + d - 1].
        """
        low, high = interval
        while True:
            if isinstance(expr, Add) and isinstance(expr.rhs, Constant):
                low, high, expr = low - expr.rhs.value, high - expr.rhs.value, expr.lhs
            else:
                simpler, low, high = self._reduced(self.simplifier.simplified_form(expr), low, high)
                if isinstance(simpler, FloorDiv) and isinstance(simpler.rhs, Constant):
                    low, high = low * simpler.rhs.value, high * simpler.rhs.value + simpler.rhs.value - 1
                    expr = simpler.lhs
                elif simpler is expr or low > high:
                    return simpler, Interval(low, high)
                else:
                    expr = simpler

    @domain_law(
        ("d0 in [0, 9], d1 in [0, 9], d0 * 3 + 1 in [5, 20]", "d0 in [2, 6], d1 in [0, 9]"),
        ("d0 in [-9, 9], d0 * -3 in [-7, 5]", "d0 in [-1, 2]"),
        ("d0 in [0, 9], d1 in [0, 3], d0 * 4 + d1 in [0, 19]", "d0 in [0, 4], d1 in [0, 3]"),
        ("d0 in [0, 9], d1 in [0, 3], d0 * 4 + d1 in [0, 18]", "d0 in [0, 9], d1 in [0, 3], d0 * 4 + d1 in [0, 18]"),
    )
    def _reduced(self, form: Form, low: int, high: int) -> tuple[Expr, int, int]:
        """The form without its constant and, if the interval allows it, without its factor: (expression, least,
        greatest value).

        A single x * g in [a, b] is x in [⌈a / g⌉, ⌊b / g⌋]. With more terms, x * g + y in [0, b], with y
        always within [0, c] and c ≤ b mod g, is x in [0, ⌊b / g⌋].
        """
        terms, constant = form
        low, high = low - constant, high - constant
        if len(terms) == 1:
            ((atom, factor),) = terms.items()
            if factor != 1:
                return atom, *_divided(low, high, factor)
            return atom, low, high
        if low == 0 and terms:
            for large, common, greatest in splits(self.simplifier, terms, 0, 0):
                factor = abs(common)
                if high % factor >= greatest:
                    quotients = {atom: coefficient // factor for atom, coefficient in large.items()}
                    return expression_of(quotients, 0), 0, high // factor
            without_digit = self._without_low_digit(terms, high)
            if without_digit is not None:
                return without_digit
        return expression_of(terms, 0), low, high

    @domain_law(
        ("d0 in [0, 9], d1 in [8, 9], d0 * 2 + d1 in [0, 15]", "d0 in [0, 3], d1 in [8, 9]"),
        ("d0 in [0, 9], d1 in [7, 9], d0 * 4 + d1 in [0, 15]", "d0 in [0, 9], d1 in [7, 9], d0 * 4 + d1 in [0, 15]"),
        ("d0 in [-10, -8], d1 in [-8, -5], d0 * 4 + d1 in [0, 11]", ""),
    )
    def _without_low_digit(self, terms: Terms, high: int) -> tuple[Expr, int, int] | None:
        """x * g + y in [0, b] is x in [-q, ⌊b / g⌋ - q] if y is always within [q g, q g + c] and c ≤ b mod g. This
        generalizes the second law of `_reduced`, in which q is 0.
        """
        smallest = min(map(abs, terms.values()))
        large = {atom: coefficient for atom, coefficient in terms.items() if abs(coefficient) != smallest}
        common = gcd(*large.values())
        if common < 2 or common % smallest:
            return None
        small = {atom: coefficient for atom, coefficient in terms.items() if atom not in large}
        least, greatest = self.simplifier.range_of_form(small, 0)
        skipped = least // common
        if greatest - skipped * common > high % common:
            return None
        quotients = {atom: coefficient // common for atom, coefficient in large.items()}
        lowest, highest = self.simplifier.range_of_form(quotients, 0)
        return expression_of(quotients, 0), max(-skipped, lowest), min(high // common - skipped, highest)

    @domain_law(
        ("d0 in [0, 99], d0 mod 4 in [1, 1], d0 mod 6 in [1, 1]", "d0 in [1, 97], d0 mod 12 in [1, 1]"),
        (
            "d0 in [-9, 9], d1 in [-9, 9], (d0 * 2 + d1) mod 4 in [1, 1], (d0 * 2 + d1) mod 6 in [1, 1]",
            "d0 in [-9, 9], d1 in [-9, 9], (d0 * 2 + d1) mod 12 in [1, 1]",
        ),
    )
    def _congruences(self, constraints: list[Constraint]) -> list[Constraint]:
        """x mod m = c and x mod n = c together are x mod lcm(m, n) = c, if 0 ≤ c < m, n and the least common multiple
        fits int64.

        A variable is narrowed to the first and last value that all its congruences allow.
        """
        result: list[Constraint] = []
        moduli: dict[tuple[Expr, int], int] = {}
        unmerged: list[Constraint] = []
        of_variables: dict[Variable, list[tuple[int, int]]] = {}
        for expr, interval in constraints:
            if isinstance(expr, Mod) and isinstance(expr.rhs, Constant) and interval.lower == interval.upper:
                value, modulus = interval.lower, expr.rhs.value
                # A congruence with another value never holds. Merging it could give a congruence that does hold.
                if 0 <= value < modulus:
                    if isinstance(expr.lhs, Variable):
                        of_variables.setdefault(expr.lhs, []).append((value, modulus))
                    merged = lcm(moduli.get((expr.lhs, value), 1), modulus)
                    if merged <= INT64_MAX:
                        moduli[expr.lhs, value] = merged
                    else:
                        unmerged.append((expr, interval))
                    continue
                if isinstance(expr.lhs, Variable):
                    self.is_empty = True
            result.append((expr, interval))
        for (expr, value), modulus in moduli.items():
            result.append((Mod(expr, modulus), Interval(value, value)))
        for variable, remainders in of_variables.items():
            self._narrow_to_remainders(variable, remainders)
        return result + unmerged  # in this order, which the next call would also give

    @domain_law(
        (
            "d0 in [0, 99], d0 mod 4 in [1, 1], d0 mod 6 in [3, 3]",
            "d0 in [9, 93], d0 mod 4 in [1, 1], d0 mod 6 in [3, 3]",
        ),
        ("d0 in [0, 99], d0 mod 4 in [1, 1], d0 mod 6 in [2, 2]", ""),
    )
    def _narrow_to_remainders(self, variable: Variable, remainders: list[tuple[int, int]]) -> None:
        """A variable x with x mod m = c, x mod n = d, … is between the first and the last value that has all these
        remainders. `remainders` lists the pairs (remainder, modulus).

        The Chinese remainder theorem gives the two values directly. Trying value after value would take as many steps
        as the moduli are large.
        """
        low, high = self.bounds[variable]
        value, modulus = 0, 1
        for other, divisor in remainders:
            common = gcd(modulus, divisor)
            if (other - value) % common:
                self.is_empty = True
                return
            steps = (other - value) // common * pow(modulus // common, -1, divisor // common) % (divisor // common)
            value, modulus = value + modulus * steps, modulus * (divisor // common)
            if modulus > high - low:  # at most one value is left: the next step checks it against the other congruences
                break
        self._narrow(variable, low + (value - low) % modulus, high - (high - value) % modulus)


def _divided(low: int, high: int, factor: int) -> Bounds:
    """The x for which x * factor lies between low and high."""
    if factor < 0:
        low, high, factor = -high, -low, -factor
    return ceil_div(low, factor), high // factor


# -- whole maps --------------------------------------------------------------------------------


class Simplified(NamedTuple):
    """The parts of a simplified map."""

    bounds: dict[Variable, Bounds]
    results: tuple[Expr, ...]
    constraints: list[Constraint]


def simplify_parts(
    bounds: dict[Variable, Bounds], results: tuple[Expr, ...], constraints: list[Constraint]
) -> Simplified | None:
    """Simplifies results and constraints over the variables in `bounds`, whose intervals are not empty. None if no
    point is in the domain.
    """
    domain = MapDomain(bounds, constraints)
    domain.simplify()
    if domain.is_empty:
        return None
    return Simplified(domain.bounds, _simplified_results(domain, results), domain.constraints)


def _simplified_results(domain: MapDomain, results: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The results simplified by the bounds. A result that has all variables of some constraint is simplified by the
    constraints as well.
    """
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
    """A simplifier that also writes adjacent digits of a mixed-radix number as one digit."""

    __slots__ = ()
    _sum_rules = (*sum_rules.RULES, sum_rules.adjacent_digits)


def joined_digits(bounds: dict[Variable, Bounds], results: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Simplified results with adjacent digits joined: ((x / 2) mod 4) * 2 + x mod 2 becomes x mod 8."""
    joiner = _DigitJoiner(bounds)
    return tuple([joiner.simplify(result) for result in results])
