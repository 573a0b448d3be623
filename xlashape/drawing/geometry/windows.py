"""Selects the coordinates of a long axis that are shown: all of a short axis, else both ends and the surroundings of the coordinates in focus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias, cast

from xlashape.errors import InvalidArgumentError

GAP = None
"""Stands for coordinates that are left out."""

Shown: TypeAlias = "tuple[int | None, ...]"
"""Coordinates in ascending order, with `GAP` between two that are not adjacent."""


_FEW = 8


class Window(NamedTuple):
    """The coordinates from `start` on, before `stop`."""

    start: int
    stop: int

    def clipped(self, size: int, what: str) -> Window:
        """The part inside an axis of this size. InvalidArgumentError, which names `what`, if no part is inside."""
        start, stop = max(0, self.start), min(size, self.stop)
        if start >= stop:
            raise InvalidArgumentError(
                f"{what} {self.start}:{self.stop} lie outside the axis, which has {size}", field=what
            )
        return Window(start, stop)


def window_of(value: object, what: str) -> Window | None:
    """A window from `"8:16"`, `"8"`, a range, a slice or a pair of ints; None from None. InvalidArgumentError for anything else.

    >>> window_of("8:16", "rows"), window_of(range(4), "rows"), window_of("7", "rows")
    (Window(start=8, stop=16), Window(start=0, stop=4), Window(start=7, stop=8))
    """
    if value is None:
        return None
    given = repr(str(value)[:60])
    pair: tuple[object, object] | None = None
    if isinstance(value, str):
        start, colon, stop = value.partition(":")
        if len(value) < 48 and _is_number(start) and (_is_number(stop) if colon else True):
            pair = int(start), int(stop) if colon else int(start) + 1
    elif isinstance(value, range) and value.step == 1:
        pair = value.start, value.stop
    elif isinstance(value, slice):
        part = cast("slice[object, object, object]", value)
        if part.step in (None, 1):
            pair = part.start or 0, part.stop
    elif isinstance(value, (tuple, list)):
        entries = cast("Sequence[object]", value)
        if len(entries) == 2:
            pair = entries[0], entries[1]
    numbers = [number for number in pair or () if isinstance(number, int) and not isinstance(number, bool)]
    if len(numbers) != 2:
        raise InvalidArgumentError(f"{what} takes a window such as '8:16' or range(8, 16), found {given}", field=what)
    window = Window(*numbers)
    if window.start < 0 or window.stop <= window.start:
        raise InvalidArgumentError(
            f"{what} takes a window that begins at 0 or later and is not empty, found {given}", field=what
        )
    return window


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def coordinates_shown(
    size: int, budget: int, focus: Iterable[int] = (), start: int = 0, reach: int | None = None
) -> Shown:
    """At most `budget` entries, 4 or more, for the coordinates from `start` on, `size` of them: gaps count as entries.

    If not all fit: both ends, the coordinates in `focus` (ascending; if empty, the first coordinate), and as many around these as fit.
    `reach` bounds how far from `focus`; an axis of no more than eight coordinates is shown whole in any case.

    >>> coordinates_shown(5, 8), coordinates_shown(100, 6)
    ((0, 1, 2, 3, 4), (0, 1, 2, 3, None, 99))
    >>> coordinates_shown(100, 8, [40])
    (0, None, 39, 40, 41, 42, None, 99)
    """
    stop = start + size
    if size <= budget and (reach is None or size <= _FEW):
        return tuple(range(start, stop))
    chosen = {start, stop - 1}
    wanted: list[int] = []
    for coordinate in focus:
        if start <= coordinate < stop:
            wanted.append(coordinate)
        if len(wanted) >= budget:
            break
    wanted = wanted or [start]
    for coordinate in wanted:
        _add(chosen, coordinate, budget)
    for distance in range(1, budget if reach is None else reach + 1):
        if len(_with_gaps(chosen)) >= budget:
            break
        for coordinate in wanted:
            for neighbour in (coordinate + distance, coordinate - distance):
                if start <= neighbour < stop:
                    _add(chosen, neighbour, budget)
    return _with_gaps(chosen)


def _add(chosen: set[int], coordinate: int, budget: int) -> None:
    """Adds a coordinate if it fits."""
    if coordinate not in chosen:
        chosen.add(coordinate)
        if len(_with_gaps(chosen)) > budget:
            chosen.remove(coordinate)


def _with_gaps(chosen: set[int]) -> Shown:
    shown: list[int | None] = []
    previous: int | None = None
    for coordinate in sorted(chosen):
        if previous is not None and coordinate == previous + 2:
            shown.append(previous + 1)  # a gap of one coordinate would take as much space as the coordinate
        elif previous is not None and coordinate > previous + 1:
            shown.append(GAP)
        shown.append(coordinate)
        previous = coordinate
    return tuple(shown)
