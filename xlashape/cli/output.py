"""What commands write: JSON documents with the name of their schema, facts, and any other text.

Everything goes through `echo`, which removes the progress bar before it writes to a terminal.
"""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Iterable
from typing import Any, Final, TextIO

import click

from xlashape.cli.progress import clear
from xlashape.errors import ParseError, XlashapeError

_ASCII: Final = {
    "─": "-", "│": "|", "┼": "+", "░": ".", "·": ".", "…": "...", "⋯": "...", "⋮": ":", "→": ">", "←": "<", "↓": "v", "↑": "^",
    "×": "x", "÷": "/", "≤": "<=", "≥": ">=", "␣": "_", "“": '"', "”": '"', "’": "'", "–": "-",
}  # fmt: skip
"""What stands for characters that an encoding lacks, such as those of Windows. Any other such character is `?`."""


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join([_ASCII.get(each, "?") for each in error.object[error.start : error.end]]), error.end


def allow_any_encoding() -> None:
    """Lets standard output and error write characters that their encoding lacks, by ASCII. Without this the first one ends the command."""
    codecs.register_error("xlashape-ascii", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and not _is_unicode(stream) and getattr(stream, "errors", "") == "strict":
            reconfigure(errors="xlashape-ascii")


def _is_unicode(stream: TextIO | None) -> bool:
    return stream is None or (getattr(stream, "encoding", None) or "utf-8").lower().replace("_", "-").startswith("utf")


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
    made = {"schema": f"xlashape.{schema}", **document}
    echo(json.dumps(made, indent=2, ensure_ascii=not _is_unicode(sys.stdout)))


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
