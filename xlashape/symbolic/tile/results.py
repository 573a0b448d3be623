"""Prepares a map for symbolic tiles. Writes its results as sums of digits, and finds the limits that the domain sets to
the results and the tile sizes for which the digits are independent runs. `xlashape/symbolic/tile/digits.py` says what
these terms mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple, TypeAlias

from xlashape.base.math import ceil_div, product
from xlashape.limits import spend
from xlashape.symbolic.expr import expression as ex
from xlashape.symbolic.expr.expression import Constant, Expr, Variable, VariableKind
from xlashape.symbolic.expr.ranges import Bounds, Interval
from xlashape.symbolic.simplify.domain import Constraint
from xlashape.symbolic.simplify.rules.rule import Terms
from xlashape.symbolic.simplify.simplifier import Simplifier
from xlashape.symbolic.tile.constraints import Condition, Divides, InRange, TileConstraints
from xlashape.symbolic.tile.digits import (
    MOST_ENUMERATED,
    Digit,
    DigitSum,
    Run,
    SizedDigit,
    SymbolicProgression,
    digit_sum_of,
    is_chain,
    linear_form_of,
    runs_of,
    sum_of_digits,
)

Term: TypeAlias = tuple[Digit, int]

_MOST_INTERVALS = 64
"""The largest number of intervals of tile sizes that become alternatives of `TileConstraints`."""


class Rescaling(NamedTuple):
    """A variable as step × t + first, for t = 0, 1, …, with `first` in [0, step). t is the *rescaled* variable."""

    step: int = 1
    first: int = 0

    def size(self, size: Expr) -> Expr:
        """How many values t has in a tile in which the variable has the values 0, …, size - 1."""
        return size if self.step == 1 else (size + (self.step - 1 - self.first)) // self.step

    def within(self, begin: int, end: int) -> Bounds:
        """The values of t while the variable has the values begin, …, end - 1, as a half-open range."""
        return ceil_div(begin - self.first, self.step), ceil_div(end - self.first, self.step)


class TileDomain(NamedTuple):
    """A domain in terms of rescaled variables. `rescalings` has an entry for each variable of which constraints allow
    only every k-th value.
    """

    bounds: dict[Variable, Bounds]
    constraints: list[Constraint]
    rescalings: dict[Variable, Rescaling]

    @classmethod
    def of(cls, bounds: dict[Variable, Bounds], constraints: Sequence[Constraint]) -> TileDomain:
        """The domain with these simplified bounds and constraints. A constraint (d + c) mod m = v rescales the
        dimension or range variable d by m.

        >>> from xlashape.symbolic.expr.expression import dim
        >>> domain = TileDomain.of({dim(0): (1, 9)}, [((dim(0) + 1) % 2, Interval(0, 0))])
        >>> domain.bounds, domain.rescalings, domain.replaced((dim(0) * 3,))
        ({d0: (0, 4)}, {d0: Rescaling(step=2, first=1)}, ((d0 * 2 + 1) * 3,))
        """
        rescalings: dict[Variable, Rescaling] = {}
        others: list[Constraint] = []
        for expr, interval in constraints:
            congruence = _congruence(expr, interval)
            if congruence is not None and congruence[0] not in rescalings:
                rescalings[congruence[0]] = congruence[1]
            else:
                others.append((expr, interval))
        domain = cls(dict(bounds), [], rescalings)
        for variable, rescaling in rescalings.items():
            low, high = bounds[variable]
            begin, end = rescaling.within(low, high + 1)
            domain.bounds[variable] = (begin, end - 1)
        replaced = domain.replaced(tuple([expr for expr, _ in others]))
        domain.constraints.extend(zip(replaced, [interval for _, interval in others], strict=True))
        return domain

    def replaced(self, exprs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The expressions in terms of rescaled variables."""
        if not self.rescalings:
            return exprs
        return ex.substitute(
            exprs, {variable: variable * by.step + by.first for variable, by in self.rescalings.items()}
        )

    def extent(self, variable: Variable) -> int:
        """How many values there are from 0 to the upper bound of a dimension; at least 1."""
        return max(1, self.bounds[variable][1] + 1)


