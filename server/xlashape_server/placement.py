"""Spreads new connections over the workers, on Linux: most go to the workers with the fewest connections.

All workers listen on one port with SO_REUSEPORT, and the system chooses among their sockets by a hash of the addresses:
two clients may share a worker while another idles. So the server counts the connections of its workers, and gives the
system a program (classic BPF, which needs no privileges) that chooses a socket at random with weights: a worker with
fewer connections is chosen more often. While there are few connections, only the worker with the fewest is chosen.
Where the system refuses the program, the hash decides.

The program names a socket by its index. Sockets are numbered in the order in which they began to listen; when a socket
closes, the last one takes its index. Linux: Documentation/networking/filter.rst, net/core/sock_reuseport.c.

>>> weights([1, 0])  # the second of two clients gets a worker of its own
[0, 1]
>>> weights([4, 4])
[1, 1]
>>> weights([32, 0])  # a worker that was started again, among many connections
[4, 36]
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import stat
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_SAME_TIME_SECONDS = 2.0  # seconds within which the ends of two processes may be noticed in the wrong order
_SO_ATTACH_REUSEPORT_CBPF = 51
_INSTRUCTION = struct.Struct("=HBBI")  # code, jump if true, jump if false, constant
_FILTER = struct.Struct("HxxxxxxQ" if sys.maxsize > 1 << 32 else "HxxI")  # count, address
_LOAD, _JUMP_IF_GREATER_OR_EQUAL, _RETURN = 0x20, 0x35, 0x06
_RANDOM = 0xFFFFF000 + 56  # the address at which the system gives a random number: SKF_AD_OFF + SKF_AD_RANDOM


def weights(connections: Sequence[int]) -> list[int]:
    """The weight of each worker, computed from the number of its connections.

    A worker's weight is the difference between the largest number of connections and its own. Many connections may
    arrive before the next count, so with many connections an eighth of the mean is added to each weight: the worker
    with the fewest does not get all of them.
    """
    most = max(connections)
    spare = sum(connections) // (4 * len(connections))
    found = [most - count + spare for count in connections]
    return found if any(found) else [1] * len(connections)


def program(chances: Sequence[tuple[int, int]]) -> bytes:
    """The instructions that choose among sockets. `chances` has pairs of a socket's index and its weight; at least one
    weight is positive.
    """
    chosen = [(index, weight) for index, weight in chances if weight > 0]
    total, passed = sum(weight for _, weight in chosen), 0
    made = [_INSTRUCTION.pack(_LOAD, 0, 0, _RANDOM)]
    for index, weight in chosen[:-1]:
        passed += weight
        made.append(_INSTRUCTION.pack(_JUMP_IF_GREATER_OR_EQUAL, 1, 0, min((passed << 32) // total, 0xFFFFFFFF)))
        made.append(_INSTRUCTION.pack(_RETURN, 0, 0, index))
    made.append(_INSTRUCTION.pack(_RETURN, 0, 0, chosen[-1][0]))
    return b"".join(made)


def steer(sockets: Sequence[socket.socket], chances: Sequence[tuple[int, int]]) -> bool:
    """Installs the program for all sockets that listen on the port of `sockets`. False if the system refuses it."""
    if sys.platform != "linux" or not sockets or not any(weight > 0 for _, weight in chances):
        return False
    instructions = ctypes.create_string_buffer(program(chances))
    count = (len(instructions) - 1) // _INSTRUCTION.size
    try:
        for each in sockets:
            each.setsockopt(
                socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, _FILTER.pack(count, ctypes.addressof(instructions))
            )
    except OSError:
        return False
    return True


def listening_sockets(port: int) -> list[socket.socket]:
    """The sockets of this process that listen on a TCP port. They are found by their descriptors, since gRPC does not
    return its sockets. Each is a duplicate, which the caller closes.
    """
    found: list[socket.socket] = []
    for number in descriptors():
        if any(each.fileno() == number for each in found):
            continue  # the number of the descriptor that listed the folder, used again
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            made = socket.socket(fileno=os.dup(number))
        except OSError:
            continue  # closed by another thread since
        with contextlib.suppress(OSError, IndexError, TypeError):
            name = made.getsockname() if made.family in (socket.AF_INET, socket.AF_INET6) else ()
            if name and name[1] == port and made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found.append(made)
                continue
        made.close()
    return found


def open_sockets() -> int:
    """The number of sockets of this process; 0 on systems that do not report it."""
    count = 0
    for number in descriptors():
        with contextlib.suppress(OSError):
            count += stat.S_ISSOCK(os.fstat(number).st_mode)
    return count


def descriptors() -> list[int]:
    """The open files and sockets of this process; none on systems that do not report them."""
    try:
        return [int(path.name) for path in Path("/proc/self/fd").iterdir()]
    except OSError:
        return []


class SocketOrder:
    """The index of each worker's socket, by the same rule that the system follows.

    >>> order = SocketOrder()
    >>> for worker, since in ((0, 12.5), (1, 12.25), (2, 12.75)):
    ...     order.listens(worker, since)
    >>> order.indices()
    {1: 0, 0: 1, 2: 2}
    >>> order.closed(1)  # the last one takes its index
    >>> order.indices()
    {2: 0, 0: 1}

    Of two sockets that close at nearly the same time it is not known which closed first, and so not which index the
    others have now: `is_certain` is False until all but one of those have closed.
    """

    def __init__(self) -> None:
        self.is_certain = True
        self._last_closed = float("-inf")
        self._workers: list[int] = []
        self._since: dict[int, float] = {}
        self._settled = 0  # the indices of the first so many sockets are final

    def listens(self, worker: int, since: float) -> None:
        """Notes that a worker's socket began to listen at the time `since`. Calls may come in another order than the
        times.
        """
        self.closed(worker)
        at = len(self._workers)
        while at > self._settled and self._since[self._workers[at - 1]] > since:
            at -= 1
        self._workers.insert(at, worker)
        self._since[worker] = since

    def closed(self, worker: int) -> None:
        """Notes that the socket of a worker was closed, if it listened."""
        if worker not in self._since:
            return
        at = self._workers.index(worker)
        last = self._workers.pop()
        if last != worker:
            self._workers[at] = last
        del self._since[worker]
        self._settled = len(self._workers)
        now = time.monotonic()
        if now - self._last_closed < _SAME_TIME_SECONDS:
            self.is_certain = False
        if len(self._workers) <= 1:
            self.is_certain = True
        self._last_closed = now

    def indices(self) -> dict[int, int]:
        """Worker → index of its socket."""
        return {worker: index for index, worker in enumerate(self._workers)}
