"""The server as a whole: starts the worker processes, restarts those that end, and stops them without losing a call.

>>> from xlashape_server import Config, Server
>>> with Server(Config(address="127.0.0.1:0", workers=1)) as server:
...     server.address.partition(":")[0]
'127.0.0.1'

This process answers no calls and never loads grpc, so it can also be the process of a client. All workers listen on one port
(SO_REUSEPORT); the system spreads connections over them. A worker that ends is started again, after a pause that doubles each time a
worker ends soon after its start.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType

from xlashape.errors import UnavailableError
from xlashape.extras import require
from xlashape_server import logs
from xlashape_server.config import Config
from xlashape_server.signals import StopSignals
from xlashape_server.store import Store

__all__ = ["Server", "serve"]

_log = logging.getLogger("xlashape_server.app")

_MAX_START_SECONDS = 60.0  # that a worker may take until it answers calls
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0  # seconds before a worker that ended is started again
_STABLE_SECONDS = 30.0  # after a worker has run so long, the pause is the first one again
_EVICTION_SECONDS = 60.0  # between two looks for modules that are too old


class Server:
    """A server in child processes. Use it in a `with` block, or call `start` and `stop`."""

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        self._workers: list[_Worker] = []
        self._port_holder: socket.socket | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """HOST:PORT. Once the server has started, a port of 0 is replaced by the port that was chosen."""
        return self.config.address

    @property
    def worker_pids(self) -> list[int]:
        """The process ids of the workers that are running."""
        return [worker.pid for worker in self._workers if worker.pid]

    def start(self) -> Server:
        """Returns once every worker answers. UnavailableError if gRPC is not installed, the address is taken or a worker cannot start."""
        require("server", "a server")
        self.config.check_files()
        self._port_holder, port = _reserved_port(self.config)
        config = self.config.with_port(port)
        if not config.store_directory:
            self._scratch = tempfile.TemporaryDirectory(prefix="xlashape-")
            config = replace(config, store_directory=self._scratch.name)
        self.config = config
        count = config.worker_count()
        cpus = sorted(os.sched_getaffinity(0)) if config.pin and sys.platform == "linux" else []
        try:
            store = Store(config.store_directory, max_bytes=config.store_bytes, max_age=config.store_age_seconds)
            self._workers = [
                _Worker(i, config, cpus[i % len(cpus)] if cpus else None, self._stopping) for i in range(count)
            ]
            for worker in self._workers:
                worker.launch()
            for worker in self._workers:
                worker.await_ready()
        except OSError as error:
            self.stop(0)
            raise UnavailableError(f"the server cannot start: {error}") from error
        except BaseException:
            self.stop(0)
            raise
        for worker in self._workers:
            threading.Thread(target=worker.keep_alive, name=f"worker {worker.number}", daemon=True).start()
        threading.Thread(target=self._evict_regularly, args=(store,), name="store", daemon=True).start()
        return self

    def stop(self, grace: float | None = None) -> None:
        """Takes no more calls and returns once those in flight have ended, after `grace` seconds at the latest (default: the config's)."""
        self._stopping.set()
        seconds = self.config.grace_seconds + self.config.drain_seconds if grace is None else grace
        for worker in self._workers:
            worker.ask_to_stop()
        end = time.monotonic() + seconds + (2.0 if seconds else 0.0)
        for worker in self._workers:
            worker.end(max(0.0, end - time.monotonic()))
        with self._lock:
            holder, scratch = self._port_holder, self._scratch
            self._port_holder = self._scratch = None
        if holder is not None:
            holder.close()
        if scratch is not None:
            scratch.cleanup()

    def _evict_regularly(self, store: Store) -> None:
        while not self._stopping.wait(_EVICTION_SECONDS):
            try:
                store.evict()
            except OSError as error:
                _log.warning("modules cannot be evicted from the store: %s", error)

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def serve(config: Config | None = None, announce: Callable[[Server], None] | None = None) -> int:
    """Serves until SIGTERM or SIGINT, then stops with grace; a second signal stops at once. Returns the exit code.

    `announce` is called once the server answers. Without it, one line of JSON goes to standard output:
    {"event": "serving", "address": "127.0.0.1:50051", "workers": 2, "pid": 4711}.
    """
    config = config or Config()
    logs.configure(config.log_level, pid=os.getpid())
    server = Server(config)
    with StopSignals() as signals:
        try:
            server.start()
            if announce is None:
                line = {
                    "event": "serving",
                    "address": server.address,
                    "workers": len(server.worker_pids),
                    "pid": os.getpid(),
                }
                sys.stdout.write(json.dumps(line) + "\n")
                sys.stdout.flush()
            else:
                announce(server)
            signals.wait()
            _log.info("stopping; calls in flight have %g seconds", config.grace_seconds)
            stopper = threading.Thread(target=server.stop, daemon=True)
            stopper.start()
            while stopper.is_alive():
                if signals.wait(0.05):
                    server.stop(0)
                    break
        except BaseException:
            server.stop(0)
            raise
    return 0


def _reserved_port(config: Config) -> tuple[socket.socket, int]:
    """A socket that is bound to the address, and its port. It never listens: it reserves the port while workers end and start.

    With SO_REUSEPORT a second server of the same user could bind the same port unnoticed. So a socket without it is bound first, and closed.
    """
    host, port = config.host_and_port()
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        for options in ((socket.SO_REUSEADDR,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)):
            bound = socket.socket(family, socket.SOCK_STREAM)
            try:
                for option in options:
                    bound.setsockopt(socket.SOL_SOCKET, option, 1)
                bound.bind(address)
            except OSError:
                bound.close()
                raise
            if len(options) == 2:
                return bound, bound.getsockname()[1]
            bound.close()
    except OSError as error:
        raise UnavailableError(f"cannot listen on {config.address}: {error.strerror or error}") from error
    raise AssertionError("the second socket is returned")


class _Worker:
    """The process of a worker, and the process that replaces it when it ends."""

    def __init__(self, number: int, config: Config, cpu: int | None, stopping: threading.Event) -> None:
        self.number = number
        self._start_message = json.dumps({"worker": number, "cpu": cpu, "config": json.loads(config.to_json())}) + "\n"
        self._stopping = stopping
        self._process: subprocess.Popen[str] | None = None
        self._start_time = 0.0
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """The process id; 0 while there is none."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else 0

    def launch(self) -> None:
        """Starts a process, unless the server stops."""
        with self._lock:
            if self._stopping.is_set():
                return
            self._start_time = time.monotonic()
            # The terminal sends SIGINT for Ctrl-C to parent and children. Children inherit the mask and ignore it, so that the parent alone
            # handles it and stops its workers with grace. (A session for each child would do that too, but Linux shares processor time by session.)
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                self._process = process = subprocess.Popen(
                    [sys.executable, "-m", "xlashape_server.worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        try:
            assert process.stdin is not None
            process.stdin.write(self._start_message)
            process.stdin.flush()
        except OSError:
            pass  # the process has ended already; `await_ready` reports that

    def await_ready(self) -> None:
        """Returns once the process answers calls. UnavailableError if it ended or takes too long."""
        process = self._process
        if process is None:
            return
        assert process.stdout is not None
        timer = threading.Timer(_MAX_START_SECONDS, process.kill)
        timer.start()
        try:
            line = process.stdout.readline()
        finally:
            timer.cancel()
        event: dict[str, str] = json.loads(line) if line.startswith("{") else {}
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
                "worker %d (process %d) ended with code %d; starting it again in %g s",
                self.number,
                process.pid,
                code,
                pause,
            )
            if self._stopping.wait(pause):
                return
            pause = min(2 * pause, _LONGEST_PAUSE)
            _close(process)
            try:
                self.launch()
                self.await_ready()
            except (OSError, UnavailableError) as error:
                if not self._stopping.is_set():
                    _log.error("%s", error)

    def ask_to_stop(self) -> None:
        """Sends SIGTERM."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.terminate()

    def end(self, seconds: float) -> None:
        """Waits for the process to end, and kills it after `seconds`."""
        process = self._process
        if process is None:
            return
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _close(process)


def _close(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
