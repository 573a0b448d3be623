"""Calls in progress: what a call holds, how long each of its stages may last, and what ends a call that lasts longer. A
call holds a place (the right to be in progress), memory, and while it computes a turn (the right to compute).

    stage       the call waits for                           it lasts at most
    receiving   the next message of its caller               receive_seconds for the first message; until the deadline
    working     a turn, or the library                       until the deadline
    sending     its caller to read a message of the answer   send_seconds, and a second more for each 8 MiB

The `Watch` of a worker looks at all calls several times a second and cuts off those whose stage lasts too long: it ends
the transport of the call with an error. The caller gets the error where the transport can still send it.

Refusing calls does not free all memory: gRPC holds the headers that it has read, for example. A process that has more
than its maximum for seconds, although calls are refused, ends itself and is replaced: otherwise the system, out of
memory, would choose a process to end.
"""

from __future__ import annotations

import gc
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TypeAlias

from google.rpc import code_pb2

from xlashape.errors import DeadlineExceededError, LimitExceededError, XlashapeError
from xlashape.limits import set_checkpoint
from xlashape_server.callers import Caller, Places
from xlashape_server.logs import Rate
from xlashape_server.memory import Lease, Memory, resident_bytes, set_lease, trim
from xlashape_server.telemetry.catalogue import STAGES
from xlashape_server.telemetry.recorder import Recorder
from xlashape_server.turns import Turn, Turns

_log = logging.getLogger("xlashape_server.calls")

CutOff: TypeAlias = "Callable[[Call, XlashapeError], None]"
"""Ends the transport of a call with an error, from any thread."""

_CHECK_SECONDS = 0.1  # seconds between checks by the watch
# The most calls that one check cuts off. Each call that is cut off wakes its thread; if thousands woke at once, small
# calls of others would wait for them.
_MOST_CUT_OFF = 100
_CUT_OFF_AT_ONCE = 4  # calls cut off before each pause, in which the woken threads end and small calls are answered
_CUT_OFF_PAUSE_SECONDS = 0.002
# Bytes per second that a caller must read. It has the size of a message divided by this, in addition to `send_seconds`.
_SEND_BYTES_PER_SECOND = 8 << 20
# If the process has this many bytes more than calls have reserved, the collector of cycles and the allocator are asked
# to free some.
_TRIMMED_BYTES = 128 << 20
_TRIM_SECONDS = 5.0  # seconds between two such requests
_EXCESS_SECONDS = 10.0  # seconds for which a process may have more memory than its maximum
_LARGE_EXCESS, _LARGE_EXCESS_SECONDS = 1.5, 2.0  # seconds for which it may have 1.5 times its maximum
# The most seconds that one check adds to the time of too much memory. A longer pause means that the process was
# suspended, when it could not refuse calls either.
_LOOK_SECONDS = 0.2
_ROOM = 64 << 20  # bytes that threads, connections and packages take beyond what a process has before its first call
_END_CODE = 75  # the exit code of a process that ends itself
_REFUSAL_SECONDS = 0.5  # seconds between two times that calls are ended for memory, which takes so long to be freed
# With more than 1.25 times its maximum of memory, the process ends 8 calls at a time instead of one.
_MANY, _MANY_EXCESS = 8, 1.25
_MARGIN_SECONDS = 1.0  # seconds after the deadline in which the call itself may notice it, and give a better error


