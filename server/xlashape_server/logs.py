"""Log lines on standard error, each a JSON object: readable for collectors of logs, and for people with grep."""

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
    """Sends the logs of this process to standard error. Every line has the entries `always`."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines(**always))
    root = logging.getLogger("xlashape_server")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(level.upper())
