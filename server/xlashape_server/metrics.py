"""All metrics of a server for Prometheus, and the address where it asks for them: GET /metrics, over HTTP without TLS.
They need the package prometheus_client, which the extra `telemetry` installs.

The watching process, the parent of the workers, puts them together and answers in threads of its own, so it answers
also while all workers are busy. Counts and values of the moment are those that the workers last reported. The memory
of the workers' processes is read from /proc. A thread of its own measures the store, since a
file system may not answer.
"""

from __future__ import annotations

import logging
import platform
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, Metric, exposition
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from xlashape.base.version import __version__
from xlashape_server.callers import may_name
from xlashape_server.config import Config
from xlashape_server.counts import BUCKETS, CPU, DURATION, METRICS, STAGES, SUM, Key, add_counts
from xlashape_server.process import memory_of
from xlashape_server.store import Store
from xlashape_server.worker_process import WorkerProcess

_log = logging.getLogger("xlashape_server.metrics")

PATH = "/metrics"

_SECONDS = 10.0  # seconds that a client may take for each step of a request or of reading the answer
_LOOK_SECONDS = 10.0  # seconds at least between two measurements of the store
_LOOK_SHARE = 50  # the pause after a measurement is at least this many times the processor time of the measurement


class ServerMetrics(Collector):
    """The metrics of a server with these `workers`. `store` is that of the watching process."""

    def __init__(self, config: Config, workers: Sequence[WorkerProcess], store: Store) -> None:
        self._config = config
        self._workers = workers
        self._store = store
        self._usage: tuple[int, int] | None = None
        self._started = time.time()
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def measure(self, wait: Callable[[float], bool]) -> None:
        """Measures the store again and again. Between measurements it calls `wait` with a number of seconds, and it
        returns once `wait` returns True.
        """
        while True:
            began = time.thread_time()
            try:
                self._usage = self._store.usage()
            except OSError:
                self._usage = None
            if wait(max(_LOOK_SECONDS, _LOOK_SHARE * (time.thread_time() - began))):
                return

    def collect(self) -> Iterable[Metric]:
        """All metrics, in the order of the catalogue."""
        found = {about.name: Metric(*_family(about.name)) for about in METRICS.values()}
        found[DURATION] = durations = HistogramMetricFamily(*_family(DURATION)[:2], labels=["method"])
        self._add_of_server(found)
        totals: dict[Key, float] = {}
        for worker in self._workers:
            counts = worker.counts()
            found[CPU].add_sample(CPU, {"worker": str(worker.number)}, counts.pop((CPU,), 0.0))
            add_counts(totals, counts)
            self._add_of_worker(found, worker)
        spread: dict[str, dict[str, float]] = {}
        for (name, *labels), count in totals.items():
            if name == DURATION:
                spread.setdefault(labels[0], {})[labels[1]] = count
            else:
                found[name].add_sample(name, dict(zip(METRICS[name].labels, labels, strict=True)), count)
        for method, counted in spread.items():
            sums = accumulate(counted.get(str(number), 0) for number in range(len(BUCKETS) + 1))
            durations.add_metric([method], list(zip((*map(str, BUCKETS), "+Inf"), sums, strict=True)), counted[SUM])
        return found.values()

    def _add_of_server(self, found: Mapping[str, Metric]) -> None:
        config = self._config
        values: dict[str, float] = {
            "xlashape_memory_limit_bytes": config.worker_memory(),
            "xlashape_store_limit_bytes": config.store_bytes,
            "xlashape_workers": len(self._workers),
            "xlashape_workers_answering": sum(worker.is_ready for worker in self._workers),
            "xlashape_start_time_seconds": self._started,
        }
        usage = self._usage
        if usage is not None:
            values["xlashape_store_modules"], values["xlashape_store_bytes"] = usage
        for name, value in values.items():
            found[name].add_sample(name, {}, value)
        versions = {"version": __version__, "python": platform.python_version()}
        found["xlashape_build_info"].add_sample("xlashape_build_info", versions, 1)

    @staticmethod
    def _add_of_worker(found: Mapping[str, Metric], worker: WorkerProcess) -> None:
        def add(name: str, value: float, **more: str) -> None:
            found[name].add_sample(name, {"worker": str(worker.number), **more}, value)

        add("xlashape_worker_restarts_total", worker.restarts)
        pid = worker.pid
        if not pid:
            return
        for name, value in worker.gauges.items():
            if name == "xlashape_calls_in_flight":
                for stage in STAGES:
                    add(name, value.get(stage, 0), stage=stage)
            else:
                add(name, value)
        _, resident, _ = memory_of(pid)
        if resident:
            add("xlashape_worker_resident_memory_bytes", resident)


def _family(name: str) -> tuple[str, str, str]:
    """Name, meaning and kind of a metric for prometheus_client, which adds `_total` to the names of counters itself."""
    about = METRICS[name]
    return name.removesuffix("_total"), about.meaning, about.kind


Environment = dict[str, Any]
StartResponse = Callable[..., Any]


class Endpoint:
    """Answers at `host` and `port` until `stop`. With port 0 the system chooses a port. OSError if it cannot listen."""

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self._server = _Server(family, (str(address[0]), port))
        self._server.set_app(_application(registry, host))
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    def stop(self) -> None:
        """Ends the endpoint."""
        self._server.shutdown()
        self._server.server_close()


def _application(registry: CollectorRegistry, host: str) -> Callable[[Environment, StartResponse], Iterable[bytes]]:
    # prometheus_client declares no types for this application of WSGI.
    metrics = cast("Callable[[Environment, StartResponse], Iterable[bytes]]", exposition.make_wsgi_app(registry))

    def answer(environment: Environment, start_response: StartResponse) -> Iterable[bytes]:
        if not may_name(environment.get("HTTP_HOST"), host):
            status, text = "421 Misdirected Request", b"the host is not a name of this server\n"
        elif environment["PATH_INFO"] == PATH:
            return metrics(environment, start_response)
        else:
            status, text = "404 Not Found", f"metrics are at {PATH}\n".encode()
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text)))]
        start_response(status, headers)
        return [text]

    return answer


class _Handler(WSGIRequestHandler):
    timeout = _SECONDS  # socketserver sets it as the timeout of the socket

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name of the base class
        _log.debug(format, *args)


class _Server(ThreadingWSGIServer):
    request_queue_size = 128
    allow_reuse_port = False  # otherwise another server could take the same address unnoticed

    def __init__(self, family: int, address: tuple[str, int]) -> None:
        self.address_family = family
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # HTTPServer.server_bind, which this replaces, would ask DNS for the name of the address.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        del request
        _log.debug("a request of %s failed", client_address, exc_info=True)
