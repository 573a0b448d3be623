"""Reads parts of a file in protobuf's wire format, without the whole file in memory: fields by their offsets, and the
small messages of a long list one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from xlashape.errors import DecodeError
from xlashape.hlo.files.dumps import what_else
from xlashape.limits import check, spend
from xlashape.proto.wire import BYTES, FIXED32, FIXED64, VARINT, read_varint

_CHUNK: Final = 1 << 20
# The most bytes of a tag and of the length or number after it.
_HEAD: Final = 24
_MOST_CONTENT: Final = 1 << 30
_MOST_MESSAGE: Final = 1 << 24


class Span(NamedTuple):
    """A field of a message, and where in the file its content is."""

    number: int
    wire_type: int
    value: int
    """The number in a field of type VARINT, the length of the content of type BYTES; else 0."""
    start: int
    end: int
    """The offsets at which the content begins and ends."""


class Spans:
    """A file of `size` bytes that can be read at any offset. `name` is what errors call it."""

    def __init__(self, file: BinaryIO, size: int, name: str) -> None:
        self._file = file
        self.size = size
        self.name = name
        self._base = 0
        self._window = b""

    def error(self, what: str, at: int) -> DecodeError:
        """An error about the file."""
        self._file.seek(0)
        kind = what_else(self._file.read(4096))
        if kind is not None:
            return DecodeError(f"{self.name} is no profile: it is {kind}")
        return DecodeError(f"{self.name} is not a profile, or is damaged: {what} at byte {at:,} of {self.size:,}")

    def content(self, span: Span) -> bytes:
        """The content of a field. Raises LimitExceededError above 1 GiB."""
        check("bytes of a field of a profile", span.end - span.start, _MOST_CONTENT)
        return self._read(span.start, span.end - span.start)

    def text(self, span: Span) -> str:
        """The content of a field as text."""
        return self.content(span).decode("utf-8", "replace")

    def fields(self, start: int, end: int) -> Iterator[Span]:
        """The fields of a message between two offsets. Contents are skipped, not read. Raises DecodeError."""
        at = start
        while at < end:
            spend()
            head = self._head(at)
            try:
                tag, after = read_varint(head, 0)
                number, wire_type = tag >> 3, tag & 7
                value = 0
                if wire_type in (BYTES, VARINT):
                    value, after = read_varint(head, after)
            except DecodeError:
                raise self.error("a field is truncated", at) from None
            content = at + after
            if wire_type == VARINT:
                stop = content
            elif wire_type == BYTES:
                stop = content + value
            elif wire_type in (FIXED32, FIXED64):
                stop = content + (4 if wire_type == FIXED32 else 8)
            else:
                raise self.error("there is no such field", at)
            if number == 0 or stop > end:
                raise self.error("a field is longer than the message that holds it", at)
            yield Span(number, wire_type, value, content, stop)
            at = stop

    def messages(self, start: int, end: int, wanted: int) -> Iterator[tuple[bytes, int, int]]:
        """The messages of the repeated field with the number `wanted`, in a message between two offsets: for each a
        buffer, and where in the buffer the message begins and ends. The file is read in chunks of 1 MiB.
        """
        at = start
        tag_byte = wanted << 3 | BYTES
        while at < end:
            buffer = self._read(at, min(_CHUNK, end - at))
            size = len(buffer)
            position = 0
            spend(1 + size // 64)
            while position < size:
                try:
                    tag, content = read_varint(buffer, position)
                    wire_type = tag & 7
                    length, content = read_varint(buffer, content) if wire_type in (BYTES, VARINT) else (0, content)
                except DecodeError:
                    break
                if wire_type == BYTES:
                    stop = content + length
                elif wire_type == VARINT:
                    stop = content
                elif wire_type in (FIXED32, FIXED64):
                    stop = content + (4 if wire_type == FIXED32 else 8)
                else:
                    raise self.error("there is no such field", at + position)
                if stop > size:
                    break
                if tag == tag_byte:
                    yield buffer, content, stop
                position = stop
            if position == 0:
                # The next field is larger than a chunk.
                span = next(self.fields(at, end), None)
                if span is None:
                    return
                if span.number == wanted and span.wire_type == BYTES:
                    check("bytes of a message of a profile", span.end - span.start, _MOST_MESSAGE)
                    yield self._read(span.start, span.end - span.start), 0, span.end - span.start
                position = span.end - at
            at += position

    def may_have(self, start: int, end: int, pattern: bytes) -> bool:
        """Whether bytes between two offsets match a pattern, whose matches have at most 64 bytes."""
        search = re.compile(pattern, re.DOTALL).search
        at = start
        while at < end:
            size = min(_CHUNK, end - at)
            spend(1 + size // 4096)
            if search(self._read(at, size)):
                return True
            at += size if at + size == end else size - 64
        return False

    def _head(self, at: int) -> bytes:
        offset = at - self._base
        if offset < 0 or offset + _HEAD > len(self._window):
            self._base = at
            self._window = self._read(at, min(4096, self.size - at))
            offset = 0
        return self._window[offset : offset + _HEAD]

    def _read(self, at: int, length: int) -> bytes:
        self._file.seek(at)
        data = self._file.read(length)
        if len(data) != length:
            raise self.error("the file ends", at + len(data))
        return data
