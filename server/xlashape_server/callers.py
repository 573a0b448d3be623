"""Callers, how many places one caller may hold, how many connections, and which hosts it may name. A place is the right
to have one call in progress.

An IPv6 address counts as its network, the first 64 bits, since whoever has one address of a network has all. Behind a
proxy all callers have its address, and the proxy bounds each.

gRPC accepts connections by itself, and Python code hears of a connection only when a call begins. So a thread looks at
the sockets of the process, and shuts the connections that a caller has beyond its share. Under TLS, a connection takes
some 300 KB after its first bytes.

A request over HTTP names a host. A page can make its own name lead to this machine after it was loaded (DNS rebinding),
and then its browser takes the server for the page's own. So a server that only this machine reaches answers to its own
names alone. A server that other machines reach does not know its names, and answers to any: the proxy in front of it
knows them.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket
import stat
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from xlashape.base.caches import cached
from xlashape.errors import LimitExceededError

_log = logging.getLogger("xlashape_server.worker")

_MOST_DESCRIPTORS = 1 << 20
_FEW = 64  # with so few sockets in the process, no connections are closed


class Caller(NamedTuple):
    """A caller: its `address` without a port, which all of its connections share, and one `connection`, which no other
    caller of the worker has.
    """

    address: str
    connection: str


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
        who = f"this caller has its share of {self.maximum}" if held >= self._per_address else f"{self.maximum} are"
        text = f"{kind}: {who} under way, and more are not taken; try again"
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


def open_sockets() -> int:
    """The number of sockets of this process; 0 on systems that do not report it."""
    count = 0
    for number in _descriptors():
        with contextlib.suppress(OSError):
            count += stat.S_ISSOCK(os.fstat(number).st_mode)
    return count


def _descriptors() -> list[int]:
    """The descriptors of the open files and sockets of this process; none on systems that do not report them."""
    try:
        return [int(path.name) for path in Path("/proc/self/fd").iterdir()]
    except OSError:
        return []


class Crowd:
    """Closes connections of callers that have too many. At each of `ports`, a caller may have its `share` of `maximum`
    connections; the newest beyond that are closed.
    """

    def __init__(self, ports: tuple[int, ...], maximum: int, share: float) -> None:
        self._ports = ports
        self._most = max(1, int(maximum * share))
        self._since: dict[tuple[int, str], int] = {}
        self._looks = 0

    def thin(self, count: int) -> int:
        """Looks at the connections and closes those that are too many. Returns how many it has closed. `count` is the
        number of sockets of the process; if they are few, nothing is done.
        """
        if count <= min(_FEW, self._most):
            self._since.clear()
            return 0
        self._looks += 1
        by_caller: dict[tuple[int, str], list[tuple[int, int, str]]] = {}
        since: dict[tuple[int, str], int] = {}
        for number in _descriptors():
            port, peer = self._ends(number)
            if port:
                key = (number, peer)
                since[key] = self._since.get(key, self._looks)
                by_caller.setdefault((port, caller_at(peer).address), []).append((since[key], number, peer))
        self._since = since
        closed = 0
        for (_, address), found in by_caller.items():
            if len(found) > self._most:
                found.sort()
                closed += sum(self._shut(number, peer) for _, number, peer in found[self._most :])
                facts = {"caller": address, "connections": len(found), "allowed": self._most}
                _log.warning("closed connections of a caller", extra={"facts": facts})
        return closed

    def _ends(self, number: int) -> tuple[int, str]:
        """The port of a descriptor, and the other end as gRPC writes it, if it is a connection to one of the ports;
        otherwise 0 and an empty text.
        """
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                return 0, ""
            with socket.socket(fileno=os.dup(number)) as found:
                if found.family not in (socket.AF_INET, socket.AF_INET6):
                    return 0, ""
                own = found.getsockname()[1]
                if own not in self._ports:
                    return 0, ""
                host, port = found.getpeername()[:2]
        except OSError:  # the socket listens, or was closed meanwhile
            return 0, ""
        return own, peer_of(host, port)

    def _shut(self, number: int, peer: str) -> bool:
        """Shuts the connection to `peer` down, upon which its owner closes it. Returns False if the descriptor belongs
        to another connection by now; that one stays.
        """
        try:
            with socket.socket(fileno=os.dup(number)) as found:
                host, port = found.getpeername()[:2]
                if not peer.endswith(f":{port}") or host not in peer:
                    return False
                found.shutdown(socket.SHUT_RDWR)
        except OSError:
            return False
        return True


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
    name = named.lower()
    bare, colon, port = name.rpartition(":")
    if colon and (port.isdigit() or not port) and not bare.endswith(":"):
        name = bare
    name = name.removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
