"""Limits of size, depth and time. Input that exceeds a limit raises LimitExceededError.

The constants bound the memory and the stack that an input may take; `budget` bounds the time that an analysis may take.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar, Token

from xlashape.errors import DeadlineExceededError, FieldPath, LimitExceededError

__all__ = [
    "INT32_MAX",
    "INT32_MIN",
    "INT64_MAX",
    "INT64_MIN",
    "MAX_EXPRESSION_DEPTH",
    "MAX_RANK",
    "MAX_SHAPE_DEPTH",
    "MAX_TEXT_CHARACTERS",
    "Budget",
    "at_most",
    "budget",
    "check",
    "outermost_budget",
    "set_checkpoint",
    "spend",
]

INT32_MIN = -(1 << 31)
INT32_MAX = (1 << 31) - 1
INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1

MAX_SHAPE_DEPTH = 80
"""The greatest nesting depth of tuple shapes. Protobuf decodes at most 100 nested messages, and in an HloProto a shape
already lies within four others.
"""

MAX_RANK = 10_000
"""The most dimensions of an array."""

MAX_EXPRESSION_DEPTH = 200
"""The greatest nesting depth of operators in an expression. A sum is one level, however many terms it has."""

MAX_TEXT_CHARACTERS = 1 << 30
"""The most characters of a text to parse."""


def check(limit: str, value: int, maximum: int, *, field: str | FieldPath | None = None) -> None:
    """Raises LimitExceededError if `value` exceeds `maximum`. `limit` is the limit's name in words; the error's
    attribute has it in snake_case.

    >>> check("text characters", 4, 3)
    Traceback (most recent call last):
    xlashape.errors.LimitExceededError: text characters: 4 is more than 3
    """
    if value > maximum:
        raise LimitExceededError(
            f"{limit}: {value} is more than {maximum}",
            limit=limit.lower().replace(" ", "_"),
            maximum=maximum,
            value=value,
            field=field,
        )


def at_most(
    maximum: float, value: int, limit: str, text: str, *, field: str | FieldPath | None = None, hint: str = ""
) -> None:
    """Raises LimitExceededError if `value` exceeds `maximum`. `limit` is the limit's name in snake_case; `text` says
    in words what has the value, with {} in its place; `hint` is added to it.

    >>> at_most(3, 4, "batch", "{} shapes in one request")
    Traceback (most recent call last):
    xlashape.errors.LimitExceededError: 4 shapes in one request, of 3 allowed
    """
    if value > maximum:
        message = f"{text.format(value)}, of {maximum} allowed{hint}"
        raise LimitExceededError(message, limit=limit, maximum=maximum, value=value, field=field)


class Budget:
    """A maximum of steps and a deadline for an analysis; None stands for no maximum or no deadline. A step is about one
    visited expression, which takes about a microsecond.

    `subject` names what is analysed, for the error. `deadline` is a value of `time.monotonic()`. The budget is in force
    within a `with` block. About every 256 steps the outermost budget calls the checkpoint of its thread, if
    `set_checkpoint` set one.
    """

    __slots__ = ("_next_look", "_token", "checkpoint", "deadline", "maximum", "outer", "steps", "subject")

    _token: Token[Budget | None]

    def __init__(self, steps: int | None = None, deadline: float | None = None, subject: str = "") -> None:
        self.outer: Budget | None = None
        self.steps = 0
        self.maximum = steps
        self.deadline = deadline
        self.subject = subject
        self.checkpoint: Callable[[], None] | None = None
        self._next_look = 0

    def __enter__(self) -> Budget:
        self.outer = outer = _current.get()
        self._token = _current.set(self)
        if outer is None:
            self.checkpoint = _thread.checkpoint
        return self

    def __exit__(self, *exception: object) -> None:
        _current.reset(self._token)

    def spend(self, steps: int = 1) -> None:
        """Counts `steps`; raises LimitExceededError beyond the maximum and DeadlineExceededError after the deadline."""
        self.steps += steps
        if self.steps >= self._next_look:
            self._look()
        if self.outer is not None:
            self.outer.spend(steps)

    def _look(self) -> None:
        # The clock is read every 256 steps; the maximum of steps is exact.
        self._next_look = self.steps + 256
        of = f" of {self.subject}" if self.subject else ""
        if self.maximum is not None:
            if self.steps > self.maximum:
                raise LimitExceededError(
                    f"analysis{of} took more than {self.maximum} steps",
                    limit="analysis_steps",
                    maximum=self.maximum,
                    value=self.steps,
                )
            self._next_look = min(self._next_look, self.maximum + 1)
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise DeadlineExceededError(f"the deadline passed during the analysis{of}")
        if self.checkpoint is not None and self.steps >= 256:
            self.checkpoint()


_current: ContextVar[Budget | None] = ContextVar("xlashape_budget", default=None)


def budget(steps: int | None = None, deadline: float | None = None, subject: str = "") -> Budget:
    """Bounds every analysis inside the `with` block, in this thread or asyncio task. Steps also count against enclosing
    budgets.

    >>> with budget(steps=10_000_000, deadline=time.monotonic() + 1.0, subject="fusion.3"):
    ...     pass
    """
    return Budget(steps, deadline, subject)


class _Thread(threading.local):
    checkpoint: Callable[[], None] | None = None


_thread = _Thread()


def set_checkpoint(checkpoint: Callable[[], None] | None) -> None:
    """Makes the budgets that are entered in this thread from now on call `checkpoint` about every 256 steps; None ends
    that. `checkpoint` may wait, or raise an exception, which ends the analysis.
    """
    _thread.checkpoint = checkpoint


def outermost_budget() -> Budget | None:
    """The budget in force in this thread or asyncio task that encloses all others; None if there is none."""
    found = _current.get()
    while found is not None and found.outer is not None:
        found = found.outer
    return found


def spend(steps: int = 1) -> None:
    """Counts `steps` against the current budget; does nothing if there is none."""
    current = _current.get()
    if current is not None:
        current.spend(steps)
