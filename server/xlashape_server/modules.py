"""Decodes the modules that requests refer to, by name or inline, and keeps them.

Before a module is decoded, its instructions are counted and the memory that it will take is reserved: that of its
messages, and of its views, the objects through which the library reads the messages. Each worker has a cache of decoded
modules, with reports about them, which drops the least recently used entries.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Generic, NamedTuple, TypeVar, cast

from xlashape.base.caches import CacheUsage
from xlashape.errors import FieldPath, InvalidArgumentError, LimitExceededError, ParseError, XlashapeError
from xlashape.hlo import HloModule
from xlashape.hlo.files.convert import decode_text
from xlashape.hlo.files.detect_format import holds_hlo_proto, holds_text
from xlashape.limits import spend
from xlashape.proto import v1, xla
from xlashape.reports.program import mends as mended_module
from xlashape_server.config import Config
from xlashape_server.memory import reserve
from xlashape_server.precount import MessageCount, count
from xlashape_server.store import Store

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class _Kept(Generic[K, V]):
    """A cache: key → value. `max_bytes` bounds the memory that the values take; the least recently used are dropped.

    A worker adds its cache to the register of `xlashape.base.caches`. Other owners, such as one command of the
    command line, do not, so that their caches end with them.
    """

    what = ""
    """What the cache holds, for its name in the register."""

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
            self._make_room(size)
            self._values[key] = size, value
            self._bytes += size

    def _make_room(self, size: int, spared: K | None = None) -> None:
        """Drops values until `size` more bytes fit, the least recently used first, and never that of the key `spared`.
        The bytes must fit beside the spared value. Call it under the lock.
        """
        while self._bytes + size > self._max_bytes:
            key = next(key for key in self._values if key != spared)
            self._bytes -= self._values.pop(key)[0]
            self.evictions += 1

    def clear(self) -> None:
        """Forgets all values."""
        with self._lock:
            self._values.clear()
            self._bytes = 0

    def usage(self) -> CacheUsage:
        """Size and maximum of the cache."""
        with self._lock:
            return CacheUsage(f"xlashape_server: {self.what}", len(self._values), self._bytes, self._max_bytes)


class _KeptModule(NamedTuple):
    """A module; the bytes of memory that an answer about it may take; and the reports about it: question → size in
    bytes and report.
    """

    module: HloModule
    answers: int
    reports: dict[bytes, tuple[int, object]]


class ModuleCache(_Kept[str, _KeptModule]):
    """Decoded modules. The size of a module includes all of its views, and the kept reports about it."""

    what = "decoded modules"

    def keep(self, key: str, size: int, module: HloModule, answers: int = 0) -> None:
        """Keeps a module that takes `size` bytes, and an answer about which may take `answers` bytes more."""
        self.put(key, size, _KeptModule(module, answers, {}))

    def report(self, module: HloModule, question: bytes) -> object:
        """The kept report about a module that answers a serialized question, or None. The pages of a report have the
        same question, so that only the first page computes it.
        """
        with self._lock:
            _, _, reports = self._entry_of(module)
            return reports[question][1] if question in reports else None

    def report_or(self, module: HloModule, question: bytes, make: Callable[[], A], weigh: Callable[[A], int]) -> A:
        """The kept report about a module, or else the report that `make` returns, which is then kept. `weigh` returns
        the bytes of memory that a report takes.
        """
        kept = self.report(module, question)
        if kept is None:
            kept = make()
            self.put_report(module, question, weigh(kept), kept)
        return cast("A", kept)

    def put_report(self, module: HloModule, question: bytes, size: int, answer: object) -> None:
        """Keeps a report of `size` bytes with its module, if the module is kept. To make room, the other reports about
        the module are dropped, then the least recently used modules.
        """
        with self._lock:
            key, weight, reports = self._entry_of(module)
            freed = sum([each for each, _ in reports.values()])
            if key is None or question in reports or weight - freed + size > self._max_bytes:
                return
            if size > self._max_bytes - self._bytes:
                reports.clear()  # they can be computed again from the module
                weight -= freed
                self._bytes -= freed
            self._make_room(size, spared=key)
            reports[question] = size, answer
            self._values[key] = weight + size, self._values[key][1]
            self._bytes += size

    def entry_of(self, module: HloModule) -> tuple[str, int]:
        """The key of a module, which names its content, and its size; "" and 0 if it is not kept."""
        with self._lock:
            key, size, _ = self._entry_of(module)
        return key or "", size

    def _entry_of(self, module: HloModule) -> tuple[str | None, int, dict[bytes, tuple[int, object]]]:
        """The key of a module, its size and its reports; the key is None if the module is not kept. Call it under the
        lock.
        """
        for key, (size, kept) in self._values.items():
            if kept.module is module:
                return key, size, kept.reports
        return None, 0, {}


# -- modules -----------------------------------------------------------------------------------


HLO_MODULE_PROTO, HLO_PROTO, TEXT = "hlo_module_proto", "hlo_proto", "text"
"""The formats of a module's content."""

