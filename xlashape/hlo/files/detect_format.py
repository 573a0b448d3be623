"""Decides whether bytes are an HloModuleProto, an HloProto or HLO text. Only the outermost fields are looked at.

    HloModuleProto   1 name (string)            3 computations, each an HloComputationProto   and 2, 4, 5, …
    HloProto         1 hlo_module (a message)   3 buffer_assignment                    2 hlo_ordering, no longer written

Fields 1 and 3 are length-delimited in both. An HloProto has no field beyond 3, and its field 1 holds an HloModuleProto,
whose computations begin with the byte 0x1A (field 3, length-delimited). An HloModuleProto would be mistaken for an
HloProto only if it had no fields beyond 3, so neither an id nor an entry computation other than 0, and if its name were
itself a well-formed message with the control character 0x1A as one of its tags. XLA makes names of letters, digits,
'.', '_' and '-'. Without any computation the two messages cannot always be distinguished; either is then refused,
because it has no entry computation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from xlashape.errors import DecodeError
from xlashape.proto.wire import BYTES, GROUP, fields

_MAX_FIELDS: Final = 1 << 20  # outermost fields that are looked at; modules have fewer computations
_MARK: Final = re.compile(rb"[A-Za-z_] ?[=:{]")
_HEAD_BYTES: Final = 4096  # bytes at the beginning of a file that decide whether it looks like text


def holds_hlo_proto(data: bytes) -> bool:
    """Whether `data` is an HloProto, which XLA dumps as `.hlo.pb`, rather than an HloModuleProto.

    False also for bytes that are neither: decoding them as an HloModuleProto then raises the error.

    >>> from xlashape.proto import xla
    >>> module = xla.HloModuleProto(name="m", computations=[xla.HloComputationProto(name="e")])
    >>> (
    ...     holds_hlo_proto(module.SerializeToString()),
    ...     holds_hlo_proto(xla.HloProto(hlo_module=module).SerializeToString()),
    ... )
    (False, True)
    """
    view = memoryview(data)
    has_module = False
    try:
        for number, wire_type, content, end in _outermost_fields(view):
            # Stops at the first field that an HloProto does not have, so that a large HloModuleProto is not read to
            # its end.
            if number > 3 or wire_type != BYTES:
                return False
            has_module = has_module or (number == 1 and _holds_computations(view[content:end]))
    except DecodeError:
        return False
    return has_module


def _holds_computations(module: memoryview) -> bool:
    try:
        return any(number == 3 and wire_type == BYTES for number, wire_type, _, _ in _outermost_fields(module))
    except DecodeError:
        return False


def _outermost_fields(data: bytes | memoryview) -> Iterator[tuple[int, int, int, int]]:
    """(field number, wire type, offset of the content, end) of the first _MAX_FIELDS fields.

    Raises DecodeError for malformed fields, and for a group: XLA's schema has no groups, but text may look like one.
    """
    for number, wire_type, _, content, end in islice(fields(data), _MAX_FIELDS):
        if wire_type == GROUP:
            raise DecodeError("XLA's messages have no groups")
        yield number, wire_type, content, end


def holds_text(data: bytes) -> bool:
    r"""Whether `data` is HLO text or was meant to be, so that a mistake in it is reported as a mistake in text.

    A well-formed message with fields is a proto. Other bytes are text if their first 4096 bytes look like text: they
    begin with a word that starts a module, or they have no control characters and either are UTF-8 or hold a name with
    a value. A truncated proto does not look like text, since it has the tag 0x1A or 0x12 after the module's name.

    >>> holds_text(b"HloModule m\n"), holds_text(b"\n\x01m\x1a\x03\n\x01e")
    (True, False)
    """
    if not data or data.isspace():
        # Spaces alone would be a well-formed message: each pair of them is a field with the number 4.
        return True
    try:
        for _ in _outermost_fields(memoryview(data)):
            pass
    except DecodeError:
        head = data[:_HEAD_BYTES]
        starts_module = head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"HloModule", b"ENTRY", b"/*", b"//", b"%"))
        return starts_module or (not any(byte < 9 or 13 < byte < 32 for byte in head) and _is_readable(head))
    return False


def _is_readable(head: bytes) -> bool:
    """Whether bytes are UTF-8, perhaps cut off within a character, or else hold a name that is followed by a value."""
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return (len(head) == _HEAD_BYTES and error.start > _HEAD_BYTES - 4) or _MARK.search(head) is not None
    return True
