"""A wrapper with which tests use an AsyncClient like a Client. Its calls run in an event loop in a thread of its own,
and block until they have ended."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Iterator
from types import TracebackType
from typing import Any, TypeVar

from xlashape_client import AsyncClient

__all__ = ["AwaitedClient"]

T = TypeVar("T")


class AwaitedClient:
    """Has the methods of Client. The argument `client` is the class of the wrapped client, the attribute that client.
    Use it in a `with` block, or close it."""

    def __init__(self, address: str, *, client: type[AsyncClient] = AsyncClient, **settings: Any) -> None:
        self.client = client(address, **settings)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> AwaitedClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def close(self) -> None:
        self.waited(self.client.close())

    def waited(self, awaitable: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, which runs in the client's loop."""
        return asyncio.run_coroutine_threadsafe(awaitable, self._loop).result()

    def __getattr__(self, name: str) -> Any:
        attribute: Any = getattr(self.client, name)
        if not callable(attribute):
            return attribute

        def call(*arguments: Any, **named: Any) -> Any:
            result: Any = attribute(*arguments, **named)
            if inspect.isasyncgen(result):
                return self._iterated(result)
            return self.waited(result) if inspect.iscoroutine(result) else result

        return call

    def _iterated(self, items: AsyncGenerator[Any, Any]) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self.waited(_awaited(anext(items)))
                except StopAsyncIteration:
                    return
        finally:
            self.waited(_awaited(items.aclose()))


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
