"""Digits: the parts that a map's results are sums of, as tiles see them.

    result = offset + Σ factor × digit,    digit = ((variable + shift) / divisor) mod modulus

While a variable goes through a tile, one digit goes through consecutive numbers, a *run*, unless a mod wraps around. Digits of different variables
are independent of each other; those of one variable are if each begins where the one below ends, as the digits of a number do.
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
    sum_terms,
)
from xlashape.symbolic.expr.order import order_key
from xlashape.symbolic.expr.substitute import variables_of
from xlashape.symbolic.simplify.linear_form import Form, Terms, expression_of
from xlashape.symbolic.simplify.rules import floordiv as floordiv_rules
from xlashape.symbolic.simplify.rules import mod as mod_rules
from xlashape.symbolic.simplify.rules.rule import Context
from xlashape.symbolic.simplify.simplifier import Simplifier

__all__ = ["MOST_ENUMERATED", "Digit", "Part", "Run", "TileReader", "linear_form", "part_of", "runs_of"]

MOST_ENUMERATED = 1 << 12
"""Values of one variable that are gone through to see which digits go together."""


class Run(NamedTuple):
    """`length` consecutive numbers from `start`."""

    start: int
    length: int


class Digit(NamedTuple):
    """((variable + shift) / divisor) mod modulus; no modulus is 0. The shift lies in [0, divisor), or [0, divisor × modulus)."""

    variable: Variable
    shift: int = 0
    divisor: int = 1
    modulus: int = 0

    def at(self, value: int) -> int:
        """The digit of a value of its variable."""
        quotient = (value + self.shift) // self.divisor
        return quotient % self.modulus if self.modulus else quotient

    def run(self, start: int, end: int) -> Run | None:
        """The digits of start, …, end - 1, which are not none; None if they wrap around without being all.

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

    def most(self, values: int) -> int:
        """How many digits the first `values` values from 0 have."""
        count = (values + self.shift + self.divisor - 1) // self.divisor
        return min(count, self.modulus) if self.modulus else count


class Part(NamedTuple):
    """One result of a map: `fixed`, of runtime variables alone, + `constant` + Σ digit × factor, in XLA's order of terms."""

    fixed: Expr
    constant: int
    terms: tuple[tuple[Digit, int], ...]


def _within_period(context: Context, terms: Terms, constant: int, modulus: int) -> Form | None:
    """x mod m = x - q m if x lies within [q m, q m + m - 1], even where it has one value."""
    low, high = context.range_of_form(terms, constant)
    start = low // modulus * modulus
    return None if high >= start + modulus else (terms, constant - start)


class TileReader(Simplifier):
    """Simplifies as XLA does before it looks for tiles: variables and divisions stay, even if they have one value."""

    __slots__ = ()
    _floordiv_rules = tuple([rule for rule in floordiv_rules.RULES if rule is not floordiv_rules.one_value])
    _mod_rules = tuple([_within_period if rule is mod_rules.one_period else rule for rule in mod_rules.RULES])

    def _variable(self, node: Expr) -> Form:
        return {node: 1}, 0


def linear_form(reader: Simplifier, expr: Expr) -> Form:
    """The simplified expression as Σ coefficient × atom + constant."""
    terms: dict[Expr, int] = {}
    constant = 0
    for term in sum_terms(reader.simplify(expr)):
        if isinstance(term, Constant):
            constant += term.value
        elif isinstance(term, Mul) and isinstance(term.rhs, Constant):
            terms[term.lhs] = term.rhs.value
        else:
            terms[term] = 1
    return terms, constant


