"""The adapter between gRPC and the guard (`guard.py`), which gives a call a place (the right to be in progress), turns
(the right to compute), and bounds of time and memory.

`GrpcCalls` wraps handlers in plain functions that grpc calls. They are not a grpc.ServerInterceptor, which adds a fifth
to the time of a small call. RPCs of one request are registered as if their requests were streams. Otherwise grpc waits
for the request before it calls anything here, and a caller that never sends it would hold a thread for good.

A call holds a thread of grpc's pool from its beginning until its last response is handed to grpc, and most of that time
the thread waits. So the pool has a thread for each call that may be admitted, and some more to refuse further calls.
Turns bound how many of the threads compute at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Protocol

import grpc
from google.rpc import code_pb2
from grpc_status import rpc_status

from xlashape.errors import InvalidArgumentError, XlashapeError
from xlashape_server.callers import Newest, Places, caller_of
from xlashape_server.calls import Call
from xlashape_server.config import Config
from xlashape_server.guard import Guard
from xlashape_server.streams import received

_REFUSING_THREADS = 16  # threads beyond those of admitted calls, to refuse further calls

_MAX_PENDING = 1 << 16  # calls that grpc keeps before Python code receives them

_RECEIVE_SECONDS = 2.0  # seconds within which the request of a call without a turn must arrive
_SMALL_BYTES = 4096  # the most bytes of the request of a call without a turn: it holds the name of a service

_IDENTITY, _GZIP = 0, 2  # grpc's numbers of compression algorithms


class CallContext(Protocol):
    """The part of grpc.ServicerContext that this file uses."""

    def time_remaining(self) -> float | None:
        """Seconds until the call's deadline; None if the caller has set none."""
        ...

    def abort_with_status(self, status: grpc.Status) -> NoReturn:
        """Ends the call."""
        ...

    def peer(self) -> str:
        """The address of the caller."""
        ...

    def invocation_metadata(self) -> Any:
        """The headers of the request, as pairs of name and value."""
        ...

    def cancel(self) -> Any:
        """Ends the call from another thread."""
        ...

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Calls `callback` when the call ends. False if it has ended already."""
        ...


def server_options(config: Config) -> list[tuple[str, Any]]:
    """The options of a grpc server that the guard relies on."""
    return [
        # Twice the guard's limit: the guard refuses most messages that are too large, with an error that names the
        # limit.
        ("grpc.max_receive_message_length", min(2 * config.max_request_bytes, (1 << 31) - 1)),
        ("grpc.max_send_message_length", -1),
        # The guard decompresses messages itself, because grpc decompresses without a limit: 60 kB become 60 MB, and
        # 60 MB fill the memory.
        ("grpc.per_message_decompression", 0),
        ("grpc.compression_enabled_algorithms_bitset", 1 << _IDENTITY | 1 << _GZIP),
        # A connection needs no more streams than the calls that are admitted: further calls would only be refused.
        ("grpc.max_concurrent_streams", config.max_concurrent_calls),
        # The most calls that Python code has not received yet. By default grpc cancels some of them beyond 1,000,
        # whoever made them. The guard instead refuses calls by the shares of callers.
        ("grpc.server.max_pending_requests", _MAX_PENDING),
        ("grpc.server.max_pending_requests_hard_limit", _MAX_PENDING),
    ]


class CallThreads(ThreadPoolExecutor):
    """The threads of a grpc server. If the system refuses a new thread, a call waits for one that exists."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Runs the function in a thread, once one is free."""
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError:
            # The function is in the queue already. The error would end grpc's only thread that takes calls.
            return Future()


def thread_pool(config: Config) -> CallThreads:
    """The threads of a grpc server."""
    return CallThreads(config.max_concurrent_calls + _REFUSING_THREADS, "call")


