"""Linear forms: expressions as Σ coefficient × atom + constant, and back to expressions in XLA's order of terms.

An *atom* is an expression that is neither a sum nor a multiple of another: a variable, a mod, a division, min, max, or a product of such.
A linear form is a pair (terms, constant). `terms` maps atoms to coefficients other than 0, and is not changed after the function that made it has
returned it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from xlashape.symbolic.expr.expression import Add, Constant, Expr, Mul, order_key

Terms: TypeAlias = Mapping[Expr, int]
Form: TypeAlias = tuple[Terms, int]


def expression_of(terms: Terms, constant: int) -> Expr:
    """The canonical expression of a linear form: terms sorted, added from left to right, the constant last.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> expression_of({dim(0): 1, dim(2): -1, dim(1): 4}, -3)
    d1 * 4 - d2 + d0 - 3
    """
    if len(terms) == 1:
        for atom, coefficient in terms.items():
            result = atom if coefficient == 1 else Mul(atom, coefficient)
            return result if constant == 0 else Add(result, constant)
    if not terms:
        return Constant(constant)
    ordered = [atom if coefficient == 1 else Mul(atom, coefficient) for atom, coefficient in terms.items()]
    ordered.sort(key=order_key)
    result = ordered[0]
    for i in range(1, len(ordered)):
        result = Add(result, ordered[i])
    return result if constant == 0 else Add(result, constant)


def single_atom(terms: Terms, constant: int) -> Expr | None:
    """The atom, if the form is one atom with coefficient 1 and constant 0.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> single_atom({dim(0): 1}, 0), single_atom({dim(0): 2}, 0), single_atom({dim(0): 1}, 3)
    (d0, None, None)
    """
    if constant == 0 and len(terms) == 1:
        for atom, coefficient in terms.items():
            if coefficient == 1:
                return atom
    return None
