"""Registers each RPC of the schema with grpc. Between grpc and a handler is the guard (`guard.py`), which admits the
call and bounds its time and memory.

Requests and responses pass as bytes; handlers decode and encode them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor

from xlashape_server.grpc_calls import GrpcCalls
from xlashape_server.guard import Guard
from xlashape_server.handlers import Rpc


def add_services(server: grpc.Server, rpcs: tuple[Rpc, ...], guard: Guard) -> None:
    """Registers `rpcs` with `server`."""
    calls = GrpcCalls(guard)
    by_service: dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]] = {}
    for rpc in rpcs:
        method = rpc.method
        name = f"{method.containing_service.name}/{method.name}"
        made = _guarded(name, method, rpc.handler, guard, calls)
        by_service.setdefault(method.containing_service.full_name, {})[method.name] = made
    for full_name, methods in by_service.items():
        add_methods(server, full_name, methods)


def add_methods(server: grpc.Server, service: str, methods: dict[str, grpc.RpcMethodHandler[Any, Any]]) -> None:
    """Registers the methods of a service with `server`."""
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    # Registered methods are found by grpc's core, which is faster. Older versions of grpc do not have this function.
    register: Callable[[str, Any], None] | None = getattr(server, "add_registered_method_handlers", None)
    if register is not None:
        register(service, methods)


def count_unknown_methods(server: grpc.Server, guard: Guard) -> None:
    """Has the guard count calls of methods that do not exist. Call this after all methods were added: grpc asks
    handlers in the order in which they were added.
    """
    last: Any = _Unknown(guard)
    server.add_generic_rpc_handlers((last,))


class _Unknown:
    """A handler that has no methods. grpc asks it only for methods that no handler before it has."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> None:
        del handler_call_details
        self._guard.unknown_method()


def _guarded(
    name: str, method: MethodDescriptor, handler: Callable[..., Any], guard: Guard, calls: GrpcCalls
) -> grpc.RpcMethodHandler[Any, Any]:
    """A handler behind the guard. A place is the right to have one call in progress: each call needs an ordinary one,
    and an upload or a call that streams both ways also needs one of that kind. All RPCs are registered as taking a
    stream of requests: `grpc_calls` says why.
    """
    if method.client_streaming and method.server_streaming:
        return grpc.stream_stream_rpc_method_handler(calls.both_streams(name, handler, (guard.places, guard.streams)))
    if method.client_streaming:
        return grpc.stream_unary_rpc_method_handler(calls.client_stream(name, handler, guard.uploads))
    if method.server_streaming:
        return grpc.stream_stream_rpc_method_handler(calls.server_stream(name, handler))
    return grpc.stream_unary_rpc_method_handler(calls.unary(name, handler))
