"""Request → library call → response, a file a service. Bytes in, bytes out; no gRPC here."""

from xlashape_server.handlers.hlo import HloHandlers
from xlashape_server.handlers.indexing import IndexingHandlers
from xlashape_server.handlers.shapes import ShapeHandlers

__all__ = ["HloHandlers", "IndexingHandlers", "ShapeHandlers"]
