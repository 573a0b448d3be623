"""Every metric of a server, and the files in which workers count them.

Names follow Prometheus: base units, `_total` at the end of counters. Workers count calls, in counters and a histogram
whose files outlive the worker. The watching process, the parent of the workers, knows the other values, or gets them
from the workers several times a second.

Each worker has a set of files in prometheus_client's own format. The files have their full size on the disk from the
beginning, since writing to a mapped file ends the process if the disk has no room for it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

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
        About("xlashape_connections", "gauge", _WORKER, "Open connections of gRPC and HTTP."),
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
        About("xlashape_store_evictions_total", "counter", ("reason",), "Modules removed: for age, or for space."),
        About("xlashape_store_damaged_total", "counter", (), "Files of modules that were found damaged."),
        About("xlashape_workers", "gauge", (), "Workers that the server is to have."),
        About("xlashape_workers_answering", "gauge", (), "Workers that answer calls."),
        About("xlashape_worker_ready", "gauge", _WORKER, "1 where the worker reports ready, 0 where not."),
        About("xlashape_worker_restarts_total", "counter", _WORKER, "How often a worker that ended was replaced."),
        About("xlashape_worker_resident_memory_bytes", "gauge", _WORKER, "Resident memory (RSS) of the process."),
        About(
            "xlashape_worker_cpu_seconds_total", "counter", _WORKER, "Processor time of the process, user and system."
        ),
        About("xlashape_worker_threads", "gauge", _WORKER, "Threads of the process."),
        About("xlashape_worker_open_fds", "gauge", _WORKER, "Open file descriptors of the process."),
        About("xlashape_build_info", "gauge", ("version", "python"), "1, with the versions of xlashape and Python."),
        About("xlashape_start_time_seconds", "gauge", (), "When the server started, in seconds since 1970."),
    )
}
"""Name → metric, in the order of the documentation."""


# -- files -------------------------------------------------------------------------------------


_FILE_BYTES = 512 << 10  # bytes of a file; all methods, codes and limits together take less than three quarters of them
_KINDS = ("counter", "histogram")


def allocate(directory: Path, worker: int) -> None:
    """Makes the files of a worker, with room for every metric; files that exist stay. OSError if the disk is full."""
    for path in paths(directory, worker):
        with path.open("ab") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, _FILE_BYTES)
            elif not file.tell():
                file.write(bytes(_FILE_BYTES))


def begin_anew(directory: Path, worker: int) -> None:
    """Replaces the files of a worker, whose content is damaged, by empty files."""
    for path in paths(directory, worker):
        path.unlink(missing_ok=True)
    allocate(directory, worker)


def paths(directory: Path, worker: int) -> list[Path]:
    """The files of a worker."""
    return [directory / f"{kind}_{worker}.db" for kind in _KINDS]
