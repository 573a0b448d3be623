"""Registers the RPCs with grpc: each RPC that the schema names is its handler behind a guard.

Requests and responses pass as bytes; handlers decode and encode them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor

from xlashape_server.config import Config
from xlashape_server.guard import Guard
from xlashape_server.handlers import Rpc

__all__ = ["add_services"]


def add_services(server: grpc.Server, rpcs: tuple[Rpc, ...], guard: Guard, config: Config) -> None:
    """Makes `server` answer `rpcs`."""
    # A bulk stream lasts as long as its client sends. With threads of their own, bulk streams never keep other calls waiting.
    bulk = max(1, config.threads // 4)
    bulk_threads = ThreadPoolExecutor(bulk, thread_name_prefix="bulk")
    by_service: dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]] = {}
    for rpc in rpcs:
        method = rpc.method
        name = f"{method.containing_service.name}/{method.name}"
        made: grpc.RpcMethodHandler[Any, Any]
        if method.client_streaming and method.server_streaming:
            answer: Any = guard.bulk_stream(name, rpc.handler, limit="concurrent_streams", maximum=bulk)
            answer.experimental_thread_pool = bulk_threads
            made = grpc.stream_stream_rpc_method_handler(answer)
        else:
            made = _guarded(name, method, rpc.handler, guard, max_uploads=max(1, config.threads // 2))
        by_service.setdefault(method.containing_service.full_name, {})[method.name] = made
    # Registered methods are matched by grpc's core; older versions of grpc do not have them.
    register: Callable[[str, Any], None] | None = getattr(server, "add_registered_method_handlers", None)
    for full_name, methods in by_service.items():
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(full_name, methods),))
        if register is not None:
            register(full_name, methods)


def _guarded(
    name: str, method: MethodDescriptor, handler: Callable[..., Any], guard: Guard, *, max_uploads: int
) -> grpc.RpcMethodHandler[Any, Any]:
    if method.client_streaming:
        return grpc.stream_unary_rpc_method_handler(
            guard.client_stream(name, handler, limit="concurrent_uploads", maximum=max_uploads)
        )
    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(guard.server_stream(name, handler))
    return grpc.unary_unary_rpc_method_handler(guard.unary(name, handler))