def part_of(reader: Simplifier, result: Expr) -> Part | None:
    """A result as a sum of digits; None if it is none."""
    terms, constant = linear_form(reader, result)
    fixed: dict[Expr, int] = {}
    found: list[tuple[Expr, Digit, int]] = []
    for atom, factor in terms.items():
        if all(variable.kind is VariableKind.RUNTIME for variable in variables_of([atom])):
            fixed[atom] = factor
            continue
        read = _digit_of(atom)
        if read is None:
            return None
        digit, added = read
        constant += added * factor
        if digit.modulus != 1:
            found.append((expression_of({atom: factor}, 0), digit, factor))
    found.sort(key=lambda term: order_key(term[0]))
    return Part(expression_of(fixed, 0), constant, tuple([(digit, factor) for _, digit, factor in found]))


def _digit_of(atom: Expr) -> tuple[Digit, int] | None:
    """(digit, number to add) of nested divisions and mods of one variable and constants."""
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
        elif isinstance(operator, FloorDiv):
            # (q + k) / b is (v + s + k a) / (a b); (q mod c) / b is (q / b) mod (c / b) where b divides c.
            if modulus and (added or modulus % value):
                return None
            shift, divisor, modulus, added = shift + added * divisor, divisor * value, modulus // value, 0
            if not modulus:
                added, shift = divmod(shift, divisor)
        elif not modulus:
            shift, modulus, added = (shift + added * divisor) % (divisor * value), value, 0
        elif added or (modulus % value and modulus > value):
            return None
        else:
            modulus = min(modulus, value)
    return Digit(node, shift, divisor, modulus), added


def runs_of(digits: Sequence[Digit], start: int, end: int) -> dict[Digit, Run] | None:
    """The runs of digits of one variable over start, …, end - 1, if they are runs and every combination of them comes up; else None.

    None, too, for more than `MOST_ENUMERATED` values of digits that are not those of a number.

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
    moving = sorted([digit for digit in digits if runs[digit].length > 1], key=lambda digit: -digit.divisor)
    if len(set(moving)) < len(moving):
        return None
    if len(moving) > 1 and not (_together if is_chain(moving) else _enumerated)(moving, start, end):
        return None
    return runs


def is_chain(digits: Sequence[Digit]) -> bool:
    """Whether the digits, the highest first, are those of a number: each begins at a multiple of where the one below it ends."""
    return all(digit.shift == 0 for digit in digits) and all(
        low.modulus and high.divisor % (low.divisor * low.modulus) == 0 for high, low in pairwise(digits)
    )


def _together(chain: Sequence[Digit], start: int, end: int) -> bool:
    """Whether digits of a number that are runs over start, …, end - 1 take every combination.

    The highest digit cuts the values into blocks. Within each, those below have to take the same values: all that they can, or, where no block
    is whole, the same runs in both.
    """
    if len(chain) < 2:
        return True
    top, below = chain[0], chain[1:]
    step = top.divisor
    first, last = start // step, (end - 1) // step
    if first == last:
        return _together(below, start, end)
    count = last - first + 1
    whole = {digit: Run(0, digit.modulus) for digit in below}
    if top.modulus and count >= top.modulus + 2:
        return True
    head = _runs_together(below, start, (first + 1) * step)
    tail = _runs_together(below, last * step, end)
    if top.modulus and count == top.modulus + 1:
        # The first and the last block have the same digit.
        covered = whole in (head, tail) or end - last * step >= start - first * step
        return covered or _enumerated(chain, start, end)
    return head is not None and head == tail and (count == 2 or head == whole)


def _runs_together(chain: Sequence[Digit], start: int, end: int) -> dict[Digit, Run] | None:
    runs: dict[Digit, Run] = {}
    for digit in chain:
        run = digit.run(start, end)
        if run is None:
            return None
        runs[digit] = run
    moving = [digit for digit in chain if runs[digit].length > 1]
    return runs if _together(moving, start, end) else None


def _enumerated(digits: Sequence[Digit], start: int, end: int) -> bool:
    if end - start > MOST_ENUMERATED:
        return False
    spend(1 + (end - start) // 16)
    seen = {tuple([digit.at(value) for digit in digits]) for value in range(start, end)}
    return len(seen) == product(len({one[i] for one in seen}) for i in range(len(digits)))
