"""What stands between gRPC and a handler: deadlines, refusals with their details, and a line for each call.

These are plain wrappers around the handlers, not grpc.ServerInterceptor: those cost a small call a fifth of its time.

    error of the library       status                google.rpc detail, beside ErrorInfo
    InvalidArgumentError …     INVALID_ARGUMENT      BadRequest: field, what is wrong, for text with line and column
    NotFoundError              NOT_FOUND             ResourceInfo: kind and name
    LimitExceededError         RESOURCE_EXHAUSTED    QuotaFailure: the limit's name
    DeadlineExceededError      DEADLINE_EXCEEDED
    UnsupportedError           UNIMPLEMENTED
    UnavailableError           UNAVAILABLE
    anything else              INTERNAL              none: what happened is in the log, not in the answer

ErrorInfo holds the error's code in capitals and everything it knows, so that a client raises what was raised here.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NoReturn, Protocol, TypeVar

import grpc
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from xlashape.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    LimitExceededError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
    XlashapeError,
    path_text,
)
from xlashape_server.config import Config

__all__ = ["DOMAIN", "Guard", "status_of"]

DOMAIN = "xlashape"
"""The domain of our google.rpc.ErrorInfo."""

_log = logging.getLogger("xlashape_server.calls")

_SMALL_BYTES = 1024  # of a request; `max_request_bytes` is no less

# Errors travel in headers, of which clients take 8 KiB: the message with three characters for each byte beyond ASCII, the details in base64.
_MAX_TEXT = 400  # bytes of one text
_MAX_INFO = 2400  # bytes of the ErrorInfo

_CODES: tuple[tuple[type[XlashapeError], int], ...] = (
    (InvalidArgumentError, code_pb2.INVALID_ARGUMENT),
    (NotFoundError, code_pb2.NOT_FOUND),
    (LimitExceededError, code_pb2.RESOURCE_EXHAUSTED),
    (DeadlineExceededError, code_pb2.DEADLINE_EXCEEDED),
    (UnsupportedError, code_pb2.UNIMPLEMENTED),
    (UnavailableError, code_pb2.UNAVAILABLE),
)

R = TypeVar("R", bytes, Iterator[bytes])
Q = TypeVar("Q")
A = TypeVar("A")

Quick = Callable[[bytes], bytes]
QuickOrLong = Callable[..., bytes]
Long = Callable[[bytes, float], bytes]
FromStream = Callable[[Iterator[bytes], float], bytes]
ToStream = Callable[[bytes, float], Iterator[bytes]]


class Context(Protocol):
    """What is used of grpc.ServicerContext."""

    def time_remaining(self) -> float | None:
        """Seconds until the call's deadline."""
        ...

    def abort_with_status(self, status: grpc.Status) -> NoReturn:
        """Ends the call."""
        ...

    def peer(self) -> str:
        """Who calls."""
        ...

    def cancel(self) -> Any:
        """Ends the call from another thread."""
        ...

    def is_active(self) -> bool:
        """Whether the call has not ended yet."""
        ...


