"""What can be asked, whoever answers: every question becomes the request of an RPC, and its response the library's own types.

`Client` sends requests to a server; another transport gives `send` and `stream` a body of its own. Nothing here loads grpc.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from google.protobuf.message import Message
from numpy.typing import ArrayLike, NDArray

from xlashape.errors import InvalidArgumentError, NotFoundError
from xlashape.hlo import HloModule
from xlashape.hlo.parse import decode_text
from xlashape.proto import coerce, v1
from xlashape.proto.packed import join, split
from xlashape.symbolic import IndexingMap
from xlashape_client.inputs import (
    AnyMap,
    AnyModule,
    AnyShape,
    content_of,
    each,
    integers,
    is_text,
    map_input,
    message_of,
    one_row,
    payload,
    rank_of,
    result_count_of,
    shape_input,
)
from xlashape_client.results import (
    ByteTotals,
    Instruction,
    InstructionMaps,
    InstructionReads,
    InstructionSize,
    InstructionTiles,
    Module,
    ShapeDescription,
    ShapeSize,
    SimplifiedMap,
)

__all__ = ["Questions"]

M = TypeVar("M", bound=Message)

_CHUNK = 1 << 20  # bytes of a module in one message
_STYLES = {"xla": v1.TEXT_STYLE_XLA, "affine": v1.TEXT_STYLE_AFFINE}
_DIRECTIONS = {"output_to_input": v1.DIRECTION_OUTPUT_TO_INPUT, "input_to_output": v1.DIRECTION_INPUT_TO_OUTPUT}
_LINEAR_ORDERS = {"physical": v1.LINEAR_ORDER_PHYSICAL, "logical": v1.LINEAR_ORDER_LOGICAL}
_ORDERS = {
    "module": v1.BYTE_SIZES_ORDER_MODULE,
    "physical_bytes": v1.BYTE_SIZES_ORDER_PHYSICAL_BYTES,
    "padding_bytes": v1.BYTE_SIZES_ORDER_PADDING_BYTES,
}


class Questions(ABC):
    """The service's RPCs as methods, with the library's own types in and out. Every method raises what the library would raise here."""

    inline_bytes = 1 << 20
    """Bytes of a module up to which it travels inside the request."""

    @abstractmethod
    def send(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> bytes:
        """The response of an RPC to a request, or to a stream of them. `timeout` in seconds; None is the transport's own."""

    @abstractmethod
    def stream(self, method: str, request: bytes, timeout: float | None) -> Iterator[bytes]:
        """The responses of an RPC that answers with a stream, as they come."""

    # Shapes

    def describe_shape(self, shape: AnyShape, *, timeout: float | None = None) -> ShapeDescription:
        """Everything that is known of a shape."""
        return self.describe_shapes([shape], timeout=timeout)[0]

    def describe_shapes(self, shapes: Iterable[AnyShape], *, timeout: float | None = None) -> list[ShapeDescription]:
        """Everything that is known of each shape, in one call."""
        request = v1.DescribeShapeRequest(shapes=each(shapes, shape_input, "shapes"))
        return [
            ShapeDescription.of(one)
            for one in self._ask("DescribeShape", request, v1.DescribeShapeResponse, timeout).descriptions
        ]

    def byte_size(self, shape: AnyShape, *, timeout: float | None = None) -> ShapeSize:
        """The sizes of a shape."""
        return self.shape_sizes([shape], timeout=timeout)[0]

    def shape_sizes(self, shapes: Iterable[AnyShape], *, timeout: float | None = None) -> list[ShapeSize]:
        """The sizes of each shape, in one call."""
        request = v1.ByteSizeRequest(shapes=each(shapes, shape_input, "shapes"))
        return [ShapeSize.of(one) for one in self._ask("ByteSize", request, v1.ByteSizeResponse, timeout).sizes]

    # `order` in the next four: "physical" counts positions in the buffer, tiles and padding included; "logical" goes by minor_to_major
    # alone, as XLA's IndexUtil does.

    def linear_index(
        self, shape: AnyShape, index: Iterable[int], *, order: str = "physical", timeout: float | None = None
    ) -> int:
        """The position in the buffer, in elements, of the element at `index`: `tiling.linear_index`."""
        request = v1.LinearIndexRequest(
            order=_choice(_LINEAR_ORDERS, order, "order"),
            shape=shape_input(shape),
            indices=one_row(index, "index"),
            count=1,
        )
        return self._ask("LinearIndex", request, v1.LinearIndexResponse, timeout).positions[0]

    def linear_indices(
        self, shape: AnyShape, rows: ArrayLike, *, order: str = "physical", timeout: float | None = None
    ) -> NDArray[np.int64]:
        """`linear_index` of each row, in one call: int64[n, rank] → int64[n]."""
        table = integers(rows, "rows", 2)
        question = v1.LinearIndexRequest(
            order=_choice(_LINEAR_ORDERS, order, "order"), shape=shape_input(shape), count=len(table)
        )
        request = join(question, indices=payload(table))
        _, [positions] = split(v1.LinearIndexResponse, self.send("LinearIndex", request, timeout), "positions")
        return np.frombuffer(positions, "<i8")

    def multi_index(
        self, shape: AnyShape, position: int, *, order: str = "physical", timeout: float | None = None
    ) -> tuple[int, ...] | None:
        """The index of the element at `position` of the buffer, None where there is padding: `tiling.multi_index`."""
        rows, is_element = self.multi_indices(shape, [position], order=order, timeout=timeout)
        return tuple(rows[0].tolist()) if is_element[0] else None

    def multi_indices(
        self, shape: AnyShape, positions: ArrayLike, *, order: str = "physical", timeout: float | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """`multi_index` of each position, in one call: int64[n] → (int64[n, rank], bool[n] "is an element"); the rows of padding hold -1."""
        numbers = integers(positions, "positions", 1)
        question = v1.MultiIndexRequest(order=_choice(_LINEAR_ORDERS, order, "order"), shape=shape_input(shape))
        request = join(question, positions=payload(numbers))
        _, [indices, is_element] = split(
            v1.MultiIndexResponse, self.send("MultiIndex", request, timeout), "indices", "is_element"
        )
        flat = np.frombuffer(indices, "<i8")
        rank = len(flat) // len(numbers) if len(numbers) else rank_of(shape)
        return flat.reshape(len(numbers), rank), np.frombuffer(is_element, np.bool_)

    # Modules

    def upload_module(self, module: AnyModule, *, timeout: float | None = None) -> Module:
        """Stores a module on the server, in pieces, and answers what the server knows of it. Its name stands for it in other calls."""
        content = content_of(module)
        if isinstance(content, str):
            return self.get_module(content, timeout=timeout)
        response = self.send("UploadModule", _pieces(content), timeout)
        return Module.of(coerce(v1.UploadModuleResponse, response).module)

    def get_module(self, module: Module | str, *, timeout: float | None = None) -> Module:
        """What the server knows of a module it keeps. NotFoundError if it does not, or no longer."""
        request = message_of(v1.GetModuleRequest, name=_name_of(module))
        return Module.of(self._ask("GetModule", request, v1.GetModuleResponse, timeout).module)

    def download_module(self, module: Module | str, *, timeout: float | None = None) -> bytes:
        """The content of a module that the server keeps, as it was uploaded. `timeout` is for each piece."""
        name = _name_of(module)
        content = bytearray()
        while True:
            request = message_of(v1.GetModuleRequest, name=name, include_content=True, content_offset=len(content))
            response = self._ask("GetModule", request, v1.GetModuleResponse, timeout)
            content += response.content
            if len(content) >= response.module.size_bytes or not response.content:
                return bytes(content)

    def load_module(self, module: Module | str, *, timeout: float | None = None) -> HloModule:
        """A module that the server keeps, as an HloModule here."""
        return HloModule.from_bytes(self.download_module(module, timeout=timeout))

    def delete_module(self, module: Module | str, *, timeout: float | None = None) -> None:
        """Makes the server forget a module."""
        self._ask(
            "DeleteModule", message_of(v1.DeleteModuleRequest, name=_name_of(module)), v1.DeleteModuleResponse, timeout
        )

    def list_instructions(
        self,
        module: AnyModule,
        *,
        computation: str = "",
        opcode: str = "",
        page_size: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Instruction]:
        """The instructions of a module in its own order, a page fetched when it is needed; of one computation or opcode alone if given."""
        request = message_of(
            v1.ListInstructionsRequest,
            module=self._module_input(module, timeout),
            computation=computation,
            opcode=opcode,
            page_size=page_size,
        )
        while True:
            response = self._ask("ListInstructions", request, v1.ListInstructionsResponse, timeout)
            for one in response.instructions:
                yield Instruction.of(one)
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    def byte_sizes(
        self,
        module: AnyModule,
        *,
        computation: str = "",
        opcode: str = "",
        order: str = "module",
        page_size: int = 0,
        timeout: float | None = None,
    ) -> Iterator[InstructionSize]:
        """The bytes that each instruction's result takes. `order`: "module", or the largest first: "physical_bytes", "padding_bytes"."""
        request = self._byte_sizes_request(module, computation, opcode, order, page_size, timeout)
        while True:
            response = self._ask("ByteSizes", request, v1.ByteSizesResponse, timeout)
            for one in response.instructions:
                yield InstructionSize.of(one)
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    def byte_totals(
        self, module: AnyModule, *, computation: str = "", opcode: str = "", timeout: float | None = None
    ) -> ByteTotals:
        """The sums of `byte_sizes` over instructions whose result is an array."""
        request = self._byte_sizes_request(module, computation, opcode, "module", 1, timeout)
        return ByteTotals.of(self._ask("ByteSizes", request, v1.ByteSizesResponse, timeout).totals)

    def _byte_sizes_request(
        self, module: AnyModule, computation: str, opcode: str, order: str, page_size: int, timeout: float | None
    ) -> v1.ByteSizesRequest:
        return message_of(
            v1.ByteSizesRequest,
            order=_choice(_ORDERS, order, "order"),
            module=self._module_input(module, timeout),
            computation=computation,
            opcode=opcode,
            page_size=page_size,
        )

    # Indexing maps

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
        timeout: float | None = None,
    ) -> Iterator[InstructionMaps]:
        """The maps of an instruction, or of every instruction (of a computation, if given), one after the other as the server finds them.

        `direction`: "output_to_input" or "input_to_output"; `index`: one output (operand) alone. `raw`: as the operation defines the
        maps, instead of simplified. `physical`: from positions in the output's buffer to positions in the operands' buffers. `style`: how `Access.text` is written, "xla" or "affine".
        """
        request = message_of(
            v1.IndexingMapsRequest,
            direction=_choice(_DIRECTIONS, direction, "direction"),
            style=_choice(_STYLES, style, "style"),
            module=self._module_input(module, timeout),
            instruction=instruction,
            computation=computation,
            index=index,
            raw=raw,
            physical=physical,
        )
        responses = self.stream("IndexingMaps", request.SerializeToString(), timeout)
        return (InstructionMaps.of(coerce(v1.IndexingMapsResponse, data)) for data in responses)

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
        timeout: float | None = None,
    ) -> Iterator[InstructionReads]:
        """How well an instruction reads its operands, or each instruction that is executed: `xlashape.indexing.operand_reads`.

        `warp` neighbouring outputs read together, one memory transaction fetches `segment_bytes`. `computation`: the instructions of
        one computation alone; `output`: one output alone.
        """
        if warp == 0 or segment_bytes == 0:  # which would mean the default
            raise InvalidArgumentError(f"a warp and a segment are at least 1, not {warp} and {segment_bytes}")
        request = message_of(
            v1.OperandReadsRequest,
            style=_choice(_STYLES, style, "style"),
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
        """The tiles of its operands that a tile of an instruction's output reads: `xlashape.indexing.operand_tiles`.

        `sizes` of the tile, which begins at 0 with strides 1 unless told otherwise; without them, the symbolic tiles alone.
        """
        tile = None
        if sizes is not None:
            tile = v1.Tile(
                sizes=one_row(sizes, "sizes"),
                offsets=None if offsets is None else one_row(offsets, "offsets"),
                strides=None if strides is None else one_row(strides, "strides"),
            )
        elif offsets is not None or strides is not None:
            raise InvalidArgumentError("a tile's sizes are missing", field="sizes")
        request = message_of(
            v1.OperandTilesRequest,
            style=_choice(_STYLES, style, "style"),
            module=self._module_input(module, timeout),
            instruction=instruction,
            computation=computation,
            output=output,
            tile=tile,
        )
        return InstructionTiles.of(self._ask("OperandTiles", request, v1.OperandTilesResponse, timeout))

    def simplify_map(self, value: AnyMap, *, timeout: float | None = None) -> IndexingMap:
        """The map simplified: `IndexingMap.simplify`."""
        return self.simplify_maps([value], timeout=timeout)[0]

    def simplify_maps(self, values: Iterable[AnyMap], *, timeout: float | None = None) -> list[IndexingMap]:
        """Each map simplified, in one call."""
        request = v1.SimplifyMapRequest(maps=each(values, map_input, "maps"))
        return [
            IndexingMap.from_proto(one.map.map)
            for one in self._ask("SimplifyMap", request, v1.SimplifyMapResponse, timeout).maps
        ]

    def simplify_and_remove_unused(self, value: AnyMap, *, timeout: float | None = None) -> SimplifiedMap:
        """The map simplified, without the range and runtime variables that nothing depends on; which ones they were."""
        request = v1.SimplifyMapRequest(maps=[map_input(value)], remove_unused_variables=True)
        one = self._ask("SimplifyMap", request, v1.SimplifyMapResponse, timeout).maps[0]
        return SimplifiedMap(IndexingMap.from_proto(one.map.map), tuple(one.removed_ranges), tuple(one.removed_runtime))

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
            IndexingMap.from_proto(one.map)
            for one in self._ask("ComposeMaps", request, v1.ComposeMapsResponse, timeout).maps
        ]

    def evaluate_map(
        self, value: AnyMap, point: Iterable[int], *, timeout: float | None = None
    ) -> tuple[int, ...] | None:
        """The results at a point (dimensions, ranges, runtime variables), None outside the domain: `IndexingMap.evaluate`."""
        results, inside = self.evaluate_map_batch(value, [one_row(point, "point")], timeout=timeout)
        return tuple(results[0].tolist()) if inside[0] else None

    def evaluate_map_batch(
        self, value: AnyMap, points: ArrayLike, *, timeout: float | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """`evaluate_map` of each row, in one call: int64[n, variables] → (int64[n, results], bool[n]); rows outside the domain hold 0."""
        table = integers(points, "points", 2)
        request = join(v1.EvaluateMapRequest(map=map_input(value), count=len(table)), points=payload(table))
        _, [results, inside] = split(
            v1.EvaluateMapResponse, self.send("EvaluateMap", request, timeout), "results", "in_domain"
        )
        flat = np.frombuffer(results, "<i8")
        width = len(flat) // len(table) if len(table) else result_count_of(value)
        return flat.reshape(len(table), width), np.frombuffer(inside, np.bool_)

    # Calls

    def _module_input(self, module: AnyModule, timeout: float | None) -> v1.ModuleInput:
        """A small module travels inside the request; a large one is uploaded, unless the server has it already."""
        content = content_of(module)
        if isinstance(content, str):
            return message_of(v1.ModuleInput, name=content)
        if len(content) > self.inline_bytes:
            name = f"modules/{hashlib.sha256(content).hexdigest()}"
            try:
                self.get_module(name, timeout=timeout)
            except NotFoundError:
                self.send("UploadModule", _pieces(content), timeout)
            return v1.ModuleInput(name=name)
        if is_text(content):
            return v1.ModuleInput(text=decode_text(content).text)
        return v1.ModuleInput(serialized=content)

    def _ask(self, method: str, request: Message, answer: type[M], timeout: float | None) -> M:
        return coerce(answer, self.send(method, request.SerializeToString(), timeout))


def _pieces(content: bytes) -> Iterator[bytes]:
    """The messages of an upload."""
    first = v1.UploadModuleRequest(
        sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content), data=content[:_CHUNK]
    )
    yield first.SerializeToString()
    for at in range(_CHUNK, len(content), _CHUNK):
        yield v1.UploadModuleRequest(data=content[at : at + _CHUNK]).SerializeToString()


def _name_of(module: Module | str) -> str:
    if isinstance(module, (str, Module)):  # pyright: ignore[reportUnnecessaryIsInstance]
        return module if isinstance(module, str) else module.name
    raise InvalidArgumentError(
        f"expected a module of the server or its name, found {type(module).__name__}", field="name"
    )


def _choice(meanings: dict[str, int], value: str, field: str) -> int:
    if not isinstance(value, str) or value not in meanings:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgumentError(f"{field}: expected one of {', '.join(meanings)}, found {value!r}", field=field)
    return meanings[value]
