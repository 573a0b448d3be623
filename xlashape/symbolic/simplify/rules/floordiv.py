"""Rules for floor division (terms + constant) / divisor by a constant divisor above 1. Ceiling divisions become floor
divisions.

A rule takes the context, the simplified terms and constant of the dividend, and the divisor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd

from xlashape.symbolic.expr.expression import Constant, Expr, FloorDiv, Mod, Mul, order_key
from xlashape.symbolic.simplify.rules import rule
from xlashape.symbolic.simplify.rules.rule import BoundedContext, Form, RuleContext, Terms, law
from xlashape.symbolic.simplify.rules.sum import plus


@law(
    ("d0 in [0, 9], d1 in [0, 9]", "(d0 * 30 + d1 + 25) / 10", "d0 * 3 + (d1 + 5) / 10 + 2"),
    ("d0 in [-9, 9]", "(27 - d0 * 3) / 3", "-d0 + 9"),
    ("d0 in [-9, 9], d1 in [-9, 9]", "(d0 * 3 + d1 - 2) / 3", "(d1 + 1) / 3 + d0 - 1"),
    ("d0 in [-9, 9]", "(d0 - 7) / 3", "(d0 + 2) / 3 - 3"),
)
def multiples(context: BoundedContext, terms: Terms, constant: int, divisor: int) -> Form | None:
    """(x * (d k) + c d + y) / d = x * k + c + y / d. The remainder of the constant modulo d, which is not negative,
    stays in y.
    """
    whole = {atom: coefficient // divisor for atom, coefficient in terms.items() if coefficient % divisor == 0}
    carried, left = divmod(constant, divisor)
    if not whole and carried == 0:
        return None
    rest = {atom: coefficient for atom, coefficient in terms.items() if atom not in whole} if whole else terms
    if not rest:
        return whole, carried
    return plus(whole, carried, context.floor_div_of_rest(rest, left, divisor))


@law(("d0 in [4, 7]", "d0 / 4", "1"), ("d0 in [-4, -1]", "d0 / 4", "-1"))
def one_value(context: BoundedContext, terms: Terms, constant: int, divisor: int) -> Form | None:
    """x / d = q if x lies within [q d, q d + d - 1]."""
    low, high = context.range_of_form(terms, constant)
    quotient = low // divisor
    return ({}, quotient) if high < (quotient + 1) * divisor else None


@law(
    ("d0 in [-99, 99]", "(d0 / 3) / 4", "d0 / 12"),
    ("d0 in [0, 99], d1 in [-3, 3]", "(d0 / 3 - d1 + 2) / 4", "(d1 * -3 + d0 + 6) / 12"),
    ("d0 in [0, 9], d1 in [0, 9]", "(d0 / 3 + d1 / 5) / 4", "(d0 / 3 + d1 / 5) / 4"),
)
def nested(context: RuleContext, terms: Terms, constant: int, divisor: int) -> Form | None:
    """(x / c + y) / d = (x + y c) / (c d), if exactly one term of the sum is a division with coefficient 1."""
    division: FloorDiv | None = None
    for atom, coefficient in terms.items():
        if coefficient == 1 and atom.__class__ is FloorDiv:
            if division is not None:
                return None
            assert isinstance(atom, FloorDiv)
            division = atom
    if division is None:
        return None
    assert isinstance(division.rhs, Constant)
    inner = division.rhs.value
    scaled = {atom: coefficient * inner for atom, coefficient in terms.items() if atom is not division}
    dividend = plus(scaled, constant * inner, context.form_of(division.lhs))
    return context.floor_div(*dividend, divisor * inner)


@law(("d0 in [-50, 50]", "(d0 mod 12) / 4", "(d0 / 4) mod 3"))
def of_mod(context: RuleContext, terms: Terms, constant: int, divisor: int) -> Form | None:
    """(x mod (d k)) / d = (x / d) mod k."""
    atom = rule.single_atom(terms, constant)
    if atom.__class__ is not Mod:
        return None
    assert isinstance(atom, Mod) and isinstance(atom.rhs, Constant)
    modulus = atom.rhs.value
    if modulus % divisor:
        return None
    return context.modulo(*context.floor_div(*context.form_of(atom.lhs), divisor), modulus // divisor)


def splits(context: BoundedContext, terms: Terms, constant: int, start: int) -> Iterator[tuple[Terms, int, int]]:
    """The ways to split a sum into x * g + y with y always within [0, g). Yields the terms of x * g, then g, then the
    greatest value of y.

    y is the constant alone, or the constant and the terms with the smallest coefficient, which must divide g, as in
    mixed-radix numbers. g is the greatest common divisor of the coefficients of x and `start`; with `start` 0 and a
    single term it is that coefficient, with its sign.
    """
    common = _common_divisor(terms, start)
    if abs(common) != 1 and 0 <= constant < abs(common):
        yield terms, common, constant
    if len(terms) == 1:
        return
    smallest = min(map(abs, terms.values()))
    large = {atom: coefficient for atom, coefficient in terms.items() if abs(coefficient) != smallest}
    if not large:
        return
    common = _common_divisor(large, start)
    if abs(common) == 1 or common % smallest:
        return
    small = {atom: coefficient for atom, coefficient in terms.items() if atom not in large}
    low, high = context.range_of_form(small, constant)
    if low >= 0 and high < abs(common):
        yield large, common, high


def _common_divisor(terms: Terms, start: int) -> int:
    if len(terms) == 1 and not start:
        return next(iter(terms.values()))
    return gcd(start, *terms.values())


@law(
    ("d0 in [0, 9], d1 in [0, 9]", "(d0 * 30 + d1) / 20", "(d0 * 3) / 2"),
    ("d0 in [-9, 9], d1 in [-9, 9]", "(d0 * 2 + d1 * 2 + 3) / 6", "(d0 * 2 + d1 * 2 + 3) / 6"),
    ("d0 in [-9, 9], d1 in [-9, 9]", "(d0 * 2 + d1 * 2 + 1) / 6", "(d0 + d1) / 3"),
    ("d0 in [-9, 9]", "(d0 * 2 - 3) / 4", "d0 / 2 - 1"),
    ("d0 in [0, 7], d1 in [10, 14]", "(d0 * 100 + d1 - 10) / 400", "(d0 * 100 + d1 + 390) / 400 - 1"),
)
def small_rest(context: BoundedContext, terms: Terms, constant: int, divisor: int) -> Form | None:
    """(x * g + y) / (d g) = x / d if y stays within [0, g)."""
    for large, common, _ in splits(context, terms, constant, divisor):
        return context.floor_div_of_rest(
            {atom: coefficient // common for atom, coefficient in large.items()}, 0, divisor // common
        )
    return None


@law(("d0 in [-9, 9], d1 in [-9, 9]", "(d0 * 2 + d1 * 2 + 2) / 6", "(d0 + d1 + 1) / 3"))
def common_factor(context: RuleContext, terms: Terms, constant: int, divisor: int) -> Form | None:
    """(x * g) / (d g) = x / d, constants included."""
    common = gcd(divisor, constant, *terms.values())
    if common == 1:
        return None
    return context.floor_div(
        {atom: coefficient // common for atom, coefficient in terms.items()}, constant // common, divisor // common
    )


def outer_multiple(terms: Terms, constant: int, divisor: int) -> tuple[Form, Form] | None:
    """The last summand, or the first of two, if it is a multiple of the divisor, and the other summands. Without
    bounds, XLA looks at no other summands either.
    """
    if constant:
        if constant % divisor == 0:
            return ({}, constant), (terms, 0)
        rest: Form = ({}, constant)
        candidates = [next(iter(terms))] if len(terms) == 1 else []
    else:
        ordered = sorted(terms, key=lambda atom: order_key(atom if terms[atom] == 1 else Mul(atom, terms[atom])))
        candidates = [ordered[-1], ordered[0]] if len(ordered) <= 2 else [ordered[-1]]
        rest = (terms, 0)
    for atom in candidates:
        if terms[atom] % divisor == 0:
            return ({atom: terms[atom]}, 0), ({other: c for other, c in terms.items() if other is not atom}, rest[1])
    return None


@law(
    ("d0 in [0, 9], d1 in [0, 9]", "min((d0 * 4 + d1) / 4, d1)", "min(d1 / 4 + d0, d1)"),
    ("d0 in [0, 9], d1 in [0, 9]", "min((d0 * 4 + d1 * 6 + 7) / 4, d1)", "min((d0 * 4 + d1 * 6 + 7) / 4, d1)"),
    ("d0 in [0, 9], d1 in [0, 9]", "min((d0 * 4 + 7) / 4, d1)", "min(d0 + 1, d1)"),
)
def multiples_alone(context: RuleContext, terms: Terms, constant: int, divisor: int) -> Form | None:
    """(x * (d k) + y) / d = x * k + y / d, if x * (d k) is the last summand or one of two."""
    multiple_and_rest = outer_multiple(terms, constant, divisor)
    if multiple_and_rest is None:
        return None
    (whole, shift), rest = multiple_and_rest
    quotients = {atom: coefficient // divisor for atom, coefficient in whole.items()}
    return plus(quotients, shift // divisor, context.floor_div(*rest, divisor))


RULES: tuple[Callable[[BoundedContext, Terms, int, int], Form | None], ...] = (
    multiples,
    small_rest,
    nested,
    common_factor,
    one_value,
    of_mod,
)
"""The rules for floor division, in the order in which they are tried."""

RULES_WITHOUT_BOUNDS = (multiples_alone, common_factor)
"""The rules that hold for all integers and that XLA uses inside min and max."""


def new_floor_div(terms: Terms, constant: int, divisor: int) -> Expr:
    """The division as an expression, if no rule applies."""
    return FloorDiv(rule.expression_of(terms, constant), divisor)
