"""The address where Prometheus asks for metrics: GET /metrics, over HTTP without TLS.

The endpoint runs in threads of the watching process, the parent of the workers, so it answers also while all workers
are busy. It answers `_MAX_CONNECTIONS` connections at a time. A further connection ends the oldest one, so that slow
clients keep nobody waiting.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import socketserver
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, exposition
from prometheus_client.exposition import ThreadingWSGIServer

from xlashape_server.hosts import may_name

_log = logging.getLogger("xlashape_server.metrics")

PATH = "/metrics"

_MAX_CONNECTIONS = 16  # connections at a time
_SECONDS = 10.0  # seconds that a client may take for each step of a request or of reading the answer

Environment = dict[str, Any]
StartResponse = Callable[..., Any]


class Endpoint:
    """Answers at `host` and `port` until `stop`. With port 0 the system chooses a port. OSError if it cannot listen."""

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self._server = _Server(family, (str(address[0]), port))
        self._server.set_app(_application(registry, host))
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

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
        self._connections: OrderedDict[int, socket.socket] = OrderedDict()
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # HTTPServer.server_bind, which this replaces, would ask DNS for the name of the address.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._connections[id(request)] = request
            if len(self._connections) > _MAX_CONNECTIONS:
                _, oldest = self._connections.popitem(last=False)
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        del request
        _log.debug("a request of %s failed", client_address, exc_info=True)
