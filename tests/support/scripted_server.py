"""A gRPC server whose answers are written by a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from xlashape.proto import services

__all__ = ["scripted_server"]

_STREAMING = {
    f"/{service.full_name}/{method.name}"
    for service in services()
    for method in service.methods
    if method.server_streaming
}


@contextmanager
def scripted_server(
    answer: Callable[[int, Any], bytes | Iterator[bytes]], *, threads: int = 4
) -> Generator[tuple[str, list[str]], None, None]:
    """Starts a server that answers call number i with `answer(i, context)`: bytes, or an iterator of bytes for an RPC
    that answers with a stream. Yields its address, and the list of the paths that were called.

    A request is one message. `threads` is how many calls are answered at a time.
    """
    asked: list[str] = []
    lock = threading.Lock()

    class Handler(grpc.GenericRpcHandler):
        def service(self, handler_call_details: Any) -> Any:
            def handle(_: bytes, context: Any) -> Any:
                with lock:
                    asked.append(handler_call_details.method)
                    number = len(asked)
                return answer(number, context)

            streams = handler_call_details.method in _STREAMING
            made: Any = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
            return made(handle)

    with ThreadPoolExecutor(threads) as pool:
        running = grpc.server(pool, [Handler()])
        port = running.add_insecure_port("127.0.0.1:0")
        running.start()
        yield f"127.0.0.1:{port}", asked
        running.stop(None).wait()
