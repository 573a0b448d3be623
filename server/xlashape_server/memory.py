"""The memory of a worker: calls reserve what they are about to take, and are refused when there is not enough.

    memory = Memory(2 << 30)
    with memory.lease() as lease:
        lease.take(64 << 20)            # LimitExceededError "worker_memory" if that is more than is left
        reserve(10 << 20)               # the same, of the lease of the call that this code runs for; nothing happens where there is none

What is left is computed from the reservations and from the memory that the process really has: reservations are promises, and caches and
the allocator take memory that nobody reserved.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from xlashape.errors import LimitExceededError

__all__ = ["Lease", "Memory", "reserve", "resident_bytes", "set_lease", "trim"]

_SMALL = 64 << 10  # bytes; less is not worth a reservation: a worker has room for that much for each of its calls
_LARGE = 1 << 20  # bytes; before so much is taken, the memory of the process is measured
_RELIEF_SECONDS = 1.0  # between two attempts to get memory back from caches and the allocator
_STATM = Path("/proc/self/statm")
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def resident_bytes() -> int:
    """The memory of this process, in bytes; 0 where the system does not say."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE
    except OSError:
        return 0


class Memory:
    """What all calls of a worker may take together: `maximum` bytes for the process. `relieve` is called before a call is refused: it empties caches."""

    def __init__(self, maximum: int, relieve: Callable[[], None] | None = None) -> None:
        self.maximum = maximum
        self.base = resident_bytes()
        """The memory of the process before the first call."""
        self._relieve = relieve
        self._lock = threading.Lock()
        self._reserved = 0
        self._last_relief = 0.0

    @property
    def reserved(self) -> int:
        """The bytes that calls have reserved."""
        return self._reserved

    def lease(self) -> Lease:
        """What one call reserves, nothing yet."""
        return Lease(self)

    def take(self, size: int) -> None:
        """Reserves `size` bytes. LimitExceededError "worker_memory" if there are not so many left."""
        with self._lock:
            fits = self._fits(size)
            if fits:
                self._reserved += size
        if fits:
            return
        self.relieve()
        with self._lock:
            if self._fits(size):
                self._reserved += size
                return
            reserved = self._reserved
        raise LimitExceededError(
            f"the call needs about {size} bytes, and the server has {max(0, self.maximum - self.base - reserved)} of "
            f"{self.maximum} left; try again",
            limit="worker_memory",
            maximum=self.maximum,
            value=size,
        )

    def give_back(self, size: int) -> None:
        """Ends a reservation."""
        with self._lock:
            self._reserved -= size

    def relieve(self) -> None:
        """Gets memory back from caches, the collector of cycles and the allocator, once a second at most."""
        now = time.monotonic()
        with self._lock:
            if now - self._last_relief < _RELIEF_SECONDS:
                return
            self._last_relief = now
        if self._relieve is not None:
            self._relieve()
        gc.collect()
        trim()

    def _fits(self, size: int) -> bool:
        if self.base + self._reserved + size > self.maximum:
            return False
        return size < _LARGE or resident_bytes() + size <= self.maximum


class Lease:
    """The reservation of one call. Use it in a `with` block, or call `release`."""

    __slots__ = ("_memory", "size")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.size = 0
        """Reserved bytes."""

    def take(self, size: int) -> None:
        """Reserves `size` bytes more. LimitExceededError "worker_memory" if there are not so many left. Small sizes are not counted."""
        if size > _SMALL:
            self._memory.take(size)
            self.size += size

    def keep(self, size: int) -> None:
        """Gives back all but `size` bytes, of what may be less than that."""
        if size <= _SMALL:
            size = 0
        if self.size > size:
            self._memory.give_back(self.size - size)
            self.size = size
        elif self.size < size:
            self.take(size - self.size)

    def release(self) -> None:
        """Gives everything back. May be called twice."""
        self.keep(0)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class _Thread(threading.local):
    lease: Lease | None = None


_thread = _Thread()


def set_lease(lease: Lease | None) -> None:
    """Makes `reserve` in this thread reserve for the call that has this lease."""
    _thread.lease = lease


def reserve(size: int) -> None:
    """Reserves `size` bytes for the call that this thread computes, until it ends. LimitExceededError "worker_memory" if there are not so many left."""
    lease = _thread.lease
    if lease is not None:
        lease.take(size)


def trim() -> None:
    """Gives memory that the allocator keeps for later back to the system, where it can."""
    if sys.platform == "linux":
        try:
            ctypes.CDLL(None).malloc_trim(0)
        except (OSError, AttributeError):  # another C library than glibc
            return
