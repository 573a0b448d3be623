"""The methods of IndexingService: the indexing maps of instructions and modules, and operations on maps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xlashape.errors import SizeOverflowError, XlashapeError
from xlashape.proto import v1
from xlashape.symbolic import IndexingMap
from xlashape_client import inputs
from xlashape_client.bulk import BulkRpc, ask
from xlashape_client.faces import Methods, answer
from xlashape_client.inputs import AnyMap
from xlashape_client.results import SimplifiedMap

_STYLES = {"xla": v1.TEXT_STYLE_XLA, "affine": v1.TEXT_STYLE_AFFINE}
_DIRECTIONS = {"output_to_input": v1.DIRECTION_OUTPUT_TO_INPUT, "input_to_output": v1.DIRECTION_INPUT_TO_OUTPUT}

_EVALUATE = BulkRpc(
    "EvaluateMap",
    v1.EvaluateMapRequest,
    v1.EvaluateMapResponse,
    "EvaluateMapBatch",
    v1.EvaluateMapBatchRequest,
    v1.EvaluateMapBatchResponse,
    "points",
    ("results", "in_domain"),
)


class IndexingMethods(Methods):
    """The RPCs of IndexingService as methods."""

    @answer
    async def parse_map(self, value: AnyMap, *, timeout: float | None = None) -> IndexingMap:
        """The map as the server reads it: `IndexingMap.parse` for text.

        >>> read = client.parse_map("(d0) -> (d0 * 2 mod 2), domain: d0 in [0, 7]")
        >>> print(read)
        (d0) -> ((d0 * 2) mod 2), domain: d0 in [0, 7]
        """
        return (await self._parsed([value], timeout))[0]

    @answer
    async def parse_maps(self, values: Iterable[AnyMap], *, timeout: float | None = None) -> list[IndexingMap]:
        """Each map as the server reads it, in one call.

        >>> read = client.parse_maps(["(d0) -> (d0), domain: d0 in [0, 7]", "KNOWN EMPTY"])
        >>> [str(value) for value in read]
        ['(d0) -> (d0), domain: d0 in [0, 7]', 'KNOWN EMPTY']
        """
        return await self._parsed(values, timeout)

    @answer
    async def simplify_map(self, value: AnyMap, *, timeout: float | None = None) -> IndexingMap:
        """The simplified map: `IndexingMap.simplify`.

        >>> simplified = client.simplify_map("(d0) -> (d0 floordiv 8), domain: d0 in [0, 7]")
        >>> print(simplified)
        (d0) -> (0), domain: d0 in [0, 7]
        """
        return (await self._simplified([value], timeout))[0]

    @answer
    async def simplify_maps(self, values: Iterable[AnyMap], *, timeout: float | None = None) -> list[IndexingMap]:
        """Simplifies each map, in one call.

        >>> simplified = client.simplify_maps(["(d0) -> (d0 * 2 mod 2), domain: d0 in [0, 7]"] * 2)
        >>> [str(value) for value in simplified]
        ['(d0) -> (0), domain: d0 in [0, 7]', '(d0) -> (0), domain: d0 in [0, 7]']
        """
        return await self._simplified(values, timeout)

    @answer
    async def simplify_and_remove_unused(self, value: AnyMap, *, timeout: float | None = None) -> SimplifiedMap:
        """The simplified map without its unused range and runtime variables, and the numbers of the variables that were
        removed.

        >>> found = client.simplify_and_remove_unused("()[s0, s1] -> (s1), domain: s0 in [0, 2], s1 in [0, 3]")
        >>> str(found.map), found.removed_ranges
        ('()[s0] -> (s0), domain: s0 in [0, 3]', (0,))
        """
        request = v1.SimplifyMapRequest(maps=[inputs.map_input(value)], remove_unused_variables=True)
        response = await self._transport.call("SimplifyMap", request, v1.SimplifyMapResponse, timeout)
        simplified = response.maps[0]
        return SimplifiedMap(
            IndexingMap.from_proto(simplified.map.map),
            tuple(simplified.removed_ranges),
            tuple(simplified.removed_runtime),
        )

    @answer
    async def compose_maps(self, *values: AnyMap, raw: bool = False, timeout: float | None = None) -> IndexingMap:
        """The composition of two maps or more, the first applied first; simplified unless `raw`.

        >>> turn = "(d0, d1) -> (d1, d0), domain: d0 in [0, 2], d1 in [0, 4]"
        >>> composed = client.compose_maps("(d0) -> (d0, 1), domain: d0 in [0, 2]", turn)
        >>> print(composed)
        (d0) -> (1, d0), domain: d0 in [0, 2]
        """
        return (await self._composed([values], raw, timeout))[0]

    @answer
    async def compose_map_chains(
        self, chains: Iterable[Sequence[AnyMap]], *, raw: bool = False, timeout: float | None = None
    ) -> list[IndexingMap]:
        """The composition of each chain of maps, in one call.

        >>> double = "(d0) -> (d0 * 2), domain: d0 in [0, 7]"
        >>> composed = client.compose_map_chains([[double, "(d0) -> (d0 mod 4), domain: d0 in [0, 15]"]])
        >>> print(*composed)
        (d0) -> ((d0 mod 2) * 2), domain: d0 in [0, 7]
        """
        return await self._composed(chains, raw, timeout)

    @answer
    async def evaluate_map(
        self, value: AnyMap, point: Iterable[int], *, timeout: float | None = None
    ) -> tuple[int, ...] | None:
        """The results at a point; None outside the domain: `IndexingMap.evaluate`. A point lists the values of the
        dimensions, then of the range variables, then of the runtime variables.

        >>> client.evaluate_map("(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 7], s0 in [0, 3]", (2, 3))
        (11,)
        """
        results, inside = await self._values(value, [inputs.one_row(point, "point")], timeout)
        return tuple(results[0].tolist()) if inside[0] else None

    @answer
    async def evaluate_map_batch(
        self, value: AnyMap, points: ArrayLike, *, timeout: float | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """`evaluate_map` of each row of int64[n, variables], in one call, which is a stream if there are many rows.

        Returns the results as int64[n, results], whose rows for points outside the domain hold 0, and bool[n], false
        for points outside the domain.

        >>> results, inside = client.evaluate_map_batch("(d0) -> (d0 mod 4), domain: d0 in [0, 7]", [[6], [8]])
        >>> results.tolist(), inside.tolist()
        ([[2], [0]], [True, False])
        """
        return await self._values(value, points, timeout)

    async def _parsed(self, values: Iterable[AnyMap], timeout: float | None) -> list[IndexingMap]:
        request = v1.ParseMapRequest(maps=inputs.each(values, inputs.map_input, "maps"))
        response = await self._transport.call("ParseMap", request, v1.ParseMapResponse, timeout)
        return [IndexingMap.from_proto(read.map) for read in response.maps]

    async def _simplified(self, values: Iterable[AnyMap], timeout: float | None) -> list[IndexingMap]:
        request = v1.SimplifyMapRequest(maps=inputs.each(values, inputs.map_input, "maps"))
        response = await self._transport.call("SimplifyMap", request, v1.SimplifyMapResponse, timeout)
        return [IndexingMap.from_proto(simplified.map.map) for simplified in response.maps]

    async def _composed(
        self, chains: Iterable[Sequence[AnyMap]], raw: bool, timeout: float | None
    ) -> list[IndexingMap]:
        made = inputs.each(
            chains, lambda chain: v1.MapChain(maps=inputs.each(chain, inputs.map_input, "maps")), "chains"
        )
        request = inputs.message_of(v1.ComposeMapsRequest, chains=made, raw=raw)
        response = await self._transport.call("ComposeMaps", request, v1.ComposeMapsResponse, timeout)
        return [IndexingMap.from_proto(composed.map) for composed in response.maps]

    async def _values(
        self, value: AnyMap, points: ArrayLike, timeout: float | None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        table = inputs.integers(points, "points", 2)
        fields = {"map": inputs.map_input(value)}
        try:
            flat, inside = await ask(
                self._transport, _EVALUATE, fields, table, lambda: 8 * inputs.result_count_of(value) + 1, timeout
            )
        except XlashapeError as error:
            error = inputs.of_rows(error, table, "points")
            if isinstance(error, SizeOverflowError):
                error.path = error.path[:2]  # the error is about a point, not about one of its numbers
            raise error from None
        width = len(flat) // len(table) if len(table) else inputs.result_count_of(value)
        return flat.reshape(len(table), width), inside
