"""What can be asked, whoever answers: every question becomes the request of an RPC, and its response the library's own types.

`Client` sends requests to a server; another transport gives `send` and `stream` a body of its own. Nothing here loads grpc.
"""

from __future__ import annotations

from xlashape_client.hlo_questions import HloQuestions
from xlashape_client.indexing_questions import IndexingQuestions
from xlashape_client.shape_questions import ShapeQuestions

__all__ = ["Questions"]


class Questions(ShapeQuestions, HloQuestions, IndexingQuestions):
    """The service's RPCs as methods, with the library's own types in and out. Every method raises what the library would raise here."""
