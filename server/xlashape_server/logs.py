"""Log lines: one JSON object a line on standard error, for people with grep and for collectors alike."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

__all__ = ["configure"]


class _JsonLines(logging.Formatter):
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
        line["message"] = record.getMessage()
        facts: dict[str, Any] = getattr(record, "facts", {})
        line.update(facts)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure(level: str, **always: Any) -> None:
    """Sends the logs of this process to standard error; `always` stands in every line."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines(**always))
    root = logging.getLogger("xlashape_server")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(level.upper())
