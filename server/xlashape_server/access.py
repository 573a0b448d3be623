"""A log line for each call, at the level info. Of refused calls 100 a second are logged, of successful calls as many as
the setting says.

At the level debug every call is logged. The first line after unlogged calls counts them: "unlogged": 4711.
"""

from __future__ import annotations

import logging
import time

from xlashape_server.config import Config

_log = logging.getLogger("xlashape_server.calls")


class Rate:
    """At most `most` lines a second, so that callers cannot fill a disk. Threads at the same time may write one too
    many.
    """

    def __init__(self, most: int = 100) -> None:
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
        """The fact of how many lines were not written since the last one that says so."""
        if not self._dropped:
            return {}
        found, self._dropped = self._dropped, 0
        return {"unlogged": found}


class AccessLog:
    """Logs the calls of one worker."""

    def __init__(self, config: Config) -> None:
        self._logs_all = config.log_level == "debug"
        self._logs = config.log_level in ("debug", "info")
        self._most = config.log_calls_per_second
        self._second = 0.0
        self._count = 0
        self._unlogged = 0
        self._refused = Rate()

    def wants_success(self) -> bool:
        """Whether to log a successful call. Call this once for each successful call, since it counts the calls.

        There is no lock, so two threads at the same time may log one line too many or count one call too few.
        """
        if self._logs_all or not self._logs:
            return self._logs
        now = time.monotonic()
        if now - self._second >= 1.0:
            self._second, self._count = now, 0
        self._count += 1
        if self._count <= self._most:
            return True
        self._unlogged += 1
        return False

    def log(self, rpc: str, code: str, peer: str, seconds: float | None = None, **facts: object) -> None:
        """Logs a call that was refused, or a successful call for which `wants_success` is true. Facts that are None are
        left out.
        """
        if not self._logs or (code != "OK" and not self._logs_all and not self._refused.allows()):
            return
        line: dict[str, object] = {"rpc": rpc, "code": code, "peer": peer}
        if seconds is not None:
            line["ms"] = round(seconds * 1e3, 3)
        line.update((key, value) for key, value in facts.items() if value is not None)
        if code != "OK":
            line.update(self._refused.unlogged())
        elif self._unlogged:
            line["unlogged"], self._unlogged = self._unlogged, 0
        _log.info("call", extra={"facts": line})
