"""What commands write: JSON documents with the name of their schema, facts, and any other text.

Everything goes through `echo`, which removes the progress bar before it writes to a terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import click

from xlashape.cli.progress import clear
from xlashape.errors import ParseError, XlashapeError

__all__ = ["echo", "one_line", "print_facts", "print_json", "share_text"]


def echo(text: str | bytes = "", *, newline: bool = True, color: bool | None = None) -> None:
    """Writes to standard output."""
    if sys.stdout is not None and sys.stdout.isatty():
        clear()
    click.echo(text, nl=newline, color=color)


def one_line(error: XlashapeError) -> str:
    """An error as one line, for the cell of a table. An error in text has its line and column, but does not show the line."""
    text = str(error).splitlines()[0] if isinstance(error, ParseError) else str(error)
    return " ".join(text.split())


def print_json(schema: str, document: dict[str, Any]) -> None:
    """One JSON document on standard output. `schema` is the name of its schema in xlashape/cli/schemas, such as `shape.v1`."""
    echo(json.dumps({"schema": f"xlashape.{schema}", **document}, indent=2, ensure_ascii=False))


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Names and values in two columns. The lines of a value are aligned."""
    rows = [(name, str(value).splitlines() or [""]) for name, value in facts]
    width = max((len(name) for name, _ in rows), default=0)
    for name, lines in rows:
        echo(f"{name:<{width}}  {lines[0]}")
        for line in lines[1:]:
            echo(f"{'':<{width}}  {line}")


def share_text(part: int, whole: int) -> str:
    """A share in per cent; `0%` if the whole is 0.

    >>> share_text(36, 96)
    '37.5%'
    """
    return f"{100 * part / whole:.1f}%" if whole else "0%"
