"""Turns at the processor: which calls compute at a time. A call that waits for its caller, or for a turn, computes nothing.

The threads of a process share one core, so that many of them at once finish nothing sooner, and each makes the small calls of others wait.
A call begins with a short turn, of which there are many. A call that is not done by its end, or whose request is large, takes long turns from then
on, of which there are few, and gives its turn to the next one that waits at each end. Callers are served in rotation, and the connections of
each caller too.
"""

from __future__ import annotations

import sys
import threading
import time
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
_LONG_TURNS = 2  # at a time: one, and one more for a call that computes without asking whether its turn is over
_LOOK_SECONDS = 0.25  # between two looks of a call that waits, whether it still has to


class _Gate:
    """Places that are handed out in rotation. The first half of them goes to whoever comes, the other half by shares."""

    def __init__(self, places: int, shares: Shares) -> None:
        self._open = deque([None] * (places // 2))  # a place for each entry; taking one from a deque needs no lock
        self._scarce = places - places // 2
        self._per_identity, self._per_connection = shares.of(self._scarce)
        self._held: dict[str, int] = {}
        self._lock = threading.Lock()
        self.waiting: OrderedDict[str, OrderedDict[str, deque[_Waiter]]] = OrderedDict()
        """By identity and connection, the calls that wait."""

    def enter_open(self) -> bool:
        """Takes one of the places that go to whoever comes, if one is free and nobody waits."""
        if self.waiting:
            return False
        try:
            self._open.pop()
        except IndexError:
            return False
        return True

    def leave_open(self) -> None:
        """Frees a place of `enter_open`."""
        self._open.append(None)
        if self.waiting:
            with self._lock:
                self._hand_out()

    def enter(self, caller: Caller, check: Callable[[], None]) -> bool:
        """Returns with a place, and says whether it is one of `enter_open`. `check` is called while there is none, and may raise."""
        if self.enter_open():
            return True
        with self._lock:
            waiter = _Waiter(caller)
            connections = self.waiting.setdefault(caller.identity, OrderedDict())
            connections.setdefault(caller.connection, deque()).append(waiter)
            self._hand_out()
        try:
            while not waiter.granted.acquire(timeout=_LOOK_SECONDS):
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
        """Frees a place that is none of `enter_open`."""
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
    """The turns of a worker: `short` ones at a time, of which an identity and a connection may have their `shares`."""

    def __init__(self, short: int, shares: Shares) -> None:
        self.short = _Gate(short, shares)
        self.long = _Gate(_LONG_TURNS, Shares(1.0, 1.0))
        self._lock = threading.Lock()
        self._long_calls = 0

    def long_begins(self) -> None:
        """One more call takes long turns. While there is one, threads take turns at the interpreter more often."""
        with self._lock:
            self._long_calls += 1
            if self._long_calls == 1:
                sys.setswitchinterval(_BUSY_SWITCH_SECONDS)

    def long_ends(self) -> None:
        """One call less takes long turns."""
        with self._lock:
            self._long_calls -= 1
            if not self._long_calls:
                sys.setswitchinterval(_SWITCH_SECONDS)


class Turn:
    """The turn of one call: `take` it, compute, `yield_turn` when it is over, and `give_back`. Base class of a call.

    `check` is called while the call waits. It raises once the call has not to wait any more.
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
    def caller(self) -> Caller:
        """Who calls."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises if the call is not to go on."""
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
