"""The simplifier: rewrites expressions into linear forms under bounds of the variables.

As in XLA that happens in passes, and what simplifying brings about meets like terms only between them. Within a pass they stand apart: in
x / 1024 + y * 64, where x / 1024 became y + z, the sum is divided by 64 as if both y were different. What holds for all values of both holds where they
are equal, and so the multiples that were written are still found.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from xlashape.symbolic.expr.expression import (
    Add,
    Constant,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Mul,
    Variable,
    VariableKind,
    sum_terms,
)
from xlashape.symbolic.expr.ranges import Ranges
from xlashape.symbolic.expr.substitute import substitute
from xlashape.symbolic.simplify.canonicalizer import Canonicalizer
from xlashape.symbolic.simplify.linear_form import Form, Terms, expression_of, single_atom
from xlashape.symbolic.simplify.rules import floordiv as floordiv_rules
from xlashape.symbolic.simplify.rules import mod as mod_rules
from xlashape.symbolic.simplify.rules import sum as sum_rules
from xlashape.symbolic.simplify.rules.rule import law

__all__ = ["Simplifier"]

Bounds = tuple[int, int]

_FIRST_STAND_IN = 1 << 40
"""Stand-ins for atoms are runtime variables beyond those of any map."""

_PASSES = 8
"""Passes in which like terms stand apart; the last one adds them at once. More than four have not been seen."""


class Simplifier(Canonicalizer):
    """Simplifies under `bounds`, one non-empty interval a variable. Variables of one value become that constant.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> s = Simplifier({dim(0): (0, 9), dim(1): (0, 9)})
    >>> s.simplify((dim(0) * 10 + dim(1)) // 10), s.simplify((dim(0) * 10 + dim(1)) % 20)
    (d0, (d0 mod 2) * 10 + d1)
    """

    _sum_rules = sum_rules.RULES
    _floordiv_rules = floordiv_rules.RULES
    _mod_rules = mod_rules.RULES

    __slots__ = (
        "_divides_mods",
        "_needs_canonical",
        "_ranges",
        "_stands_for",
        "_terms_stand_apart",
        "bounds",
        "canonicalizer",
    )

    def __init__(self, bounds: dict[Variable, Bounds], canonicalizer: Canonicalizer | None = None) -> None:
        super().__init__()
        self.canonicalizer = Canonicalizer() if canonicalizer is None else canonicalizer
        self.bounds = bounds
        self._ranges = Ranges(bounds)
        self._stands_for: dict[Variable, Expr] = {}
        self._terms_stand_apart = True
        # Whether the canonical form is needed: like terms met that simplifying made, or (x mod m) / n and a mod stand in one sum.
        self._needs_canonical = False
        self._divides_mods = False

    def within(self, bounds: dict[Variable, Bounds]) -> Simplifier:
        """A simplifier under other bounds."""
        return Simplifier(bounds, self.canonicalizer)

    def simplify(self, expr: Expr) -> Expr:
        """The simplified expression."""
        return expression_of(*self.simplified_form(expr))

    def simplified_form(self, expr: Expr) -> Form:
        """The linear form of the simplified expression: `form_of` pass by pass, until no like terms stand apart.

        The canonical form is made where it can matter only.
        """
        form = self.form_of(expr)
        return self._passes(expr) if self._needs_canonical else form

    def _passes(self, expr: Expr) -> Form:
        form = self.form_of(self.canonicalizer.canonical(expr))
        for left in range(_PASSES, -1, -1):
            if not self._stands_for:
                break
            written = expression_of(*form)
            (again,) = substitute((written,), self._stands_for)
            if again is written:
                break
            if left == 0:
                self._terms_stand_apart = False
                self._forms.clear()
            form = self.form_of(self.canonicalizer.canonical(again))
        return form

    # What rules ask for

    def range_of(self, atom: Expr) -> Bounds:
        """(least, greatest) value of an atom."""
        return self._ranges.of(atom)

    def range_of_form(self, terms: Terms, constant: int) -> Bounds:
        """(least, greatest) value of a linear form."""
        low = high = constant
        known, of = self._ranges.known, self._ranges.of
        for atom, coefficient in terms.items():
            a, b = known.get(atom) or of(atom)
            if coefficient >= 0:
                low += a * coefficient
                high += b * coefficient
            else:
                low += b * coefficient
                high += a * coefficient
        return low, high

    def floor_div(self, terms: Terms, constant: int, divisor: int) -> Form:
        """(terms + constant) / divisor, a division that a rule made."""
        return self.floor_div_of_rest(self._together(terms), constant, divisor)

    def floor_div_of_rest(self, terms: Terms, constant: int, divisor: int) -> Form:
        """(terms + constant) / divisor, for what is left of a sum that is being divided: like terms in it still stand apart."""
        return super().floor_div(terms, constant, divisor)

    def modulo(self, terms: Terms, constant: int, modulus: int) -> Form:
        """(terms + constant) mod modulus, a mod that a rule made."""
        return super().modulo(self._together(terms), constant, modulus)

    def _new_floor_div(self, terms: Terms, constant: int, divisor: int) -> Form:
        together = self._together(terms)
        if together is not terms:
            return self.floor_div(together, constant, divisor)
        form = super()._new_floor_div(terms, constant, divisor)
        (atom,) = form[0]
        if atom not in self._ranges.known:
            low, high = self._range_of_dividend(terms, constant)
            self._ranges.known[atom] = (low // divisor, high // divisor)
        return form

    def _range_of_dividend(self, terms: Terms, constant: int) -> Bounds:
        return self.range_of_form(terms, constant)

    def _new_mod(self, terms: Terms, constant: int, modulus: int) -> Form:
        together = self._together(terms)
        if together is not terms:
            return self.modulo(together, constant, modulus)
        form = super()._new_mod(terms, constant, modulus)
        (atom,) = form[0]
        if atom not in self._ranges.known:
            self._ranges.known[atom] = (0, modulus - 1)
        return form

    # One node whose operands are done

    def _variable(self, node: Expr) -> Form:
        low, high = self._ranges.of(node)
        return ({}, low) if low == high else ({node: 1}, 0)

    @law(
        ("d0 in [0, 9], d1 in [0, 9]", "((d0 * 3 + d1) mod 8) / 9", "0"),
        ("d0 in [0, 9], d1 in [0, 9]", "((d0 * 3 + d1) mod 9) / 8", "((d0 * 3 + d1) mod 9) / 8"),
    )
    def _floor_div_node(self, node: Expr, dividend: Form, divisor: int) -> Form:
        """(x mod m) / d = 0 for m ≤ d, as it is written, before the mod is simplified."""
        assert isinstance(node, FloorDiv)
        if isinstance(node.lhs, Mod):
            self._divides_mods = True
            if _value(node.lhs.rhs) <= divisor:
                return {}, 0
        if isinstance(node.lhs, Add):
            found = self._without_small_mod(node.lhs, divisor)
            if found is not None:
                return found
        if isinstance(single_atom(*dividend), Mod):
            found = floordiv_rules.of_mod(self, *dividend, divisor)
            if found is not None:
                return found
        return super().floor_div(*dividend, divisor)

    @law(
        (
            "d0 in [0, 7], d1 in [0, 6], d2 in [0, 10]",
            "(d0 * 1000 + (d1 * 11 + d2) mod 44) / 400",
            "(d0 * 5) / 2",
        )
    )
    def _without_small_mod(self, dividend: Add, divisor: int) -> Form | None:
        """(x * g + y mod m) / (d g) = x / d if y mod m, as it is written, stays within [0, g): its terms alone need not."""
        operands = sum_terms(dividend)
        forms = self._forms
        mods = [term for term in operands if isinstance(term, Mod) and len(forms[term][0]) > 1]
        if len(mods) != 1 or forms[mods[0]] == forms[mods[0].lhs]:
            return None
        (mod,) = mods
        rest: Form = ({}, 0)
        for operand in operands:
            if operand is not mod:
                rest = sum_rules.plus(*rest, forms[operand])
        common = gcd(divisor, rest[1], *rest[0].values())
        if common < _value(mod.rhs):
            return None
        terms = {atom: coefficient // common for atom, coefficient in rest[0].items()}
        return self.floor_div_of_rest(terms, rest[1] // common, divisor // common)

    @law(
        ("d0 in [0, 9], d1 in [0, 9]", "((d0 * 3 + d1) mod 8 + d1 * 4) mod 4", "(d0 * 3 + d1) mod 4"),
        ("d0 in [-7, -4]", "(d0 mod 7 + d0 * 10) mod 30", "(d0 mod 3) * 10 + d0 + 7"),
    )
    def _mod_node(self, node: Expr, dividend: Form, modulus: int) -> Form:
        """(x mod (m k) + y m) mod m = x mod m as it is written, before x mod (m k) is simplified; like terms in x stand apart."""
        assert isinstance(node, Mod)
        inner, found = node.lhs, None
        while True:
            if isinstance(inner, Add):
                left = [term for term in sum_terms(inner) if not _is_multiple(term, modulus)]
                if len(left) != 1:
                    break
                inner = left[0]
            if not isinstance(inner, Mod) or _value(inner.rhs) % modulus:
                break
            inner = found = inner.lhs
        return super().modulo(*(dividend if found is None else self.form_of(found)), modulus)

    @law(
        ("d0 in [3, 3], d1 in [3, 9]", "min(d0, d1)", "3"),
        ("d0 in [0, 3], d1 in [3, 9]", "min(d0, d1)", "min(d0, d1)"),
    )
    def _min_max(self, node: Expr) -> Form:
        """min(x, y) = c if it can have no other value. Beyond that, bounds are not used inside min and max, as in XLA."""
        terms, constant = self.canonicalizer.form_of(node)
        low, high = self.range_of_form(terms, constant)
        if low == high:
            return {}, low
        atom = single_atom(terms, constant)
        if isinstance(atom, Min | Max):
            self._forms[atom] = (terms, constant)
            return terms, constant
        return self.form_of(expression_of(terms, constant))

    # Like terms

    def _total(self, node: Expr, operands: Sequence[Expr]) -> Form:
        del node
        total: dict[Expr, int] = {}
        constant = count = 0
        for operand in operands:
            terms, shift = self._forms[operand]
            constant += shift
            count += len(terms)
            total.update(terms)
        if len(total) < count:
            total = self._with_like_terms(operands)
        if self._divides_mods:
            self._needs_canonical = self._needs_canonical or any(_is_mod(operand) for operand in operands)
        return self._sum(total, constant)

    def _with_like_terms(self, operands: Sequence[Expr]) -> dict[Expr, int]:
        """The sum of the operands. What simplifying made of one operand stands apart from like terms of the others."""
        total: dict[Expr, int] = {}
        later: list[Terms] = []
        for operand in operands:
            terms = self._forms[operand][0]
            self._needs_canonical = self._needs_canonical or not _is_as_written(operand, terms)
            if self._terms_stand_apart and (len(terms) > 1 or self._is_made(operand, terms)):
                later.append(terms)
            else:
                total = dict(sum_rules.plus(total, 0, (terms, 0))[0])
        for terms in later:
            for atom, coefficient in terms.items():
                total[self._stand_in(atom) if atom in total else atom] = coefficient
        return total

    def _is_made(self, operand: Expr, terms: Terms) -> bool:
        """Whether the one term of the operand is not one that it was written with. x mod m that never reaches m counts as x."""
        if isinstance(operand, Mul) and isinstance(operand.rhs, Constant):
            operand = operand.lhs
        while isinstance(operand, Mod) and operand not in terms:
            if self._forms[operand] != self._forms[operand.lhs]:
                return True
            operand = operand.lhs
        return isinstance(operand, FloorDiv) and operand not in terms

    def _stand_in(self, atom: Expr) -> Variable:
        made = Variable(VariableKind.RUNTIME, _FIRST_STAND_IN + len(self._stands_for))
        (self._stands_for[made],) = substitute((atom,), self._stands_for)
        self._ranges.known[made] = self._ranges.of(atom)
        self._forms[made] = ({made: 1}, 0)
        return made

    def _together(self, terms: Terms) -> Terms:
        """Without stand-ins among the terms: like terms added."""
        if not self._stands_for or not any(atom in self._stands_for for atom in terms):
            return terms
        total: dict[Expr, int] = {}
        for atom, coefficient in terms.items():
            meant = self._stands_for.get(atom, atom) if isinstance(atom, Variable) else atom
            total = dict(sum_rules.plus(total, 0, ({meant: coefficient}, 0))[0])
        return total


def _is_as_written(operand: Expr, terms: Terms) -> bool:
    """Whether simplifying left the operand, an atom or a multiple of one, as it was."""
    if not isinstance(operand, Variable):
        operand = operand.lhs if isinstance(operand, Mul) else operand
    return (len(terms) == 1 and operand in terms) or isinstance(operand, Constant)


def _is_mod(operand: Expr) -> bool:
    """Whether the operand of a sum is a mod or a multiple of one."""
    return isinstance(operand.lhs if isinstance(operand, Mul) else operand, Mod)


def _is_multiple(term: Expr, modulus: int) -> bool:
    """Whether the term is written as a multiple of the modulus."""
    factor = term.rhs if isinstance(term, Mul) else term
    return isinstance(factor, Constant) and factor.value % modulus == 0


def _value(divisor: Expr) -> int:
    """Divisors are constants; an expression makes sure of it."""
    assert isinstance(divisor, Constant)
    return divisor.value
