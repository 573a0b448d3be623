"""The client for asyncio: the methods of `Client` as coroutine functions, and its iterators as asynchronous iterators.

async with AsyncClient("127.0.0.1:50051") as client:
    await client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3))      # 17
    module = await client.upload_module("dump.hlo.pb")
    async for maps in client.indexing_maps(module, "fusion.3"):
        print(maps.opcode, [str(m) for tensor in maps.maps for m in tensor.maps])
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import nullcontext
from types import TracebackType
from typing import Any

import grpc

from xlashape.errors import InvalidArgumentError
from xlashape_client import connection
from xlashape_client.connection import Servers
from xlashape_client.methods import AsyncServiceMethods
from xlashape_client.status import exception_of, keep_status

# The largest number of calls that send a stream of requests at a time.
_MAX_SENDING = 32

# Typed as Any, since the type stubs of grpc.aio lack some of its names.
_aio: Any = grpc.aio


class AsyncClient(AsyncServiceMethods):
    """A connection to a server, for asyncio. The first call opens it, in the event loop of that call. It is opened
    again after it breaks.

    The arguments, methods, results and errors are those of `Client`. Methods that return one value are coroutine
    functions. Methods that return an iterator return an asynchronous iterator, which sends no request before its first
    item is asked for. Tasks of one event loop share a client; another loop needs a client of its own. The examples of
    the methods are written for `Client`: with `AsyncClient`, `await` stands before each call, and `async` before a
    `for` over an iterator.

    - `token` may also be a coroutine function.
    - `interceptors` are those of grpc.aio.
    - `max_calls`: how many calls that have one answer wait for it at a time. At most 32 calls at a time send a stream:
      uploads, and questions about so many items that one message cannot hold them. Further calls wait for their turn
      before their `timeout` begins. By default, a server refuses more than 1,024 calls and 64 streams of requests on
      one connection.

    A task that is cancelled cancels its call. An iterator that is left before its end cancels its call when it is
    closed; `contextlib.aclosing` closes it at once. Files, and digests of large modules, are read and computed in a
    thread.

    >>> import asyncio
    >>> from xlashape_server import Config, Server
    >>> async def sizes(address: str) -> list[int]:
    ...     async with AsyncClient(address) as client:
    ...         shapes = ["f32[3,5]{1,0:T(2,2)}", "bf16[20,300]{1,0:T(8,128)(2,1)}"]
    ...         found = await asyncio.gather(*[client.byte_size(shape) for shape in shapes])
    ...         return [size.physical_bytes for size in found]
    >>> with Server(Config(address="127.0.0.1:0", workers=1)) as server:
    ...     asyncio.run(sizes(server.address))
    [96, 18432]
    """

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        timeout: float = 60.0,
        stream_timeout: float | None = None,
        keepalive: float | None = None,
        attempts: int = 4,
        token: str | Callable[[], str] | Callable[[], Awaitable[str]] | None = None,
        root_certificates: bytes | None = None,
        private_key: bytes | None = None,
        certificate_chain: bytes | None = None,
        server_name: str | None = None,
        interceptors: Sequence[Any] = (),
        max_calls: int = 512,
    ) -> None:
        if max_calls < 1:
            raise InvalidArgumentError(f"max_calls: expected a number from 1, found {max_calls}", field="max_calls")
        self._addresses = connection.addresses_of(address)
        self.address = ", ".join(self._addresses)
        self.timeout = timeout
        self.stream_timeout = stream_timeout
        self._token = token
        self._attempts = attempts
        self._options = connection.channel_options(attempts, server_name, keepalive, len(self._addresses))
        self._credentials = connection.channel_credentials(
            root_certificates, private_key, certificate_chain, server_name
        )
        self._interceptors = tuple(interceptors)
        self._turns = asyncio.Semaphore(max_calls)
        self._sending_turns = asyncio.Semaphore(min(max_calls, _MAX_SENDING))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._channels: list[grpc.aio.Channel] = []
        self._servers: Servers | None = None
        self._streams: set[Any] = set()  # calls that are being answered by a stream
        self._closed = False

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection. Calls that have not ended raise UnavailableError."""
        # The calls of a loop that is closed have ended with it.
        in_loop = self._loop is not None and not self._loop.is_closed()
        if in_loop:
            self._check_loop()
        self._closed = True
        channels, self._channels, self._servers = self._channels, [], None
        if channels and in_loop:
            # When a channel is closed, older versions of gRPC do not end the streams that are being read, and their
            # readers would wait.
            for call in tuple(self._streams):
                call.cancel()
            for channel in channels:
                await channel.close()

    async def wait_until_ready(self, timeout: float | None = None) -> None:
        """Returns once the server reports that it serves calls. UnavailableError if it does not within `timeout`
        seconds.
        """

        async def check(seconds: float) -> bytes:
            try:
                calls = await self._connected().calls(seconds, asyncio.sleep)
                return await calls["Check"](b"", timeout=seconds, wait_for_ready=True)
            except asyncio.CancelledError:
                self._check_cancelled()
                raise

        seconds = self.timeout if timeout is None else timeout
        longest = 1.0 if len(self._addresses) > 1 else seconds  # then the check is made again, with another server
        await connection.until_ready(self.address, seconds, check, asyncio.sleep, longest)

    async def send(
        self, method: str, request: bytes | Iterator[bytes] | AsyncIterator[bytes], timeout: float | None
    ) -> bytes:
        """The response of an RPC, sent to one of the servers."""
        servers = self._connected()
        turns = self._turns if isinstance(request, bytes) else self._sending_turns
        await turns.acquire()
        try:
            metadata = connection.metadata_of(None if self._token is None else await self._bearer())

            async def call(begin: Any, left: float | None) -> bytes:
                begun = begin(request, timeout=left, metadata=metadata)
                return await (begun if isinstance(request, bytes) else keep_status(begun))

            seconds = connection.timeout_of(request, timeout, self.timeout, self.stream_timeout)
            return await servers.ask(method, seconds, call, asyncio.sleep)
        except grpc.RpcError as error:
            raise exception_of(error, self.address) from error
        except asyncio.CancelledError:
            self._check_cancelled()
            raise
        except _aio.UsageError as error:  # closed while the call waited for its turn
            raise connection.closed(self.address) from error
        finally:
            turns.release()

    async def stream(
        self, method: str, request: bytes | Iterator[bytes] | AsyncIterator[bytes], timeout: float | None
    ) -> AsyncGenerator[bytes, None]:
        """The responses of an RPC that answers with a stream. The call begins when the first response is asked for."""
        servers = self._connected()
        async with nullcontext() if isinstance(request, bytes) else self._sending_turns:
            metadata = connection.metadata_of(None if self._token is None else await self._bearer())
            try:
                seconds = self.stream_timeout if timeout is None else timeout
                begin = (await servers.calls(seconds, asyncio.sleep))[method]
                call = begin(request, timeout=seconds, metadata=metadata)
            except _aio.UsageError as error:  # closed while the call waited for its turn
                raise connection.closed(self.address) from error
            if not isinstance(request, bytes):
                keep_status(call)
            self._streams.add(call)
            try:
                while (response := await self._read(call)) is not None:
                    yield response
            finally:
                self._streams.discard(call)
                call.cancel()

    async def _read(self, call: Any) -> bytes | None:
        try:
            response: Any = await call.read()
        except grpc.RpcError as error:
            raise exception_of(error, self.address) from error
        except asyncio.CancelledError:
            self._check_cancelled()
            raise
        return None if response is _aio.EOF else response

    def _connected(self) -> Servers:
        """The servers. Their channels are made here, in the event loop of the first call."""
        if self._closed:
            raise connection.closed(self.address)
        if self._servers is None:
            self._loop = asyncio.get_running_loop()
            settings: dict[str, Any] = {"options": self._options, "interceptors": self._interceptors}
            channels = self._channels = [
                grpc.aio.insecure_channel(address, **settings)
                if self._credentials is None
                else grpc.aio.secure_channel(address, self._credentials, **settings)
                for address in self._addresses
            ]
            self._servers = Servers(
                [connection.calls_of(channel) for channel in channels],
                lambda: [channel.get_state(try_to_connect=True) for channel in channels],
                self._attempts,
            )
        self._check_loop()
        return self._servers

    def _check_loop(self) -> None:
        if self._loop is not asyncio.get_running_loop():
            raise InvalidArgumentError(
                f"the client of {self.address} belongs to another event loop: make a client in each loop"
            )

    async def _bearer(self) -> str:
        if self._token is None or isinstance(self._token, str):
            return self._token or ""
        given = self._token()
        return given if isinstance(given, str) else await given

    def _check_cancelled(self) -> None:
        """UnavailableError if a call was cancelled by `close`, not with its task."""
        task = asyncio.current_task()
        # Python 3.10 does not say whether a task was cancelled.
        of_task = task is not None and sys.version_info >= (3, 11) and task.cancelling() > 0
        if self._closed and not of_task:
            raise connection.closed(self.address) from None
