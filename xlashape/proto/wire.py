"""Protobuf's wire format, written directly: the parser makes bytes of what it reads, and one decode at the end makes the message.

Bytes of fields concatenate, and protobuf merges what belongs together: two pieces of one submessage become one, repeated fields
append, and of a scalar that comes twice the last stays. So every attribute is encoded on its own, and its bytes can be kept by its text.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from google.protobuf.message import Message

__all__ = ["Fields", "numbered_ids", "packed_ints", "sized", "varint"]


@lru_cache(1 << 15)
def varint(value: int) -> bytes:
    r"""An int64 or uint64 in base 128, low digits first; a negative one as its two's complement.

    >>> varint(300), varint(-1)
    (b'\xac\x02', b'\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01')
    """
    value &= 0xFFFFFFFFFFFFFFFF
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    digits.append(value)
    return bytes(digits)


_low_digits: list[bytes] = []


def numbered_ids(high: int, count: int) -> list[bytes]:
    """The varints of (high << 32) | number for every number below `count`, which is below 2^28.

    The low 28 bits are four digits, the others follow from `high` alone.

    >>> numbered_ids(3, 2) == [varint(3 << 32), varint(3 << 32 | 1)]
    True
    """
    if not high:
        return [varint(number) for number in range(count)]
    if count > len(_low_digits):
        _low_digits.extend(
            bytes((number & 127 | 128, number >> 7 & 127 | 128, number >> 14 & 127 | 128, number >> 21 | 128))
            for number in range(len(_low_digits), count)
        )
    tail = varint(high << 4)
    return [digits + tail for digits in _low_digits[:count]]


def sized(payload: bytes) -> bytes:
    """The payload of a length-delimited field, with its length before it."""
    return varint(len(payload)) + payload


def packed_ints(values: Iterable[int]) -> bytes:
    """The payload of a packed repeated field of integers."""
    return b"".join(map(varint, values))


class Fields:
    r"""The fields of one message class, to be encoded by name.

    >>> from xlashape.proto import xla
    >>> fields = Fields(xla.HloInstructionProto)
    >>> fields.message("window", b""), fields.integer("tuple_index", 3), fields.integer("tuple_index", 0)
    (b'z\x00', b'h\x03', b'')
    """

    __slots__ = ("_sized", "_varint")

    def __init__(self, message: type[Message]) -> None:
        numbers: dict[str, int] = {field.name: field.number for field in message.DESCRIPTOR.fields}
        self._sized = {name: varint(number << 3 | 2) for name, number in numbers.items()}
        self._varint = {name: varint(number << 3) for name, number in numbers.items()}

    def tag(self, name: str) -> bytes:
        """The tag of a length-delimited field."""
        return self._sized[name]

    def message(self, name: str, payload: bytes | Message) -> bytes:
        """A submessage, written even where it is empty: it is there."""
        data = payload if isinstance(payload, bytes) else payload.SerializeToString()
        return self._sized[name] + sized(data)

    def string(self, name: str, payload: bytes | str) -> bytes:
        """A string or bytes field; nothing where it is empty."""
        data = payload.encode() if isinstance(payload, str) else payload
        return self._sized[name] + sized(data) if data else b""

    def integer(self, name: str, value: int) -> bytes:
        """An integer, enum or bool field; nothing where it is 0."""
        return self._varint[name] + varint(value) if value else b""

    def integers(self, name: str, values: Iterable[int]) -> bytes:
        """A repeated integer field, packed; nothing where there are none."""
        payload = packed_ints(values)
        return self._sized[name] + sized(payload) if payload else b""
