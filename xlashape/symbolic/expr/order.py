"""XLA's order of terms, as sort keys.

Expressions are ordered by class first: sum, product, mod, floor division, ceiling division, max, min, variable, constant. Within a class, operators
compare left operands, then right operands; variables compare by kind (dimension, range, runtime) and number, constants by value.
"""

from __future__ import annotations

from xlashape.frozen import set_field
from xlashape.symbolic.expr.expression import Binary, Expr

__all__ = ["order_key"]


def order_key(expr: Expr) -> tuple[int, ...]:
    """A key that sorts as XLA orders terms.

    The key is the expression in prefix notation, each node a number or more. No expression's key is a prefix of another's, so comparing two keys
    number by number compares classes, then left operands, then right operands.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> sorted([dim(1), dim(0), dim(1) * 2, dim(0) % 4 + 1], key=order_key)
    [d0 mod 4 + 1, d1 * 2, d0, d1]
    """
    key = expr.cached_order_key
    if key is None:
        words: list[int] = []
        stack = [expr]
        while stack:
            node = stack.pop()
            known = node.cached_order_key
            if known is not None:
                words.extend(known)
            elif isinstance(node, Binary):
                words.append(node.rank)
                stack.append(node.rhs)
                stack.append(node.lhs)
        key = tuple(words)
        if (
            len(key) <= 64
        ):  # longer keys are rare; keeping one for every prefix of a long sum would take memory quadratic in its length
            set_field(expr, "cached_order_key", key)
    return key
