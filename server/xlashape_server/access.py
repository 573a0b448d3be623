"""A log line for each call, at the level info. Every refused call is logged; of successful calls, a limited number per second.

At the level debug every call is logged. The first line after unlogged calls counts them: "unlogged": 4711.
"""

from __future__ import annotations

import logging
import time

from xlashape_server.config import Config

__all__ = ["AccessLog"]

_log = logging.getLogger("xlashape_server.calls")


class AccessLog:
    """Logs the calls of one worker."""

    def __init__(self, config: Config) -> None:
        self._logs_all = config.log_level == "debug"
        self._logs = config.log_level in ("debug", "info")
        self._most = config.log_calls_per_second
        self._second = 0.0
        self._count = 0
        self._unlogged = 0

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
        """Logs a call that was refused, or a successful call for which `wants_success` is true. Facts that are None are left out."""
        if not self._logs:
            return
        line: dict[str, object] = {"rpc": rpc, "code": code, "peer": peer}
        if seconds is not None:
            line["ms"] = round(seconds * 1e3, 3)
        line.update((key, value) for key, value in facts.items() if value is not None)
        if self._unlogged and code == "OK":
            line["unlogged"], self._unlogged = self._unlogged, 0
        _log.info("call", extra={"facts": line})
