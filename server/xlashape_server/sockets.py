"""The connections of a worker, as sockets of its process: how many the system allows, and how many one caller may have.

gRPC accepts connections by itself and says nothing of them until a call begins. So a thread looks at the sockets of the
process, and shuts those that are too many of one caller. A connection costs little before its first bytes, and some 300
KB from then on under TLS.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import sys

from xlashape_server.callers import Shares, caller_at
from xlashape_server.placement import descriptors

_log = logging.getLogger("xlashape_server.worker")

_MOST_DESCRIPTORS = 1 << 20
_FEW = 64  # connections of a worker for which none are closed


def allow_descriptors() -> None:
    """Raises the number of files and sockets that this process and its children may open as far as the system lets it
    without a privilege.
    """
    if sys.platform == "win32":
        return
    import resource  # POSIX has it

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):  # macOS has a limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class Crowd:
    """Closes the newest connections to `port` of a caller that has more than its share of `maximum`."""

    def __init__(self, port: int, maximum: int, shares: Shares) -> None:
        self._port = port
        self._most = shares.of(maximum)[0]
        self._since: dict[tuple[int, str], int] = {}
        self._looks = 0

    def thin(self, count: int) -> int:
        """Looks at the sockets, of which there are `count`, and closes what is too many. Returns how many it has
        closed.
        """
        if count <= min(_FEW, self._most):
            self._since.clear()
            return 0
        self._looks += 1
        by_identity: dict[str, list[tuple[int, int, str]]] = {}
        since: dict[tuple[int, str], int] = {}
        for number in descriptors():
            peer = self._peer(number)
            if peer is not None:
                key = (number, peer)
                since[key] = self._since.get(key, self._looks)
                by_identity.setdefault(caller_at(peer).identity, []).append((since[key], number, peer))
        self._since = since
        closed = 0
        for identity, found in by_identity.items():
            if len(found) > self._most:
                found.sort()
                closed += sum(self._shut(number, peer) for _, number, peer in found[self._most :])
                facts = {"caller": identity, "connections": len(found), "allowed": self._most}
                _log.warning("closed connections of a caller", extra={"facts": facts})
        return closed

    def _peer(self, number: int) -> str | None:
        """The other end of a socket, in gRPC's form, if it is a connection to the port."""
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                return None
            with socket.socket(fileno=os.dup(number)) as found:
                if found.family not in (socket.AF_INET, socket.AF_INET6) or found.getsockname()[1] != self._port:
                    return None
                host, port = found.getpeername()[:2]
        except OSError:  # it listens, or was closed meanwhile
            return None
        return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"

    def _shut(self, number: int, peer: str) -> bool:
        """Ends a connection; gRPC closes it. Its number may be of another one by now, which goes on."""
        try:
            with socket.socket(fileno=os.dup(number)) as found:
                host, port = found.getpeername()[:2]
                if not peer.endswith(f":{port}") or host not in peer:
                    return False
                found.shutdown(socket.SHUT_RDWR)
        except OSError:
            return False
        return True
