"""The RPCs: each is a handler behind a guard. Requests and responses pass as bytes; handlers know their messages themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from xlashape.proto import service
from xlashape_server.handlers import HloHandlers, IndexingHandlers, ShapeHandlers
from xlashape_server.interceptors import Guard

__all__ = ["HloService", "IndexingService", "Service", "ShapeService"]


class Service:
    """Base of the three. Every RPC of the schema's service `full_name` is a property of that name."""

    full_name: str

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def add_to(self, server: grpc.Server) -> None:
        """Makes `server` answer every RPC of the service."""
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for method in service(self.full_name).methods:
            make: Any = {
                (False, False): grpc.unary_unary_rpc_method_handler,
                (True, False): grpc.stream_unary_rpc_method_handler,
                (False, True): grpc.unary_stream_rpc_method_handler,
            }[method.client_streaming, method.server_streaming]
            handlers[method.name] = make(getattr(self, method.name))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(self.full_name, handlers),))
        # Registered methods are matched by the core; older grpc has them not.
        register: Callable[[str, Any], None] | None = getattr(server, "add_registered_method_handlers", None)
        if register is not None:
            register(self.full_name, handlers)


class ShapeService(Service):
    """xlashape.v1.ShapeService."""

    full_name = "xlashape.v1.ShapeService"

    def __init__(self, handlers: ShapeHandlers, guard: Guard) -> None:
        super().__init__(guard)
        self.DescribeShape = guard.long("ShapeService/DescribeShape", handlers.describe_shape)
        self.ByteSize = guard.quick_if_small("ShapeService/ByteSize", handlers.byte_size)
        self.LinearIndex = guard.quick_if_small("ShapeService/LinearIndex", handlers.linear_index)
        self.MultiIndex = guard.quick_if_small("ShapeService/MultiIndex", handlers.multi_index)


class HloService(Service):
    """xlashape.v1.HloService."""

    full_name = "xlashape.v1.HloService"

    def __init__(self, handlers: HloHandlers, guard: Guard, *, max_uploads: int) -> None:
        super().__init__(guard)
        self.UploadModule = guard.from_stream(
            "HloService/UploadModule", handlers.upload_module, limit="concurrent_uploads", most=max_uploads
        )
        self.GetModule = guard.quick("HloService/GetModule", handlers.get_module)
        self.DeleteModule = guard.quick("HloService/DeleteModule", handlers.delete_module)
        self.ListInstructions = guard.long("HloService/ListInstructions", handlers.list_instructions)
        self.ByteSizes = guard.long("HloService/ByteSizes", handlers.byte_sizes)


class IndexingService(Service):
    """xlashape.v1.IndexingService."""

    full_name = "xlashape.v1.IndexingService"

    def __init__(self, handlers: IndexingHandlers, guard: Guard) -> None:
        super().__init__(guard)
        self.IndexingMaps = guard.to_stream("IndexingService/IndexingMaps", handlers.indexing_maps)
        self.OperandReads = guard.to_stream("IndexingService/OperandReads", handlers.operand_reads)
        self.OperandTiles = guard.long("IndexingService/OperandTiles", handlers.operand_tiles)
        self.SimplifyMap = guard.long("IndexingService/SimplifyMap", handlers.simplify_map)
        self.ComposeMaps = guard.long("IndexingService/ComposeMaps", handlers.compose_maps)
        self.EvaluateMap = guard.long("IndexingService/EvaluateMap", handlers.evaluate_map)
