"""One connection of HTTP: hypercorn's, which shares the event loop with the connections of other callers, and ends when
its caller has gone.

All connections of a worker are handled by one thread. What a connection may do there at a time is bounded: a caller
that floods has its connections handled in rotation with those of other callers, in smaller pieces the longer each
takes.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, cast

import h11
import hypercorn.protocol as protocols
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import MAX_RECV, TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, RawData
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.typing import LifespanState

from xlashape_server.callers import Caller

_FIRST_PIECE = 4 << 10  # bytes that are read and handled at once, of a new connection
# The same of a connection whose bytes take long to handle. 120 frames of HTTP/2 are as many bytes, and take some
# milliseconds.
_LEAST_PIECE = 2 << 10
# processor time of a piece, from which on the next one is half as large; else it is twice as large
_PIECE_SECONDS = 0.005
_HALF_CLOSED_SECONDS = 2.0  # in which a caller that has ended its sending may read its answer


class Rotation:
    """Turns at an event loop: one in each of its rounds, for callers in rotation, and for the connections of a caller
    in the order in which they ask.
    """

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


class _Timed:
    """Awaits a coroutine. `seconds` is the processor time of the coroutine's own steps, without those of others while
    it waits.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._coroutine = coroutine
        self.seconds = 0.0

    def __await__(self) -> Generator[Any]:
        step = partial(self._coroutine.send, None)
        while True:
            began = time.thread_time()
            try:
                waits_for = step()
            except StopIteration:
                return
            finally:
                self.seconds += time.thread_time() - began
            try:
                yield waits_for
            except BaseException as error:  # also a cancellation is the coroutine's to handle
                step = partial(self._coroutine.throw, error)
            else:
                step = partial(self._coroutine.send, None)


class Connection(TCPServer):
    """A connection. It ends when nothing more is read from it: the other end has closed it, or is silent for too long.
    Its calls are cancelled then, and what their caller has not read is dropped.

    hypercorn alone waits until the connection would have been idle for too long, and until all answers were read,
    though nobody reads them any more.

    In HTTP/1.1 without TLS, a caller that has closed its connection looks the same as one that has only ended its
    sending, as `nc -N` does, and still reads. Its calls have two seconds more, in which the whole answer has to be
    read; then they are cancelled. Over HTTP/2 and TLS calls are cancelled at once.

    While a call of HTTP/1.1 is under way and its caller has sent the beginning of another request, hypercorn reads no
    further, and does not see that the caller has gone. Such a call ends when it is answered, or by its limits of time.

    A connection that is closed waits `close_seconds` for the other end to read what was sent.
    """

    def __init__(
        self,
        answer: Callable[[Any, Any, Any], Coroutine[Any, Any, None]],
        settings: Config,
        context: WorkerContext,
        rotation: Rotation,
        caller: Caller,
        close_seconds: float,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._answer = answer
        self._answering: set[asyncio.Task[Any]] = set()
        self._rotation = rotation
        self._caller = caller
        self._close_seconds = close_seconds
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
            handling = _Timed(self.protocol.handle(RawData(data)))
            await handling
            is_slow = handling.seconds > _PIECE_SECONDS
            size = max(_LEAST_PIECE, size // 2) if is_slow else min(MAX_RECV, 2 * size)
        await asyncio.sleep(0)  # the call of a request that was read just now begins
        if self._answering and self._may_be_read():
            await asyncio.wait(self._answering, timeout=_HALF_CLOSED_SECONDS)
        if self._answering:
            self.writer.transport.abort()
        await self.protocol.handle(Closed())
        await self.idle_task.stop()
        for task in self._answering:
            task.cancel()

    def _may_be_read(self) -> bool:
        """Whether the other end may still read answers, though it sends nothing more."""
        can_be_half_closed = not self.writer.is_closing() and self.writer.can_write_eof()
        return can_be_half_closed and isinstance(self.protocol.protocol, H11Protocol)

    async def _close(self) -> None:
        timer = self.loop.call_later(self._close_seconds, self.writer.transport.abort)
        try:
            await super()._close()
        finally:
            timer.cancel()


class _Http2(H2Protocol):
    """HTTP/2 without priorities, which RFC 9113 deprecates.

    hypercorn keeps the streams in a tree of priorities. In a tree of 1,000 streams it takes some milliseconds to change
    a priority. A caller sends such a change in 14 bytes, so that those that one connection holds unread would keep the
    event loop busy for an hour.
    """

    async def _priority_updated(self, event: Any) -> None:
        del event


class _Http11(H11Protocol):
    """HTTP/1.1 without upgrades: `Upgrade` is ignored, as RFC 9110 allows. A proxy that passes it on would take what
    follows for something else than this server does, and there are no WebSockets. HTTP/2 begins with its own first
    bytes.
    """

    async def _check_protocol(self, event: h11.Request) -> None:
        await super()._check_protocol(_without_upgrade(event))

    async def _create_stream(self, request: h11.Request) -> None:
        await super()._create_stream(_without_upgrade(request))


def _without_upgrade(request: h11.Request) -> h11.Request:
    headers = [(name, value) for name, value in request.headers if name.lower() != b"upgrade"]
    if len(headers) == len(request.headers):
        return request
    return h11.Request(method=request.method, target=request.target, headers=headers, http_version=request.http_version)


# hypercorn makes its protocols itself, and has no setting for this.
cast("Any", protocols).H2Protocol = _Http2
cast("Any", protocols).H11Protocol = _Http11
