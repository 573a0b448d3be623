"""The results of a map as sums of digits of its variables.

    result = offset + Σ factor × digit,    digit = ((variable + shift) / divisor) mod modulus

While a variable takes the values of a tile, a digit takes consecutive values, a *run*, unless its mod wraps around. Digits of different variables are
independent of each other: they take every combination of values. Digits of one variable are independent if each begins where the next lower one ends,
as the digits of a number do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from xlashape.limits import spend
from xlashape.math import product
from xlashape.symbolic.expr.expression import (
    Add,
    Binary,
    Constant,
    Expr,
    FloorDiv,
    Mod,
    Mul,
    Variable,
    VariableKind,
    order_key,
    sum_terms,
)
from xlashape.symbolic.expr.substitute import variables_of
from xlashape.symbolic.simplify.linear_form import Form, Terms, expression_of
from xlashape.symbolic.simplify.rules import floordiv as floordiv_rules
from xlashape.symbolic.simplify.rules import mod as mod_rules
from xlashape.symbolic.simplify.rules.rule import BoundedContext
from xlashape.symbolic.simplify.simplifier import Simplifier

MOST_ENUMERATED = 1 << 12
"""The largest number of values of a variable that are enumerated to decide whether its digits are independent."""


class Run(NamedTuple):
    """`length` consecutive numbers from `start`."""

    start: int
    length: int


class Digit(NamedTuple):
    """((variable + shift) / divisor) mod modulus, where a modulus of 0 means none.

    The shift is in [0, divisor), or in [0, divisor × modulus) if there is a modulus.
    """

    variable: Variable
    shift: int = 0
    divisor: int = 1
    modulus: int = 0

    def at(self, value: int) -> int:
        """The digit for a value of its variable."""
        quotient = (value + self.shift) // self.divisor
        return quotient % self.modulus if self.modulus else quotient

    def run(self, start: int, end: int) -> Run | None:
        """The values of the digit for start, …, end - 1, with start < end; None if the mod wraps around and they are not all of its values.

        >>> from xlashape.symbolic.expr.expression import dim
        >>> digit = Digit(dim(0), 0, 4, 3)
        >>> digit.run(0, 8), digit.run(4, 40), digit.run(9, 15)
        (Run(start=0, length=2), Run(start=0, length=3), None)
        """
        first, last = (start + self.shift) // self.divisor, (end - 1 + self.shift) // self.divisor
        count = last - first + 1
        if not self.modulus:
            return Run(first, count)
        if count >= self.modulus:
            return Run(0, self.modulus)
        first %= self.modulus
        return Run(first, count) if first + count <= self.modulus else None

    def count(self, values: int) -> int:
        """How many values the digit has for the variable's values 0, …, values - 1."""
        count = (values + self.shift + self.divisor - 1) // self.divisor
        return min(count, self.modulus) if self.modulus else count


class DigitSum(NamedTuple):
    """One result of a map: `fixed` + `constant` + Σ digit × factor, in XLA's order of terms. `fixed` has runtime variables only."""

    fixed: Expr
    constant: int
    terms: tuple[tuple[Digit, int], ...]


def _within_period(context: BoundedContext, terms: Terms, constant: int, modulus: int) -> Form | None:
    """x mod m = x - q m if x lies within [q m, q m + m - 1]. Unlike `one_period`, keeps an x with one value as it is."""
    low, high = context.range_of_form(terms, constant)
    start = low // modulus * modulus
    return None if high >= start + modulus else (terms, constant - start)


class TileSimplifier(Simplifier):
    """Simplifies as XLA does before it looks for tiles: variables and divisions with one value are not replaced by it."""

    __slots__ = ()
    _floordiv_rules = tuple([rule for rule in floordiv_rules.RULES if rule is not floordiv_rules.one_value])
    _mod_rules = tuple([_within_period if rule is mod_rules.one_period else rule for rule in mod_rules.RULES])

    def _form_of_variable(self, node: Variable) -> Form:
        return {node: 1}, 0


def linear_form_of(simplifier: Simplifier, expr: Expr) -> Form:
    """The simplified expression as Σ coefficient × atom + constant."""
    terms: dict[Expr, int] = {}
    constant = 0
    for term in sum_terms(simplifier.simplify(expr)):
        if isinstance(term, Constant):
            constant += term.value
        elif isinstance(term, Mul) and isinstance(term.rhs, Constant):
            terms[term.lhs] = term.rhs.value
        else:
            terms[term] = 1
    return terms, constant


def digit_sum_of(simplifier: Simplifier, result: Expr) -> DigitSum | None:
    """A result as a sum of digits; None if it is not one."""
    terms, constant = linear_form_of(simplifier, result)
    fixed: dict[Expr, int] = {}
    digits: list[tuple[Expr, Digit, int]] = []
    for atom, factor in terms.items():
        if all(variable.kind is VariableKind.RUNTIME for variable in variables_of([atom])):
            fixed[atom] = factor
            continue
        digit_and_shift = _digit_of(atom)
        if digit_and_shift is None:
            return None
        digit, added = digit_and_shift
        constant += added * factor
        digits.append((expression_of({atom: factor}, 0), digit, factor))
    digits.sort(key=lambda term: order_key(term[0]))
    return DigitSum(expression_of(fixed, 0), constant, tuple([(digit, factor) for _, digit, factor in digits]))


