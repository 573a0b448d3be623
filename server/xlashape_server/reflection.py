"""Server reflection over two descriptor pools: ours, which is private, and the default one, where health and reflection live."""

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
    """What the reflection servicer asks of a pool. Ours comes first: another package may hold other files of the same names."""

    def __init__(self) -> None:
        self._pools = (pool, descriptor_pool.Default())

    def __getattr__(self, name: str) -> Any:
        # FindFileByName, FindFileContainingSymbol, FindMessageTypeByName, FindExtensionByNumber, FindAllExtensions, …
        def find(*arguments: Any) -> Any:
            ours, default = (getattr(each, name) for each in self._pools)
            try:
                return ours(*arguments)
            except KeyError:
                return default(*arguments)

        return find


class _Reflection(reflection.ReflectionServicer):
    """A stream lasts as long as its client likes, so it has threads of its own: one more than streams, to refuse others with."""

    def __init__(self, names: list[str], guard: Guard) -> None:
        super().__init__(names, pool=cast("DescriptorPool", _BothPools()))
        converse = cast("Callable[[Iterator[Any], Any], Iterator[Any]]", super().ServerReflectionInfo)

        def handle(requests: Iterator[Any]) -> Iterator[Any]:
            return converse(requests, None)

        answer: Any = guard.both_streams(
            "ServerReflection/ServerReflectionInfo", handle, limit="reflection_streams", maximum=_MAX_STREAMS
        )
        answer.experimental_thread_pool = ThreadPoolExecutor(_MAX_STREAMS + 1, thread_name_prefix="reflection")
        self.ServerReflectionInfo = answer


def enable(server: grpc.Server, guard: Guard) -> None:
    """Makes `server` tell about itself."""
    names = [*(service.full_name for service in services()), health.SERVICE_NAME, reflection.SERVICE_NAME]
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(_Reflection(names, guard), server)
