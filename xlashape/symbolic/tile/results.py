"""How a map's domain and results are read for tiles: which digits the results are sums of, what cuts them off, and when they are independent."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple, TypeAlias

from xlashape.limits import spend
from xlashape.math import ceil_div, product
from xlashape.symbolic.expr.expression import Add, Constant, Expr, Mod, Mul, Variable, VariableKind, const
from xlashape.symbolic.expr.interval import Bounds, Interval
from xlashape.symbolic.expr.substitute import substitute, variables_of
from xlashape.symbolic.simplify.domain import Constraint
from xlashape.symbolic.simplify.linear_form import Terms
from xlashape.symbolic.simplify.simplifier import Simplifier
from xlashape.symbolic.tile.constraints import Condition, Divides, InRange, TileConstraints
from xlashape.symbolic.tile.digits import (
    MOST_ENUMERATED,
    Digit,
    DigitSum,
    Run,
    digit_sum_of,
    is_chain,
    linear_form_of,
    runs_of,
)
from xlashape.symbolic.tile.sums import SizedDigit, SymbolicProgression, sum_of_digits

__all__ = ["DigitSums", "Rescaling", "TileDomain", "digit_sums_of"]
Term: TypeAlias = tuple[Digit, int]

_MOST_INTERVALS = 64
"""Intervals of tile sizes that are listed one by one in constraints."""


class Rescaling(NamedTuple):
    """A variable that is by × t + first, for t = 0, 1, …: `first` lies in [0, by)."""

    by: int = 1
    first: int = 0

    def size(self, size: Expr) -> Expr:
        """How many t a tile of `size` values from 0 has."""
        return size if self.by == 1 else (size + (self.by - 1 - self.first)) // self.by

    def within(self, begin: int, end: int) -> Bounds:
        """The t from begin, …, end - 1, as a half-open range."""
        return ceil_div(begin - self.first, self.by), ceil_div(end - self.first, self.by)


class TileDomain(NamedTuple):
    """A domain in terms of t, where constraints let only every so manieth value of a variable be. `steps` has those variables alone."""

    bounds: dict[Variable, Bounds]
    constraints: list[Constraint]
    steps: dict[Variable, Rescaling]

    @classmethod
    def of(cls, bounds: dict[Variable, Bounds], constraints: Sequence[Constraint]) -> TileDomain:
        """Of simplified bounds and constraints: (d + c) mod m = v, for a dimension or range variable d, makes it a step of m.

        >>> from xlashape.symbolic.expr.expression import dim
        >>> domain = TileDomain.of({dim(0): (1, 9)}, [((dim(0) + 1) % 2, Interval(0, 0))])
        >>> domain.bounds, domain.steps, domain.replaced((dim(0) * 3,))
        ({d0: (0, 4)}, {d0: Rescaling(by=2, first=1)}, ((d0 * 2 + 1) * 3,))
        """
        steps: dict[Variable, Rescaling] = {}
        others: list[Constraint] = []
        for expr, interval in constraints:
            found = _congruence(expr, interval)
            if found is not None and found[0] not in steps:
                steps[found[0]] = found[1]
            else:
                others.append((expr, interval))
        made = cls(dict(bounds), [], steps)
        for variable, step in steps.items():
            low, high = bounds[variable]
            begin, end = step.within(low, high + 1)
            made.bounds[variable] = (begin, end - 1)
        replaced = made.replaced(tuple([expr for expr, _ in others]))
        made.constraints.extend(zip(replaced, [interval for _, interval in others], strict=True))
        return made

    def replaced(self, exprs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Expressions in terms of t."""
        if not self.steps:
            return exprs
        return substitute(exprs, {variable: variable * step.by + step.first for variable, step in self.steps.items()})

    def whole(self, variable: Variable) -> int:
        """How many values of a dimension from 0 there are; at least 1."""
        return max(1, self.bounds[variable][1] + 1)


