"""Callers with the Python client for asyncio: their calls run at the same time in one event loop, over one
connection."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

from google.protobuf.descriptor import MethodDescriptor

from harness.callers import SECONDS, outcome_of_error
from harness.questions import Outcome
from xlashape.errors import XlashapeError
from xlashape.proto import services
from xlashape_client import AsyncClient

__all__ = ["AsyncTransport", "async_transports"]


class _Loop:
    """An event loop in a thread of its own, with the client that all `users` share."""

    def __init__(self, address: str, root: bytes | None, users: int) -> None:
        self.client = AsyncClient(address, timeout=SECONDS, root_certificates=root)
        self._loop = asyncio.new_event_loop()
        self._users = users
        self._lock = threading.Lock()
        threading.Thread(target=self._loop.run_forever, name="asyncio", daemon=True).start()

    def ask(self, method: MethodDescriptor, requests: tuple[bytes, ...]) -> Outcome:
        """Makes a call in the loop, and returns its outcome."""
        return asyncio.run_coroutine_threadsafe(self._ask(method, requests), self._loop).result()

    async def _ask(self, method: MethodDescriptor, requests: tuple[bytes, ...]) -> Outcome:
        sent: bytes | Iterator[bytes] = iter(requests) if method.client_streaming else requests[0]
        answers: list[bytes] = []
        try:
            if method.server_streaming:
                async for answer in self.client.stream(method.name, sent, None):
                    answers.append(answer)
            else:
                answers.append(await self.client.send(method.name, sent, None))
        except XlashapeError as error:
            return outcome_of_error(error, tuple(answers))
        return Outcome("OK", "", tuple(answers))

    def leave(self) -> None:
        """Notes that a user has left. The last one ends the loop."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
        asyncio.run_coroutine_threadsafe(self.client.close(), self._loop).result(SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)


class AsyncTransport:
    """Makes calls with AsyncClient, on an event loop that several callers share."""

    name = "asyncio"
    takes_streams = True
    has_own_bytes = False

    def __init__(self, loop: _Loop) -> None:
        self._loop = loop
        self._methods = {f"{s.name}/{m.name}": m for s in services() for m in s.methods}

    def ask(self, rpc: str, requests: tuple[bytes, ...]) -> Outcome:
        """Makes a call, and returns its outcome."""
        return self._loop.ask(self._methods[rpc], requests)

    def close(self) -> None:
        """Leaves the loop."""
        self._loop.leave()


def async_transports(address: str, root: bytes | None, count: int) -> list[AsyncTransport]:
    """`count` transports that share a loop and a client."""
    loop = _Loop(address, root, count)
    return [AsyncTransport(loop) for _ in range(count)]