class Call(Turn):
    """One call, from its admission until both its work and its transport have ended. `cut_off` ends its transport with
    an error, from any thread.

    `identify` returns the caller; it is called when the caller is needed. Code of the library runs within a `with`
    block of the call.
    """

    _caller: Caller | None = None
    code: int = code_pb2.CANCELLED
    """What the call ends with, a code of google.rpc: CANCELLED until it is answered or refused."""
    is_conversation = False
    """Whether the call answers a stream of requests with a stream, and takes a turn only once a message has come."""
    is_endless = False
    """Whether the call may take as long as its caller likes."""
    is_over = False
    """Whether the transport has ended: the caller has the answer, or has cancelled, or was cut off."""
    refusal: LimitExceededError | None = None
    """The error that the call raises at its next checkpoint, because the process needs its memory; None as a rule."""
    stage = "working"
    """One of the stages in the table above."""

    def __init__(
        self, name: str, identify: Callable[[], Caller], seconds: float, cut_off: CutOff, watch: Watch
    ) -> None:
        self.name = name
        self._identify = identify
        self.cut_off = cut_off
        self._watch = watch
        self._turns = watch.turns
        self.lease = Lease(watch.memory)
        self.receive_seconds = watch.receive_seconds
        """Seconds within which the caller must send the first message."""
        self._places: list[tuple[Places, bool]] = []
        self._ended_parts = itertools.count(1)
        self.started = now = time.monotonic()
        self.deadline = now + seconds
        """A time of time.monotonic()."""
        self.stage_end = self.deadline + _MARGIN_SECONDS
        """When the watch cuts the call off if it is still in this stage, a time of time.monotonic()."""

    @property
    def caller(self) -> Caller:
        """The caller."""
        caller = self._caller
        if caller is None:
            caller = self._caller = self._identify()
        return caller

    def take_place(self, places: Places) -> None:
        """Takes one of the places, until the call has ended. LimitExceededError if none is free for its caller."""
        if places.take_open():
            self._places.append((places, True))
        else:
            places.take(self.caller)
            self._places.append((places, False))

    def check(self) -> None:
        """Raises if the call must stop: DeadlineExceededError if its deadline has passed or its caller has gone, or the
        `refusal`.
        """
        if self.refusal is not None:
            raise self.refusal
        if self.is_over:
            raise DeadlineExceededError("the caller has gone")
        if time.monotonic() > self.deadline:
            raise DeadlineExceededError("the deadline passed before the answer was computed")

    def checkpoint(self) -> None:
        """Checks for cancellation, the deadline and the end of the turn. The library calls this about every 256
        steps.
        """
        now = time.monotonic()
        if self.is_over or self.refusal is not None or now > self.deadline:
            self.check()
        if now >= self.turn_end:
            self.yield_turn(now)

    def receives_first(self) -> None:
        """Begins the stage of receiving: the call waits for its first message."""
        self.stage = "receiving"
        self.stage_end = min(self.deadline, time.monotonic() + self.receive_seconds)

    def received(self) -> None:
        """Ends the stage of receiving: a message has arrived."""
        self.stage, self.stage_end = "working", self.deadline + _MARGIN_SECONDS

    def receives(self, *, is_first: bool) -> None:
        """Begins to wait for the next message of the caller, without a turn."""
        self.give_back_turn()
        if is_first:
            self.receives_first()
        else:
            self.stage, self.stage_end = "receiving", self.deadline + _MARGIN_SECONDS

    def __enter__(self) -> Call:
        """Begins to compute in this thread: takes a turn, unless the call is a conversation, and sets the thread's
        lease and checkpoint to those of the call.
        """
        if not self.is_conversation:
            self.take_turn()
        set_lease(self.lease)
        set_checkpoint(self.checkpoint)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_checkpoint(None)
        set_lease(None)
        self.give_back_turn()

    def sends(self, size: int) -> None:
        """Begins the stage of sending: the call waits for its caller to read `size` bytes."""
        self.stage = "sending"
        self.stage_end = time.monotonic() + self._watch.send_seconds + size / _SEND_BYTES_PER_SECOND

    def answered(self, size: int) -> None:
        """The whole answer is there. From now on the call waits for its caller to read the last `size` bytes of it."""
        if not self.is_over:
            self.code = code_pb2.OK
        self.sends(size)

    sent = received
    """Ends the stage of sending: the caller has read the message, and the call works again."""

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
            self.end()
            recorder = self._watch.recorder
            if recorder is not None:
                seconds = None if self.is_endless else time.monotonic() - self.started
                recorder.ended(self.name, self.code, seconds)

    def end(self) -> None:
        """Frees the places and the memory of the call."""
        if self.lease.size:
            self.lease.release()
        for places, is_open in self._places:
            if is_open:
                places.give_back_open()
            else:
                places.give_back(self.caller)


