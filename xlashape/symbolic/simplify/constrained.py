"""The simplifier for results of a map with constraints: it also uses the intervals that the constraints give for
expressions.

A result simplified by constraints has the same values at every point of the domain, and may have other values outside.
As in XLA a constraint applies where its expression occurs in canonical form, and to sums that simplification produces.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, lcm

from xlashape.base.math import ceil_div
from xlashape.symbolic.expr.expression import Add, Binary, Constant, Expr, FloorDiv, Mod, Variable, postorder
from xlashape.symbolic.expr.ranges import Bounds, Interval, Ranges
from xlashape.symbolic.simplify.rules.rule import Form, Terms, expression_of, law
from xlashape.symbolic.simplify.simplifier import Simplifier

_DIVISIONS = (FloorDiv, Mod)

_REPETITIONS = 8
"""The largest number of times that a result is simplified again. No expression is known that takes more than one
repetition.
"""


class ConstrainedSimplifier(Simplifier):
    """Simplifies as `simplifier` does, and also uses `constraints`, which `simplifier` has simplified before.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> plain = Simplifier({dim(0): (0, 9), dim(1): (0, 9)})
    >>> constrained = ConstrainedSimplifier(plain, [(dim(0) + dim(1), Interval(0, 3))])
    >>> plain.simplify((dim(0) + dim(1)) % 4), constrained.simplify((dim(0) + dim(1)) % 4)
    ((d0 + d1) mod 4, d0 + d1)
    """

    __slots__ = ("_known_values", "_ranges_as_written", "_sum_ranges")

    def __init__(self, simplifier: Simplifier, constraints: Sequence[tuple[Expr, Interval]]) -> None:
        bounds = simplifier.bounds
        super().__init__(bounds, simplifier.canonicalizer)
        # The atoms to which the constraints leave one value, with that value.
        self._known_values: dict[Expr, int] = {}
        # The ranges of sums. The key is the sum divided by the common factor of its coefficients; the value is (least
        # value of the key, greatest value of the key, the common factor).
        self._sum_ranges: dict[frozenset[tuple[Expr, int]], tuple[int, int, int]] = {}
        # Ranges of expressions as they are written, before simplification.
        self._ranges_as_written = Ranges(bounds)
        for expr, (low, high) in constraints:
            terms, constant = simplifier.form_of(expr)
            if len(terms) > 1:
                self._add_sum(terms, low - constant, high - constant)
        # Ranges of sums can change the form of atoms that contain those sums.
        source = self if self._sum_ranges else simplifier
        for expr, (low, high) in constraints:
            terms, constant = source.form_of(expr)
            if len(terms) == 1:
                self._add_atom(terms, low - constant, high - constant)
        self._forms.clear()
        for expr, (low, high) in constraints:
            least, greatest = self._ranges_as_written.of(expr)
            self._ranges_as_written.known[expr] = (max(least, low), min(greatest, high))

    def _add_sum(self, terms: Terms, low: int, high: int) -> None:
        common = gcd(*terms.values())
        key = frozenset([(atom, coefficient // common) for atom, coefficient in terms.items()])
        low, high = ceil_div(low, common), high // common
        known = self._sum_ranges.get(key)
        if known is not None:
            low, high, common = max(low, known[0]), min(high, known[1]), lcm(common, known[2])
        self._sum_ranges[key] = (low, high, common)

    def _add_atom(self, terms: Terms, low: int, high: int) -> None:
        ((atom, factor),) = terms.items()
        low, high = (low, high) if factor > 0 else (-high, -low)
        low, high = ceil_div(low, abs(factor)), high // abs(factor)
        least, greatest = self._ranges.of(atom)
        low, high = max(low, least), min(high, greatest)
        if (low, high) != (least, greatest):
            self._ranges.known[atom] = (low, high)
            if low == high:
                self._known_values[atom] = low

    def simplify(self, expr: Expr) -> Expr:
        """The simplified expression."""
        terms, constant = self.simplified_form(expr)
        if self._known_values:
            terms, constant = self._with_known_values(terms, constant)
        if self._sum_ranges and len(terms) > 1 and gcd(*terms.values()) == 1:
            low, high = self.range_of_form(terms, constant)
            if low == high:
                return Constant(low)
        return expression_of(terms, constant)

    def simplified_form(self, expr: Expr) -> Form:
        """The linear form of the simplified expression. Starts from the canonical form, since constraints are in
        canonical form, too.
        """
        form = self._passes(expr)
        for _ in range(_REPETITIONS):
            if all(isinstance(atom, Variable) for atom in form[0]):
                break
            expr = expression_of(*form)
            if not self._has_simpler_part(expr):
                break
            self._forms.clear()
            form = self._passes(expr)
        return form

    def _has_simpler_part(self, expr: Expr) -> bool:
        """Whether constraints leave an operator one value, or keep the dividend of a mod within one period. This can be
        so after simplification has produced the expression of a constraint.
        """
        self._ranges_as_written.of(expr)
        known = self._ranges_as_written.known
        return any(
            isinstance(node, Binary)
            and (
                known[node][0] == known[node][1] or (isinstance(node, Mod) and self._start_of_period(node) is not None)
            )
            for node in postorder((expr,))
        )

    # The methods of `RuleContext`, for rules

    def range_of_form(self, terms: Terms, constant: int) -> Bounds:
        """(least, greatest) value of a linear form."""
        low, high = super().range_of_form(terms, constant)
        return self._narrowed(terms, constant, low, high) if self._sum_ranges and len(terms) > 1 else (low, high)

    def _range_of_dividend(self, terms: Terms, constant: int) -> Bounds:
        low, high = super().range_of_form(terms, constant)
        if self._sum_ranges and len(terms) > 1:
            return self._narrowed(terms, constant, low, high, multiples=True)
        return low, high

    @law(
        ("d0 in [0, 9], d1 in [0, 9], d0 + d1 in [0, 3]", "(d0 + d1) mod 4", "d0 + d1"),
        (
            "d0 in [0, 7], d1 in [0, 2], -d0 + d1 in [0, 5]",
            "(d0 * -25 + d1 * 25) / 2 mod 160",
            "(d0 * -25 + d1 * 25) / 2",
        ),
        ("d0 in [0, 7], d1 in [0, 2], -d1 + d0 in [0, 5]", "((-d1 + d0) * 3) mod 16", "(d0 * 3 - d1 * 3) mod 16"),
    )
    def _narrowed(self, terms: Terms, constant: int, low: int, high: int, *, multiples: bool = False) -> Bounds:
        """If x + y in [a, b], then x * g + y * g = (x + y) * g in [a g, b g].

        Without `multiples`, the law is applied only if g divides the factor that the sum has in the constraint. An
        empty range means that the domain is empty.
        """
        common = gcd(*terms.values())
        known = self._sum_ranges.get(frozenset([(atom, coefficient // common) for atom, coefficient in terms.items()]))
        if known is not None and (multiples or known[2] % common == 0):
            return max(low, known[0] * common + constant), min(high, known[1] * common + constant)
        return low, high

    @law(
        ("d0 in [0, 99], d0 / 10 + d0 in [6, 15]", "(d0 / 10 + d0 - 6) / 50", "0"),
        (
            "d0 in [0, 1], (d0 + 17) / 3 + ((d0 + 17) mod 3) * 5 in [15, 15]",
            "((d0 + 17) / 3 + ((d0 + 17) mod 3) * 5) / 2 mod 8",
            "7",
        ),
    )
    def floor_div_of_rest(self, terms: Terms, constant: int, divisor: int) -> Form:
        """x / d = q if constraints keep x, what is left of a sum that is being divided, within [q d, q d + d - 1]."""
        low, high = self.range_of_form(terms, constant)
        if low // divisor == high // divisor:
            return {}, low // divisor
        return super().floor_div_of_rest(terms, constant, divisor)

    # The form of one node, from the forms of its operands

    @law(
        ("d0 in [0, 30], d1 in [0, 30], (d1 * 2 + d0) / 8 in [0, 1]", "(d1 * 2 + d0) / 16", "0"),
        ("d0 in [0, 1], -d0 mod 100 in [95, 100]", "((-d0 mod 100) / 10 + d0) mod 10", "(d0 + 9) mod 10"),
        ("d0 in [0, 9], d1 in [0, 9], (d0 + d1) mod 4 in [2, 2]", "(d0 + d1) mod 4 + d1", "d1 + 2"),
    )
    def _form_of_operator(self, node: Binary) -> Form:
        """x / d = c, x mod m = c if that is the only value that the constraints allow for the expression as written."""
        if isinstance(node, _DIVISIONS):
            low, high = self._ranges_as_written.of(node)
            if low == high:
                return {}, low
        return super()._form_of_operator(node)

    @law(
        (
            "d0 in [0, 9], d1 in [0, 9], d2 in [0, 9], d0 * 3 + d1 in [0, 9]",
            "(d0 * 3 + d1 + d2) mod 32",
            "d0 * 3 + d1 + d2",
        )
    )
    def _form_of_mod(self, node: Mod, dividend: Form, modulus: int) -> Form:
        """x mod m = x - q m if constraints keep x, as it is written, within [q m, q m + m - 1]."""
        start = self._start_of_period(node)
        if start is None:
            return super()._form_of_mod(node, dividend, modulus)
        return self._after_sum_rules(dividend[0], dividend[1] - start)

    def _start_of_period(self, node: Mod) -> int | None:
        """q m if x in x mod m, as it is written, stays within [q m, q m + m - 1]."""
        assert isinstance(node.rhs, Constant)
        modulus = node.rhs.value
        low, high = self._ranges_as_written.of(node.lhs)
        start = low // modulus * modulus
        return start if high < start + modulus else None

    @law(
        ("d0 in [3, 80], d1 in [0, 10], -d1 + d0 in [5, 99]", "max(-d1 + d0 - 1, 2)", "-d1 + d0 - 1"),
        ("d0 in [3, 80], d1 in [0, 10], d0 + d1 in [5, 99]", "max(d1, d0)", "max(d0, d1)"),
    )
    def _range_of_operand(self, operand: Expr) -> Bounds:
        """max(x, y) = x if constraints keep x at or above the greatest value of y; min likewise. Operands and
        constraints are both in canonical form.
        """
        (low, high), (least, greatest) = super()._range_of_operand(operand), self._ranges_as_written.of(operand)
        return max(low, least), min(high, greatest)

    def _form_of_sum(self, node: Add, operands: Sequence[Expr]) -> Form:
        low, high = self._ranges_as_written.of(node)
        return ({}, low) if low == high else super()._form_of_sum(node, operands)

    def _after_sum_rules(self, terms: Terms, constant: int) -> Form:
        form = super()._after_sum_rules(terms, constant)
        return self._with_known_values(*form) if self._known_values else form

    @law(("d0 in [0, 9], d1 in [0, 9], d0 * d1 in [6, 6]", "d0 * d1 + d1", "d1 + 6"))
    def _with_known_values(self, terms: Terms, constant: int) -> Form:
        """x * k + y = c k + y if constraints allow only c for x."""
        for atom, value in self._known_values.items():
            if atom in terms:
                constant += terms[atom] * value
                terms = {other: coefficient for other, coefficient in terms.items() if other is not atom}
        return terms, constant

    def _stand_in(self, atom: Expr) -> Variable:
        variable = super()._stand_in(atom)
        self._ranges_as_written.known[variable] = self._ranges.known[variable]
        return variable
