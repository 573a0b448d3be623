"""The guard admits every call and turns errors into statuses. It knows no transport: the adapters of gRPC
(`grpc_calls`) and of HTTP (`web`) call it. It knows what a call holds, how long each of its stages may last, and what
ends a call that lasts longer.

    call = guard.begin("ShapeService/ByteSize", peer, seconds, cut_off)      # a place, or LimitExceededError
    try:
        request = guard.message(call, data)                                  # size, gzip
        answer = front.answer(number, call, request)
        call.answered(len(answer))                                           # ... the transport sends the answer ...
    except Exception as error:
        status = guard.refusal("ShapeService/ByteSize", call, error)         # google.rpc.Status, with details
    finally:
        call.work_ended()
    call.transport_ended()                         # when the caller has the whole answer, or has gone

    stage       the call waits for                           it lasts at most
    receiving   the next message of its caller               receive_seconds for the first message; until the deadline
    working     the library, here or in a compute child      until the deadline
    sending     its caller to read a message of the answer   send_seconds, and a second more for each 8 MiB

A call holds a place and the bytes of its messages. A thread looks at all calls several times a second and cuts off
those whose stage lasts too long: it ends the transport of the call with an error.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from google.rpc import code_pb2, error_details_pb2, status_pb2

from xlashape.errors import DeadlineExceededError, DecodeError, LimitExceededError, XlashapeError
from xlashape.limits import at_most
from xlashape_server.auth import Gate
from xlashape_server.callers import Places, address_of
from xlashape_server.children import DefectError, RefusedError
from xlashape_server.config import Config
from xlashape_server.conversions import status_of
from xlashape_server.counts import STAGES, Recorder

_log = logging.getLogger("xlashape_server.calls")

CutOff: TypeAlias = "Callable[[Call, XlashapeError], None]"
"""Ends the transport of a call with an error, from any thread."""
Headers = Iterable[tuple[str, "str | bytes"]]

_CHECK_SECONDS = 0.1  # seconds between looks at all calls
_MOST_CUT_OFF = 100  # calls that one look cuts off, since each wakes its thread
# Bytes per second that a caller must read. It has the size of a message divided by this, in addition to `send_seconds`.
_SEND_BYTES_PER_SECOND = 8 << 20
_MARGIN_SECONDS = 2.0  # seconds after the deadline in which the call itself may notice it, and give a better error
_SMALL = 32 << 10  # bytes of a message that are not counted
_MAX_STREAMS = 128  # calls of one front that answer a stream with a stream
_PART_OF_MESSAGES = 4  # a quarter of the memory may hold messages
# The first bytes of gzip. No protobuf message begins with them: the first would be a tag of wire type 7, which does not
# exist.
_GZIP = b"\x1f\x8b"
_MOST_RATIO = 1032  # bytes of content that a byte of gzip can become


class Call:
    """One call, from its admission until both its work and its transport have ended. `peer` is the address and port of
    its caller, `cut_off` ends its transport.
    """

    code: int = code_pb2.CANCELLED
    """What the call ends with, a code of google.rpc: CANCELLED until it is answered or refused."""
    is_over = False
    """Whether the transport has ended: the caller has the answer, or has cancelled, or was cut off."""
    stage = "working"
    held = 0
    """The bytes of its large messages."""

    def __init__(
        self, name: str, peer: str, seconds: float, cut_off: CutOff, guard: Guard, places: tuple[Places, ...]
    ) -> None:
        self.name = name
        self.peer = peer
        self.address = address_of(peer)
        self.cut_off = cut_off
        self._guard = guard
        self._places = places
        self._ended_parts = itertools.count(1)
        self.started = now = time.monotonic()
        self.deadline = now + seconds
        """A time of time.monotonic()."""
        self.stage_end = self.deadline + _MARGIN_SECONDS
        """When the call is cut off if it is still in this stage, a time of time.monotonic()."""

    def check(self) -> None:
        """DeadlineExceededError if the call must stop. The library calls this about every 256 steps."""
        if self.is_over:
            raise DeadlineExceededError("the caller has gone")
        if time.monotonic() > self.deadline:
            raise DeadlineExceededError("the deadline passed before the answer was computed")

    def hold(self, size: int) -> None:
        """Holds the bytes of a message instead of those held before. LimitExceededError if there is no room."""
        size = 0 if size <= _SMALL else size
        if size != self.held:
            self._guard.take_room(size - self.held)
            self.held = size

    def receives(self, *, is_first: bool) -> None:
        """Begins to wait for a message of the caller."""
        end = self.deadline + _MARGIN_SECONDS
        self.stage = "receiving"
        self.stage_end = min(self.deadline, time.monotonic() + self._guard.receive_seconds) if is_first else end

    def received(self) -> None:
        """Ends the stage of receiving: a message has arrived."""
        self.stage, self.stage_end = "working", self.deadline + _MARGIN_SECONDS

    def sends(self, size: int) -> None:
        """Begins the stage of sending: the call waits for its caller to read `size` bytes."""
        self.stage = "sending"
        self.stage_end = time.monotonic() + self._guard.send_seconds + size / _SEND_BYTES_PER_SECOND

    sent = received
    """Ends the stage of sending: the caller has read the message, and the call works again."""

    def answered(self, size: int) -> None:
        """The whole answer is there. From now on the call waits for its caller to read the last `size` bytes of it."""
        if not self.is_over:
            self.code = code_pb2.OK
        self.sends(size)

    def transport_ended(self) -> None:
        """Notes that the transport has ended: the caller has the whole answer, or has gone."""
        self.is_over = True
        self.work_ended()

    def work_ended(self) -> None:
        """Notes that the handler has returned or raised. The answer may still be sent. The call ends when both of its
        parts, work and transport, have ended.
        """
        if next(self._ended_parts) == 2:
            self.hold(0)
            self._guard.ended(self, self._places)


class Guard:
    """Admits calls, ends those that last too long, and turns errors into statuses. `recorder` counts calls."""

    def __init__(self, config: Config, recorder: Recorder | None = None) -> None:
        share = config.caller_share
        self.places = Places("concurrent_calls", config.max_concurrent_calls, share)
        self.uploads = Places("concurrent_uploads", config.max_concurrent_uploads, share)
        self.streams = Places("concurrent_streams", _MAX_STREAMS, share)
        self.conversations = Places("reflection_streams", config.max_reflection_streams, share)
        self.receive_seconds = config.max_receive_seconds
        self.send_seconds = config.max_send_seconds
        self.also: list[Callable[[], None]] = []
        """What is called at each look at the calls."""
        self.waiting: list[Any] = []
        """The `CallThreads` with calls that wait for their requests, and are not admitted before."""
        self.message_bytes = 0
        """The bytes of the large messages of all calls."""
        self._most_message_bytes = config.worker_memory() // _PART_OF_MESSAGES
        self._max_bytes = config.max_request_bytes
        self._max_seconds = config.max_call_seconds
        self._calls: dict[int, Call] = {}  # by id; single operations on a dict need no lock
        self._lock = threading.Lock()
        self._recorder = recorder or Recorder(())
        self._gate = Gate(config) if config.auth else None

    def begin(
        self,
        name: str,
        peer: str,
        seconds: float | None,
        cut_off: CutOff,
        places: tuple[Places, ...] | None = None,
        *,
        headers: Callable[[], Headers | None] = tuple,
    ) -> Call:
        """Admits a call. It holds its places until its `work_ended` and `transport_ended` were called.

        `seconds` is the timeout that the caller has set. `cut_off` ends the transport with an error. `places` are the
        kinds of places that the call needs, by default an ordinary one. `headers` returns the headers of the request,
        which have the token of the caller.

        LimitExceededError if no place is free; UnauthenticatedError or PermissionDeniedError if the caller may not
        call.
        """
        if self._gate is not None:
            self._gate.admit(name, _authorization(headers()))
        places = (self.places,) if places is None else places
        limit = self._max_seconds if seconds is None else min(seconds, self._max_seconds)
        call = Call(name, peer, limit, cut_off, self, places)
        for number, kind in enumerate(places):
            try:
                kind.take(call.address)
            except LimitExceededError:
                for taken in places[:number]:
                    taken.give_back(call.address)
                raise
        self._calls[id(call)] = call
        return call

    def ended(self, call: Call, places: tuple[Places, ...]) -> None:
        """Takes note of the end of a call, and its places back."""
        self._calls.pop(id(call), None)
        for kind in places:
            kind.give_back(call.address)
        seconds = time.monotonic() - call.started
        self._recorder.ended(call.name, call.code, seconds)
        if _log.isEnabledFor(logging.DEBUG):
            facts = {"rpc": call.name, "code": code_pb2.Code.Name(call.code), "peer": call.peer}
            _log.debug("call", extra={"facts": {**facts, "ms": round(seconds * 1e3, 3)}})

    def take_room(self, size: int) -> None:
        """Takes room for `size` bytes of messages, or gives it back if that is negative. LimitExceededError if there is
        no room.
        """
        with self._lock:
            if size > 0 and self.message_bytes + size > self._most_message_bytes:
                raise LimitExceededError(
                    f"the messages under way take {self._most_message_bytes} bytes, and {size} more are not taken; "
                    "try again",
                    limit="worker_memory",
                    maximum=self._most_message_bytes,
                    value=size,
                )
            self.message_bytes += size

    def message(self, call: Call, data: bytes, most: int | None = None) -> bytes:
        """A request message: decompressed if needed, with its bytes held. LimitExceededError if it is too large. `most`
        is a maximum in place of `max_request_bytes`.
        """
        data = content_of(data, self._max_bytes if most is None else most, call.hold)
        call.hold(len(data))
        return data

    def by_stage(self) -> dict[str, int]:
        """How many calls are in each of the `STAGES` of metrics."""
        found: dict[str, int] = dict.fromkeys(STAGES, 0)
        for call in list(self._calls.values()):
            found[call.stage] += 1
        found["receiving"] += sum(each.waiting for each in self.waiting)
        return found

    # -- calls that last too long ------------------------------------------------------------------

    def start(self) -> None:
        """Starts the thread that looks at the calls."""
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(_CHECK_SECONDS)
            for look in (self._cut_late_calls_off, *self.also):
                try:
                    look()
                except Exception as error:  # an error must not end the watch of all calls
                    _log.error("the watch failed", exc_info=error)

    def _cut_late_calls_off(self) -> None:
        now = time.monotonic()
        late = [call for call in list(self._calls.values()) if now > call.stage_end and not call.is_over]
        late.sort(key=lambda call: call.stage_end)
        for call in late[:_MOST_CUT_OFF]:
            if call.is_over or call.stage_end >= now:
                continue  # meanwhile the call has ended or its next stage has begun
            call.stage_end = now + 1.0  # cut off once more in a second, if the call has not ended by then
            error = self._lateness(call, now)
            facts = {"rpc": call.name, "stage": call.stage, "peer": call.peer, "error": str(error)}
            _log.debug("cut off", extra={"facts": facts})
            call.code = code_pb2.CANCELLED  # if the error can still be sent, `refusal` sets its code
            self._recorder.add("xlashape_calls_cut_off_total", call.stage)
            call.cut_off(call, error)

    def _lateness(self, call: Call, now: float) -> XlashapeError:
        """Why a call is cut off."""
        if call.stage == "sending":
            seconds = self.send_seconds
            text = f"the answer was not read within {seconds:g} seconds, and a second more for each 8 MiB"
            return LimitExceededError(text, limit="send_seconds", maximum=seconds)
        if call.stage == "receiving" and now < call.deadline:
            seconds = self.receive_seconds
            text = f"the request did not come within {seconds:g} seconds"
            return LimitExceededError(text, limit="receive_seconds", maximum=seconds)
        return DeadlineExceededError("the deadline passed before the answer was computed")

    # -- errors ------------------------------------------------------------------------------------

    def refusal(self, name: str, call: Call | None, error: Exception) -> status_pb2.Status:
        """The status that a call ends with because of `error`. An error that is not the library's is logged, and the
        caller gets no details of it. `call` is None if the call was not admitted.
        """
        status = self._refusal(name, call, error)
        if call is None:
            self._recorder.ended(name, status.code, None)
        elif not call.is_over or call.code in (code_pb2.OK, code_pb2.CANCELLED):
            # Any other code is that of an error with which the call was cut off already; it stays.
            call.code = status.code
        if status.code == code_pb2.RESOURCE_EXHAUSTED:
            self._recorder.refused(_limit_of(status))
        if _log.isEnabledFor(logging.DEBUG):
            facts = {"rpc": name, "code": code_pb2.Code.Name(status.code), "error": status.message}
            _log.debug("refused", extra={"facts": facts})
        return status

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


def content_of(data: bytes, maximum: int, hold: Callable[[int], None]) -> bytes:
    """The content of a message, which may be compressed with gzip. LimitExceededError "request_bytes" if it has more
    than `maximum` bytes. `hold` is called before it is unpacked with the most bytes that it may have, and may raise.
    """
    if not data.startswith(_GZIP):
        at_most(maximum, len(data), "request_bytes", "a request message has {} bytes")
        return data
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
