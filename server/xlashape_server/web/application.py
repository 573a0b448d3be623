"""The ASGI application that answers every request over HTTP: RPCs in the form of Connect at /PACKAGE.SERVICE/METHOD,
and the page at /.

The paths are made from the descriptors of the RPCs, which the front answers as over gRPC. The guard (`guard.py`)
admits a request for an RPC before its body is read. RPCs with a stream are missing here: they are asked over gRPC.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from google.rpc import code_pb2
from h11 import LocalProtocolError

from xlashape.errors import DeadlineExceededError, LimitExceededError, XlashapeError
from xlashape_server.callers import caller_at, may_name, peer_of
from xlashape_server.calls import Call
from xlashape_server.config import Config
from xlashape_server.front import Front
from xlashape_server.guard import Guard
from xlashape_server.handlers import Rpc
from xlashape_server.web.forms import MEDIA_TYPES, Form, Headers, failure, mistake_of, timeout_of
from xlashape_server.web.page import FOLDER, Page

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
        self._host = config.http_host_and_port()[0]
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
        mistake = mistake_of(scope["headers"], scope["query_string"], scope["http_version"])
        if mistake:
            return await refuse(400, "invalid_argument", mistake, (b"connection", b"close"))
        if not may_name(headers.get("host"), self._host):
            return await refuse(421, "permission_denied", f"host: {headers['host'][:100]} is not a name of this server")
        page = self._page.answer(scope["method"], path, headers)
        if page is not None:
            return await _send_answer(send, *page)
        number = self._numbers.get(path)
        if number is None:
            self.guard.unknown_method()
            rpcs = "RPCs are at /PACKAGE.SERVICE/METHOD, such as /xlashape.v1.ShapeService/ByteSize"
            return await refuse(404, "unimplemented", f"there is no {path[:100]} over HTTP; {rpcs}")
        if scope["method"] != "POST":
            text = f"{scope['method'][:20]}: {path.rpartition('/')[2]} is asked with POST"
            return await refuse(405, "unimplemented", text, (b"allow", b"POST"))
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in MEDIA_TYPES:
            text = f"content-type: expected {' or '.join(MEDIA_TYPES)}, found {kind[:100] or 'none'}"
            return await refuse(415, "invalid_argument", text, (b"accept-post", ", ".join(MEDIA_TYPES).encode()))
        client: tuple[str, int] = scope["client"] or ("", 0)
        return await _Exchange(self, number, path.rpartition(".")[2], Form(kind, headers), client, receive, send).run()


class _GoneError(Exception):
    """The caller has gone."""


class _Exchange:
    """A request for the RPC `number` by `client`, and its answer in `form`. It holds a call of the guard from the
    beginning of the request until the answer is sent, as the adapter of gRPC does.

    Methods run on the event loop, with these exceptions: the thread that ends calls that last too long (`calls.Watch`)
    calls `_cut_off`; calls are answered in other threads, in `_answered`.
    """

    _call: Call | None = None
    _lateness: XlashapeError | None = None
    _watcher: asyncio.Task[None] | None = None
    _is_begun = _is_gone = _works = _is_logged = False

    def __init__(
        self,
        application: Application,
        number: int,
        name: str,
        form: Form,
        client: tuple[str, int],
        receive: Receive,
        send: Send,
    ) -> None:
        self._application, self._guard = application, application.guard
        self._number, self._name, self._form = number, name, form
        self._caller = caller_at(peer_of(*client))
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
        headers, guard = self._form.headers, self._guard
        seconds = timeout_of(headers)
        self._call = call = guard.begin(self._name, self._caller, seconds, self._cut_off, headers=headers.items)
        call.receives(is_first=True)
        if seconds is not None and seconds <= 0:
            raise DeadlineExceededError("the deadline passed before the request came")
        body = await self._body(call)
        request_bytes = len(body)
        self._form.check(body)
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
        self._log("OK", request_bytes=request_bytes, response_bytes=len(answer))
        await self._write(200, self._form.head(), answer)

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
            answer = self._application.front.answer(self._number, call, message, is_json=self._form.is_json)
            return self._form.written(answer)
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
        """Sends an answer, in pieces: uvicorn takes a piece whole, and then waits for the caller to read."""
        self._is_begun = True
        headers = [*headers, _NOSNIFF, (b"content-length", b"%d" % len(body))]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        for at in range(0, len(body) or 1, _SENT_AT_ONCE):
            if self._is_gone:
                raise _GoneError
            end = at + _SENT_AT_ONCE
            await self._send({"type": "http.response.body", "body": body[at:end], "more_body": end < len(body)})

    async def _refuse(self, error: Exception) -> None:
        """Logs an error, and sends it."""
        status = self._guard.refusal(self._name, self._call, error)
        self._log(code_pb2.Code.Name(status.code), error=status.message)
        if self._call is not None:
            self._call.hold(0)
            self._call.sends(0)
        if not self._is_begun:
            code, headers, body = failure(status)
            with contextlib.suppress(_GoneError):
                await self._write(code, [*headers, *_of_refusal(code)], body)

    def _log(self, code: str, **facts: object) -> None:
        """Logs the exchange, unless it was logged already."""
        if not self._is_logged:
            self._is_logged = True
            seconds = None if self._call is None else time.monotonic() - self._call.started
            self._guard.log.add(self._name, code, self._caller.connection, seconds, transport="http", **facts)

    def _end(self) -> None:
        """Ends the exchange: the answer was sent, or cannot be sent any more."""
        if self._watcher is not None:
            self._watcher.cancel()
        self._log("CANCELLED")
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


async def _send_answer(send: Send, status: int, headers: Headers, body: bytes = b"") -> None:
    """Sends an answer of one part."""
    if status != 304:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _refuse(send: Send, status: int, code: str, text: str, *headers: tuple[bytes, bytes]) -> None:
    """Refuses a request for which no call begins, with an error in Connect's form."""
    body = json.dumps({"code": code, "message": text}, ensure_ascii=False).encode()
    sent = [(b"content-type", b"application/json"), _NOSNIFF, *_of_refusal(status), *headers]
    await _send_answer(send, status, sent, body)


def _of_refusal(status: int) -> Headers:
    """The headers of an answer with a status that is an error."""
    found = [(b"cache-control", b"no-store")]
    return [*found, (b"www-authenticate", b"Bearer")] if status == 401 else found
