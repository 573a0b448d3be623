"""Log lines of calls, at most one for each call. At the level info at most 100 refused calls a second are logged, and
ten successful ones.

At the level debug every call is logged, at the levels warning and error none. The first line after calls that were not
logged has their number, such as "unlogged": 4711.
"""

from __future__ import annotations

import logging

from xlashape_server.config import Config
from xlashape_server.logs import Rate

_log = logging.getLogger("xlashape_server.calls")


class AccessLog:
    """Logs the calls of one worker."""

    def __init__(self, config: Config) -> None:
        self._succeeded = Rate(config.log_calls_per_second)
        self._refused = Rate(100)

    def wants_success(self) -> bool:
        """Whether to log a successful call. Call this once for each successful call, since it counts the calls."""
        return _log.isEnabledFor(logging.INFO) and (self._succeeded.allows() or _log.isEnabledFor(logging.DEBUG))

    def log(self, rpc: str, code: str, peer: str, seconds: float | None = None, **facts: object) -> None:
        """Logs a refused call, or a successful call for which `wants_success` returned True. Facts that are None are
        left out.
        """
        if not _log.isEnabledFor(logging.INFO):
            return
        if code != "OK" and not self._refused.allows() and not _log.isEnabledFor(logging.DEBUG):
            return
        line: dict[str, object] = {"rpc": rpc, "code": code, "peer": peer}
        if seconds is not None:
            line["ms"] = round(seconds * 1e3, 3)
        line.update((key, value) for key, value in facts.items() if value is not None)
        if not _log.isEnabledFor(logging.DEBUG):
            line.update((self._succeeded if code == "OK" else self._refused).unlogged())
        _log.info("call", extra={"facts": line})
