"""Unique names, as XLA makes them when computations of one text use a name twice.

A name is a stem and, behind its last dot, a number within int64: `add.3` is number 3 of the stem `add`, `add.03` too, and `add` alone
number 0. The first to ask for a number gets it; who comes later gets the least one that is free, written behind the stem.
"""

from __future__ import annotations

from xlashape.limits import INT64_MAX, INT64_MIN

__all__ = ["UniqueNames"]

_FIRST: set[int] = set()  # stands for the set of the one number beside it


class UniqueNames:
    """Names handed out so far.

    >>> names = UniqueNames()
    >>> [names.take(name) for name in ("p", "p", "p.1", "q.7", "q", "r.3", "r.3", "s.04")]
    ['p', 'p.1', 'p.2', 'q.7', 'q', 'r.3', 'r.0', 's.4']
    """

    __slots__ = ("_stems",)

    def __init__(self) -> None:
        # By stem: the numbers taken and the least that may be free; of most stems only one, which then stands in its place.
        self._stems: dict[str, tuple[set[int], int]] = {}

    def take(self, name: str) -> str:
        """`name`, or the one that stands in for it."""
        stem, dot, digits = name.rpartition(".")
        unsigned = digits.removeprefix("-")
        if dot and unsigned.isdecimal() and len(digits) < 32 and INT64_MIN <= (number := int(digits)) <= INT64_MAX:
            numbered = True
        else:
            stem, number, numbered = name, 0, False
        known = self._stems.get(stem)
        if known is None:
            self._stems[stem] = (_FIRST, number)
            return f"{stem}.{number}" if numbered and len(unsigned) > 1 else name
        taken, least = known
        if taken is _FIRST:
            taken, least = {least}, 0
        if number in taken:
            while least in taken:
                least += 1
            number, numbered = least, True
        taken.add(number)
        self._stems[stem] = (taken, least)
        return f"{stem}.{number}" if numbered else name