# Matches once or more in each instruction of a text: `=` and the beginning of the type of the result, an array or a
# tuple. A comment between them, which XLA does not write, counts as a type, since to search behind runs of comments
# takes time that grows faster than the text.
_TYPE_OF_RESULT = re.compile(rb"=\s*(?:\w+\[|\(|/[*/])")
# Bytes of memory that an instruction takes beside the message of its kind. Measured: 300 to 1,750 with that message.
_VIEW_BYTES = 800
# Bytes of memory for each instruction that a report about a whole module, or its text, takes while it is made. Measured
# with Diff, Tile, Verify and GetText: 1,700 to 3,000.
_WORK_BYTES = 3000
# Upper bounds of the memory that reading text takes: bytes for each byte, for each "[" (most belong to shapes) and for
# each instruction. Measured with the smallest instructions, the longest tuples and constants, and models of many sizes.
_TEXT_FACTOR = 16
_TEXT_SHAPE_BYTES = 1000
_TEXT_INSTRUCTION_BYTES = 1000
# The most shapes per instruction, on average, in the text of a module with the most instructions.
_SHAPES_PER_INSTRUCTION = 4
_WINDOW = 1 << 20  # bytes of text in one search
# A match may reach this many bytes into the next window. A result type after a longer run of spaces may not be counted.
_LONGEST_MATCH = 4096
_MENDED = "m"
"""The end of the key of a module whose text is none as it stands."""
_INSTRUCTION: str = xla.HloInstructionProto.DESCRIPTOR.full_name


