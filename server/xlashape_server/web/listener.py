"""Listens at the address of HTTP: opens the socket, and runs uvicorn with h11, unchanged, in a thread of its own.

uvicorn bounds the number of connections and the bytes of headers, ends idle connections, and waits for callers that
read slowly. This file adds what uvicorn has no setting for: it ends a connection on which a request's headers do not
come in time or whose client does not read, and it reloads certificates when their files change.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import sys
import threading
from typing import Any

import uvicorn
from h11 import LocalProtocolError
from uvicorn.protocols.http.h11_impl import H11Protocol

from xlashape_server.auth import http_context
from xlashape_server.call_threads import CallThreads
from xlashape_server.callers import bound_socket
from xlashape_server.config import Config
from xlashape_server.front import Front
from xlashape_server.guard import Guard
from xlashape_server.handlers import Rpc
from xlashape_server.web.application import Application

_log = logging.getLogger("xlashape_server.web")

_BACKLOG = 512  # connections that the system keeps before uvicorn accepts them
_MAX_HEADER_BYTES = 64 << 10  # bytes of the first line and all headers
_REFUSING_THREADS = 16  # threads beyond those of admitted calls, to refuse further calls
_CLOSE_SECONDS = 2.0  # seconds for connections to close after their calls have ended


class Listener:
    """Answers over HTTP. Binds `config.http` when it is made (OSError if that is not possible)."""

    def __init__(self, config: Config, guard: Guard, front: Front, rpcs: tuple[Rpc, ...]) -> None:
        threads = CallThreads(config.max_concurrent_calls + _REFUSING_THREADS, "http call")
        self._socket = _bound(config)
        self._open: dict[Any, asyncio.Transport] = {}
        settings = uvicorn.Config(
            Application(config, guard, front, rpcs, threads, self._abort),
            http=_protocol(self._open, config.max_receive_seconds),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=_BACKLOG,
            limit_concurrency=config.max_connections,
            timeout_keep_alive=max(1, round(config.keepalive_seconds)),
            timeout_graceful_shutdown=max(1, round(config.grace_seconds)),
            h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        )
        settings.load()
        if config.tls_certificate:
            settings.ssl = http_context(config)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # its lines are about mistakes of callers
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        """Starts to accept connections. The system keeps connections that come before uvicorn runs."""
        self._socket.listen(_BACKLOG)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Takes no more connections and requests, and returns once the calls under way have ended and their connections
        are closed, at the latest after `seconds` and two more.
        """
        self._server.should_exit = True
        self._thread.join(seconds + _CLOSE_SECONDS)

    def _run(self) -> None:
        async def serve() -> None:
            asyncio.get_running_loop().set_exception_handler(_on_error)
            await self._server.serve([self._socket])

        try:
            asyncio.run(serve())
        except BaseException as error:  # uvicorn raises SystemExit if it cannot start
            _log.error("HTTP is not answered any more", exc_info=error)

    def _abort(self, client: tuple[str, int]) -> None:
        """Ends the connection of a client at once."""
        transport = self._open.get(client)
        if transport is not None:
            transport.abort()


def _protocol(opened: dict[Any, asyncio.Transport], seconds: float) -> type[H11Protocol]:
    """uvicorn's protocol with two additions. `opened` has the open connections by their clients. A connection is ended
    if the headers of its first request do not come within `seconds`, or those of a later request within `seconds` of
    the request's first byte.
    """

    class Connection(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            opened[self.client] = transport
            self._timer = self.loop.call_later(seconds, transport.abort)

        def connection_lost(self, exc: Exception | None) -> None:
            opened.pop(self.client, None)
            self._begins(None)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            try:
                super().data_received(data)
            except LocalProtocolError:  # the rest of the request is broken, and its answer has begun
                self.transport.abort()
            if self.cycle is not before:
                self._begins(None)
            elif self._timer is None and before.response_complete:  # the next request begins; the first one has a timer
                self._begins(self.loop.call_later(seconds, self.transport.abort))

        def _begins(self, timer: asyncio.TimerHandle | None) -> None:
            """Replaces the timer, which ends the connection; None for no timer."""
            if self._timer is not None:
                self._timer.cancel()
            self._timer = timer

    return Connection


def _bound(config: Config) -> socket.socket:
    """A socket bound to the address of HTTP. All workers bind the same address."""
    options = [
        (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1),
        (socket.SOL_SOCKET, socket.SO_REUSEPORT, 1),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    ]
    if sys.platform == "linux":
        # uvicorn gets a connection only when its first bytes have come, since TLS takes 270 KB for it at once.
        if config.tls_certificate:
            options.append((socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, max(1, round(config.max_receive_seconds))))
        # The system ends a connection whose client does not read. uvicorn waits for such clients without a limit.
        # `xlashape_server.calls.Watch` bounds the wait, but not for the last part of an answer, after which the call
        # has ended.
        options.append((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000 + round(2e3 * config.max_send_seconds)))
    try:
        made = bound_socket(*config.http_host_and_port(), *options)
    except OSError as error:
        raise OSError(f"cannot listen on {config.http}: {error.strerror or error}") from error
    made.setblocking(False)
    return made


def _on_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs errors that no task awaits. Failed handshakes and closed connections are logged at the level debug."""
    error = context.get("exception")
    if isinstance(error, (ssl.SSLError, OSError, asyncio.CancelledError)):
        _log.debug("%s: %r", context.get("message"), error)
    else:
        _log.error("%s", context.get("message"), exc_info=error)
