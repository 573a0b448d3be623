"""Tables for people, written while their rows come.

The table is written here: libraries that draw tables take thirteen times as long as the answer for twenty thousand rows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from shutil import get_terminal_size
from types import TracebackType
from typing import Final, NamedTuple

import click

from xlashape.cli.output import echo

__all__ = ["Heading", "TableWriter", "print_table"]

_GAP: Final = "   "
_FIRST_ROWS: Final = 1_000
"""The rows that decide how wide columns are. A column becomes wider where a later row needs it."""
_FIRST_SECONDS: Final = 0.5
"""After so long, what has come is shown."""


class Heading(NamedTuple):
    """The heading of a column."""

    text: str
    is_right: bool = False
    """Aligned to the right, as numbers are."""
    importance: int = 0
    """On a terminal that is too narrow, columns of lower importance are left out first; those of 0 never are."""


class TableWriter:
    """A plain table. Names, shapes and maps are printed whole. On a terminal too narrow for all columns, some are left out and named below.

    A `with` block ends it. An error in the block leaves what was added before; without any row, not even the headings are shown.
    """

    def __init__(self, headings: Sequence[Heading]) -> None:
        self._headings = headings
        self._rows: list[tuple[str, ...]] = []
        self._widths: list[int] = []
        self._shown: list[int] = []
        self._has_begun = False
        self._flushed_at = time.monotonic()

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or self._has_begun or self._rows:
            self.end()

    def add(self, row: Sequence[object]) -> None:
        """A row. The first rows are shown together."""
        self._rows.append(tuple(map(str, row)))
        if len(self._rows) >= _FIRST_ROWS or (
            len(self._rows) % 16 == 1 and time.monotonic() - self._flushed_at > _FIRST_SECONDS
        ):
            self._flush()

    def end(self) -> None:
        """Shows the rest, and which columns are left out."""
        self._flush()
        left_out = [heading.text for number, heading in enumerate(self._headings) if number not in self._shown]
        if left_out:
            echo(f"\nThe terminal is too narrow for: {', '.join(left_out)}.")

    def _flush(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._begin()
        lines: list[str] = []
        for row in self._rows:
            for number in self._shown:
                if len(row[number]) > self._widths[number]:
                    self._widths[number] = len(row[number])
            lines.append(self._line(row))
        self._rows.clear()
        if lines:
            echo("\n".join(lines))
        self._flushed_at = time.monotonic()

    def _begin(self) -> None:
        texts = [heading.text for heading in self._headings]
        self._widths = [max(map(len, column)) for column in zip(texts, *self._rows, strict=True)]
        self._shown = list(range(len(texts)))
        if sys.stdout is not None and sys.stdout.isatty():
            total = get_terminal_size().columns
            while self._total() > total:
                droppable = [number for number in self._shown if self._headings[number].importance]
                if not droppable:
                    break
                self._shown.remove(min(droppable, key=lambda number: (self._headings[number].importance, -number)))
        echo(click.style(self._line(texts), bold=True))
        echo("─" * self._total())

    def _total(self) -> int:
        return sum([self._widths[number] for number in self._shown]) + len(_GAP) * (len(self._shown) - 1)

    def _line(self, cells: Sequence[str]) -> str:
        headings, widths = self._headings, self._widths
        return _GAP.join(
            [
                cells[number].rjust(widths[number])
                if headings[number].is_right
                else cells[number].ljust(widths[number])
                for number in self._shown
            ]
        ).rstrip()


def print_table(headings: Sequence[Heading], rows: Iterable[Sequence[object]]) -> None:
    """A table whose rows are all there."""
    writer = TableWriter(headings)
    for row in rows:
        writer.add(row)
    writer.end()
