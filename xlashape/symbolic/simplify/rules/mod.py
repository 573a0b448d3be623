"""Rules for (terms + constant) mod modulus, for a constant modulus above 1.

A rule takes the context, the simplified terms and constant, and the modulus.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from xlashape.symbolic.expr.expression import Constant, Expr, Mod, Mul, order_key
from xlashape.symbolic.simplify.rules import rule
from xlashape.symbolic.simplify.rules.floordiv import outer_multiple, splits
from xlashape.symbolic.simplify.rules.rule import BoundedContext, Form, RuleContext, Terms, law
from xlashape.symbolic.simplify.rules.sum import plus


@law(
    ("d0 in [0, 9], d1 in [0, 9]", "(d0 * 8 + d1 - 3) mod 4", "(d1 + 1) mod 4"),
    ("d0 in [-9, 9]", "(d0 * 4) mod 2", "0"),
)
def multiples(context: RuleContext, terms: Terms, constant: int, modulus: int) -> Form | None:
    """(x * (m k) + y) mod m = y mod m, and y's constant is taken modulo m."""
    rest = {atom: coefficient for atom, coefficient in terms.items() if coefficient % modulus}
    if len(rest) == len(terms) and 0 <= constant < modulus:
        return None
    if not rest:
        return {}, constant % modulus
    return context.modulo(rest, constant % modulus, modulus)


@law(
    ("d0 in [0, 3]", "d0 mod 4", "d0"), ("d0 in [4, 6]", "d0 mod 4", "d0 - 4"), ("d0 in [-3, -1]", "d0 mod 4", "d0 + 4")
)
def one_period(context: BoundedContext, terms: Terms, constant: int, modulus: int) -> Form | None:
    """x mod m = x - q m if x lies within [q m, q m + m - 1]."""
    low, high = context.range_of_form(terms, constant)
    start = low // modulus * modulus
    if high >= start + modulus:
        return None
    return ({}, low - start) if low == high else (terms, constant - start)


@law(("d0 in [-50, 50]", "(d0 mod 12) mod 4", "d0 mod 4"))
def of_mod(context: RuleContext, terms: Terms, constant: int, modulus: int) -> Form | None:
    """(x mod (m k)) mod m = x mod m."""
    atom = rule.single_atom(terms, constant)
    if atom.__class__ is not Mod:
        return None
    assert isinstance(atom, Mod) and isinstance(atom.rhs, Constant)
    if atom.rhs.value % modulus:
        return None
    return context.modulo(*context.form_of(atom.lhs), modulus)


@law(
    ("d0 in [-9, 9]", "(d0 * 6) mod 4", "((d0 * 3) mod 2) * 2"),
    ("d0 in [-9, 9]", "(d0 * -6) mod 4", "((d0 * -3) mod 2) * 2"),
    ("d0 in [-9, 9], d1 in [-9, 9]", "(d0 * 6 + d1 * 6) mod 4", "(d0 * 6 + d1 * 6) mod 4"),
)
def common_factor(context: RuleContext, terms: Terms, constant: int, modulus: int) -> Form | None:
    """(x * c g) mod (m g) = ((x * c) mod m) * g, for a single term."""
    if constant or len(terms) > 1:
        return None
    ((atom, coefficient),) = terms.items()
    common = gcd(modulus, coefficient)
    if common == 1:
        return None
    inner, rest = context.modulo({atom: coefficient // common}, 0, modulus // common)
    return {atom: coefficient * common for atom, coefficient in inner.items()}, rest * common


@law(
    (
        "d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]",
        "(d0 * 100 + d1 * 10 + d2) mod 30",
        "((d0 * 10 + d1) mod 3) * 10 + d2",
    ),
    ("d0 in [-9, 9], d1 in [-9, 9]", "(d0 * 6 + d1 * 4) mod 8", "((d0 * 3 + d1 * 2) mod 4) * 2"),
    ("d0 in [-9, 9], d1 in [-9, 9]", "(d0 * 6 + d1 * 4 + 1) mod 8", "((d0 * 3 + d1 * 2) mod 4) * 2 + 1"),
)
def small_rest(context: BoundedContext, terms: Terms, constant: int, modulus: int) -> Form | None:
    """(x * g + y) mod (m g) = (x mod m) * g + y if y stays within [0, g)."""
    for large, common, _ in splits(context, terms, constant, 0):
        if common > 0 and modulus % common == 0:
            quotients = {atom: coefficient // common for atom, coefficient in large.items()}
            inner, rest = context.modulo(quotients, 0, modulus // common)
            small = {atom: coefficient for atom, coefficient in terms.items() if atom not in large}
            return plus(
                {atom: coefficient * common for atom, coefficient in inner.items()}, rest * common, (small, constant)
            )
    return None


@law(
    ("d0 in [0, 9], d1 in [0, 9]", "min((d0 * 8 + d1) mod 4, d1)", "min(d1 mod 4, d1)"),
    ("d0 in [0, 9], d1 in [0, 9]", "min((d0 - 3) mod 4, d1)", "min((d0 - 3) mod 4, d1)"),
    ("d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]", "min((d0 * 4 + d1 * 8 + d2) mod 4, d1)", "min(d2 mod 4, d1)"),
    ("d0 in [0, 9], d1 in [0, 9]", "min((d0 * 4 + d1 * 8 + 7) mod 4, d1)", "min(d1, 3)"),
    (
        "d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]",
        "min((d0 * 4 + d1 * 6 + d2 + 8) mod 4, d1)",
        "min((d0 * 4 + d1 * 6 + d2) mod 4, d1)",
    ),
)
def multiples_alone(context: RuleContext, terms: Terms, constant: int, modulus: int) -> Form | None:
    """(x * (m k) + y) mod m = y mod m, if x * (m k) is the last summand, one of two, or all summands but the last."""
    multiple_and_rest = outer_multiple(terms, constant, modulus)
    if multiple_and_rest is not None:
        return context.modulo(*multiple_and_rest[1], modulus)
    left = {atom: coefficient for atom, coefficient in terms.items() if coefficient % modulus}
    if len(left) == len(terms) or len(left) > 1:
        return None
    if constant:
        return None if left else ({}, constant % modulus)
    last = max(terms, key=lambda atom: order_key(atom if terms[atom] == 1 else Mul(atom, terms[atom])))
    return context.modulo(left, 0, modulus) if last in left else None


RULES: tuple[Callable[[BoundedContext, Terms, int, int], Form | None], ...] = (
    multiples,
    of_mod,
    one_period,
    common_factor,
    small_rest,
)
"""The rules for mod, in the order in which they are tried."""

RULES_WITHOUT_BOUNDS = (multiples_alone, of_mod, common_factor)
"""The rules that hold for all integers and that XLA uses inside min and max."""


def new_mod(terms: Terms, constant: int, modulus: int) -> Expr:
    """The mod as an expression, if no rule applies."""
    return Mod(rule.expression_of(terms, constant), modulus)
