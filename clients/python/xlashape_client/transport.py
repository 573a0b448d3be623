"""Transports: what sends serialized requests and receives serialized responses."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TypeVar

from google.protobuf.message import Message

from xlashape.errors import InvalidArgumentError, NotFoundError
from xlashape.hlo.text.reader.module import decode_text
from xlashape.proto import coerce, v1
from xlashape_client.inputs import AnyModule, content_of, is_text, message_of

__all__ = ["Transport", "choice", "upload_messages"]

M = TypeVar("M", bound=Message)

_PART_BYTES = 1 << 20  # of a module in one message


class Transport(ABC):
    """Base of what sends requests. `Client` sends them to a server. Nothing here loads grpc."""

    inline_bytes = 1 << 20
    """A module of at most so many bytes is sent inside the request; a larger one is uploaded first."""

    @abstractmethod
    def send(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> bytes:
        """The response of an RPC to a request, or to a stream of requests. `timeout` is in seconds; None is the transport's default."""

    @abstractmethod
    def stream(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> Iterator[bytes]:
        """The responses of an RPC that answers a request, or a stream of requests, with a stream, as they arrive."""

    def _module_input(self, module: AnyModule, timeout: float | None) -> v1.ModuleInput:
        """The message for a module. A module larger than `inline_bytes` is uploaded, unless the server has it already."""
        content = content_of(module)
        if isinstance(content, str):
            return message_of(v1.ModuleInput, name=content)
        if len(content) > self.inline_bytes:
            name = f"modules/{hashlib.sha256(content).hexdigest()}"
            try:
                self._call("GetModule", v1.GetModuleRequest(name=name), v1.GetModuleResponse, timeout)
            except NotFoundError:
                self.send("UploadModule", upload_messages(content), timeout)
            return v1.ModuleInput(name=name)
        if is_text(content):
            return v1.ModuleInput(text=decode_text(content).text)
        return v1.ModuleInput(serialized=content)

    def _call(self, method: str, request: Message, answer: type[M], timeout: float | None) -> M:
        return coerce(answer, self.send(method, request.SerializeToString(), timeout))


def upload_messages(content: bytes) -> Iterator[bytes]:
    """The messages of an upload, each with a part of the content."""
    first = v1.UploadModuleRequest(
        sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content), data=content[:_PART_BYTES]
    )
    yield first.SerializeToString()
    for at in range(_PART_BYTES, len(content), _PART_BYTES):
        yield v1.UploadModuleRequest(data=content[at : at + _PART_BYTES]).SerializeToString()


def choice(numbers: dict[str, int], value: str, field: str) -> int:
    """The enum's number for a word. InvalidArgumentError, which lists the allowed words, for another word."""
    if not isinstance(value, str) or value not in numbers:  # pyright: ignore[reportUnnecessaryIsInstance]  # for callers without types
        raise InvalidArgumentError(f"{field}: expected one of {', '.join(numbers)}, found {value!r}", field=field)
    return numbers[value]
