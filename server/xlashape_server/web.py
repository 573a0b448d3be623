"""Answers RPCs over HTTP/1.1, in the protocol Connect, at an address of its own: for browsers and curl. Needs the extra
`web`.

`Application` is an ASGI application that answers every request: RPCs in the form of Connect at /PACKAGE.SERVICE/METHOD,
and the page at /. The paths are made from the descriptors of the RPCs, which the front answers as over gRPC. The guard
(`guard.py`) admits a request for an RPC before its body is read. RPCs with a stream are missing here: they are asked
over gRPC.

`Page` has the files of the page, which are in `server/xlashape_server/page/`; they are built from `server/page/`. They
are read once, when the worker starts, and found by their names alone, so no path of a request becomes a path of this
machine. Everybody may read the files. For what it shows, the page calls the RPCs, with the credentials that these need.

`Listener` opens the socket, and runs uvicorn with h11, unchanged, in a thread of its own. uvicorn bounds the number of
connections and the bytes of headers, ends idle connections, and waits for callers that read slowly. This file adds what
uvicorn has no setting for: it ends a connection on which a request's headers do not come in time or whose client does
not read, and it reloads certificates when their files change.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import socket
import ssl
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import uvicorn
from h11 import LocalProtocolError
from uvicorn.protocols.http.h11_impl import H11Protocol

from xlashape.errors import DeadlineExceededError, LimitExceededError, XlashapeError
from xlashape_server.auth import http_context
from xlashape_server.callers import bound_socket, may_name, peer_of
from xlashape_server.config import Config
from xlashape_server.connect import MEDIA_TYPES, Headers, check, failure, has_two_ends, timeout_of
from xlashape_server.front import Front
from xlashape_server.grpc_calls import CallThreads
from xlashape_server.guard import Call, Guard
from xlashape_server.handlers import Rpc

_log = logging.getLogger("xlashape_server.web")

# Types of ASGI:
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_NOSNIFF = (b"x-content-type-options", b"nosniff")  # has browsers believe content-type, and not guess from the content
_HELD_STEP = 1 << 20  # bytes of a body after which the call holds them
_SENT_AT_ONCE = 256 << 10  # bytes of an answer that are sent before the server waits for the caller to read
_WATCHED_SECONDS = 0.05  # a call that computes for longer is ended if its caller goes away


class Application:
    """The application. `threads` are those in which handlers run. `abort` ends the connection of a client, which is an
    address and a port.
    """

    def __init__(
        self,
        config: Config,
        guard: Guard,
        front: Front,
        rpcs: tuple[Rpc, ...],
        threads: ThreadPoolExecutor,
        abort: Callable[[tuple[str, int]], None],
    ) -> None:
        self.guard, self.front, self.threads, self.abort = guard, front, threads, abort
        self.max_body_bytes = config.max_body_bytes
        self._host = config.host_and_port("http")[0]
        self._page = Page(FOLDER)
        self._numbers = {
            f"/{rpc.method.containing_service.full_name}/{rpc.method.name}": number
            for number, rpc in enumerate(rpcs)
            if not (rpc.method.client_streaming or rpc.method.server_streaming)
        }

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answers one request of ASGI."""
        try:
            await self._answer(scope, receive, send)
        except LocalProtocolError:
            pass  # h11 has answered a broken request by itself
        except Exception as error:
            _log.error("%s failed", scope["path"][:100], exc_info=error)
            raise  # uvicorn sends the caller a status of 500

    async def _answer(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path: str = scope["path"]
        refuse = partial(_refuse, send)
        if has_two_ends(scope["headers"], scope["http_version"]):
            text = "content-length and transfer-encoding: expected one of them, and the second only in HTTP/1.1"
            return await refuse(400, "invalid_argument", text, (b"connection", b"close"))
        if not may_name(headers.get("host"), self._host):
            return await refuse(421, "permission_denied", f"host: {headers['host'][:100]} is not a name of this server")
        page = self._page.answer(scope["method"], path, headers)
        if page is not None:
            return await _send_answer(send, *page)
        number = self._numbers.get(path)
        if number is None:
            rpcs = "RPCs are at /PACKAGE.SERVICE/METHOD, such as /xlashape.v1.ShapeService/ByteSize"
            return await refuse(404, "unimplemented", f"there is no {path[:100]} over HTTP; {rpcs}")
        if scope["method"] != "POST":
            text = f"{scope['method'][:20]}: {path.rpartition('/')[2]} is asked with POST"
            return await refuse(405, "unimplemented", text, (b"allow", b"POST"))
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in MEDIA_TYPES:
            text = f"content-type: expected {' or '.join(MEDIA_TYPES)}, found {kind[:100] or 'none'}"
            return await refuse(415, "invalid_argument", text, (b"accept-post", ", ".join(MEDIA_TYPES).encode()))
        return await _Exchange(self, number, kind, headers, scope, receive, send).run()


class _GoneError(Exception):
    """The caller has gone."""


class _Exchange:
    """A request for the RPC `number`, and its answer, of the media type `kind`. It holds a call of the
    guard from the beginning of the request until the answer is sent, as the adapter of gRPC does.

    Methods run on the event loop, with these exceptions: the thread that ends calls that last too long (`guard.Watch`)
    calls `_cut_off`; calls are answered in other threads, in `_answered`.
    """

    _call: Call | None = None
    _lateness: XlashapeError | None = None
    _watcher: asyncio.Task[None] | None = None
    _is_begun = _is_gone = _works = False

    def __init__(
        self,
        application: Application,
        number: int,
        kind: str,
        headers: dict[str, str],
        scope: dict[str, Any],
        receive: Receive,
        send: Send,
    ) -> None:
        self._application, self._guard = application, application.guard
        self._number, self._kind, self._headers = number, kind, headers
        self._name: str = scope["path"].rpartition(".")[2]
        client: tuple[str, int] = scope["client"] or ("", 0)
        self._peer = peer_of(*client)
        self._abort = partial(application.abort, client)
        self._receive, self._send = receive, send
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()

    async def run(self) -> None:
        """Answers the request. Any exception becomes an error for the caller."""
        try:
            await self._run()
        except (_GoneError, LocalProtocolError):
            self._abort()  # the caller has gone, or h11 has answered a broken request by itself
        except asyncio.CancelledError:
            if self._lateness is None:
                raise
            await self._refuse(self._lateness)
        except Exception as error:
            await self._refuse(error)
        finally:
            self._end()

    async def _run(self) -> None:
        seconds = timeout_of(self._headers)
        self._call = call = self._guard.begin(
            self._name, self._peer, seconds, self._cut_off, headers=self._headers.items
        )
        call.receives(is_first=True)
        if seconds is not None and seconds <= 0:
            raise DeadlineExceededError("the deadline passed before the request came")
        body = await self._body(call)
        check(self._headers, body)
        self._works = True
        future = self._loop.run_in_executor(self._application.threads, self._answered, call, body)
        future.add_done_callback(_retrieved)
        del body
        await asyncio.wait((future,), timeout=_WATCHED_SECONDS)
        if not future.done():
            self._watcher = self._loop.create_task(self._watch(call))
            await asyncio.wait((future,))
        answer = future.result()
        call.answered(len(answer))
        await self._write(200, [(b"content-type", self._kind.encode())], answer)

    async def _body(self, call: Call) -> bytes:
        """The whole body of the request. LimitExceededError if it is too long."""
        parts: list[bytes] = []
        most, size, held, more = self._application.max_body_bytes, 0, 0, True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise _GoneError
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                text = f"a request message has more than {most} bytes, which are allowed"
                raise LimitExceededError(text, limit="request_bytes", maximum=most)
            if size - held >= _HELD_STEP:
                call.hold(size)
                held = size
            more = message.get("more_body", False)
        call.received()
        return b"".join(parts)

    def _answered(self, call: Call, body: bytes) -> bytes:
        """The answer to a message. If the call is cut off, this still runs until it notices, and then ends its work."""
        try:
            message = self._guard.message(call, body, self._application.max_body_bytes)
            is_json = self._kind.endswith("json")
            return self._application.front.answer(self._number, call, message, is_json=is_json)
        finally:
            self._works = False
            if call.is_over:
                call.work_ended()

    async def _watch(self, call: Call) -> None:
        """Waits until the caller goes away or has its answer, and notes that the transport of the call has ended."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._is_gone = True
        call.transport_ended()

    def _cut_off(self, _: Call, error: XlashapeError) -> None:
        """Ends the exchange, from any thread. The caller gets the error, unless it is reading an answer: then the
        connection ends.
        """

        def cut_off() -> None:
            assert self._task is not None
            if self._lateness is not None or (self._call is not None and self._call.stage == "sending"):
                self._is_gone = True
                self._abort()
            else:
                self._lateness = error
                self._task.cancel()

        with contextlib.suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(cut_off)

    async def _write(self, status: int, headers: Headers, body: bytes) -> None:
        """Sends an answer, as long as the caller is there."""

        def check() -> None:
            if self._is_gone:
                raise _GoneError

        self._is_begun = True
        await _send_answer(self._send, status, [*headers, _NOSNIFF], body, check)

    async def _refuse(self, error: Exception) -> None:
        """Sends an error."""
        status = self._guard.refusal(self._name, self._call, error)
        if self._call is not None:
            self._call.hold(0)
            self._call.sends(0)
        if not self._is_begun:
            code, headers, body = failure(status)
            with contextlib.suppress(_GoneError):
                await self._write(code, [*headers, *_of_refusal(code)], body)

    def _end(self) -> None:
        """Ends the exchange: the answer was sent, or cannot be sent any more."""
        if self._watcher is not None:
            self._watcher.cancel()
        if self._call is not None:
            if not self._call.is_over:
                self._call.transport_ended()
            # A thread that still works ends the call's work when it sees that its caller has gone.
            if not self._works:
                self._call.work_ended()


def _retrieved(future: asyncio.Future[Any]) -> None:
    """Takes an error out of a future that nothing may await any more. Otherwise the event loop would log it as an error
    of the server.
    """
    if not future.cancelled():
        future.exception()


async def _send_answer(
    send: Send, status: int, headers: Headers, body: bytes = b"", check: Callable[[], None] = lambda: None
) -> None:
    """Sends an answer, in pieces: uvicorn takes a piece whole, and then waits for the caller to read. `check` is called
    before each.
    """
    if status != 304:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for at in range(0, len(body) or 1, _SENT_AT_ONCE):
        check()
        end = at + _SENT_AT_ONCE
        await send({"type": "http.response.body", "body": body[at:end], "more_body": end < len(body)})


async def _refuse(send: Send, status: int, code: str, text: str, *headers: tuple[bytes, bytes]) -> None:
    """Refuses a request for which no call begins, with an error in Connect's form."""
    body = json.dumps({"code": code, "message": text}, ensure_ascii=False).encode()
    sent = [(b"content-type", b"application/json"), _NOSNIFF, *_of_refusal(status), *headers]
    await _send_answer(send, status, sent, body)


def _of_refusal(status: int) -> Headers:
    """The headers of an answer with a status that is an error."""
    found = [(b"cache-control", b"no-store")]
    return [*found, (b"www-authenticate", b"Bearer")] if status == 401 else found


FOLDER: Final = Path(__file__).resolve().parent / "page"
_TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".json": b"application/json",
    ".svg": b"image/svg+xml",
    ".pb": b"application/octet-stream",
    ".gz": b"application/gzip",
}
_POLICY: Final = (
    "default-src 'self'; img-src 'self' blob: data:; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # The browser asks each time, and gets 304 if nothing has changed: so it shows the page of a new server at once.
    (b"cache-control", b"no-cache"),
)


