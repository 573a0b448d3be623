"""Rules for min and max. They use no bounds: operands are put in canonical form only, as XLA's simplifier does.

The simplifier compares the ranges of the operands besides: see `_form_of_min_max` there.
"""

from __future__ import annotations

from xlashape.symbolic.expr.expression import Expr, Max, Min, order_key
from xlashape.symbolic.expr.folding import maximum, minimum
from xlashape.symbolic.simplify.linear_form import Form, expression_of
from xlashape.symbolic.simplify.rules.rule import law


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
