"""The guard admits every call and turns errors into statuses. It knows no transport: the adapters of gRPC
(`grpc_calls`) and of HTTP (`web`) call it.

    call = guard.begin("ShapeService/ByteSize", caller, seconds, cut_off)    # a place, or LimitExceededError
    try:
        request = guard.message(call, data)                                  # size, gzip
        answer = front.answer(number, call, request)
        call.answered(len(answer))                                           # ... the transport sends the answer ...
    except Exception as error:
        status = guard.refusal("ShapeService/ByteSize", call, error)         # google.rpc.Status, with details
    finally:
        call.work_ended()
    call.transport_ended()                         # when the caller has the whole answer, or has gone
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable

from google.rpc import code_pb2, error_details_pb2, status_pb2

from xlashape.errors import DeadlineExceededError, DecodeError, LimitExceededError, XlashapeError
from xlashape.limits import at_most
from xlashape_server.auth import Gate
from xlashape_server.callers import Caller, Places
from xlashape_server.calls import Call, CutOff, Room, Watch
from xlashape_server.children import DefectError, RefusedError
from xlashape_server.config import Config
from xlashape_server.counts import OTHER
from xlashape_server.process import CallLog
from xlashape_server.status import status_of

_log = logging.getLogger("xlashape_server.calls")

# The first bytes of gzip. No protobuf message begins with them: the first would be a tag of wire type 7, which does not
# exist.
_GZIP = b"\x1f\x8b"
_MOST_RATIO = 1032  # bytes of content that a byte of gzip can become
_MAX_STREAMS = 128  # calls of one front that answer a stream with a stream
_ENDLESS_SECONDS = 366 * 86_400.0  # the limit of a call that may take as long as its caller likes
_PART_OF_MESSAGES = 4  # a quarter of the memory may hold messages

Headers = Iterable[tuple[str, "str | bytes"]]


class Guard:
    """Admits calls, and turns errors into statuses."""

    def __init__(self, config: Config) -> None:
        share = config.caller_share
        self.watch = Watch(
            Room(config.worker_memory() // _PART_OF_MESSAGES),
            receive_seconds=config.max_receive_seconds,
            send_seconds=config.max_send_seconds,
        )
        self.places = Places("concurrent_calls", config.max_concurrent_calls, share)
        self.uploads = Places("concurrent_uploads", config.max_concurrent_uploads, share)
        self.streams = Places("concurrent_streams", _MAX_STREAMS, share)
        self.conversations = Places("reflection_streams", config.max_reflection_streams, share)
        self.share = share
        self._max_bytes = config.max_request_bytes
        self._max_seconds = config.max_call_seconds
        self.log = CallLog(config.log_calls_per_second)
        self._gate = Gate(config) if config.auth else None

    def begin(
        self,
        name: str,
        caller: Caller,
        seconds: float | None,
        cut_off: CutOff,
        places: tuple[Places, ...] | None = None,
        *,
        endless: bool = False,
        headers: Callable[[], Headers | None] = tuple,
    ) -> Call:
        """Admits a call. It holds its places until its `work_ended` and `transport_ended` were called.

        `seconds` is the timeout that the caller has set. `cut_off` ends the transport with an error. `places` are the
        kinds of places that the call needs, by default an ordinary one. An `endless` call may take as long as its
        caller likes. `headers` returns the headers of the request, which have the token of the caller.

        LimitExceededError if no place is free; UnauthenticatedError or PermissionDeniedError if the caller may not
        call.
        """
        if self._gate is not None:
            self._gate.admit(name, _authorization(headers()))
        limit = _ENDLESS_SECONDS if endless else self._max_seconds
        limit = limit if seconds is None else min(seconds, limit)
        call = self.watch.admit(name, caller, limit, cut_off, (self.places,) if places is None else places)
        call.is_endless = endless
        return call

    def message(self, call: Call, data: bytes, most: int | None = None) -> bytes:
        """A request message: decompressed if needed, with its bytes held. LimitExceededError if it is too large. `most`
        is a maximum in place of `max_request_bytes`.
        """
        maximum = self._max_bytes if most is None else most
        if data.startswith(_GZIP):
            data = inflated(data, maximum, call.hold)
        size = len(data)
        at_most(maximum, size, "request_bytes", "a request message has {} bytes")
        call.hold(size)
        return data

    def refusal(self, name: str, call: Call | None, error: Exception) -> status_pb2.Status:
        """The status that a call ends with because of `error`. An error that is not the library's is logged, and the
        caller gets no details of it. `call` is None if the call was not admitted.
        """
        status = self._refusal(name, call, error)
        recorder = self.watch.recorder
        if call is not None:
            if not call.is_over or call.code in (code_pb2.OK, code_pb2.CANCELLED):
                # Any other code is that of an error with which the call was cut off already; it stays.
                call.code = status.code
        elif recorder is not None:
            recorder.ended(name, status.code, None)
        if status.code == code_pb2.RESOURCE_EXHAUSTED and recorder is not None:
            recorder.refused(_limit_of(status))
        return status

    def unknown_method(self) -> None:
        """Counts a call of a method that does not exist. The transport refuses the call."""
        if self.watch.recorder is not None:
            self.watch.recorder.ended(OTHER, code_pb2.UNIMPLEMENTED, None)

    def _refusal(self, name: str, call: Call | None, error: Exception) -> status_pb2.Status:
        is_late = isinstance(error, DeadlineExceededError)
        if isinstance(error, RefusedError):
            if error.status.code != code_pb2.DEADLINE_EXCEEDED:
                return error.status
            is_late = True
            error = DeadlineExceededError(error.status.message)
        if is_late and call is not None:
            if call.is_over:
                return status_pb2.Status(code=code_pb2.CANCELLED, message="the caller has gone")
            if call.deadline - call.started >= self._max_seconds - 0.001:
                # The server's own limit passed, and not an earlier deadline of the caller.
                text = f"the call took more than {self._max_seconds:g} seconds"
                error = LimitExceededError(text, limit="call_seconds", maximum=self._max_seconds)
        if isinstance(error, MemoryError):
            error = LimitExceededError("the answer takes more memory than there is", limit="memory")
        if isinstance(error, XlashapeError):
            return status_of(error)
        if isinstance(error, DefectError):
            _log.error("%s failed", name, extra={"facts": {"exception": str(error)}})
        else:
            _log.error("%s failed", name, exc_info=error)
        return status_pb2.Status(code=code_pb2.INTERNAL, message="internal error; the server's log says more")


def _limit_of(status: status_pb2.Status) -> str:
    """The name of the limit that a status says was exceeded; empty if it names none."""
    for detail in status.details:
        quota = error_details_pb2.QuotaFailure()
        if detail.Unpack(quota) and quota.violations:
            return quota.violations[0].subject
    return ""


def _authorization(headers: Headers | None) -> str | None:
    """The first header `authorization` of a request; None without one."""
    for name, value in headers or ():
        if name == "authorization":
            return value if isinstance(value, str) else value.decode("latin-1")
    return None


def inflated(data: bytes, maximum: int, hold: Callable[[int], None]) -> bytes:
    """The content of a message that came compressed with gzip. LimitExceededError "request_bytes" if the content has
    more than `maximum` bytes. `hold` is called before with the most bytes that it may have, and may raise.
    """
    hold(min(maximum, _MOST_RATIO * len(data)))
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        content = inflater.decompress(data, maximum + 1)  # other threads run meanwhile
    except zlib.error as error:
        raise DecodeError(f"a compressed request message cannot be unpacked: {error}") from None
    if len(content) > maximum:
        text = f"a request message has more than {maximum} bytes, which are allowed"
        raise LimitExceededError(text, limit="request_bytes", maximum=maximum)
    if not inflater.eof:
        raise DecodeError("a compressed request message is truncated")
    if inflater.unused_data:
        unused = len(inflater.unused_data)
        raise DecodeError(f"{unused} bytes follow the end of a compressed request message")
    return content
