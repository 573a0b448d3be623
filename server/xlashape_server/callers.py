"""Callers, and how many places one caller may hold. A place is the right to have one call in progress.

A caller is an address and one of its connections. An IPv6 address counts as its network, the first 64 bits, since
whoever has one address of a network has all. Behind a proxy all callers have its address, and the proxy bounds each.
There is a maximum of places of each kind, such as calls and uploads. One connection may hold only a share of the
places, and one address only a share of the places that other callers leave, so that a few callers never hold all.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from ipaddress import IPv6Address
from typing import Any, NamedTuple, Protocol

from xlashape.base.caches import cached
from xlashape.errors import LimitExceededError


class Caller(NamedTuple):
    """A caller: its `address` without a port, which all of its connections share, and one `connection`, which no other
    caller of the worker has.
    """

    address: str
    connection: str


class _HasPeer(Protocol):
    def peer(self) -> str: ...


class _Ends(Protocol):
    """The attributes of a call that `Newest` uses to end it."""

    is_over: bool
    cut_off: Any

    @property
    def caller(self) -> Caller: ...


def caller_of(context: _HasPeer) -> Caller:
    """The caller of a gRPC call."""
    return caller_at(context.peer())


@cached(max_bytes=1 << 20, entry_bytes=512)
def caller_at(peer: str) -> Caller:
    """The caller at an address as grpc writes it. All callers at a unix socket count as one caller with one connection.

    >>> caller_at("ipv4:192.0.2.7:50123")
    Caller(address='ipv4:192.0.2.7', connection='ipv4:192.0.2.7:50123')
    >>> caller_at("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:50123").address
    'ipv6:2001:db8:1:2::/64'
    >>> caller_at("unix:").address
    'unix:'
    """
    host, colon, port = peer.rpartition(":")
    if not (colon and port.isdigit()):
        return Caller(peer, peer)
    return Caller(_network(host), peer)


def peer_of(host: str, port: int) -> str:
    """A host's address and port, written as gRPC writes the address of a caller.

    >>> peer_of("192.0.2.7", 50123), peer_of("2001:db8::1", 50123)
    ('ipv4:192.0.2.7:50123', 'ipv6:%5B2001:db8::1%5D:50123')
    """
    return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"


def _network(host: str) -> str:
    """The network of an IPv6 address that is written as gRPC writes it; any other host unchanged."""
    if not host.startswith("ipv6:"):
        return host
    text = host[5:].replace("%5B", "").replace("%5D", "").strip("[]")
    try:
        address = IPv6Address(text.partition("%")[0])  # a link-local address has its interface after the %
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return f"ipv4:{address.ipv4_mapped}"
    return f"ipv6:{IPv6Address(int(address) >> 64 << 64)}/64"


class Shares(NamedTuple):
    """The fraction of all places that one address may hold, and the fraction that one connection may hold; above 0, at
    most 1.
    """

    address: float
    connection: float

    def of(self, maximum: int) -> tuple[int, int]:
        """How many of `maximum` places an address and a connection may hold; at least one.

        >>> Shares(0.75, 0.5).of(16), Shares(0.75, 0.5).of(1)
        ((12, 8), (1, 1))
        """
        return max(1, int(maximum * self.address)), max(1, int(maximum * self.connection))


class Places:
    """The `maximum` places of one kind. `limit` is the name of this maximum in errors, in snake_case.

    A quarter of the places at most is open: any caller takes an open place, without a lock, and it counts against no
    share. A caller may take so many of the scarce places, the others, that with all open places it has its share. Of
    the scarce places that other callers leave, it may take only the same fraction. With shares of 0.75, one caller has
    three quarters of all places at most, two have eleven twelfths, three have 35 of 36.
    """

    def __init__(self, limit: str, maximum: int, shares: Shares) -> None:
        self.limit = limit
        self.maximum = maximum
        address, connection = shares.of(maximum)
        is_open = min(maximum // 4, address // 2, connection // 2)
        self._open = deque([None] * is_open)  # a place for each entry; taking one from a deque needs no lock
        self._scarce = maximum - is_open
        self._part = (address - is_open) / self._scarce
        self._per_connection = max(1, connection - is_open)
        self._lock = threading.Lock()
        self._taken = 0
        self._by_address: dict[str, int] = {}
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
        """Takes a scarce place for the caller. LimitExceededError if none is free, or the caller holds its share."""
        if self.try_take(caller):
            return
        whose = ""
        with self._lock:
            if self._taken < self._scarce:
                of_address = self._by_address.get(caller.address, 0)
                whose = "caller" if of_address >= self._per_address(of_address) else "connection"
        words = self.limit.replace("_", " ")
        message = f"{words}: {self.maximum} are under way, and more are not taken; try again"
        if whose:
            message = (
                f"{words}: this {whose} has its share of {self.maximum} under way, and more are not taken; try again"
            )
        raise LimitExceededError(message, limit=self.limit, maximum=self.maximum)

    def try_take(self, caller: Caller) -> bool:
        """Takes a scarce place for the caller. Returns False if none is free, or the caller holds its share."""
        address, connection = caller
        with self._lock:
            of_address = self._by_address.get(address, 0)
            of_connection = self._by_connection.get(connection, 0)
            if (
                self._taken >= self._scarce
                or of_address >= self._per_address(of_address)
                or (of_connection >= self._per_connection and connection != address)
            ):
                return False
            self._taken += 1
            self._by_address[address] = of_address + 1
            self._by_connection[connection] = of_connection + 1
        return True

    def _per_address(self, held: int) -> int:
        """How many scarce places a caller who now holds `held` of them may hold in all."""
        return max(1, int(self._part * (self._scarce - (self._taken - held))))

    def give_back(self, caller: Caller) -> None:
        """Frees a place that `take` or `try_take` gave."""
        with self._lock:
            self._taken -= 1
            _decrement(self._by_address, caller.address)
            _decrement(self._by_connection, caller.connection)


class Newest:
    """Bounds the calls of one kind to `maximum`. A further call is admitted, and ends the oldest call of the caller
    that has the most calls. So calls that make no progress, however many, do not keep out a new call.
    """

    def __init__(self, limit: str, maximum: int) -> None:
        self._limit = limit
        self._maximum = maximum
        self._lock = threading.Lock()
        self._calls: dict[int, _Ends] = {}

    def add(self, call: _Ends) -> None:
        """Admits a call. If there are too many now, ends another one."""
        with self._lock:
            self._calls[id(call)] = call
            if len(self._calls) <= self._maximum:
                return
            self._calls = {key: each for key, each in self._calls.items() if not each.is_over}
            if len(self._calls) <= self._maximum:
                return
            counts = Counter(each.caller.address for each in self._calls.values())
            most = max(counts.values())
            # The dictionary keeps the order in which calls came.
            oldest = next(each for each in self._calls.values() if counts[each.caller.address] == most)
            del self._calls[id(oldest)]
        words = self._limit.replace("_", " ")
        error = LimitExceededError(
            f"{words}: {self._maximum} newer ones are under way", limit=self._limit, maximum=self._maximum
        )
        oldest.cut_off(oldest, error)


def _decrement(counts: dict[str, int], key: str) -> None:
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]
