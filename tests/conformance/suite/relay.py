"""Servers that misbehave: one before the ordinary server, which loses answers, and one that only listens."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import grpc

from xlashape.proto import service as service_of

__all__ = ["Listener", "Relay"]

_HOLD_SECONDS = 0.1  # that a call takes, so that a client has time to connect to other servers


class Listener:
    """Accepts connections and says nothing, or closes each at once. Use it in a `with` block."""

    def __init__(self, *, closes: bool) -> None:
        self._closes = closes
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._accepted: list[socket.socket] = []
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Listener:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        for one in (self._socket, *self._accepted):
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # of the closed socket
            while True:
                connection, _ = self._socket.accept()
                if self._closes:
                    connection.close()
                else:
                    self._accepted.append(connection)


class Relay:
    """Passes calls of one request on, after `hold_seconds` or when they are cancelled. Use it in a `with` block.

    Of `unavailable` + 1 calls the first ones are refused with UNAVAILABLE. After `most` answers all calls are refused
    with FAILED_PRECONDITION. With `acts` the first call of each RPC reaches the server, and is told as UNAVAILABLE; of
    a stream of answers the first one comes before that.
    """

    def __init__(
        self,
        behind: str,
        *,
        unavailable: int = 0,
        most: int | None = None,
        acts: bool = False,
        hold_seconds: float = _HOLD_SECONDS,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self._hold_seconds = hold_seconds
        self._unavailable = unavailable
        self._acted: set[str] | None = set() if acts else None
        self._most = most
        self._calls = itertools.count()
        self._answers = 0
        self._lock = threading.Lock()
        self._channel = grpc.insecure_channel(behind)
        # Without SO_REUSEPORT nobody else gets the port.
        self._server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((_Any(self._relayed, self._streamed),))
        if credentials is None:
            port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self.address = f"127.0.0.1:{port}"

    def __enter__(self) -> Relay:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop(None)
        self._channel.close()

    def _relayed(self, method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        if next(self._calls) % (self._unavailable + 1) < self._unavailable:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        with self._lock:
            self._answers += 1
            is_refused = self._most is not None and self._answers > self._most
        if is_refused:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "this server has answered more calls than it should get")
        self._hold(context)
        try:
            answer = self._channel.unary_unary(method)(request, timeout=60)
        except grpc.RpcError as error:
            if self._acted is None or not isinstance(error, grpc.Call):
                raise
            context.set_trailing_metadata(error.trailing_metadata())
            context.abort(error.code(), error.details())
        self._lose(method, context)
        return answer

    def _hold(self, context: grpc.ServicerContext) -> None:
        ended = threading.Event()
        if context.add_callback(ended.set):
            ended.wait(self._hold_seconds)

    def _streamed(self, method: str, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        self._hold(context)
        for answer in self._channel.unary_stream(method)(request, timeout=60):
            yield answer
            self._lose(method, context)

    def _lose(self, method: str, context: grpc.ServicerContext) -> None:
        """Tells the first call of an RPC, which the server has answered, as UNAVAILABLE."""
        with self._lock:
            is_lost = self._acted is not None and method not in self._acted
            if self._acted is not None:
                self._acted.add(method)
        if is_lost:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the answer was lost")


class _Any(grpc.GenericRpcHandler):
    """Hands every call to one of two functions: for one answer, or for a stream of answers."""

    def __init__(self, relayed: Any, streamed: Any) -> None:
        self._relayed = relayed
        self._streamed = streamed

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method: Any = handler_call_details.method
        owner, _, name = method.removeprefix("/").rpartition("/")
        if service_of(owner).methods_by_name[name].server_streaming:
            return grpc.unary_stream_rpc_method_handler(
                lambda request, context: self._streamed(method, request, context)
            )
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self._relayed(method, request, context))
