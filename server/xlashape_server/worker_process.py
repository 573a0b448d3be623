"""A worker as the watching process sees it. The watching process is the one that was started as the server (`app.py`).
It starts the worker's process, replaces it when it ends or does not report, and stops it.

The worker reads lines of JSON from its standard input: first its settings, and later {"log_level": "debug"}. It writes
lines of JSON to its standard output:

    {"event": "ready"}                         it answers calls
    {"event": "failed", "reason": "…"}         it cannot start
    {"event": "alive", "gauges": {}, "counts": []}   it runs; sent often; with metrics "gauges" is {"NAME": VALUE, …}
                                               and "counts" [[["NAME", LABEL, …], VALUE], …]
    {"event": "stopping"}                      it takes no more calls

Its log goes to the standard error of the server.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from xlashape.base import version
from xlashape.errors import UnavailableError
from xlashape_server.config import Config
from xlashape_server.counts import Key, add_counts

_log = logging.getLogger("xlashape_server.app")

_MAX_START_SECONDS = 90.0  # seconds that a worker may take until it answers calls
_LOOK_SECONDS = 0.25  # seconds after which a wait for that is interrupted
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0  # seconds before a worker that ended is started again
_STABLE_SECONDS = 10.0  # seconds; if a worker ends after it has run this long, the pause is the first one again
_END_SECONDS = 2.0  # seconds to wait until the output of an ended process has been read to its end
_MAX_SILENT_SECONDS = 5.0  # seconds without a sign of life after which a worker that is to stop is killed

# The program of a worker, which gets the server's import path as its argument. The interpreter's option -I keeps the
# current directory and environment variables from adding to that path.
_BOOTSTRAP = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from xlashape_server.worker import main; main()"
)


# glibc's allocator keeps large freed blocks for the next call. By default it gives each freed block of megabytes back,
# and a new one comes in pages that the system clears while the thread has the interpreter's lock: 4 ms for 8 MB. There
# is one heap, since further ones are given back only as a whole.
_ENVIRONMENT = {
    "GRPC_VERBOSITY": "NONE",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_ARENA_MAX": "1",
}


class WorkerProcess:
    """The process of a worker, and the process that replaces it when it ends."""

    def __init__(self, number: int, config: Config, cpu: int | None, stopping: threading.Event) -> None:
        self.number = number
        self.restarts = 0
        """How often a process was started in the place of one that ended."""
        self.gauges: dict[str, Any] = {}
        """The values that the process reported last, by the names of metrics; empty where there are no metrics."""
        self._counts: dict[Key, float] = {}
        self._past_counts: dict[Key, float] = {}  # of the processes that this one has replaced
        self._config = config
        self._cpu = cpu
        self._stopping = stopping
        self._process: subprocess.Popen[str] | None = None
        self._start_time = 0.0
        self._lock = threading.Lock()
        self._started = threading.Event()  # set once the process is ready, cannot start, or has ended
        self._first_event: dict[str, Any] = {}
        self._reader: threading.Thread | None = None
        self._last_sign = 0.0
        self._said_stopping = False

    @property
    def pid(self) -> int:
        """The process id; 0 while no process runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else 0

    @property
    def is_ready(self) -> bool:
        """Whether the process has reported that it answers calls."""
        return self.pid != 0 and self._first_event.get("event") == "ready" and not self._said_stopping

    def counts(self) -> dict[Key, float]:
        """What the process and those that it has replaced have counted, as they reported last."""
        with self._lock:
            found = self._past_counts.copy()
            add_counts(found, self._counts.copy())
            return found

    def launch(self) -> None:
        """Starts a process, unless the server is stopping."""
        with self._lock:
            if self._stopping.is_set():
                return
            self._start_time = time.monotonic()
            self._started.clear()
            self._first_event, self._said_stopping = {}, False
            add_counts(self._past_counts, self._counts)
            self.gauges, self._counts = {}, {}
            # A terminal sends SIGINT for Ctrl-C, and SIGHUP when it closes, to parent and children. Only the parent is
            # to handle them, so they are blocked in the child, which inherits the mask. (A session for each child
            # would do too, but Linux shares processor time by session.)
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
            try:
                self._process = process = subprocess.Popen(
                    [sys.executable, "-I", "-c", _BOOTSTRAP, json.dumps(_import_path())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    env={**_ENVIRONMENT, **os.environ},
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        first = {"worker": self.number, "cpu": self._cpu, "config": dataclasses.asdict(self._config)}
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the process has ended already, which is noticed later
            process.stdin.write(json.dumps(first) + "\n")
            process.stdin.flush()
        reader = threading.Thread(target=self._read_events, args=(process,), name=f"worker {self.number}", daemon=True)
        reader.start()
        self._reader = reader  # only now that it runs: `end` joins it, perhaps in another thread

    def await_ready(self) -> None:
        """Returns once the process answers calls. UnavailableError if it ended or takes too long."""
        process = self._process
        if process is None:
            return
        end = time.monotonic() + _MAX_START_SECONDS
        while not self._started.wait(_LOOK_SECONDS):  # between waits a signal can end the start
            if time.monotonic() > end:
                process.kill()
                break
        event = self._first_event
        if event.get("event") != "ready":
            reason = event.get("reason") or f"it ended with code {process.wait()} before it was ready"
            raise UnavailableError(f"worker {self.number} cannot start: {reason}")

    def keep_alive(self) -> None:
        """Starts a new process whenever the process ends, until the server stops."""
        pause = _FIRST_PAUSE
        while True:
            process = self._process
            if process is None:
                return
            code = process.wait()
            if self._stopping.is_set():
                return
            if time.monotonic() - self._start_time > _STABLE_SECONDS:
                pause = _FIRST_PAUSE
            _log.warning(
                "worker %d (process %d) %s; starting it again in %g s", self.number, process.pid, _ending(code), pause
            )
            if self._stopping.wait(pause):
                return
            pause = min(2 * pause, _LONGEST_PAUSE)
            self._close(process)
            self.restarts += 1
            try:
                self.launch()
                self.await_ready()
            except (OSError, UnavailableError) as error:
                if not self._stopping.is_set():
                    _log.error("%s", error)

    def watch(self, absent: float) -> None:
        """Kills a process that has not reported for too long, such as one that a signal has stopped. Called several
        times a second.

        `absent` is the time in seconds for which this process itself did not run, such as while a laptop sleeps. That
        time does not count.
        """
        process = self._process
        self._last_sign += absent
        silent = time.monotonic() - self._last_sign
        if self.pid and process is not None and self._first_event and silent > self._config.watchdog_seconds > 0:
            _log.error(
                "worker %d (process %d) has given no sign of life for %.0f s; killing it",
                self.number, process.pid, silent,
            )  # fmt: skip
            process.kill()

    def set_log_level(self, level: str) -> None:
        """Has the process, and those that replace it, log at a level."""
        with self._lock:
            self._config = dataclasses.replace(self._config, log_level=level)
            process = self._process
            if process is not None and process.stdin is not None:
                with contextlib.suppress(OSError, ValueError):  # the process has ended
                    process.stdin.write(json.dumps({"log_level": level}) + "\n")
                    process.stdin.flush()

    def ask_to_stop(self) -> None:
        """Sends SIGTERM to the process, if it runs."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.terminate()

    def end(self, until: float) -> None:
        """Waits for the process to end. Kills it at the time `until`, or earlier if it gives no sign of life."""
        process = self._process
        if process is None:
            return
        while process.poll() is None:
            now = time.monotonic()
            if now >= until or now - self._last_sign > _MAX_SILENT_SECONDS:
                process.kill()
                process.wait()
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(0.1, until - now))
        self._close(process)

    def _close(self, process: subprocess.Popen[str]) -> None:
        """Closes the standard input of a process that has ended, and waits until the reader has read the rest of its
        output.
        """
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        if self._reader is not None:
            self._reader.join(_END_SECONDS)

    def _read_events(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with contextlib.suppress(OSError, ValueError), process.stdout:
            for line in process.stdout:
                if process is not self._process:
                    return  # another process has replaced it
                try:
                    event: dict[str, Any] = json.loads(line)
                except ValueError:
                    _log.warning("worker %d wrote: %s", self.number, line.rstrip())
                    continue
                self._last_sign = time.monotonic()
                kind = event.get("event")
                if kind in ("ready", "failed"):
                    self._first_event = event
                    self._started.set()
                elif kind == "stopping":
                    self._said_stopping = True
                elif kind == "alive":
                    self.gauges = event.get("gauges", self.gauges)
                    self._counts = {tuple(key): count for key, count in event.get("counts", ())}
        if process is self._process:
            self._started.set()


def _import_path() -> list[str]:
    """The import path of a worker: the path of this process without the current directory, whose modules must not be
    imported. The folders of the packages xlashape and xlashape_server stay, even if one is the current directory.
    """
    own = [str(Path(version.__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1])]
    others = [each for each in sys.path if Path(each).is_absolute() and os.path.realpath(each) not in own]
    try:
        current = Path.cwd()
    except OSError:  # it was removed
        current = None
    return [*dict.fromkeys([*own, *(each for each in others if Path(each) != current)])]


def _ending(code: int) -> str:
    """Describes how a process ended.

    >>> _ending(-9), _ending(3)
    ('was ended by SIGKILL', 'ended with code 3')
    """
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended with code {code}"
