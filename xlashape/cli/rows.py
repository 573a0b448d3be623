"""Rows of the commands that list things, and tables for people.

Tables for people, written while their rows come.

The table is written here: libraries that draw tables take thirteen times as long as the answer for twenty thousand rows.

Rows of the commands that list things: the options --filter, --sort, --limit and --format, and rows as lines. xlashape/reports/selection.py chooses the rows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from shutil import get_terminal_size
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeVar

import click

from xlashape.cli.output import echo
from xlashape.errors import InvalidArgumentError
from xlashape.reports.selection import Row
from xlashape.tables import Column, Table, csv_line, json_line

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


# -- rows --------------------------------------------------------------------------------------


F = TypeVar("F", bound=Callable[..., Any])

FORMATS: Final = ("table", "json", "jsonl", "csv", "parquet")


def row_options(default_limit: int, what: str) -> Callable[[F], F]:
    """Adds --filter, --sort and --limit to a command, which takes them as `filters`, `sort` and `limit`; and --format as `form`."""

    def add(command: F) -> F:
        shown = f"default: {default_limit}" if default_limit else "default: all"
        options = (
            click.option(
                "--format", "form", type=click.Choice(FORMATS), default=None,
                help="table for people; json, one document; jsonl and csv, a line for each row as it is computed; parquet.  [default: table]",
            ),
            click.option(
                "--limit", type=click.IntRange(min=0), default=None, metavar="N",
                help=f"The most {what}; 0 shows all.  [{shown} of a table, all of other formats]",
            ),
            click.option(
                "--sort", metavar="COLUMN",
                help="Order by a column: numbers from the largest, text from A. COLUMN:asc and COLUMN:desc choose. Without it, the command's own order.",
            ),
            click.option(
                "--filter", "filters", multiple=True, metavar="TEST",
                help="Only rows such as 'opcode=fusion', 'bytes>=10MiB', 'part read<50%', 'instruction~^dot' (a regular expression), "
                "or text that the instruction's name contains. Several must all hold.",
            ),
        )  # fmt: skip
        for option in options:
            command = option(command)
        return command

    return add


def write_rows(form: str, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Writes rows as `jsonl`, `csv` or `parquet`; the first two line by line."""
    names = [column.name for column in columns]
    if form == "parquet":
        if sys.stdout.isatty():
            raise InvalidArgumentError("parquet is binary: redirect it, as in > rows.parquet", field="--format")
        echo(Table(columns, rows).to_parquet(), newline=False)
        return
    rows = iter(rows)
    first = list(islice(rows, 1))  # before the headings, so that an error instead of rows stands alone
    if form == "csv":
        echo(csv_line(names), newline=False)
    for row in chain(first, rows):
        echo(csv_line(row) if form == "csv" else json_line(dict(zip(names, row, strict=True))), newline=False)
