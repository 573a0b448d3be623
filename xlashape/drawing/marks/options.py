"""The options of a picture, and the space that it may take."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

from xlashape.drawing.geometry.windows import Window, window_of
from xlashape.errors import InvalidArgumentError
from xlashape.shape.parts.checks import integer

COLORS = ("memory", "tile", "row", "bank", "segment")
"""The values of the option `color`: what the fills of cells show."""

LABELS = ("position", "index", "byte", "tile", "bank", "segment")
"""The values of the option `label`: what is written in cells."""


class Options(NamedTuple):
    """The options of a picture, checked by `options_of`."""

    at: tuple[int, ...] | None = None
    rows: Window | None = None
    columns: Window | None = None
    color: str = "memory"
    label: str = "position"
    path: bool = True
    segment_bytes: int = 128
    banks: int = 32
    bank_bytes: int = 4


class Space(NamedTuple):
    """How much a picture can show."""

    rows: int
    columns: int
    characters: int
    """The most characters of all labels in a row together."""
    tile_rows: int
    tile_columns: int
    slices: int
    """The most slices. Gaps count too, so 5 are the first and the last slice, another one between them, and two gaps."""
    memory_rows: int
    leaves: int
    """The most arrays of a tuple."""

    def columns_for(self, label_length: int) -> int:
        """The number of columns that fit with labels of this length; at least four."""
        return max(4, min(self.columns, self.characters // (label_length + 2)))


SCREEN = Space(rows=18, columns=16, characters=120, tile_rows=7, tile_columns=7, slices=5, memory_rows=10, leaves=40)
"""The space of a picture on a screen."""


def options_of(
    at: Sequence[int] | None = None,
    rows: object = None,
    columns: object = None,
    color: str = "memory",
    label: str = "position",
    path: bool = True,
    segment_bytes: int = 128,
    banks: int = 32,
    bank_bytes: int = 4,
) -> Options:
    """Checked options. InvalidArgumentError, with the name of the option as its field, for a value that an option does not take.

    >>> options_of(color="memroy")
    Traceback (most recent call last):
    xlashape.errors.InvalidArgumentError: color: expected memory, tile, row, bank or segment, found 'memroy': did you mean 'memory'?
    """
    return Options(
        None if at is None else _index(at),
        window_of(rows, "rows"),
        window_of(columns, "columns"),
        _one_of(color, COLORS, "color"),
        _one_of(label, LABELS, "label"),
        bool(path),
        _positive(segment_bytes, "segment_bytes"),
        _positive(banks, "banks"),
        _positive(bank_bytes, "bank_bytes"),
    )


def _index(at: Sequence[int]) -> tuple[int, ...]:
    try:
        if isinstance(at, (str, bytes)):
            raise TypeError
        return tuple([integer(number, "at") for number in at])
    except TypeError:
        raise InvalidArgumentError(f"at takes an index such as (2, 3), found {at!r:.60}", field="at") from None


def _one_of(value: object, known: tuple[str, ...], what: str) -> str:
    if isinstance(value, str) and value in known:
        return value
    close = get_close_matches(value[:40], known, 1) if isinstance(value, str) else []
    hint = f": did you mean {close[0]!r}?" if close else ""
    raise InvalidArgumentError(
        f"{what}: expected {', '.join(known[:-1])} or {known[-1]}, found {str(value)[:40]!r}{hint}", field=what
    )


def _positive(value: object, what: str) -> int:
    number = integer(value, what)
    if not 1 <= number < 1 << 31:
        raise InvalidArgumentError(
            f"{what}: expected a number from 1 to 2147483647, found {str(value)[:40]}", field=what
        )
    return number
