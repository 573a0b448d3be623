"""A stream of requests as a file: a front takes the messages of a slow caller, and a child reads them when all are
there. Each message is its size in four bytes, then its content.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import IO

_SIZE = struct.Struct("<I")


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
