"""The output of commands: JSON documents with the name of their schema, names with values, other text, and a progress
bar.

Commands that have the bar write their results with `echo`, which removes the bar before it writes to a terminal. The
bar appears on standard error once a command has taken longer than a second, and only on a terminal. Commands say with
`progress` what they are doing; the group of commands (`commands.py`) begins and ends the bar.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import timedelta
from shutil import get_terminal_size
from time import monotonic
from typing import Any, Final, TextIO

import click

from xlashape.base.display import printable, printable_json
from xlashape.errors import ParseError, XlashapeError
from xlashape.limits import outermost_budget, set_checkpoint

DELAY_SECONDS: Final = 1.0
"""Seconds that a command works before the bar appears."""


_REDRAW_SECONDS: Final = 0.1
_RATE_SECONDS: Final = 2.0
_REMOVED: Final = "\r\x1b[2K\x1b[?25h"
"""Clears the line and shows the cursor, which click hides while it draws."""


class _Bar:
    """A bar that appears after a delay. The first time, a thread of its own draws it, since the command may be in the
    middle of a long step then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_over = self._is_shown = False
        self._drawn = 0.0
        self._began: tuple[float, int] | None = None
        """The time of the first count, and the count."""
        self._state: tuple[str, int | None, int | None] = ("working", None, None)
        self._timer = threading.Timer(DELAY_SECONDS, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def _appear(self) -> None:
        with self._lock:
            if not self._is_over:
                self._is_shown = True
                self._draw()

    def update(self, what: str, done: int | None, total: int | None) -> None:
        is_new = what != self._state[0]
        self._state = (what, done, total)
        if is_new or self._began is None:
            self._began = None if done is None else (monotonic(), done)
        if self._is_shown and (is_new or monotonic() - self._drawn >= _REDRAW_SECONDS):
            with self._lock:
                if self._is_shown:
                    self._draw()

    def _draw(self) -> None:
        what, done, total = self._state
        count = "" if done is None else f"{done:,}" if total is None else f"{done:,} of {total:,}"
        count += self._rate()
        template = "%(label)s" if total is None else "%(label)s  [%(bar)s]"
        # A new bar for each drawing, since the total of a bar of click cannot change.
        bar = click.progressbar(
            length=total or 1, label=f"{what}  {count}".rstrip(), bar_template=f"\x1b[2K{template}", file=sys.stderr
        )
        bar.pos = done or 0
        bar.render_progress()
        self._drawn = monotonic()

    def _rate(self) -> str:
        """The amount done in a second, and the remaining time, once they can be estimated."""
        _, done, total = self._state
        if self._began is None or done is None or total is None:
            return ""
        took, more = monotonic() - self._began[0], done - self._began[1]
        if took < _RATE_SECONDS or more <= 0:
            return ""
        return f", {more / took:,.0f}/s, {timedelta(seconds=round((total - done) * took / more))} left"

    def end(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_over = True
            if self._is_shown:
                sys.stderr.write(_REMOVED)
                sys.stderr.flush()
            self._is_shown = False


_bar: _Bar | None = None
"""The bar of the command that runs. A process runs one command at a time."""


@contextmanager
def shown() -> Generator[None, None, None]:
    """A bar while the block runs, if standard error is a terminal and the block takes more than a second."""
    global _bar
    if _bar is not None or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    _bar = _Bar()
    try:
        yield
    finally:
        clear()


def progress(what: str, done: int | None = None, total: int | None = None) -> None:
    """Says what the command is doing, and how far it is, if that is known."""
    if _bar is not None:
        _bar.update(what, done, total)


@contextmanager
def stepping(what: str) -> Generator[None, None, None]:
    """Says while the block runs how many steps it took, of an analysis that may take so many at most."""

    def look() -> None:
        current = outermost_budget()
        if current is not None and current.maximum is not None and current.subject:
            progress(f"{what}, steps", current.steps, current.maximum)

    progress(what)
    set_checkpoint(look)
    try:
        yield
    finally:
        set_checkpoint(None)


def clear() -> None:
    """Removes the bar for the rest of the command, before results are written to the same terminal."""
    global _bar
    bar, _bar = _bar, None
    if bar is not None:
        bar.end()


# -- output ------------------------------------------------------------------------------------


_ASCII: Final = {
    "─": "-", "│": "|", "┼": "+", "░": ".", "·": ".", "…": "...", "⋯": "...", "⋮": ":", "→": ">",
    "←": "<", "↓": "v", "↑": "^", "×": "x", "÷": "/", "≤": "<=", "≥": ">=", "␣": "_", "“": '"', "”": '"', "’": "'",
    "–": "-",
}  # fmt: skip
"""Replacements of characters that an encoding lacks, as encodings of Windows do. Any other such character becomes
`?`."""


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join([_ASCII.get(each, "?") for each in error.object[error.start : error.end]]), error.end


def allow_any_encoding() -> None:
    """Lets standard output and error write ASCII in place of characters that their encoding lacks. Without this, the
    first such character ends the command with an error.
    """
    codecs.register_error("xlashape-ascii", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and not _is_unicode(stream) and getattr(stream, "errors", "") == "strict":
            reconfigure(errors="xlashape-ascii")


def _is_unicode(stream: TextIO | None) -> bool:
    return stream is None or (getattr(stream, "encoding", None) or "utf-8").lower().replace("_", "-").startswith("utf")


_COLOR: Final = re.compile(r"(\x1b\[[0-9;]*m)")
_PIECE: Final = 1 << 15
"""The most characters or bytes that are written at once: no more than a pipe takes."""


def echo(text: str | bytes = "", *, newline: bool = True, color: bool | None = None, is_data: bool = False) -> None:
    """Writes to standard output. `color` None leaves colours out where it is not a terminal. Names in a module or of
    files may control a terminal, so text has U+FFFD in place of characters that are not printed. Colours stay, and so
    does text that `is_data` for programs, unless it goes to a terminal.
    """
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    if is_terminal:
        clear()
    if isinstance(text, str) and (is_terminal or not is_data):
        parts = _COLOR.split(text) if color else [text]
        text = "".join([each if number % 2 else printable(each) for number, each in enumerate(parts)])
    # In pieces, so that a reader that stops early is noticed.
    while len(text) > _PIECE:
        click.echo(text[:_PIECE], nl=False, color=color)
        text = text[_PIECE:]
    click.echo(text, nl=newline, color=color)


def complain(text: str) -> None:
    """Writes a line on standard error."""
    click.echo(printable(text), err=True)


def one_line(error: XlashapeError) -> str:
    """An error as one line, for the cell of a table. A ParseError gives the line number and the column, but does not
    show the line of the text.
    """
    text = str(error).splitlines()[0] if isinstance(error, ParseError) else str(error)
    return printable(" ".join(text.split()))


def print_json(schema: str, document: dict[str, Any]) -> None:
    """Writes one JSON document to standard output. `schema` is the name of its schema, such as `shape.v1`, as
    `xlashape schemas` lists them.
    """
    made = {"schema": f"xlashape.{schema}", **document}
    echo(printable_json(json.dumps(made, indent=2, ensure_ascii=not _is_unicode(sys.stdout))))


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Writes names and values in two columns. The lines of a value are aligned."""
    rows = [(name, str(value).splitlines() or [""]) for name, value in facts]
    width = max((len(name) for name, _ in rows), default=0)
    for name, lines in rows:
        echo(f"{name:<{width}}  {lines[0]}")
        for line in lines[1:]:
            echo(f"{'':<{width}}  {line}")


def terminal_width() -> int | None:
    """The characters of a line, if standard output is a terminal; else None."""
    return get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


def share_text(part: int, whole: int) -> str:
    """The share of `part` in `whole` in per cent; `0%` if `whole` is 0.

    >>> share_text(36, 96)
    '37.5%'
    """
    return f"{100 * part / whole:.1f}%" if whole else "0%"
