"""Rules for sums, and the functions that multiply two forms and take their minimum or maximum.

A rule for sums joins a floor division and a mod of the same expression, or two mods that are its digits. It takes the
context, and the terms and the constant of a sum whose atoms are simplified.

Products with a constant are coefficients of linear forms and need no rule. Minima and maxima use no bounds here:
operands are put in canonical form only, as XLA's simplifier does. `Simplifier._form_of_min_max` replaces a minimum or
maximum by one operand if their ranges show which.
"""

from __future__ import annotations

from collections.abc import Callable

from xlashape.limits import spend
from xlashape.symbolic.expr.expression import Constant, Expr, FloorDiv, Max, Min, Mod, Mul, maximum, minimum, order_key
from xlashape.symbolic.simplify.rules.rule import Form, RuleContext, Terms, expression_of, law


def plus(terms: Terms, constant: int, other: Form, factor: int = 1) -> Form:
    """The form plus `factor` times another."""
    total = dict(terms)
    for atom, coefficient in other[0].items():
        value = total.get(atom, 0) + coefficient * factor
        if value:
            total[atom] = value
        else:
            del total[atom]
    return total, constant + other[1] * factor


def _without(terms: Terms, *atoms: Expr) -> dict[Expr, int]:
    return {atom: coefficient for atom, coefficient in terms.items() if atom not in atoms}


@law(
    ("d0 in [0, 9], d1 in [0, 9]", "d0 mod 4 + (d0 / 4) * 4 + d1", "d0 + d1"),
    ("d0 in [-9, 9]", "(d0 mod 4) * 3 + (d0 / 4) * 12", "d0 * 3"),
    ("d0 in [0, 99]", "((d0 / 12) mod 4) * 3 + (d0 / 48) * 12", "(d0 / 12) * 3"),
)
def quotient_and_remainder(context: RuleContext, terms: Terms, constant: int) -> Form | None:
    """(x mod m) * k + (x / m) * (m k) = x * k. The sum has x / m in its simplified form."""
    if len(terms) < 2:
        return None
    coefficients = set(terms.values())
    for atom, factor in terms.items():
        if atom.__class__ is Mod:
            assert isinstance(atom, Mod) and isinstance(atom.rhs, Constant)
            modulus = atom.rhs.value
            wanted = modulus * factor
            if wanted not in coefficients:
                continue
            dividend = context.form_of(atom.lhs)
            quotient, rest = context.floor_div(*dividend, modulus)
            if rest == 0 and len(quotient) == 1:
                for part, coefficient in quotient.items():
                    if part is not atom and terms.get(part) == wanted * coefficient:
                        return plus(_without(terms, atom, part), constant, dividend, factor)
    return None


