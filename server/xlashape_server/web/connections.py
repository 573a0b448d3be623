"""One connection of HTTP: hypercorn's, which shares the event loop with the connections of other callers, and ends when its caller has gone.

All connections of a worker are handled by one thread. What a connection may do there at a time is bounded: a caller that floods has its connections
handled in rotation with those of other callers, in smaller pieces the longer each takes.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from typing import Any, cast

import hypercorn.protocol as protocols
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import MAX_RECV, TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, RawData
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.typing import LifespanState

from xlashape_server.callers import Caller

__all__ = ["Connection", "Rotation"]

_FIRST_PIECE = 4 << 10  # bytes that are read and handled at once, of a new connection
_LEAST_PIECE = 2 << 10  # the same of a connection whose bytes take long: 120 frames of HTTP/2 take some milliseconds
_PIECE_SECONDS = (
    0.005  # processor time of a piece, from which on the next one is half as large; else it is twice as large
)


class Rotation:
    """Turns at an event loop: one in each of its rounds, for callers in rotation, and for the connections of a caller in the order in which they ask."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """By identity."""
        self._is_taken = False

    async def turn(self, caller: Caller) -> None:
        """Waits for the turn of a connection, which lasts until it waits for something else."""
        loop = asyncio.get_running_loop()
        if not self._is_taken:
            self._is_taken = True
            loop.call_soon(self._next)
            return
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(caller.identity, deque()).append(waiter)
        await waiter

    def _next(self) -> None:
        while self._waiting:
            identity, waiters = next(iter(self._waiting.items()))
            waiter = waiters.popleft()
            if waiters:
                self._waiting.move_to_end(identity)
            else:
                del self._waiting[identity]
            if not waiter.done():  # else its connection has been cancelled
                waiter.set_result(None)
                waiter.get_loop().call_soon(self._next)
                return
        self._is_taken = False


class Connection(TCPServer):
    """A connection. It ends as soon as nothing more is read from it: when the other end has closed it, or is silent for too long.

    hypercorn alone waits until the connection would have been idle for too long, and until all answers were read, though nobody reads them any more.
    """

    def __init__(
        self,
        answer: Callable[[Any, Any, Any], Coroutine[Any, Any, None]],
        settings: Config,
        context: WorkerContext,
        rotation: Rotation,
        caller: Caller,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._answer = answer
        self._answering: set[asyncio.Task[Any]] = set()
        self._rotation = rotation
        self._caller = caller
        application: Any = ASGIWrapper(cast("Any", self._answer_one))
        loop = asyncio.get_running_loop()
        super().__init__(application, loop, settings, context, cast("LifespanState", {}), reader, writer)

    async def _answer_one(self, scope: Any, receive: Any, send: Any) -> None:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._answering.add(task)
        try:
            await self._answer(scope, receive, send)
        finally:
            self._answering.discard(task)

    async def _read_data(self) -> None:
        size = _FIRST_PIECE
        while not self.reader.at_eof():
            try:
                data = await asyncio.wait_for(self.reader.read(size), self.config.read_timeout)
            except (OSError, asyncio.TimeoutError):
                break
            await self._rotation.turn(self._caller)
            began = time.thread_time()
            await self.protocol.handle(RawData(data))
            is_slow = time.thread_time() - began > _PIECE_SECONDS
            size = max(_LEAST_PIECE, size // 2) if is_slow else min(MAX_RECV, 2 * size)
        await self.protocol.handle(Closed())
        await self.idle_task.stop()
        for task in self._answering:
            task.cancel()


class _Http2(H2Protocol):
    """HTTP/2 without priorities, which RFC 9113 deprecates: a caller that changes those of 1,000 streams keeps hypercorn busy for milliseconds with each
    frame, for an hour with what one connection holds."""

    async def _priority_updated(self, event: Any) -> None:
        del event


# hypercorn makes its protocols itself, and has no setting for this.
cast("Any", protocols).H2Protocol = _Http2
