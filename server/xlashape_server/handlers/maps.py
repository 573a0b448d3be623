"""The handlers of IndexingService that read, simplify, compose and evaluate maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from xlashape.errors import FieldPath, InvalidArgumentError, SizeOverflowError, XlashapeError
from xlashape.limits import budget, spend
from xlashape.proto import parse, v1
from xlashape.proto.packed import join, split
from xlashape.symbolic import IndexingMap
from xlashape_server.config import Config
from xlashape_server.handlers.inputs import (
    batch,
    counted_from,
    item_count,
    map_of,
    map_output,
    payload,
    placed,
    response_size,
    stated_count,
    stream_answers,
    style_of,
)

_Item = TypeVar("_Item")

_CHUNK_POINTS = 1 << 14  # points that are evaluated between two checks of the deadline


class MapHandlers:
    """Handlers of IndexingService: each has the name of its RPC. They take and return messages as bytes. Deadlines are
    times of time.monotonic(). Errors are the library's, with the path of the request's field.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._max_batch = config.max_batch
        self._max_answer = 2 * config.max_request_bytes
        self._max_steps = config.max_analysis_steps

    def parse_map(self, data: bytes, deadline: float) -> bytes:
        """ParseMap."""
        request = parse(v1.ParseMapRequest, data)
        style = style_of(request.style)

        def parsed(value: v1.MapInput, path: FieldPath) -> v1.MapOutput:
            given = map_of(value, path, self._config)
            try:
                return map_output(given, style)
            except XlashapeError as error:
                raise placed(error, path) from None

        return self._each(request.maps, "maps", parsed, v1.ParseMapResponse(), "a map", deadline)

    def simplify_map(self, data: bytes, deadline: float) -> bytes:
        """SimplifyMap."""
        request = parse(v1.SimplifyMapRequest, data)
        style = style_of(request.style)

        def simplified(value: v1.MapInput, path: FieldPath) -> v1.SimplifiedMap:
            given = map_of(value, path, self._config)
            try:
                result = given.simplify()
                message = v1.SimplifiedMap()
                if request.remove_unused_variables:
                    result, kept_ranges, kept_runtime = result.remove_unused_symbols()
                    message.removed_ranges.extend(n for n, kept in enumerate(kept_ranges) if not kept)
                    message.removed_runtime.extend(n for n, kept in enumerate(kept_runtime) if not kept)
                message.map.CopyFrom(map_output(result, style))
            except XlashapeError as error:
                raise placed(error, path) from None
            return message

        return self._each(request.maps, "maps", simplified, v1.SimplifyMapResponse(), "a map", deadline)

    def compose_maps(self, data: bytes, deadline: float) -> bytes:
        """ComposeMaps."""
        request = parse(v1.ComposeMapsRequest, data)
        style = style_of(request.style)

        def composed(chain: v1.MapChain, path: FieldPath) -> v1.MapOutput:
            if len(chain.maps) < 2:
                raise InvalidArgumentError(f"expected two maps or more, found {len(chain.maps)}", field=(*path, "maps"))
            maps = [map_of(value, (*path, "maps", k), self._config) for k, value in enumerate(chain.maps)]
            return map_output(self._composed(maps, raw=request.raw, path=path), style)

        return self._each(request.chains, "chains", composed, v1.ComposeMapsResponse(), "a composition", deadline)

    def _each(
        self,
        items: Sequence[_Item],
        name: str,
        answer: Callable[[_Item, FieldPath], Any],
        response: Any,
        what: str,
        deadline: float,
    ) -> bytes:
        """The response with the answer to each element of the request's field `name`. `what` names an element in
        errors about the budget.
        """
        batch(len(items), self._max_batch, name)
        size = 0
        with budget(self._max_steps, deadline, what):
            for i, item in enumerate(items):
                path = (name, i)
                message = answer(item, path)
                size += message.ByteSize()
                spend(16)
                response_size(size, self._max_answer, path)
                response.maps.append(message)
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
        with budget(self._max_steps, deadline, "a map"):
            given = map_of(request.map, ("map",), self._config)
            results, inside = self._evaluated(given, np.frombuffer(bulk, "<i8"), stated_count(request))
        return join(v1.EvaluateMapResponse(), results=payload(results), in_domain=payload(inside))

    def evaluate_map_batch(self, requests: Iterator[bytes], deadline: float) -> Iterator[bytes]:
        """EvaluateMapBatch."""

        def given(request: v1.EvaluateMapBatchRequest) -> IndexingMap:
            return map_of(request.map, ("map",), self._config)

        def answer(given: IndexingMap, request: v1.EvaluateMapBatchRequest, numbers: NDArray[np.int64]) -> bytes:
            results, inside = self._evaluated(given, numbers, stated_count(request, None if given.variables else 0))
            return join(v1.EvaluateMapBatchResponse(), results=payload(results), in_domain=payload(inside))

        bounds = partial(budget, self._max_steps, deadline, "a map")
        return stream_answers(v1.EvaluateMapBatchRequest, "points", requests, given, answer, bounds)

    def _evaluated(
        self, given: IndexingMap, numbers: NDArray[np.int64], stated: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        variables = len(given.variables)
        count = item_count(len(numbers), variables, stated, "points", "a point")
        response_size(count * (8 * len(given.results) + 1), self._max_answer, ("points",))
        try:
            return _in_chunks(given, numbers.reshape(count, variables))
        except SizeOverflowError as error:
            # The request lists the numbers of all points one after another.
            point = error.path[1] if len(error.path) == 2 and isinstance(error.path[1], int) else 0
            error.path = ("points", point * variables) if variables else ("map",)
            raise
        except XlashapeError as error:
            raise placed(error, ("map",), points=("points",)) from None


def _in_chunks(given: IndexingMap, points: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The results of the map at each of the points, as little-endian int64s, and whether each point is in the domain.
    The deadline is checked after each chunk of points.
    """
    results = np.zeros((len(points), len(given.results)), "<i8")
    inside = np.zeros(len(points), np.bool_)
    for start in range(0, len(points), _CHUNK_POINTS):
        spend(256)
        chunk = slice(start, start + _CHUNK_POINTS)
        try:
            results[chunk], inside[chunk] = given.evaluate_batch(points[chunk])
        except XlashapeError as error:
            raise counted_from(start, error, "points") from None
    return results, inside
