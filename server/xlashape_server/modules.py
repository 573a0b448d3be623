"""Decodes the modules that requests refer to, by name or inline, and keeps them with what was found out about them.

A compute child has one `Modules`. It forgets all when its memory is getting full, so nothing here is weighed.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

from xlashape.errors import FieldPath, InvalidArgumentError, ParseError, XlashapeError
from xlashape.hlo import HloModule
from xlashape.hlo.files.convert import decode_text
from xlashape.hlo.files.detect_format import holds_hlo_proto, holds_text
from xlashape.limits import at_most
from xlashape.proto import v1
from xlashape.reports.program import mends as mended_module
from xlashape_server.config import Config
from xlashape_server.store import Store

A = TypeVar("A")

MOST_MODULES = 64
"""The most decoded modules that are kept."""
_MOST_FINDINGS = 16  # of a module
_MENDED = "m"
"""The end of the key of a module whose text is none as it stands."""


class _Kept(NamedTuple):
    module: HloModule
    findings: OrderedDict[bytes, object]
    """What was found out about the module, such as a report, by the question."""


class Modules:
    """The modules that requests refer to: by name in the store, or inline. It belongs to one thread."""

    def __init__(self, config: Config, store: Store) -> None:
        self.store = store
        self._max_bytes = config.max_module_bytes
        self._max_text_bytes = config.max_module_text_bytes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def forget(self) -> None:
        """Forgets all modules, and what was found out about them."""
        self._kept.clear()

    def read(self, value: v1.ModuleInput, path: FieldPath, *, mends: bool = False) -> HloModule:
        """The module of an input; `path` is the input's path in the request, for errors. With `mends`, an input's own
        text that is no module is read as `xlashape.hlo.files.forgiving` says; the `notes` of the module say how.
        """
        source = value.WhichOneof("source")
        if source is None:
            raise InvalidArgumentError("a module is missing: expected name, serialized or text", field=path)
        path = (*path, source)
        if source == "name":
            # The store is asked first, so that no module is used that was deleted or is too old.
            stored = self.store.find(value.name, field=path)
            is_text = stored.facts["format"] == v1.MODULE_FORMAT_TEXT
            key = _key(stored.sha256, is_text)
            return self._found(key) or self._decoded(
                self.store.read(value.name, field=path), path, key, is_text=is_text
            )
        if source == "text":
            return self.decode(value.text.encode(), path, is_text=True, mends=mends)
        return self.decode(value.serialized, path, is_text=False)

    def decode(
        self,
        data: bytes,
        path: FieldPath,
        sha256: str | None = None,
        *,
        is_text: bool,
        mends: bool = False,
    ) -> HloModule:
        """The module in `data`, which is text or a proto. `mends` is that of `read`."""
        self.check_size(len(data), path)
        key = _key(sha256 or hashlib.sha256(data).hexdigest(), is_text)
        kept = self._found(key) or (self._found(f"{key}{_MENDED}") if mends else None)
        return kept or self._decoded(data, path, key, is_text=is_text, mends=mends)

    def _found(self, key: str) -> HloModule | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        self._kept.move_to_end(key)
        return kept.module

    def _decoded(self, data: bytes, path: FieldPath, key: str, *, is_text: bool, mends: bool = False) -> HloModule:
        """The module in `data`, which is kept under `key`; a mended one under a key of its own."""
        self.check_size(len(data), path)
        try:
            if is_text:
                module, is_mended = self._read_text(data, mends=mends)
                key = f"{key}{_MENDED}" if is_mended else key
            else:
                module = HloModule.from_proto(data)
        except XlashapeError as error:
            raise error.within(*path) from None
        self._kept[key] = _Kept(module, OrderedDict())
        while len(self._kept) > MOST_MODULES:
            self._kept.popitem(last=False)
        return module

    def _read_text(self, data: bytes, *, mends: bool) -> tuple[HloModule, bool]:
        """The module in a text, and whether that was mended."""
        at_most(self._max_text_bytes, len(data), "module_text_bytes", "the module's text has {} bytes")
        text = decode_text(data)
        try:
            # Constants whose values the text elides get no values: a text of 69 bytes would take 256 MB for them.
            return HloModule.parse(text, elided_values=False), False
        except ParseError:
            mended = mended_module(text.text) if mends else None
            if mended is None:
                raise
            return mended, True

    def found(self, module: HloModule, question: bytes, find: Callable[[], A]) -> A:
        """What `find` returns about a module, kept with the module under `question` if the module is kept."""
        kept = next((each for each in self._kept.values() if each.module is module), None)
        if kept is None:
            return find()
        if question not in kept.findings:
            kept.findings[question] = find()
            while len(kept.findings) > _MOST_FINDINGS:
                kept.findings.popitem(last=False)
        return cast("A", kept.findings[question])

    def key_of(self, module: HloModule) -> str:
        """The key of a module, which names its content; empty if it is not kept."""
        return next((key for key, each in self._kept.items() if each.module is module), "")

    def check_size(self, size: int, path: FieldPath) -> None:
        """LimitExceededError "module_bytes" if a module of `size` bytes is too large."""
        at_most(self._max_bytes, size, "module_bytes", "the module has {} bytes or more", field=path)


def format_of(data: bytes) -> int:
    """The format of a module's content: a ModuleFormat of the schema."""
    if holds_text(data):
        return v1.MODULE_FORMAT_TEXT
    return v1.MODULE_FORMAT_HLO_PROTO if holds_hlo_proto(data) else v1.MODULE_FORMAT_HLO_MODULE_PROTO


def _key(sha256: str, is_text: bool) -> str:
    # The same bytes may be sent as text and as a proto, so the format is part of the key.
    return f"{sha256}{'t' if is_text else 'p'}"
