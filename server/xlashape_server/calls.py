"""Calls in progress: what a call holds, how long each of its stages may last, and what ends a call that lasts longer.

    stage       the call waits for                           it lasts at most
    receiving   the next message of its caller               receive_seconds for the first message; until the deadline
    working     the library, here or in a compute child      until the deadline
    sending     its caller to read a message of the answer   send_seconds, and a second more for each 8 MiB

A call holds a place and the bytes of its messages. The `Watch` of a front looks at all calls several times a second and
cuts off those whose stage lasts too long: it ends the transport of the call with an error.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from google.rpc import code_pb2

from xlashape.errors import DeadlineExceededError, LimitExceededError, XlashapeError
from xlashape_server.callers import Caller, Places
from xlashape_server.counts import STAGES, Recorder
from xlashape_server.process import Rate

_log = logging.getLogger("xlashape_server.calls")

CutOff: TypeAlias = "Callable[[Call, XlashapeError], None]"
"""Ends the transport of a call with an error, from any thread."""

_CHECK_SECONDS = 0.1  # seconds between checks by the watch
_MOST_CUT_OFF = 100  # calls that one check cuts off, since each wakes its thread
# Bytes per second that a caller must read. It has the size of a message divided by this, in addition to `send_seconds`.
_SEND_BYTES_PER_SECOND = 8 << 20
_MARGIN_SECONDS = 2.0  # seconds after the deadline in which the call itself may notice it, and give a better error
_SMALL = 32 << 10  # bytes of a message that are not counted


class Room:
    """The bytes of messages that calls hold: at most `maximum` of large ones."""

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.taken = 0
        self._lock = threading.Lock()

    def change(self, size: int) -> None:
        """Takes `size` bytes, or gives them back if it is negative. LimitExceededError if there is no room."""
        with self._lock:
            if size <= 0 or self.taken + size <= self.maximum:
                self.taken += size
                return
        raise LimitExceededError(
            f"the messages under way take {self.maximum} bytes, and {size} more are not taken; try again",
            limit="worker_memory",
            maximum=self.maximum,
            value=size,
        )


class Call:
    """One call, from its admission until both its work and its transport have ended. `cut_off` ends its transport."""

    code: int = code_pb2.CANCELLED
    """What the call ends with, a code of google.rpc: CANCELLED until it is answered or refused."""
    is_endless = False
    """Whether the call may take as long as its caller likes."""
    is_over = False
    """Whether the transport has ended: the caller has the answer, or has cancelled, or was cut off."""
    stage = "working"
    held = 0
    """The bytes of its large messages."""

    def __init__(
        self, name: str, caller: Caller, seconds: float, cut_off: CutOff, watch: Watch, places: tuple[Places, ...]
    ) -> None:
        self.name = name
        self.caller = caller
        self.cut_off = cut_off
        self._watch = watch
        self._places = places
        self._ended_parts = itertools.count(1)
        self.started = now = time.monotonic()
        self.deadline = now + seconds
        """A time of time.monotonic()."""
        self.stage_end = self.deadline + _MARGIN_SECONDS
        """When the watch cuts the call off if it is still in this stage, a time of time.monotonic()."""

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
            self._watch.room.change(size - self.held)
            self.held = size

    def receives(self, *, is_first: bool) -> None:
        """Begins to wait for a message of the caller."""
        end = self.deadline + _MARGIN_SECONDS
        self.stage = "receiving"
        self.stage_end = min(self.deadline, time.monotonic() + self._watch.receive_seconds) if is_first else end

    def received(self) -> None:
        """Ends the stage of receiving: a message has arrived."""
        self.stage, self.stage_end = "working", self.deadline + _MARGIN_SECONDS

    def sends(self, size: int) -> None:
        """Begins the stage of sending: the call waits for its caller to read `size` bytes."""
        self.stage = "sending"
        self.stage_end = time.monotonic() + self._watch.send_seconds + size / _SEND_BYTES_PER_SECOND

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
        self._part_ended()

    def work_ended(self) -> None:
        """Notes that the handler has returned or raised. The answer may still be sent."""
        self._part_ended()

    def _part_ended(self) -> None:
        """Ends the call when both of its parts, work and transport, have ended."""
        if next(self._ended_parts) == 2:
            self._watch.calls.pop(id(self), None)
            self.hold(0)
            for places in self._places:
                places.give_back(self.caller)
            if self._watch.recorder is not None:
                seconds = None if self.is_endless else time.monotonic() - self.started
                self._watch.recorder.ended(self.name, self.code, seconds)


class Watch:
    """The calls of a front, and the thread that ends calls that last too long. `also` is called at each check."""

    def __init__(self, room: Room, *, receive_seconds: float, send_seconds: float) -> None:
        self.room = room
        self.receive_seconds = receive_seconds
        self.send_seconds = send_seconds
        self.calls: dict[int, Call] = {}
        """Calls in progress by id. Single operations on a dict need no lock."""
        self.also: list[Callable[[], None]] = []
        self.waiting: list[Any] = []
        """The `CallThreads` with calls that wait for their requests, and are not admitted before."""
        self.recorder: Recorder | None = None
        """The recorder that counts calls; None without metrics."""
        self._lines = Rate()

    def admit(self, name: str, caller: Caller, seconds: float, cut_off: CutOff, places: tuple[Places, ...]) -> Call:
        """A new call that holds a place of each kind. LimitExceededError if no place is free."""
        for number, kind in enumerate(places):
            try:
                kind.take(caller)
            except LimitExceededError:
                for taken in places[:number]:
                    taken.give_back(caller)
                raise
        call = Call(name, caller, seconds, cut_off, self, places)
        self.calls[id(call)] = call
        return call

    def by_stage(self) -> dict[str, int]:
        """How many calls are in each of the `STAGES` of metrics."""
        found: dict[str, int] = dict.fromkeys(STAGES, 0)
        for call in list(self.calls.values()):
            found[call.stage] += 1
        found["receiving"] += sum(each.waiting for each in self.waiting)
        return found

    def start(self) -> None:
        """Starts the thread."""
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(_CHECK_SECONDS)
            for look in (self._check_calls, *self.also):
                try:
                    look()
                except Exception as error:  # an error must not end the watch of all calls
                    _log.error("the watch failed", exc_info=error)

    def _check_calls(self) -> None:
        now = time.monotonic()
        late = [call for call in list(self.calls.values()) if now > call.stage_end and not call.is_over]
        late.sort(key=lambda call: call.stage_end)
        for call in late[:_MOST_CUT_OFF]:
            if call.is_over or call.stage_end >= now:
                continue  # meanwhile the call has ended or its next stage has begun
            call.stage_end = now + 1.0  # cut off once more in a second, if the call has not ended by then
            error = self._lateness(call, now)
            if self._lines.allows():
                facts = {"rpc": call.name, "stage": call.stage, "caller": call.caller.connection, "error": str(error)}
                _log.info("cut off", extra={"facts": {**facts, **self._lines.unlogged()}})
            call.code = code_pb2.CANCELLED  # if the error can still be sent, `Guard.refusal` sets its code
            if self.recorder is not None:
                self.recorder.cut_off(call.stage)
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