class Modules:
    """The modules that requests refer to: by name in the store, or inline."""

    def __init__(self, config: Config, store: Store) -> None:
        self.store = store
        self._max_bytes = config.max_module_bytes
        self._max_text_bytes = config.max_module_text_bytes
        self._max_instructions = config.max_module_instructions
        self._max_memory = config.max_module_memory
        self.cache = ModuleCache(config.module_cache_bytes)

    def relieve(self) -> None:
        """Forgets decoded modules, and the reports about them."""
        self.cache.clear()

    def read(self, value: v1.ModuleInput, path: FieldPath, *, mends: bool = False) -> HloModule:
        """The module of an input; `path` is the input's path in the request, for errors. With `mends`, an input's own
        text that is no module is read as `xlashape.hlo.files.forgiving` says; the `notes` of the module say how.
        """
        source = value.WhichOneof("source")
        if source is None:
            raise InvalidArgumentError("a module is missing: expected name, serialized or text", field=path)
        path = (*path, source)
        if source == "name":
            # The store is asked before the cache, so that no worker uses a module that was deleted or is too old.
            stored = self.store.find(value.name, field=path)
            is_text = stored.facts.get("format") == TEXT
            key = _key(stored.sha256, is_text)
            module = self._kept(key)
            if module is not None:
                return module
            return self._decoded(self.store.read(value.name, field=path), path, key, is_text=is_text)
        if source == "text":
            return self.decode(value.text.encode(), path, is_text=True, mends=mends)
        return self.decode(value.serialized, path, is_text=False)

    def decode(
        self,
        data: bytes,
        path: FieldPath,
        sha256: str | None = None,
        *,
        is_text: bool | None = None,
        mends: bool = False,
    ) -> HloModule:
        """The module in `data`, which is text if `is_text` is true and a proto if it is false. If it is None, the
        format is detected from the content. `mends` is that of `read`.
        """
        self.check_size(len(data), path)
        if is_text is None:
            is_text = holds_text(data)
        key = _key(sha256 or hashlib.sha256(data).hexdigest(), is_text)
        kept = self._kept(key) or (self._kept(f"{key}{_MENDED}") if mends else None)
        return kept or self._decoded(data, path, key, is_text=is_text, mends=mends)

    def _kept(self, key: str) -> HloModule | None:
        """The module that the cache has under `key`, or None. Reserves the memory for an answer about it."""
        kept = self.cache.get(key)
        if kept is None:
            return None
        reserve(kept.answers)
        return kept.module

    def _decoded(self, data: bytes, path: FieldPath, key: str, *, is_text: bool, mends: bool = False) -> HloModule:
        """The module in `data`, which the cache keeps under `key`; a mended one under a key of its own."""
        self.check_size(len(data), path)
        try:
            if is_text:
                self._precount_text(data)
                # Constants whose values the text elides get no values: a text of 69 bytes would take 256 MB for them.
                text = decode_text(data)
                try:
                    module = HloModule.parse(text, elided_values=False)
                except ParseError:
                    mended = mended_module(text.text) if mends else None
                    if mended is None:
                        raise
                    module, key = mended, f"{key}{_MENDED}"
                counted = self._precount(module.to_bytes(), is_module=True)
                reserve(counted.answers)
            else:
                counted = self._precount(data)
                reserve(_weight(counted))
                module = HloModule.from_proto(data)
        except XlashapeError as error:
            raise error.within(*path) from None
        self.cache.keep(key, _weight(counted), module, counted.answers)
        return module

    def check_size(self, size: int, path: FieldPath) -> None:
        """LimitExceededError "module_bytes" if a module of `size` bytes is too large."""
        if size > self._max_bytes:
            raise LimitExceededError(
                f"the module has {size} bytes or more, of {self._max_bytes} allowed",
                limit="module_bytes",
                maximum=self._max_bytes,
                value=size,
                field=path,
            )

    def _precount(self, data: bytes, *, is_module: bool = False) -> MessageCount:
        """Counts the instructions of a serialized module, and the memory that it will take. LimitExceededError if there
        is too much of either.
        """
        message = xla.HloModuleProto if is_module or not holds_hlo_proto(data) else xla.HloProto
        return count(
            data,
            message.DESCRIPTOR,
            _INSTRUCTION,
            max_counted=self._max_instructions,
            max_memory=self._max_memory,
            subject="the module",
            limit="module_instructions",
        )

    def _precount_text(self, data: bytes) -> None:
        """Reserves the memory that reading the text takes. LimitExceededError if the text is too long, or has too many
        instructions.
        """
        if len(data) > self._max_text_bytes:
            raise LimitExceededError(
                f"the module's text has {len(data)} bytes, of {self._max_text_bytes} allowed",
                limit="module_text_bytes",
                maximum=self._max_text_bytes,
                value=len(data),
            )
        found = 0
        for _ in _results(data):
            found += 1
            if found > self._max_instructions:
                raise LimitExceededError(
                    f"the module has more than {self._max_instructions} instructions",
                    limit="module_instructions",
                    maximum=self._max_instructions,
                )
        shapes = data.count(b"[")
        if shapes > _SHAPES_PER_INSTRUCTION * self._max_instructions:
            raise LimitExceededError(
                f"the module has more than {_SHAPES_PER_INSTRUCTION * self._max_instructions} shapes and lists",
                limit="module_shapes",
                maximum=_SHAPES_PER_INSTRUCTION * self._max_instructions,
                value=shapes,
            )
        reserve(_TEXT_FACTOR * len(data) + _TEXT_SHAPE_BYTES * shapes + _TEXT_INSTRUCTION_BYTES * found)


def _results(data: bytes) -> Iterator[None]:
    """Yields once for each result type in the text of a module. The text is searched in windows, since other threads
    cannot run during a search.
    """
    at, end = 0, 0
    while end < len(data):
        end = min(len(data), end + _WINDOW)
        spend(256)
        # A match that begins in this window may end in the next one.
        while (match := _TYPE_OF_RESULT.search(data, at, min(len(data), end + _LONGEST_MATCH))) is not None:
            if match.start() >= end:
                break
            at = match.end()
            yield None
        at = max(at, end)


def _weight(counted: MessageCount) -> int:
    """The bytes of memory that a module takes with all of its views: its messages, and for each instruction what a view
    of it keeps.
    """
    return counted.memory + _VIEW_BYTES * counted.counted


def reserve_work(module: HloModule) -> None:
    """Reserves the memory that a report about a whole module, or the text of the module, takes while it is made."""
    reserve(_WORK_BYTES * sum(map(len, module.computations)))


def format_of(data: bytes) -> str:
    """The format of a module's content."""
    if holds_text(data):
        return TEXT
    return HLO_PROTO if holds_hlo_proto(data) else HLO_MODULE_PROTO


def _key(sha256: str, is_text: bool) -> str:
    # The same bytes may be sent as text and as a proto, so the format is part of the key.
    return f"{sha256}{'t' if is_text else 'p'}"
