"""Server reflection over two descriptor pools: the private pool of xlashape.proto, and the default pool, which has health and reflection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from xlashape.proto import pool, services
from xlashape_server.guard import Guard

__all__ = ["enable"]

_MAX_STREAMS = 8  # at a time


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
    """A stream lasts as long as its client likes, so reflection has threads of its own: one for each stream, and one that refuses further streams."""

    def __init__(self, names: list[str], guard: Guard) -> None:
        super().__init__(names, pool=cast("DescriptorPool", _BothPools()))
        converse = cast("Callable[[Iterator[Any], Any], Iterator[Any]]", super().ServerReflectionInfo)

        def handle(requests: Iterator[Any], deadline: float) -> Iterator[Any]:  # noqa: ARG001  # the guard ends the stream
            return converse(requests, None)

        answer: Any = guard.both_streams(
            "ServerReflection/ServerReflectionInfo", handle, limit="reflection_streams", maximum=_MAX_STREAMS
        )
        answer.experimental_thread_pool = ThreadPoolExecutor(_MAX_STREAMS + 1, thread_name_prefix="reflection")
        self.ServerReflectionInfo = answer


def enable(server: grpc.Server, guard: Guard) -> None:
    """Makes `server` answer questions about its schema."""
    names = [*(service.full_name for service in services()), health.SERVICE_NAME, reflection.SERVICE_NAME]
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(_Reflection(names, guard), server)
