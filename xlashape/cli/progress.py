"""A progress bar on standard error for a command that takes longer than a second. Without a terminal there is none.

Commands say what they are doing with `progress`; the group begins and ends the bar. rich draws it, and is imported after that second, not before.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["DELAY_SECONDS", "clear", "progress", "shown"]

DELAY_SECONDS: Final = 1.0
"""How long a command works before the bar appears."""


class _Bar:
    """A bar that appears after a delay, in a thread: the command may then be in the middle of a long step."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_over = False
        self._rich: Progress | None = None
        self._task: TaskID | None = None
        self._state: tuple[str, int | None, int | None] = ("working", None, None)
        self._timer = threading.Timer(DELAY_SECONDS, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def _appear(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._is_over:
                return
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[count]}"),
                TimeElapsedColumn(),
            )
            self._rich = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
            self._task = self._rich.add_task("", total=None, count="")
            self._show()
            self._rich.start()

    def update(self, what: str, done: int | None, total: int | None) -> None:
        self._state = (what, done, total)
        if self._rich is not None:
            with self._lock:
                self._show()

    def _show(self) -> None:
        what, done, total = self._state
        if self._rich is None or self._task is None:
            return
        count = "" if done is None else f"{done:,}" if total is None else f"{done:,} of {total:,}"
        self._rich.update(self._task, description=what, completed=done or 0, total=total, count=count)

    def end(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_over = True
            rich, self._rich = self._rich, None
        if rich is not None:
            rich.stop()


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
