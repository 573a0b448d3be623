"""The base class of transports, which send serialized requests and receive serialized responses. The client's methods
await their coroutines, for clients whose calls block as well as for clients whose calls are awaited.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from functools import partial
from inspect import isawaitable
from typing import Any, TypeVar

from google.protobuf.message import Message

from xlashape.errors import InvalidArgumentError, NotFoundError, is_a
from xlashape.hlo.files.convert import decode_text
from xlashape.hlo.files.detect_format import holds_text
from xlashape.proto import parse, v1
from xlashape_client.inputs import AnyModule, ModuleSource, content_of, is_in_file, message_of

M = TypeVar("M", bound=Message)
T = TypeVar("T")

# The largest number of bytes of a module in one message of an upload.
_PART_BYTES = 1 << 20


class Responses(ABC):
    """The responses of a stream."""

    @abstractmethod
    async def next(self) -> bytes | None:
        """The next response; None at the end."""

    @abstractmethod
    async def close(self) -> None:
        """Cancels the call, unless it has ended."""


class Transport(ABC):
    """The base class of transports. `timeout` is in seconds; None is the default of the client. This file does not load
    grpc.
    """

    __slots__ = ()

    waits = False
    """Whether there is an event loop for which the coroutines may wait."""

    @property
    @abstractmethod
    def inline_bytes(self) -> int:
        """The largest number of bytes of a module that is sent inside the request; a larger one is uploaded first."""

    @abstractmethod
    def send(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> Awaitable[bytes]:
        """The response of an RPC to a request, or to a stream of requests."""

    @abstractmethod
    def send_parts(self, method: str, requests: AsyncGenerator[bytes, None], timeout: float | None) -> Awaitable[bytes]:
        """The response of an RPC to a stream of requests that are awaited."""

    @abstractmethod
    def open(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> Responses:
        """The responses of an RPC that answers a request, or a stream of requests, with a stream."""

    @abstractmethod
    async def aside(self, work: Callable[[], T]) -> T:
        """The result of `work`, which may take long. If there is an event loop, another thread does the work."""

    async def call(self, method: str, request: Message, answer: type[M], timeout: float | None) -> M:
        """The response, a message of the type `answer`, of an RPC to a message."""
        return parse(answer, await self.send(method, request.SerializeToString(), timeout))

    async def content(self, module: AnyModule) -> bytes | str:
        """The content of a module, or the name of a module of the server."""
        return await self.aside(partial(content_of, module)) if is_in_file(module) else content_of(module)

    async def digest(self, content: bytes) -> str:
        """The SHA-256 of a module's content, in hexadecimal."""
        if len(content) <= _PART_BYTES:
            return hashlib.sha256(content).hexdigest()
        return await self.aside(lambda: hashlib.sha256(content).hexdigest())

    async def store(self, content: bytes, digest: str, timeout: float | None) -> v1.Module:
        """Stores a module on the server and returns its description. The content is sent in one message, which may be
        sent again, or in parts if it is large.
        """
        if len(content) <= _PART_BYTES:
            request = v1.PutModuleRequest(data=content, sha256=digest)
            return (await self.call("PutModule", request, v1.PutModuleResponse, timeout)).module
        response = await self.send("UploadModule", upload_messages(content, digest), timeout)
        return parse(v1.UploadModuleResponse, response).module

    async def store_from(
        self, source: ModuleSource, progress: Callable[[int], None] | None, timeout: float | None
    ) -> v1.Module:
        """Stores a module on the server and returns its description. The content is sent while it is read. An exception
        of `source` or `progress` ends the call, and is raised.
        """
        failures: list[Exception] = []

        async def requests() -> AsyncGenerator[bytes, None]:
            sent = 0
            try:
                async for part in self._parts(source):
                    yield v1.UploadModuleRequest(data=part, more_follows=True).SerializeToString()
                    sent += len(part)
                    if progress is not None:
                        progress(sent)
                yield v1.UploadModuleRequest().SerializeToString()
            except Exception as error:  # the stream ends without its last message, so the server refuses it
                failures.append(error)

        try:
            response = await self.send_parts("UploadModule", requests(), timeout)
        except Exception:
            if failures:
                raise failures[0] from None
            raise
        return parse(v1.UploadModuleResponse, response).module

    async def _parts(self, source: ModuleSource) -> AsyncIterator[bytes]:
        """The content of a source in parts of 1 MiB; the last part may be smaller."""
        buffer = bytearray()
        async for chunk in self._chunks(source):
            if not isinstance(chunk, (bytes, bytearray, memoryview)):
                raise InvalidArgumentError(f"source: expected bytes, found {type(chunk).__name__}", field="source")
            buffer += chunk
            while len(buffer) >= _PART_BYTES:
                yield bytes(buffer[:_PART_BYTES])
                del buffer[:_PART_BYTES]
        if buffer:
            yield bytes(buffer)

    async def _chunks(self, source: Any) -> AsyncIterator[Any]:
        if hasattr(source, "read"):
            step, end = partial(source.read, _PART_BYTES), b""
        elif self.waits and hasattr(source, "__aiter__"):
            async for chunk in source:
                yield chunk
            return
        elif is_a(source, Iterable) and not isinstance(source, (str, bytes)):
            step, end = partial(next, iter(source), None), None
        else:
            raise InvalidArgumentError(
                f"source: expected a file object or an iterator of bytes, found {type(source).__name__}", field="source"
            )
        while True:
            chunk = await self.aside(step)
            if self.waits and isawaitable(chunk):
                chunk = await chunk
            if chunk == end:
                return
            yield chunk

    async def module_request(self, kind: type[M], module: AnyModule, timeout: float | None, /, **fields: Any) -> M:
        """A request about a module, with `fields` as its other fields."""
        return message_of(kind, module=await self.module_input(module, timeout), **fields)

    async def module_input(self, module: AnyModule, timeout: float | None) -> v1.ModuleInput:
        """The message for a module. A module larger than `inline_bytes` is uploaded, unless the server has it
        already.
        """
        content = await self.content(module)
        if isinstance(content, str):
            return message_of(v1.ModuleInput, name=content)
        if len(content) > self.inline_bytes:
            digest = await self.digest(content)
            name = f"modules/{digest}"
            try:
                await self.call("GetModule", v1.GetModuleRequest(name=name), v1.GetModuleResponse, timeout)
            except NotFoundError:
                await self.store(content, digest, timeout)
            return v1.ModuleInput(name=name)
        if holds_text(content):
            return v1.ModuleInput(text=decode_text(content).text)
        return v1.ModuleInput(serialized=content)


def upload_messages(content: bytes, digest: str) -> Iterator[bytes]:
    """The messages of an upload, each with a part of the content. `digest` is its SHA-256."""
    first = v1.UploadModuleRequest(sha256=digest, size_bytes=len(content), data=content[:_PART_BYTES])
    yield first.SerializeToString()
    for at in range(_PART_BYTES, len(content), _PART_BYTES):
        yield v1.UploadModuleRequest(data=content[at : at + _PART_BYTES]).SerializeToString()


def choice(numbers: dict[str, int], value: str, field: str) -> int:
    """The number of an enum that a word stands for. InvalidArgumentError, which lists the allowed words, for another
    word.
    """
    if not is_a(value, str) or value not in numbers:
        raise InvalidArgumentError(f"{field}: expected one of {', '.join(numbers)}, found {value!r}", field=field)
    return numbers[value]
