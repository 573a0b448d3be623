"""The adapter between one HTTP request and the guard. The request holds a call from its first byte until its answer is
sent, as a call of gRPC does.

Everything here runs on the event loop, except `cut_off`, which the watch calls, and the functions that `work` runs in a
thread, since handlers wait for turns and compute.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from connectrpc.errors import ConnectError
from google.rpc import code_pb2

from xlashape.errors import DeadlineExceededError, LimitExceededError, XlashapeError
from xlashape_server.auth import Credentials
from xlashape_server.callers import Caller, Places
from xlashape_server.calls import Call
from xlashape_server.guard import Guard
from xlashape_server.web.messages import connect_error

T = TypeVar("T")
Message = dict[str, Any]  # types of ASGI

_ENVELOPE = 5  # bytes before each message of a stream
_LEASED_STEP = 1 << 20  # bytes that come in before they are reserved together
# that an early answer waits for the rest of its request: a client that still sends would not read it
LINGER_SECONDS = 0.5


class ConnectionEndedError(Exception):
    """Nothing more can be sent to the caller of an exchange, or received from it."""


class Exchange:
    """An HTTP request for the RPC `name`. `receive`, `send` are those of ASGI; `abort` ends the connection."""

    def __init__(
        self,
        name: str,
        guard: Guard,
        threads: ThreadPoolExecutor,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
        abort: Callable[[], None],
    ) -> None:
        self.name = name
        self.guard = guard
        self.call: Call | None = None
        self.is_logged = False
        self._refusal: ConnectError | None = None
        self._lateness: XlashapeError | None = None
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._threads = threads
        self._receive, self._send, self._abort = receive, send, abort
        self._context = copy_context()  # shared by all steps of the handler, which may run in different threads
        self._caller = Caller("", "")
        self._status = 0
        self._step: Future[Any] | None = None
        self._received = 0  # bytes of the message that is being received
        self._leased = 0  # of them
        self._has_body = True
        self._is_aborted = self._was_late = self._works = self._has_trailers = False
        self.max_body_bytes: int | None = None
        self.is_half_duplex = False
        self.accepts_gzip = self.has_envelopes = False
        """Whether answers may be compressed, and whether each message by itself: in a stream, and in gRPC-Web."""

    def begin(
        self,
        caller: Caller,
        seconds: float | None,
        places: tuple[Places, ...] | None,
        credentials: Credentials,
        headers: dict[str, str],
        system: str,
    ) -> None:
        """Asks the guard for a place. A refusal is kept until the protocol can report it: `check` raises it, and so
        does reading the request.
        """
        self._caller = caller
        try:
            self.call = self.guard.begin(
                self.name,
                lambda: caller,
                seconds,
                self.cut_off,
                places,
                credentials=lambda: credentials,
                headers=headers.items,
                system=system,
            )
        except Exception as error:  # any exception becomes a status for the caller
            self._refusal = self.refused(error)
            return
        self.call.receives_first()
        if seconds is not None and seconds <= 0:
            self._refusal = self.refused(DeadlineExceededError("the deadline passed before the request came"))

    def check(self) -> Call:
        """The call. ConnectError if it was not admitted."""
        if self._refusal is not None:
            raise self._refusal
        assert self.call is not None
        return self.call

    def cut_off(self, _: Call, error: XlashapeError) -> None:
        """Ends the exchange, from any thread; with an error if the answer has not begun."""
        self._lateness = error
        with contextlib.suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._cut_off)

    def _cut_off(self) -> None:
        assert self._task is not None
        if self._status or (self.call is not None and self.call.stage == "sending"):
            self._is_aborted = True
            self._abort()
        elif self._was_late:
            return
        self._was_late = True
        self._task.cancel()

    def _late(self, error: asyncio.CancelledError) -> ConnectError:
        """The error of an exchange that was cut off. Any other cancellation is raised."""
        if self._lateness is None or not self._was_late or self._is_aborted or self._task is None:
            raise error
        return self.refused(self._lateness)

    async def receive(self) -> Message:
        """The next part of the request. ConnectError if it takes too long, or is larger than it may be."""
        call = self.check()
        try:
            message = await self._receive()
        except asyncio.CancelledError as error:
            raise self._late(error) from None
        if message["type"] == "http.request":
            self._has_body = message.get("more_body", False)
            self._received += len(message.get("body", b""))
            if self.max_body_bytes is not None and self._received > self.max_body_bytes + _ENVELOPE:
                raise self.refused(
                    LimitExceededError(
                        f"a request message has more than {self.max_body_bytes} bytes, which are allowed",
                        limit="request_bytes",
                        maximum=self.max_body_bytes,
                    )
                )
            if self._received - self._leased >= _LEASED_STEP:
                try:
                    call.lease.take(self._received - self._leased)
                except LimitExceededError as error:
                    raise self.refused(error) from None
                self._leased = self._received
        elif message["type"] == "http.disconnect":
            self._has_body = False
        return message

    def message_came(self) -> None:
        """Ends the reservation for a received message: the guard reserves memory for it from now on."""
        if self._leased and self.call is not None:
            self.call.lease.keep(max(0, self.call.lease.size - self._leased))
        self._received = self._leased = 0

    async def send(self, message: Message) -> None:
        """Sends a part of the answer. Meanwhile the call is in the stage of sending, which has its own time limit."""
        if self._is_aborted:
            raise ConnectionEndedError("the call was cut off")
        if message["type"] == "http.response.start":
            self._status = message["status"]
            # An error that comes before the whole request, or instead of an answer: from now on the call waits for its
            # caller to read it.
            if self.call is not None and (self._status != 200 or self.call.stage == "receiving"):
                self.call.sends(0)
            self._has_trailers = message.get("trailers", False)
        is_last = not message.get("more_body", message["type"] == "http.response.start")
        is_last &= message["type"] == "http.response.trailers" or not self._has_trailers
        if is_last and self._has_body:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._rest_of_body(), 0 if self._was_late else LINGER_SECONDS)
        if not is_last or not self._has_body:
            await self._send(message)
            return
        # hypercorn reports the end of a request only to an application that reads it, and waits for that at the end of
        # the answer.
        reader = asyncio.ensure_future(self._disconnection())
        try:
            await self._send(message)
        finally:
            reader.cancel()

    async def _rest_of_body(self) -> None:
        while self._has_body:
            self._has_body = (await self._receive()).get("more_body", False)

    async def _disconnection(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def work(self, function: Callable[[], T]) -> T:
        """The result of `function`, run in a thread. Errors become ConnectErrors. A function that is cut off runs until
        its next checkpoint.
        """
        self._works = True
        future: Future[T] = self._threads.submit(self._context.run, self._ended, function)
        self._step = future
        result = asyncio.wrap_future(future)
        result.add_done_callback(_retrieved)
        try:
            return await asyncio.shield(result)
        except asyncio.CancelledError as error:
            raise self._late(error) from None
        except ConnectError:
            raise
        except Exception as error:  # as above
            raise self.refused(error) from None

    def _ended(self, function: Callable[[], T]) -> T:
        try:
            return function()
        finally:
            self._works = False
            if self.call is not None and self.call.is_over:
                self.call.work_ended()

    def close(self, steps: Generator[Any]) -> None:
        """Closes the generator whose steps `work` runs, after the current step."""

        def close(_: object = None) -> None:
            with contextlib.suppress(Exception):  # the error was sent already, or the client has gone
                self._context.run(steps.close)

        if self._step is not None and not self._step.done():
            self._step.add_done_callback(close)
        else:
            self._threads.submit(close)

    def wait_for(self, reading: Callable[[], Coroutine[Any, Any, T]], deadline: float) -> T:
        """The result of the coroutine `reading`, which runs on the event loop while this thread waits.
        DeadlineExceededError if it takes too long.
        """
        future = asyncio.run_coroutine_threadsafe(reading(), self._loop)
        try:
            return future.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            future.cancel()
            raise DeadlineExceededError("the deadline passed before the stream of requests ended") from None
        except BaseException as error:
            future.cancel()
            if isinstance(error, Exception):
                raise
            raise DeadlineExceededError("the caller has gone") from None

    def refused(self, error: Exception) -> ConnectError:
        """Logs an error, and converts it to the error that the caller receives."""
        status = self.guard.refusal(self.name, self.call, error)
        self.log(code_pb2.Code.Name(status.code), error=status.message)
        return connect_error(status)

    def succeeded(self, **facts: object) -> None:
        """Notes that the answer was computed; it may still be sent."""
        if self.guard.access.wants_success():
            self.log("OK", **facts)
        self.is_logged = True

    def log(self, code: str, **facts: object) -> None:
        """Logs this exchange, unless it was logged."""
        if not self.is_logged:
            self.is_logged = True
            seconds = None
            if self.call is not None:
                seconds = time.monotonic() - self.call.started
                if self.call.account is not None:
                    facts["identity"] = self.call.caller.identity
            self.guard.access.log(self.name, code, self._caller.connection, seconds, transport="http", **facts)

    def end(self) -> None:
        """Ends the exchange: the answer was sent, or cannot be sent any more."""
        if not self.is_logged and self._status >= 400 and self.call is not None:
            self.call.code = code_pb2.INVALID_ARGUMENT  # it was refused as no message of its protocol
        self.log(f"HTTP {self._status}" if self._status >= 400 else "CANCELLED")
        call = self.call
        if call is None:
            return
        call.transport_ended()
        # A thread that still works ends the call's work when it sees that its caller has gone.
        if not self._works:
            call.work_ended()


def _retrieved(future: asyncio.Future[Any]) -> None:
    """Nobody may be there any more to look at an error, which the event loop would log as one of the server."""
    if not future.cancelled():
        future.exception()