def _digit_of(atom: Expr) -> tuple[Digit, int] | None:
    """A simplified atom of divisions, mods and additions of constants on one variable, as (digit, constant to add); None if it is not a digit.

    A division or mod of a mod is not one: the simplifier has rewritten those that are.
    """
    operators: list[Binary] = []
    node = atom
    while isinstance(node, FloorDiv | Mod | Add):
        if not isinstance(node.rhs, Constant):
            return None
        operators.append(node)
        node = node.lhs
    if not isinstance(node, Variable):
        return None
    shift, divisor, modulus, added = 0, 1, 0, 0
    for operator in reversed(operators):
        assert isinstance(operator.rhs, Constant)
        value = operator.rhs.value
        if isinstance(operator, Add):
            added += value
        elif modulus:
            return None
        elif isinstance(operator, FloorDiv):
            # ((v + s) / a + k) / b is (v + s + k a) / (a b).
            shift, divisor = shift + added * divisor, divisor * value
            added, shift = divmod(shift, divisor)
        else:
            shift, modulus, added = (shift + added * divisor) % (divisor * value), value, 0
    return Digit(node, shift, divisor, modulus), added


def runs_of(digits: Sequence[Digit], start: int, end: int) -> dict[Digit, Run] | None:
    """The runs of digits of one variable for its values start, …, end - 1. None if a digit is not a run or the digits are not independent.

    Also None for digits unlike those of a number if the variable has more than `MOST_ENUMERATED` values.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> row, column = Digit(dim(0), 0, 8), Digit(dim(0), 0, 1, 8)
    >>> [run.length for run in runs_of([row, column], 8, 24).values()], runs_of([row, column], 4, 12)
    ([2, 8], None)
    """
    runs: dict[Digit, Run] = {}
    for digit in digits:
        run = digit.run(start, end)
        if run is None:
            return None
        runs[digit] = run
    varying = sorted([digit for digit in digits if runs[digit].length > 1], key=lambda digit: -digit.divisor)
    if len(set(varying)) < len(varying):
        return None
    if len(varying) > 1 and not (_chain_is_independent if is_chain(varying) else _enumerated)(varying, start, end):
        return None
    return runs


def is_chain(digits: Sequence[Digit]) -> bool:
    """Whether the digits, the highest first, are those of a number: the divisor of each is a multiple of where the next lower one ends."""
    return all(digit.shift == 0 for digit in digits) and all(
        low.modulus and high.divisor % (low.divisor * low.modulus) == 0 for high, low in pairwise(digits)
    )


def _chain_is_independent(chain: Sequence[Digit], start: int, end: int) -> bool:
    """Whether the digits of a number take every combination of values. Each of them is a run of several values for start, …, end - 1.

    The highest digit divides the values into blocks. In all blocks the lower digits must take the same combinations: all there are if some block is
    complete; otherwise there are two blocks, which must have the same runs.
    """
    if len(chain) < 2:
        return True
    top, below = chain[0], chain[1:]
    step = top.divisor
    first, last = start // step, (end - 1) // step
    count = last - first + 1
    complete = {digit: Run(0, digit.modulus) for digit in below}
    if top.modulus and count >= top.modulus + 2:
        return True
    head = _independent_runs(below, start, (first + 1) * step)
    tail = _independent_runs(below, last * step, end)
    if top.modulus and count == top.modulus + 1:
        # The first and the last block have the same highest digit, so together they must take all combinations of the lower ones.
        covered = complete in (head, tail) or end - last * step >= start - first * step
        return covered or _enumerated(chain, start, end)
    return head is not None and head == tail and (count == 2 or head == complete)


def _independent_runs(chain: Sequence[Digit], start: int, end: int) -> dict[Digit, Run] | None:
    """The runs of the lower digits of a number in a part of a block; None if they are not independent."""
    runs: dict[Digit, Run] = {}
    for digit in chain:
        run = digit.run(start, end)
        assert run is not None  # the part begins or ends at a multiple of the digit's period
        runs[digit] = run
    varying = [digit for digit in chain if runs[digit].length > 1]
    return runs if _chain_is_independent(varying, start, end) else None


def _enumerated(digits: Sequence[Digit], start: int, end: int) -> bool:
    """Whether the digits take every combination of values, decided by enumeration. False if there are too many values to enumerate."""
    if end - start > MOST_ENUMERATED:
        return False
    spend(1 + (end - start) // 16)
    combinations = {tuple([digit.at(value) for digit in digits]) for value in range(start, end)}
    return len(combinations) == product(len(set(values)) for values in zip(*combinations, strict=True))