def _congruence(expr: Expr, interval: Interval) -> tuple[Variable, Rescaling] | None:
    """(factor × variable + c) mod m = v as a step of a dimension or range variable."""
    if not (isinstance(expr, Mod) and isinstance(expr.rhs, Constant) and interval.is_point):
        return None
    modulus, value, factor, inner = expr.rhs.value, interval.lower, 1, expr.lhs
    if not 0 <= value < modulus:
        return None  # no point is in the domain
    if isinstance(inner, Add) and isinstance(inner.rhs, Constant):
        value, inner = value - inner.rhs.value, inner.lhs
    if isinstance(inner, Mul) and isinstance(inner.rhs, Constant):
        factor, inner = inner.rhs.value, inner.lhs
    if not isinstance(inner, Variable) or inner.kind is VariableKind.RUNTIME:
        return None
    common = gcd(factor, modulus)
    if value % common:
        return None
    by = modulus // common
    return inner, Rescaling(by, value // common * pow(factor // common, -1, by) % by if by > 1 else 0)


class DigitSums(NamedTuple):
    """The results as sums of digits of t: `limits` is what they are cut off at, `runs` those of range variables, `constraints` when digits are runs
    that come in every combination and sums are one sequence, by tile sizes in terms of t."""

    parts: tuple[DigitSum, ...]
    limits: tuple[Interval | None, ...]
    runs: dict[Digit, Run]
    sums: tuple[SymbolicProgression, ...]
    constraints: TileConstraints


def digit_sums_of(reader: Simplifier, domain: TileDomain, results: tuple[Expr, ...]) -> DigitSums | None:
    """Results in terms of t as a tile of any size reads them; None where no such form is seen."""
    read = [digit_sum_of(reader, result) for result in results]
    parts = tuple([part for part in read if part is not None])
    cut = _limits(reader, domain, results)
    together = _together(domain, parts)
    if len(parts) < len(read) or cut is None or together is None:
        return None
    limits, constraints = cut
    runs, independent = together
    constraints = constraints & independent
    sums: list[SymbolicProgression] = []
    for part in parts:
        constant = part.constant
        sized: list[SizedDigit] = []
        for digit, factor in part.terms:
            run = runs.get(digit)
            if run is not None:
                constant += run.start * factor
                sized.append(SizedDigit(const(run.length), run.length, factor))
            else:
                sized.append(SizedDigit(_size(digit), digit.count(domain.whole(digit.variable)), factor))
                constraints = constraints & _runs(digit, factor)
        spend(1 + len(sized))
        total = sum_of_digits(sized)
        constraints = constraints & total.constraints
        sums.append(total._replace(start=part.fixed + total.start, constant=constant + total.constant))
    return DigitSums(parts, limits, runs, tuple(sums), constraints)


def _limits(
    reader: Simplifier, domain: TileDomain, results: tuple[Expr, ...]
) -> tuple[tuple[Interval | None, ...], TileConstraints] | None:
    """What each result is cut off at, and conditions on runtime variables alone: the domain's constraints. None if there are others."""
    forms = [linear_form_of(reader, result) for result in results]
    normal = [_without_factor(terms) for terms, _ in forms]
    limits: list[Interval | None] = [None] * len(results)
    conditions: list[Condition] = []
    for expr, interval in domain.constraints:
        terms, constant = linear_form_of(reader, expr)
        common, shape = _without_factor(terms)
        # expr = common × x + constant, and result = ± factor × x + added for the same x.
        low, high = ceil_div(interval.lower - constant, common), (interval.upper - constant) // common
        for i, (factor, other) in enumerate(normal):
            sign = 1 if shape == other else -1 if shape == {atom: -c for atom, c in other.items()} else 0
            if shape and sign:
                ends = sorted([sign * factor * bound + forms[i][1] for bound in (low, high)])
                limit, known = Interval(ends[0], ends[1]), limits[i]
                limits[i] = limit if known is None else known.intersect(limit)
                break
        else:
            if any(variable.kind is not VariableKind.RUNTIME for variable in variables_of([expr])):
                return None
            conditions.append(InRange(expr, interval))
    return tuple(limits), TileConstraints.any_of([conditions])


def _without_factor(terms: Terms) -> tuple[int, dict[Expr, int]]:
    """The greatest common factor of coefficients, and the terms divided by it."""
    common = gcd(*terms.values()) if terms else 1
    return common, {atom: coefficient // common for atom, coefficient in terms.items()}


def _together(domain: TileDomain, parts: Sequence[DigitSum]) -> tuple[dict[Digit, Run], TileConstraints] | None:
    """The runs of the range variables' digits, and for which tile sizes the digits of each dimension come in every combination.

    None if range variables' digits wrap around or do not come in every combination.
    """
    terms: dict[Variable, list[Term]] = {}
    for part in parts:
        for digit, factor in part.terms:
            terms.setdefault(digit.variable, []).append((digit, factor))
    runs: dict[Digit, Run] = {}
    constraints = TileConstraints.always()
    for variable, found in terms.items():
        low, high = domain.bounds[variable]
        if variable.kind is VariableKind.RANGE:
            taken = runs_of([digit for digit, _ in found], low, high + 1)
            if taken is None:
                return None
            runs |= taken
        elif any(digit.shift >= digit.divisor for digit, _ in found):
            return None  # a tile at 0 would begin in the middle of a mod
        elif len(found) > 1:
            constraints = constraints & _independent(variable, found, domain.whole(variable))
    return runs, constraints


def _independent(variable: Variable, terms: list[Term], most: int) -> TileConstraints:
    """For which sizes from 1 to `most` a tile's digits of one dimension come in every combination, where each of them is a run."""
    terms = [(digit, factor) for digit, factor in terms if digit.count(most) > 1]
    digits = [digit for digit, _ in terms]
    if is_chain(sorted(digits, key=lambda digit: -digit.divisor)):
        return TileConstraints.always()
    intervals = _sizes_together(terms, most) if most <= MOST_ENUMERATED else None
    if intervals is None or len(intervals) > _MOST_INTERVALS:
        # All but one have a single value.
        return TileConstraints.any_of(
            [
                [InRange(_size(other), Interval(1, 1)) for j, other in enumerate(digits) if j != i]
                for i in range(len(digits))
            ]
        )
    if intervals == [Interval(1, most)]:
        return TileConstraints.always()
    return TileConstraints.any_of([[InRange(variable, interval)] for interval in intervals])


def _sizes_together(terms: list[Term], most: int) -> list[Interval]:
    """The tile sizes from 1 to `most` but those for which digits do not come in every combination though each of them fits."""
    spend(1 + most * len(terms) // 8)
    seen: set[tuple[int, ...]] = set()
    single: list[set[int]] = [set() for _ in terms]
    intervals: list[Interval] = []
    begin = 1
    for size in range(1, most + 1):
        one = tuple([digit.at(size - 1) for digit, _ in terms])
        seen.add(one)
        for values, each in zip(single, one, strict=True):
            values.add(each)
        if len(seen) != product(map(len, single)) and all(_fits(digit, factor, size) for digit, factor in terms):
            if begin < size:
                intervals.append(Interval(begin, size - 1))
            begin = size + 1
    return [*intervals, Interval(begin, most)] if begin <= most else intervals


def _size(digit: Digit) -> Expr:
    """How many numbers a dimension's digit runs through; the tile's size has the name of its dimension."""
    size = _quotients(digit)
    if digit.modulus:
        size = size - (size - 1) // digit.modulus * digit.modulus
    return size


def _quotients(digit: Digit) -> Expr:
    """How many numbers (variable + shift) / divisor runs through."""
    more = digit.shift + digit.divisor - 1
    return digit.variable if digit.divisor == 1 else (digit.variable + more) // digit.divisor


def _runs(digit: Digit, factor: int) -> TileConstraints:
    """When a dimension's digit is a run: a whole number of tiles fits a period, or of periods a tile.

    XLA asks that of digits without factor, so that each tile of a row is one, and nothing of others. What those need at 0 is asked of them.
    """
    if not digit.modulus:
        return TileConstraints.always()
    quotients = _quotients(digit)
    below: Condition = (
        Divides(quotients, digit.modulus) if factor == 1 else InRange(quotients, Interval(1, digit.modulus))
    )
    return TileConstraints.any_of([[below], [InRange(quotients % digit.modulus, Interval(0, 0))]])


def _fits(digit: Digit, factor: int, size: int) -> bool:
    """What `_runs` says, for a tile of this size."""
    if not digit.modulus:
        return True
    quotients = (size + digit.shift + digit.divisor - 1) // digit.divisor
    below = digit.modulus % quotients == 0 if factor == 1 else quotients <= digit.modulus
    return below or quotients % digit.modulus == 0
