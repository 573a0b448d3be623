"""Callers, and how many places one caller may hold. A place is the right to have one call in progress.

A caller is an identity and one of its connections. The identity is the caller's address without its port, until calls are authenticated.
There is a maximum of places of each kind (calls, uploads, reflection streams). One identity, and one connection, may hold only a share of them, so
that other callers always find some.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple, Protocol

from xlashape.caches import cached
from xlashape.errors import LimitExceededError

__all__ = ["Caller", "Places", "Shares", "caller_at", "caller_of"]


class Caller(NamedTuple):
    """A caller. `identity` is shared by all connections of a caller, `connection` is unique among the connections of a worker."""

    identity: str
    connection: str


class _HasPeer(Protocol):
    def peer(self) -> str: ...


def caller_of(context: _HasPeer) -> Caller:
    """The caller of a gRPC call, identified by its address. Authentication replaces the identity."""
    return caller_at(context.peer())


@cached(max_bytes=1 << 20, entry_bytes=512)
def caller_at(peer: str) -> Caller:
    """The caller at an address as grpc writes it. All callers at a unix socket count as one caller with one connection.

    >>> caller_at("ipv4:192.0.2.7:50123")
    Caller(identity='ipv4:192.0.2.7', connection='ipv4:192.0.2.7:50123')
    >>> caller_at("unix:").identity
    'unix:'
    """
    host, colon, port = peer.rpartition(":")
    return Caller(host if colon and port.isdigit() else peer, peer)


class Shares(NamedTuple):
    """The fraction of all places that one identity may hold, and the fraction that one connection may hold; above 0, at most 1."""

    identity: float
    connection: float

    def of(self, maximum: int) -> tuple[int, int]:
        """How many of `maximum` places an identity and a connection may hold; at least one.

        >>> Shares(0.75, 0.5).of(16), Shares(0.75, 0.5).of(1)
        ((12, 8), (1, 1))
        """
        return max(1, int(maximum * self.identity)), max(1, int(maximum * self.connection))


class Places:
    """The places of one kind. `limit` is the name of their number in errors, in snake_case.

    A quarter of them is open to any caller and taken without a lock; of the others, each caller has a share.
    """

    def __init__(self, limit: str, maximum: int, shares: Shares) -> None:
        self.limit = limit
        self.maximum = maximum
        self._open = deque([None] * (maximum // 4))  # a place for each entry; taking one from a deque needs no lock
        self._scarce = maximum - maximum // 4
        self._per_identity, self._per_connection = shares.of(self._scarce)
        self._lock = threading.Lock()
        self._taken = 0
        self._by_identity: dict[str, int] = {}
        self._by_connection: dict[str, int] = {}

    @property
    def taken(self) -> int:
        """How many places are taken."""
        return self.maximum - self._scarce - len(self._open) + self._taken

    def take_open(self) -> bool:
        """Takes one of the open places, if one is free."""
        try:
            self._open.pop()
        except IndexError:
            return False
        return True

    def give_back_open(self) -> None:
        """Frees a place that `take_open` gave."""
        self._open.append(None)

    def take(self, caller: Caller) -> None:
        """Takes a place of the caller's share. LimitExceededError if none is free, or the caller holds all of its share."""
        identity, connection = caller
        with self._lock:
            of_identity = self._by_identity.get(identity, 0)
            of_connection = self._by_connection.get(connection, 0)
            if (
                self._taken < self._scarce
                and of_identity < self._per_identity
                and (of_connection < self._per_connection or connection == identity)
            ):
                self._taken += 1
                self._by_identity[identity] = of_identity + 1
                self._by_connection[connection] = of_connection + 1
                return
            all_taken = self._taken >= self._scarce
        words = self.limit.replace("_", " ")
        message = f"{words}: {self.maximum} are under way, and more are not taken; try again"
        if not all_taken:
            whose = "caller" if of_identity >= self._per_identity else "connection"
            message = (
                f"{words}: this {whose} has its share of {self.maximum} under way, and more are not taken; try again"
            )
        raise LimitExceededError(message, limit=self.limit, maximum=self.maximum)

    def give_back(self, caller: Caller) -> None:
        """Frees a place that `take` gave."""
        with self._lock:
            self._taken -= 1
            _decrement(self._by_identity, caller.identity)
            _decrement(self._by_connection, caller.connection)


def _decrement(counts: dict[str, int], key: str) -> None:
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]
