"""The guard between gRPC and a handler: deadlines, the size of requests, refusals, and a log line for each call.

These are plain wrappers around the handlers, not grpc.ServerInterceptor: interceptors cost a small call a fifth of its time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NoReturn, Protocol, TypeVar

import grpc
from google.rpc import code_pb2, status_pb2
from grpc_status import rpc_status

from xlashape.errors import DeadlineExceededError, LimitExceededError, XlashapeError
from xlashape_server.config import Config
from xlashape_server.status import status_of
from xlashape_server.streams import admitted, received

__all__ = ["CallContext", "Guard"]

_log = logging.getLogger("xlashape_server.calls")

R = TypeVar("R", bytes, Iterator[bytes])
Q = TypeVar("Q")
A = TypeVar("A")


class CallContext(Protocol):
    """What is used of grpc.ServicerContext."""

    def time_remaining(self) -> float | None:
        """Seconds until the call's deadline."""
        ...

    def abort_with_status(self, status: grpc.Status) -> NoReturn:
        """Ends the call."""
        ...

    def peer(self) -> str:
        """The address of the caller."""
        ...

    def cancel(self) -> Any:
        """Ends the call from another thread."""
        ...

    def is_active(self) -> bool:
        """Whether the call has not ended yet."""
        ...


class Guard:
    """Wraps handlers as functions that grpc calls, one method for each kind of RPC.

    A handler is given serialized requests and a deadline, a time of time.monotonic(), and raises errors of the library.
    """

    def __init__(self, config: Config) -> None:
        self._max_bytes = config.max_request_bytes
        self._max_seconds = config.max_call_seconds
        self._logs_calls = config.log_level == "debug"

    def unary(self, name: str, handler: Callable[[bytes, float], bytes]) -> Callable[[bytes, CallContext], bytes]:
        """For a handler of one request that answers with one response."""
        max_bytes = self._max_bytes

        def answer(request: bytes, context: CallContext) -> bytes:
            try:
                deadline = self._deadline(context)
                if len(request) > max_bytes:
                    raise self._too_large(request)
                return handler(request, deadline)
            except Exception as error:  # the caller gets a status, whatever was raised
                self._refuse(name, error, context)

        return self._logged(name, answer) if self._logs_calls else answer

    def client_stream(
        self, name: str, handler: Callable[[Iterator[bytes], float], bytes], *, limit: str, maximum: int
    ) -> Callable[[Iterator[bytes], CallContext], bytes]:
        """For a handler of a stream of requests; `maximum` streams at a time are taken, `limit` names that maximum."""
        free = threading.BoundedSemaphore(maximum)

        def answer(requests: Iterator[bytes], context: CallContext) -> bytes:
            deadline = self._deadline(context)
            try:
                with admitted(free, limit, maximum), closing(received(requests, deadline)) as stream:
                    return handler(self._sized(stream), deadline)
            except grpc.RpcError:
                raise  # the client went away in the middle of its stream
            except Exception as error:
                self._refuse(name, error, context)

        return self._logged(name, answer) if self._logs_calls else answer

    def server_stream(
        self, name: str, handler: Callable[[bytes, float], Iterator[bytes]]
    ) -> Callable[[bytes, CallContext], Iterator[bytes]]:
        """For a handler of one request that answers with a stream of responses."""

        def answer(request: bytes, context: CallContext) -> Iterator[bytes]:
            deadline = self._deadline(context)
            started, count, size = time.perf_counter(), 0, 0
            with self._cancelled_when_overdue(context):
                try:
                    if len(request) > self._max_bytes:
                        raise self._too_large(request)
                    for response in handler(request, deadline):
                        count, size = count + 1, size + len(response)
                        yield response
                        if not context.is_active():
                            break
                except Exception as error:
                    self._refuse(name, error, context)
            if self._logs_calls:
                _log_call(
                    name, "OK", started, context, request_bytes=len(request), response_bytes=size, responses=count
                )

        return answer

    def both_streams(
        self, name: str, handler: Callable[[Iterator[Q], float], Iterable[A]], *, limit: str, maximum: int
    ) -> Callable[[Iterator[Q], CallContext], Iterator[A]]:
        """For a handler that answers a stream with a stream, message by message; `maximum` and `limit` as in `client_stream`."""
        free = threading.BoundedSemaphore(maximum)

        def answer(requests: Iterator[Q], context: CallContext) -> Iterator[A]:
            deadline = self._deadline(context)
            try:
                with (
                    admitted(free, limit, maximum),
                    self._cancelled_when_overdue(context),
                    closing(received(requests, deadline)) as stream,
                ):
                    yield from handler(stream, deadline)
            except grpc.RpcError:
                raise
            except Exception as error:
                self._refuse(name, error, context)

        return answer

    def bulk_stream(
        self, name: str, handler: Callable[[Iterator[bytes], float], Iterator[bytes]], *, limit: str, maximum: int
    ) -> Callable[[Iterator[bytes], CallContext], Iterator[bytes]]:
        """`both_streams` for a handler of serialized requests, whose size is checked and whose calls are logged."""

        def sized(requests: Iterator[bytes], deadline: float) -> Iterator[bytes]:
            return handler(self._sized(requests), deadline)

        answer = self.both_streams(name, sized, limit=limit, maximum=maximum)
        if not self._logs_calls:
            return answer

        def logged(requests: Iterator[bytes], context: CallContext) -> Iterator[bytes]:
            started, count, size = time.perf_counter(), 0, 0
            for response in answer(requests, context):
                count, size = count + 1, size + len(response)
                yield response
            _log_call(name, "OK", started, context, response_bytes=size, responses=count)

        return logged

    @contextmanager
    def _cancelled_when_overdue(self, context: CallContext) -> Generator[None]:
        """Cancels a call that takes longer than any may: a client that does not read what is sent would hold a thread forever."""
        # A second after the deadline of the handler, whose error has more details.
        timer = threading.Timer(self._max_seconds + 1.0, context.cancel)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _sized(self, requests: Iterator[bytes]) -> Iterator[bytes]:
        for request in requests:
            if len(request) > self._max_bytes:
                raise self._too_large(request)
            yield request

    def _too_large(self, request: bytes) -> LimitExceededError:
        return LimitExceededError(
            f"a request message has {len(request)} bytes, of {self._max_bytes} allowed",
            limit="request_bytes",
            maximum=self._max_bytes,
            value=len(request),
        )

    def _deadline(self, context: CallContext) -> float:
        remaining = context.time_remaining()
        seconds = self._max_seconds if remaining is None else min(remaining, self._max_seconds)
        return time.monotonic() + seconds

    def _refuse(self, name: str, error: Exception, context: CallContext) -> NoReturn:
        """Ends the call with the status of `error`. An error that is not the library's is logged and not sent."""
        if isinstance(error, DeadlineExceededError):
            remaining = context.time_remaining()
            if remaining is None or remaining > 1.0:
                # The caller would have waited longer: it was the server's own limit.
                error = LimitExceededError(
                    f"the call took more than {self._max_seconds:g} seconds",
                    limit="call_seconds",
                    maximum=int(self._max_seconds),
                    field=error.path,
                )
        if isinstance(error, MemoryError):
            error = LimitExceededError("the answer takes more memory than there is", limit="memory")
        if isinstance(error, XlashapeError):
            status = status_of(error)
        else:
            _log.error("%s failed", name, exc_info=error)
            status = status_pb2.Status(code=code_pb2.INTERNAL, message="internal error; the server's log says more")
        if self._logs_calls:
            _log_call(name, code_pb2.Code.Name(status.code), None, context, error=status.message)
        context.abort_with_status(rpc_status.to_status(status))

    @staticmethod
    def _logged(name: str, answer: Callable[[R, CallContext], bytes]) -> Callable[[R, CallContext], bytes]:
        def logged(request: R, context: CallContext) -> bytes:
            started = time.perf_counter()
            response = answer(request, context)
            size = len(request) if isinstance(request, bytes) else None
            _log_call(name, "OK", started, context, request_bytes=size, response_bytes=len(response))
            return response

        return logged


def _log_call(name: str, code: str, started: float | None, context: CallContext, **facts: object) -> None:
    line: dict[str, object] = {"rpc": name, "code": code, "peer": context.peer()}
    if started is not None:
        line["ms"] = round((time.perf_counter() - started) * 1e3, 3)
    line.update((key, value) for key, value in facts.items() if value is not None)
    _log.debug("call", extra={"facts": line})
