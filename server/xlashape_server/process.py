"""What a process of the server and whoever runs it tell each other: log lines, signals, and notifications to systemd.

The log is on standard error, each line a JSON object, for log collectors and for grep. Other output of a worker, such
as lines of gRPC's core or the stacks of a crash, becomes log lines of the server.

`StopSignals` waits for SIGTERM and SIGINT without losing one. A Python signal handler runs between two
bytecodes of the main thread. It can therefore deadlock on a lock that the main thread holds (threading.Event.set during
Event.wait), and it does not run while the main thread sleeps in a system call that began just before. So the
interpreter's own handler writes the number of the signal to a pipe, and the main thread waits on the pipe.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping
from types import FrameType, TracebackType
from typing import Any, TextIO

# A line of absl, which gRPC's core uses: the letter of the level, time, thread, file and line, then the message. An
# example: "E0000 00:00:1763798415.713 4242 ssl_transport.cc:884] handshake failed".
_ABSL = re.compile(r"(?P<letter>[IWEF])\d{4} [\d:.]+\s+\d+ (?P<source>[\w./-]+:\d+)\] (?P<message>.*)")
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


class Rate:
    """Allows at most `most` lines a second, so that callers cannot fill a disk. There is no lock: threads that ask at
    the same time may write one line too many, or count one too few.
    """

    def __init__(self, most: float = 100) -> None:
        self._most = most
        self._second = 0
        self._count = 0
        self._dropped = 0

    def allows(self) -> bool:
        """Whether to write a line now. Call this once for each line."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._count = second, 0
        self._count += 1
        if self._count <= self._most:
            return True
        self._dropped += 1
        return False

    def unlogged(self) -> dict[str, object]:
        """The number of lines that were not allowed since the last call, as a fact for the next line; empty if none."""
        if not self._dropped:
            return {}
        found, self._dropped = self._dropped, 0
        return {"unlogged": found}


class OutputLines:
    """Logs what a worker wrote to its standard error, with at most 100 lines a second."""

    def __init__(self, worker: int, pid: int) -> None:
        self._log = logging.getLogger("xlashape_server.output")
        self._facts: dict[str, Any] = {"worker": worker, "worker_pid": pid}
        self._rate = Rate()

    def log(self, line: str) -> None:
        """Logs a line as a warning, or at the level info if gRPC's core wrote it so. Errors of gRPC's core are warnings
        here, since any caller can cause them.
        """
        line = line.rstrip()[:_MAX_CHARACTERS]
        if not line or line.startswith("WARNING: All log messages before absl::InitializeLog"):
            return
        if not self._rate.allows():
            return
        facts, level = self._facts | self._rate.unlogged(), logging.WARNING
        match = _ABSL.fullmatch(line)
        if match is not None:
            line, facts["source"] = match["message"], match["source"]
            level = logging.INFO if match["letter"] == "I" else logging.WARNING
        self._log.log(level, "%s", line, extra={"facts": facts})


def configure(level: str, stream: TextIO | None = None, **always: Any) -> None:
    """Sends the logs of this process to `stream` (default: standard error). Each line also has the entries of
    `always`.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_JsonLines(**always))
    root = logging.getLogger("xlashape_server")
    root.handlers[:] = [handler]
    root.propagate = False
    set_level(level)


def set_level(level: str) -> None:
    """Sets the level of the logs of this process."""
    logging.getLogger("xlashape_server").setLevel(level.upper())


class CallLog:
    """Log lines of calls, at most one for each. At the level info at most 100 refused calls a second are logged, and
    `most` successful ones; at the level debug every call; at the levels warning and error none. The first line after
    calls that were not logged has their number, such as "unlogged": 4711.
    """

    def __init__(self, most: float) -> None:
        self._log = logging.getLogger("xlashape_server.calls")
        self._succeeded = Rate(most)
        self._refused = Rate(100)

    def add(self, rpc: str, code: str, peer: str, seconds: float | None = None, **facts: object) -> None:
        """Logs a call that has ended. Facts that are None are left out."""
        if not self._log.isEnabledFor(logging.INFO):
            return
        rate = self._succeeded if code == "OK" else self._refused
        if not rate.allows() and not self._log.isEnabledFor(logging.DEBUG):
            return
        line: dict[str, object] = {"rpc": rpc, "code": code, "peer": peer}
        if seconds is not None:
            line["ms"] = round(seconds * 1e3, 3)
        line.update((key, value) for key, value in facts.items() if value is not None)
        if not self._log.isEnabledFor(logging.DEBUG):
            line.update(rate.unlogged())
        self._log.info("call", extra={"facts": line})


_NUMBERS = (signal.SIGTERM, signal.SIGINT)
_WAKE = 0  # written by `wake`; no signal has this number


class StopSignals:
    """Within the `with` block, SIGTERM and SIGINT only end `wait`. Only the main thread can enter the block.

    A signal that is ignored, such as SIGHUP under nohup, stays ignored. For each signal in `actions`, `wait` calls the
    action and goes on waiting.
    """

    def __init__(self, actions: Mapping[int, Callable[[], None]] | None = None) -> None:
        self._actions = actions or {}

    def __enter__(self) -> StopSignals:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._previous_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._previous = {
            number: signal.signal(number, _nothing)
            for number in (*_NUMBERS, *self._actions)
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_fd)
        os.close(self._read)
        os.close(self._write)

    def wait(self, seconds: float | None = None) -> bool:
        """Waits for a signal or a call of `wake`, at most `seconds`. Each signal and each call ends one wait. False
        after a timeout.
        """
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            ready, _, _ = select.select([self._read], [], [], left)
            if not ready:
                return False
            number = os.read(self._read, 1)[0]
            if number in (*_NUMBERS, _WAKE):
                return True
            if number in self._actions:
                self._actions[number]()

    def wake(self) -> None:
        """Ends `wait` from another thread."""
        os.write(self._write, bytes([_WAKE]))


def _nothing(number: int, frame: FrameType | None) -> None:
    """A signal handler that does nothing: the interpreter has written the signal to the pipe."""


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
