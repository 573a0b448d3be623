"""Bulk numbers in and out of messages without a Python object for each.

A packed field lies on the wire as the numbers themselves: `repeated sfixed64` as little-endian int64s, `repeated bool` as a
byte each. Protobuf makes a list of Python ints of it (60 ms for a million); here it stays the bytes it is.
"""

from __future__ import annotations

from array import array
from typing import Any, TypeAlias, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from xlashape.proto._pool import coerce

__all__ = ["Payload", "join", "split"]

M = TypeVar("M", bound=Message)
Payload: TypeAlias = bytes | bytearray | memoryview

_LENGTH = 2  # the wire type
_MAX_FIELDS = 64  # of one message, beyond which protobuf itself is the faster reader
_ITEM_BYTES = {FieldDescriptor.TYPE_SFIXED64: 8, FieldDescriptor.TYPE_BOOL: 1}


def split(message_class: type[M], data: bytes, *names: str) -> tuple[M, list[Payload]]:
    """The message in `data` with the fields `names` left empty, and for each of them what it holds: int64s or bytes of 0 and 1.

    `names` are fields of type `repeated sfixed64` or `repeated bool`. Every encoding that protobuf accepts gives what protobuf
    gives: one packed run, several, numbers one by one, or both mixed; the first is read without a copy, as a view into `data`.
    DecodeError if `data` is not such a message.

    >>> from xlashape.proto import v1
    >>> message, [indices] = split(v1.LinearIndexRequest, join(v1.LinearIndexRequest(order=1), indices=bytes(16)), "indices")
    >>> message.order, len(indices)
    (1, 16)
    """
    fields: list[Any] = [message_class.DESCRIPTOR.fields_by_name[name] for name in names]
    runs = _runs(
        data, {f.number << 3 | _LENGTH: i for i, f in enumerate(fields)}, [_ITEM_BYTES[f.type] for f in fields]
    )
    if runs is None:
        # Not packed, or not plain: protobuf reads it.
        message = coerce(message_class, data)
        payloads: list[Payload] = [_collected(message, f) for f in fields]
        return message, payloads
    view = memoryview(data)
    rest: list[memoryview] = []
    held: list[list[memoryview]] = [[] for _ in fields]
    at = 0
    for which, start, first, last in runs:
        rest.append(view[at:start])
        held[which].append(view[first:last])
        at = last
    rest.append(view[at:])
    message = coerce(message_class, b"".join(rest))
    return message, [parts[0] if len(parts) == 1 else b"".join(parts) for parts in held]


def join(message: Message, /, **payloads: Payload) -> bytes:
    """`message` serialized, its fields `payloads` holding what these bytes are: little-endian int64s, or bytes of 0 and 1."""
    parts: list[Payload] = [message.SerializeToString()]
    for name, payload in payloads.items():
        size = payload.nbytes if isinstance(payload, memoryview) else len(payload)
        if size:
            parts.append(_varint(message.DESCRIPTOR.fields_by_name[name].number << 3 | _LENGTH) + _varint(size))
            parts.append(payload)
    return b"".join(parts)


def _runs(data: bytes, tags: dict[int, int], item_bytes: list[int]) -> list[tuple[int, int, int, int]] | None:
    """(which field, offset of its tag, first byte, end) of every packed run; None if there is anything that is not plain."""
    found: list[tuple[int, int, int, int]] = []
    numbers = {tag >> 3 for tag in tags}
    at, end = 0, len(data)
    try:
        for _ in range(_MAX_FIELDS):
            if at == end:
                return found
            start = at
            tag, at = _read_varint(data, at)
            wire = tag & 7
            if wire == _LENGTH:
                size, at = _read_varint(data, at)
                if size > end - at:
                    return None
                which = tags.get(tag)
                if which is not None:
                    if size % item_bytes[which]:
                        return None
                    if item_bytes[which] == 1 and data[at : at + size].translate(None, b"\0\1"):
                        return None
                    found.append((which, start, at, at + size))
                at += size
            elif wire == 0 and tag >> 3 not in numbers:
                _, at = _read_varint(data, at)
            else:
                return None
    except IndexError:
        pass
    return None


def _collected(message: Message, f: Any) -> Payload:
    values = getattr(message, f.name)
    numbers = array("q", values) if f.type == FieldDescriptor.TYPE_SFIXED64 else array("B", values)
    message.ClearField(f.name)
    if numbers.itemsize == 8 and array("H", [1]).tobytes() == b"\0\1":
        numbers.byteswap()
    return numbers.tobytes()


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint of at most 5 bytes; IndexError for longer ones, which nothing plain has."""
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    value, shift = byte & 127, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
        shift += 7
        if shift > 28:
            raise IndexError


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)
