"""Closed integer intervals, and the interval of the values that an expression takes while its variables stay within
their bounds. Matches `xla::Interval`.

The interval of an expression holds all its values. It is the tightest such interval if no variable occurs twice. Bounds
are exact Python integers; one of more than 4,096 bits is a SizeOverflowError. Text and protos take only bounds that fit
int64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from xlashape.errors import SizeOverflowError
from xlashape.limits import INT64_MAX, INT64_MIN
from xlashape.symbolic.expr import expression as ex
from xlashape.symbolic.expr.expression import Binary, Constant, Expr, Variable, VariableKind

Bounds: TypeAlias = tuple[int, int]
"""(least, greatest) value: a plain tuple in place of an `Interval`, for inner loops."""


class Interval(NamedTuple):
    """All integers from `lower` to `upper`, both included; empty when `lower > upper`.

    It is a tuple of its two bounds and can be unpacked. `in` asks whether an integer lies within the interval.

    >>> Interval(0, 9)
    [0, 9]
    >>> 9 in Interval(0, 9), len(range(*Interval(0, 9))), Interval(3, 2).is_empty
    (True, 9, True)
    """

    lower: int
    upper: int

    @classmethod
    def of_size(cls, size: int) -> Interval:
        """[0, size - 1]: the indices of a dimension of `size` elements."""
        return cls(0, size - 1)

    @property
    def is_empty(self) -> bool:
        """Whether the interval holds no integer."""
        return self.lower > self.upper

    @property
    def is_point(self) -> bool:
        """Whether the interval holds exactly one integer."""
        return self.lower == self.upper

    @property
    def size(self) -> int:
        """How many integers the interval holds."""
        return max(0, self.upper - self.lower + 1)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and self.lower <= value <= self.upper

    def contains(self, other: Interval) -> bool:
        """Whether every integer of `other` lies within this interval."""
        return other.lower > other.upper or (self.lower <= other.lower and other.upper <= self.upper)

    def intersect(self, other: Interval) -> Interval:
        """The integers that lie in both.

        >>> Interval(0, 9).intersect(Interval(5, 20))
        [5, 9]
        """
        return Interval(max(self.lower, other.lower), min(self.upper, other.upper))

    def union(self, other: Interval) -> Interval:
        """The smallest interval that holds both."""
        if self.is_empty:
            return other
        if other.is_empty:
            return self
        return Interval(min(self.lower, other.lower), max(self.upper, other.upper))

    @property
    def fits_int64(self) -> bool:
        """Whether both bounds fit int64."""
        return INT64_MIN <= self.lower and self.upper <= INT64_MAX

    def __repr__(self) -> str:
        return f"[{self.lower}, {self.upper}]"

    __str__ = __repr__


# -- intervals of expressions ------------------------------------------------------------------


def _mul(a: Bounds, b: Bounds) -> Bounds:
    if b[0] == b[1]:
        factor = b[0]
        low, high = (a[0] * factor, a[1] * factor) if factor >= 0 else (a[1] * factor, a[0] * factor)
    else:
        products = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
        low, high = min(products), max(products)
    return (ex.checked_value(low), ex.checked_value(high))


def _mod(a: Bounds, b: Bounds) -> Bounds:
    modulus = b[0]
    if a[0] // modulus == a[1] // modulus:
        return (a[0] % modulus, a[1] % modulus)
    return (0, modulus - 1)


_RULES: dict[type[Binary], Callable[[Bounds, Bounds], Bounds]] = {
    ex.Add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    ex.Mul: _mul,
    ex.Mod: _mod,
    ex.FloorDiv: lambda a, b: (a[0] // b[0], a[1] // b[0]),
    ex.CeilDiv: lambda a, b: (-(-a[0] // b[0]), -(-a[1] // b[0])),
    ex.Max: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    ex.Min: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
}


class Ranges:
    """The ranges of expressions under given bounds of the variables, computed once for every node.

    `known` holds the ranges computed so far, for as long as the object lives. A caller that knows a tighter range of an
    expression may store it there.

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
        """The ranges for bounds listed in the order of a point: dimensions, then range, then runtime variables, as many
        of each as `counts` says.

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
        """(least, greatest) value of the expression."""
        bounds = self.known.get(expr)
        if bounds is not None:
            return bounds
        known = self.known
        if isinstance(expr, Binary):
            a, b = known.get(expr.lhs), known.get(expr.rhs)
            if a is None or b is None:
                for node in ex.postorder(expr):
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


def extent(nodes: Iterable[Expr], bounds: Sequence[Interval], counts: tuple[int, int, int]) -> Interval | None:
    """An interval of 0 and all values of all these expressions, None if a bound has more than 4,096 bits. `bounds` and
    `counts` are those of `Ranges.of_bounds`.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> extent([dim(0), dim(0) * -4], [Interval(0, 9)], (1, 0, 0))
    [-36, 9]
    """
    ranges = Ranges.of_bounds(bounds, counts)
    least, greatest = 0, 0
    try:
        for low, high in map(ranges.of, nodes):
            least, greatest = min(least, low), max(greatest, high)
    except SizeOverflowError:
        return None
    return Interval(least, greatest)
