"""Log lines on standard error, each a JSON object, for log collectors and for grep.

Other output of a worker, such as lines of gRPC's core or the stacks of a crash, becomes log lines of the server.
"""

from __future__ import annotations

import json
import logging
import re
import time
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
