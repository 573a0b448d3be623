"""Rows of the commands that list things: the options --filter, --sort, --limit and --format, and rows as JSON lines,
CSV and Parquet.

xlashape/reports/selection.py chooses the rows. xlashape/reports/text.py makes tables for people.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Any, Final, TypeVar

import click

from xlashape.base.tables import Column, ColumnKind, Table, csv_line, json_line
from xlashape.cli.output import echo
from xlashape.errors import InvalidArgumentError
from xlashape.reports.selection import Row

F = TypeVar("F", bound=Callable[..., Any])

FORMATS: Final = ("table", "json", "jsonl", "csv", "parquet")


def row_options(default_limit: int, what: str, tests: str, formats: Sequence[str] = FORMATS) -> Callable[[F], F]:
    """Adds --filter, --sort, --limit and --format to a command, which takes them as `filters`, `sort`, `limit` and
    `form`.

    The others are for the help: `default_limit`, the most rows of a table without --limit (0: all); `what`, the word
    for the rows; `tests`, examples of filters, of which the last is a regular expression.
    """

    def add(command: F) -> F:
        shown = f"default: {default_limit}" if default_limit else "default: all"
        options = (
            click.option(
                "--format", "form", type=click.Choice(formats), default=None,
                help="table for people; json, one document; jsonl and csv, a line for each row as it is computed; "
                    "parquet.  [default: table]",
            ),
            click.option(
                "--limit", type=click.IntRange(min=0), default=None, metavar="N",
                help=f"The most {what}; 0 shows all.  [{shown} of a table, all of other formats]",
            ),
            click.option(
                "--sort", metavar="COLUMN",
                help="Order by a column: numbers from the largest, text from A. COLUMN:asc and COLUMN:desc "
                    "choose. Without it, the command's own order.",
            ),
            click.option(
                "--filter", "filters", multiple=True, metavar="TEST",
                help=f"Only rows such as {tests} (a regular expression), or text that the first column of texts "
                    "contains. Several must all hold.",
            ),
        )  # fmt: skip
        for option in options:
            command = option(command)
        return command

    return add


def examples(columns: Sequence[Column]) -> str:
    """Examples of filters of some of these columns, for `row_options`; the last one is a regular expression."""
    named = [column.name for column in columns if column.kind is ColumnKind.TEXT]
    who = next((name for name in ("instruction", "name") if name in named), named[0])
    sizes = sorted([column.name for column in columns if column.unit == "bytes"], key=lambda name: name != "bytes")
    parts = [column.name.replace("_", " ") for column in columns if column.unit == "fraction"]
    tests = ["opcode=fusion"] if "opcode" in named else []
    tests += [f"{name}>=10MiB" for name in sizes[:1]] + [f"{name}<50%" for name in parts[:1]] + [f"{who}~^dot"]
    return ", ".join([f"'{test}'" for test in tests])


def write_rows(form: str, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Writes rows as `jsonl`, `csv` or `parquet`; the first two line by line."""
    names = [column.name for column in columns]
    if form == "parquet":
        if sys.stdout.isatty():
            raise InvalidArgumentError("parquet is binary: redirect it, as in > rows.parquet", field="--format")
        echo(Table(columns, rows).to_parquet(), newline=False)
        return
    rows = iter(rows)
    first = list(islice(rows, 1))  # before the headings are written, so that an error in the first row stands alone
    if form == "csv":
        echo(csv_line(names), newline=False, is_data=True)
    for row in chain(first, rows):
        line = csv_line(row) if form == "csv" else json_line(dict(zip(names, row, strict=True)))
        echo(line, newline=False, is_data=True)
