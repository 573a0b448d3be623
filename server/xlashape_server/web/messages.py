"""The formats of messages over HTTP. Handlers use only protobuf's own format; JSON is read and written here, in the turn of the call.

>>> from xlashape.proto import v1
>>> json_to_proto(b'{"indices": ["300"]}', v1.LinearIndexRequest, 1 << 20) == v1.LinearIndexRequest(indices=[300]).SerializeToString()
True
"""

from __future__ import annotations

import gzip
import json
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.message import Message

from xlashape.errors import DecodeError, LimitExceededError
from xlashape_server.memory import reserve

_MEMORY_OF_JSON = 25  # upper bound of the bytes of Python objects for each byte of JSON; `{},` takes 72
_MEMORY_OF_ANSWER = (
    40  # the same for each byte of an answer: a varint of two bytes becomes a str of 53 bytes and an entry in a list
)
_MAX_ERROR_TEXT = 300
_GZIP = b"\x1f\x8b"  # no message of protobuf or JSON begins so
_LEVEL = 1  # 1 MB of JSON about instructions is 9 times smaller after 4 ms; level 6 makes it 10 times smaller in 7 ms


class Received(NamedTuple):
    """A message as it was received."""

    data: bytes
    is_json: bool


class _Codec:
    """A codec for connectrpc that leaves messages undecoded: they are decoded where a call has a turn and a reservation, not on the event loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_json = name == "json"

    def name(self) -> str:
        return self._name

    def encode(self, message: bytes) -> bytes:
        return message

    def decode(self, data: bytes | bytearray, message_class: object) -> Received:
        del message_class
        return Received(bytes(data), self._is_json)


class _Gzip:
    """Compression with gzip for connectrpc, which leaves messages as they come: the guard unpacks requests, within its limits, and answers are
    compressed in the turns of their calls, not on the event loop."""

    def name(self) -> str:
        return "gzip"

    def compress(self, data: bytes | bytearray | memoryview) -> bytes:
        return (
            bytes(data) if bytes(data[:2]) == _GZIP else compressed(bytes(data))
        )  # what connectrpc says at the end of a stream

    def decompress(self, data: bytes | bytearray | memoryview, read_max_bytes: int | None = None) -> bytes:
        del read_max_bytes
        if bytes(data[:2]) != _GZIP:
            raise ValueError("the message is not in the format of gzip")
        return bytes(data)


def compressed(data: bytes) -> bytes:
    """The content compressed with gzip."""
    return gzip.compress(data, _LEVEL, mtime=0)


CODECS: tuple[Any, ...] = (_Codec("proto"), _Codec("json"))
COMPRESSIONS: tuple[Any, ...] = (_Gzip(),)


def json_to_proto(data: bytes, kind: type[Message], max_bytes: int) -> bytes:
    """A message of `kind` in JSON, converted to protobuf's format. DecodeError if `data` is not such a message, LimitExceededError if it has more than `max_bytes`.

    Unknown fields are errors: a misspelled name would otherwise be a field that is not set.
    """
    if not data.strip():
        return b""
    if len(data) > max_bytes:
        raise LimitExceededError(
            f"a request message in JSON has {len(data)} bytes, of {max_bytes} allowed; protobuf's own format (proto) may be larger",
            limit="json_bytes",
            maximum=max_bytes,
            value=len(data),
        )
    reserve(_MEMORY_OF_JSON * len(data))
    try:
        if data.lstrip()[:1] != b"{":  # an empty list, which Parse takes for an empty message
            raise ValueError("expected an object in braces")
        return json_format.Parse(data, kind()).SerializeToString()
    except json_format.ParseError as error:
        text = str(error)
    except (RecursionError, ValueError) as error:
        text = str(error)
    if "recursion" in text:
        text = "it is nested too deeply"
    text = " ".join(text.split()).removesuffix(".")
    raise DecodeError(
        f"not a {kind.DESCRIPTOR.full_name} in JSON: {text if len(text) <= _MAX_ERROR_TEXT else text[:_MAX_ERROR_TEXT] + '…'}"
    )


def proto_to_json(data: bytes, kind: type[Message], max_bytes: int) -> bytes:
    """A serialized answer of `kind`, converted to JSON in one line. LimitExceededError if the answer has more than `max_bytes`, serialized."""
    if len(data) > max_bytes:
        raise LimitExceededError(
            f"the answer has {len(data)} bytes, and up to {max_bytes} are written as JSON; ask for protobuf's own format (proto)",
            limit="json_bytes",
            maximum=max_bytes,
            value=len(data),
        )
    reserve(_MEMORY_OF_ANSWER * len(data))
    found = json_format.MessageToDict(kind.FromString(data))
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
