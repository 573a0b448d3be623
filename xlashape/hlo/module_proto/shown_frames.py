"""Which frames of a program `Metadata.source` shows. This file stands apart from the frames, since reports about shapes
have the option too, and need no module.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from xlashape.errors import InvalidArgumentError

_shown: Final = ContextVar("frames that are shown", default="own")


def shown_frames() -> str:
    """The word for the frames that are shown in this thread or task: "own" or "all"."""
    return _shown.get()


def checked_frames(frames: str) -> str:
    """The word itself. InvalidArgumentError for another word."""
    if frames not in ("own", "all"):
        raise InvalidArgumentError(f"expected own or all, found {frames!r}", field="frames")
    return frames


@contextmanager
def showing_frames(frames: str | None) -> Generator[None, None, None]:
    """Within the context, in this thread or task, `Metadata.source` shows every frame for "all", and only
    `Metadata.frame` for "own". None changes nothing.

    Reports that have a column `source` follow it. Raises InvalidArgumentError for another word.
    """
    token = _shown.set(_shown.get() if frames is None else checked_frames(frames))
    try:
        yield
    finally:
        _shown.reset(token)
