"""Reads and writes arrays of numbers in messages without making a Python object of each number.

On the wire a packed field is the numbers themselves: `repeated sfixed64` is little-endian int64s, `repeated bool` is
one byte each. Protobuf makes a list of Python ints of the field (60 ms for a million numbers); here it stays bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from io import BytesIO
from typing import Any, Final, TypeAlias, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from xlashape.errors import DecodeError
from xlashape.proto._pool import coerce
from xlashape.proto.wire import BYTES, fields, tag, varint

M = TypeVar("M", bound=Message)
Payload: TypeAlias = bytes | bytearray | memoryview

_MAX_FIELDS: Final = 64  # fields of a message; protobuf itself reads a message with more fields faster
_ITEM_BYTES: Final = {FieldDescriptor.TYPE_SFIXED64: 8, FieldDescriptor.TYPE_BOOL: 1}


def split(message_class: type[M], data: bytes, *names: str) -> tuple[M, list[Payload]]:
    """The message in `data` with the fields `names` left empty, and the content of each of these fields: little-endian
    int64s, or bytes 0 and 1.

    `names` are fields of type `repeated sfixed64` or `repeated bool`. The numbers are those that protobuf reads,
    whichever encoding the field has: one packed run, several, separate numbers, or a mixture. The content of a single
    run is a view into `data`, not a copy. Raises DecodeError if `data` is not such a message.

    >>> from xlashape.proto import v1
    >>> message, [indices] = split(
    ...     v1.LinearIndexRequest, join(v1.LinearIndexRequest(order=1), indices=bytes(16)), "indices"
    ... )
    >>> message.order, len(indices)
    (1, 16)
    """
    descriptors: list[Any] = [message_class.DESCRIPTOR.fields_by_name[name] for name in names]
    runs = _packed_runs(data, descriptors)
    if runs is None:
        message = coerce(message_class, data)
        return message, [_take(message, descriptor) for descriptor in descriptors]
    view = memoryview(data)
    rest: list[memoryview] = []
    runs_by_number: dict[int, list[memoryview]] = {descriptor.number: [] for descriptor in descriptors}
    at = 0
    for number, start, content, end in runs:
        rest.append(view[at:start])
        runs_by_number[number].append(view[content:end])
        at = end
    rest.append(view[at:])
    message = coerce(message_class, b"".join(rest))
    return message, [parts[0] if len(parts) == 1 else b"".join(parts) for parts in runs_by_number.values()]


def join(message: Message, /, **payloads: Payload) -> bytes:
    """`message` serialized, with further fields. `payloads` maps their names to their content: little-endian int64s, or
    bytes 0 and 1.
    """
    parts: list[Payload] = [message.SerializeToString()]
    for name, payload in payloads.items():
        size = payload.nbytes if isinstance(payload, memoryview) else len(payload)
        if size:
            parts.append(head(type(message), name, size))
            parts.append(payload)
    return b"".join(parts)


def filled(message_class: type[Message], write: Callable[..., None], /, **sizes: int) -> bytes:
    """The serialized message with fields of so many bytes. `write` gets a memoryview of the content of each field,
    which it fills and does not keep. To copy numbers that were computed elsewhere takes as long as simple arithmetic.

    >>> from xlashape.proto import v1
    >>> def write(positions: memoryview) -> None:
    ...     positions[0] = 5
    >>> v1.LinearIndexResponse.FromString(filled(v1.LinearIndexResponse, write, positions=16)).positions
    [5, 0]
    """
    heads = [head(message_class, name, size) if size else b"" for name, size in sizes.items()]
    made = BytesIO(bytes(sum(map(len, heads)) + sum(sizes.values())))
    with made.getbuffer() as memory:
        contents: list[memoryview] = []
        at = 0
        for begin, size in zip(heads, sizes.values(), strict=True):
            memory[at : at + len(begin)] = begin
            at += len(begin) + size
            contents.append(memory[at - size : at])
        write(*contents)
        for each in contents:
            each.release()
    return made.getvalue()  # no copy, since nothing else refers to the memory


def head(message_class: type[Message], name: str, size: int) -> bytes:
    """The bytes before the content of a field: its tag, and the size of the content in bytes."""
    return tag(message_class.DESCRIPTOR.fields_by_name[name].number, BYTES) + varint(size)


def _packed_runs(data: bytes, descriptors: list[Any]) -> list[tuple[int, int, int, int]] | None:
    """(field number, offset of the tag, offset of the content, end) of every packed run of the fields. None if protobuf
    must read them.

    That is the case if a number is not packed, if a bool is written as a number other than 0 and 1, if `data` is broken
    or if it has too many fields.
    """
    item_bytes = {descriptor.number: _ITEM_BYTES[descriptor.type] for descriptor in descriptors}
    runs: list[tuple[int, int, int, int]] = []
    count = 0
    try:
        for number, wire_type, start, content, end in fields(data):
            count += 1
            if count > _MAX_FIELDS:
                return None
            size = item_bytes.get(number)
            if size is None:
                continue
            if wire_type != BYTES or (end - content) % size:
                return None
            if size == 1 and data[content:end].translate(None, b"\0\1"):
                return None
            runs.append((number, start, content, end))
    except DecodeError:
        return None
    return runs


def _take(message: Message, descriptor: Any) -> Payload:
    """Removes a field from a message, and returns its content."""
    values = getattr(message, descriptor.name)
    numbers = array("q", values) if descriptor.type == FieldDescriptor.TYPE_SFIXED64 else array("B", values)
    message.ClearField(descriptor.name)
    if numbers.itemsize == 8 and array("H", [1]).tobytes() == b"\0\1":
        numbers.byteswap()  # this machine is big-endian
    return numbers.tobytes()
