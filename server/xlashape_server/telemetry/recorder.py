"""What a worker counts: in files of prometheus_client's multiprocess mode, which outlive the worker.

A worker that replaces another one goes on with its files, so counters never go back, and the files are as many as
workers, however often those end. That is how prometheus_client is used under uWSGI. `files` makes the files.

    recorder = Recorder(directory, worker, ["ShapeService/ByteSize"])
    recorder.ended("ShapeService/ByteSize", code_pb2.OK, 0.0003)
    recorder.sample()     # what the watching process is told: values of the moment
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

_MAX_LIMITS = 64  # names of limits; further ones would be "other"


class Recorder:
    """The metrics of one worker. `methods`: the names of calls that are told apart, such as "ShapeService/ByteSize".

    RuntimeError or ValueError if its files are damaged, and OSError if they are not there.
    """

    def __init__(self, directory: str, worker: int, methods: Iterable[str]) -> None:
        # prometheus_client looks for the directory in the environment, and for the kind of values in this variable of
        # its module.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory
        from prometheus_client import CollectorRegistry, Counter, Histogram, multiprocess, values  # not before that

        # What cannot be read would neither be seen when it is mapped, nor be shown.
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
        # Of INTERNAL there is a sample before it happens: Prometheus sees no growth in a counter that begins with 1.
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
        """A call has ended with a code of google.rpc. `seconds`: None if it was not admitted, or may last as long as
        its caller likes.
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
        """A limit refused a call."""
        with self._lock:
            count = self._refused.get(limit)
            if count is None:
                if len(self._refused) >= _MAX_LIMITS:
                    limit = OTHER
                count = self._refused[limit] = self._made["xlashape_calls_refused_total"].labels(limit or OTHER)
        count.inc()

    def cut_off(self, stage: str) -> None:
        """A call was cut off in a stage."""
        self._made["xlashape_calls_cut_off_total"].labels(stage).inc()

    def follow(self, name: str, read: Callable[[], int], *labels: str) -> None:
        """Adds to a counter what `read` has grown by, at each `sample`."""
        counter = self._made[name]
        self._followed.append((counter.labels(*labels) if labels else counter, read, 0))

    def gauge(self, name: str, read: Callable[[], Any]) -> None:
        """Has `sample` tell a value: a number, or numbers by label."""
        self._gauges[name] = read

    def sample(self) -> dict[str, Any]:
        """What the watching process is told: the values of this moment by name. Counts what is followed."""
        for at, (counter, read, before) in enumerate(self._followed):
            now = read()
            if now > before:
                counter.inc(now - before)
                self._followed[at] = counter, read, now
        found: dict[str, Any] = {"xlashape_worker_cpu_seconds_total": round(time.process_time(), 3)}
        for name, read in self._gauges.items():
            with contextlib.suppress(RuntimeError):  # a dict that grew meanwhile; the next sample is soon
                found[name] = read()
        return found
