"""The client whose calls block: the service's RPCs as methods, which take and return values of the library.

with Client("127.0.0.1:50051") as client:
    client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3))            # 17
    module = client.upload_module("dump.hlo.pb")
    for maps in client.indexing_maps(module, "fusion.3"):
        print(maps.opcode, [str(m) for tensor in maps.maps for m in tensor.maps])
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from functools import partial
from types import TracebackType
from typing import Any
from weakref import WeakSet

import grpc

from xlashape_client import connection
from xlashape_client.connection import Servers
from xlashape_client.faces import finished
from xlashape_client.methods import ServiceMethods
from xlashape_client.status import exception_of

_STATES = {state.value[0]: state for state in grpc.ChannelConnectivity}


class Cancellation:
    """Ends the calls of all clients that `Client.with_cancellation` made with it, from another thread. These calls
    raise concurrent.futures.CancelledError, and so do later calls of these clients. A cancellation cannot be undone.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a handler of signals may cancel while its own thread begins a call
        self._calls: WeakSet[Any] = WeakSet()
        self._is_cancelled = False

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._is_cancelled

    def cancel(self) -> None:
        """Ends the calls, on the server too."""
        with self._lock:
            self._is_cancelled = True
            calls = tuple(self._calls)
        for call in calls:
            call.cancel()

    def begin(self, method: str, call: Callable[[], Any]) -> Any:
        """Begins a call of grpc by calling `call`, and returns it. `cancel` ends it. CancelledError after `cancel`."""
        with self._lock:
            if self._is_cancelled:
                raise CancelledError(f"{method} was cancelled")
            begun = call()
            if not hasattr(begun, "cancel"):
                # This is a generator of an interceptor, which only the thread that reads it can end.
                return begun
            self._calls.add(begun)
            if self._is_cancelled:  # a handler of signals in this thread has called `cancel`
                begun.cancel()
            return begun


