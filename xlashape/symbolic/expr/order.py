"""XLA's order of terms, as sort keys.

Kinds first, in this order: sum, product, mod, floor division, ceiling division, max, min, variable, constant. Equal kinds compare left operands,
then right operands; variables by number (dimensions, ranges, runtime), constants by value.
"""

from __future__ import annotations

from xlashape.symbolic.expr.expression import Binary, Expr

__all__ = ["order_key"]


def order_key(expr: Expr) -> tuple[int, ...]:
    """A key that sorts as XLA orders terms.

    It is the expression written in prefix order. No such word is the beginning of another, so comparing two of them number by number compares
    kinds, then left operands, then right operands.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> sorted([dim(1), dim(0), dim(1) * 2, dim(0) % 4 + 1], key=order_key)
    [d0 mod 4 + 1, d1 * 2, d0, d1]
    """
    key = expr._order  # pyright: ignore[reportPrivateUsage]
    if key is None:
        words: list[int] = []
        stack = [expr]
        while stack:
            node = stack.pop()
            known = node._order  # pyright: ignore[reportPrivateUsage]
            if known is not None:
                words.extend(known)
            elif isinstance(node, Binary):
                words.append(node.rank)
                stack.append(node.rhs)
                stack.append(node.lhs)
        key = tuple(words)
        if len(key) <= 64:  # long ones are rare and would cost memory with every prefix of a sum
            _set_order(expr, key)
    return key


_set_order = Expr._order.__set__  # type: ignore[attr-defined]
