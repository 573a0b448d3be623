"""Unique names, as XLA makes them when computations of one text use a name twice.

A name is a stem and, behind its last dot, a number within int64: `add.3` is number 3 of the stem `add`, `add.03` too, and `add` alone
number 0. The first to ask for a number gets it; who comes later gets the least one that is free, written behind the stem.
"""

from __future__ import annotations

from xlashape.limits import INT64_MAX, INT64_MIN

__all__ = ["UniqueNames"]


class UniqueNames:
    """Names handed out so far.

    >>> names = UniqueNames()
    >>> [names.take(name) for name in ("p", "p", "p.1", "q.7", "q", "r.3", "r.3", "s.04")]
    ['p', 'p.1', 'p.2', 'q.7', 'q', 'r.3', 'r.0', 's.4']
    """

    __slots__ = ("_stems",)

    def __init__(self) -> None:
        # By stem: the least number that may be free, and those taken.
        self._stems: dict[str, tuple[list[int], set[int]]] = {}

    def take(self, name: str) -> str:
        """`name`, or the one that stands in for it."""
        stem, dot, digits = name.rpartition(".")
        number = 0
        unsigned = digits.removeprefix("-")
        numbered = bool(dot) and unsigned.isdecimal() and len(digits) < 32 and INT64_MIN <= int(digits) <= INT64_MAX
        if numbered:
            number = int(digits)
        else:
            stem = name
        least, taken = self._stems.setdefault(stem, ([0], set()))
        if number not in taken:
            taken.add(number)
            return f"{stem}.{number}" if numbered else name
        while least[0] in taken:
            least[0] += 1
        number = least[0]
        taken.add(number)
        return f"{stem}.{number}"
