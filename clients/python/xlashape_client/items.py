"""Items that a server sends page after page."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from xlashape_client.transport import Transport

M = TypeVar("M", bound=Message)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Items(ABC, Generic[T_co]):
    """Items that are fetched as they are needed: call `begin`, then `part` until it returns None, then `close`."""

    @abstractmethod
    async def begin(self) -> None:
        """Makes the request, for which a large module is uploaded."""

    @abstractmethod
    async def part(self) -> Iterable[T_co] | None:
        """The next items; None at the end."""

    async def close(self) -> None:
        """Ends a call that is under way."""


class Pages(Items[T]):
    """Items that come in pages. Each page is the answer of a call.

    `request` makes the request, a message with a `page_token`. `items` takes the items out of a response, a message
    with a `next_page_token`.
    """

    def __init__(
        self,
        transport: Transport,
        method: str,
        request: Callable[[], Awaitable[Any]],
        answer: type[M],
        items: Callable[[M], Iterable[T]],
        timeout: float | None,
    ) -> None:
        self._transport = transport
        self._method = method
        self._make_request = request
        self._answer: type[Any] = answer
        self._items: Callable[[Any], Iterable[T]] = items
        self._timeout = timeout
        self._request: Any = None

    async def begin(self) -> None:
        self._request = await self._make_request()

    async def part(self) -> Iterable[T] | None:
        if self._request is None:
            return None
        response = await self._transport.call(self._method, self._request, self._answer, self._timeout)
        self._request.page_token = response.next_page_token
        if not response.next_page_token:
            self._request = None
        return self._items(response)
