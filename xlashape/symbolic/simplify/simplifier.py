"""The simplifier: rewrites expressions into linear forms, by the laws that hold for all integers (`Canonicalizer`), and
by those that need the bounds of the variables (`Simplifier`).

Every expression becomes a linear form Σ coefficient × atom + constant. Sums and multiples are arithmetic on such forms.
Floor division and mod try their rules in order; if none applies, the division or mod is a new atom. Every node,
division and mod counts a step of the budget.

As in XLA, using bounds takes several passes. Terms that simplification produces are added to like terms of the same sum
only between passes. Within a pass a *stand-in* represents such a term: a new variable with the same bounds.

Example: in (x / 1024 + y * 64) / 64, let x / 1024 simplify to y + z. Adding like terms at once gives (y * 65 + z) / 64,
where no multiple of 64 is left to take out. With a stand-in v for the new y it is (v + z + y * 64) / 64 = (v + z) / 64
+ y. The result is right because a law that holds for all values of v and y holds where they are equal. The next pass
starts with v replaced by y.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import Any

from xlashape.limits import spend
from xlashape.symbolic.expr import expression as ex
from xlashape.symbolic.expr.expression import Binary, Constant, Expr, Variable, VariableKind
from xlashape.symbolic.expr.ranges import Bounds, Ranges
from xlashape.symbolic.simplify.rules import floordiv as floordiv_rules
from xlashape.symbolic.simplify.rules import mod as mod_rules
from xlashape.symbolic.simplify.rules import sum as sum_rules
from xlashape.symbolic.simplify.rules.rule import Form, Terms, expression_of, law, single_atom
from xlashape.symbolic.simplify.rules.sum import fold, multiply_forms

# -- without bounds ----------------------------------------------------------------------------


class Canonicalizer:
    """Adds like terms, sorts terms, and applies the rules that need no bounds, as XLA does before it simplifies an
    expression, and inside min and max.

    An object keeps the forms of all expressions that it has met for as long as it lives.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> Canonicalizer().canonical((dim(1) * 8 + dim(0) % 4 + dim(1) * 4) // 4)
    d1 * 3 + (d0 mod 4) / 4
    """

    # A rule takes the object that runs it: a `RuleContext` here, a `BoundedContext` in the simplifier.
    _sum_rules: tuple[Callable[[Any, Terms, int], Form | None], ...] = sum_rules.RULES_WITHOUT_BOUNDS
    _floordiv_rules: tuple[Callable[[Any, Terms, int, int], Form | None], ...] = floordiv_rules.RULES_WITHOUT_BOUNDS
    _mod_rules: tuple[Callable[[Any, Terms, int, int], Form | None], ...] = mod_rules.RULES_WITHOUT_BOUNDS

    __slots__ = ("_forms",)

    def __init__(self) -> None:
        self._forms: dict[Expr, Form] = {}

    def canonical(self, expr: Expr) -> Expr:
        """The expression in canonical form."""
        return expression_of(*self.form_of(expr))

    # The methods of `RuleContext`, for rules

    def form_of(self, expr: Expr) -> Form:
        """The linear form of an expression."""
        forms = self._forms
        form = forms.get(expr)
        if form is not None:
            return form
        if self._is_simple(expr):
            return forms[expr]
        # A sum of many terms is one node with many operands here: the partial sums that it is built from get no forms
        # of their own.
        assert isinstance(expr, Binary)
        stack: list[tuple[Binary, Sequence[Expr]]] = [(expr, _operands(expr))]
        while stack:
            node, operands = stack[-1]
            if node in forms:
                stack.pop()
                continue
            waiting = False
            for operand in operands:
                if operand not in forms and not self._is_simple(operand):
                    assert isinstance(operand, Binary)
                    stack.append((operand, _operands(operand)))
                    waiting = True
            if waiting:
                continue
            stack.pop()
            spend(1 + len(operands))
            forms[node] = self._form_of_sum(node, operands) if type(node) is ex.Add else self._form_of_operator(node)
        return forms[expr]

    def _is_simple(self, node: Expr) -> bool:
        """Whether the node is a variable, a constant or a multiple of a variable; stores its form if so."""
        # This method is called for every node, often several times. `type(node) is` takes a third of the time of
        # `isinstance`, and decides the same, since the classes of nodes have no subclasses.
        if type(node) is Variable:
            self._forms[node] = self._form_of_variable(node)
        elif type(node) is Constant:
            self._forms[node] = {}, node.value
        elif type(node) is ex.Mul and type(node.rhs) is Constant and type(node.lhs) is Variable:
            factor = node.rhs.value
            terms, constant = self._form_of_variable(node.lhs)
            self._forms[node] = ({node.lhs: factor} if terms and factor else {}, constant * factor)
        else:
            return False
        return True

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
        simpler = self._after_sum_rules(terms, constant)
        if simpler[0] is not terms:
            return self.floor_div(*simpler, divisor)
        return self._new_floor_div(terms, constant, divisor)

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
        return self._new_mod(terms, constant, modulus)

    def _new_floor_div(self, terms: Terms, constant: int, divisor: int) -> Form:
        atom = floordiv_rules.new_floor_div(terms, constant, divisor)
        form = self._forms[atom] = ({atom: 1}, 0)
        return form

    def _new_mod(self, terms: Terms, constant: int, modulus: int) -> Form:
        atom = mod_rules.new_mod(terms, constant, modulus)
        form = self._forms[atom] = ({atom: 1}, 0)
        return form

    # The form of one node, from the forms of its operands

    def _form_of_operator(self, node: Binary) -> Form:
        lhs, rhs = self._forms[node.lhs], self._forms[node.rhs]
        if isinstance(node, ex.Mul):
            if not rhs[0]:
                return self._scaled(lhs, rhs[1])
            if not lhs[0]:
                return self._scaled(rhs, lhs[1])
            return self._after_sum_rules(*multiply_forms(lhs, rhs))
        if isinstance(node, ex.FloorDiv):
            return self._after_sum_rules(*self._form_of_floor_div(node, lhs, rhs[1]))
        if isinstance(node, ex.Mod):
            return self._after_sum_rules(*self._form_of_mod(node, lhs, rhs[1]))
        if isinstance(node, ex.CeilDiv):
            return self._after_sum_rules(*self.floor_div(lhs[0], lhs[1] + rhs[1] - 1, rhs[1]))
        assert isinstance(node, ex.Min | ex.Max)
        return self._form_of_min_max(node)

    def _form_of_variable(self, node: Variable) -> Form:
        return {node: 1}, 0

    def _form_of_floor_div(self, node: ex.FloorDiv, dividend: Form, divisor: int) -> Form:
        del node
        return self.floor_div(*dividend, divisor)

    def _form_of_mod(self, node: ex.Mod, dividend: Form, modulus: int) -> Form:
        del node
        return self.modulo(*dividend, modulus)

    def _form_of_min_max(self, node: ex.Min | ex.Max) -> Form:
        return fold(node.__class__, self._forms[node.lhs], self._forms[node.rhs])

    def _form_of_sum(self, node: ex.Add, operands: Sequence[Expr]) -> Form:
        del node
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
        return self._after_sum_rules(total, constant)

    def _after_sum_rules(self, terms: Terms, constant: int) -> Form:
        """The form after the rules for sums. When a rule has applied, all rules are tried again from the first."""
        changed = len(terms) > 1 or (constant != 0 and len(terms) == 1)
        while changed:
            changed = False
            for rule in self._sum_rules:
                result = rule(self, terms, constant)
                if result is not None:
                    terms, constant = result
                    changed = True
                    break
        return terms, constant

    def _scaled(self, form: Form, factor: int) -> Form:
        terms, constant = form
        if factor == 1:
            return form
        if factor == 0:
            return {}, 0
        terms, constant = {atom: coefficient * factor for atom, coefficient in terms.items()}, constant * factor
        return self._after_sum_rules(terms, constant)


def _operands(node: Binary) -> Sequence[Expr]:
    """All terms of a sum, or both operands of another operator."""
    return ex.sum_terms(node) if type(node) is ex.Add else (node.rhs, node.lhs)


# -- with bounds -------------------------------------------------------------------------------


_FIRST_STAND_IN = 1 << 40
"""The index of the first stand-in. Stand-ins are runtime variables with indices that no map has."""

_PASSES = 8
"""The largest number of passes after the first. No expression is known that takes more than four passes."""


class Simplifier(Canonicalizer):
    """Simplifies expressions whose variables stay within `bounds`, one non-empty interval each. A variable with one
    value becomes that constant.

    All expressions of one domain share a simplifier: the forms, ranges and stand-ins that it has computed live as long
    as it does.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> s = Simplifier({dim(0): (0, 9), dim(1): (0, 9)})
    >>> s.simplify((dim(0) * 10 + dim(1)) // 10), s.simplify((dim(0) * 10 + dim(1)) % 20)
    (d0, (d0 mod 2) * 10 + d1)
    """

    _sum_rules = sum_rules.RULES
    _floordiv_rules = floordiv_rules.RULES
    _mod_rules = mod_rules.RULES

    __slots__ = ("_ranges", "_seen_mod_divided", "_stands_for", "_takes_passes", "bounds", "canonicalizer")

    def __init__(self, bounds: dict[Variable, Bounds], canonicalizer: Canonicalizer | None = None) -> None:
        super().__init__()
        self.canonicalizer = Canonicalizer() if canonicalizer is None else canonicalizer
        self.bounds = bounds
        self._ranges = Ranges(bounds)
        self._stands_for: dict[Variable, Expr] = {}
        # Both flags are set while an expression is simplified, and hold for all later expressions: see `_note_sum`.
        self._takes_passes = False
        self._seen_mod_divided = False

    def within(self, bounds: dict[Variable, Bounds]) -> Simplifier:
        """A simplifier for other bounds, with the same canonicalizer."""
        return Simplifier(bounds, self.canonicalizer)

    def simplify(self, expr: Expr) -> Expr:
        """The simplified expression."""
        return expression_of(*self.simplified_form(expr))

    def simplified_form(self, expr: Expr) -> Form:
        """The linear form of the simplified expression.

        Most expressions take one pass over the expression as written. Once `_note_sum` has asked for it, expressions
        take passes over their canonical form until the result has no stand-ins, which takes 1.5 times as long.
        """
        form = self.form_of(expr)
        return self._passes(expr) if self._takes_passes else form

    def _passes(self, expr: Expr) -> Form:
        form = self.form_of(self.canonicalizer.canonical(expr))
        if not self._stands_for:
            return form
        for _ in range(_PASSES):
            written = expression_of(*form)
            (replaced,) = ex.substitute((written,), self._stands_for)
            if replaced is written:
                return form
            form = self.form_of(self.canonicalizer.canonical(replaced))
        (replaced,) = ex.substitute((expression_of(*form),), self._stands_for)
        return self.canonicalizer.form_of(replaced)

    # The methods of `RuleContext`, for rules

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
        """(terms + constant) / divisor, for a division that a rule has made. Stand-ins are replaced by what they stand
        for.
        """
        return self.floor_div_of_rest(self._without_stand_ins(terms), constant, divisor)

    def floor_div_of_rest(self, terms: Terms, constant: int, divisor: int) -> Form:
        """(terms + constant) / divisor, for the terms that are left of a dividend after a rule has taken others out.
        Stand-ins stay.
        """
        return super().floor_div(terms, constant, divisor)

    def modulo(self, terms: Terms, constant: int, modulus: int) -> Form:
        """(terms + constant) mod modulus, for a mod that a rule has made. Stand-ins are replaced by what they stand
        for.
        """
        return super().modulo(self._without_stand_ins(terms), constant, modulus)

    def _new_floor_div(self, terms: Terms, constant: int, divisor: int) -> Form:
        replaced = self._without_stand_ins(terms)
        if replaced is not terms:
            return self.floor_div(replaced, constant, divisor)
        form = super()._new_floor_div(terms, constant, divisor)
        (atom,) = form[0]
        if atom not in self._ranges.known:
            low, high = self._range_of_dividend(terms, constant)
            self._ranges.known[atom] = (low // divisor, high // divisor)
        return form

    def _range_of_dividend(self, terms: Terms, constant: int) -> Bounds:
        return self.range_of_form(terms, constant)

    def _new_mod(self, terms: Terms, constant: int, modulus: int) -> Form:
        replaced = self._without_stand_ins(terms)
        if replaced is not terms:
            return self.modulo(replaced, constant, modulus)
        form = super()._new_mod(terms, constant, modulus)
        (atom,) = form[0]
        if atom not in self._ranges.known:
            self._ranges.known[atom] = (0, modulus - 1)
        return form

    # The form of one node, from the forms of its operands

    def _form_of_variable(self, node: Variable) -> Form:
        low, high = self._ranges.of(node)
        return ({}, low) if low == high else ({node: 1}, 0)

    def _form_of_floor_div(self, node: ex.FloorDiv, dividend: Form, divisor: int) -> Form:
        quotient = None
        if isinstance(node.lhs, ex.Mod):
            self._seen_mod_divided = True
            quotient = self._of_smaller_mod(node.lhs, divisor)
        elif isinstance(node.lhs, ex.Add):
            quotient = self._without_small_mod(node.lhs, divisor)
        if quotient is None and isinstance(single_atom(*dividend), ex.Mod):
            quotient = floordiv_rules.of_mod(self, *dividend, divisor)
        return super().floor_div(*dividend, divisor) if quotient is None else quotient

    @law(
        ("d0 in [0, 9], d1 in [0, 9]", "((d0 * 3 + d1) mod 8) / 9", "0"),
        ("d0 in [0, 9], d1 in [0, 9]", "((d0 * 3 + d1) mod 9) / 8", "((d0 * 3 + d1) mod 9) / 8"),
    )
    def _of_smaller_mod(self, dividend: ex.Mod, divisor: int) -> Form | None:
        """(x mod m) / d = 0 for m ≤ d. Looks at the dividend as written, before the mod is simplified."""
        return ({}, 0) if _value(dividend.rhs) <= divisor else None

    @law(("d0 in [0, 7], d1 in [0, 6], d2 in [0, 10]", "(d0 * 1000 + (d1 * 11 + d2) mod 44) / 400", "(d0 * 5) / 2"))
    def _without_small_mod(self, dividend: ex.Add, divisor: int) -> Form | None:
        """(x * g + y mod m) / (d g) = x / d if m ≤ g. Looks at the dividend as written, since y mod m can become
        several terms when it is simplified.
        """
        operands = ex.sum_terms(dividend)
        forms = self._forms
        mods = [term for term in operands if isinstance(term, ex.Mod) and len(forms[term][0]) > 1]
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
        ("d0 in [0, 63]", "(d0 * 11 - (d0 / 16) * 16) mod 4", "(d0 * 11) mod 4"),
    )
    def _form_of_mod(self, node: ex.Mod, dividend: Form, modulus: int) -> Form:
        """(x mod (m k) + y m) mod m = x mod m. Looks at the dividend as written, before its terms are simplified.
        Stand-ins in x stay.
        """
        inner, innermost = node.lhs, None
        while True:
            if isinstance(inner, ex.Add):
                others = [term for term in ex.sum_terms(inner) if not _is_multiple(term, modulus)]
                if len(others) != 1:
                    break
                inner = others[0]
            if not isinstance(inner, ex.Mod) or _value(inner.rhs) % modulus:
                break
            inner = innermost = inner.lhs
        if innermost is None:
            innermost = self._without_multiples(node.lhs, modulus)
        return super().modulo(*(dividend if innermost is None else self.form_of(innermost)), modulus)

    def _without_multiples(self, dividend: Expr, modulus: int) -> Expr | None:
        """The one term of a sum in canonical form that is not a multiple of the modulus, if a quotient is among the
        other terms. None if there is no such term.

        Without this step the sum would join x - (x / 16) * 16 to x mod 16, and no multiple would be left to drop.
        """
        if not isinstance(dividend, ex.Add) or not any(map(_is_quotient_times, ex.sum_terms(dividend))):
            return None
        terms, constant = self.canonicalizer.form_of(dividend)
        others = {atom: coefficient for atom, coefficient in terms.items() if coefficient % modulus}
        return expression_of(others, 0) if len(others) == 1 < len(terms) and constant == 0 else None

    @law(
        ("d0 in [3, 3], d1 in [3, 9]", "min(d0, d1)", "3"),
        ("d0 in [0, 3], d1 in [3, 9]", "min(d0, d1)", "d0"),
        ("d0 in [0, 3], d1 in [3, 9]", "max(d0 mod 4, d1)", "d1"),
        ("d0 in [0, 3], d1 in [2, 9]", "min(d0 mod 4, d1)", "min(d0 mod 4, d1)"),
    )
    def _form_of_min_max(self, node: ex.Min | ex.Max) -> Form:
        """min(x, y) = x if the greatest value of x is at most the least value of y; max likewise. Otherwise x and y are
        simplified without bounds, as in XLA.
        """
        terms, constant = self.canonicalizer.form_of(node)
        low, high = self.range_of_form(terms, constant)
        if low == high:
            return {}, low
        atom = single_atom(terms, constant)
        if isinstance(atom, ex.Min | ex.Max):
            smaller, larger = atom.lhs, atom.rhs
            of_smaller, of_larger = self._range_of_operand(smaller), self._range_of_operand(larger)
            if of_larger[1] <= of_smaller[0]:
                smaller, larger, of_smaller, of_larger = larger, smaller, of_larger, of_smaller
            if of_smaller[1] <= of_larger[0]:
                return self.form_of(smaller if isinstance(atom, ex.Min) else larger)
            self._forms[atom] = (terms, constant)
            return terms, constant
        return self.form_of(expression_of(terms, constant))

    def _range_of_operand(self, operand: Expr) -> Bounds:
        """(least, greatest) value of an operand of min or max in canonical form."""
        return self._ranges.of(operand)

    # Sums, and the stand-ins for like terms in them

    def _form_of_sum(self, node: ex.Add, operands: Sequence[Expr]) -> Form:
        del node
        total: dict[Expr, int] = {}
        constant = count = 0
        for operand in operands:
            terms, shift = self._forms[operand]
            constant += shift
            count += len(terms)
            total.update(terms)
        has_like_terms = len(total) < count
        if not self._takes_passes:
            self._note_sum(operands, has_like_terms)
        return self._after_sum_rules(self._with_stand_ins(operands) if has_like_terms else total, constant)

    def _note_sum(self, operands: Sequence[Expr], has_like_terms: bool) -> None:
        """Decides whether this and all later expressions take passes over their canonical form.

        They do in two cases: once a sum has like terms and an operand that simplification has changed, and once a sum
        has a mod among its operands after an expression with (x mod m) / n. Until then, expressions are simplified as
        they are written, which can give another, equal text.
        """
        changed = has_like_terms and not all(_is_as_written(term, self._forms[term][0]) for term in operands)
        self._takes_passes = changed or (self._seen_mod_divided and any(map(_is_mod, operands)))

    def _with_stand_ins(self, operands: Sequence[Expr]) -> dict[Expr, int]:
        """The sum of the operands. A term that simplification has produced from one operand is represented by a
        stand-in if another operand has the same term.
        """
        total: dict[Expr, int] = {}
        produced: list[Terms] = []
        for operand in operands:
            terms = self._forms[operand][0]
            if len(terms) > 1 or self._is_produced(operand, terms):
                produced.append(terms)
            else:
                total = dict(sum_rules.plus(total, 0, (terms, 0))[0])
        for terms in produced:
            for atom, coefficient in terms.items():
                total[self._stand_in(atom) if atom in total else atom] = coefficient
        return total

    def _is_produced(self, operand: Expr, terms: Terms) -> bool:
        """Whether simplification has replaced the one term of the operand by another. An x mod m that equals x
        everywhere counts as x.
        """
        if isinstance(operand, ex.Mul) and isinstance(operand.rhs, Constant):
            operand = operand.lhs
        while isinstance(operand, ex.Mod) and operand not in terms:
            if self._forms[operand] != self._forms[operand.lhs]:
                return True
            operand = operand.lhs
        return isinstance(operand, ex.FloorDiv) and operand not in terms

    def _stand_in(self, atom: Expr) -> Variable:
        """A new stand-in for an atom."""
        variable = Variable(VariableKind.RUNTIME, _FIRST_STAND_IN + len(self._stands_for))
        (self._stands_for[variable],) = ex.substitute((atom,), self._stands_for)
        self._ranges.known[variable] = self._ranges.of(atom)
        self._forms[variable] = ({variable: 1}, 0)
        return variable

    def _without_stand_ins(self, terms: Terms) -> Terms:
        """The terms with stand-ins replaced by the atoms they stand for, and like terms added."""
        if not self._stands_for or not any(atom in self._stands_for for atom in terms):
            return terms
        total: dict[Expr, int] = {}
        for atom, coefficient in terms.items():
            represented = self._stands_for.get(atom, atom) if isinstance(atom, Variable) else atom
            total = dict(sum_rules.plus(total, 0, ({represented: coefficient}, 0))[0])
        return total


def _is_as_written(operand: Expr, terms: Terms) -> bool:
    """Whether the operand is an atom or a multiple of one, and simplification has left it as it was."""
    if not isinstance(operand, Variable):
        operand = operand.lhs if isinstance(operand, ex.Mul) else operand
    return (len(terms) == 1 and operand in terms) or isinstance(operand, Constant)


def _is_mod(operand: Expr) -> bool:
    """Whether the operand of a sum is a mod or a multiple of one."""
    return isinstance(operand.lhs if isinstance(operand, ex.Mul) else operand, ex.Mod)


def _is_quotient_times(term: Expr) -> bool:
    """Whether the term is written as a multiple of a division."""
    return isinstance(term, ex.Mul) and isinstance(term.lhs, ex.FloorDiv) and isinstance(term.rhs, Constant)


def _is_multiple(term: Expr, modulus: int) -> bool:
    """Whether the term is written as a multiple of the modulus."""
    factor = term.rhs if isinstance(term, ex.Mul) else term
    return isinstance(factor, Constant) and factor.value % modulus == 0


def _value(divisor: Expr) -> int:
    """The value of a divisor, which is a constant: the node classes refuse others."""
    assert isinstance(divisor, Constant)
    return divisor.value
