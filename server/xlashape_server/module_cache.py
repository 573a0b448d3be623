"""What one worker keeps: decoded modules by content, and answers about one instruction by question. The least recently used are dropped."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

from xlashape.caches import CacheUsage
from xlashape.hlo import HloModule
from xlashape.reports.report import Answer

K = TypeVar("K")
V = TypeVar("V")


class _Kept(Generic[K, V]):
    """Key → value. `max_bytes` bounds the memory that the values take; the least recently used go first.

    A worker adds its caches to the register of `xlashape.caches`. The cache of a shorter-lived owner ends with its owner.
    """

    what = ""
    """The name in the register."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._values: OrderedDict[K, tuple[int, V]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()
        self.hits = 0
        self.misses = 0
        self.evictions = 0
        """Values that made room for others."""

    def get(self, key: K) -> V | None:
        """The value, or None."""
        with self._lock:
            entry = self._values.get(key)
            if entry is None:
                self.misses += 1
                return None
            self.hits += 1
            self._values.move_to_end(key)
            return entry[1]

    def put(self, key: K, size: int, value: V) -> None:
        """Keeps a value that takes `size` bytes of memory, unless that alone is more than `max_bytes`."""
        with self._lock:
            if key in self._values or size > self._max_bytes:
                return
            self._values[key] = size, value
            self._bytes += size
            while self._bytes > self._max_bytes:
                dropped, (freed, _) = self._values.popitem(last=False)
                self._bytes -= freed
                self.evictions += 1
                self._was_dropped(dropped)

    def _was_dropped(self, key: K) -> None:
        """Called where a value has made room for others, under the lock."""

    def clear(self) -> None:
        """Forgets all values."""
        with self._lock:
            self._values.clear()
            self._bytes = 0

    def usage(self) -> CacheUsage:
        """Size and maximum of the cache."""
        with self._lock:
            return CacheUsage(f"xlashape_server: {self.what}", len(self._values), self._bytes, self._max_bytes)


class ModuleCache(_Kept[str, HloModule]):
    """Modules, which count with all of their views, and with the reports about them that are kept."""

    what = "decoded modules"

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._reports: dict[str, dict[bytes, Answer]] = {}
        self._sizes: dict[tuple[str, bytes], int] = {}

    def report(self, module: HloModule, question: bytes) -> Answer | None:
        """The report about a module that was kept for a question, or None: its further pages are not computed again."""
        with self._lock:
            key = self._key_of(module)
            return None if key is None else self._reports.get(key, {}).get(question)

    def put_report(self, module: HloModule, question: bytes, size: int, answer: Answer) -> None:
        """Keeps a report about a kept module, for as long as that is kept, and as a part of its size."""
        with self._lock:
            key = self._key_of(module)
            if key is None or question in self._reports.get(key, {}):
                return
            weight, value = self._values[key]
            if size > self._max_bytes - self._bytes:
                # The reports of this module go first: others follow from it again.
                kept = self._reports.pop(key, {})
                freed = sum([self._sizes.pop((key, each), 0) for each in kept])
                weight -= freed
                self._bytes -= freed
                self._values[key] = weight, value
            if size > self._max_bytes - self._bytes:
                return
            self._reports.setdefault(key, {})[question] = answer
            self._sizes[key, question] = size
            self._values[key] = weight + size, value
            self._bytes += size

    def _key_of(self, module: HloModule) -> str | None:
        return next((key for key, (_, value) in self._values.items() if value is module), None)

    def _was_dropped(self, key: str) -> None:
        for question in self._reports.pop(key, {}):
            self._sizes.pop((key, question), None)

    def clear(self) -> None:
        super().clear()
        with self._lock:
            self._reports.clear()
            self._sizes.clear()


class AnswerCache(_Kept[bytes, bytes]):
    """Serialized answers by their serialized questions: content never changes, so the same question has the same answer."""

    what = "answers"
