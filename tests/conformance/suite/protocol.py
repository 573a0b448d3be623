"""Writes and reads the messages of testee.proto, each after its size in bytes as a varint."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

__all__ = ["TRANSPORTS", "read", "testee", "write"]

_PROTO = Path(__file__).resolve().parents[1] / "testee.proto"
TRANSPORTS = {"grpc": 1, "connect": 2}
"""The names that files of languages have for the members of the enum Transport."""


class _Messages:
    """The classes of testee.proto by their names, in a descriptor pool of their own."""

    def __init__(self) -> None:
        from grpc_tools import protoc

        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch) / "testee.binpb"
            if protoc.main(["protoc", f"-I{_PROTO.parent}", f"--descriptor_set_out={out}", _PROTO.name]) != 0:
                raise RuntimeError(f"protoc refused {_PROTO}")
            files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
        self._pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            self._pool.Add(file)

    def __getattr__(self, name: str) -> Any:
        found = self._pool.FindMessageTypeByName(f"xlashape.conformance.{name}")
        made = message_factory.GetMessageClass(found)
        setattr(self, name, made)
        return made


testee = _Messages()


def write(stream: BinaryIO, message: Any) -> None:
    data = message.SerializeToString()
    size, head = len(data), bytearray()
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    stream.write(bytes(head))
    stream.write(data)
    stream.flush()


def read(stream: BinaryIO, kind: Any) -> Any | None:
    """The next message; None at the end of the stream. EOFError if it ends within a message."""
    size = shift = 0
    while True:
        byte = stream.read(1)
        if not byte:
            if shift:
                raise EOFError("the stream ended within the size of a message")
            return None
        size |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            break
    data = stream.read(size)
    if len(data) < size:
        raise EOFError(f"the stream ended after {len(data)} of {size} bytes of a message")
    return kind.FromString(data)


def delimited(messages: Iterable[Any]) -> bytes:
    """Messages one after another, each after its size in eight bytes. The digest of answers is that of these bytes."""
    parts: list[bytes] = []
    for message in messages:
        data = message.SerializeToString(deterministic=True)
        parts += [len(data).to_bytes(8, "little"), data]
    return b"".join(parts)
