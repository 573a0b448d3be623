"""The RPCs of the service as methods. Each makes a request of its arguments, and values of the library of the response.

shapes    ShapeService
modules   HloService
indexing  IndexingService

`Client` sends the requests to a server. Another transport gives `send` and `stream` a body of its own. Nothing here loads grpc.
"""

from __future__ import annotations

from xlashape_client.methods.indexing import IndexingMethods
from xlashape_client.methods.modules import HloMethods
from xlashape_client.methods.shapes import ShapeMethods

__all__ = ["ServiceMethods"]


class ServiceMethods(ShapeMethods, HloMethods, IndexingMethods):
    """Every RPC of the service as a method. An error is the exception that the library itself raises for the same mistake.

    Its path names the field of the request that the value was sent in; `xlashape.errors` says how.
    """
