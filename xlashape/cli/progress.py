"""A progress bar on standard error for a command that takes longer than a second. Without a terminal there is none.

Commands say what they are doing with `progress`; the group begins and ends the bar.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic
from typing import Final

import click

DELAY_SECONDS: Final = 1.0
"""How long a command works before the bar appears."""


_REDRAW_SECONDS: Final = 0.1
_REMOVED: Final = "\r\x1b[2K\x1b[?25h"
"""Clears the line and shows the cursor, which click hides while it draws."""


class _Bar:
    """A bar that appears after a delay, in a thread: the command may then be in the middle of a long step."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_over = self._is_shown = False
        self._drawn = 0.0
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
        if self._is_shown and (is_new or monotonic() - self._drawn >= _REDRAW_SECONDS):
            with self._lock:
                if self._is_shown:
                    self._draw()

    def _draw(self) -> None:
        what, done, total = self._state
        count = "" if done is None else f"{done:,}" if total is None else f"{done:,} of {total:,}"
        template = "%(label)s" if total is None else "%(label)s  [%(bar)s]"
        # A bar for each drawing, since click's has one total for all of its life.
        bar = click.progressbar(
            length=total or 1, label=f"{what}  {count}".rstrip(), bar_template=f"\x1b[2K{template}", file=sys.stderr
        )
        bar.pos = done or 0
        bar.render_progress()
        self._drawn = monotonic()

    def end(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_over = True
            if self._is_shown:
                sys.stderr.write(_REMOVED)
                sys.stderr.flush()
            self._is_shown = False


_bar: _Bar | None = None
"""That of the command that runs. A process runs one command at a time."""


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


def clear() -> None:
    """Removes the bar for good: before results are written to the same terminal."""
    global _bar
    bar, _bar = _bar, None
    if bar is not None:
        bar.end()