class Watch:
    """The calls of a worker, and the thread that ends calls that last too long. `start` starts the thread."""

    def __init__(self, memory: Memory, turns: Turns, *, receive_seconds: float, send_seconds: float) -> None:
        self.memory = memory
        self.turns = turns
        self.receive_seconds = receive_seconds
        self.send_seconds = send_seconds
        self.calls: dict[int, Call] = {}
        """Calls in progress by id. Single operations on a dict need no lock."""
        self.recorder: Recorder | None = None
        """The recorder that counts calls; None without metrics."""
        self._thread: threading.Thread | None = None
        self._lines = Rate()
        self._next_refusal = 0.0
        self._next_trim = 0.0
        self._excess = self._large_excess = 0.0
        self._last_look = 0.0
        self.end_process: Callable[[], None] = _end_process

    def admit(
        self,
        name: str,
        identify: Callable[[], Caller],
        seconds: float,
        cut_off: CutOff,
        places: tuple[Places, ...],
    ) -> Call:
        """A new call that holds a place of each kind. LimitExceededError if no place is free."""
        call = Call(name, identify, seconds, cut_off, self)
        try:
            for kind in places:
                call.take_place(kind)
        except LimitExceededError:
            call.end()
            raise
        self.calls[id(call)] = call
        return call

    def by_stage(self) -> dict[str, int]:
        """How many calls are in each of the `STAGES` of metrics; a working call without a turn counts as waiting."""
        found: dict[str, int] = dict.fromkeys(STAGES, 0)
        for call in list(self.calls.values()):
            waits = call.stage == "working" and not call.has_turn
            found["waiting" if waits else call.stage] += 1
        return found

    def start(self) -> None:
        """Starts the thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            time.sleep(_CHECK_SECONDS)
            try:
                self._check_calls()
            except Exception as error:  # an error must not end the watch of all calls
                _log.error("the watch failed", exc_info=error)

    def _check_calls(self) -> None:
        now = time.monotonic()
        late = [call for call in list(self.calls.values()) if now > call.stage_end and not call.is_over]
        late.sort(key=lambda call: call.stage_end)
        for number, call in enumerate(late[:_MOST_CUT_OFF], 1):
            if not number % _CUT_OFF_AT_ONCE:
                time.sleep(_CUT_OFF_PAUSE_SECONDS)
            if call.is_over or call.stage_end >= now:
                continue  # during a pause, the call has ended or its next stage has begun
            call.stage_end = now + 1.0  # cut off once more in a second, if the call has not ended by then
            error = self._lateness(call, now)
            if self._lines.allows():
                facts = {"rpc": call.name, "stage": call.stage, "caller": call.caller.connection, "error": str(error)}
                _log.info("cut off", extra={"facts": {**facts, **self._lines.unlogged()}})
            call.code = code_pb2.CANCELLED  # if the error can still be sent, `Guard.refusal` sets its code
            if self.recorder is not None:
                self.recorder.cut_off(call.stage)
            call.cut_off(call, error)
        resident = resident_bytes()
        if resident > self.memory.maximum:
            self._relieve()
        self._check_excess()
        if (
            resident <= self.memory.maximum
            and now >= self._next_trim
            and resident > self.memory.base + self.memory.reserved + _TRIMMED_BYTES
        ):
            self._next_trim = now + _TRIM_SECONDS
            gc.collect()
            trim()

    def _lateness(self, call: Call, now: float) -> XlashapeError:
        """Why a call is cut off."""
        if call.refusal is not None:
            return call.refusal
        if call.stage == "sending":
            seconds = self.send_seconds
            text = f"the answer was not read within {seconds:g} seconds, and a second more for each 8 MiB"
            return LimitExceededError(text, limit="send_seconds", maximum=seconds)
        if call.stage == "receiving" and now < call.deadline:
            seconds = call.receive_seconds
            text = f"the request did not come within {seconds:g} seconds"
            return LimitExceededError(text, limit="receive_seconds", maximum=seconds)
        return DeadlineExceededError("the deadline passed before the answer was computed")

    def _check_excess(self) -> None:
        """Ends the process if it has had too much memory for some time, although calls were refused."""
        now = time.monotonic()
        passed, self._last_look = min(now - self._last_look, _LOOK_SECONDS), now
        # A new process begins with as much memory as this one had at first. So ending this one helps only well above
        # that.
        maximum = max(self.memory.maximum, 2 * self.memory.base + _ROOM)
        resident = resident_bytes()
        self._excess = self._excess + passed if resident > maximum else 0.0
        self._large_excess = self._large_excess + passed if resident > _LARGE_EXCESS * maximum else 0.0
        if self._excess >= _EXCESS_SECONDS or self._large_excess >= _LARGE_EXCESS_SECONDS:
            facts = {"resident_bytes": resident, "reserved_bytes": self.memory.reserved, "maximum_bytes": maximum}
            _log.error("too much memory for seconds, whatever is refused: ending this worker", extra={"facts": facts})
            self.end_process()

    def _relieve(self) -> None:
        """Ends the calls that hold the most memory if the process exceeds its maximum even after caches were emptied
        and the allocator gave memory back.
        """
        now = time.monotonic()
        if now < self._next_refusal:
            return
        self.memory.relieve()
        excess = resident_bytes() - self.memory.maximum
        if excess <= 0:
            return
        calls = [call for call in list(self.calls.values()) if not call.is_over and call.refusal is None]
        if not calls:
            return
        self._next_refusal = now + _REFUSAL_SECONDS
        calls.sort(key=lambda call: (call.lease.size, call.stage == "receiving"), reverse=True)
        count = _MANY if excess > (_MANY_EXCESS - 1) * self.memory.maximum else 1
        for call in calls[:count]:
            _log.warning("too much memory", extra={"facts": {"rpc": call.name, "excess_bytes": excess}})
            call.refusal = LimitExceededError(
                f"the server has more than {self.memory.maximum} bytes of memory; try again",
                limit="worker_memory",
                maximum=self.memory.maximum,
            )
            if call.stage != "working":
                call.cut_off(call, call.refusal)


def _end_process() -> None:
    """Ends the process at once. Its clients connect again, to a worker that remains or to the one that replaces it."""
    logging.shutdown()
    os._exit(_END_CODE)
