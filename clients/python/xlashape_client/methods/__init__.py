"""The RPCs of the service as methods. Each converts its arguments to a request, and the response to values of the
library.

- `shapes`: the methods of ShapeService
- `modules`: the methods of HloService
- `indexing`: the methods of IndexingService
- `reports`: the methods of ReportService
- `views`: the methods of ViewService

`ServiceMethods` has all methods for a client whose calls block, and `AsyncServiceMethods` for a client whose calls are
awaited. A client derives from one of these classes and implements `send` and `stream`. This package does not load grpc.
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

    The path of the error names the field of the request in which the wrong value was sent, as `xlashape.errors`
    describes.
    """


@asynchronous
class AsyncServiceMethods(ShapeMethods, HloMethods, IndexingMethods, ReportMethods, ViewMethods, Asynchronous):
    """Every RPC of the service as a coroutine function, or as a function that returns an asynchronous iterator, with
    the same errors.
    """
