"""Records which lines and branches of the packages have run, so that a fuzzer knows when a request reaches something
new.

From Python 3.12 on, sys.monitoring reports each line once, which costs next to nothing. Before that, a trace function
sees each step from one line to another, which makes code several times as slow.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import xlashape
import xlashape_server

__all__ = ["Coverage"]

_FOLDERS = tuple(str(Path(package.__path__[0]).resolve()) for package in (xlashape, xlashape_server))


class Coverage:
    """The lines and branches that this thread has run within `with coverage.watching()`."""

    def __init__(self) -> None:
        self.seen: set[tuple[CodeType, int, int]] = set()
        """Lines (code, line, 0) and branches (code, offset, offset of the target); before Python 3.12, steps (code,
        line, next line)."""
        self._branches: dict[tuple[CodeType, int], int] = {}

    @contextmanager
    def watching(self) -> Generator[None]:
        """Watches until the end of the block."""
        monitoring: Any = getattr(sys, "monitoring", None)
        if monitoring is None:
            sys.settrace(self._trace)
            try:
                yield
            finally:
                sys.settrace(None)
            return
        tool, events = monitoring.COVERAGE_ID, monitoring.events
        monitoring.use_tool_id(tool, "guided fuzzing")
        kinds = [getattr(events, name) for name in ("BRANCH", "BRANCH_LEFT", "BRANCH_RIGHT") if hasattr(events, name)]
        if len(kinds) == 3:
            kinds = kinds[1:]  # the event BRANCH stands for both directions
        for kind in kinds:
            monitoring.register_callback(tool, kind, self._on_branch)
        monitoring.register_callback(tool, events.LINE, self._on_line)
        monitoring.set_events(tool, events.LINE | sum(kinds))
        try:
            yield
        finally:
            monitoring.set_events(tool, 0)
            monitoring.free_tool_id(tool)

    def _on_line(self, code: CodeType, line: int) -> Any:
        if code.co_filename.startswith(_FOLDERS):
            self.seen.add((code, line, 0))
        return sys.monitoring.DISABLE  # type: ignore[attr-defined]  # Python 3.12

    def _on_branch(self, code: CodeType, offset: int, target: int) -> Any:
        if not code.co_filename.startswith(_FOLDERS):
            return sys.monitoring.DISABLE  # type: ignore[attr-defined]
        branch = (code, offset, target)
        if branch not in self.seen:
            self.seen.add(branch)
            self._branches[code, offset] = self._branches.get((code, offset), 0) + 1
        return sys.monitoring.DISABLE if self._branches[code, offset] == 2 else None  # type: ignore[attr-defined]

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(_FOLDERS):
            return None
        last, seen = 0, self.seen

        def step(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal last
            if event == "line":
                seen.add((code, last, frame.f_lineno))
                last = frame.f_lineno
            return step

        return step
