"""What kind of module a string of bytes holds, found out by looking at the outermost fields alone.

    HloModuleProto   1 name (string)              3 computations, each an HloComputationProto      and 2, 4, 5, …
    HloProto         1 hlo_module (a message)     3 buffer_assignment                              2 hlo_ordering, long gone

Fields 1 and 3 are length-delimited in both. An HloProto has no field beyond 3; and what its field 1 holds is an HloModuleProto,
whose computations begin with the byte 0x1A (field 3, length-delimited). For an HloModuleProto to be taken for an HloProto it would
have no fields beyond 3, so neither an id nor an entry computation other than 0, and a name that is itself a well-formed message
with a control character 0x1A as one of its tags. XLA makes names of letters, digits, '.', '_' and '-'. Without any computation
the two cannot be told apart in all cases; both are then refused for having no entry computation.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

__all__ = ["holds_hlo_proto", "holds_text", "outermost_fields"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_FIELDS = 1 << 20  # fields looked at; a million computations are no module that anyone has
_FIRST_WORD_WITHIN = 4096  # bytes of a file in which its first word is looked for


def outermost_fields(data: bytes | memoryview) -> Iterator[tuple[int, int, int, int]]:
    """(field number, wire type, start, end) of every field of a serialized message, its submessages not entered.

    `start` and `end` bound the field's content in `data`. Raises ValueError where the bytes are no well-formed message.

    >>> list(outermost_fields(bytes.fromhex("0a016d2801")))
    [(1, 2, 2, 3), (5, 0, 4, 5)]
    """
    at, size = 0, len(data)
    while at < size:
        tag, at = _varint(data, at, size)
        number, kind = tag >> 3, tag & 7
        if not 1 <= number < 1 << 29:
            raise ValueError("no such field number")
        start = at
        if kind == _BYTES:
            length, start = _varint(data, at, size)
            at = start + length
        elif kind == _VARINT:
            _, at = _varint(data, at, size)
        elif kind == _FIXED64:
            at += 8
        elif kind == _FIXED32:
            at += 4
        else:
            raise ValueError("a group, or no wire type")
        if at > size:
            raise ValueError("truncated")
        yield number, kind, start, at


def _varint(data: bytes | memoryview, at: int, size: int) -> tuple[int, int]:
    value = shift = 0
    while at < size and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("not a varint")


def holds_hlo_proto(data: bytes) -> bool:
    """Whether `data` is an HloProto, as XLA dumps it as `.hlo.pb`, and not the HloModuleProto alone.

    False also for what is neither; decoding it as an HloModuleProto then says what is wrong.

    >>> from xlashape.proto import xla
    >>> module = xla.HloModuleProto(name="m", computations=[xla.HloComputationProto(name="e")])
    >>> holds_hlo_proto(module.SerializeToString()), holds_hlo_proto(xla.HloProto(hlo_module=module).SerializeToString())
    (False, True)
    """
    view = memoryview(data)
    found = False
    try:
        for number, _, start, end in _bounded(islice(outermost_fields(view), _MOST_FIELDS)):
            found = found or (number == 1 and _holds_computations(view[start:end]))
    except ValueError:
        return False
    return found


def _bounded(fields: Iterator[tuple[int, int, int, int]]) -> Iterator[tuple[int, int, int, int]]:
    # Stops at the first field that an HloProto does not have, so that a large HloModuleProto is not walked to its end.
    for field in fields:
        if field[0] > 3 or field[1] != _BYTES:
            raise ValueError("not an HloProto's field")
        yield field


def _holds_computations(module: memoryview) -> bool:
    try:
        return any(
            number == 3 and kind == _BYTES for number, kind, _, _ in islice(outermost_fields(module), _MOST_FIELDS)
        )
    except ValueError:
        return False


def holds_text(data: bytes) -> bool:
    r"""Whether `data` is HLO text, or meant to be: so that a mistake in it is told as a mistake in text.

    A well-formed message with fields is a proto. Of the rest, what begins like text is text: a first line without control
    characters and, within the first 4096 bytes, a word that starts a module. A broken proto begins with its tag 0x0A, a length
    and a name, and has the tag 0x1A or 0x12 behind it.

    >>> holds_text(b"HloModule m\n"), holds_text(b"\n\x01m\x1a\x03\n\x01e")
    (True, False)
    """
    if not data.strip():
        # Spaces alone would be well-formed: each pair of them is a field of number 4.
        return True
    try:
        for _ in islice(outermost_fields(memoryview(data)), _MOST_FIELDS):
            pass
    except ValueError:
        head = data[:_FIRST_WORD_WITHIN]
        begins_as_module = head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"HloModule", b"ENTRY", b"/*", b"//", b"%"))
        return begins_as_module or not any(byte < 9 or 13 < byte < 32 for byte in head)
    return False
