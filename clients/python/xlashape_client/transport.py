"""How a question reaches whoever answers it: a request goes out as bytes, the response comes back as bytes."""

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

__all__ = ["Transport", "choice", "pieces"]

M = TypeVar("M", bound=Message)

_CHUNK = 1 << 20  # bytes of a module in one message


class Transport(ABC):
    """Sends requests; `Client` to a server. Nothing here loads grpc."""

    inline_bytes = 1 << 20
    """Bytes of a module up to which it travels inside the request."""

    @abstractmethod
    def send(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> bytes:
        """The response of an RPC to a request, or to a stream of them. `timeout` in seconds; None is the transport's own."""

    @abstractmethod
    def stream(self, method: str, request: bytes, timeout: float | None) -> Iterator[bytes]:
        """The responses of an RPC that answers with a stream, as they come."""

    def _module_input(self, module: AnyModule, timeout: float | None) -> v1.ModuleInput:
        """A small module travels inside the request; a large one is uploaded, unless the server has it already."""
        content = content_of(module)
        if isinstance(content, str):
            return message_of(v1.ModuleInput, name=content)
        if len(content) > self.inline_bytes:
            name = f"modules/{hashlib.sha256(content).hexdigest()}"
            try:
                self._ask("GetModule", v1.GetModuleRequest(name=name), v1.GetModuleResponse, timeout)
            except NotFoundError:
                self.send("UploadModule", pieces(content), timeout)
            return v1.ModuleInput(name=name)
        if is_text(content):
            return v1.ModuleInput(text=decode_text(content).text)
        return v1.ModuleInput(serialized=content)

    def _ask(self, method: str, request: Message, answer: type[M], timeout: float | None) -> M:
        return coerce(answer, self.send(method, request.SerializeToString(), timeout))


def pieces(content: bytes) -> Iterator[bytes]:
    """The messages of an upload: a module's content in parts."""
    first = v1.UploadModuleRequest(
        sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content), data=content[:_CHUNK]
    )
    yield first.SerializeToString()
    for at in range(_CHUNK, len(content), _CHUNK):
        yield v1.UploadModuleRequest(data=content[at : at + _CHUNK]).SerializeToString()


def choice(meanings: dict[str, int], value: str, field: str) -> int:
    """What a word means, or InvalidArgumentError naming the words there are."""
    if not isinstance(value, str) or value not in meanings:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgumentError(f"{field}: expected one of {', '.join(meanings)}, found {value!r}", field=field)
    return meanings[value]
