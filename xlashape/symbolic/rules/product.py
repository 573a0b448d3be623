"""Rules for products of two expressions. Products with a constant are coefficients of linear forms and need no rule."""

from __future__ import annotations

from xlashape.symbolic.canonicalize import Form
from xlashape.symbolic.expr import Expr, Mul
from xlashape.symbolic.order import order_key
from xlashape.symbolic.rules.rule import Context, law

__all__ = ["multiply_forms"]


@law(
    ("d0 in [-4, 4], d1 in [0, 3]", "(d0 * 2 + 1) * (d1 - 3)", "d0 * d1 * 2 - d0 * 6 + d1 - 3"),
    ("d0 in [0, 3], d1 in [0, 3]", "d1 * (d0 * 3)", "d0 * d1 * 3"),
)
def multiply_forms(context: Context, a: Form, b: Form) -> Form:
    """(Σ aᵢ xᵢ + a) * (Σ bⱼ yⱼ + b): multiplied out, each product of atoms with its factors in order."""
    del context
    (left, left_constant), (right, right_constant) = a, b
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
