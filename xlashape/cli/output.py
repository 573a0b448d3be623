"""The output of commands: JSON for programs, tables for people, one line on standard error for a mistake.

Exit codes: 0 success, 1 an error of the library or the server, 2 a mistake in the command line, 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from shutil import get_terminal_size
from typing import Any, Final, NoReturn

import click

from xlashape.errors import ParseError, XlashapeError

__all__ = ["Commands", "one_line", "print_facts", "print_json", "print_table", "share_text"]

_GAP: Final = "   "
_NARROWEST: Final = 12  # characters of a column that continues on further lines


class Commands(click.Group):
    """A group of commands whose errors are one line and an exit code, never a traceback."""

    def main(self, *args: Any, standalone_mode: bool = True, **kwargs: Any) -> Any:
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **kwargs)
        try:
            # In click's own standalone mode, errors of the library would be printed as tracebacks.
            result = super().main(*args, standalone_mode=False, **kwargs)
            if sys.stdout is not None:  # None where it was closed, as `>&-` does
                sys.stdout.flush()
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx is not None else "xlashape"
            _fail(f"{_in_one_line(error.format_message())} ({where} --help says more)", error.exit_code)
        except click.ClickException as error:
            _fail(_in_one_line(error.format_message()), error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(130)
        except XlashapeError as error:
            _fail(one_line(error))
        except OSError as error:
            _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(result if isinstance(result, int) else 0)


def one_line(error: XlashapeError) -> str:
    """An error as one line. An error in text has its line and column, but does not show the line."""
    return _in_one_line(str(error).splitlines()[0] if isinstance(error, ParseError) else str(error))


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _fail(message: str, code: int = 1) -> NoReturn:
    click.echo(f"xlashape: {message}", err=True)
    sys.exit(code)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Iterable[str] = (),
    title: str | None = None,
    footer: str | None = None,
) -> None:
    """A plain table; columns named in `right` are aligned to the right. Shapes and maps are printed whole.

    On a terminal too narrow for it, the widest of the other columns continue on further lines. The table is written here, since rich takes
    thirteen times as long as the answer for a table of twenty thousand rows.
    """
    aligned = [column in set(right) for column in columns]
    table = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *table, strict=True)]
    if sys.stdout.isatty():
        _narrow(widths, aligned, get_terminal_size().columns)

    def line(cells: Iterable[str]) -> str:
        return _GAP.join(
            [
                cell.rjust(width) if is_right else cell.ljust(width)
                for cell, width, is_right in zip(cells, widths, aligned, strict=True)
            ]
        ).rstrip()

    lines = [] if title is None else [title]
    lines += [click.style(line(columns), bold=True), "─" * (sum(widths) + len(_GAP) * (len(widths) - 1))]
    for row in table:
        if all(len(cell) <= width for cell, width in zip(row, widths, strict=True)):
            lines.append(line(row))
            continue
        parts = [
            [cell[at : at + width] for at in range(0, len(cell), width)] or [""]
            for cell, width in zip(row, widths, strict=True)
        ]
        lines += map(line, zip_longest(*parts, fillvalue=""))
    click.echo("\n".join(lines))
    if footer:
        click.echo(footer)


def _narrow(widths: list[int], aligned: Sequence[bool], total: int) -> None:
    """Makes columns that are not aligned to the right narrower, the widest first, until the table fits `total` characters."""
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - total
    free: list[int] = [
        number for number, is_right in enumerate(aligned) if not is_right and widths[number] > _NARROWEST
    ]
    while excess > 0 and free:
        widest: int = max(free, key=lambda number: widths[number])
        others = [widths[number] for number in free if number != widest]
        step = min(excess, max(widths[widest] - max([_NARROWEST, *others]), 1))
        widths[widest] -= step
        excess -= step
        free = [number for number in free if widths[number] > _NARROWEST]


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Names and values in two columns. The lines of a value are aligned."""
    rows = [(name, str(value).splitlines() or [""]) for name, value in facts]
    width = max((len(name) for name, _ in rows), default=0)
    for name, lines in rows:
        click.echo(f"{name:<{width}}  {lines[0]}")
        for line in lines[1:]:
            click.echo(f"{'':<{width}}  {line}")


def share_text(part: int, whole: int) -> str:
    """A share in per cent; `0%` if the whole is 0.

    >>> share_text(36, 96)
    '37.5%'
    """
    return f"{100 * part / whole:.1f}%" if whole else "0%"
