"""Makes two functions, called faces here, of each method of the clients: on `Client` the method blocks until the answer
is there, and on `AsyncClient` it is awaited.

A method is written once, in a class of `xlashape_client.methods`:

- `@answer async def name(self, …) -> T` awaits coroutines of `self._transport`. `Client.name` returns T;
  `AsyncClient.name` is the coroutine function itself.
- `@iterator def name(self, …) -> Items[T]` checks its arguments, and returns the `Items` to fetch. `Client.name`
  returns a Generator[T, None, None], whose `close` ends the call, and `AsyncClient.name` an AsyncGenerator[T, None].

The class decorators `@blocking` and `@asynchronous` put one of the two functions of each method into a client class.
The coroutines of a blocking transport never wait for an event loop: one step takes them to their end. Methods do not
call each other, since a call would find the blocking function on `Client` and the coroutine function on `AsyncClient`.
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
    """The largest number of bytes of a module that is sent inside the request; a larger one is uploaded first."""

    @property
    def _transport(self) -> Transport:
        """The transport that sends the requests of the methods."""
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
    """A method with its two functions: `@blocking` or `@asynchronous` replaces it by one of them in a class."""

    blocking: Callable[..., Any]
    asynchronous: Callable[..., Any]


class _Answer(_Method, Generic[P, T_co]):
    """The result of `@answer`: a method that returns one value."""

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
    """The result of `@iterator`: a method that returns an iterator."""

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
    """Decorates a method that returns one value."""
    return _Answer(body)


def iterator(body: Callable[Concatenate[Any, P], Items[T]]) -> _Iterator[P, T]:
    """Decorates a method that returns an iterator, whose items come from one call or from several."""
    return _Iterator(body)


def blocking(client: C) -> C:
    """Decorates a client class: its methods become functions that block."""
    return _with_faces(client, lambda method: method.blocking)


def asynchronous(client: C) -> C:
    """Decorates a client class: its methods become functions whose results are awaited."""
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
        del self._responses  # the iterator of a client cancels its call when it is deleted


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
