r"""Protobuf's wire format: the only code of the library that reads and writes varints, tags and fields.

    message := field*
    field   := tag content
    tag     := varint                      field number << 3 | wire type
    content := varint                      VARINT     integers, enums, bools
             | 8 bytes                     FIXED64    doubles, fixed64
             | length bytes                BYTES      strings, submessages, packed numbers; the length is a varint
             | field* tag                  GROUP      ends with a tag of the same number and the wire type END_GROUP
             | 4 bytes                     FIXED32    floats, fixed32
    varint  := base 128, low digits first; every byte but the last has its high bit set; at most 10 bytes

Serialized fields may be concatenated to a message: repeated fields append, two pieces of one submessage merge, and of a
scalar that occurs twice the last value counts. So the HLO parser encodes each attribute separately, and can cache the
bytes by the attribute's text. Decoding the concatenated bytes then gives the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from google.protobuf.message import Message

from xlashape.base.caches import cached
from xlashape.errors import DecodeError

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
GROUP: Final = 3
END_GROUP: Final = 4
FIXED32: Final = 5

_FIXED_SIZES: Final = {FIXED64: 8, FIXED32: 4}
_MAX_NUMBER: Final = (1 << 29) - 1
_MAX_DEPTH: Final = 100  # levels of nested groups; protobuf's decoder refuses more
_MAX_TAG_BYTES: Final = 5  # bytes of a tag or a length; protobuf refuses longer ones


# -- reading --------------------------------------------------------------------------------


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    r"""The unsigned 64-bit integer whose varint begins at offset `at`, and the offset after it. Raises DecodeError.

    >>> read_varint(b"\xac\x02", 0)
    (300, 2)
    """
    try:
        byte = data[at]
        if byte < 0x80:
            return byte, at + 1
        value, shift = byte & 0x7F, 7
        while shift < 70:
            at += 1
            byte = data[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> 64:
                    break
                return value, at + 1
            shift += 7
    except IndexError:
        raise DecodeError("a varint is truncated") from None
    raise DecodeError("a varint does not fit 64 bits")


def signed(value: int) -> int:
    """The int64 whose two's complement is the unsigned `value`.

    >>> signed(read_varint(varint(-3), 0)[0])
    -3
    """
    return value - (1 << 64) if value >> 63 else value


def varints(data: bytes | memoryview) -> list[int]:
    r"""The unsigned integers in the content of a packed field of varints. Raises DecodeError.

    >>> varints(b"\x05\xac\x02")
    [5, 300]
    """
    values: list[int] = []
    at, end = 0, len(data)
    while at < end:
        value, at = read_varint(data, at)
        values.append(value)
    return values


def fields(data: bytes | memoryview) -> Iterator[tuple[int, int, int, int, int]]:
    r"""(field number, wire type, offset of the tag, offset of the content, end) of every field of a serialized message.

    The fields inside submessages are not listed. `end` is the offset after the field. A group is one field, whose
    content includes its end tag. For malformed bytes, raises DecodeError after giving the fields before the mistake.

    >>> list(fields(bytes.fromhex("0a016d2801")))
    [(1, 2, 0, 2, 3), (5, 0, 3, 4, 5)]
    """
    at, size = 0, len(data)
    while at < size:
        start = at
        number, wire_type, at = _read_tag(data, at)
        content, at = _skip(data, at, wire_type)
        if wire_type == GROUP:
            at = _end_of_group(data, at, number)
        yield number, wire_type, start, content, at


def _read_tag(data: bytes | memoryview, at: int) -> tuple[int, int, int]:
    """(field number, wire type, offset after the tag)."""
    value, end = read_varint(data, at)
    number = value >> 3
    if not 1 <= number <= _MAX_NUMBER or end - at > _MAX_TAG_BYTES:
        raise DecodeError(f"there is no field number {number}")
    return number, value & 7, end


def _skip(data: bytes | memoryview, at: int, wire_type: int) -> tuple[int, int]:
    """(offset of the content, its end) of a field whose tag ends at `at`. For a group, both are `at`."""
    content = at
    if wire_type == BYTES:
        length, content = read_varint(data, at)
        if content - at > _MAX_TAG_BYTES:
            raise DecodeError("a length is too large")
        at = content + length
    elif wire_type == VARINT:
        _, at = read_varint(data, at)
    elif wire_type in _FIXED_SIZES:
        at += _FIXED_SIZES[wire_type]
    elif wire_type != GROUP:
        raise DecodeError("a group ends that did not begin" if wire_type == END_GROUP else "there is no such wire type")
    if at > len(data):
        raise DecodeError("a field is truncated")
    return content, at


def _end_of_group(data: bytes | memoryview, at: int, number: int) -> int:
    """The offset after the end tag of group `number`, whose start tag ends at `at`."""
    open_groups = [number]
    while open_groups:
        number, wire_type, at = _read_tag(data, at)
        if wire_type == END_GROUP:
            if open_groups.pop() != number:
                raise DecodeError("a group ends that did not begin")
            continue
        _, at = _skip(data, at, wire_type)
        if wire_type == GROUP:
            open_groups.append(number)
            if len(open_groups) > _MAX_DEPTH:
                raise DecodeError(f"groups nest deeper than protobuf's {_MAX_DEPTH} levels")
    return at


# -- writing --------------------------------------------------------------------------------


# The cache saves a quarter to two thirds of the time of reading Gemma 2, Llama 3.1 and ResNet-50 from text.
@cached(max_bytes=8 << 20, entry_bytes=256)
def varint(value: int) -> bytes:
    r"""The varint of an int64 or uint64; a negative integer is written as its two's complement.

    >>> varint(300), varint(-1)
    (b'\xac\x02', b'\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01')
    """
    value &= 0xFFFFFFFFFFFFFFFF
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def tag(number: int, wire_type: int) -> bytes:
    r"""The tag of a field.

    >>> tag(1, BYTES)
    b'\n'
    """
    return varint(number << 3 | wire_type)


def sized(payload: bytes) -> bytes:
    """The content of a BYTES field: the length, then the payload."""
    return varint(len(payload)) + payload


def packed_ints(values: Iterable[int]) -> bytes:
    """The payload of a packed repeated field of integers."""
    return b"".join(map(varint, values))


class Fields:
    r"""Encodes the fields of one message class by name.

    >>> from xlashape.proto import xla
    >>> encoder = Fields(xla.HloInstructionProto)
    >>> encoder.message("window", b""), encoder.integer("tuple_index", 3), encoder.integer("tuple_index", 0)
    (b'z\x00', b'h\x03', b'')
    """

    __slots__ = ("_bytes_tags", "_varint_tags")

    def __init__(self, message: type[Message]) -> None:
        numbers: dict[str, int] = {field.name: field.number for field in message.DESCRIPTOR.fields}
        self._bytes_tags = {name: tag(number, BYTES) for name, number in numbers.items()}
        self._varint_tags = {name: tag(number, VARINT) for name, number in numbers.items()}

    def tag(self, name: str) -> bytes:
        """The tag of a field with the wire type BYTES."""
        return self._bytes_tags[name]

    def message(self, name: str, payload: bytes | Message) -> bytes:
        """Encodes a submessage. An empty one is encoded too, so that its field is set."""
        data = payload if isinstance(payload, bytes) else payload.SerializeToString()
        return self._bytes_tags[name] + sized(data)

    def string(self, name: str, payload: bytes | str) -> bytes:
        """Encodes a string or bytes field; b"" for an empty value."""
        data = payload.encode() if isinstance(payload, str) else payload
        return self._bytes_tags[name] + sized(data) if data else b""

    def integer(self, name: str, value: int) -> bytes:
        """Encodes an integer, enum or bool field; b"" for 0."""
        return self._varint_tags[name] + varint(value) if value else b""

    def integers(self, name: str, values: Iterable[int]) -> bytes:
        """Encodes a repeated integer field, packed; b"" for no values."""
        payload = packed_ints(values)
        return self._bytes_tags[name] + sized(payload) if payload else b""
