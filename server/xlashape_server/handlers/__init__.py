"""Request → library call → response. Bytes in, bytes out; no gRPC here.

shapes, hlo, indexing  one class of handlers for each service
maps                   the handlers of IndexingService that need no module
reports                one handler for all reports
views                  what a page shows: what a text is, pictures, slices of text, graphs
inputs                 converts requests to values of the library, and paths of errors to fields of requests
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.descriptor import MethodDescriptor

from xlashape.proto import services
from xlashape_server.config import Config
from xlashape_server.handlers.hlo import HloHandlers
from xlashape_server.handlers.indexing import IndexingHandlers
from xlashape_server.handlers.reports import ReportHandlers
from xlashape_server.handlers.shapes import ShapeHandlers
from xlashape_server.handlers.views import ViewHandlers
from xlashape_server.modules import Modules

__all__ = ["HloHandlers", "IndexingHandlers", "Rpc", "ShapeHandlers", "rpcs"]

_WORD = re.compile(r"(?<!^)(?=[A-Z])")


class Rpc(NamedTuple):
    """An RPC of the schema, and the handler that answers it.

    The handler takes a request, or an iterator of requests, and a deadline, and gives a response, or an iterator of
    responses, as the method's descriptor says.
    """

    method: MethodDescriptor
    handler: Callable[..., Any]


def rpcs(config: Config, modules: Modules) -> tuple[Rpc, ...]:
    """Every RPC of the schema. The handler of an RPC has its name in snake_case: that of DescribeShape is
    `describe_shape`.
    """
    reports = ReportHandlers(config, modules)
    handlers: dict[str, object] = {
        "ShapeService": ShapeHandlers(config),
        "HloService": HloHandlers(config, modules),
        "IndexingService": IndexingHandlers(config, modules),
        "ViewService": ViewHandlers(config, modules),
    }

    def handler(method: MethodDescriptor) -> Callable[..., Any]:
        if method.containing_service.name == "ReportService":
            return reports.handler(method)
        return getattr(handlers[method.containing_service.name], _WORD.sub("_", method.name).lower())

    return tuple(Rpc(method, handler(method)) for service in services() for method in service.methods)
