"""A caller that speaks just enough HTTP/2 to misbehave: it opens calls and reads nothing, or sends half a request and
no more.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from types import TracebackType

__all__ = ["DATA", "HEADERS", "PING", "RST_STREAM", "Http2Caller"]

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_ACK, _END_STREAM, _END_HEADERS = 1, 1, 4
_INITIAL_WINDOW_SIZE = 4


class Http2Caller:
    """One connection. `window` is the number of bytes that the server may send on each stream; it is never raised.
    `source` is the address that the caller has, `token` is sent with each call. Use it in a `with` block.

    `seen` holds the received frames as (type, stream, payload).
    """

    def __init__(
        self, address: str, *, window: int = 0, source: str = "", tls: ssl.SSLContext | None = None, token: str = ""
    ) -> None:
        host, _, port = address.rpartition(":")
        self._authority = address.encode()
        self._socket = socket.create_connection(
            (host.strip("[]"), int(port)), timeout=10, source_address=(source, 0) if source else None
        )
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        self._scheme = b"http" if tls is None else b"https"
        self._token = token.encode()
        self._next_stream = 1
        self._received = b""
        self.seen: list[tuple[int, int, bytes]] = []
        settings = struct.pack(">HI", _INITIAL_WINDOW_SIZE, window)
        self._socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(SETTINGS, 0, 0, settings))

    def call(
        self,
        path: str,
        request: bytes | None,
        *,
        announced: int | None = None,
        encoding: bytes = b"",
        fields: bytes = b"",
    ) -> int:
        """Opens a call and sends `request`, if there is one, completely. Returns the number of the call's stream.
        `announced` is the length that is sent before the request.

        `fields` are further headers as HPACK writes them.
        """
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        headers = [(b":method", b"POST"), (b":scheme", self._scheme), (b":path", path.encode())]
        headers += [(b":authority", self._authority), (b"te", b"trailers"), (b"content-type", b"application/grpc")]
        if encoding:
            headers.append((b"grpc-encoding", encoding))
        if self._token:
            headers.append((b"authorization", b"Bearer " + self._token))
        block = b"".join(b"\0" + bytes([len(name)]) + name + _length(len(value)) + value for name, value in headers)
        frames = [_frame(HEADERS, _END_HEADERS, stream, block + fields)]
        if request is not None:
            size = len(request) if announced is None else announced
            message = bytes([1 if encoding else 0]) + struct.pack(">I", size) + request
            for at in range(0, len(message), 16384):
                is_last = at + 16384 >= len(message) and announced is None
                frames.append(_frame(DATA, _END_STREAM if is_last else 0, stream, message[at : at + 16384]))
        self._socket.sendall(b"".join(frames))
        return stream

    def send(self, frames: bytes) -> None:
        """Sends frames as they are."""
        self._socket.sendall(frames)

    def read(self, seconds: float) -> None:
        """Receives what the server sends within `seconds`, and answers its SETTINGS and PING frames."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                return
            if not data:
                return
            self._received += data
            self._take_frames()

    def ended(self, stream: int, seconds: float) -> bool:
        """Whether the server ends the call within `seconds`, by a reset or by a status."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.05)
            if any(number == stream and kind == RST_STREAM for kind, number, _ in self.seen):
                return True
        return False

    def _take_frames(self) -> None:
        while len(self._received) >= 9:
            size = int.from_bytes(self._received[:3], "big")
            if len(self._received) < 9 + size:
                return
            kind, flags = self._received[3], self._received[4]
            stream = int.from_bytes(self._received[5:9], "big")
            payload, self._received = self._received[9 : 9 + size], self._received[9 + size :]
            self.seen.append((kind, stream, payload))
            if kind in (SETTINGS, PING) and not flags & _ACK:
                self._socket.sendall(_frame(kind, _ACK, 0, payload if kind == PING else b""))

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def __enter__(self) -> Http2Caller:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _length(size: int) -> bytes:
    """A string's length in HPACK, without Huffman coding."""
    if size < 127:
        return bytes([size])
    size -= 127
    coded = b"\x7f"
    while size >= 128:
        coded += bytes([size & 127 | 128])
        size >>= 7
    return coded + bytes([size])
