"""Frames between a front and one of its compute children, by a pair of sockets and memory that both share.

    frame     kind, whether the payload is in the shared memory, number, seconds, size of the payload; then the payload
    memory    a page, which says whether the call is cancelled, and has counts of the child; then the payload of a long
              frame

A child has one call at a time, so one place for a payload serves both directions. A frame of 500 bytes takes 9 µs by a
socket that keeps the bounds of messages (SOCK_SEQPACKET), and one of 8 MB 0.5 ms by the memory; pipes take 1.5 to 20.
Where a system lacks such sockets the frames go over a stream, and where it lacks anonymous files the memory is a
temporary file.
"""

from __future__ import annotations

import array
import mmap
import os
import socket
import struct
import tempfile
from collections.abc import Iterator
from enum import IntEnum
from typing import IO, NamedTuple

_HEADER = struct.Struct("<B?HdQ")
_INLINE = 64 << 10  # bytes of a payload that goes over the socket
_PAGE = mmap.PAGESIZE
_DESCRIPTOR = array.array("i").itemsize
_CANCELLED, _CURRENT = b"\1", b"\0"
_COUNTS = struct.Struct("<3Q")
_COUNTS_AT = 8
_SIZE = struct.Struct("<I")


class ChannelKind(IntEnum):
    """What a frame says."""

    ASK = 1
    """A request to the RPC of this number, which may take so many seconds."""
    READY = 2
    """The child waits for calls; the number of its process is the payload."""
    DONE = 3
    """The answer."""
    ERROR = 4
    """The call ends with the google.rpc.Status in the payload."""
    MEMORY = 5
    """The memory of the child does not suffice."""
    FAILED = 6
    """A defect: the payload is the trace."""


class ChannelFrame(NamedTuple):
    """A received frame. `file` is a descriptor that came with it, which the receiver closes; -1 for none."""

    kind: ChannelKind
    number: int
    seconds: float
    payload: bytes
    file: int = -1


class Channel:
    """One end of a channel. It belongs to one thread at a time, but for `cancel`."""

    def __init__(self, connection: socket.socket, memory: mmap.mmap) -> None:
        self._connection = connection
        self._memory = memory
        self._is_stream = connection.type == socket.SOCK_STREAM
        self.most = len(memory) - _PAGE
        """The most bytes of a payload."""

    def send(
        self, kind: ChannelKind, payload: bytes = b"", number: int = 0, seconds: float = 0.0, file: int = -1
    ) -> None:
        """Sends a frame. No other may be sent before the other end has answered: both ends share the memory.
        ConnectionError if the other end has gone, IndexError if the payload is too long.
        """
        size = len(payload)
        is_shared = size > _INLINE
        if is_shared:
            self._memory[_PAGE : _PAGE + size] = payload
        header = _HEADER.pack(kind, is_shared, number, seconds, size)
        attached = [] if file < 0 else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))]
        self._connection.settimeout(None)
        self._connection.sendmsg([header] if is_shared else [header, payload], attached)

    def receive(self, seconds: float | None = None) -> ChannelFrame:
        """The next frame. EOFError if the other end has gone, TimeoutError after so many seconds."""
        self._connection.settimeout(seconds)
        most = _HEADER.size if self._is_stream else _HEADER.size + _INLINE
        try:
            data, attached, _, _ = self._connection.recvmsg(most, socket.CMSG_SPACE(_DESCRIPTOR))
        except ConnectionError:
            raise EOFError from None
        if self._is_stream:
            data = data + self._exactly(_HEADER.size - len(data)) if data else data
        if not data:
            raise EOFError
        kind, is_shared, number, frame_seconds, size = _HEADER.unpack_from(data)
        file = array.array("i", attached[0][2])[0] if attached else -1
        if is_shared:
            payload = self._memory[_PAGE : _PAGE + size]
        elif self._is_stream:
            payload = self._exactly(size)
        else:
            payload = data[_HEADER.size :]
        return ChannelFrame(ChannelKind(kind), number, frame_seconds, payload, file)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._connection.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def begin(self) -> None:
        """Begins a call, which is not cancelled."""
        self._memory[:1] = _CURRENT

    def cancel(self) -> None:
        """Has `is_cancelled` be true at the other end until the next call begins."""
        self._memory[:1] = _CANCELLED

    @property
    def is_cancelled(self) -> bool:
        """Whether the call that is under way was cancelled."""
        return self._memory[:1] == _CANCELLED

    @property
    def counts(self) -> tuple[int, ...]:
        """Three numbers that the other end may read at any time."""
        return _COUNTS.unpack_from(self._memory, _COUNTS_AT)

    @counts.setter
    def counts(self, numbers: tuple[int, ...]) -> None:
        _COUNTS.pack_into(self._memory, _COUNTS_AT, *numbers)

    def close(self) -> None:
        """Closes this end."""
        self._connection.close()
        self._memory.close()


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """A pair of sockets that keeps the bounds of messages, if the system has them; else of streams."""
    if hasattr(socket, "SOCK_SEQPACKET"):
        try:
            return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            pass
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def shared_file(most: int) -> int:
    """The descriptor of a file without a name, for memory with a payload of `most` bytes. It takes memory as it is
    written.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("xlashape")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, _PAGE + most)
    return descriptor


def mapped(descriptor: int) -> mmap.mmap:
    """The memory of a shared file, whose descriptor this closes."""
    try:
        return mmap.mmap(descriptor, 0)
    finally:
        os.close(descriptor)


# -- streams of requests: a front takes the messages of a slow caller into a file, and a child reads them when all are
# there. Each is its size in four bytes, then its content.


def add_message(file: IO[bytes], message: bytes) -> None:
    """Writes the next message."""
    file.write(_SIZE.pack(len(message)))
    file.write(message)


def messages_of(descriptor: int) -> Iterator[bytes]:
    """The messages in a file, which this closes at their end."""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        while head := file.read(_SIZE.size):
            yield file.read(*_SIZE.unpack(head))
