"""A worker: the process that answers calls. The server starts as many as `Config.worker_count` says, by default one for
each core.

Its parent, the watching process, starts it by `worker_process`; do not start it by hand. Both sides send lines of JSON,
which the docstring of `worker_process` describes. When the parent ends, and with it the standard input of the worker,
the worker stops as on SIGTERM.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import grpc

from xlashape.proto import services
from xlashape_server import auth
from xlashape_server.children import REASONS, Children
from xlashape_server.config import Config
from xlashape_server.counts import Recorder
from xlashape_server.front import Front
from xlashape_server.grpc_calls import SMALL_THREADS, CallThreads, add_services, server_options
from xlashape_server.grpc_services import NAMES, READY, SERVING, Health, enable_reflection, follow
from xlashape_server.guard import Guard
from xlashape_server.handlers import rpcs
from xlashape_server.modules import Modules
from xlashape_server.process import StopSignals, configure, set_level
from xlashape_server.store import Store

if TYPE_CHECKING:
    from xlashape_server.web import Listener

_log = logging.getLogger("xlashape_server.worker")

_LIFE_SECONDS = 0.2  # seconds between reports to the parent
_HANDSHAKE_SECONDS = 10.0  # seconds within which a new connection must be set up
_KEEPALIVE_ANSWER_MS = 20_000  # milliseconds in which a client must answer a ping
# The thresholds of gc.set_threshold: after so many new objects the youngest generation is collected, after so many of
# its collections the next one, and so on.
_COLLECTIONS = (5000, 20, 20)
_MIN_PING_INTERVAL_MS = 10_000  # milliseconds between two pings of a client; more frequent pings are refused


def make_server(config: Config, children: Children, recorder: Recorder) -> tuple[grpc.Server, Health, Listener | None]:
    """A grpc server with every service and its health service, and a listener for HTTP if the settings have an address
    for HTTP. Both are bound to their addresses and not yet started. `config.store_directory` must be set.

    `children` compute what the front does not answer itself. `recorder` counts calls.
    """
    options = [*connection_options(config), *server_options(config)]
    threads = CallThreads(SMALL_THREADS, "call")
    server = grpc.server(threads, options=options)
    store = Store.of(config)
    answered = rpcs(config, Modules(config, store))
    guard = Guard(config, recorder)
    front = Front(config, answered, store, children)
    guard.also.append(children.look)
    add_services(server, answered, guard, front, threads, config)
    health = Health()
    for name in (*NAMES, *(service.full_name for service in services())):
        health.set(name, SERVING)
    follow(store, health.set)
    health.enable(server, guard)
    enable_reflection(server, guard)
    _record(recorder, guard, front, children, health)
    guard.start()
    _listen(server, config)
    http: Listener | None = None
    if config.http:
        from xlashape_server.web import Listener  # needs packages of the extra `web`

        http = Listener(config, guard, front, answered)
    return server, health, http


def _record(recorder: Recorder, guard: Guard, front: Front, children: Children, health: Health) -> None:
    """Has the recorder report values that other objects keep."""
    recorder.gauge("xlashape_calls_in_flight", guard.by_stage)
    recorder.gauge("xlashape_message_bytes", lambda: guard.message_bytes)
    recorder.gauge("xlashape_kept_answer_bytes", lambda: front.kept.usage().bytes)
    recorder.gauge("xlashape_children", lambda: len(children.pids))
    recorder.gauge("xlashape_worker_ready", lambda: int(health.serves(READY)))
    recorder.follow("xlashape_kept_answer_hits_total", lambda: front.hits)
    recorder.follow("xlashape_kept_answer_misses_total", lambda: front.misses)
    for each in guard.waiting:
        recorder.follow("xlashape_calls_cut_off_total", lambda each=each: each.ended, "receiving")
    for reason in REASONS:
        recorder.follow("xlashape_children_ended_total", lambda reason=reason: children.ended[reason], reason)


def _listen(server: grpc.Server, config: Config) -> None:
    """Binds the address. OSError if that is not possible."""
    try:
        if config.tls_certificate:
            bound = server.add_secure_port(config.address, auth.server_credentials(config))
        else:
            bound = server.add_insecure_port(config.address)
    except RuntimeError as error:
        raise OSError(f"cannot listen on {config.address}: {error}") from error
    if config.unix_path:
        return
    port = config.host_and_port()[1]
    if not bound or (port and bound != port):
        raise OSError(f"cannot listen on {config.address}")


def connection_options(config: Config) -> list[tuple[str, Any]]:
    """Options of gRPC that bound the life of a connection. gRPC itself varies the age by a tenth."""
    options: list[tuple[str, Any]] = [
        ("grpc.so_reuseport", int(not config.unix_path)),
        ("grpc.keepalive_time_ms", round(config.keepalive_seconds * 1e3)),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_ANSWER_MS),
        ("grpc.http2.min_ping_interval_without_data_ms", _MIN_PING_INTERVAL_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        # The time within which a client must end the handshake of TLS and send the settings of HTTP/2.
        ("grpc.server_handshake_timeout_ms", max(1, round(min(_HANDSHAKE_SECONDS, config.max_receive_seconds) * 1e3))),
        ("grpc.max_allowed_incoming_connections", config.max_connections),
    ]
    if config.connection_age_seconds:
        options += [
            ("grpc.max_connection_age_ms", max(1, round(config.connection_age_seconds * 1e3))),
            ("grpc.max_connection_age_grace_ms", round((config.max_call_seconds + 5) * 1e3)),
        ]
    return [(name, min(value, (1 << 31) - 1)) for name, value in options]


def main() -> None:
    """Runs a worker, and ends the process."""
    code = run()
    logging.shutdown()
    # A normal exit would wait for the threads of calls that did not end within the grace period.
    os._exit(code)


def run() -> int:
    """Runs a worker until its parent or a signal stops it. Returns the exit code."""
    start_message = json.loads(sys.stdin.readline() or "null")
    if start_message is None:
        return 0
    config = Config(**start_message["config"])
    configure(config.log_level, worker=start_message["worker"], pid=os.getpid())
    with StopSignals() as signals:
        names = [f"{service.name}/{method.name}" for service in services() for method in service.methods]
        return _serve(start_message, config, signals, Recorder(names))


def _serve(start: dict[str, Any], config: Config, signals: StopSignals, recorder: Recorder) -> int:
    cpu: int | None = start["cpu"]
    cores: frozenset[int] = frozenset()
    if cpu is not None and sys.platform == "linux":
        cores = frozenset(os.sched_getaffinity(0))
        try:
            os.sched_setaffinity(0, {cpu})
        except OSError as error:
            _log.warning("cannot stay on core %d: %s", cpu, error)
    children = Children(config, cores, worker=start["worker"])
    try:
        children.start()
        server, health_servicer, http = make_server(config, children, recorder)
        _tune_collector()
        server.start()
        if http is not None:
            http.start()
    except Exception as error:
        _log.error("cannot start", exc_info=error)
        _tell(event="failed", reason=str(error))
        children.stop()
        return 1
    threading.Thread(target=_listen_to_parent, args=(signals,), daemon=True).start()
    _tell(event="ready")
    _log.debug("ready at %s", config.address)
    threading.Thread(target=_show_life, args=(recorder if config.metrics else None,), daemon=True).start()
    signals.wait()
    health_servicer.enter_graceful_shutdown()
    _tell(event="stopping")
    stopped = server.stop(config.grace_seconds)
    if http is not None:
        http.stop(config.grace_seconds)
    stopped.wait()
    children.stop()
    _log.debug("stopped")
    return 0


def _tune_collector() -> None:
    """Makes pauses of the collector of cycles short and rare, since all threads wait while it runs.

    The objects that exist now stay for good, so they are taken out of collections (gc.freeze). With the usual
    thresholds, calls that made expressions by the hundred thousand had pauses of 25 to 50 ms several times a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTIONS)


def _tell(**event: Any) -> None:
    """Writes a line to the parent. A parent that is stopped does not read, and keeps the thread waiting."""
    with contextlib.suppress(OSError):  # the parent has gone
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


def _show_life(recorder: Recorder | None) -> None:
    """Reports to the parent several times a second that this process runs, and the values of metrics."""
    while True:
        gauges, counts = recorder.sample() if recorder is not None else ({}, [])
        _tell(event="alive", gauges=gauges, counts=counts)
        time.sleep(_LIFE_SECONDS)


def _listen_to_parent(signals: StopSignals) -> None:
    """Sets the level of the log when the parent says so. Stops this worker when its standard input ends, since the
    parent has ended.
    """
    for line in sys.stdin:
        set_level(json.loads(line)["log_level"])
    signals.wake()
