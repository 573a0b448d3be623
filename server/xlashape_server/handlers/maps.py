"""IndexingService: the algebra of maps, which needs no module."""

from __future__ import annotations

import numpy as np

from xlashape.errors import FieldPath, InvalidArgumentError, XlashapeError
from xlashape.limits import Budget, budget, spend
from xlashape.proto import v1
from xlashape.proto.packed import join, split
from xlashape.symbolic import IndexingMap
from xlashape_server.config import Config
from xlashape_server.handlers.inputs import (
    batch,
    decoded,
    item_count,
    map_of,
    map_output,
    payload,
    placed,
    response_size,
    style_of,
)

__all__ = ["MapHandlers"]

_ROWS = 1 << 14  # points between two looks at the clock


class MapHandlers:
    """Requests as bytes in, responses as bytes out. Deadlines are times of time.monotonic(). Errors are those of the library, `field` set."""

    def __init__(self, config: Config) -> None:
        self._max_batch = config.max_batch
        self._max_indices = config.max_indices
        self._max_answer = 2 * config.max_request_bytes
        self._max_steps = config.max_analysis_steps

    def simplify_map(self, data: bytes, deadline: float) -> bytes:
        """SimplifyMap."""
        request = decoded(v1.SimplifyMapRequest, data)
        style = style_of(request.style)
        batch(len(request.maps), self._max_batch, "maps")
        response = v1.SimplifyMapResponse()
        answer = _Answer(self._max_answer)
        with budget(self._max_steps, deadline, "a map"):
            for i, value in enumerate(request.maps):
                path = ("maps", i)
                given = map_of(value, path)
                try:
                    result = given.simplify()
                    made = v1.SimplifiedMap()
                    if request.remove_unused_variables:
                        result, kept_ranges, kept_runtime = result.remove_unused_symbols()
                        made.removed_ranges.extend(n for n, kept in enumerate(kept_ranges) if not kept)
                        made.removed_runtime.extend(n for n, kept in enumerate(kept_runtime) if not kept)
                    made.map.CopyFrom(map_output(result, style))
                except XlashapeError as error:
                    raise placed(error, path) from None
                answer.add(made.ByteSize(), path)
                response.maps.append(made)
        return response.SerializeToString()

    def compose_maps(self, data: bytes, deadline: float) -> bytes:
        """ComposeMaps."""
        request = decoded(v1.ComposeMapsRequest, data)
        style = style_of(request.style)
        batch(len(request.chains), self._max_batch, "chains")
        response = v1.ComposeMapsResponse()
        answer = _Answer(self._max_answer)
        with budget(self._max_steps, deadline, "a composition"):
            for i, chain in enumerate(request.chains):
                path = ("chains", i)
                if len(chain.maps) < 2:
                    raise InvalidArgumentError(
                        f"expected two maps or more, found {len(chain.maps)}", field=(*path, "maps")
                    )
                maps = [map_of(value, (*path, "maps", k)) for k, value in enumerate(chain.maps)]
                made = map_output(self._composed(maps, raw=request.raw, path=path), style)
                answer.add(made.ByteSize(), path)
                response.maps.append(made)
        return response.SerializeToString()

    @staticmethod
    def _composed(maps: list[IndexingMap], *, raw: bool, path: FieldPath) -> IndexingMap:
        result = maps[0]
        for k, after in enumerate(maps[1:], 1):
            try:
                result = result.compose_unsimplified(after) if raw else result.compose(after)
            except XlashapeError as error:
                raise placed(error, (*path, "maps", k)) from None
        return result

    def evaluate_map(self, data: bytes, deadline: float) -> bytes:
        """EvaluateMap."""
        request, [bulk] = split(v1.EvaluateMapRequest, data, "points")
        with budget(self._max_steps, deadline, "a map") as current:
            given = map_of(request.map, ("map",))
            numbers = np.frombuffer(bulk, "<i8")
            variables = len(given.variables)
            stated = request.count if request.HasField("count") else None
            count = item_count(len(numbers), variables, stated, self._max_indices, "points", "a point")
            response_size(count * (8 * len(given.results) + 1), self._max_answer, ("points",))
            try:
                results, inside = _evaluated(given, numbers.reshape(count, variables), current)
            except XlashapeError as error:
                raise placed(error, ("map",), points=("points",)) from None
        return join(v1.EvaluateMapResponse(), results=payload(results), in_domain=payload(inside))


def _evaluated(
    given: IndexingMap, points: np.ndarray[tuple[int, int], np.dtype[np.int64]], current: Budget
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """The results as little-endian int64s, and which points lie in the domain; a part at a time, so that a deadline is seen."""
    results = np.zeros((len(points), len(given.results)), "<i8")
    inside = np.zeros(len(points), np.bool_)
    for start in range(0, len(points), _ROWS):
        current.spend(256)
        part = slice(start, start + _ROWS)
        results[part], inside[part] = given.evaluate_batch(points[part])
    return results, inside


class _Answer:
    """Counts the bytes of a response while it grows."""

    def __init__(self, maximum: int) -> None:
        self._size = 0
        self._maximum = maximum

    def add(self, size: int, path: FieldPath) -> None:
        self._size += size
        spend(16)
        response_size(self._size, self._maximum, path)