class Guard:
    """Makes what grpc calls out of a handler. Deadlines handed on are times of time.monotonic()."""

    def __init__(self, config: Config) -> None:
        self._max_bytes = config.max_request_bytes
        self._max_seconds = config.max_call_seconds
        self._debug = config.log_level == "debug"

    def quick(self, name: str, handler: Quick) -> Callable[[bytes, Context], bytes]:
        """For a handler that takes no time to speak of, and so no deadline."""
        max_bytes = self._max_bytes

        def answer(request: bytes, context: Context) -> bytes:
            try:
                if len(request) > max_bytes:
                    raise self._too_large(request)
                return handler(request)
            except Exception as error:  # whatever it is, the caller gets a status
                self._refuse(name, error, context)

        return self._logged(name, answer) if self._debug else answer

    def quick_if_small(self, name: str, handler: QuickOrLong) -> Callable[[bytes, Context], bytes]:
        """For a handler that looks at a deadline, its second argument, unless the request is too small to take time."""
        max_bytes = self._max_bytes

        def answer(request: bytes, context: Context) -> bytes:
            try:
                if len(request) <= _SMALL_BYTES:
                    return handler(request)
                deadline = self._deadline(context)
                if len(request) > max_bytes:
                    raise self._too_large(request)
                return handler(request, deadline)
            except Exception as error:
                self._refuse(name, error, context)

        return self._logged(name, answer) if self._debug else answer

    def long(self, name: str, handler: Long) -> Callable[[bytes, Context], bytes]:
        """For a handler that looks at a deadline while it works."""

        def answer(request: bytes, context: Context) -> bytes:
            deadline = self._deadline(context)
            try:
                if len(request) > self._max_bytes:
                    raise self._too_large(request)
                return handler(request, deadline)
            except Exception as error:
                self._refuse(name, error, context)

        return self._logged(name, answer) if self._debug else answer

    def from_stream(
        self, name: str, handler: FromStream, *, limit: str, most: int
    ) -> Callable[[Iterator[bytes], Context], bytes]:
        """For a handler of a stream of requests, of which `most` at a time are taken: a client that sends nothing holds a thread."""
        free = threading.BoundedSemaphore(most)

        def answer(requests: Iterator[bytes], context: Context) -> bytes:
            deadline = self._deadline(context)
            try:
                with _taken(free, limit, most), closing(_until(deadline, requests)) as come:
                    return handler(self._sized(come), deadline)
            except grpc.RpcError:
                raise  # the client went away in the middle of its stream
            except Exception as error:
                self._refuse(name, error, context)

        return self._logged(name, answer) if self._debug else answer

    def conversation(
        self, name: str, handler: Callable[[Iterator[Q]], Iterable[A]], *, limit: str, most: int
    ) -> Callable[[Iterator[Q], Context], Iterator[A]]:
        """For a handler that answers a stream with a stream, message by message; `most` at a time are taken."""
        free = threading.BoundedSemaphore(most)

        def answer(requests: Iterator[Q], context: Context) -> Iterator[A]:
            deadline = self._deadline(context)
            try:
                with _taken(free, limit, most), self._ending(context), closing(_until(deadline, requests)) as come:
                    yield from handler(come)
            except grpc.RpcError:
                raise
            except Exception as error:
                self._refuse(name, error, context)

        return answer

    def to_stream(self, name: str, handler: ToStream) -> Callable[[bytes, Context], Iterator[bytes]]:
        """For a handler that answers with a stream of responses."""

        def answer(request: bytes, context: Context) -> Iterator[bytes]:
            deadline = self._deadline(context)
            started, count, size = time.perf_counter(), 0, 0
            with self._ending(context):
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
            if self._debug:
                _log_call(
                    name, "OK", started, context, request_bytes=len(request), response_bytes=size, responses=count
                )

        return answer

    @contextmanager
    def _ending(self, context: Context) -> Generator[None]:
        """Cancels a call that takes longer than any may: its client may not read what is sent, and would hold a thread forever."""
        # A second later than the deadline of all else, whose error says more.
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

    def _deadline(self, context: Context) -> float:
        remaining = context.time_remaining()
        seconds = self._max_seconds if remaining is None else min(remaining, self._max_seconds)
        return time.monotonic() + seconds

    def _refuse(self, name: str, error: Exception, context: Context) -> NoReturn:
        if isinstance(error, DeadlineExceededError):
            remaining = context.time_remaining()
            if remaining is None or remaining > 1.0:
                # The caller would have waited longer: it was our own limit.
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
        if self._debug:
            _log_call(name, code_pb2.Code.Name(status.code), None, context, error=status.message)
        context.abort_with_status(rpc_status.to_status(status))

    @staticmethod
    def _logged(name: str, answer: Callable[[R, Context], bytes]) -> Callable[[R, Context], bytes]:
        def logged(request: R, context: Context) -> bytes:
            started = time.perf_counter()
            response = answer(request, context)
            size = len(request) if isinstance(request, bytes) else None
            _log_call(name, "OK", started, context, request_bytes=size, response_bytes=len(response))
            return response

        return logged


