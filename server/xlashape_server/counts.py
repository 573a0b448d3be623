"""What a worker counts, and every metric of a server: its name, kind, labels and meaning.

Names follow Prometheus: base units, `_total` at the end of counters. A worker counts in memory. Several times a second
it reports to the watching process, its parent, which adds the counts of workers that have ended (`metrics`).

    recorder = Recorder(["ShapeService/ByteSize"])
    recorder.ended("ShapeService/ByteSize", code_pb2.OK, 0.0003)
    recorder.sample()     # the values of the moment, and the counts
"""

from __future__ import annotations

import contextlib
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

OTHER = "other"
"""The label of a metric for everything that has no label of its own, such as methods that do not exist."""

STAGES = ("receiving", "working", "sending")
"""The stages of a call under way: it waits for a message of its caller, is answered, or waits for its caller to
read.
"""

# The histogram's upper bounds in seconds. Small calls take 0.1 to 0.3 ms, a million indices 50 ms, an upload some
# tenths of a second, and the longest call 120 s.
BUCKETS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0),
)


class About(NamedTuple):
    """One metric. `kind` is counter, gauge or histogram. The name of a counter ends with `_total`."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


_WORKER = ("worker",)

METRICS = {
    about.name: about
    for about in (
        About("xlashape_calls_total", "counter", ("method", "code"), "Calls that have ended."),
        About("xlashape_call_duration_seconds", "histogram", ("method",), "Time from admission to the end of a call."),
        About("xlashape_calls_in_flight", "gauge", ("worker", "stage"), "Calls under way."),
        About("xlashape_calls_refused_total", "counter", ("limit",), "Calls that a limit refused."),
        About("xlashape_calls_cut_off_total", "counter", ("stage",), "Calls whose callers were too slow."),
        About("xlashape_message_bytes", "gauge", _WORKER, "Bytes of large messages of calls under way."),
        About("xlashape_memory_limit_bytes", "gauge", (), "Memory that one worker may have (max_worker_memory)."),
        About("xlashape_children", "gauge", _WORKER, "Processes that compute for the worker."),
        About("xlashape_children_ended_total", "counter", ("reason",), "Computing processes that had to be ended."),
        About("xlashape_kept_answer_bytes", "gauge", _WORKER, "Memory of the answers that are kept."),
        About("xlashape_kept_answer_hits_total", "counter", (), "Calls that were answered by a kept answer."),
        About("xlashape_kept_answer_misses_total", "counter", (), "Calls that had no kept answer."),
        About("xlashape_store_bytes", "gauge", (), "Bytes of the modules in the store's directory."),
        About("xlashape_store_modules", "gauge", (), "Modules in the store's directory."),
        About("xlashape_store_limit_bytes", "gauge", (), "What they may take (store_bytes)."),
        About("xlashape_workers", "gauge", (), "Workers that the server is to have."),
        About("xlashape_workers_answering", "gauge", (), "Workers that answer calls."),
        About("xlashape_worker_ready", "gauge", _WORKER, "1 where the worker reports ready, 0 where not."),
        About("xlashape_worker_restarts_total", "counter", _WORKER, "How often a worker that ended was replaced."),
        About("xlashape_worker_resident_memory_bytes", "gauge", _WORKER, "Resident memory (RSS) of the process."),
        About(
            "xlashape_worker_cpu_seconds_total", "counter", _WORKER, "Processor time of the process, user and system."
        ),
        About("xlashape_build_info", "gauge", ("version", "python"), "1, with the versions of xlashape and Python."),
        About("xlashape_start_time_seconds", "gauge", (), "When the server started, in seconds since 1970."),
    )
}
"""Name → metric, in the order of the documentation."""

CALLS, DURATION, CPU = "xlashape_calls_total", "xlashape_call_duration_seconds", "xlashape_worker_cpu_seconds_total"
SUM = "sum"
"""In keys of a histogram, what stands for the sum in place of the number of a bucket."""

Key = tuple[str, ...]
"""The name of a metric, and the values of its labels; of a histogram the method, and then the number of the bucket."""

_MAX_LIMITS = 64  # limits with a label of their own; further ones count as "other"


def add_counts(totals: dict[Key, float], counts: Mapping[Key, float]) -> None:
    """Adds counts to others."""
    for key, count in counts.items():
        totals[key] = totals.get(key, 0) + count


class Recorder:
    """The counts of one worker. `methods` are the names of calls with labels of their own, such as
    "ShapeService/ByteSize"; other calls count as "other".
    """

    def __init__(self, methods: Iterable[str]) -> None:
        self._methods = frozenset(methods)
        # Each known method has counters for OK and INTERNAL from the beginning, at 0: Prometheus sees no growth in a
        # counter that begins with 1, and would miss the first internal error.
        self._counts: dict[Key, float] = {
            (CALLS, method, code): 0 for method in self._methods for code in ("OK", "INTERNAL")
        }
        self._lock = threading.Lock()
        self._limits: set[str] = set()
        self._followed: list[tuple[Key, Callable[[], float]]] = []
        self._gauges: dict[str, Callable[[], Any]] = {}
        self.follow(CPU, time.process_time)

    def add(self, *key: str, by: float = 1) -> None:
        """Counts something."""
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + by

    def ended(self, method: str, code: int, seconds: float | None) -> None:
        """Counts a call that has ended with a code of google.rpc. `seconds` is how long it took; None if the call was
        not admitted.
        """
        # Not at the top: the parent of workers imports this file, also where gRPC is missing, which it then says.
        from google.rpc import code_pb2

        if method not in self._methods:
            method, seconds = OTHER, None
        self.add(CALLS, method, code_pb2.Code.Name(code))
        if seconds is not None:
            self.add(DURATION, method, str(bisect_left(BUCKETS, seconds)))
            self.add(DURATION, method, SUM, by=seconds)

    def refused(self, limit: str) -> None:
        """Counts a call that a limit refused."""
        if limit not in self._limits and len(self._limits) >= _MAX_LIMITS:
            limit = OTHER
        self._limits.add(limit)
        self.add("xlashape_calls_refused_total", limit or OTHER)

    def follow(self, name: str, read: Callable[[], float], *labels: str) -> None:
        """Has each `sample` add the value of `read`, which never falls."""
        self._followed.append(((name, *labels), read))

    def gauge(self, name: str, read: Callable[[], Any]) -> None:
        """Has `sample` report the value of `read` for the metric `name`: a number, or a dict of numbers by label."""
        self._gauges[name] = read

    def sample(self) -> tuple[dict[str, Any], list[tuple[Key, float]]]:
        """The values of this moment by the names of their metrics, and all counts."""
        found: dict[str, Any] = {}
        for name, read in self._gauges.items():
            with contextlib.suppress(RuntimeError):  # a dict grew while it was read; the next sample has the value
                found[name] = read()
        with self._lock:
            counts = self._counts.copy()
        for key, read in self._followed:
            counts[key] = counts.get(key, 0) + read()
        return found, [*counts.items()]
