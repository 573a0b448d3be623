"""Unique names, as XLA makes them when the computations of one text use a name twice.

A name is a stem and, after its last dot, a number within int64: `add.3` is number 3 of the stem `add`, so is `add.03`, and `add` alone is
number 0. A name whose number is taken gets the smallest free number of its stem.
"""

from __future__ import annotations

from xlashape.limits import INT64_MAX, INT64_MIN

__all__ = ["UniqueNames"]

_SINGLE: set[int] = set()  # instead of a set of one number, which most stems would need: see `_stems`


class UniqueNames:
    """The names given out so far.

    >>> names = UniqueNames()
    >>> [names.take(name) for name in ("p", "p", "p.1", "q.7", "q", "r.3", "r.3", "s.04")]
    ['p', 'p.1', 'p.2', 'q.7', 'q', 'r.3', 'r.0', 's.4']
    """

    __slots__ = ("_stems",)

    def __init__(self) -> None:
        # By stem: the numbers taken and the smallest that may be free; for a stem with one number, _SINGLE and that number.
        self._stems: dict[str, tuple[set[int], int]] = {}

    def take(self, name: str) -> str:
        """`name` if it is free, or else the name to use instead."""
        stem, dot, digits = name.rpartition(".")
        unsigned = digits.removeprefix("-")
        if dot and unsigned.isdecimal() and len(digits) < 32 and INT64_MIN <= (number := int(digits)) <= INT64_MAX:
            numbered = True
        else:
            stem, number, numbered = name, 0, False
        known = self._stems.get(stem)
        if known is None:
            self._stems[stem] = (_SINGLE, number)
            return f"{stem}.{number}" if numbered and len(unsigned) > 1 else name
        taken, smallest = known
        if taken is _SINGLE:
            taken, smallest = {smallest}, 0
        if number in taken:
            while smallest in taken:
                smallest += 1
            number, numbered = smallest, True
        taken.add(number)
        self._stems[stem] = (taken, smallest)
        return f"{stem}.{number}" if numbered else name
