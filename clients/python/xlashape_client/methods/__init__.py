"""The RPCs of the service as methods. Each converts its arguments to a request, and the response to values of the
library.

shapes    ShapeService
modules   HloService
indexing  IndexingService
reports   ReportService
views     ViewService

`ServiceMethods` has them for clients whose calls block, `AsyncServiceMethods` for clients whose calls are awaited: a
client gives `send` and `stream` a body. Nothing here loads grpc.
"""

from __future__ import annotations

from xlashape_client.faces import Asynchronous, Blocking, asynchronous, blocking
from xlashape_client.methods.indexing import IndexingMethods
from xlashape_client.methods.modules import HloMethods
from xlashape_client.methods.reports import ReportMethods
from xlashape_client.methods.shapes import ShapeMethods
from xlashape_client.methods.views import ViewMethods

__all__ = ["AsyncServiceMethods", "ServiceMethods"]


@blocking
class ServiceMethods(ShapeMethods, HloMethods, IndexingMethods, ReportMethods, ViewMethods, Blocking):
    """Every RPC of the service as a method. An error is the exception that the library itself raises for the same
    mistake.

    Its path names the field of the request that the value was sent in; `xlashape.errors` says how.
    """


@asynchronous
class AsyncServiceMethods(ShapeMethods, HloMethods, IndexingMethods, ReportMethods, ViewMethods, Asynchronous):
    """Every RPC of the service as a coroutine function, or as a function that returns an asynchronous iterator, with
    the same errors.
    """
