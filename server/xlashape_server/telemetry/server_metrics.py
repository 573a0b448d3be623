"""All metrics of a server. The watching process, the parent of the workers, puts them together whenever Prometheus
asks. It does not ask the workers, so it can do this also while none of them answers.

Counters of calls come from the workers' files. Values of the moment come from what running workers last reported.
Memory, threads and descriptors of the workers' processes are read from /proc. A thread of its own measures the store,
since a file system may not answer.
"""

from __future__ import annotations

import logging
import os
import platform
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from xlashape.base.version import __version__
from xlashape_server.config import Config
from xlashape_server.telemetry.catalogue import METRICS, STAGES

_log = logging.getLogger("xlashape_server.metrics")

_LOOK_SECONDS = 10.0  # seconds at least between two measurements of the store
_LOOK_SHARE = 50  # the pause after a measurement is at least this many times the processor time of the measurement
_PAGE = os.sysconf("SC_PAGE_SIZE")


class MeasuredWorker(Protocol):
    """A worker as the watching process sees it: `xlashape_server.worker_process.WorkerProcess`, which says what the
    attributes mean.
    """

    number: int
    connections: int
    restarts: int
    gauges: dict[str, Any]
    past_cpu_seconds: float

    @property
    def pid(self) -> int:
        """The process id; 0 while there is none."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether the process has reported that it answers calls."""
        ...


class MeasuredStore(Protocol):
    """The parts of the module store that metrics read."""

    evicted: dict[str, int]

    def usage(self) -> tuple[int, int]:
        """How many modules there are, and their bytes."""
        ...


class StoreUsage:
    """How many modules and bytes a store holds, as `run` last measured it."""

    def __init__(self, store: MeasuredStore) -> None:
        self.store = store
        self.latest: tuple[int, int] | None = None
        """How many modules there are, and their bytes; None before the first measurement, and after one that failed."""

    def run(self, wait: Callable[[float], bool]) -> None:
        """Measures the store again and again. Between measurements it calls `wait` with a number of seconds, and it
        returns once `wait` returns True.
        """
        while True:
            began = time.thread_time()
            try:
                self.latest = self.store.usage()
            except OSError:
                self.latest = None
            if wait(max(_LOOK_SECONDS, _LOOK_SHARE * (time.thread_time() - began))):
                return


class ServerMetrics(Collector):
    """The metrics of a server. The files of its `workers` are in `directory`."""

    def __init__(self, config: Config, directory: Path, workers: Sequence[MeasuredWorker], usage: StoreUsage) -> None:
        self._config = config
        self._workers = workers
        self._usage = usage
        self._files: Any = MultiProcessCollector(None, str(directory))
        self._started = time.time()
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """All metrics, in the order of the catalogue."""
        found = {about.name: Metric(*_family(about.name)) for about in METRICS.values()}
        for counted in self._counted():
            name = f"{counted.name}_total" if counted.type == "counter" else counted.name
            if name in found:
                found[name].samples = counted.samples
        self._add_of_server(found)
        for worker in self._workers:
            self._add_of_worker(found, worker)
        return found.values()

    def _counted(self) -> Iterable[Metric]:
        """The metrics in the workers' files; none if the files cannot be read."""
        try:
            return self._files.collect()
        except (OSError, RuntimeError, ValueError, struct.error) as error:
            _log.warning("the files of metrics cannot be read: %s", error)
            return ()

    def _add_of_server(self, found: Mapping[str, Metric]) -> None:
        config = self._config
        values: dict[str, float] = {
            "xlashape_memory_limit_bytes": config.worker_memory(),
            "xlashape_store_limit_bytes": config.store_bytes,
            "xlashape_workers": len(self._workers),
            "xlashape_workers_answering": sum(worker.is_ready for worker in self._workers),
            "xlashape_start_time_seconds": self._started,
        }
        usage = self._usage.latest
        if usage is not None:
            values["xlashape_store_modules"], values["xlashape_store_bytes"] = usage
        for name, value in values.items():
            found[name].add_sample(name, {}, value)
        versions = {"version": __version__, "python": platform.python_version()}
        found["xlashape_build_info"].add_sample("xlashape_build_info", versions, 1)
        # The watching process and the workers all remove modules, so their numbers are added.
        evictions = found["xlashape_store_evictions_total"]
        own = dict(self._usage.store.evicted)
        counted = {sample.labels["reason"]: sample.value for sample in evictions.samples}
        evictions.samples = []
        for reason, number in own.items():
            evictions.add_sample(evictions.name + "_total", {"reason": reason}, number + counted.get(reason, 0))

    def _add_of_worker(self, found: Mapping[str, Metric], worker: MeasuredWorker) -> None:
        labels = {"worker": str(worker.number)}

        def add(name: str, value: float, **more: str) -> None:
            found[name].add_sample(name, {**labels, **more}, value)

        gauges = worker.gauges
        cpu = "xlashape_worker_cpu_seconds_total"
        add("xlashape_worker_restarts_total", worker.restarts)
        add(cpu, worker.past_cpu_seconds + gauges.get(cpu, 0.0))
        pid = worker.pid
        if not pid:
            return
        add("xlashape_connections", worker.connections)
        for name, value in gauges.items():
            if name == "xlashape_calls_in_flight":
                for stage in STAGES:
                    add(name, value.get(stage, 0), stage=stage)
            elif name != cpu and name in found:
                add(name, value)
        for name, value in _of_process(pid).items():
            add(name, value)


def _family(name: str) -> tuple[str, str, str]:
    """Name, meaning and kind of a metric for prometheus_client, which adds `_total` to the names of counters itself."""
    about = METRICS[name]
    return name.removesuffix("_total"), about.meaning, about.kind


def _of_process(pid: int) -> dict[str, int]:
    """Memory, threads and file descriptors of a process, by the names of their metrics; empty without /proc."""
    folder = Path("/proc") / str(pid)
    try:
        pages = int((folder / "statm").read_bytes().split()[1])
        threads = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[17])
        descriptors = sum(1 for _ in (folder / "fd").iterdir())
    except (OSError, ValueError, IndexError):
        return {}
    return {
        "xlashape_worker_resident_memory_bytes": pages * _PAGE,
        "xlashape_worker_threads": threads,
        "xlashape_worker_open_fds": descriptors,
    }
