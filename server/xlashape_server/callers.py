"""Callers, how many places one caller may hold, and which hosts it may name. A place is the right to have one call in
progress.

An IPv6 address counts as its network, the first 64 bits, since whoever has one address of a network has all. Behind a
proxy all callers have its address, and the proxy bounds each.

A request over HTTP names a host. A page can make its own name lead to this machine after it was loaded (DNS rebinding),
and then its browser takes the server for the page's own. So a server that only this machine reaches answers to its own
names alone. A server that other machines reach does not know its names, and answers to any: the proxy in front of it
knows them.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import sys
import threading
from collections import Counter
from urllib.parse import urlsplit

from xlashape.base.caches import cached
from xlashape.errors import LimitExceededError

_MOST_DESCRIPTORS = 1 << 20


@cached(max_bytes=1 << 20, entry_bytes=512)
def address_of(peer: str) -> str:
    """The address, without a port, of a caller whom grpc names `peer`. All callers at a unix socket have one address.

    >>> address_of("ipv4:192.0.2.7:50123"), address_of("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:50123"), address_of("unix:")
    ('ipv4:192.0.2.7', 'ipv6:2001:db8:1:2::/64', 'unix:')
    """
    host, colon, port = peer.rpartition(":")
    return _network(host) if colon and port.isdigit() else peer


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
        address = ipaddress.IPv6Address(text.partition("%")[0])  # a link-local address has its interface after the %
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return f"ipv4:{address.ipv4_mapped}"
    return f"ipv6:{ipaddress.IPv6Address(int(address) >> 64 << 64)}/64"


class Places:
    """The right to be in progress, for calls of one kind: `maximum` of them, of which one address may hold `share`.
    `limit` is the name of this maximum in errors, in snake_case.
    """

    def __init__(self, limit: str, maximum: int, share: float) -> None:
        self.limit = limit
        self.maximum = maximum
        self._per_address = max(1, int(maximum * share))
        self._lock = threading.Lock()
        self._by_address: Counter[str] = Counter()
        self.taken = 0
        """How many places are taken."""

    def take(self, address: str) -> None:
        """Takes a place for a caller. LimitExceededError if none is free, or its address holds its share."""
        with self._lock:
            held = self._by_address[address]
            if self.taken < self.maximum and held < self._per_address:
                self.taken += 1
                self._by_address[address] = held + 1
                return
        kind = self.limit.replace("_", " ")
        who = f"this caller has its share of {self.maximum}" if held >= self._per_address else f"{self.maximum} are"
        text = f"{kind}: {who} under way, and more are not taken; try again"
        raise LimitExceededError(text, limit=self.limit, maximum=self.maximum)

    def give_back(self, address: str) -> None:
        """Frees a place that `take` gave."""
        with self._lock:
            self.taken -= 1
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]


# -- connections -------------------------------------------------------------------------------


def allow_descriptors() -> None:
    """Raises the number of files and sockets that this process and its children may open, as far as the system allows
    without privileges.
    """
    if sys.platform == "win32":
        return
    import resource  # only POSIX has this module

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):  # macOS has a limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def bound_socket(host: str, port: int, *options: tuple[int, int, int]) -> socket.socket:
    """A socket with these options that is bound to an address. OSError if that is not possible."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        for option in options:
            made.setsockopt(*option)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


# -- hosts -------------------------------------------------------------------------------------


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host, which is a name or an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def may_name(named: str | None, listening: str) -> bool:
    """Whether a request may name the host `named`, perhaps with a port, at a server that listens at the host
    `listening`. At a server on loopback that is an address in numbers, or `localhost`. `named` is None in requests of
    HTTP/1.0, which browsers do not send.

    >>> may_name("localhost:8080", "127.0.0.1"), may_name("evil.example", "127.0.0.1"), may_name("x", "0.0.0.0")
    (True, False, True)
    """
    if named is None or not is_loopback(listening):
        return True
    try:
        name = (urlsplit(f"//{named}").hostname or "").removesuffix(".")
        if name == "localhost" or name.endswith(".localhost"):
            return True
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
