"""A cache of decoded modules in one worker, by content; the least recently used are dropped."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from xlashape.caches import CacheUsage
from xlashape.hlo import HloModule

__all__ = ["ModuleCache"]


class ModuleCache:
    """Key → module. `max_bytes` bounds the memory that the modules take with all of their views; the least recently used go first.

    A worker adds its cache to the register of `xlashape.caches`. The cache of a shorter-lived owner ends with its owner.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._modules: OrderedDict[str, tuple[int, HloModule]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()
        self.hits = 0
        self.misses = 0
        self.evictions = 0
        """Modules that made room for others."""

    def get(self, key: str) -> HloModule | None:
        """The module, or None."""
        with self._lock:
            entry = self._modules.get(key)
            if entry is None:
                self.misses += 1
                return None
            self.hits += 1
            self._modules.move_to_end(key)
            return entry[1]

    def put(self, key: str, size: int, module: HloModule) -> None:
        """Keeps a module that takes `size` bytes of memory, unless that alone is more than `max_bytes`."""
        with self._lock:
            if key in self._modules or size > self._max_bytes:
                return
            self._modules[key] = size, module
            self._bytes += size
            while self._bytes > self._max_bytes:
                _, (freed, _) = self._modules.popitem(last=False)
                self._bytes -= freed
                self.evictions += 1

    def clear(self) -> None:
        """Forgets all modules."""
        with self._lock:
            self._modules.clear()
            self._bytes = 0

    def usage(self) -> CacheUsage:
        """Size and maximum of the cache."""
        with self._lock:
            return CacheUsage("xlashape_server: decoded modules", len(self._modules), self._bytes, self._max_bytes)
