"""Turns at the processor: which calls may compute at the same time.

The threads of a process share the interpreter's lock, and so one core: running many of them at the same time finishes
none of them earlier, and delays the small calls of others. A call begins with a short turn; many calls may have short
turns at the same time. A call that needs longer goes on in long turns, and a call with a large request begins with one.
Only one call has a long turn at a time; when that ends, the next waiting call gets a long turn. Callers are served in
rotation, and the connections of each caller too.
"""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable

from xlashape_server.callers import Caller, Places, Shares

# The interpreter's switch interval (sys.setswitchinterval): how long a small call waits, at each of its steps, for a
# thread that computes. It is short only while a call has a long turn: otherwise it makes a small call 60 µs slower.
_SWITCH_SECONDS = 0.005
_BUSY_SWITCH_SECONDS = 0.0001
_SHORT_SECONDS = 0.01
_LONG_SECONDS = 0.02
# The number of long turns at the same time. With two, the computing threads pass the interpreter's lock to each other
# while small calls wait: one small call in ten waited 10 ms instead of 1.5.
_LONG_TURNS = 1
_OVERDUE_SECONDS = 0.1  # a call that computes this long after the end of its turn loses the turn to a waiting call
_CHECK_SECONDS = 0.25  # seconds between checks that a waiting call must still wait


class _Gate:
    """The turns of one kind, short or long, as places that callers get in rotation.

    Each waiting call calls `while_waiting` several times a second.
    """

    def __init__(self, places: int, shares: Shares, while_waiting: Callable[[], None] = lambda: None) -> None:
        self._while_waiting = while_waiting
        self._places = Places("turns", places, shares)
        self._lock = threading.Lock()
        self.waiting: OrderedDict[str, OrderedDict[str, deque[_Waiter]]] = OrderedDict()
        """The waiting calls, by address and connection."""

    def enter_open(self) -> bool:
        """Takes an open place, which counts against no caller's share, if one is free and no call waits."""
        return not self.waiting and self._places.take_open()

    def leave_open(self) -> None:
        """Frees a place that `enter_open` gave."""
        self._places.give_back_open()
        if self.waiting:
            with self._lock:
                self._hand_out()

    def enter(self, caller: Caller, check: Callable[[], None]) -> bool:
        """Waits for a place. Returns whether it is an open place. `check` is called while the call waits, and may
        raise.
        """
        if self.enter_open():
            return True
        with self._lock:
            waiter = _Waiter(caller)
            connections = self.waiting.setdefault(caller.address, OrderedDict())
            connections.setdefault(caller.connection, deque()).append(waiter)
            self._hand_out()
        try:
            while not waiter.granted.acquire(timeout=_CHECK_SECONDS):
                check()
                self._while_waiting()
        except BaseException:
            with self._lock:
                if not waiter.is_granted:
                    self._forget(waiter)
                elif waiter.is_open:
                    self._places.give_back_open()
                else:
                    self._places.give_back(caller)
                self._hand_out()
            raise
        return waiter.is_open

    def leave(self, caller: Caller) -> None:
        """Frees a place that counts against the caller's share: one that is not open."""
        self._places.give_back(caller)
        with self._lock:
            self._hand_out()

    def _hand_out(self) -> None:
        while (waiter := self._next()) is not None:
            self._forget(waiter)
            waiter.is_granted = True
            waiter.granted.release()

    def _next(self) -> _Waiter | None:
        """Gives a place to the next waiting call that may have one, and returns that call."""
        for address, connections in self.waiting.items():
            for connection, waiters in connections.items():
                waiter = waiters[0]
                waiter.is_open = self._places.take_open()
                if waiter.is_open or self._places.try_take(waiter.caller):
                    self.waiting.move_to_end(address)
                    connections.move_to_end(connection)
                    return waiter
        return None

    def _forget(self, waiter: _Waiter) -> None:
        address, connection = waiter.caller
        connections = self.waiting[address]
        connections[connection].remove(waiter)
        if not connections[connection]:
            del connections[connection]
            if not connections:
                del self.waiting[address]


