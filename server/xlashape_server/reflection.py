"""gRPC server reflection: answers questions of clients about the schema of the server.

It looks descriptors up in the private pool of xlashape.proto, and in the default pool for health and reflection
themselves. The package grpcio-reflection has grpc.reflection.v1alpha only. Newer clients first ask for
grpc.reflection.v1, which has the same messages under another package name. So one handler answers both versions, and
the descriptors of v1 are made of those of v1alpha.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError as WireError
from grpc_reflection.v1alpha import reflection, reflection_pb2

from xlashape.errors import DecodeError
from xlashape.proto import pool, services
from xlashape_server.call_threads import CallThreads
from xlashape_server.calls import Call
from xlashape_server.grpc_calls import GrpcCalls, add_methods
from xlashape_server.guard import Guard
from xlashape_server.health import SERVICE

V1 = "grpc.reflection.v1"

CALL = "ServerReflection/ServerReflectionInfo"
"""The name of reflection calls in logs, metrics and rules of access."""

_REFUSING_THREADS = 4  # threads beyond those of admitted streams, to refuse further streams


def _v1_pool() -> DescriptorPool:
    """A pool with the file of grpc.reflection.v1."""
    file = descriptor_pb2.FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(file)
    file.name = "grpc/reflection/v1/reflection.proto"
    file.package = V1
    old, new = f".{reflection_pb2.DESCRIPTOR.package}.", f".{V1}."
    for message in file.message_type:
        for field in (each for each in message.field if each.HasField("type_name")):
            field.type_name = field.type_name.replace(old, new)
    for service in file.service:
        for method in service.method:
            method.input_type = method.input_type.replace(old, new)
            method.output_type = method.output_type.replace(old, new)
    made = DescriptorPool()
    made.AddSerializedFile(file.SerializeToString())
    return made


class _AllPools:
    """Several pools as one, for the reflection servicer: a lookup takes the first pool that has what is asked for. The
    private pool comes first, since in the default pool another package may have other files of the same names.
    """

    def __init__(self) -> None:
        self._pools = (pool, _v1_pool(), descriptor_pool.Default())

    def __getattr__(self, name: str) -> Any:
        # FindFileByName, FindFileContainingSymbol, FindMessageTypeByName, FindExtensionByNumber, FindAllExtensions, …
        def find(*arguments: Any) -> Any:
            *first, last = (getattr(pool, name) for pool in self._pools)
            for each in first:
                with suppress(KeyError):
                    return each(*arguments)
            return last(*arguments)

        return find


class _Reflection(reflection.ReflectionServicer):
    """The servicer of grpcio-reflection over all pools. Its streams may stay open for any time, so they have threads of
    their own, and a maximum of calls in progress of their own (`callers.Places`).
    """

    def __init__(self, names: list[str]) -> None:
        super().__init__(names, pool=cast("DescriptorPool", _AllPools()))

    def converse(self, call: Call, requests: Iterator[bytes]) -> Iterator[bytes]:
        """The RPC ServerReflectionInfo, with serialized requests and responses."""
        answers = cast("Callable[[Iterator[Any], Any], Iterator[Any]]", self.ServerReflectionInfo)
        for answer in answers(map(_decoded, requests), None):
            call.check()
            yield answer.SerializeToString()


def _decoded(data: bytes) -> Any:
    try:
        return reflection_pb2.ServerReflectionRequest.FromString(data)
    except WireError as error:
        raise DecodeError(f"not a {reflection.SERVICE_NAME} request: {error}") from None


def enable(server: grpc.Server, guard: Guard) -> None:
    """Registers server reflection with `server`."""
    versions = (f"{V1}.ServerReflection", reflection.SERVICE_NAME)
    names = [*(service.full_name for service in services()), SERVICE, *versions]
    places = guard.conversations
    threads = CallThreads(places.maximum + _REFUSING_THREADS, "reflection")
    answer = GrpcCalls(guard, threads).both_streams(CALL, _Reflection(names).converse, (places,))
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(answer)
    }
    for version in versions:
        add_methods(server, version, methods)
