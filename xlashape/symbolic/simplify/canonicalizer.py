"""The canonical form of expressions, by the laws that hold for all integers, and the walk over expressions that the
simplifier shares with it.

Every expression becomes a linear form Σ coefficient × atom + constant. Sums and multiples are arithmetic on such forms.
Floor division and mod try their rules in order; if none applies, the division or mod is a new atom. Every node,
division and mod counts a step of the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlashape.limits import spend
from xlashape.symbolic.expr.expression import (
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
from xlashape.symbolic.simplify.rules import floordiv as floordiv_rules
from xlashape.symbolic.simplify.rules import mod as mod_rules
from xlashape.symbolic.simplify.rules import sum as sum_rules
from xlashape.symbolic.simplify.rules.rule import Form, Terms, expression_of
from xlashape.symbolic.simplify.rules.sum import fold, multiply_forms


class Canonicalizer:
    """Adds like terms, sorts terms, and applies the rules that need no bounds, as XLA does before it simplifies an
    expression, and inside min and max.

    The forms of all expressions seen are kept as long as the object lives.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> Canonicalizer().canonical((dim(1) * 8 + dim(0) % 4 + dim(1) * 4) // 4)
    d1 * 3 + (d0 mod 4) / 4
    """

    # A rule takes the object that runs it: a `Context` here, a `BoundedContext` in the simplifier.
    _sum_rules: tuple[Callable[[Any, Terms, int], Form | None], ...] = sum_rules.RULES_WITHOUT_BOUNDS
    _floordiv_rules: tuple[Callable[[Any, Terms, int, int], Form | None], ...] = floordiv_rules.RULES_WITHOUT_BOUNDS
    _mod_rules: tuple[Callable[[Any, Terms, int, int], Form | None], ...] = mod_rules.RULES_WITHOUT_BOUNDS

    __slots__ = ("_forms",)

    def __init__(self) -> None:
        self._forms: dict[Expr, Form] = {}

    def canonical(self, expr: Expr) -> Expr:
        """The same function of its variables, in canonical form."""
        return expression_of(*self.form_of(expr))

    # The methods of `Context`, for rules

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
            forms[node] = self._form_of_sum(node, operands) if type(node) is Add else self._form_of_operator(node)
        return forms[expr]

    def _is_simple(self, node: Expr) -> bool:
        """Whether the node is a variable, a constant or a multiple of a variable; stores its form if so."""
        # Every node comes by here, often. `type(node) is` takes a third of the time of `isinstance`; no class of nodes
        # has subclasses.
        if type(node) is Variable:
            self._forms[node] = self._form_of_variable(node)
        elif type(node) is Constant:
            self._forms[node] = {}, node.value
        elif type(node) is Mul and type(node.rhs) is Constant and type(node.lhs) is Variable:
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
        if isinstance(node, Mul):
            if not rhs[0]:
                return self._scaled(lhs, rhs[1])
            if not lhs[0]:
                return self._scaled(rhs, lhs[1])
            return self._after_sum_rules(*multiply_forms(lhs, rhs))
        if isinstance(node, FloorDiv):
            return self._after_sum_rules(*self._form_of_floor_div(node, lhs, rhs[1]))
        if isinstance(node, Mod):
            return self._after_sum_rules(*self._form_of_mod(node, lhs, rhs[1]))
        if isinstance(node, CeilDiv):
            return self._after_sum_rules(*self.floor_div(lhs[0], lhs[1] + rhs[1] - 1, rhs[1]))
        assert isinstance(node, Min | Max)
        return self._form_of_min_max(node)

    def _form_of_variable(self, node: Variable) -> Form:
        return {node: 1}, 0

    def _form_of_floor_div(self, node: FloorDiv, dividend: Form, divisor: int) -> Form:
        del node
        return self.floor_div(*dividend, divisor)

    def _form_of_mod(self, node: Mod, dividend: Form, modulus: int) -> Form:
        del node
        return self.modulo(*dividend, modulus)

    def _form_of_min_max(self, node: Min | Max) -> Form:
        return fold(node.__class__, self._forms[node.lhs], self._forms[node.rhs])

    def _form_of_sum(self, node: Add, operands: Sequence[Expr]) -> Form:
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
        """The form after the rules for sums, the first of which that applies is followed by all of them again."""
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
    return sum_terms(node) if type(node) is Add else (node.rhs, node.lhs)
