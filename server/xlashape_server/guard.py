"""The guard admits every call, runs its handler within bounds of time and memory, and turns errors into statuses. An
admitted call holds a place (the right to be in progress), and while it computes a turn (the right to compute). The
guard knows no transport: the adapters of gRPC (`grpc_calls`) and of HTTP (`web`) call it.

    call = guard.begin("ShapeService/ByteSize", identify, seconds, cut_off)  # a place, or LimitExceededError
    try:
        request = guard.message(call, data)                                  # size, gzip, memory
        answer = guard.answer(call, handler, request)                        # a turn, deadline, cancellation, memory
        call.sends(len(answer))                                              # ... the transport sends the answer ...
    except Exception as error:
        status = guard.refusal("ShapeService/ByteSize", call, error)         # google.rpc.Status, with details
    finally:
        call.work_ended()
    call.transport_ended()                         # when the caller has the whole answer, or has gone

An adapter calls `call.receives()` before it waits for a message of the caller, and `call.received()` afterwards; the
call gives its turn back meanwhile. Streams of answers come from `guard.answers`, streams of requests go through
`guard.messages`. The module `calls` says how long each stage of a call may last.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TypeVar

from google.rpc import code_pb2, status_pb2

from xlashape.errors import DeadlineExceededError, DecodeError, LimitExceededError, XlashapeError
from xlashape_server.access import AccessLog
from xlashape_server.auth import Gate
from xlashape_server.callers import Caller, Places, Shares
from xlashape_server.calls import Call, CutOff, Watch
from xlashape_server.config import Config
from xlashape_server.memory import Memory
from xlashape_server.status import status_of
from xlashape_server.telemetry.catalogue import OTHER
from xlashape_server.turns import Turns

_log = logging.getLogger("xlashape_server.calls")

# The first bytes of gzip. No protobuf message begins with them: the first would be a tag of wire type 7, which does not
# exist.
_GZIP = b"\x1f\x8b"

_SMALL = 32 << 10  # bytes of a message that needs no reservation
_STEP = 1 << 20  # bytes of content that are decompressed at once
_INPUT = 64 << 10  # bytes of a compressed message that are read at once
_LARGE = 128 << 10  # bytes of a message that takes long turns from the beginning
_MAX_STREAMS = 128  # calls in one worker that answer a stream with a stream
_ENDLESS_SECONDS = 366 * 86_400.0  # the limit of a call that may take as long as its caller likes

A = TypeVar("A")
Headers = Iterable[tuple[str, "str | bytes"]]


class Guard:
    """Admits calls, runs their handlers, and turns errors into statuses.

    A handler is given serialized requests and a deadline, a time of time.monotonic(), and raises errors of the library.
    `relieve` is called to empty caches when memory is short.
    """

    def __init__(self, config: Config, relieve: Callable[[], None] | None = None) -> None:
        self.shares = shares = Shares(config.caller_share, config.connection_share)
        self.memory = Memory(config.worker_memory(), relieve)
        self.watch = Watch(
            self.memory,
            Turns(config.threads, shares),
            receive_seconds=config.max_receive_seconds,
            send_seconds=config.max_send_seconds,
        )
        self.places = Places("concurrent_calls", config.max_concurrent_calls, shares)
        self._ordinary = (self.places,)
        self.uploads = Places("concurrent_uploads", config.max_concurrent_uploads, shares)
        self.streams = Places("concurrent_streams", _MAX_STREAMS, shares)
        self.conversations = Places("reflection_streams", config.max_reflection_streams, shares)
        self._max_bytes = config.max_request_bytes
        self._max_seconds = config.max_call_seconds
        self.access = AccessLog(config)
        self._gate = Gate(config) if config.auth else None

    def begin(
        self,
        name: str,
        identify: Callable[[], Caller],
        seconds: float | None,
        cut_off: CutOff,
        places: tuple[Places, ...] | None = None,
        *,
        endless: bool = False,
        headers: Callable[[], Headers | None] = tuple,
    ) -> Call:
        """Admits a call. It holds its places until its `work_ended` and `transport_ended` were called.

        `identify` returns the caller by its connection, and is called when the caller is needed. `seconds` is the
        timeout that the caller has set. `cut_off` ends the transport with an error. `places` are the kinds of places
        that the call needs, by default an ordinary one. An `endless` call may take as long as its caller likes.
        `headers` returns the headers of the request, which have the token of the caller.

        LimitExceededError if no place is free; UnauthenticatedError or PermissionDeniedError if the caller may not
        call.
        """
        if self._gate is not None:
            self._gate.admit(name, _authorization(headers()))
        limit = _ENDLESS_SECONDS if endless else self._max_seconds
        limit = limit if seconds is None else min(seconds, limit)
        call = self.watch.admit(name, identify, limit, cut_off, self._ordinary if places is None else places)
        call.is_endless = endless
        return call

    def message(self, call: Call, data: bytes, most: int | None = None) -> bytes:
        """A request message: decompressed if needed, with its memory reserved. LimitExceededError if it is too large.

        `most` is a maximum of few bytes in place of `max_request_bytes`. With it, the message is decompressed without a
        turn, since that is fast.
        """
        maximum = self._max_bytes if most is None else most
        reserved = 0
        if data.startswith(_GZIP):
            before = call.lease.size
            if most is not None or call.has_turn:
                data = self._inflated(call, data, maximum)
            else:
                with call:
                    data = self._inflated(call, data, maximum)
            reserved = call.lease.size - before
        size = len(data)
        if size > maximum:
            raise LimitExceededError(
                f"a request message has {size} bytes, of {maximum} allowed",
                limit="request_bytes",
                maximum=maximum,
                value=size,
            )
        if size > _SMALL:
            call.lease.take(2 * size - reserved)  # for the serialized message, and for the decoded message
            call.is_large = call.is_large or size > _LARGE
        return data

    def _inflated(self, call: Call, data: bytes, maximum: int) -> bytes:
        """The content of a compressed message, whose memory is reserved part by part, before each part is made."""
        held = call.lease.size

        def before(size: int) -> None:
            call.lease.take(2 * size - (call.lease.size - held))  # for the parts, and for the content joined of them
            call.is_large = call.is_large or size > _LARGE
            call.checkpoint()

        return inflated(data, maximum, before)

    def messages(self, call: Call, stream: Generator[bytes]) -> Generator[bytes]:
        """The messages of a stream of requests. The call has no turn while it waits for a message."""
        is_first = True
        while True:
            call.receives(is_first=is_first)
            try:
                data = next(stream, None)
            finally:
                call.received()
            if data is None and call.is_conversation:
                return
            call.take_turn()
            if data is None:
                return
            is_first = False
            reserved = call.lease.size
            message = self.message(call, data)
            del data
            added = call.lease.size - reserved
            yield message
            call.lease.keep(max(0, call.lease.size - added))

    def answer(
        self,
        call: Call,
        handler: Callable[[A, float], bytes],
        request: A,
        read: Callable[[A], A] | None = None,
        write: Callable[[bytes], bytes] | None = None,
    ) -> bytes:
        """The answer of the handler. Once it is computed, the call keeps reserved only the memory of the answer.

        `read` and `write` convert the request and the answer of a transport whose messages have another form than those
        of the handler, such as JSON.
        """
        with call:
            if read is not None:
                request = read(request)
            answer = handler(request, call.deadline)
            if write is not None:
                answer = write(answer)
        size = len(answer)
        if size > _SMALL or call.lease.size:
            call.lease.keep(size)
        return answer

    def answers(self, call: Call, handler: Callable[[A, float], Iterable[bytes]], request: A) -> Iterator[bytes]:
        """The answers of a handler that streams them. The call has no turn while an answer is sent."""
        reserved = call.lease.size
        call.is_conversation = isinstance(request, Generator)  # made by `messages`, which takes a turn for each message
        with call:
            answers = iter(handler(request, call.deadline))
        while True:
            with call:
                answer = next(answers, None)
            if answer is None:
                return
            call.lease.keep(max(reserved, len(answer)))
            call.sends(len(answer))
            yield answer
            call.sent()

    def refusal(self, name: str, call: Call | None, error: Exception) -> status_pb2.Status:
        """The status that a call ends with because of `error`. An error that is not the library's is logged, and the
        caller gets no details of it. `call` is None if the call was not admitted.
        """
        status, limit = self._refusal(name, call, error)
        recorder = self.watch.recorder
        if call is not None:
            if not call.is_over or call.code in (code_pb2.OK, code_pb2.CANCELLED):
                # Any other code is that of an error with which the call was cut off already; it stays.
                call.code = status.code
        elif recorder is not None:
            recorder.ended(name, status.code, None)
        if limit is not None and recorder is not None:
            recorder.refused(limit)
        return status

    def unknown_method(self) -> None:
        """Counts a call of a method that does not exist. The transport refuses the call."""
        if self.watch.recorder is not None:
            self.watch.recorder.ended(OTHER, code_pb2.UNIMPLEMENTED, None)

    def _refusal(self, name: str, call: Call | None, error: Exception) -> tuple[status_pb2.Status, str | None]:
        """The status, and the name of the limit if one was exceeded."""
        if isinstance(error, DeadlineExceededError) and call is not None:
            if call.is_over:
                return status_pb2.Status(code=code_pb2.CANCELLED, message="the caller has gone"), None
            if call.deadline - call.started >= self._max_seconds - 0.001:
                # The server's own limit passed, and not an earlier deadline of the caller.
                error = LimitExceededError(
                    f"the call took more than {self._max_seconds:g} seconds",
                    limit="call_seconds",
                    maximum=self._max_seconds,
                    field=error.path,
                )
        if isinstance(error, MemoryError):
            error = LimitExceededError("the answer takes more memory than there is", limit="memory")
        if isinstance(error, XlashapeError):
            return status_of(error), error.limit if isinstance(error, LimitExceededError) else None
        _log.error("%s failed", name, exc_info=error)
        return status_pb2.Status(code=code_pb2.INTERNAL, message="internal error; the server's log says more"), None


def _authorization(headers: Headers | None) -> str | None:
    """The first header `authorization` of a request; None without one."""
    for name, value in headers or ():
        if name == "authorization":
            return value if isinstance(value, str) else value.decode("latin-1")
    return None


def inflated(data: bytes, maximum: int, before: Callable[[int], None]) -> bytes:
    """The content of a message that came compressed with gzip. LimitExceededError "request_bytes" if the content has
    more than `maximum` bytes.

    Before each part is decompressed, `before` is called with the most bytes that the content may have after that part.
    It may raise.
    """
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
    parts: list[bytes] = []
    size, at, rest = 0, 0, b""
    # Each part is made of the next `_INPUT` bytes of the message, or of what the last part has left of them. Without
    # such pieces, zlib would copy the whole rest of the message for each part.
    while not inflater.eof and (rest or at < len(data)):
        if not rest:
            rest = data[at : at + _INPUT]
            at += len(rest)
        step = _SMALL if not size else _STEP
        before(size + step)
        try:
            part = inflater.decompress(rest, step)
        except zlib.error as error:
            raise DecodeError(f"a compressed request message cannot be unpacked: {error}") from None
        rest = inflater.unconsumed_tail
        size += len(part)
        if size > maximum:
            raise LimitExceededError(
                f"a request message has more than {maximum} bytes, which are allowed",
                limit="request_bytes",
                maximum=maximum,
            )
        parts.append(part)
    if not inflater.eof:
        raise DecodeError("a compressed request message is truncated")
    unused = len(inflater.unused_data) + len(data) - at
    if unused:
        raise DecodeError(f"{unused} bytes follow the end of a compressed request message")
    return parts[0] if len(parts) == 1 else b"".join(parts)
