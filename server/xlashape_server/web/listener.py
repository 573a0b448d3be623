"""The address of HTTP: its socket, its TLS, the event loop in a thread of its own, and the life of the connections.
hypercorn speaks HTTP/1.1 and HTTP/2.

A connection takes no thread and no place of a call. The number of connections is bounded, and a caller may have a share
of them. A connection that sends no whole request is closed, and so is one that does not read. TLS, which takes 270 KB
of memory for a connection, begins with its first bytes, and handshakes have a bound of their own.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config as HypercornConfig

from xlashape.errors import LimitExceededError
from xlashape_server import tls
from xlashape_server.callers import Caller, Places, caller_at
from xlashape_server.config import Config
from xlashape_server.guard import Guard
from xlashape_server.handlers import Rpc
from xlashape_server.web.application import Application
from xlashape_server.web.connections import Connection, Rotation

_log = logging.getLogger("xlashape_server.web")

_MAX_HANDSHAKES = 256  # of TLS, at the same time
_BACKLOG = 512
_HANDSHAKE_SECONDS = 10.0
_MAX_HEADER_BYTES = 64 << 10  # bytes of the first line and all headers; a GET has its request message in the first line
_MAX_STREAMS = 128  # streams in one connection of HTTP/2 at the same time
_REFUSING_THREADS = 16
_PAUSE_SECONDS = 0.05  # before it is tried again to take a connection
_CLOSE_SECONDS = 2.0  # seconds for connections to close


class Listener:
    """Answers RPCs over HTTP. Binds `config.http` when it is made (OSError if that is not possible)."""

    def __init__(self, config: Config, guard: Guard, rpcs: tuple[Rpc, ...]) -> None:
        self._config = config
        self._threads = ThreadPoolExecutor(config.max_concurrent_calls + _REFUSING_THREADS, "http call")
        self._application = Application(config, guard, rpcs, self._threads)
        self._places = Places("http_connections", config.max_connections, guard.shares)
        self._handshakes = Places("tls_handshakes", _MAX_HANDSHAKES, guard.shares)
        self._socket = _bound(config)
        self._context = WorkerContext(None)
        self._rotation = Rotation()
        self._settings = _hypercorn_settings(config)
        self._connections: dict[asyncio.Task[Any], asyncio.StreamWriter | None] = {}
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_on_error)
        self._tls: ssl.SSLContext | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        """Starts to accept connections."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    def stop(self, seconds: float) -> None:
        """Takes no more connections and requests, and returns once the calls under way have ended, after `seconds` at
        the latest.
        """
        asyncio.run_coroutine_threadsafe(self._stop(seconds), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _start(self) -> None:
        if self._config.tls_certificate:
            self._tls = tls.http_context(self._config)
        self._socket.listen(_BACKLOG)
        self._accepting = asyncio.create_task(self._accept())

    async def _stop(self, seconds: float) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        self._socket.close()
        await self._context.terminated.set()
        if self._connections and seconds:
            await asyncio.wait(self._connections, timeout=seconds)
        for task, writer in self._connections.items():
            if writer is None:
                task.cancel()  # it has not sent a byte, or its handshake has not ended
            else:
                writer.transport.abort()
        if self._connections:
            await asyncio.wait(self._connections, timeout=_CLOSE_SECONDS)

    async def _accept(self) -> None:
        """Takes connections as long as there are places for them."""
        while True:
            try:
                made, _ = await self._loop.sock_accept(self._socket)
            except OSError as error:  # such as no file descriptors
                _log.debug("cannot take a connection: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            caller = _caller(made)
            try:
                give_back = _taken(self._places, caller)
            except LimitExceededError as error:
                _log.debug("refused a connection of %s: %s", caller.connection, error)
                made.close()
                continue
            task = self._loop.create_task(self._connect(made, caller))
            self._connections[task] = None
            task.add_done_callback(partial(self._ended, give_back))

    def _ended(self, give_back: Callable[[], None], task: asyncio.Task[Any]) -> None:
        del self._connections[task]
        give_back()

    async def _connect(self, made: socket.socket, caller: Caller) -> None:
        """One connection, from its beginning to its end."""
        writer: asyncio.StreamWriter | None = None
        try:
            reader = asyncio.StreamReader(loop=self._loop)
            protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
            transport = await self._transport(made, caller, protocol)
            writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
            self._connections[cast("asyncio.Task[Any]", asyncio.current_task())] = writer
            await self._rotation.turn(caller)
            answer = partial(self._application.call, caller, _names(writer), writer.transport.abort)
            seconds = self._config.max_send_seconds
            await Connection(answer, self._settings, self._context, self._rotation, caller, seconds, reader, writer)
        except Exception as error:  # a connection that breaks a protocol must not end the others
            _log.debug("the connection of %s ended: %r", caller.connection, error)
            if writer is not None:
                writer.transport.abort()
        finally:
            if writer is None:
                made.close()

    async def _transport(self, made: socket.socket, caller: Caller, protocol: asyncio.StreamReaderProtocol) -> Any:
        """The transport of a connection, with TLS if the server has a certificate: once the first bytes have come, and
        there is a place for a handshake.
        """
        if self._tls is None:
            return (await self._loop.connect_accepted_socket(lambda: protocol, made))[0]
        await asyncio.wait_for(self._readable(made), min(_HANDSHAKE_SECONDS, self._config.max_receive_seconds))
        give_back = _taken(self._handshakes, caller)
        try:
            secured: dict[str, Any] = {"ssl": self._tls, "ssl_handshake_timeout": _HANDSHAKE_SECONDS}
            return (await self._loop.connect_accepted_socket(lambda: protocol, made, **secured))[0]
        finally:
            give_back()

    async def _readable(self, made: socket.socket) -> None:
        came = asyncio.Event()
        self._loop.add_reader(made, came.set)
        try:
            await came.wait()
        finally:
            self._loop.remove_reader(made)


def _taken(places: Places, caller: Caller) -> Callable[[], None]:
    """Takes a place, and returns what gives it back. LimitExceededError if there is none for this caller."""
    if places.take_open():
        return places.give_back_open
    places.take(caller)
    return partial(places.give_back, caller)


def _caller(made: socket.socket) -> Caller:
    """The address of the other end, in gRPC's form for peers."""
    try:
        host, port = made.getpeername()[:2]
    except (OSError, ValueError):
        return caller_at("unknown:")  # the client has closed it already
    return caller_at(f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}")


def _names(writer: asyncio.StreamWriter) -> tuple[str, ...]:
    """The names in the certificate of the other end, which TLS has verified."""
    certificate: dict[str, Any] = writer.get_extra_info("peercert") or {}
    common = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return (*common, *(value for _, value in certificate.get("subjectAltName", ())))


def _bound(config: Config) -> socket.socket:
    """A socket at the address of HTTP, which all workers bind."""
    host, port = config.http_host_and_port()
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.bind(address)
        except OSError:
            made.close()
            raise
    except OSError as error:
        raise OSError(f"cannot listen on {config.http}: {error.strerror or error}") from error
    made.setblocking(False)
    return made


def _hypercorn_settings(config: Config) -> HypercornConfig:
    settings = HypercornConfig()
    settings.errorlog = _log
    settings.accesslog = None
    settings.include_server_header = False
    settings.keep_alive_timeout = config.keepalive_seconds
    # For connections that hypercorn does not count as idle and that have no call, such as those of HTTP/2 without a
    # request.
    settings.read_timeout = round(config.max_call_seconds + config.max_send_seconds + config.keepalive_seconds)
    settings.h11_max_incomplete_size = _MAX_HEADER_BYTES
    settings.h2_max_header_list_size = _MAX_HEADER_BYTES
    settings.h2_max_concurrent_streams = min(_MAX_STREAMS, config.max_concurrent_calls)
    settings.max_app_queue_size = 2  # received parts of a request that are not read yet, of at most 64 kB each
    return settings


def _on_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handles errors that no task awaits: failed handshakes, closed connections."""
    error = context.get("exception")
    if isinstance(error, (ssl.SSLError, OSError, asyncio.CancelledError)):
        _log.debug("%s: %r", context.get("message"), error)
    else:
        _log.error("%s", context.get("message"), exc_info=error)