def _congruence(expr: Expr, interval: Interval) -> tuple[Variable, Rescaling] | None:
    """(factor × variable + c) mod m = v as a rescaling of a dimension or range variable; None for other constraints."""
    if not (isinstance(expr, ex.Mod) and isinstance(expr.rhs, Constant) and interval.is_point):
        return None
    modulus, value, factor, inner = expr.rhs.value, interval.lower, 1, expr.lhs
    if not 0 <= value < modulus:
        return None  # never holds
    if isinstance(inner, ex.Add) and isinstance(inner.rhs, Constant):
        value, inner = value - inner.rhs.value, inner.lhs
    if isinstance(inner, ex.Mul) and isinstance(inner.rhs, Constant):
        factor, inner = inner.rhs.value, inner.lhs
    if not isinstance(inner, Variable) or inner.kind is VariableKind.RUNTIME:
        return None
    common = gcd(factor, modulus)
    if value % common:
        return None
    step = modulus // common
    return inner, Rescaling(step, value // common * pow(factor // common, -1, step) % step if step > 1 else 0)


class DigitSums(NamedTuple):
    """The results of a map as sums of digits of rescaled variables. All tuples but `runs` have one element for each
    result.
    """

    sums: tuple[DigitSum, ...]
    limits: tuple[Interval | None, ...]
    """The interval in which constraints of the domain keep the result."""
    runs: tuple[tuple[Digit, Run], ...]
    """The runs of the digits of range variables."""
    progressions: tuple[SymbolicProgression, ...]
    """The values of the result for a tile at index 0."""
    constraints: TileConstraints
    """The sizes of tiles, in terms of rescaled variables, for which digits are independent runs and each result takes
    one progression of values.
    """


def digit_sums_of(simplifier: Simplifier, domain: TileDomain, results: tuple[Expr, ...]) -> DigitSums | None:
    """The results as sums of digits; None if that form is not found. `results` are in terms of rescaled variables."""
    sums_or_none = [digit_sum_of(simplifier, result) for result in results]
    sums = tuple([digit_sum for digit_sum in sums_or_none if digit_sum is not None])
    limits_and_conditions = _limits(simplifier, domain, results)
    runs_and_conditions = _independent_digits(domain, sums)
    if len(sums) < len(results) or limits_and_conditions is None or runs_and_conditions is None:
        return None
    limits, constraints = limits_and_conditions
    runs, independent = runs_and_conditions
    constraints = constraints & independent
    progressions: list[SymbolicProgression] = []
    for digit_sum in sums:
        constant = digit_sum.constant
        sized: list[SizedDigit] = []
        for digit, factor in digit_sum.terms:
            run = runs.get(digit)
            if run is not None:
                constant += run.start * factor
                sized.append(SizedDigit(ex.const(run.length), run.length, factor))
            else:
                sized.append(SizedDigit(_size(digit), digit.count(domain.extent(digit.variable)), factor))
                constraints = constraints & _is_run(digit, factor)
        spend(1 + len(sized))
        progression = sum_of_digits(sized)
        constraints = constraints & progression.constraints
        progressions.append(
            progression._replace(start=digit_sum.fixed + progression.start, constant=constant + progression.constant)
        )
    return DigitSums(sums, limits, tuple(runs.items()), tuple(progressions), constraints)


def _limits(
    simplifier: Simplifier, domain: TileDomain, results: tuple[Expr, ...]
) -> tuple[tuple[Interval | None, ...], TileConstraints] | None:
    """The domain's constraints as a limit of each result and conditions on runtime variables. None if a constraint can
    be written neither way.
    """
    forms = [linear_form_of(simplifier, result) for result in results]
    factors_and_shapes = [_without_factor(terms) for terms, _ in forms]
    limits: list[Interval | None] = [None] * len(results)
    conditions: list[Condition] = []
    for expr, interval in domain.constraints:
        terms, constant = linear_form_of(simplifier, expr)
        common, shape = _without_factor(terms)
        # expr = common × x + constant, and the result is ± factor × x + its constant, for the same x.
        low, high = ceil_div(interval.lower - constant, common), (interval.upper - constant) // common
        for i, (factor, shape_of_result) in enumerate(factors_and_shapes):
            negated = {atom: -coefficient for atom, coefficient in shape_of_result.items()}
            sign = 1 if shape == shape_of_result else -1 if shape == negated else 0
            if shape and sign:
                ends = sorted([sign * factor * bound + forms[i][1] for bound in (low, high)])
                limit, known = Interval(ends[0], ends[1]), limits[i]
                limits[i] = limit if known is None else known.intersect(limit)
                break
        else:
            if any(variable.kind is not VariableKind.RUNTIME for variable in ex.variables_of([expr])):
                return None
            conditions.append(InRange(expr, interval))
    return tuple(limits), TileConstraints.any_of([conditions])


def _without_factor(terms: Terms) -> tuple[int, dict[Expr, int]]:
    """The greatest common divisor of the coefficients, and the terms divided by it."""
    common = gcd(*terms.values()) if terms else 1
    return common, {atom: coefficient // common for atom, coefficient in terms.items()}


def _independent_digits(
    domain: TileDomain, sums: Sequence[DigitSum]
) -> tuple[dict[Digit, Run], TileConstraints] | None:
    """The runs of the range variables' digits, and the tile sizes for which the digits of each dimension are
    independent.

    None if a digit of a range variable is not a run, if the digits of one range variable are not independent, or if a
    tile at index 0 would begin in the middle of a digit's period.
    """
    terms: dict[Variable, list[Term]] = {}
    for digit_sum in sums:
        for digit, factor in digit_sum.terms:
            terms.setdefault(digit.variable, []).append((digit, factor))
    runs: dict[Digit, Run] = {}
    constraints = TileConstraints.always()
    for variable, its_terms in terms.items():
        low, high = domain.bounds[variable]
        if variable.kind is VariableKind.RANGE:
            its_runs = runs_of([digit for digit, _ in its_terms], low, high + 1)
            if its_runs is None:
                return None
            runs |= its_runs
        elif any(digit.shift >= digit.divisor for digit, _ in its_terms):
            return None  # a tile at index 0 would begin in the middle of a period of the mod
        elif len(its_terms) > 1:
            constraints = constraints & _independent(variable, its_terms, domain.extent(variable))
    return runs, constraints


def _independent(variable: Variable, terms: list[Term], most: int) -> TileConstraints:
    """The tile sizes from 1 to `most` for which the digits of one dimension are independent, given that each of them is
    a run.
    """
    terms = [(digit, factor) for digit, factor in terms if digit.count(most) > 1]
    digits = [digit for digit, _ in terms]
    if is_chain(sorted(digits, key=lambda digit: -digit.divisor)):
        return TileConstraints.always()
    intervals = _independent_sizes(terms, most) if most <= MOST_ENUMERATED else None
    if intervals is None or len(intervals) > _MOST_INTERVALS:
        # Digits are independent if all but one have a single value.
        return TileConstraints.any_of(
            [
                [InRange(_size(other), Interval(1, 1)) for j, other in enumerate(digits) if j != i]
                for i in range(len(digits))
            ]
        )
    if intervals == [Interval(1, most)]:
        return TileConstraints.always()
    return TileConstraints.any_of([[InRange(variable, interval)] for interval in intervals])


def _independent_sizes(terms: list[Term], most: int) -> list[Interval]:
    """The tile sizes from 1 to `most` without those for which each digit is a run but the digits are not
    independent.
    """
    spend(1 + most * len(terms) // 8)
    combinations: set[tuple[int, ...]] = set()
    values_of_digits: list[set[int]] = [set() for _ in terms]
    intervals: list[Interval] = []
    begin = 1
    for size in range(1, most + 1):
        combination = tuple([digit.at(size - 1) for digit, _ in terms])
        combinations.add(combination)
        for values, value in zip(values_of_digits, combination, strict=True):
            values.add(value)
        if len(combinations) != product(map(len, values_of_digits)) and all(
            _is_run_for(digit, factor, size) for digit, factor in terms
        ):
            if begin < size:
                intervals.append(Interval(begin, size - 1))
            begin = size + 1
    return [*intervals, Interval(begin, most)] if begin <= most else intervals


def _size(digit: Digit) -> Expr:
    """How many values a digit of a dimension takes, for a tile at index 0. The dimension's variable stands for the
    tile's size.
    """
    size = _quotients(digit)
    if digit.modulus:
        size = size - (size - 1) // digit.modulus * digit.modulus
    return size


def _quotients(digit: Digit) -> Expr:
    """How many values (variable + shift) / divisor takes."""
    more = digit.shift + digit.divisor - 1
    return digit.variable if digit.divisor == 1 else (digit.variable + more) // digit.divisor


def _is_run(digit: Digit, factor: int) -> TileConstraints:
    """When a digit of a dimension is a run.

    For a digit without factor, as in XLA, a whole number of tiles must fill a period of the mod, or a whole number of
    periods must fill a tile. The digit is then a run for every tile of a row of tiles. XLA has no condition for a digit
    with a factor. This function requires that the first tile takes at most a period, or whole periods.
    """
    if not digit.modulus:
        return TileConstraints.always()
    quotients = _quotients(digit)
    below: Condition = (
        Divides(quotients, digit.modulus) if factor == 1 else InRange(quotients, Interval(1, digit.modulus))
    )
    return TileConstraints.any_of([[below], [InRange(quotients % digit.modulus, Interval(0, 0))]])


def _is_run_for(digit: Digit, factor: int, size: int) -> bool:
    """Whether a tile of this size satisfies the conditions of `_is_run`."""
    if not digit.modulus:
        return True
    quotients = (size + digit.shift + digit.divisor - 1) // digit.divisor
    below = digit.modulus % quotients == 0 if factor == 1 else quotients <= digit.modulus
    return below or quotients % digit.modulus == 0