@contextmanager
def _taken(free: threading.BoundedSemaphore, limit: str, most: int) -> Generator[None]:
    """LimitExceededError `limit` if all `most` places are taken; waiting for one would hold a thread too."""
    if not free.acquire(blocking=False):
        raise LimitExceededError(
            f"{limit.replace('_', ' ')}: {most} are under way, and more are not taken; try again",
            limit=limit,
            maximum=most,
        )
    try:
        yield
    finally:
        free.release()


def _until(deadline: float, requests: Iterator[Q]) -> Generator[Q]:
    """The requests as they come, each read when it is asked for. DeadlineExceededError if one does not come in time.

    Reading waits in a thread of its own, which ends with the call: what waits there can be woken by nothing but the client.
    """
    wanted: queue.SimpleQueue[bool] = queue.SimpleQueue()
    come: queue.SimpleQueue[tuple[Q] | Exception | None] = queue.SimpleQueue()

    def read() -> None:
        try:
            while wanted.get():
                item = next(requests, None)
                come.put(None if item is None else (item,))
        except Exception as error:
            come.put(error)

    threading.Thread(target=read, name="requests", daemon=True).start()
    try:
        while True:
            wanted.put(True)
            try:
                item = come.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise DeadlineExceededError("the deadline passed before the stream of requests ended") from None
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item[0]
    finally:
        wanted.put(False)


def _log_call(name: str, code: str, started: float | None, context: Context, **facts: object) -> None:
    known: dict[str, object] = {"rpc": name, "code": code, "peer": context.peer()}
    if started is not None:
        known["ms"] = round((time.perf_counter() - started) * 1e3, 3)
    known.update((key, value) for key, value in facts.items() if value is not None)
    _log.debug("call", extra={"facts": known})


def status_of(error: XlashapeError) -> status_pb2.Status:
    """The status of an error of the library, with its details."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), code_pb2.UNKNOWN)
    field = _short(error.field or "")
    says = str(error).splitlines()[0] if str(error) else ""
    head, colon, rest = says.partition(": ")
    if colon and head in [path_text(error.path[i:]) for i in range(len(error.path))]:
        says = rest  # the message began with the part of the path that the library knows
    status = status_pb2.Status(code=code, message=_short(f"{field}: {says}" if field else says))
    metadata = {key: _short(value) for key, value in error.details().items()}
    metadata["message"] = _short(error.message)
    info = error_details_pb2.ErrorInfo(reason=error.code.upper(), domain=DOMAIN, metadata=metadata)
    while info.ByteSize() > _MAX_INFO and len(metadata) > 1:
        del info.metadata[
            max((key for key in metadata if key != "message"), key=lambda key: len(metadata[key].encode()))
        ]
        metadata = dict(info.metadata)
    status.details.add().Pack(info)
    if code == code_pb2.INVALID_ARGUMENT:
        violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=_short(says))
        status.details.add().Pack(error_details_pb2.BadRequest(field_violations=[violation]))
    elif isinstance(error, NotFoundError):
        status.details.add().Pack(
            error_details_pb2.ResourceInfo(
                resource_type=error.kind, resource_name=_short(error.name), description=_short(error.message)
            )
        )
    elif isinstance(error, LimitExceededError):
        quota = error_details_pb2.QuotaFailure.Violation(subject=error.limit, description=_short(error.message))
        status.details.add().Pack(error_details_pb2.QuotaFailure(violations=[quota]))
    return status


def _short(text: str) -> str:
    data = text[: _MAX_TEXT + 1].encode("utf-8", "replace")
    return data.decode() if len(data) <= _MAX_TEXT else data[: _MAX_TEXT - 3].decode("utf-8", "ignore") + "…"
