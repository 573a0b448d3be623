"""Closed integer intervals: the bounds of variables and constraints, and the ranges of expressions.

Matches `xla::Interval`. Bounds are exact Python integers; text and protos hold int64.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from xlashape.limits import INT64_MAX, INT64_MIN

Bounds: TypeAlias = tuple[int, int]
"""(least, greatest) value: what `Interval` holds, without its methods, for inner loops."""


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
        """Whether no integer lies within."""
        return self.lower > self.upper

    @property
    def is_point(self) -> bool:
        """Whether exactly one integer lies within."""
        return self.lower == self.upper

    @property
    def size(self) -> int:
        """How many integers lie within."""
        return max(0, self.upper - self.lower + 1)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and self.lower <= value <= self.upper

    def contains(self, other: Interval) -> bool:
        """Whether every integer of `other` lies within."""
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
        """Whether both bounds are int64."""
        return INT64_MIN <= self.lower and self.upper <= INT64_MAX

    def __repr__(self) -> str:
        return f"[{self.lower}, {self.upper}]"

    __str__ = __repr__