@law(
    (
        "d0 in [0, 6], d1 in [0, 99]",
        "((d0 * 100 + d1) mod 140) / 10 * 10 + (d0 * 100 + d1) mod 10",
        "(d0 * 100 + d1) mod 140",
    )
)
def remainder_of_remainder(context: RuleContext, terms: Terms, constant: int) -> Form | None:
    """((x mod (m c)) / m) * (m k) + (x mod m) * k = (x mod (m c)) * k. The sum has x mod m in its simplified form."""
    if len(terms) < 2:
        return None
    for atom, factor in terms.items():
        if isinstance(atom, FloorDiv) and isinstance(atom.lhs, Mod):
            assert isinstance(atom.rhs, Constant)
            modulus = atom.rhs.value
            if factor % modulus:
                continue
            dividend = context.form_of(atom.lhs)
            rest, shift = context.modulo(*dividend, modulus)
            if shift == 0 and len(rest) == 1:
                for part, coefficient in rest.items():
                    if terms.get(part) == factor // modulus * coefficient:
                        return plus(_without(terms, atom, part), constant, dividend, factor // modulus)
    return None


@law(
    ("d0 in [0, 9], d1 in [0, 9]", "d0 - (d0 / 4) * 4 + d1", "d0 mod 4 + d1"),
    ("d0 in [-9, 9]", "(d0 / 4) * -8 + d0 * 2", "(d0 mod 4) * 2"),
)
def remainder(context: RuleContext, terms: Terms, constant: int) -> Form | None:
    """(x / c) * (-c k) = (x mod c) * k - x * k for positive k, in a sum of at least two terms."""
    if len(terms) < 2 and constant == 0:
        return None
    for atom, factor in terms.items():
        if factor < 0 and atom.__class__ is FloorDiv:
            assert isinstance(atom, FloorDiv) and isinstance(atom.rhs, Constant)
            divisor = atom.rhs.value
            if factor % divisor == 0:
                times = -factor // divisor
                dividend = context.form_of(atom.lhs)
                total, constant = plus(_without(terms, atom), constant, context.modulo(*dividend, divisor), times)
                return plus(total, constant, dividend, -times)
    return None


def adjacent_digits(context: RuleContext, terms: Terms, constant: int) -> Form | None:
    """((x / m) mod n) * (m k) + (x mod m) * k = (x mod (m n)) * k: two digits of a mixed-radix number are one.

    XLA leaves such digits as they are. `joined_digits` in `xlashape/symbolic/simplify/domain.py` uses this rule.
    """
    if len(terms) < 2:
        return None
    mods = [(atom, factor) for atom, factor in terms.items() if atom.__class__ is Mod]
    if len(mods) < 2:
        return None
    for low, factor in mods:
        assert isinstance(low, Mod) and isinstance(low.rhs, Constant)
        modulus = low.rhs.value
        for high, other in mods:
            if other == factor * modulus:
                assert isinstance(high, Mod) and isinstance(high.rhs, Constant)
                dividend = context.form_of(low.lhs)
                if context.floor_div(*dividend, modulus) == context.form_of(high.lhs):
                    joined = context.modulo(*dividend, modulus * high.rhs.value)
                    return plus(_without(terms, low, high), constant, joined, factor)
    return None


RULES: tuple[Callable[[RuleContext, Terms, int], Form | None], ...] = (quotient_and_remainder, remainder)
"""The rules for sums, in the order in which they are tried."""

RULES_WITHOUT_BOUNDS = (quotient_and_remainder, remainder_of_remainder)
"""The rules that XLA uses inside min and max, where it uses no bounds."""


# -- products ----------------------------------------------------------------------------------


_LARGEST = 1 << 10
"""The largest product of the numbers of nodes of two operands that are multiplied out. Larger operands stay a product:
the number of terms would multiply again with each further factor.
"""


@law(
    ("d0 in [-4, 4], d1 in [0, 3]", "(d0 * 2 + 1) * (d1 - 3)", "d0 * d1 * 2 - d0 * 6 + d1 - 3"),
    ("d0 in [0, 3], d1 in [0, 3]", "d1 * (d0 * 3)", "d0 * d1 * 3"),
    ("d0 in [0, 3], d1 in [0, 3]", "(d0 + d1) * (d0 - d1)", "-d1 * d1 + d0 * d0"),
)
def multiply_forms(a: Form, b: Form) -> Form:
    """(x + y) * z = x * z + y * z: multiplies out and sorts the factors of each product of atoms."""
    (left, left_constant), (right, right_constant) = a, b
    size = sum([atom.size for atom in left]) * sum([atom.size for atom in right])
    spend(1 + (size >> 6))
    if size > _LARGEST:
        x, y = sorted((expression_of(*a), expression_of(*b)), key=order_key)
        return {Mul(x, y): 1}, 0
    total: dict[Expr, int] = {}

    def put(atom: Expr, coefficient: int) -> None:
        value = total.get(atom, 0) + coefficient
        if value:
            total[atom] = value
        else:
            total.pop(atom, None)

    for x, p in left.items():
        for y, q in right.items():
            put(Mul(x, y) if order_key(x) <= order_key(y) else Mul(y, x), p * q)
        if right_constant:
            put(x, p * right_constant)
    if left_constant:
        for y, q in right.items():
            put(y, q * left_constant)
    return total, left_constant * right_constant


# -- minima and maxima -------------------------------------------------------------------------


@law(
    ("d0 in [0, 9]", "min(d0, d0)", "d0"),
    ("d0 in [0, 9]", "min(d0 - 3, d0 + 2)", "d0 - 3"),
    ("d0 in [0, 9]", "min(d0, 0)", "0"),
    ("d0 in [0, 9], d1 in [0, 9]", "max(d1, d0)", "max(d0, d1)"),
)
def fold(operator: type[Min] | type[Max], a: Form, b: Form) -> Form:
    """min(x + a, x + b) = x + min(a, b), max likewise. Operands that differ otherwise are sorted."""
    if a[0] == b[0]:
        return a if (a[1] < b[1]) is (operator is Min) else b
    left, right = expression_of(*a), expression_of(*b)
    if order_key(right) < order_key(left):
        left, right = right, left
    node: Expr = minimum(left, right) if operator is Min else maximum(left, right)
    return {node: 1}, 0
