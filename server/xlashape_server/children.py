"""The compute children of a front: which child a call gets, when there are more of them, and what ends one.

A child has one call at a time, so no other call suffers when it is killed. A call about a module goes to the child that
has it decoded, and waits for it briefly. While all children are busy, others are forked, up to a bound.

A call whose child was ended from outside, or had no memory left beside what it keeps, is asked again once, in a fresh
child. A call that exceeds its time, or ends two children, is refused, and for a while again without being tried.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from typing import Any, NamedTuple

from google.rpc import status_pb2

from xlashape.base.caches import BoundedCache
from xlashape.errors import DeadlineExceededError, LimitExceededError, UnavailableError, XlashapeError
from xlashape_server.child import Ask, Outcome
from xlashape_server.config import Config
from xlashape_server.modules import MOST_MODULES
from xlashape_server.process import memory_of
from xlashape_server.store import digests_in, faults

_log = logging.getLogger("xlashape_server.children")

_MOST = 8  # children of a front
_OF_ADDRESS, _OF_CONNECTION = 7, 6  # of them that compute for one address, and for one of its connections
_WAIT_SECONDS = 0.05  # how long a call waits for the child that has its module, or for any, before one is forked
_STARTS = 3  # attempts to start the first child, since processes that start may be killed too
_START_SECONDS = 60.0  # the most seconds for a zygote to import, or a child to be forked
_LOOK_SECONDS = 0.1  # how often a call looks whether its caller is still there
_GRACE_SECONDS = 1.0  # how long a child may go on after a deadline or a cancellation before it is killed
_MESSAGE_SECONDS = 2  # how long a child may stand still in the middle of a message
_IDLE_SECONDS = 30.0  # how long a child without calls stays, beside the first
_NAMED = 256  # bytes of an answer in which the name of an uploaded module is looked for
_REMEMBERED_SECONDS = 60.0  # of calls that ended children
_BOOTSTRAP = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from xlashape_server.child import main; main()"
)


REASONS = ("killed", "late", "memory")
"""Why a child has ended: from outside, at its deadline, or out of memory."""


class Question(NamedTuple):
    """What a child is asked. `number` is that of the RPC, `about` the digests of the modules, `key` names the content
    of the question, `caller` is its address and connection. `file` has the messages of a stream of requests. `is_over`
    says whether the caller has gone.
    """

    number: int
    payload: bytes
    seconds: float
    is_over: Callable[[], bool]
    key: bytes = b""
    about: tuple[str, ...] = ()
    caller: tuple[str, str] = ("", "")
    file: int = -1


class RefusedError(Exception):
    """The library has raised an error in a child; `status` says which."""

    def __init__(self, status: status_pb2.Status) -> None:
        super().__init__(status.message)
        self.status = status


class DefectError(Exception):
    """A handler has failed in a child. The text is the trace."""


class _EndedError(Exception):
    """The child has ended before it gave an answer, for one of the `REASONS`."""

    def __init__(self, reason: str, text: str = "") -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
        """Why the call is refused if it ends another child too; empty if it may be asked again at all events."""


class _Child:
    """A child as its front sees it: `modules` that it has decoded, and the `calls` that it has had."""

    def __init__(self, connection: Connection, pid: int) -> None:
        self.connection = connection
        self.pid = pid
        self.calls = 0
        self.began = self.idle_since = time.monotonic()
        self.address = ""
        self.modules: OrderedDict[str, None] = OrderedDict()
        self.is_closed = self.gives_way = False
        self._inherited = self._own_bytes()

    def ask(self, question: Question, end: float) -> bytes:
        """The answer, which must be there at the time `end` of time.monotonic()."""
        self.calls, self.began, self.address = self.calls + 1, time.monotonic(), question.caller[0]
        try:
            outcome, payload = self._outcome(question, end)
        except (EOFError, OSError) as error:
            self.close()
            if isinstance(error, TimeoutError) or time.monotonic() > end:
                raise DeadlineExceededError("the deadline passed before the answer was computed") from None
            if self.gives_way:
                raise _EndedError("memory") from None
            raise _EndedError("killed", "the call has ended the process that computed it, twice") from None
        if outcome is Outcome.MEMORY:
            self.close()
            raise _EndedError("memory", "the answer takes more memory than there is")
        if outcome is Outcome.ERROR:
            raise RefusedError(status_pb2.Status.FromString(payload))
        if outcome is Outcome.DEFECT:
            raise DefectError(payload.decode("utf-8", "replace"))
        self._has(question.about or digests_in(payload[:_NAMED]))  # an upload's answer names its module
        return payload

    def _outcome(self, question: Question, end: float) -> tuple[Outcome, bytes]:
        """How the call ends. EOFError or OSError if the child ends before; TimeoutError if it is late."""
        connection, has_file = self.connection, question.file >= 0
        connection.send(Ask(question.number, max(0.001, end - time.monotonic()), has_file))
        connection.send_bytes(question.payload)
        if has_file:
            send_handle(connection, question.file, self.pid)
        is_told = False
        while not connection.poll(_LOOK_SECONDS):
            now = time.monotonic()
            if now > end + _GRACE_SECONDS:
                raise TimeoutError
            if question.is_over() and not is_told:
                is_told, end = True, min(end, now)
                connection.send(None)
        return connection.recv(), connection.recv_bytes()

    def _has(self, digests: tuple[str, ...]) -> None:
        """Notes modules that the child has decoded."""
        for digest in digests:
            self.modules[digest] = None
            self.modules.move_to_end(digest)
        while len(self.modules) > MOST_MODULES:
            self.modules.popitem(last=False)

    def close(self) -> None:
        """Ends the child."""
        if not self.is_closed:
            self.is_closed = True
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
            self.connection.close()

    def taken_bytes(self) -> int:
        """The memory that the child has taken since it was forked; 0 where the system does not say."""
        return max(0, self._own_bytes() - self._inherited)

    def _own_bytes(self) -> int:
        _, resident, shared = memory_of(self.pid)
        return resident - shared


class Children:
    """The children of a front. `cores` are those that they may run on; empty: those of the front. `facts` are in each
    line of their log.
    """

    def __init__(self, config: Config, cores: frozenset[int] = frozenset(), **facts: Any) -> None:
        self._config, self._cores, self._facts = config, cores, facts
        self._changed = threading.Condition()
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()
        self._starting = self._waiting = 0
        self._is_tight = False  # no call begins beside another of its address
        self._busy: Counter[str] = Counter()
        self._refused: BoundedCache[bytes, tuple[float, XlashapeError]] = BoundedCache(
            "xlashape_server: refused questions", 1 << 20, lambda key, _: 1024
        )
        self._zygote: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._zygote_lock = threading.Lock()
        self._is_stopped = False
        self.ended: Counter[str] = Counter()
        """How many children have ended, by reason: one of `REASONS`."""

    def start(self) -> None:
        """Starts the zygote and the first child. UnavailableError if they cannot start."""
        for _ in range(_STARTS):
            with self._changed:
                self._starting += 1
            self._grow()
            if self._all:
                return
        raise UnavailableError("no compute child could be started")

    def stop(self) -> None:
        """Ends all children."""
        with self._changed:
            self._is_stopped = True
            found, self._idle = list(self._all), []
            self._changed.notify_all()
        for child in found:
            child.close()
        with self._zygote_lock:
            self._end_zygote()

    @property
    def pids(self) -> list[int]:
        """The process ids of the children."""
        return [child.pid for child in list(self._all)]

    def ask(self, question: Question) -> bytes:
        """The answer of a child. RefusedError for an error of the library, DefectError, DeadlineExceededError, or
        LimitExceededError if the call takes too much.
        """
        self._check_remembered(question.key)
        end = time.monotonic() + question.seconds
        is_again = False
        while True:
            child = self._take(question, end, is_fresh=is_again)
            try:
                return child.ask(question, end)
            except _EndedError as ended:
                self.ended[ended.reason] += 1
                had_all_memory = ended.reason == "memory" and child.calls == 1
                if ended.text and (is_again or had_all_memory):
                    raise self._remember(question.key, LimitExceededError(ended.text, limit="memory")) from None
                is_again = is_again or bool(ended.text)
            except DeadlineExceededError as error:
                self.ended["late"] += 1
                if question.seconds >= self._config.max_call_seconds - _GRACE_SECONDS and not question.is_over():
                    self._remember(question.key, error)
                raise
            finally:
                self._give(child, question)

    def _check_remembered(self, key: bytes) -> None:
        until, error = self._refused.get(key) or (0.0, None)
        if error is not None and time.monotonic() < until:
            raise error

    def _remember(self, key: bytes, error: XlashapeError) -> XlashapeError:
        if key:
            self._refused.put(key, (time.monotonic() + _REMEMBERED_SECONDS, error))
        return error

    # -- which child -------------------------------------------------------------------------------

    def _take(self, question: Question, end: float, *, is_fresh: bool) -> _Child:
        """A child for a call, which others cannot have until it is given back; a new one if `is_fresh`.
        DeadlineExceededError if none is free in time, or the caller has gone.
        """
        if is_fresh:
            with self._changed:
                while self._has_to_wait(question):
                    self._await(question, end, _LOOK_SECONDS)
            with self._zygote_lock:
                child = self._forked()
            with self._changed:
                self._all.add(child)
                self._busy.update({*question.caller})
            return child
        patience = time.monotonic() + _WAIT_SECONDS
        with self._changed:
            self._waiting += 1
            try:
                while True:
                    now = time.monotonic()
                    child = self._choice(question, is_patient=now < patience)
                    if child is not None:
                        self._idle.remove(child)
                        self._busy.update({*question.caller})
                        return child
                    if now >= patience and self._starting < self._waiting and not self._idle:
                        if not self._has_to_wait(question):
                            self._start_another()
                    self._await(question, end, _WAIT_SECONDS if now < patience else _LOOK_SECONDS)
            finally:
                self._waiting -= 1

    def _await(self, question: Question, end: float, seconds: float) -> None:
        """Waits for a change, under the lock. DeadlineExceededError if the call is not to wait any more."""
        left = end - time.monotonic()
        if self._is_stopped or question.is_over() or left <= 0:
            raise DeadlineExceededError("the deadline passed before a process was free")
        self._changed.wait(min(seconds, left))

    def _has_to_wait(self, question: Question) -> bool:
        """Whether there is too little memory for a call beside another of its address."""
        return self._is_tight and self._busy[question.caller[0]] > 0

    def _start_another(self) -> None:
        """Forks another child in a thread, unless there are as many as may be. Call it under the lock."""
        if len(self._all) + self._starting < _MOST and not self._is_stopped:
            self._starting += 1
            threading.Thread(target=self._grow, name="fork", daemon=True).start()

    def _choice(self, question: Question, *, is_patient: bool) -> _Child | None:
        """An idle child, or None if the call should wait. Call it under the lock."""
        address, connection = question.caller
        if not self._idle or self._has_to_wait(question):
            return None
        if self._busy[address] >= _OF_ADDRESS or self._busy[connection] >= _OF_CONNECTION:
            return None
        wanted = question.about
        having = [child for child in self._all if any(digest in child.modules for digest in wanted)]
        for child in having:
            if child in self._idle:
                return child
        if having and is_patient:
            return None
        return min(self._idle, key=lambda child: (len(child.modules) if wanted else -len(child.modules), child.calls))

    def _give(self, child: _Child, question: Question) -> None:
        with self._changed:
            self._busy -= Counter({*question.caller})  # which leaves out what is 0 then
            if child.is_closed or self._is_stopped:
                self._all.discard(child)
                child.close()
                if not self._all and not self._starting:
                    self._start_another()
            else:
                child.idle_since = time.monotonic()
                self._idle.append(child)
            self._changed.notify()

    def look(self) -> None:
        """Ends children that have waited for long, and others if all together have too much memory: those that wait,
        and then, of those that compute for the address with the most, the one whose call began last. It is asked again.
        Called several times a second.
        """
        now, most = time.monotonic(), self._config.worker_memory()
        tight = most // 4 * 3
        sizes = {child: child.taken_bytes() for child in list(self._all)}
        total = sum(sizes.values())
        with self._changed:
            for child in sorted(self._idle, key=lambda child: child.idle_since):
                if total > (tight if self._waiting else most) or (
                    len(self._all) > 1 and now - child.idle_since > _IDLE_SECONDS
                ):
                    self._idle.remove(child)
                    self._all.discard(child)
                    child.close()
                    total -= sizes.get(child, 0)
            self._is_tight = total > tight
            busy = [child for child in sizes if child in self._all and child not in self._idle]
        if total > most and busy:
            last = max(busy, key=lambda child: (self._busy[child.address], child.began))
            last.gives_way = len(busy) > 1
            with contextlib.suppress(OSError):
                os.kill(last.pid, signal.SIGKILL)

    # -- starting ----------------------------------------------------------------------------------

    def _grow(self) -> None:
        """Forks a child."""
        child = None
        try:
            with self._zygote_lock:
                if not self._is_stopped:
                    child = self._forked()
        except XlashapeError as error:
            if not self._is_stopped:
                _log.error("%s", error.message)
        with self._changed:
            self._starting -= 1
            if child is not None:
                self._all.add(child)
                self._idle.append(child)
            self._changed.notify_all()

    def _forked(self) -> _Child:
        """A new child. UnavailableError if it, or the zygote, does not start or is killed; LimitExceededError if no
        more files can be opened.
        """
        with faults():
            own, other = _connections()
        try:
            with other:  # so that a child that is killed ends the wait for it
                try:
                    self._have_forked(other)
                except (OSError, EOFError, UnavailableError):  # the zygote was killed
                    self._end_zygote()
                    self._have_forked(other)
            if not own.poll(_START_SECONDS):
                raise TimeoutError
            return _Child(own, own.recv())
        except (OSError, EOFError, UnavailableError) as error:
            own.close()
            raise UnavailableError(f"a compute child cannot be started: {error or type(error).__name__}") from error

    def _have_forked(self, connection: Connection) -> None:
        """Has the zygote, which is started if there is none, fork a child for its end of a connection."""
        if self._zygote is None or self._zygote[0].poll() is not None:
            self._end_zygote()
            self._zygote = self._started()
        process, control = self._zygote
        send_handle(control, connection.fileno(), process.pid)

    def _started(self) -> tuple[subprocess.Popen[bytes], Connection]:
        """A new zygote, and the connection to it."""
        own, other = _connections()
        with other:
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", _BOOTSTRAP, str(other.fileno()), json.dumps(sys.path)],
                stdin=subprocess.DEVNULL,
                pass_fds=(other.fileno(),),
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        if self._cores:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(process.pid, self._cores)
        try:
            own.send((self._config, self._facts))
            if own.poll(_START_SECONDS) and own.recv():
                return process, own
            raise EOFError
        except (OSError, EOFError):
            own.close()
            process.kill()
            process.wait()
            raise UnavailableError("the process that forks compute children has ended") from None

    def _end_zygote(self) -> None:
        if self._zygote is not None:
            process, control = self._zygote
            self._zygote = None
            control.close()
            process.kill()
            process.wait()


def _connections() -> tuple[Connection, Connection]:
    """Both ends of a connection. The first one raises OSError if a message does not go on for `_MESSAGE_SECONDS`, since
    the other end may be stopped.
    """
    own, other = socket.socketpair()
    for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
        own.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", _MESSAGE_SECONDS, 0))
    return Connection(own.detach()), Connection(other.detach())
