"""Server reflection over two descriptor pools: the private pool of xlashape.proto, and the default pool, which has health and reflection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError as WireError
from grpc_reflection.v1alpha import reflection, reflection_pb2

from xlashape.errors import DecodeError
from xlashape.limits import spend
from xlashape.proto import pool, services
from xlashape_server.grpc_calls import GrpcCalls
from xlashape_server.guard import Guard
from xlashape_server.health import SERVICE
from xlashape_server.services import add_methods

__all__ = ["enable"]

_REFUSING_THREADS = 4


class _BothPools:
    """The methods of a pool that the reflection servicer calls. The private pool comes first: in the default pool another package may have
    other files of the same names.
    """

    def __init__(self) -> None:
        self._pools = (pool, descriptor_pool.Default())

    def __getattr__(self, name: str) -> Any:
        # FindFileByName, FindFileContainingSymbol, FindMessageTypeByName, FindExtensionByNumber, FindAllExtensions, …
        def find(*arguments: Any) -> Any:
            private, default = (getattr(pool, name) for pool in self._pools)
            try:
                return private(*arguments)
            except KeyError:
                return default(*arguments)

        return find


class _Reflection(reflection.ReflectionServicer):
    """A stream lasts as long as its caller likes, so reflection has places and threads of its own."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(names, pool=cast("DescriptorPool", _BothPools()))

    def converse(self, requests: Iterator[bytes], deadline: float) -> Iterator[bytes]:  # noqa: ARG002  # all handlers are called alike
        """ServerReflectionInfo, in bytes."""
        answers = cast("Callable[[Iterator[Any], Any], Iterator[Any]]", self.ServerReflectionInfo)
        for answer in answers(map(_decoded, requests), None):
            spend(256)  # between two answers the call looks whether it may go on
            yield answer.SerializeToString()


def _decoded(data: bytes) -> Any:
    try:
        return reflection_pb2.ServerReflectionRequest.FromString(data)
    except WireError as error:
        raise DecodeError(f"not a {reflection.SERVICE_NAME} request: {error}") from None


def enable(server: grpc.Server, guard: Guard) -> None:
    """Makes `server` answer questions about its schema."""
    names = [*(service.full_name for service in services()), SERVICE, reflection.SERVICE_NAME]
    places = guard.conversations
    answer: Any = GrpcCalls(guard).both_streams(
        "ServerReflection/ServerReflectionInfo", _Reflection(names).converse, (places,)
    )
    answer.experimental_thread_pool = ThreadPoolExecutor(places.maximum + _REFUSING_THREADS, "reflection")
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(answer)
    }
    add_methods(server, reflection.SERVICE_NAME, methods)
