"""Callers, and how many places one caller may hold. A place is the right to have one call in progress.

An IPv6 address counts as its network, the first 64 bits, since whoever has one address of a network has all. Behind a
proxy all callers have its address, and the proxy bounds each.
"""

from __future__ import annotations

import threading
from ipaddress import IPv6Address
from typing import NamedTuple, Protocol

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


class Places:
    """The right to be in progress, for calls of one kind: `maximum` of them, of which one address may hold `share`.
    `limit` is the name of this maximum in errors, in snake_case.
    """

    def __init__(self, limit: str, maximum: int, share: float) -> None:
        self.limit = limit
        self.maximum = maximum
        self._per_address = max(1, int(maximum * share))
        self._lock = threading.Lock()
        self._by_address: dict[str, int] = {}
        self.taken = 0
        """How many places are taken."""

    def take(self, caller: Caller) -> None:
        """Takes a place for the caller. LimitExceededError if none is free, or its address holds its share."""
        with self._lock:
            held = self._by_address.get(caller.address, 0)
            if self.taken < self.maximum and held < self._per_address:
                self.taken += 1
                self._by_address[caller.address] = held + 1
                return
        kind = self.limit.replace("_", " ")
        text = f"{kind}: {self.maximum} are under way, and more are not taken; try again"
        if held >= self._per_address:
            text = f"{kind}: this caller has its share of {self.maximum} under way, and more are not taken; try again"
        raise LimitExceededError(text, limit=self.limit, maximum=self.maximum)

    def give_back(self, caller: Caller) -> None:
        """Frees a place that `take` gave."""
        with self._lock:
            self.taken -= 1
            left = self._by_address[caller.address] - 1
            if left:
                self._by_address[caller.address] = left
            else:
                del self._by_address[caller.address]
