"""A server between a testee and the ordinary server, which does not answer every call."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import grpc

__all__ = ["Relay"]

_HOLD_SECONDS = 0.1  # that a call takes, so that a client has time to connect to other servers


class Relay:
    """Passes calls of one message each way on. Use it in a `with` block.

    Of `unavailable` + 1 calls the first ones are refused with UNAVAILABLE. After `most` answers all calls are refused with FAILED_PRECONDITION.
    """

    def __init__(self, behind: str, *, unavailable: int = 0, most: int | None = None) -> None:
        self._unavailable = unavailable
        self._most = most
        self._calls = itertools.count()
        self._answers = 0
        self._lock = threading.Lock()
        self._channel = grpc.insecure_channel(behind)
        # Without SO_REUSEPORT nobody else gets the port.
        self._server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((_Any(self._relayed),))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

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
        time.sleep(_HOLD_SECONDS)
        return self._channel.unary_unary(method)(request, timeout=60)


class _Any(grpc.GenericRpcHandler):
    """Hands every call to one function."""

    def __init__(self, relayed: Any) -> None:
        self._relayed = relayed

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method: Any = handler_call_details.method
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self._relayed(method, request, context))