class _Waiter:
    """A call that waits for a place. Its thread waits on `granted`, a lock that is released once it has the place."""

    __slots__ = ("caller", "granted", "is_granted", "is_open")

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.is_granted = False
        self.is_open = False
        self.granted = threading.Lock()
        self.granted.acquire()


class Turns:
    """The turns of a worker: at most `short` short turns at the same time, of which an address and a connection may
    have their `shares`, and one long turn.

    A call may compute beyond the end of its long turn, since it sees the end only at its next checkpoint: one step of a
    library may take long, or wait for a disk. Such a call loses the turn to a waiting call, and until its checkpoint
    both compute.
    """

    def __init__(self, short: int, shares: Shares) -> None:
        self.short = _Gate(short, shares)
        self.long = _Gate(_LONG_TURNS, Shares(1.0, 1.0), self._free_overdue)
        self._lock = threading.Lock()
        self._computing = 0
        self._holders: dict[Turn, bool] = {}
        """The calls that have a long turn, and whether the place of each is open."""

    def long_begins(self, turn: Turn, is_open: bool) -> None:
        """Notes that a call has a long turn, and whether its place is open. While there is a long turn, the interpreter
        switches threads more often.
        """
        with self._lock:
            self._holders[turn] = is_open
            self._computing += 1
            if self._computing == 1:
                sys.setswitchinterval(_BUSY_SWITCH_SECONDS)

    def long_ends(self, turn: Turn) -> bool:
        """Notes that a call ends its long turn. Returns False if the call had lost the turn to another call."""
        with self._lock:
            self._computing -= 1
            if not self._computing:
                sys.setswitchinterval(_SWITCH_SECONDS)
            return self._holders.pop(turn, None) is not None

    def holds_long(self, turn: Turn) -> bool:
        """Whether a call has a long turn that it has not lost."""
        return turn in self._holders

    def _free_overdue(self) -> None:
        """Takes long turns from calls that should have ended them `_OVERDUE_SECONDS` ago."""
        latest = time.monotonic() - _OVERDUE_SECONDS
        with self._lock:
            overdue = [(turn, self._holders.pop(turn)) for turn in [*self._holders] if turn.turn_end < latest]
        for turn, is_open in overdue:
            if is_open:
                self.long.leave_open()
            else:
                self.long.leave(turn.caller)


class Turn(ABC):
    """The turn of one call; the base class of a call. A call takes a turn, computes, yields the turn when its time is
    over, and at last gives it back.

    `check` is called while the call waits. It raises if the call must stop.
    """

    _turns: Turns
    _gate: _Gate | None = None
    _is_open = False
    is_large = False
    """Whether the call takes long turns from the beginning, since decoding its request alone takes as long as many
    small calls.
    """
    turn_end = 0.0
    """When the turn is over, a time of time.monotonic()."""

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
        self.turn_end = time.monotonic() + _SHORT_SECONDS

    def give_back_turn(self) -> None:
        """Ends the turn. Does nothing if the call has none."""
        gate = self._gate
        if gate is None:
            return
        self._gate = None
        if gate is self._turns.long and not self._turns.long_ends(self):
            return
        if self._is_open:
            gate.leave_open()
        else:
            gate.leave(self.caller)

    def yield_turn(self, now: float) -> None:
        """At the end of a turn, gives the turn to the next waiting call, and waits for a long turn. A call with a long
        turn keeps it if no call waits.
        """
        gate = self._gate
        if gate is None:
            return
        long = self._turns.long
        if gate is long and not long.waiting and self._turns.holds_long(self):
            self.turn_end = now + _LONG_SECONDS
            return
        self.give_back_turn()
        self._take_long_turn()

    def _take_long_turn(self) -> None:
        long = self._turns.long
        self._is_open = long.enter(self.caller, self.check)
        self._gate = long
        self.turn_end = time.monotonic() + _LONG_SECONDS
        self._turns.long_begins(self, self._is_open)
