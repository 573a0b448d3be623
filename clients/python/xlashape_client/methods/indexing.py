"""IndexingService."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xlashape.errors import InvalidArgumentError, SizeOverflowError, XlashapeError
from xlashape.proto import coerce, v1
from xlashape.symbolic import IndexingMap
from xlashape_client.bulk import BulkRpc, ask
from xlashape_client.inputs import (
    AnyMap,
    AnyModule,
    each,
    integers,
    map_input,
    message_of,
    of_rows,
    one_row,
    result_count_of,
)
from xlashape_client.results import InstructionMaps, InstructionReads, InstructionTiles, SimplifiedMap
from xlashape_client.transport import Transport, choice

__all__ = ["IndexingMethods"]

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


class IndexingMethods(Transport):
    """The RPCs of IndexingService as methods."""

    def indexing_maps(
        self,
        module: AnyModule,
        instruction: str = "",
        *,
        computation: str = "",
        direction: str = "output_to_input",
        index: int | None = None,
        raw: bool = False,
        physical: bool = False,
        style: str = "xla",
        report_errors: bool = False,
        timeout: float | None = None,
    ) -> Iterator[InstructionMaps]:
        """The maps of one instruction, or of every instruction (of a computation, if given), as the server computes them.

        `direction` is "output_to_input" or "input_to_output"; `index` selects one output, or one operand. `raw` gives the maps as the
        operation defines them, not simplified. `physical` gives maps from positions in the output's buffer to positions in the operands'
        buffers. `style` of `Access.text` is "xla" or "affine". With `report_errors` an instruction of many that is not answered has an
        `error`, and the others are answered; without, the error is raised.
        """
        request = message_of(
            v1.IndexingMapsRequest,
            report_errors=report_errors,
            direction=choice(_DIRECTIONS, direction, "direction"),
            style=choice(_STYLES, style, "style"),
            module=self._module_input(module, timeout),
            instruction=instruction,
            computation=computation,
            index=index,
            raw=raw,
            physical=physical,
        )
        responses = self.stream("IndexingMaps", request.SerializeToString(), timeout)
        return (InstructionMaps.of(coerce(v1.IndexingMapsResponse, data)) for data in responses)

    def instruction_maps(
        self,
        module: AnyModule,
        instruction: str,
        *,
        computation: str = "",
        direction: str = "output_to_input",
        index: int | None = None,
        raw: bool = False,
        physical: bool = False,
        style: str = "xla",
        timeout: float | None = None,
    ) -> InstructionMaps:
        """The maps of one instruction: what `indexing_maps` gives for it, in one message."""
        request = message_of(
            v1.InstructionMapsRequest,
            direction=choice(_DIRECTIONS, direction, "direction"),
            style=choice(_STYLES, style, "style"),
            module=self._module_input(module, timeout),
            instruction=instruction,
            computation=computation,
            index=index,
            raw=raw,
            physical=physical,
        )
        response = self.send("InstructionMaps", request.SerializeToString(), timeout)
        return InstructionMaps.of(coerce(v1.IndexingMapsResponse, response))  # the same bytes, by the schema

    def operand_reads(
        self,
        module: AnyModule,
        instruction: str = "",
        *,
        computation: str = "",
        output: int | None = None,
        warp: int = 32,
        segment_bytes: int = 128,
        style: str = "xla",
        report_errors: bool = False,
        timeout: float | None = None,
    ) -> Iterator[InstructionReads]:
        """How efficiently one instruction, or each instruction that is executed, reads its operands: `xlashape.indexing.operand_reads`.

        `warp` neighbouring outputs read together; one memory transaction fetches `segment_bytes`. `computation` selects the instructions
        of one computation, `output` one output. `report_errors` is that of `indexing_maps`.
        """
        if warp == 0 or segment_bytes == 0:  # 0 in a request stands for the default
            raise InvalidArgumentError(
                f"a warp and a segment are at least 1, not {warp} and {segment_bytes}",
                field="warp" if warp == 0 else "segment_bytes",
            )
        request = message_of(
            v1.OperandReadsRequest,
            report_errors=report_errors,
            style=choice(_STYLES, style, "style"),
            module=self._module_input(module, timeout),
            instruction=instruction,
            computation=computation,
            output=output,
            warp=warp,
            segment_bytes=segment_bytes,
        )
        responses = self.stream("OperandReads", request.SerializeToString(), timeout)
        return (InstructionReads.of(coerce(v1.OperandReadsResponse, data)) for data in responses)

    def operand_tiles(
        self,
        module: AnyModule,
        instruction: str,
        sizes: Iterable[int] | None = None,
        *,
        offsets: Iterable[int] | None = None,
        strides: Iterable[int] | None = None,
        output: int = 0,
        computation: str = "",
        style: str = "xla",
        timeout: float | None = None,
    ) -> InstructionTiles:
        """The tiles of its operands that a tile of an instruction's output reads: `xlashape.indexing.reports.operand_tiles`.

        `sizes`, `offsets` (default 0) and `strides` (default 1) are those of the output's tile. Without `sizes`, only symbolic tiles are computed.
        """
        tile = None
        if sizes is not None:
            tile = v1.Tile(
                sizes=one_row(sizes, "sizes"),
                offsets=None if offsets is None else one_row(offsets, "offsets"),
                strides=None if strides is None else one_row(strides, "strides"),
            )
        elif offsets is not None or strides is not None:
            raise InvalidArgumentError("a tile's sizes are missing", field=("tile", "sizes"))
        request = message_of(
            v1.OperandTilesRequest,
            style=choice(_STYLES, style, "style"),
            module=self._module_input(module, timeout),
            instruction=instruction,
            computation=computation,
            output=output,
            tile=tile,
        )
        return InstructionTiles.of(self._call("OperandTiles", request, v1.OperandTilesResponse, timeout))

    def simplify_map(self, value: AnyMap, *, timeout: float | None = None) -> IndexingMap:
        """The map simplified: `IndexingMap.simplify`."""
        return self.simplify_maps([value], timeout=timeout)[0]

    def simplify_maps(self, values: Iterable[AnyMap], *, timeout: float | None = None) -> list[IndexingMap]:
        """Each map simplified, in one call."""
        request = v1.SimplifyMapRequest(maps=each(values, map_input, "maps"))
        return [
            IndexingMap.from_proto(simplified.map.map)
            for simplified in self._call("SimplifyMap", request, v1.SimplifyMapResponse, timeout).maps
        ]

    def simplify_and_remove_unused(self, value: AnyMap, *, timeout: float | None = None) -> SimplifiedMap:
        """The map simplified and without unused range and runtime variables, with the numbers of the variables that were removed."""
        request = v1.SimplifyMapRequest(maps=[map_input(value)], remove_unused_variables=True)
        simplified = self._call("SimplifyMap", request, v1.SimplifyMapResponse, timeout).maps[0]
        return SimplifiedMap(
            IndexingMap.from_proto(simplified.map.map),
            tuple(simplified.removed_ranges),
            tuple(simplified.removed_runtime),
        )

    def compose_maps(self, *values: AnyMap, raw: bool = False, timeout: float | None = None) -> IndexingMap:
        """The composition of two maps or more, the first applied first; simplified unless `raw`."""
        return self.compose_map_chains([values], raw=raw, timeout=timeout)[0]

    def compose_map_chains(
        self, chains: Iterable[Sequence[AnyMap]], *, raw: bool = False, timeout: float | None = None
    ) -> list[IndexingMap]:
        """The composition of each chain of maps, in one call."""
        made = each(chains, lambda chain: v1.MapChain(maps=each(chain, map_input, "maps")), "chains")
        request = message_of(v1.ComposeMapsRequest, chains=made, raw=raw)
        return [
            IndexingMap.from_proto(composed.map)
            for composed in self._call("ComposeMaps", request, v1.ComposeMapsResponse, timeout).maps
        ]

    def evaluate_map(
        self, value: AnyMap, point: Iterable[int], *, timeout: float | None = None
    ) -> tuple[int, ...] | None:
        """The results at a point, which gives dimensions, then ranges, then runtime variables. None outside the domain: `IndexingMap.evaluate`."""
        results, inside = self.evaluate_map_batch(value, [one_row(point, "point")], timeout=timeout)
        return tuple(results[0].tolist()) if inside[0] else None

    def evaluate_map_batch(
        self, value: AnyMap, points: ArrayLike, *, timeout: float | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """`evaluate_map` of each row of int64[n, variables], in one call: a stream if there are many.

        Returns the results as int64[n, results], whose rows for points outside the domain hold 0, and bool[n], false outside the domain.
        """
        table = integers(points, "points", 2)
        fields = {"map": map_input(value)}
        try:
            flat, inside = ask(self, _EVALUATE, fields, table, lambda: 8 * result_count_of(value) + 1, timeout)
        except XlashapeError as error:
            error = of_rows(error, table, "points")
            if isinstance(error, SizeOverflowError):
                error.path = error.path[:2]  # about a point, not about a number of it
            raise error from None
        width = len(flat) // len(table) if len(table) else result_count_of(value)
        return flat.reshape(len(table), width), inside
