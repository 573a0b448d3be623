"""The adapter between one HTTP request and the guard (`guard.py`). An `Exchange` is a request and its answer. It holds
a call of the guard from the beginning of the request until the answer is sent, as the adapter of gRPC does.

Methods run on the event loop, with these exceptions: the thread that ends calls that last too long (`calls.Watch`)
calls `cut_off`; calls are answered in other threads, and with them runs `_ended`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from google.rpc import code_pb2
from h11 import LocalProtocolError

from xlashape.errors import DeadlineExceededError, LimitExceededError, XlashapeError
from xlashape_server.calls import Call
from xlashape_server.guard import Guard
from xlashape_server.web.forms import Form, Headers, failure

T = TypeVar("T")
# Types of ASGI:
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_HELD_STEP = 1 << 20  # bytes of a body after which the call holds them
_SENT_AT_ONCE = 256 << 10  # bytes of an answer that are sent before the server waits for the caller to read
_WATCHED_SECONDS = 0.05  # a call that computes for longer is ended if its caller goes away


class _GoneError(Exception):
    """The caller has gone."""


class Exchange:
    """A request for the RPC `name`, and its answer in `form`. `headers` are added to the answer, with or without an
    error. `abort` ends the connection.
    """

    def __init__(
        self,
        name: str,
        guard: Guard,
        threads: ThreadPoolExecutor,
        form: Form,
        headers: Headers,
        receive: Receive,
        send: Send,
        abort: Callable[[], None],
    ) -> None:
        self.name = name
        self._guard = guard
        self._threads = threads
        self._form = form
        self._headers = headers
        self._receive, self._send, self._abort = receive, send, abort
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._call: Call | None = None
        self._lateness: XlashapeError | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._is_late = self._is_begun = self._is_gone = self._works = self._is_logged = False

    async def run(self, answer: Callable[[], Awaitable[None]], peer: str) -> None:
        """Runs `answer`. What it raises, the caller receives as an error. `peer` is the caller's address in the log."""
        try:
            await answer()
        except (_GoneError, LocalProtocolError):
            self._abort()  # the caller has gone, or h11 has answered a broken request by itself
        except asyncio.CancelledError:
            if self._lateness is None:
                raise
            await self._refuse(self._lateness, peer)
        except Exception as error:  # any exception becomes a status for the caller
            await self._refuse(error, peer)
        finally:
            self._end(peer)

    def begin(self, call: Call, seconds: float | None) -> None:
        """Takes over a call that the guard has admitted. `seconds` is the timeout that the caller has set; None without
        one.
        """
        self._call = call
        call.receives(is_first=True)
        if seconds is not None and seconds <= 0:
            raise DeadlineExceededError("the deadline passed before the request came")

    async def body(self, most: int) -> bytes:
        """The whole body of the request. LimitExceededError if it has more than `most` bytes."""
        call = self._begun()
        parts: list[bytes] = []
        size = held = 0
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise _GoneError
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise LimitExceededError(
                    f"a request message has more than {most} bytes, which are allowed",
                    limit="request_bytes",
                    maximum=most,
                )
            if size - held >= _HELD_STEP:
                call.hold(size)
                held = size
            more = message.get("more_body", False)
        call.received()
        return b"".join(parts)

    async def answer(self, answer: Callable[[Call], bytes], request_bytes: int) -> None:
        """Sends what `answer` returns, in a thread of the pool."""
        call = self._begun()
        body = await self._work(lambda: answer(call))
        call.answered(len(body))
        self._log("OK", call.caller.connection, request_bytes=request_bytes, response_bytes=len(body))
        await self._answer(200, self._form.head(), body)

    def cut_off(self, _: Call, error: XlashapeError) -> None:
        """Ends the exchange, from any thread. The caller gets the error, unless it is reading an answer: then the
        connection ends.
        """
        self._lateness = error
        with contextlib.suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._cut_off)

    def _cut_off(self) -> None:
        assert self._task is not None
        if self._is_late or (self._call is not None and self._call.stage == "sending"):
            self._is_gone = True
            self._abort()
        else:
            self._is_late = True
            self._task.cancel()

    def _begun(self) -> Call:
        assert self._call is not None
        return self._call

    async def _watch(self) -> None:
        """Waits until the caller goes away or has its answer, and notes that the transport of the call has ended."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._is_gone = True
        if self._call is not None:
            self._call.transport_ended()

    async def _work(self, function: Callable[[], T]) -> T:
        """The result of `function`, run in a thread of the pool. If the call is cut off, the function still runs until
        it notices.
        """
        self._works = True
        future = self._loop.run_in_executor(self._threads, self._ended, function)
        future.add_done_callback(_retrieved)
        await asyncio.wait((future,), timeout=_WATCHED_SECONDS)
        if not future.done():
            if self._watcher is None:
                self._watcher = self._loop.create_task(self._watch())
            await asyncio.wait((future,))
        return future.result()

    def _ended(self, function: Callable[[], T]) -> T:
        """The result of `function`. Ends the work of the call if its caller has gone meanwhile."""
        try:
            return function()
        finally:
            self._works = False
            if self._call is not None and self._call.is_over:
                self._call.work_ended()

    async def _answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Sends an answer, in pieces: uvicorn takes a piece whole, and then waits for the caller to read."""
        self._is_begun = True
        headers = [*headers, *self._headers, (b"content-length", b"%d" % len(body))]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        at = 0
        while not self._is_gone:
            part = body[at : at + _SENT_AT_ONCE] if len(body) > _SENT_AT_ONCE else body
            at += _SENT_AT_ONCE
            await self._send({"type": "http.response.body", "body": part, "more_body": at < len(body)})
            if at >= len(body):
                return
        raise _GoneError

    async def _refuse(self, error: Exception, peer: str) -> None:
        """Logs an error, and sends it."""
        status = self._guard.refusal(self.name, self._call, error)
        self._log(code_pb2.Code.Name(status.code), peer, error=status.message)
        if self._call is not None:
            self._call.hold(0)
            self._call.sends(0)
        if not self._is_begun:
            code, headers, body = failure(status)
            with contextlib.suppress(_GoneError):
                await self._answer(code, [*headers, *of_refusal(code)], body)

    def _log(self, code: str, peer: str, **facts: object) -> None:
        """Logs the exchange, unless it was logged already."""
        if not self._is_logged:
            self._is_logged = True
            seconds = None
            if self._call is not None:
                seconds = time.monotonic() - self._call.started
            self._guard.log.add(self.name, code, peer, seconds, transport="http", **facts)

    def _end(self, peer: str) -> None:
        """Ends the exchange: the answer was sent, or cannot be sent any more."""
        if self._watcher is not None:
            self._watcher.cancel()
        self._log("CANCELLED", peer)
        if self._call is not None:
            if not self._call.is_over:
                self._call.transport_ended()
            # A thread that still works ends the call's work when it sees that its caller has gone.
            if not self._works:
                self._call.work_ended()


def of_refusal(status: int) -> Headers:
    """The headers of an answer with a status that is an error."""
    found = [(b"cache-control", b"no-store")]
    return [*found, (b"www-authenticate", b"Bearer")] if status == 401 else found


def _retrieved(future: asyncio.Future[Any]) -> None:
    """Takes an error out of a future that nothing may await any more. Otherwise the event loop would log it as an error
    of the server.
    """
    if not future.cancelled():
        future.exception()
