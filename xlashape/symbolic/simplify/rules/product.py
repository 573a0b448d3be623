"""Rules for products of two expressions. Products with a constant are coefficients of linear forms and need no rule."""

from __future__ import annotations

from xlashape.limits import spend
from xlashape.symbolic.expr.expression import Expr, Mul, order_key
from xlashape.symbolic.simplify.linear_form import Form, expression_of
from xlashape.symbolic.simplify.rules.rule import law

_LARGEST = 1 << 10
"""The largest product of the numbers of nodes of both operands. Beyond it they are not multiplied out: each further factor multiplies the terms again."""


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
