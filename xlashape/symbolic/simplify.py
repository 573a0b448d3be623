"""The simplifier: rewrites expressions, bottom-up and into linear forms, under bounds of the variables.

Every expression becomes Σ coefficient × atom + constant. Sums and multiples are arithmetic on such forms; floor division and mod try their rules in order
and, where none applies, become a new atom. Each distinct expression is simplified once; every node, division and mod counts a step of the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, lcm

from xlashape.limits import spend
from xlashape.math import ceil_div
from xlashape.symbolic.canonicalize import Form, Terms, expression_of, single_atom
from xlashape.symbolic.expr import (
    Add,
    Binary,
    CeilDiv,
    Constant,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Mul,
    Variable,
    sum_terms,
)
from xlashape.symbolic.interval import Interval
from xlashape.symbolic.ranges import Ranges
from xlashape.symbolic.rules import floordiv as floordiv_rules
from xlashape.symbolic.rules import mod as mod_rules
from xlashape.symbolic.rules import sum as sum_rules
from xlashape.symbolic.rules.minmax import fold
from xlashape.symbolic.rules.product import multiply_forms

__all__ = ["Simplifier"]

Bounds = tuple[int, int]


class Simplifier:
    """Simplifies under `bounds`, one non-empty interval a variable. Variables of one value become that constant.

    >>> from xlashape.symbolic.expr import dim
    >>> s = Simplifier({dim(0): (0, 9), dim(1): (0, 9)})
    >>> s.simplify((dim(0) * 10 + dim(1)) // 10), s.simplify((dim(0) * 10 + dim(1)) % 20)
    (d0, (d0 mod 2) * 10 + d1)
    """

    _sum_rules = sum_rules.RULES
    _floordiv_rules = floordiv_rules.RULES
    _mod_rules = mod_rules.RULES
    _uses_bounds = True

    __slots__ = ("_canonicalizer", "_forms", "_known_values", "_ranges", "_sum_ranges")

    def __init__(self, bounds: dict[Variable, Bounds]) -> None:
        self._ranges = Ranges(bounds)
        self._forms: dict[Expr, Form] = {}
        self._canonicalizer: Canonicalizer | None = None
        self._known_values: dict[Expr, int] = {}
        # Of sums without common factor: least and greatest value, and the factor with which constraints have them.
        self._sum_ranges: dict[frozenset[tuple[Expr, int]], tuple[int, int, int]] = {}

    def knowing(self, facts: Sequence[tuple[Expr, Interval]]) -> Simplifier:
        """A simplifier that also knows, of each expression in `facts`, an interval that it stays within: what the constraints of a map promise."""
        sums = [
            (form, interval)
            for form, interval in [(self.form_of(expr), interval) for expr, interval in facts]
            if len(form[0]) > 1
        ]
        made = Simplifier({node: bounds for node, bounds in self._ranges.known.items() if isinstance(node, Variable)})
        for (terms, constant), (low, high) in sums:
            made._learn(terms, low - constant, high - constant)
        for expr, (low, high) in facts:
            terms, constant = made.form_of(expr)
            if len(terms) == 1:
                made._learn(terms, low - constant, high - constant)
        made._forms.clear()
        return made

    def _learn(self, terms: Terms, low: int, high: int) -> None:
        if len(terms) != 1:
            common = gcd(*terms.values())
            key = frozenset([(atom, coefficient // common) for atom, coefficient in terms.items()])
            low, high = ceil_div(low, common), high // common
            known = self._sum_ranges.get(key)
            if known is not None:
                low, high, common = max(low, known[0]), min(high, known[1]), lcm(common, known[2])
            self._sum_ranges[key] = (low, high, common)
            return
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
        terms, constant = self.form_of(expr)
        if self._known_values:
            terms, constant = self._with_known_values(terms, constant)
        if self._sum_ranges and len(terms) > 1 and gcd(*terms.values()) == 1:
            low, high = self.range_of_form(terms, constant)
            if low == high:
                return Constant(low)
        return expression_of(terms, constant)

    def _with_known_values(self, terms: Terms, constant: int) -> Form:
        for atom, value in self._known_values.items():
            if atom in terms:
                constant += terms[atom] * value
                terms = {other: coefficient for other, coefficient in terms.items() if other is not atom}
        return terms, constant

    # What rules ask for

    def form_of(self, expr: Expr) -> Form:
        """The simplified linear form."""
        found = self._forms.get(expr)
        if found is None:
            forms = self._forms
            # A long sum is one node with many operands: its parts are sums of their own to nobody.
            stack = [expr]
            while stack:
                node = stack[-1]
                if node in forms:
                    stack.pop()
                    continue
                operands = (
                    sum_terms(node)
                    if isinstance(node, Add)
                    else (node.rhs, node.lhs)
                    if isinstance(node, Binary)
                    else ()
                )
                waiting = False
                for operand in operands:
                    if operand not in forms:
                        if operand.__class__ is Variable or operand.__class__ is Constant:
                            forms[operand] = self._form(operand)
                        else:
                            stack.append(operand)
                            waiting = True
                if waiting:
                    continue
                stack.pop()
                spend(1 + len(operands))
                forms[node] = self._total(operands) if isinstance(node, Add) else self._form(node)
            found = forms[expr]
        return found

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
        if self._sum_ranges and len(terms) > 1:
            low, high = self._narrowed(terms, constant, low, high)
        return low, high

    def _narrowed(self, terms: Terms, constant: int, low: int, high: int) -> Bounds:
        """The range of a sum that is, or contains, a sum with a known range. It may turn out empty: then the domain of the map is."""
        common = gcd(*terms.values())
        known = self._sum_ranges.get(frozenset([(atom, coefficient // common) for atom, coefficient in terms.items()]))
        if known is not None and known[2] % common == 0:
            return max(low, known[0] * common + constant), min(high, known[1] * common + constant)
        return low, high

    def floor_div(self, terms: Terms, constant: int, divisor: int) -> Form:
        """(terms + constant) / divisor."""
        if divisor == 1:
            return terms, constant
        if not terms:
            return {}, constant // divisor
        spend(1)
        for rule in self._floordiv_rules:
            result = rule(self, terms, constant, divisor)
            if result is not None:
                return result
        simpler = self._sum(terms, constant)
        if simpler[0] is not terms:
            return self.floor_div(*simpler, divisor)
        atom = floordiv_rules.new_floor_div(terms, constant, divisor)
        if atom not in self._ranges.known:
            low, high = self.range_of_form(terms, constant)
            self._ranges.known[atom] = (low // divisor, high // divisor)
        form = self._forms[atom] = ({atom: 1}, 0)
        return form

    def modulo(self, terms: Terms, constant: int, modulus: int) -> Form:
        """(terms + constant) mod modulus."""
        if modulus == 1:
            return {}, 0
        if not terms:
            return {}, constant % modulus
        spend(1)
        for rule in self._mod_rules:
            result = rule(self, terms, constant, modulus)
            if result is not None:
                return result
        simpler = self._sum(terms, constant)
        if simpler[0] is not terms:
            return self.modulo(*simpler, modulus)
        atom = mod_rules.new_mod(terms, constant, modulus)
        if atom not in self._ranges.known:
            self._ranges.known[atom] = (0, modulus - 1)
        form = self._forms[atom] = ({atom: 1}, 0)
        return form

    # One node whose operands are done

    def _form(self, node: Expr) -> Form:
        cls = node.__class__
        forms = self._forms
        if cls is Constant:
            return {}, node.value  # type: ignore[attr-defined]
        if cls is Variable:
            low, high = self._ranges.of(node)
            return ({}, low) if low == high else ({node: 1}, 0)
        lhs, rhs = forms[node.lhs], forms[node.rhs]  # type: ignore[attr-defined]
        if cls is Mul:
            if not rhs[0]:
                return self._scaled(lhs, rhs[1])
            if not lhs[0]:
                return self._scaled(rhs, lhs[1])
            return self._sum(*multiply_forms(lhs, rhs))
        if cls is FloorDiv:
            assert isinstance(node, FloorDiv)
            dividend = node.lhs
            if self._uses_bounds and isinstance(dividend, Mod) and _value(dividend.rhs) <= rhs[1]:
                return {}, 0
            whole, rest = self._multiples(dividend, rhs[1]) if self._uses_bounds else (None, lhs)
            if whole is None:
                return self._sum(*self.floor_div(*lhs, rhs[1]))
            divided = ({atom: coefficient // rhs[1] for atom, coefficient in whole[0].items()}, whole[1] // rhs[1])
            return self._sum(*sum_rules.plus(*divided, self.floor_div(*rest, rhs[1])))
        if cls is Mod:
            _, rest = self._multiples(node.lhs, rhs[1]) if self._uses_bounds else (None, lhs)  # type: ignore[attr-defined]
            return self._sum(*self.modulo(*rest, rhs[1]))
        if cls is CeilDiv:
            return self._sum(*self.floor_div(lhs[0], lhs[1] + rhs[1] - 1, rhs[1]))
        return self._min_max(node)

    def _min_max(self, node: Expr) -> Form:
        """Bounds are not used inside min and max, as in XLA; only a single possible value is found out."""
        if self._canonicalizer is None:
            self._canonicalizer = Canonicalizer({})
        terms, constant = self._canonicalizer.form_of(node)
        low, high = self.range_of_form(terms, constant)
        if low == high:
            return {}, low
        atom = single_atom(terms, constant)
        if isinstance(atom, Min | Max):
            self._forms[atom] = (terms, constant)
            return terms, constant
        return self.form_of(expression_of(terms, constant))

    def _total(self, operands: Sequence[Expr]) -> Form:
        total: dict[Expr, int] = {}
        constant = 0
        for operand in operands:
            terms, shift = self._forms[operand]
            constant += shift
            for atom, coefficient in terms.items():
                value = total.get(atom, 0) + coefficient
                if value:
                    total[atom] = value
                else:
                    del total[atom]
        return self._sum(total, constant)

    def _sum(self, terms: Terms, constant: int) -> Form:
        again = len(terms) > 1 or (constant != 0 and len(terms) == 1)
        while again:
            again = False
            for rule in self._sum_rules:
                result = rule(self, terms, constant)
                if result is not None:
                    terms, constant = result
                    again = True
                    break
        return self._with_known_values(terms, constant) if self._known_values else (terms, constant)

    def _scaled(self, form: Form, factor: int) -> Form:
        terms, constant = form
        if factor == 1:
            return form
        if factor == 0:
            return {}, 0
        terms, constant = {atom: coefficient * factor for atom, coefficient in terms.items()}, constant * factor
        return self._sum(terms, constant)

    def _multiples(self, dividend: Expr, divisor: int) -> tuple[Form | None, Form]:
        """The sum `dividend` as (terms written as multiples of `divisor`, the rest), before like terms of both merge.

        x * 16 + y / 4 * 2048 is y * 2048 + x * 16 where x and y share no atom; where they do, the merged coefficient is no multiple any more.
        """
        while isinstance(dividend, FloorDiv) and dividend.rhs is _ONE:
            dividend = dividend.lhs
        if dividend.__class__ is not Add:
            return None, self._forms[dividend]
        written: dict[Expr, int] = {}
        constant = _flatten(dividend, 1, written)
        parts = [(self._forms[atom], coefficient) for atom, coefficient in written.items() if coefficient]
        if not any(c * factor % divisor == 0 for (terms, _), factor in parts for c in terms.values()):
            return None, self._forms[dividend]
        whole: Form = ({}, 0)
        rest: Form = ({}, constant)
        for (terms, shift), factor in parts:
            multiples = {atom: c for atom, c in terms.items() if c * factor % divisor == 0}
            others = terms if not multiples else {atom: c for atom, c in terms.items() if atom not in multiples}
            whole = sum_rules.plus(*whole, (multiples, 0), factor)
            rest = sum_rules.plus(*rest, (others, shift), factor)
        return whole, self._sum(*rest)


class Canonicalizer(Simplifier):
    """Like terms together, terms in order, and the rules that hold for all integers: what XLA does inside min and max."""

    __slots__ = ()
    _sum_rules = sum_rules.RULES_WITHOUT_BOUNDS
    _floordiv_rules = floordiv_rules.RULES_WITHOUT_BOUNDS
    _mod_rules = mod_rules.RULES_WITHOUT_BOUNDS
    _uses_bounds = False

    def _form(self, node: Expr) -> Form:
        return ({node: 1}, 0) if node.__class__ is Variable else super()._form(node)

    def _min_max(self, node: Expr) -> Form:
        return fold(node.__class__, self._forms[node.lhs], self._forms[node.rhs])  # type: ignore[attr-defined]

    def range_of_form(self, terms: Terms, constant: int) -> Bounds:
        del terms, constant
        return (0, 0)  # no rule above asks; new atoms are noted with it


def _value(divisor: Expr) -> int:
    """Divisors are constants; an expression makes sure of it."""
    assert isinstance(divisor, Constant)
    return divisor.value


def _flatten(expr: Expr, factor: int, terms: dict[Expr, int]) -> int:
    """Adds `factor` times the sum as it is written to `terms`, like terms together; answers its constant."""
    constant = 0
    stack = [(expr, factor)]
    while stack:
        node, factor = stack.pop()
        if isinstance(node, Add):
            stack.append((node.rhs, factor))
            stack.append((node.lhs, factor))
        elif isinstance(node, Mul) and isinstance(node.rhs, Constant):
            stack.append((node.lhs, factor * node.rhs.value))
        elif isinstance(node, FloorDiv) and node.rhs is _ONE:
            stack.append((node.lhs, factor))
        elif isinstance(node, Constant):
            constant += node.value * factor
        else:
            terms[node] = terms.get(node, 0) + factor
    return constant


_ONE = Constant(1)
