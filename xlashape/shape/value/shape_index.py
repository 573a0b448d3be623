"""A path through nested tuples: XLA's `ShapeIndex`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from xlashape.base.text import Cursor
from xlashape.errors import InvalidIndexError
from xlashape.limits import INT64_MAX
from xlashape.shape.parts.checks import integer, shown


class ShapeIndex(tuple[int, ...]):
    """The path to a shape inside nested tuples: the number of an element of each tuple, from the outermost inwards.
    `{}` is the outermost shape itself. A tuple of numbers, printed as in XLA.

    In `(a, (b, c, d), e)`, {0} is a, {1} is (b, c, d), {1,2} is d.

    >>> ShapeIndex((1, 2)), ShapeIndex.parse("{1, 2}") == (1, 2), str(ShapeIndex())
    (ShapeIndex('{1,2}'), True, '{}')

    InvalidIndexError for numbers that are negative or beyond int64.
    """

    __slots__ = ()

    def __new__(cls, numbers: Iterable[int] = ()) -> ShapeIndex:
        """The index made of `numbers`."""
        try:
            entries = [n if type(n) is int else integer(n, ("index", i)) for i, n in enumerate(numbers)]
        except TypeError:
            message = f"a shape index is a sequence of integers, not {type(numbers).__name__}"
            raise InvalidIndexError(message, field="index") from None
        for i, entry in enumerate(entries):
            if not 0 <= entry <= INT64_MAX:
                raise InvalidIndexError(f"a shape index has numbers from 0, not {shown(entry)}", field=("index", i))
        return super().__new__(cls, entries)

    @classmethod
    def parse(cls, text: str) -> ShapeIndex:
        """The index written `text`: `'{' (INT (',' INT)*)? '}'`. ParseError otherwise."""
        cursor = Cursor(text)
        cursor.expect("{")
        numbers: list[int] = []
        for at in cursor.items("}", "the index"):
            number = cursor.parse_int("a number of the index")
            if number < 0:
                raise cursor.error(f"a shape index has numbers from 0, not {number}", at=at)
            numbers.append(number)
        cursor.expect_end()
        return cls(numbers)

    def child(self, number: SupportsIndex) -> ShapeIndex:
        """The index of element `number` of the tuple at this index.

        >>> ShapeIndex((1,)).child(2)
        ShapeIndex('{1,2}')
        """
        return ShapeIndex((*self, integer(number, "number")))

    def is_prefix(self, other: Iterable[int]) -> bool:
        """Whether `other` is this index, or an index inside the shape at this index.

        >>> ShapeIndex((1,)).is_prefix((1, 2)), ShapeIndex((1,)).is_prefix((0, 1))
        (True, False)
        """
        return self == ShapeIndex(other)[: len(self)]

    def __str__(self) -> str:
        return "{" + ",".join(map(str, self)) + "}"

    def __repr__(self) -> str:
        return f"ShapeIndex('{self}')"