class Client(ServiceMethods):
    """A connection to a server, which is opened by the first call and reopened after it breaks. Threads may share a
    client.

    - `address`: HOST:PORT, or unix:PATH; or a list of the addresses of servers that have the same modules. Calls go in
      turn to the servers that are connected, and to all addresses of a name (dns:///NAME:PORT). With TLS the
      certificate of each server is for its own name.
    - `timeout`: seconds that a call without a stream may take before it raises DeadlineExceededError. Every method has
      a `timeout` of its own too. `stream_timeout`: seconds that a call with a stream may take; without it a slow reader
      is not cut off.
    - `keepalive`: seconds of silence of a call, at least 10, after which the server is asked for a sign of life.
    - `root_certificates`: PEM bytes that the server's certificate is checked against; empty bytes stand for the
      system's certificates. If given, the connection uses TLS.
    - `attempts`: how often a call is tried, 1 to 5, while the server is unavailable. The first pause is 0.1 seconds and
      each further pause twice as long, varied at random by a fifth. `timeout` bounds all attempts together. A deletion
      is tried once: a second attempt could report that the module is missing. A call with a stream is tried once, too.
    - `token`: the bearer token that is sent with each call, or a function that returns it. Without TLS anyone who sees
      the traffic can use the token.
    - `private_key`, `certificate_chain`: PEM bytes that identify this client, if the server requires them.
    - `server_name`: the name in the certificates of all servers, if it is not the name in the address.
    - `interceptors`: interceptors of grpc, which see every call; the first one is the outermost.

    A call blocks until its answer is there. `with_cancellation` returns a client whose calls another thread can end.

    Within a span of OpenTelemetry, a call sends the identity of the span to the server, in the header `traceparent`.

    Every method raises the exceptions that the library raises for the same mistake, and UnavailableError if the server
    cannot be reached. `AsyncClient` has the same methods for asyncio.

    >>> from xlashape_server import Config, Server
    >>> with Server(Config(address="127.0.0.1:0", workers=1)) as server, Client(server.address) as client:
    ...     client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3)), client.byte_size("f32[3,5]{1,0:T(2,2)}").physical_bytes
    (17, 96)
    """

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        timeout: float = 60.0,
        stream_timeout: float | None = None,
        keepalive: float | None = None,
        attempts: int = 4,
        token: str | Callable[[], str] | None = None,
        root_certificates: bytes | None = None,
        private_key: bytes | None = None,
        certificate_chain: bytes | None = None,
        server_name: str | None = None,
        interceptors: Sequence[Any] = (),
    ) -> None:
        addresses = connection.addresses_of(address)
        self.address = ", ".join(addresses)
        self.timeout = timeout
        self.stream_timeout = stream_timeout
        self._token = token
        options = connection.channel_options(attempts, server_name, keepalive, len(addresses))
        credentials = connection.channel_credentials(root_certificates, private_key, certificate_chain, server_name)
        self._channels = [
            grpc.insecure_channel(target, options)
            if credentials is None
            else grpc.secure_channel(target, credentials, options)
            for target in addresses
        ]
        calls = [connection.calls_of(grpc.intercept_channel(channel, *interceptors)) for channel in self._channels]
        self._servers = Servers(calls, lambda: [_state(channel) for channel in self._channels], attempts)
        self._cancellation: Cancellation | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. Calls that have not ended raise UnavailableError."""
        for channel in self._channels:
            channel.close()

    def with_cancellation(self, cancellation: Cancellation) -> Client:
        """A client over the same connection, whose calls end when `cancellation` is cancelled. Closing one of the two
        clients closes the connection of both.

        >>> from xlashape_client import Cancellation
        >>> from xlashape_server import Config, Server
        >>> with Server(Config(address="127.0.0.1:0", workers=1)) as server, Client(server.address) as client:
        ...     cancellation = Cancellation()
        ...     stoppable = client.with_cancellation(cancellation)
        ...     size = stoppable.byte_size("f32[3]")
        ...     cancellation.cancel()  # from any thread
        ...     stoppable.byte_size("f32[3]")
        Traceback (most recent call last):
        concurrent.futures._base.CancelledError: ByteSize was cancelled
        """
        made = copy.copy(self)
        made._cancellation = cancellation
        return made

    def wait_until_ready(self, timeout: float | None = None) -> None:
        """Returns once the server reports that it serves calls. UnavailableError if it does not within `timeout`
        seconds.
        """

        async def check(seconds: float) -> bytes:
            calls = await self._servers.calls(seconds, self._pause)
            return self._answer("Check", calls["Check"], b"", timeout=seconds, wait_for_ready=True)

        seconds = self.timeout if timeout is None else timeout
        longest = 1.0 if len(self._channels) > 1 else seconds  # then the check is made again, with another server
        try:
            finished(connection.until_ready(self.address, seconds, check, self._pause, longest))
        except ValueError as error:
            raise connection.closed(self.address) from error

    async def _pause(self, seconds: float) -> None:
        if self._cancellation is not None and self._cancellation.is_cancelled:
            raise CancelledError("the call was cancelled")
        time.sleep(seconds)

    def _answer(self, method: str, begin: Any, request: bytes | Iterator[bytes], **options: Any) -> bytes:
        """The response of an RPC that has a single response. grpc.RpcError if the call fails."""
        if self._cancellation is None:
            return begin(request, **options)
        call = self._cancellation.begin(method, partial(begin.future, request, **options))
        try:
            return call.result()
        except grpc.FutureCancelledError as error:
            raise CancelledError(f"{method} was cancelled") from error
        except BaseException:  # such as KeyboardInterrupt
            call.cancel()
            raise

    def _metadata(self) -> tuple[tuple[str, str], ...] | None:
        return connection.metadata_of(
            self._token if self._token is None or isinstance(self._token, str) else self._token()
        )

    def send(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> bytes:
        """The response of an RPC, sent to one of the servers."""
        metadata = self._metadata()

        async def call(begin: Any, left: float | None) -> bytes:
            return self._answer(method, begin, request, timeout=left, metadata=metadata)

        try:
            seconds = connection.timeout_of(request, timeout, self.timeout, self.stream_timeout)
            return finished(self._servers.ask(method, seconds, call, self._pause))
        except grpc.RpcError as error:
            raise exception_of(error, self.address) from error
        except ValueError as error:
            raise connection.closed(self.address) from error

    def stream(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> Iterator[bytes]:
        """The responses of an RPC that answers with a stream. The call begins at once, and each response is read when
        the iterator is advanced. If `request` is an iterator, another thread reads it.
        """
        metadata = self._metadata()
        try:
            seconds = self.stream_timeout if timeout is None else timeout
            calls = finished(self._servers.calls(seconds, self._pause))
            begin = partial(calls[method], request, timeout=seconds, metadata=metadata)
            call = begin() if self._cancellation is None else self._cancellation.begin(method, begin)
        except ValueError as error:
            raise connection.closed(self.address) from error
        return _Responses(method, call, self.address, self._cancellation)


def _state(channel: Any) -> grpc.ChannelConnectivity:
    """The state of a channel, which then begins to connect: `get_state` of grpc.aio, which grpc does not have."""
    return _STATES[channel._channel.check_connectivity_state(True)]


class _Responses(Iterator[bytes]):
    """The responses of a stream. If the iterator is deleted before its end, the call is cancelled."""

    def __init__(self, method: str, call: Any, address: str, cancellation: Cancellation | None) -> None:
        self._method = method
        self._call = call
        self._address = address
        self._cancellation = cancellation

    def __next__(self) -> bytes:
        if self._cancellation is not None and self._cancellation.is_cancelled:
            raise CancelledError(f"{self._method} was cancelled")
        try:
            return next(self._call)
        except grpc.RpcError as error:
            if self._cancellation is not None and self._cancellation.is_cancelled:
                raise CancelledError(f"{self._method} was cancelled") from error
            raise exception_of(error, self._address) from error

    def __del__(self) -> None:
        if isinstance(self._call, Generator):  # from an interceptor
            self._call.close()
        else:
            self._call.cancel()
