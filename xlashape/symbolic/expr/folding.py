"""Functions that build expressions with constants folded: an operation on constants is a constant, and other constants
move to the right.

Matches the operators of `xla::SymbolicExpr`. Python's operators on expressions call these functions.
"""

from __future__ import annotations

from xlashape.symbolic.expr.expression import (
    Add,
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
    as_expr,
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
    sum.

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
            return b
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
    """lhs mod rhs, in [0, rhs); constants fold, and a mod 1 is 0. The modulus is positive.

    >>> from xlashape.symbolic.expr.expression import const, dim
    >>> dim(0) % 8, const(-7) % 4, dim(0) % 1
    (d0 mod 8, 1, 0)
    """
    a, b = as_expr(lhs), as_expr(rhs)
    if isinstance(a, Constant) and isinstance(b, Constant) and b.value > 0:
        return Constant(a.value % b.value)
    if isinstance(b, Constant) and b.value == 1:
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
