"""A worker: one process of the server. `app` starts it with `python -m xlashape_server.worker`; do not start it by hand.

The worker reads one line of JSON from standard input, which stays open as long as the parent runs: at its end the worker stops as on
SIGTERM. It writes one line of JSON to standard output: {"event": "ready"} or {"event": "failed", "reason": …}.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from xlashape import caches
from xlashape.proto import services
from xlashape_server import logs, reflection
from xlashape_server.config import Config
from xlashape_server.guard import Guard
from xlashape_server.handlers import rpcs
from xlashape_server.modules import Modules
from xlashape_server.services import add_services
from xlashape_server.signals import StopSignals
from xlashape_server.store import Store

__all__ = ["make_server", "run"]

_log = logging.getLogger("xlashape_server.worker")


def make_server(config: Config) -> tuple[grpc.Server, health.HealthServicer]:
    """A grpc server with every service, bound to the address of `config` and not yet started. `config.store_directory` must be set."""
    options: list[tuple[str, Any]] = [
        ("grpc.so_reuseport", 1),
        # Twice the limit of the guard, whose error names the limit.
        ("grpc.max_receive_message_length", min(2 * config.max_request_bytes, (1 << 31) - 1)),
        ("grpc.max_send_message_length", -1),
    ]
    server = grpc.server(
        ThreadPoolExecutor(config.threads, thread_name_prefix="call"),
        options=options,
        maximum_concurrent_rpcs=config.max_concurrent_calls,
    )
    guard = Guard(config)
    modules = Modules(
        config, Store(config.store_directory, max_bytes=config.store_bytes, max_age=config.store_age_seconds)
    )
    caches.register(modules.cache)
    add_services(server, rpcs(config, modules), guard, config)
    # Non-blocking: a client that watches would otherwise hold a thread for as long as it likes.
    health_servicer = health.HealthServicer(
        experimental_non_blocking=True, experimental_thread_pool=ThreadPoolExecutor(1)
    )
    for name in ("", *(service.full_name for service in services())):
        health_servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    reflection.enable(server, guard)
    try:
        if config.tls_certificate:
            bound = server.add_secure_port(config.address, _credentials(config))
        else:
            bound = server.add_insecure_port(config.address)
    except RuntimeError as error:
        raise OSError(f"cannot listen on {config.address}: {error}") from error
    port = config.host_and_port()[1]
    if not bound or (port and bound != port):
        raise OSError(f"cannot listen on {config.address}")
    return server, health_servicer


def _credentials(config: Config) -> grpc.ServerCredentials:
    key, chain = Path(config.tls_key).read_bytes(), Path(config.tls_certificate).read_bytes()
    ca = Path(config.tls_client_ca).read_bytes() if config.tls_client_ca else None
    return grpc.ssl_server_credentials([(key, chain)], root_certificates=ca, require_client_auth=ca is not None)


def run() -> int:
    """Runs a worker until it is told to stop. Returns the exit code."""
    start_message = json.loads(sys.stdin.readline() or "null")
    if start_message is None:
        return 0
    config = Config.from_json(json.dumps(start_message["config"]))
    logs.configure(config.log_level, worker=start_message["worker"], pid=os.getpid())
    faulthandler.register(signal.SIGUSR1)  # writes the stacks of all threads to standard error
    with StopSignals() as signals:
        return _serve(start_message["cpu"], config, signals)


def _serve(cpu: int | None, config: Config, signals: StopSignals) -> int:
    if cpu is not None and sys.platform == "linux":
        try:
            os.sched_setaffinity(0, {cpu})
        except OSError as error:
            _log.warning("cannot stay on core %d: %s", cpu, error)
    try:
        server, health_servicer = make_server(config)
        server.start()
    except Exception as error:
        _log.error("cannot start", exc_info=error)
        _report({"event": "failed", "reason": str(error)})
        return 1
    threading.Thread(target=_watch_parent, args=(signals,), daemon=True).start()
    _report({"event": "ready"})
    _log.debug("ready at %s", config.address)
    signals.wait()
    health_servicer.enter_graceful_shutdown()
    if config.drain_seconds:
        time.sleep(config.drain_seconds)
    server.stop(config.grace_seconds).wait()
    _log.debug("stopped")
    return 0


def _report(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _watch_parent(signals: StopSignals) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    signals.wake()


if __name__ == "__main__":
    code = run()
    logging.shutdown()
    # A call that did not end within the grace period still has its thread, for which a normal exit would wait.
    os._exit(code)
