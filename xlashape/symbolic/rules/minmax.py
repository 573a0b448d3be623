"""Rules for min and max. Like XLA's simplifier, they use little: equal operands, and a value that is known."""

from __future__ import annotations

from xlashape.symbolic.canonicalize import Form, expression_of
from xlashape.symbolic.expr import Expr, Max, Min, maximum, minimum
from xlashape.symbolic.order import order_key
from xlashape.symbolic.rules.rule import Context, law

__all__ = ["fold"]


@law(
    ("d0 in [0, 9]", "min(d0, d0)", "d0"),
    ("d0 in [0, 9]", "min(d0 - 3, d0 + 2)", "d0 - 3"),
    ("d0 in [0, 9]", "min(d0, 0)", "0"),
    ("d0 in [0, 9], d1 in [0, 9]", "max(d1, d0)", "max(d0, d1)"),
)
def fold(context: Context, operator: type[Min] | type[Max], a: Form, b: Form) -> Form:
    """op(x + a, x + b) = x + op(a, b); an op with one possible value is that value; operands stand in order."""
    left, right = expression_of(*a), expression_of(*b)
    if left is right:
        return a
    if a[0] == b[0]:
        return a if (a[1] < b[1]) is (operator is Min) else b
    (a_low, a_high), (b_low, b_high) = context.range_of_form(*a), context.range_of_form(*b)
    if operator is Min:
        low, high = min(a_low, b_low), min(a_high, b_high)
    else:
        low, high = max(a_low, b_low), max(a_high, b_high)
    if low == high:
        return {}, low
    if order_key(right) < order_key(left):
        left, right = right, left
    node: Expr = minimum(left, right) if operator is Min else maximum(left, right)
    return {node: 1}, 0
