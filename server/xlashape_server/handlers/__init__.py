"""Handlers of RPCs. A handler takes a serialized request, calls the library, and returns the serialized response. It
knows nothing of gRPC or HTTP.

shapes, hlo  the handlers of ShapeService and HloService
maps         the handlers of IndexingService, without IndexingMaps
reports      the handler of all reports: the RPCs of ReportService, and IndexingMaps
views        the handlers of ViewService, which the web page calls: they recognize what a text is, draw pictures, and
             give the text and the graph of a module
inputs       converts requests to values of the library, and names the request's field in errors
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from xlashape.proto import services
from xlashape.reports.report import REPORTS, rpc_of
from xlashape_server.config import Config
from xlashape_server.handlers.hlo import HloHandlers
from xlashape_server.handlers.maps import MapHandlers
from xlashape_server.handlers.reports import ReportHandlers
from xlashape_server.handlers.shapes import ShapeHandlers
from xlashape_server.handlers.views import ViewHandlers
from xlashape_server.modules import Modules

__all__ = ["HloHandlers", "MapHandlers", "Rpc", "ShapeHandlers", "rpcs"]

_WORD = re.compile(r"(?<!^)(?=[A-Z])")


class Rpc(NamedTuple):
    """An RPC of the schema, and the handler that answers it.

    The handler takes the serialized request and a deadline, a time of time.monotonic(), and returns the serialized
    response. If the method streams requests or responses, there is an iterator in place of the one message.
    """

    method: MethodDescriptor
    handler: Callable[..., Any]

    def in_json(self, data: bytes, deadline: float) -> bytes:
        """The answer in JSON to a request in JSON."""
        from xlashape_server.conversions import json_to_proto, proto_to_json  # deferred: it needs gRPC's packages

        request, response = GetMessageClass(self.method.input_type), GetMessageClass(self.method.output_type)
        return proto_to_json(self.handler(json_to_proto(data, request), deadline), response)


def rpcs(config: Config, modules: Modules) -> tuple[Rpc, ...]:
    """Every RPC of the schema. The handler of an RPC has its name in snake_case: that of DescribeShape is
    `describe_shape`. One handler answers all reports.
    """
    reports = ReportHandlers(config, modules)
    handlers: dict[str, object] = {
        "ShapeService": ShapeHandlers(config),
        "HloService": HloHandlers(config, modules),
        "IndexingService": MapHandlers(config),
        "ViewService": ViewHandlers(config, modules),
    }

    by_rpc = {rpc_of(name): name for name in REPORTS}

    def handler(method: MethodDescriptor) -> Callable[..., Any]:
        if method.name in by_rpc:
            return reports.handler(method, by_rpc[method.name])
        return getattr(handlers[method.containing_service.name], _WORD.sub("_", method.name).lower())

    return tuple(Rpc(method, handler(method)) for service in services() for method in service.methods)
