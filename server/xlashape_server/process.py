"""What a process of the server and whoever runs it tell each other: log lines, signals, and notifications to systemd;
and how much memory a process has.

The log is on standard error, each line a JSON object, for log collectors and for grep. Workers and their children write
to it too. gRPC's core, whose lines any caller can cause, is silent.

`StopSignals` waits for SIGTERM and SIGINT without losing one. A Python signal handler runs between two bytecodes of the
main thread, so it must take no lock that this thread may hold: it puts the signal into a queue that is made for that.
It does not run while the main thread sleeps in a system call that began just before, so that waits end now and then.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import queue
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

_MAX_CHARACTERS = 2000  # the most characters of one text in a log line; longer texts are cut


class _JsonLines(logging.Formatter):
    """Formats a record as a JSON object: time, level, the entries of `always`, message, the record's `facts`, and an
    exception.
    """

    def __init__(self, **always: Any) -> None:
        super().__init__()
        self._always = always

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            **self._always,
        }
        line["message"] = _short(record.getMessage())
        facts: dict[str, Any] = getattr(record, "facts", {})
        line.update((key, _short(value)) for key, value in facts.items())
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _short(value: Any) -> Any:
    """A text cut to `_MAX_CHARACTERS`, since callers can cause errors with long texts; other values unchanged."""
    if isinstance(value, str) and len(value) > _MAX_CHARACTERS:
        return value[:_MAX_CHARACTERS] + "…"
    return value


def configure(level: str, **always: Any) -> None:
    """Sends the logs of this process to standard error. Each line also has the entries of `always`."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines(**always))
    root = logging.getLogger("xlashape_server")
    root.handlers[:] = [handler]
    root.propagate = False
    set_level(level)


def set_level(level: str) -> None:
    """Sets the level of the logs of this process."""
    logging.getLogger("xlashape_server").setLevel(level.upper())


def memory_of(pid: int | str) -> tuple[int, int, int]:
    """The address space, the resident memory, and the part of this that other processes share, of a process ("self" for
    this one), in bytes; zeros where the system does not say.
    """
    try:
        size, resident, shared = map(int, Path(f"/proc/{pid}/statm").read_bytes().split()[:3])
    except (OSError, ValueError):
        return 0, 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return size * page, resident * page, shared * page


_NUMBERS = (signal.SIGTERM, signal.SIGINT)
_WAKE = 0  # put into the queue by `wake`; no signal has this number
_LONGEST_SECONDS = 0.25


class StopSignals:
    """Within the `with` block, SIGTERM and SIGINT only end `wait`, unless `exits` is set. Only the main thread can
    enter the block.

    A signal that is ignored, such as SIGHUP under nohup, stays ignored. For each signal in `actions`, `wait` calls the
    action and goes on waiting.
    """

    def __init__(self, actions: Mapping[int, Callable[[], None]] | None = None) -> None:
        self._actions = actions or {}
        self._seen: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.exits = False
        """Whether SIGTERM and SIGINT raise SystemExit(0), such as before there is anything to stop with grace."""

    def __enter__(self) -> StopSignals:
        self._previous = {
            number: signal.signal(number, lambda number, _: self._came(number))
            for number in (*_NUMBERS, *self._actions)
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _came(self, number: int) -> None:
        if self.exits and number in _NUMBERS:
            raise SystemExit(0)
        self._seen.put(number)

    def wait(self, seconds: float = math.inf) -> bool:
        """Waits for a signal or a call of `wake`, at most `seconds`. Each signal and each call ends one wait. False
        after a timeout.
        """
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            try:
                number = self._seen.get(timeout=max(0.0, min(left, _LONGEST_SECONDS)))
            except queue.Empty:
                if left <= _LONGEST_SECONDS:
                    return False
                continue
            if number not in self._actions:
                return True
            self._actions[number]()

    def wake(self) -> None:
        """Ends `wait` from another thread."""
        self._seen.put(_WAKE)


def tell(state: str) -> None:
    """Sends a state such as "READY=1" to the socket that the variable NOTIFY_SOCKET names, by the protocol of
    sd_notify(3). Does nothing if the variable is not set: systemd has not started the server.
    """
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path[0] == "@" else path
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(state.encode(), address)