class Page:
    """The files of the page, which are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, tuple[bytes, str, Headers]] = {}
        for each in folder.iterdir() if folder.is_dir() else ():
            kind = _TYPES.get(each.suffix)
            if kind is not None:
                content = each.read_bytes()
                tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
                sent = [(b"etag", tag.encode()), *_HEADERS, (b"content-type", kind)]
                self._files[f"/{each.name}"] = content, tag, sent
        if "/index.html" in self._files:
            self._files["/"] = self._files["/index.html"]

    def answer(self, verb: str, path: str, headers: Mapping[str, str]) -> tuple[int, Headers, bytes] | None:
        """Status, headers and content for a request; None for a path that is none of the page's. The answer to HEAD is
        that to GET: the server does not send the content.
        """
        file = self._files.get(path)
        if file is None:
            return None
        content, tag, sent = file
        if verb not in ("GET", "HEAD"):
            return 405, [(b"allow", b"GET, HEAD"), *_HEADERS], b""
        known = headers.get("if-none-match", "")
        if tag in known or known == "*":
            return 304, sent[:-1], b""
        return 200, sent, content


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
        # `xlashape_server.guard.Watch` bounds the wait, but not for the last part of an answer, after which the call
        # has ended.
        options.append((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000 + round(2e3 * config.max_send_seconds)))
    try:
        made = bound_socket(*config.host_and_port("http"), *options)
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
