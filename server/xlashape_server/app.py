"""The server as a whole: starts the worker processes, restarts those that end, and stops them without losing a call.

>>> from xlashape_server import Config, Server
>>> with Server(Config(address="127.0.0.1:0", workers=1)) as server:
...     server.address.partition(":")[0]
'127.0.0.1'

This process, the watching process, answers no calls and never loads grpc, so a client can run in it too. All workers
listen on one port (SO_REUSEPORT), and the system spreads connections over them. A worker that ends is started again,
after a pause that doubles each time a worker ends soon after its start. A worker that does not report for some seconds
is killed and started again.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from xlashape.base.extras import require
from xlashape.errors import LimitExceededError, UnavailableError, XlashapeError
from xlashape_server import auth
from xlashape_server.callers import allow_descriptors, bound_socket
from xlashape_server.config import FIELDS, Config
from xlashape_server.process import StopSignals, configure, set_level, tell
from xlashape_server.store import Store
from xlashape_server.worker_process import WorkerProcess

if TYPE_CHECKING:
    from xlashape_server.metrics import Endpoint

_log = logging.getLogger("xlashape_server.app")

_WATCH_SECONDS = 0.25  # seconds between checks of the workers
_EVICTION_SECONDS = 60.0  # seconds between evictions of old modules


class Server:
    """A server in child processes. Use it in a `with` block, or call `start` and `stop`."""

    def __init__(self, config: Config | None = None) -> None:
        self.config = self._given = config or Config()
        self._workers: list[WorkerProcess] = []
        self._port_holders: list[socket.socket] = []
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._metrics: Endpoint | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """HOST:PORT, or unix:PATH. Once the server has started, a port of 0 is replaced by the port that was chosen."""
        return self.config.address

    @property
    def http_address(self) -> str:
        """HOST:PORT of HTTP, after the start with the port that was chosen; empty if HTTP is off."""
        return self.config.http

    @property
    def metrics_address(self) -> str:
        """HOST:PORT of metrics, after the start with the port that was chosen; empty if metrics are off."""
        return self.config.metrics

    @property
    def worker_pids(self) -> list[int]:
        """The process ids of the workers that are running."""
        return [worker.pid for worker in self._workers if worker.pid]

    def start(self) -> Server:
        """Starts the workers, and returns once every worker answers. UnavailableError if a package is not installed,
        the address is taken or a worker cannot start. InvalidArgumentError if a file of the settings cannot be used.
        """
        _check(self.config)
        allow_descriptors()
        memory = self.config.worker_memory()
        config = replace(self.config, max_worker_memory=memory)
        try:
            for name in ("http",) if config.unix_path else ("address", "http"):
                if getattr(config, name):
                    holder, port = _reserved_port(config, name)
                    self._port_holders.append(holder)
                    config = config.with_port(name, port)
            if not config.store_directory:
                self._scratch = tempfile.TemporaryDirectory(prefix="xlashape-store-", ignore_cleanup_errors=True)
                config = replace(config, store_directory=self._scratch.name, store_is_durable=False)
            self.config = config
            store = Store.of(config)
            self._evict(store)
            cpus = config.cores()
            self._workers = [
                WorkerProcess(i, config, cpus[i % len(cpus)] if cpus else None, self._stopping)
                for i in range(config.worker_count())
            ]
            self._serve_metrics(store)
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
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        threading.Thread(target=self._evict_regularly, args=(store,), name="store", daemon=True).start()
        return self

    def stop(self, grace: float | None = None) -> None:
        """Stops the workers: they take no more calls, and end once the calls in flight have ended, after `grace`
        seconds at the latest. By default `grace` is `grace_seconds` of the settings.
        """
        self._stopping.set()
        seconds = self.config.grace_seconds if grace is None else grace
        for worker in self._workers:
            worker.ask_to_stop()
        end = time.monotonic() + seconds + (2.0 if seconds else 0.0)
        for worker in self._workers:
            worker.end(end)
        with self._lock:
            holders, metrics, scratch = self._port_holders, self._metrics, self._scratch
            self._port_holders, self._metrics, self._scratch = [], None, None
        if metrics is not None:
            metrics.stop()
        for holder in holders:
            holder.close()
        if scratch is not None:
            scratch.cleanup()
        if self.config.unix_path and Path(self.config.unix_path).is_socket():
            Path(self.config.unix_path).unlink(missing_ok=True)

    def read_again(self, config: Config) -> None:
        """Takes over from new settings what can change while the server runs, which is `log_level`, and logs which
        others have changed. Certificates, and the file of the setting `auth`, are read again by themselves.
        """
        level, self._given = self._given.log_level, replace(self._given, log_level=config.log_level)
        if level != config.log_level:
            set_level(config.log_level)
            for worker in self._workers:
                worker.set_log_level(config.log_level)
        others = [name for name in FIELDS if getattr(config, name) != getattr(self._given, name)]
        if others:
            _log.warning("these settings have changed and need a restart: %s", ", ".join(others))
        _log.info("the settings were read again; the log level is %s", config.log_level)

    def _serve_metrics(self, store: Store) -> None:
        """Serves metrics at their address, if one is set, from before the workers start until the server has
        stopped.
        """
        if not self.config.metrics:
            return
        from xlashape_server.metrics import Endpoint, ServerMetrics  # needs the extra `telemetry`

        metrics = ServerMetrics(self.config, self._workers, store)
        try:
            self._metrics = Endpoint(metrics.registry, *self.config.host_and_port("metrics"))
        except OSError as error:
            raise OSError(f"cannot listen on {self.config.metrics}: {error.strerror or error}") from error
        self.config = self.config.with_port("metrics", self._metrics.port)
        threading.Thread(target=metrics.measure, args=(self._stopping.wait,), name="store usage", daemon=True).start()

    def _watch(self) -> None:
        """Has workers that do not report replaced, and tells systemd that this process runs."""
        last = time.monotonic()
        while not self._stopping.wait(_WATCH_SECONDS):
            now = time.monotonic()
            absent = max(0.0, now - last - 2 * _WATCH_SECONDS)
            last = now
            for worker in self._workers:
                worker.watch(absent)
            tell("WATCHDOG=1")

    def _evict_regularly(self, store: Store) -> None:
        while not self._stopping.wait(_EVICTION_SECONDS):
            self._evict(store)

    @staticmethod
    def _evict(store: Store) -> None:
        """Removes old modules and abandoned files from the store. Logs a failure: modules can still be read."""
        try:
            store.evict()
        except (UnavailableError, LimitExceededError) as error:
            _log.warning("nothing can be removed from the store: %s", error)

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _check(config: Config) -> None:
    """Checks that the packages that the settings need are installed, and that their files can be used."""
    require("server", "a server")
    if config.http:
        require("web", "HTTP")
    if config.metrics:
        require("telemetry", "an address for metrics")
    auth.check(config)


def check(config: Config) -> None:
    """Checks whether a server could start with these settings: packages, certificates, tokens and the store's
    directory. Raises the error with which the start would end. The addresses are not checked, since a server may
    have them.
    """
    _check(config)
    with tempfile.TemporaryDirectory(prefix="xlashape-") as directory:
        try:
            Store.of(config if config.store_directory else replace(config, store_directory=directory)).check()
        except OSError as error:
            raise UnavailableError(f"the store cannot be used: {error}") from error


def serve(config: Config | None = None, read_again: Callable[[], Config] | None = None) -> int:
    """Serves until SIGTERM or SIGINT, then stops with grace; a second signal stops at once. A signal before the server
    answers raises SystemExit(0). With `read_again`, SIGHUP reads the settings by it. Returns the exit code.

    Once the server answers, one line of JSON goes to standard output:
    {"event": "serving", "address": "127.0.0.1:50051", "workers": 2, "pid": 4711, "store": "/var/lib/xlashape"}.
    """
    config = config or Config()
    configure(config.log_level, pid=os.getpid())
    server = Server(config)

    def reload() -> None:
        try:
            server.read_again(read_again() if read_again is not None else config)
        except XlashapeError as error:
            _log.error("the settings cannot be used, so the old ones stay: %s", error.message)

    with StopSignals({signal.SIGHUP: reload}) as signals:
        try:
            signals.exits = True
            server.start()
            signals.exits = False
            _say_where_data_goes(config, server)
            line = {
                "event": "serving",
                "address": server.address,
                "workers": len(server.worker_pids),
                "pid": os.getpid(),
                "store": server.config.store_directory,
            }
            if config.http:
                line["http"] = server.http_address
            if config.metrics:
                line["metrics"] = server.metrics_address
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
            tell(f"READY=1\nSTATUS=Serving at {server.address}")
            signals.wait()
            tell("STOPPING=1")
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


def _say_where_data_goes(config: Config, server: Server) -> None:
    """Logs where modules are kept and for how long, and what callers from other machines can do without
    authentication.
    """
    directory, hours = server.config.store_directory, config.store_age_seconds / 3600
    until = "also when the server stops" if config.store_directory else "until the server stops"
    _log.info("modules are kept in %s, %s, for %g hours after their last use", directory, until, hours)
    for name in ("address", "http", "metrics"):
        protects = (config.tls_certificate and (config.auth or config.tls_client_ca)) and name != "metrics"
        if not config.is_loopback(name) and not protects:
            address = getattr(server.config, name)
            _log.warning("%s: other machines reach this address, which lacks TLS or asks nobody who they are", address)


def _reserved_port(config: Config, name: str) -> tuple[socket.socket, int]:
    """A socket that is bound to the address in the setting `name`, and its port. The socket never listens: it reserves
    the port while workers end and start.

    With SO_REUSEPORT alone, a second server of the same user could bind the same port unnoticed. So a socket without
    SO_REUSEPORT is bound first, which fails if the port is taken, and closed again.
    """
    reuses, shares = (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1), (socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    host, port = config.host_and_port(name)
    try:
        bound_socket(host, port, reuses).close()
        bound = bound_socket(host, port, reuses, shares)
    except OSError as error:
        raise UnavailableError(f"cannot listen on {getattr(config, name)}: {error.strerror or error}") from error
    return bound, bound.getsockname()[1]
