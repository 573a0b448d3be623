"""The range of an expression: an interval that holds every value it takes while its variables stay within their bounds.

It is the tightest such interval if no variable occurs twice. Computed with exact integers, which do not wrap around; SizeOverflowError beyond 4,096
bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlashape.symbolic.expr.expression import (
    Add,
    Binary,
    CeilDiv,
    Constant,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Mul,
    Variable,
    VariableKind,
    checked_value,
    postorder,
)
from xlashape.symbolic.expr.interval import Bounds, Interval


def _add(a: Bounds, b: Bounds) -> Bounds:
    return (a[0] + b[0], a[1] + b[1])


def _mul(a: Bounds, b: Bounds) -> Bounds:
    if b[0] == b[1]:
        factor = b[0]
        low, high = (a[0] * factor, a[1] * factor) if factor >= 0 else (a[1] * factor, a[0] * factor)
    else:
        products = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
        low, high = min(products), max(products)
    return (checked_value(low), checked_value(high))


def _mod(a: Bounds, b: Bounds) -> Bounds:
    modulus = b[0]
    if a[0] // modulus == a[1] // modulus:
        return (a[0] % modulus, a[1] % modulus)
    return (0, modulus - 1)


def _floor_div(a: Bounds, b: Bounds) -> Bounds:
    return (a[0] // b[0], a[1] // b[0])


def _ceil_div(a: Bounds, b: Bounds) -> Bounds:
    return (-(-a[0] // b[0]), -(-a[1] // b[0]))


def _max(a: Bounds, b: Bounds) -> Bounds:
    return (max(a[0], b[0]), max(a[1], b[1]))


def _min(a: Bounds, b: Bounds) -> Bounds:
    return (min(a[0], b[0]), min(a[1], b[1]))


_RULES: dict[type[Binary], Callable[[Bounds, Bounds], Bounds]] = {
    Add: _add,
    Mul: _mul,
    Mod: _mod,
    FloorDiv: _floor_div,
    CeilDiv: _ceil_div,
    Max: _max,
    Min: _min,
}


class Ranges:
    """The ranges of expressions under given bounds of the variables, computed once for every node.

    `known` holds the ranges computed so far, for as long as the object lives. A caller that knows a tighter range of an expression may store it there.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> ranges = Ranges({dim(0): (0, 9), dim(1): (0, 3)})
    >>> ranges.of(dim(0) * 4 - dim(1)), ranges.of(dim(0) % 4), ranges.of(dim(1) % 4 // 2)
    ((-3, 36), (0, 3), (0, 1))
    """

    __slots__ = ("known",)

    def __init__(self, bounds: dict[Variable, Bounds]) -> None:
        self.known: dict[Expr, Bounds] = {**bounds}

    @classmethod
    def of_bounds(cls, bounds: Sequence[Interval], counts: tuple[int, int, int]) -> Ranges:
        """From bounds in the order of a point: dimensions, then range, then runtime variables, as many of each as `counts` says.

        The ends of an empty interval are swapped, so that no range is empty.
        """
        known: dict[Variable, Bounds] = {}
        remaining = iter(bounds)
        for kind, count in zip(VariableKind, counts, strict=True):
            for i in range(count):
                low, high = next(remaining)
                known[Variable(kind, i)] = (low, high) if low <= high else (high, low)
        return cls(known)

    def of(self, expr: Expr) -> Bounds:
        """(least, greatest) value."""
        bounds = self.known.get(expr)
        if bounds is not None:
            return bounds
        known = self.known
        if isinstance(expr, Binary):
            a, b = known.get(expr.lhs), known.get(expr.rhs)
            if a is None or b is None:
                for node in postorder(expr):
                    if node not in known:
                        known[node] = self._of_operands(node)
                return known[expr]
        result = known[expr] = self._of_operands(expr)
        return result

    def _of_operands(self, node: Expr) -> Bounds:
        if isinstance(node, Binary):
            return _RULES[node.__class__](self.known[node.lhs], self.known[node.rhs])
        assert isinstance(node, Constant), f"a variable without bounds: {node!r}"
        return (node.value, node.value)
