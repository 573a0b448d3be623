"""A process that reads metrics all the time, as Prometheus does, and prints what it found as lines of JSON.

    python scraper.py HOST:PORT

Each request has a new connection. A line has the times of time.monotonic() at which the request began and ended, its
`code`, the `server` (when it was started) and the calls that the server has counted, by method and code. The code is

    OK            right metrics
    UNAVAILABLE   no connection, or no complete answer
    LATE          no answer within five seconds
    WRONG         no metrics, or a counter fell or was lost while the server stayed the same; `message` says which
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

__all__ = ["Judge"]

_PAUSE_SECONDS = 0.25
_SECONDS = 5.0
_START = "xlashape_start_time_seconds"
_CALLS = "xlashape_calls_total"
_MOST_TOLD = 5
_COUNTERS = ("_total", "_bucket", "_count", "_sum")

Key = tuple[str, tuple[tuple[str, str], ...]]


class Judge:
    """Compares each answer with the one before."""

    def __init__(self) -> None:
        self._server = 0.0
        self._before: dict[Key, float] = {}

    def judge(self, text: str) -> dict[str, Any]:
        """Judges the text of an answer. Returns the code, the message, the server, and the calls counted by it."""
        try:
            found: dict[Key, float] = {
                (sample.name, tuple(sorted(sample.labels.items()))): sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }
            server = found[_START, ()]
        except (ValueError, KeyError, IndexError) as error:
            return {"code": "WRONG", "message": f"not the metrics of a server: {error!r}"}
        counters = {key: value for key, value in found.items() if key[0].endswith(_COUNTERS)}
        calls = {f"{dict(key[1])['method']} {dict(key[1])['code']}": v for key, v in found.items() if key[0] == _CALLS}
        wrong = self._wrong(counters) if server == self._server else []
        # A counter that was lost is reported once.
        self._before, self._server = counters, server
        told = "; ".join(wrong[:_MOST_TOLD]) + (f" and {len(wrong) - _MOST_TOLD} more" * (len(wrong) > _MOST_TOLD))
        return {"code": "WRONG" if wrong else "OK", "message": told, "server": server, "calls": calls}

    def _wrong(self, counters: dict[Key, float]) -> list[str]:
        found: list[str] = []
        for key, before in self._before.items():
            now = counters.get(key)
            if now is None:
                found.append(f"{key[0]}{dict(key[1])} was {before:g}, and is not there")
            elif now < before:
                found.append(f"{key[0]}{dict(key[1])} fell from {before:g} to {now:g}")
        return found


def scrape(host: str, port: int) -> str:
    """The body of an answer of /metrics. OSError or HTTPException if there is none."""
    connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise http.client.HTTPException(f"status {answer.status}")
        if answer.getheader("Content-Length") is None:
            raise http.client.HTTPException("cut off within the headers")  # which http.client takes for their end
        return text
    finally:
        connection.close()


def main(address: str) -> None:
    """Asks for /metrics again and again, and prints a line of JSON for each answer, until the process is killed."""
    host, _, port = address.rpartition(":")
    judge = Judge()
    while True:
        began = time.monotonic()
        told: dict[str, Any]
        try:
            text = scrape(host, int(port))
            ended = time.monotonic()
            told = judge.judge(text)
        except (OSError, http.client.HTTPException) as error:
            ended = time.monotonic()
            code = "LATE" if isinstance(error, TimeoutError) else "UNAVAILABLE"
            told = {"code": code, "message": f"{type(error).__name__}: {error}"}
        print(json.dumps({"began": began, "ended": ended, **told}), flush=True)
        time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
