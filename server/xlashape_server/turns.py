"""Turns at the processor: which calls may compute at the same time.

The threads of a process share one core, so running many of them at the same time finishes none of them earlier, and delays the small calls of others.
A call begins with a short turn, of which there are many. A call that is not done by its end, or whose request is large, takes long turns from then
on, of which there are few, and gives its turn to the next one that waits at each end. Callers are served in rotation, and the connections of
each caller too.
"""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable

from xlashape_server.callers import Caller, Shares

__all__ = ["Turn", "Turns"]

# The interpreter's switch interval: how long a small call waits, at each of its steps, for a thread that computes. A short interval makes a small
# call 60 µs slower where no thread computes for long.
_SWITCH_SECONDS = 0.005
_BUSY_SWITCH_SECONDS = 0.0005
_SHORT_SECONDS = 0.01
_LONG_SECONDS = 0.02
_LONG_TURNS = (
    2  # at the same time: one, and one more beside a call that computes without checking whether its turn is over
)
_CHECK_SECONDS = 0.25  # seconds between checks that a waiting call must still wait


class _Gate:
    """Places that are given to callers in rotation. Half of them are open to any caller; of the other half, each caller has a share."""

    def __init__(self, places: int, shares: Shares) -> None:
        self._open = deque([None] * (places // 2))  # a place for each entry; taking one from a deque needs no lock
        self._scarce = places - places // 2
        self._per_identity, self._per_connection = shares.of(self._scarce)
        self._held: dict[str, int] = {}
        self._lock = threading.Lock()
        self.waiting: OrderedDict[str, OrderedDict[str, deque[_Waiter]]] = OrderedDict()
        """The waiting calls, by identity and connection."""

    def enter_open(self) -> bool:
        """Takes one of the open places, if one is free and no call waits."""
        if self.waiting:
            return False
        try:
            self._open.pop()
        except IndexError:
            return False
        return True

    def leave_open(self) -> None:
        """Frees a place that `enter_open` gave."""
        self._open.append(None)
        if self.waiting:
            with self._lock:
                self._hand_out()

    def enter(self, caller: Caller, check: Callable[[], None]) -> bool:
        """Waits for a place. Returns whether it is an open one. `check` is called while the call waits, and may raise."""
        if self.enter_open():
            return True
        with self._lock:
            waiter = _Waiter(caller)
            connections = self.waiting.setdefault(caller.identity, OrderedDict())
            connections.setdefault(caller.connection, deque()).append(waiter)
            self._hand_out()
        try:
            while not waiter.granted.acquire(timeout=_CHECK_SECONDS):
                check()
        except BaseException:
            with self._lock:
                if not waiter.is_granted:
                    self._forget(waiter)
                elif waiter.is_open:
                    self._open.append(None)
                else:
                    self._drop(caller)
                self._hand_out()
            raise
        return waiter.is_open

    def leave(self, caller: Caller) -> None:
        """Frees a place that counts against the caller's share, which `enter_open` did not give."""
        with self._lock:
            self._drop(caller)
            self._hand_out()

    def _hand_out(self) -> None:
        while self.waiting:
            try:
                self._open.pop()
            except IndexError:
                if not self._scarce:
                    return
                waiter = self._next(by_shares=True)
                if waiter is None:
                    return
                self._scarce -= 1
                for key in {*waiter.caller}:
                    self._held[key] = self._held.get(key, 0) + 1
            else:
                waiter = self._next(by_shares=False)
                assert waiter is not None
                waiter.is_open = True
            waiter.is_granted = True
            waiter.granted.release()

    def _drop(self, caller: Caller) -> None:
        self._scarce += 1
        for key in {*caller}:
            left = self._held[key] - 1
            if left:
                self._held[key] = left
            else:
                del self._held[key]

    def _next(self, *, by_shares: bool) -> _Waiter | None:
        for identity, connections in self.waiting.items():
            if by_shares and self._held.get(identity, 0) >= self._per_identity:
                continue
            for connection, waiters in connections.items():
                of_connection = 0 if connection == identity or not by_shares else self._held.get(connection, 0)
                if of_connection < self._per_connection:
                    self.waiting.move_to_end(identity)
                    connections.move_to_end(connection)
                    waiter = waiters[0]
                    self._forget(waiter)
                    return waiter
        return None

    def _forget(self, waiter: _Waiter) -> None:
        identity, connection = waiter.caller
        connections = self.waiting[identity]
        connections[connection].remove(waiter)
        if not connections[connection]:
            del connections[connection]
            if not connections:
                del self.waiting[identity]


class _Waiter:
    __slots__ = ("caller", "granted", "is_granted", "is_open")

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.is_granted = False
        self.is_open = False
        self.granted = threading.Lock()
        self.granted.acquire()


class Turns:
    """The turns of a worker: at most `short` short turns at the same time, of which an identity and a connection may have their `shares`."""

    def __init__(self, short: int, shares: Shares) -> None:
        self.short = _Gate(short, shares)
        self.long = _Gate(_LONG_TURNS, Shares(1.0, 1.0))
        self._lock = threading.Lock()
        self._long_calls = 0

    def long_begins(self) -> None:
        """Counts a call that takes long turns. While there are any, the interpreter switches threads more often."""
        with self._lock:
            self._long_calls += 1
            if self._long_calls == 1:
                sys.setswitchinterval(_BUSY_SWITCH_SECONDS)

    def long_ends(self) -> None:
        """Ends the count of a call that takes long turns."""
        with self._lock:
            self._long_calls -= 1
            if not self._long_calls:
                sys.setswitchinterval(_SWITCH_SECONDS)


class Turn(ABC):
    """The turn of one call: `take` it, compute, `yield_turn` when it is over, and `give_back`. Base class of a call.

    `check` is called while the call waits. It raises if the call must stop.
    """

    __slots__ = ("_gate", "_is_open", "_turn_end", "_turns", "is_large")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.is_large = False
        """Whether the call takes long turns from the beginning: even to decode its request takes as long as many small calls."""
        self._gate: _Gate | None = None
        self._is_open = False
        self._turn_end = 0.0

    @property
    @abstractmethod
    def caller(self) -> Caller:
        """The caller."""
        raise NotImplementedError

    @abstractmethod
    def check(self) -> None:
        """Raises if the call must stop."""
        raise NotImplementedError

    @property
    def has_turn(self) -> bool:
        """Whether the call has a turn."""
        return self._gate is not None

    def take_turn(self) -> None:
        """Waits for a turn: a short one, unless the call is large."""
        if self.is_large:
            self._take_long_turn()
            return
        gate = self._turns.short
        self._is_open = gate.enter_open() or gate.enter(self.caller, self.check)
        self._gate = gate
        self._turn_end = time.monotonic() + _SHORT_SECONDS

    def give_back_turn(self) -> None:
        """Ends the turn. May be called without one."""
        gate = self._gate
        if gate is None:
            return
        self._gate = None
        if self._is_open:
            gate.leave_open()
        else:
            gate.leave(self.caller)
        if gate is self._turns.long:
            self._turns.long_ends()

    def yield_turn(self, now: float) -> None:
        """At the end of a turn, gives it to the next call that waits, and waits for a long one."""
        gate = self._gate
        if gate is None:
            return
        long = self._turns.long
        if gate is long and not long.waiting:
            self._turn_end = now + _LONG_SECONDS
            return
        self.give_back_turn()
        self._take_long_turn()

    def _take_long_turn(self) -> None:
        long = self._turns.long
        self._is_open = long.enter(self.caller, self.check)
        self._gate = long
        self._turns.long_begins()
        self._turn_end = time.monotonic() + _LONG_SECONDS
