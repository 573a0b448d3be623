"""Functions that build expressions with constants folded: an operation on constants is a constant, and other constants
move to the right.

Matches the operators of `xla::SymbolicExpr`. Python's operators on expressions call these functions.
"""

from __future__ import annotations

from xlashape.limits import spend
from xlashape.symbolic.expr.expression import (
    Add,
    Binary,
    CeilDiv,
    Constant,
    Expr,
    FloorDiv,
    Max,
    Methods,
    Min,
    Mod,
    Mul,
    Operand,
    Variable,
    as_expr,
    postorder,
    sum_terms,
)


def add(lhs: Operand, rhs: Operand) -> Expr:
    """lhs + rhs. Constants fold and move to the right; 0 is dropped.

    >>> from xlashape.symbolic.expr.expression import const, dim
    >>> 2 + dim(0), dim(0) + 0, const(2) + 3
    (d0 + 2, d0, 5)
    """
    a, b = as_expr(lhs), as_expr(rhs)
    if isinstance(a, Constant):
        if isinstance(b, Constant):
            return Constant(a.value + b.value)
        a, b = b, a
    if isinstance(b, Constant) and b.value == 0:
        return a
    return Add(a, b)


def multiply(lhs: Operand, rhs: Operand) -> Expr:
    """lhs * rhs. Constants fold and move to the right; constant factors merge; -1 is multiplied into the terms of a
    sum. A product with 0 stays where the other factor may have more than 128 bits, which is an error of its points.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> 2 * dim(0) * 3, dim(0) * 0, -(dim(0) - 1)
    (d0 * 6, 0, -d0 + 1)
    """
    a, b = as_expr(lhs), as_expr(rhs)
    if isinstance(a, Constant):
        if isinstance(b, Constant):
            return Constant(a.value * b.value)
        a, b = b, a
    if isinstance(b, Constant):
        if b.value == 0:
            return b if _fits(a) else Mul(a, b)
        if b.value == 1:
            return a
        if isinstance(a, Mul) and isinstance(a.rhs, Constant):
            return multiply(a.lhs, a.rhs.value * b.value)
        if isinstance(a, Add) and b.value == -1:
            terms = [multiply(term, b) for term in sum_terms(a)]
            result = terms[0]
            for term in terms[1:]:
                result = add(result, term)
            return result
    return Mul(a, b)


def _fits(expr: Expr) -> bool:
    """Whether no value on the way to that of `expr` has more than 128 bits, whatever int64 its variables are."""
    if isinstance(expr, Variable):
        return True
    order = postorder(expr)
    spend(len(order))
    greatest: dict[Expr, int] = {}  # of the absolute values
    for node in order:
        if not isinstance(node, Binary):
            value = abs(node.value) if isinstance(node, Constant) else 1 << 63
        else:
            a, b = greatest[node.lhs], greatest[node.rhs]
            if isinstance(node, Mod):
                value = b
            elif isinstance(node, FloorDiv | CeilDiv):
                value = a
            else:
                value = a + b if isinstance(node, Add) else a * b if isinstance(node, Mul) else max(a, b)
        if value >= 1 << 127:
            return False
        greatest[node] = value
    return True


def floor_div(lhs: Operand, rhs: Operand) -> Expr:
    """lhs / rhs rounded towards −∞; constants fold, and a / 1 is a. A negative divisor negates the dividend: a / -3 is
    (-a) / 3.

    >>> from xlashape.symbolic.expr.expression import const, dim
    >>> dim(0) // 8, const(-7) // 2, dim(0) // -3
    (d0 / 8, -4, -d0 / 3)
    >>> dim(0) // 1, dim(0) // -1
    (d0, -d0)
    """
    a, b = as_expr(lhs), as_expr(rhs)
    if isinstance(b, Constant) and b.value != 0:
        if isinstance(a, Constant):
            return Constant(a.value // b.value)
        if b.value < 0:
            a, b = multiply(a, -1), Constant(-b.value)
        if b.value == 1:
            return a
    return FloorDiv(a, b)


def ceil_div(lhs: Operand, rhs: Operand) -> Expr:
    """lhs / rhs rounded towards +∞; constants fold, and the quotient by 1 is the dividend. A negative divisor negates
    the dividend.

    >>> from xlashape.symbolic.expr.expression import const, dim
    >>> ceil_div(dim(0), 8), ceil_div(const(-7), 2)
    (d0 ceildiv 8, -3)
    """
    a, b = as_expr(lhs), as_expr(rhs)
    if isinstance(b, Constant) and b.value != 0:
        if isinstance(a, Constant):
            return Constant(-(-a.value // b.value))
        if b.value < 0:
            a, b = multiply(a, -1), Constant(-b.value)
        if b.value == 1:
            return a
    return CeilDiv(a, b)


def modulo(lhs: Operand, rhs: Operand) -> Expr:
    """lhs mod rhs, in [0, rhs); constants fold, and a mod 1 is 0 unless a may have more than 128 bits. The modulus is
    positive.

    >>> from xlashape.symbolic.expr.expression import const, dim
    >>> dim(0) % 8, const(-7) % 4, dim(0) % 1
    (d0 mod 8, 1, 0)
    """
    a, b = as_expr(lhs), as_expr(rhs)
    if isinstance(a, Constant) and isinstance(b, Constant) and b.value > 0:
        return Constant(a.value % b.value)
    if isinstance(b, Constant) and b.value == 1 and _fits(a):
        return Constant(0)
    return Mod(a, b)


def minimum(lhs: Operand, rhs: Operand) -> Expr:
    """The smaller of both; constants fold and move to the right.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> minimum(4, dim(0))
    min(d0, 4)
    """
    a, b = as_expr(lhs), as_expr(rhs)
    if isinstance(a, Constant):
        if isinstance(b, Constant):
            return a if a.value <= b.value else b
        a, b = b, a
    return Min(a, b)


def maximum(lhs: Operand, rhs: Operand) -> Expr:
    """The larger of both; constants fold and move to the right.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> maximum(dim(0), 4)
    max(d0, 4)
    """
    a, b = as_expr(lhs), as_expr(rhs)
    if isinstance(a, Constant):
        if isinstance(b, Constant):
            return a if a.value >= b.value else b
        a, b = b, a
    return Max(a, b)


Methods.fold.update(
    {
        Add: add,
        Mul: multiply,
        Mod: modulo,
        FloorDiv: floor_div,
        CeilDiv: ceil_div,
        Max: maximum,
        Min: minimum,
    }
)
