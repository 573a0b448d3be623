"""The output of commands: JSON for programs, tables for people, one line on standard error for a mistake.

Exit codes: 0 success, 1 an error of the library or the server, 2 a mistake in the command line, 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from xlashape.errors import ParseError, XlashapeError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Commands", "console", "one_line", "print_facts", "print_json", "print_table", "share_text"]


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


def console() -> Console:
    """A console that does not cut or wrap shapes; if the output is not a terminal, lines have any length."""
    from rich.console import Console

    wide = None if sys.stdout.isatty() else 10_000
    return Console(width=wide, markup=False, highlight=False, emoji=False, soft_wrap=True)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Iterable[str] = (),
    title: str | None = None,
    footer: str | None = None,
) -> None:
    """A plain table; columns named in `right` are aligned to the right. Shapes and maps are printed whole."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    aligned = set(right)
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, show_edge=False)
    for column in columns:
        if column in aligned:
            table.add_column(column, justify="right", no_wrap=True)
        else:
            table.add_column(column, overflow="fold", no_wrap=not sys.stdout.isatty())
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    out = console()
    out.print(table)
    if footer:
        out.print(Text(footer))


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