class GrpcCalls:
    """Wraps handlers in functions that grpc calls; one method for each kind of RPC.

    A handler takes a serialized request or an iterator of them, and the deadline, a time of time.monotonic().
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def unary(
        self, name: str, handler: Callable[[bytes, float], bytes]
    ) -> Callable[[Iterator[bytes], CallContext], bytes]:
        """Wraps a handler from one request to one response."""
        guard = self._guard

        def answer(requests: Iterator[bytes], context: CallContext) -> bytes:
            with _Answering(guard, name, context) as call:
                request = guard.message(call, self._first(call, requests))
                response = guard.answer(call, handler, request)
                call.answered(len(response))
                if guard.access.wants_success():
                    self._log(name, call, request_bytes=len(request), response_bytes=len(response))
                return response

        return answer

    def server_stream(
        self, name: str, handler: Callable[[bytes, float], Iterable[bytes]]
    ) -> Callable[[Iterator[bytes], CallContext], Iterator[bytes]]:
        """Wraps a handler from one request to a stream of responses."""
        guard = self._guard

        def answer(requests: Iterator[bytes], context: CallContext) -> Iterator[bytes]:
            with _Answering(guard, name, context) as call:
                request = guard.message(call, self._first(call, requests))
                yield from self._streamed(name, call, guard.answers(call, handler, request), request_bytes=len(request))

        return answer

    def client_stream(
        self, name: str, handler: Callable[[Iterator[bytes], float], bytes], kind: Places
    ) -> Callable[[Iterator[bytes], CallContext], bytes]:
        """Wraps a handler from a stream of requests to one response. Each call needs an ordinary place and one of
        `kind`.
        """
        guard = self._guard

        def answer(requests: Iterator[bytes], context: CallContext) -> bytes:
            with (
                _Answering(guard, name, context, (guard.places, kind)) as call,
                closing(received(requests, call.deadline)) as stream,
            ):
                response = guard.answer(call, handler, guard.messages(call, stream))
                call.answered(len(response))
                if guard.access.wants_success():
                    self._log(name, call, response_bytes=len(response))
                return response

        return answer

    def both_streams(
        self, name: str, handler: Callable[[Iterator[bytes], float], Iterable[bytes]], places: tuple[Places, ...]
    ) -> Callable[[Iterator[bytes], CallContext], Iterator[bytes]]:
        """Wraps a handler from a stream of requests to a stream of responses. Each call needs a place of each kind in
        `places`.
        """
        guard = self._guard

        def answer(requests: Iterator[bytes], context: CallContext) -> Iterator[bytes]:
            with (
                _Answering(guard, name, context, places) as call,
                closing(received(requests, call.deadline)) as stream,
            ):
                yield from self._streamed(name, call, guard.answers(call, handler, guard.messages(call, stream)))

        return answer

    def apart(
        self, name: str, handler: Callable[[bytes], bytes], places: Places, newest: Newest
    ) -> Callable[[Iterator[bytes], CallContext], bytes]:
        """Wraps a fast handler, which takes no deadline and must answer even when all other calls are busy. Each call
        needs one of `places` and no turn. `newest` bounds the number of calls: a further call ends an old one.
        """
        guard = self._guard

        def answer(requests: Iterator[bytes], context: CallContext) -> bytes:
            with _Answering(guard, name, context, (places,)) as call:
                call.receive_seconds = min(call.receive_seconds, _RECEIVE_SECONDS)
                newest.add(call)
                response = handler(guard.message(call, self._first(call, requests), _SMALL_BYTES))
                call.answered(len(response))
                return response

        return answer

    def watch(
        self, name: str, handler: Callable[[bytes, Callable[[], None]], Iterable[bytes]], places: Places
    ) -> Callable[[Iterator[bytes], CallContext], Iterator[bytes]]:
        """Wraps a handler that streams until its caller goes away, and needs one of `places` and no turn. The handler
        is given the request, and a function that raises once the caller has gone.
        """
        guard = self._guard

        def answer(requests: Iterator[bytes], context: CallContext) -> Iterator[bytes]:
            with _Answering(guard, name, context, (places,), endless=True) as call:
                call.receive_seconds = min(call.receive_seconds, _RECEIVE_SECONDS)
                request = guard.message(call, self._first(call, requests), _SMALL_BYTES)
                for response in handler(request, call.check):
                    call.sends(len(response))
                    yield response
                    call.sent()

        return answer

    def _streamed(self, name: str, call: Call, responses: Iterator[bytes], **facts: object) -> Iterator[bytes]:
        """The responses of a call, until its caller has gone."""
        count = size = 0
        for response in responses:
            count, size = count + 1, size + len(response)
            yield response
            if call.is_over:
                break
        call.answered(0)
        if self._guard.access.wants_success():
            self._log(name, call, responses=count, response_bytes=size, **facts)

    @staticmethod
    def _first(call: Call, requests: Iterator[bytes]) -> bytes:
        """The only request of a call."""
        call.receives_first()
        request = next(requests, None)
        if request is None:
            raise InvalidArgumentError("a request message is missing")
        call.received()
        return request

    def _log(self, name: str, call: Call, **facts: object) -> None:
        """Logs a successful call."""
        seconds = time.monotonic() - call.started
        self._guard.access.log(name, "OK", call.caller.connection, seconds, **facts)


class _Answering:
    """One call, from its admission to the end of its work. An exception that is raised within the `with` block becomes
    the status of the call.
    """

    __slots__ = ("_context", "_guard", "call")

    def __init__(
        self,
        guard: Guard,
        name: str,
        context: CallContext,
        places: tuple[Places, ...] | None = None,
        *,
        endless: bool = False,
    ) -> None:
        self._guard = guard
        self._context = context
        identify = partial(caller_of, context)
        try:
            self.call = guard.begin(
                name,
                identify,
                context.time_remaining(),
                partial(_cut_off, guard, context),
                places,
                endless=endless,
                headers=context.invocation_metadata,
            )
        except Exception as error:
            status = guard.refusal(name, None, error)
            guard.access.log(name, code_pb2.Code.Name(status.code), identify().connection, error=status.message)
            context.abort_with_status(rpc_status.to_status(status))
        if not context.add_callback(self.call.transport_ended):
            self.call.transport_ended()

    def __enter__(self) -> Call:
        return self.call

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        call = self.call
        try:
            # An RpcError means that the caller went away before its request came, so no status is sent.
            if isinstance(error, Exception) and not isinstance(error, grpc.RpcError):
                self._refuse(error)
        finally:
            call.work_ended()

    def _refuse(self, error: Exception) -> NoReturn:
        """Ends the call with the status of `error`."""
        call = self.call
        status = self._guard.refusal(call.name, call, error)
        self._guard.access.log(
            call.name,
            code_pb2.Code.Name(status.code),
            call.caller.connection,
            time.monotonic() - call.started,
            error=status.message,
        )
        call.lease.release()
        call.sends(0)
        self._context.abort_with_status(rpc_status.to_status(status))


def _cut_off(guard: Guard, context: CallContext, call: Call, error: XlashapeError) -> None:
    """Ends a call from a thread that is not its own. The caller gets the status of `error` at once, even if it has not
    read the messages that were sent before.

    `cancel` of grpc's context gives no status: the caller would see CANCELLED without a reason. The call object within
    the context has a `cancel` with a status, but no public name.
    """
    status = guard.refusal(call.name, call, error)
    transport: Any = getattr(getattr(context, "_rpc_event", None), "call", None)
    try:
        transport.cancel(status.code, status.message)
    except Exception:  # another version of grpc, or the call has just ended
        context.cancel()
