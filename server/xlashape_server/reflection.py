"""Server reflection over two descriptor pools: ours, which is private, and the default one, where health and reflection live."""

from __future__ import annotations

from typing import Any, cast

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from xlashape.proto import pool, services

__all__ = ["enable"]


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


def enable(server: grpc.Server) -> None:
    """Makes `server` tell about itself."""
    names = [*(one.full_name for one in services()), health.SERVICE_NAME, reflection.SERVICE_NAME]
    reflection.enable_server_reflection(names, server, pool=cast("DescriptorPool", _BothPools()))
