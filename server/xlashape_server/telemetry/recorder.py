"""Counts the calls of a worker, in files of prometheus_client's multiprocess mode.

The files outlive the worker. A worker that replaces another goes on with its files, as under uWSGI: counters never go
back, and there is one set of files for each worker, however often workers end. `allocate` of the module `catalogue`
makes the files.

    recorder = Recorder(directory, worker, ["ShapeService/ByteSize"])
    recorder.ended("ShapeService/ByteSize", code_pb2.OK, 0.0003)
    recorder.sample()     # the values of the moment, which the worker reports to its parent, the watching process
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from google.rpc import code_pb2

from xlashape_server.telemetry.catalogue import BUCKETS, METRICS, OTHER, paths

_MAX_LIMITS = 64  # limits with a label of their own; further ones count as "other"


class Recorder:
    """The metrics of one worker, in files in `directory`. `methods` are the names of calls with labels of their own,
    such as "ShapeService/ByteSize"; other calls count as "other".

    RuntimeError, ValueError or struct.error if the files are damaged, OSError if they do not exist.
    """

    def __init__(self, directory: str, worker: int, methods: Iterable[str]) -> None:
        # prometheus_client takes the directory from the environment, and the class of values from values.ValueClass.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory
        from prometheus_client import CollectorRegistry, Counter, Histogram, multiprocess, values  # reads the variable

        # Reads all files once, since mapping a damaged file would not fail.
        multiprocess.MultiProcessCollector.merge([str(path) for path in paths(Path(directory), worker)])
        values.ValueClass = values.MultiProcessValue(lambda: worker)
        registry = CollectorRegistry(auto_describe=False)
        made: dict[str, Any] = {}
        for name, kind, labels, meaning in METRICS.values():
            if kind == "counter":
                made[name] = Counter(name, meaning, labels, registry=registry)
            elif kind == "histogram":
                made[name] = Histogram(name, meaning, labels, registry=registry, buckets=BUCKETS)
        self._made = made
        self._lock = threading.Lock()
        known = (*methods, OTHER)
        calls = made["xlashape_calls_total"]
        # Each known method has counters for OK and INTERNAL from the beginning, at 0: Prometheus sees no growth in a
        # counter that begins with 1, and would miss the first internal error.
        self._calls: dict[tuple[str, int], Any] = {
            (name, code): calls.labels(name, code_pb2.Code.Name(code))
            for name in known
            if name != OTHER
            for code in (code_pb2.OK, code_pb2.INTERNAL)
        }
        durations = made["xlashape_call_duration_seconds"]
        self._durations = {name: durations.labels(name) for name in known if name != OTHER}
        self._known = frozenset(known)
        self._refused: dict[str, Any] = {}
        self._followed: list[tuple[Any, Callable[[], int], int]] = []
        self._gauges: dict[str, Callable[[], Any]] = {}

    def ended(self, method: str, code: int, seconds: float | None) -> None:
        """Counts a call that has ended with a code of google.rpc. `seconds` is how long it took; None if the call was
        not admitted, or may last as long as its caller likes.
        """
        count = self._calls.get((method, code))
        if count is None:
            count = self._counter(method, code)
        count.inc()
        if seconds is not None:
            duration = self._durations.get(method)
            if duration is not None:
                duration.observe(seconds)

    def _counter(self, method: str, code: int) -> Any:
        method = method if method in self._known else OTHER
        key = method, code
        with self._lock:
            if key not in self._calls:
                self._calls[key] = self._made["xlashape_calls_total"].labels(method, code_pb2.Code.Name(code))
            return self._calls[key]

    def refused(self, limit: str) -> None:
        """Counts a call that a limit refused."""
        with self._lock:
            count = self._refused.get(limit)
            if count is None:
                if len(self._refused) >= _MAX_LIMITS:
                    limit = OTHER
                count = self._refused[limit] = self._made["xlashape_calls_refused_total"].labels(limit or OTHER)
        count.inc()

    def cut_off(self, stage: str) -> None:
        """Counts a call that was cut off in `stage`, one of `catalogue.STAGES`."""
        self._made["xlashape_calls_cut_off_total"].labels(stage).inc()

    def follow(self, name: str, read: Callable[[], int], *labels: str) -> None:
        """Has each `sample` add to the counter `name` the amount by which the value of `read` has grown since the last
        sample.
        """
        counter = self._made[name]
        self._followed.append((counter.labels(*labels) if labels else counter, read, 0))

    def gauge(self, name: str, read: Callable[[], Any]) -> None:
        """Has `sample` report the value of `read` for the metric `name`: a number, or a dict of numbers by label."""
        self._gauges[name] = read

    def sample(self) -> dict[str, Any]:
        """The values of this moment by the names of their metrics, for the watching process. Also brings the counters
        of `follow` up to date.
        """
        for at, (counter, read, before) in enumerate(self._followed):
            now = read()
            if now > before:
                counter.inc(now - before)
                self._followed[at] = counter, read, now
        found: dict[str, Any] = {"xlashape_worker_cpu_seconds_total": round(time.process_time(), 3)}
        for name, read in self._gauges.items():
            with contextlib.suppress(RuntimeError):  # a dict grew while it was read; the next sample has the value
                found[name] = read()
        return found
