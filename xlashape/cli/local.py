"""Questions answered in this process: the service's handlers, without a server and without its limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NoReturn, cast

from xlashape.errors import FieldPath, NotFoundError
from xlashape.limits import INT64_MAX
from xlashape_client.questions import Questions
from xlashape_server.config import Config
from xlashape_server.handlers import HloHandlers, IndexingHandlers, ShapeHandlers
from xlashape_server.modules import Modules

__all__ = ["Local"]

# What a person asks of a process of their own is theirs to size.
_UNLIMITED = Config(
    max_analysis_steps=INT64_MAX,
    max_batch=INT64_MAX,
    max_shape_elements=INT64_MAX,
    max_indices=INT64_MAX,
    max_module_bytes=INT64_MAX,
    max_module_instructions=INT64_MAX,
    max_module_memory=INT64_MAX,
    max_module_text_bytes=INT64_MAX,
)


class Local(Questions):
    """Answers like a client of a server. `timeout`: seconds that one answer may take."""

    inline_bytes = INT64_MAX

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        modules = Modules(_UNLIMITED, cast("Any", _NoStore()))
        shapes, hlo, indexing = (
            ShapeHandlers(_UNLIMITED),
            HloHandlers(_UNLIMITED, modules),
            IndexingHandlers(_UNLIMITED, modules),
        )
        self._streams = {"IndexingMaps": indexing.indexing_maps, "OperandReads": indexing.operand_reads}
        self._quick = {
            "ByteSize": shapes.byte_size,
            "LinearIndex": shapes.linear_index,
            "MultiIndex": shapes.multi_index,
        }
        self._long = {
            "DescribeShape": shapes.describe_shape,
            "ListInstructions": hlo.list_instructions,
            "ByteSizes": hlo.byte_sizes,
            "OperandTiles": indexing.operand_tiles,
            "SimplifyMap": indexing.simplify_map,
            "ComposeMaps": indexing.compose_maps,
            "EvaluateMap": indexing.evaluate_map,
        }

    def send(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> bytes:
        """Calls the handler of the RPC."""
        data = request if isinstance(request, bytes) else b"".join(request)
        if method in self._quick:
            return self._quick[method](data)
        return self._long[method](data, self._deadline(timeout))

    def stream(self, method: str, request: bytes, timeout: float | None) -> Iterator[bytes]:
        """Calls the handler of an RPC that answers with a stream."""
        return self._streams[method](request, self._deadline(timeout))

    def _deadline(self, timeout: float | None) -> float:
        return time.monotonic() + (self._timeout if timeout is None else timeout)


class _NoStore:
    def find(self, name: str, field: str | FieldPath | None = None) -> NoReturn:
        raise NotFoundError(f"{name} is kept by a server: say which with --server", field=field)
