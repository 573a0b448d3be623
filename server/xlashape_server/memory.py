"""The memory budget of a worker: calls reserve memory before they use it, and are refused when too little is left.

    memory = Memory(2 << 30)
    lease = Lease(memory)
    lease.take(64 << 20)            # LimitExceededError "worker_memory" if that is more than is left
    reserve(10 << 20)               # takes from the lease of the current call; does nothing outside of calls
    lease.release()

What is left is computed from the reservations and from the memory that the process uses. Neither is enough alone: a
call may not have used its reservation yet, and caches and the allocator hold memory that no call has reserved.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import time
from collections.abc import Callable

from xlashape.errors import LimitExceededError

_SMALL = 64 << 10  # bytes; smaller sizes are not reserved, since a worker has room for them in all of its calls
_LARGE = 1 << 20  # bytes; the memory of the process is measured before a larger reservation
_RELIEF_SECONDS = 1.0  # seconds between attempts to get memory back from caches and the collector of cycles
_MOST_ON_HEAP = 32 << 20  # bytes; glibc puts smaller blocks on the heap, and this is the largest bound that it allows
_KEPT_BYTES = 128 << 20  # free bytes at the end of the heap that stay with the process
_KEPT_PART = 8  # the kept free bytes are at most an eighth of the memory that the process may have
_statm: dict[int, int] = {}
"""Process id → the file descriptor of /proc/self/statm, where Linux shows the memory of the process. It stays open,
since opening the file takes longer than reading it. A forked process opens its own.
"""
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def resident_bytes() -> int:
    """The resident memory of this process, in bytes; 0 on systems that do not report it."""
    process = os.getpid()
    try:
        file = _statm.get(process)
        if file is None:
            file = _statm[process] = os.open("/proc/self/statm", os.O_RDONLY)
        return int(os.pread(file, 100, 0).split()[1]) * _PAGE
    except (OSError, AttributeError):
        return 0


class Memory:
    """The memory budget of all calls of a worker: `maximum` bytes for the process. `relieve` empties caches; it is
    called before a call is refused.
    """

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

    def take(self, size: int) -> None:
        """Reserves `size` bytes. LimitExceededError "worker_memory" if fewer are left."""
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
            left = self.maximum - max(self.base + self._reserved, resident_bytes())
        raise LimitExceededError(
            f"the call needs about {size} bytes, and the server has {max(0, left)} of {self.maximum} left; try again",
            limit="worker_memory",
            maximum=self.maximum,
            value=size,
        )

    def give_back(self, size: int) -> None:
        """Ends a reservation."""
        with self._lock:
            self._reserved -= size

    def relieve(self) -> None:
        """Has the allocator return freed memory to the system. Before that, once a second at most, empties the caches
        and collects cycles.
        """
        now = time.monotonic()
        with self._lock:
            is_due = now - self._last_relief >= _RELIEF_SECONDS
            if is_due:
                self._last_relief = now
        if is_due:
            if self._relieve is not None:
                self._relieve()
            gc.collect()
        trim()

    def _fits(self, size: int) -> bool:
        if self.base + self._reserved + size > self.maximum:
            return False
        return size < _LARGE or resident_bytes() + size <= self.maximum


class Lease:
    """The reservation of one call, until `release`."""

    __slots__ = ("_memory", "size")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.size = 0
        """Reserved bytes."""

    def take(self, size: int) -> None:
        """Reserves `size` bytes more. LimitExceededError "worker_memory" if fewer are left. Small sizes are not
        counted.
        """
        if size > _SMALL:
            self._memory.take(size)
            self.size += size

    def keep(self, size: int) -> None:
        """Changes the reservation to `size` bytes, or to none if `size` is small. LimitExceededError "worker_memory" if
        it grows and too few bytes are left.
        """
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


class _Thread(threading.local):
    lease: Lease | None = None


_thread = _Thread()


def set_lease(lease: Lease | None) -> None:
    """Makes `reserve` in this thread reserve on this lease."""
    _thread.lease = lease


def reserve(size: int) -> None:
    """Reserves `size` bytes for the call that this thread computes, until it ends. LimitExceededError "worker_memory"
    if fewer are left.
    """
    lease = _thread.lease
    if lease is not None:
        lease.take(size)


def trim() -> None:
    """Has the allocator return unused memory to the system, if the C library can."""
    if sys.platform == "linux":
        try:
            ctypes.CDLL(None).malloc_trim(0)
        except (OSError, AttributeError):  # another C library than glibc
            return


def keeping_freed_memory(maximum: int) -> dict[str, str]:
    """Environment variables for a process that may have `maximum` bytes. With them, glibc's allocator keeps large freed
    blocks for the next call.

    By default the allocator gives each freed block of megabytes back to the system. A new block comes in pages of 4 KiB
    that the system clears one by one, while the thread has the interpreter's lock: 4 ms for a message of 8 MB, several
    times in a call. `trim` gives the kept blocks back. There is only one heap (arena), since further heaps consist of
    parts of 64 MiB that are given back only as a whole.
    """
    return {
        "MALLOC_MMAP_THRESHOLD_": str(_MOST_ON_HEAP),
        "MALLOC_TRIM_THRESHOLD_": str(min(maximum // _KEPT_PART, _KEPT_BYTES)),
        "MALLOC_ARENA_MAX": "1",
    }
