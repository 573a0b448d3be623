"""The client: the service's RPCs as methods, which take and return values of the library.

with Client("127.0.0.1:50051") as client:
    client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3))            # 17
    module = client.upload_module("dump.hlo.pb")
    for maps in client.indexing_maps(module, "fusion.3"):
        print(maps.opcode, [str(m) for tensor in maps.maps for m in tensor.maps])
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import grpc

from xlashape_client.connection import (
    calls_of,
    channel_credentials,
    channel_options,
    closed,
    metadata_of,
    until_ready,
)
from xlashape_client.faces import finished
from xlashape_client.methods import ServiceMethods
from xlashape_client.status import exception_of


class Client(ServiceMethods):
    """A connection to a server, which is opened by the first call and reopened after it breaks. Threads may share a
    client.

    - `address`: HOST:PORT, or unix:PATH. Calls go to replicas in turn: to all addresses of a name (dns:///NAME:PORT),
      or to those of a list (ipv4:HOST:PORT,HOST:PORT).
    - `timeout`: seconds that a call may take before it raises DeadlineExceededError. Every method has a `timeout` of
      its own too.
    - `root_certificates`: PEM bytes that the server's certificate is checked against; empty bytes stand for the
      system's certificates. If given, the connection uses TLS.
    - `attempts`: how often a call is tried, 1 to 5, while the server is unavailable. The first pause is 0.1 seconds and
      each further pause twice as long, varied at random by a fifth. `timeout` bounds all attempts together. A deletion
      is tried once: a second attempt could report that the module is missing. So is a call that is answered by a
      stream.
    - `token`: the bearer token that is sent with each call, or a function that gives it. Without TLS anyone who sees
      the traffic can use it.
    - `private_key`, `certificate_chain`: PEM bytes that identify this client, if the server requires them.
    - `server_name`: the name in the server's certificate, if it is not that of the address.

    Within a span of OpenTelemetry, a call tells the server which one that is (traceparent).

    Every method raises the exceptions that the library raises for the same mistake, and UnavailableError if the server
    cannot be reached. `AsyncClient` has the same methods for asyncio.

    >>> from xlashape_server import Config, Server
    >>> with Server(Config(address="127.0.0.1:0", workers=1)) as server, Client(server.address) as client:
    ...     client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3)), client.byte_size("f32[3,5]{1,0:T(2,2)}").physical_bytes
    (17, 96)
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float = 60.0,
        attempts: int = 4,
        token: str | Callable[[], str] | None = None,
        root_certificates: bytes | None = None,
        private_key: bytes | None = None,
        certificate_chain: bytes | None = None,
        server_name: str | None = None,
    ) -> None:
        self.address = address
        self.timeout = timeout
        self._token = token
        options = channel_options(attempts, server_name)
        credentials = channel_credentials(root_certificates, private_key, certificate_chain, server_name)
        if credentials is None:
            self._channel = grpc.insecure_channel(address, options)
        else:
            self._channel = grpc.secure_channel(address, credentials, options)
        self._calls = calls_of(self._channel)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. Calls that have not ended raise UnavailableError."""
        self._channel.close()

    def wait_until_ready(self, timeout: float | None = None) -> None:
        """Returns once the server reports that it serves calls. UnavailableError if it does not in `timeout`
        seconds.
        """

        async def check(seconds: float) -> bytes:
            return self._calls["Check"](b"", timeout=seconds, wait_for_ready=True)

        async def pause(seconds: float) -> None:
            time.sleep(seconds)

        try:
            finished(until_ready(self.address, self.timeout if timeout is None else timeout, check, pause))
        except ValueError as error:
            raise closed(self.address) from error

    def _begun(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> Any:
        """The response of a call that is answered by one message; the call itself, if it is answered by a stream."""
        token = self._token if self._token is None or isinstance(self._token, str) else self._token()
        metadata = metadata_of(token)
        try:
            return self._calls[method](request, timeout=self.timeout if timeout is None else timeout, metadata=metadata)
        except grpc.RpcError as error:
            raise exception_of(error, self.address) from error
        except ValueError as error:
            raise closed(self.address) from error

    def send(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> bytes:
        """Calls the server."""
        return self._begun(method, request, timeout)

    def stream(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> Iterator[bytes]:
        """Calls the server. The call begins at once; each response is read when the iterator is advanced. Another
        thread reads a stream of requests.
        """
        return _Responses(self._begun(method, request, timeout), self.address)


class _Responses(Iterator[bytes]):
    """The responses of a stream. If the iterator is deleted before its end, the call is cancelled."""

    def __init__(self, call: Any, address: str) -> None:
        self._call = call
        self._address = address

    def __next__(self) -> bytes:
        try:
            return next(self._call)
        except grpc.RpcError as error:
            raise exception_of(error, self._address) from error

    def __del__(self) -> None:
        self._call.cancel()
