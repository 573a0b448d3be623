"""Two faces of one method: on `Client` it blocks until the answer is there, on `AsyncClient` it is awaited.

A method is written once, in a class of `xlashape_client.methods`, without knowing who waits:

- `@answer async def name(self, …) -> T` awaits coroutines of `self._transport`. `Client.name` returns T;
  `AsyncClient.name` is the coroutine function itself.
- `@iterator def name(self, …) -> Items[T]` checks its arguments, and returns what fetches the items. `Client.name`
  returns a Generator[T, None, None], whose `close` ends the call, `AsyncClient.name` an AsyncGenerator[T, None].

`@blocking` and `@asynchronous` give a class the methods with one of the faces. The coroutines of a blocking transport
never wait for an event loop: one step takes them to their end. Methods do not call each other, since they would meet
the face of the client.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from xlashape_client.items import Items
from xlashape_client.transport import Responses, Transport

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
C = TypeVar("C", bound=type[Any])


class Methods:
    """Base of the classes that hold methods, and of clients."""

    inline_bytes = 1 << 20
    """A module of at most so many bytes is sent inside the request; a larger one is uploaded first."""

    @property
    def _transport(self) -> Transport:
        """What the methods ask."""
        raise NotImplementedError


class Blocking(Methods, ABC):
    """Base of clients whose calls block."""

    @abstractmethod
    def send(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> bytes:
        """The response of an RPC to a request, or to a stream of requests. `timeout` is in seconds; None is the
        client's own.
        """

    @abstractmethod
    def stream(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> Iterator[bytes]:
        """The responses of an RPC that answers a request, or a stream of requests, with a stream, as they arrive."""

    @property
    def _transport(self) -> Transport:
        return _BlockingTransport(self)


class Asynchronous(Methods, ABC):
    """Base of clients whose calls are awaited."""

    @abstractmethod
    async def send(
        self, method: str, request: bytes | Iterator[bytes] | AsyncIterator[bytes], timeout: float | None
    ) -> bytes:
        """The response of an RPC to a request, or to a stream of requests. `timeout` is in seconds; None is the
        client's own.
        """

    @abstractmethod
    def stream(
        self, method: str, request: bytes | Iterator[bytes], timeout: float | None
    ) -> AsyncGenerator[bytes, None]:
        """The responses of an RPC that answers a request, or a stream of requests, with a stream, as they arrive."""

    @property
    def _transport(self) -> Transport:
        return _AsyncTransport(self)


class _Method:
    """The two functions of a method: `@blocking` and `@asynchronous` put one of them into a class in its place."""

    blocking: Callable[..., Any]
    asynchronous: Callable[..., Any]


class _Answer(_Method, Generic[P, T_co]):
    """What `@answer` makes of a method."""

    def __init__(self, body: Callable[..., Coroutine[Any, Any, T_co]]) -> None:
        self.__doc__ = body.__doc__

        @functools.wraps(body)
        def blocks(*arguments: Any, **named: Any) -> T_co:
            return finished(body(*arguments, **named))

        self.blocking = blocks
        self.asynchronous = body

    @overload
    def __get__(self, instance: Blocking, owner: type[Any] | None = None) -> Callable[P, T_co]: ...
    @overload
    def __get__(
        self, instance: Asynchronous, owner: type[Any] | None = None
    ) -> Callable[P, Coroutine[Any, Any, T_co]]: ...
    @overload
    def __get__(self, instance: None, owner: type[Blocking]) -> Callable[Concatenate[Any, P], T_co]: ...
    @overload
    def __get__(
        self, instance: None, owner: type[Asynchronous]
    ) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T_co]]: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self


class _Iterator(_Method, Generic[P, T_co]):
    """What `@iterator` makes of a method."""

    def __init__(self, body: Callable[..., Items[T_co]]) -> None:
        self.__doc__ = body.__doc__

        @functools.wraps(body)
        def blocks(*arguments: Any, **named: Any) -> Generator[T_co, None, None]:
            items = body(*arguments, **named)
            finished(items.begin())
            return _iterated(items)

        @functools.wraps(body)
        def awaits(*arguments: Any, **named: Any) -> AsyncGenerator[T_co, None]:
            return _awaited(body(*arguments, **named))

        signature = inspect.signature(body)
        item = str(signature.return_annotation).removeprefix("Items[").removesuffix("]")
        for function, returned in (
            (blocks, f"Generator[{item}, None, None]"),
            (awaits, f"AsyncGenerator[{item}, None]"),
        ):
            # Functions may have this attribute, which inspect reads; their type in Python's stubs does not.
            function.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
            function.__annotations__ = {**body.__annotations__, "return": returned}
        self.blocking = blocks
        self.asynchronous = awaits

    @overload
    def __get__(
        self, instance: Blocking, owner: type[Any] | None = None
    ) -> Callable[P, Generator[T_co, None, None]]: ...
    @overload
    def __get__(
        self, instance: Asynchronous, owner: type[Any] | None = None
    ) -> Callable[P, AsyncGenerator[T_co, None]]: ...
    @overload
    def __get__(
        self, instance: None, owner: type[Blocking]
    ) -> Callable[Concatenate[Any, P], Generator[T_co, None, None]]: ...
    @overload
    def __get__(
        self, instance: None, owner: type[Asynchronous]
    ) -> Callable[Concatenate[Any, P], AsyncGenerator[T_co, None]]: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self


def answer(body: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> _Answer[P, T]:
    """A method that returns one value."""
    return _Answer(body)


def iterator(body: Callable[Concatenate[Any, P], Items[T]]) -> _Iterator[P, T]:
    """A method that returns an iterator, whose items one call answers, or several."""
    return _Iterator(body)


def blocking(client: C) -> C:
    """Gives a class the blocking face of its methods."""
    return _with_faces(client, lambda method: method.blocking)


def asynchronous(client: C) -> C:
    """Gives a class the awaited face of its methods."""
    return _with_faces(client, lambda method: method.asynchronous)


def _with_faces(client: C, face: Callable[[_Method], Callable[..., Any]]) -> C:
    for base in reversed(client.__mro__):
        for name, value in tuple(vars(base).items()):
            if isinstance(value, _Method):
                setattr(client, name, face(value))
    return client


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits for an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise RuntimeError("a blocking call has waited for an event loop")


def _stepped(items: AsyncGenerator[T, None]) -> Iterator[T]:
    step: Callable[[], Any] = items.__anext__
    while True:
        try:
            item = finished(step())
        except StopAsyncIteration:
            return
        yield item


def _iterated(items: Items[T]) -> Generator[T, None, None]:
    try:
        while (part := finished(items.part())) is not None:
            yield from part
    finally:
        finished(items.close())


async def _awaited(items: Items[T]) -> AsyncGenerator[T, None]:
    try:
        await items.begin()
        while (part := await items.part()) is not None:
            for item in part:
                yield item
    finally:
        await items.close()


class _BlockingTransport(Transport):
    """The transport of a client whose calls block."""

    __slots__ = ("_client",)

    def __init__(self, client: Blocking) -> None:
        self._client = client

    @property
    def inline_bytes(self) -> int:
        return self._client.inline_bytes

    async def send(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> bytes:
        return self._client.send(method, request, timeout)

    async def send_parts(self, method: str, requests: AsyncGenerator[bytes, None], timeout: float | None) -> bytes:
        return self._client.send(method, _stepped(requests), timeout)

    def open(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> Responses:
        return _Iterated(self._client.stream(method, request, timeout))

    async def aside(self, work: Callable[[], T]) -> T:
        return work()


class _Iterated(Responses):
    def __init__(self, responses: Iterator[bytes]) -> None:
        self._responses = responses

    async def next(self) -> bytes | None:
        return next(self._responses, None)

    async def close(self) -> None:
        if isinstance(self._responses, Generator):
            self._responses.close()
        del self._responses  # which cancels the call of a client


class _AsyncTransport(Transport):
    """The transport of a client whose calls are awaited."""

    __slots__ = ("_client",)
    waits = True

    def __init__(self, client: Asynchronous) -> None:
        self._client = client

    @property
    def inline_bytes(self) -> int:
        return self._client.inline_bytes

    def send(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> Awaitable[bytes]:
        return self._client.send(method, request, timeout)

    def send_parts(self, method: str, requests: AsyncGenerator[bytes, None], timeout: float | None) -> Awaitable[bytes]:
        return self._client.send(method, requests, timeout)

    def open(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> Responses:
        return _Awaited(self._client.stream(method, request, timeout))

    async def aside(self, work: Callable[[], T]) -> T:
        import asyncio  # takes 30 ms to load, which programs that block need not wait for

        return await asyncio.to_thread(work)


class _Awaited(Responses):
    def __init__(self, responses: AsyncGenerator[bytes, None]) -> None:
        self._responses = responses

    async def next(self) -> bytes | None:
        return await anext(self._responses, None)

    async def close(self) -> None:
        await self._responses.aclose()
