"""Bounds the connections that one caller has to a worker, and raises the system's limit of open sockets.

gRPC accepts connections by itself, and Python code hears of a connection only when a call begins. So a thread looks at
the sockets of the process, and shuts the connections that a caller has beyond its share. Under TLS, a connection takes
some 300 KB after its first bytes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import sys
from pathlib import Path

from xlashape_server.callers import caller_at, peer_of

_log = logging.getLogger("xlashape_server.worker")

_MOST_DESCRIPTORS = 1 << 20
_FEW = 64  # with so few sockets in the process, no connections are closed


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
