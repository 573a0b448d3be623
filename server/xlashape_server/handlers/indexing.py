"""The handlers of IndexingService about instructions: which elements of its operands an instruction reads for each
element it writes, how well the hardware reads them, and which tiles of the operands a tile of the result needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xlashape.errors import DeadlineExceededError, InvalidArgumentError, LimitExceededError, XlashapeError
from xlashape.hlo import HloInstruction
from xlashape.indexing import (
    InstructionReads,
    Knowledge,
    OperandIndexing,
    OperandIndexingSet,
    TileBox,
    operand_tiles,
    output_to_input_physical,
)
from xlashape.indexing.answers.leaves import leaf_count, leaves
from xlashape.indexing.reports.coalescing import check_warp
from xlashape.indexing.reports.reads import executed_readers, instruction_reads
from xlashape.indexing.walk.analysis import Analysis
from xlashape.limits import INT64_MAX, budget, spend
from xlashape.proto import v1
from xlashape.symbolic import SymbolicTile
from xlashape_server.config import Config
from xlashape_server.handlers.hlo import instruction_of, selected
from xlashape_server.handlers.inputs import (
    choice,
    decoded,
    map_output,
    placed,
    style_of,
)
from xlashape_server.handlers.maps import MapHandlers
from xlashape_server.modules import Modules

_KEPT_QUESTION_BYTES, _KEPT_ANSWER_BYTES = 4 << 10, 256 << 10  # bytes; larger questions and answers are not kept
_ENTRY_BYTES = 300  # bytes of memory of a kept answer beyond the bytes of question and answer
_KNOWLEDGE = {
    Knowledge.EXACT: v1.KNOWLEDGE_EXACT,
    Knowledge.EVERY_ELEMENT: v1.KNOWLEDGE_EVERY_ELEMENT,
    Knowledge.UNKNOWN: v1.KNOWLEDGE_UNKNOWN,
}


class IndexingHandlers(MapHandlers):
    """The handlers of IndexingService: each has the name of its RPC. They take and return messages as bytes.
    Deadlines are times of time.monotonic(). Errors are the library's, with the path of the request's field.
    """

    def __init__(self, config: Config, modules: Modules) -> None:
        super().__init__(config)
        self._modules = modules

    def instruction_maps(self, data: bytes, deadline: float) -> bytes:
        """InstructionMaps."""
        request = decoded(v1.InstructionMapsRequest, data)
        if not request.instruction:
            raise InvalidArgumentError("an instruction's name is missing", field="instruction")
        # The requests of InstructionMaps and IndexingMaps have the same fields, and so have their responses.
        same = decoded(v1.IndexingMapsRequest, data)
        same.report_errors = False
        [response] = self._indexing_maps(same, deadline, data)
        return response

    def indexing_maps(self, data: bytes, deadline: float) -> Iterator[bytes]:
        """IndexingMaps."""
        return self._indexing_maps(decoded(v1.IndexingMapsRequest, data), deadline, data)

    def _indexing_maps(self, request: v1.IndexingMapsRequest, deadline: float, data: bytes) -> Iterator[bytes]:
        """A response for each instruction that the request asks about. A response about a single instruction is kept
        under `data`, the serialized request: walking a fusion takes longer than everything else in a small call.
        """
        style = style_of(request.style)
        direction = choice(request.direction, ("out", "out", "in"), "direction")
        index = request.index if request.HasField("index") else None
        if request.physical and (direction != "out" or request.raw):
            raise InvalidArgumentError("physical maps go from output to input, and are simplified", field="physical")
        with budget(self._max_steps, deadline, "a module"):
            # The module is looked up even if the answer is kept, since it may have been deleted.
            module = self._modules.read(request.module, ("module",))
            is_kept = bool(request.instruction) and len(data) <= _KEPT_QUESTION_BYTES
            answer = self._modules.answers.get(data) if is_kept else None
            if answer is not None:
                chosen: Sequence[HloInstruction] = ()
            elif request.instruction:
                chosen = [instruction_of(module, request.instruction, request.computation)]
            else:
                chosen = selected(module, request.computation)
        if answer is not None:
            yield answer
            return
        # One analysis for all instructions: the maps that it finds for an instruction are used again for its users.
        analysis = Analysis()
        for instruction in chosen:
            if not request.instruction and index is not None:
                count = leaf_count(instruction.shape) if direction == "out" else len(instruction.operands)
                if index >= count or (index >= 0 and request.physical and _lacks_output(instruction, index)):
                    continue
            with budget(self._max_steps, deadline, instruction.name):
                try:
                    if request.physical:
                        response = _physical_maps_of(instruction, index, style)
                    else:
                        response = _maps_of(analysis, instruction, direction, index, style, raw=request.raw)
                except XlashapeError as error:
                    if request.report_errors and not request.instruction and not _ends_all(error):
                        yield _error_of(v1.IndexingMapsResponse, instruction, error, request.direction)
                        continue
                    index_of = {} if index is None else {"output": ("index",), "operand": ("index",)}
                    raise placed(error, ("instruction",), **index_of) from None
            answer = response.SerializeToString()
            if is_kept and len(answer) <= _KEPT_ANSWER_BYTES:
                self._modules.answers.put(data, len(data) + len(answer) + _ENTRY_BYTES, answer)
            yield answer

    def operand_reads(self, data: bytes, deadline: float) -> Iterator[bytes]:
        """OperandReads."""
        request = decoded(v1.OperandReadsRequest, data)
        style = style_of(request.style)
        output = request.output if request.HasField("output") else None
        warp, segment_bytes = request.warp or 32, request.segment_bytes or 128
        check_warp(warp, segment_bytes)
        with budget(self._max_steps, deadline, "a module"):
            module = self._modules.read(request.module, ("module",))
            if request.instruction:
                chosen = [instruction_of(module, request.instruction, request.computation)]
            elif request.computation:
                chosen = selected(module, request.computation)
            else:
                chosen = executed_readers(module)
        analysis = Analysis()
        for instruction in chosen:
            if not request.instruction and (not instruction.operands or _lacks_output(instruction, output)):
                continue
            with budget(self._max_steps, deadline, instruction.name):
                try:
                    found = instruction_reads(
                        instruction, output, warp=warp, segment_bytes=segment_bytes, analysis=analysis
                    )
                    response = _reads_of(instruction, found, style)
                except XlashapeError as error:
                    if request.report_errors and not request.instruction and not _ends_all(error):
                        yield _error_of(v1.OperandReadsResponse, instruction, error)
                        continue
                    raise placed(error, ("instruction",), output=("output",)) from None
            yield response.SerializeToString()

    def operand_tiles(self, data: bytes, deadline: float) -> bytes:
        """OperandTiles."""
        request = decoded(v1.OperandTilesRequest, data)
        style = style_of(request.style)
        if not request.instruction:
            raise InvalidArgumentError("an instruction's name is missing", field="instruction")
        tile = _tile_of(request.tile) if request.HasField("tile") else None
        with budget(self._max_steps, deadline, request.instruction):
            module = self._modules.read(request.module, ("module",))
            instruction = instruction_of(module, request.instruction, request.computation)
            try:
                found = operand_tiles(instruction, tile, request.output)
            except XlashapeError as error:
                raise placed(error, ("instruction",), tile=("tile",), output=("output",)) from None
            response = v1.OperandTilesResponse(
                instruction=instruction.name,
                computation=instruction.computation.name,
                opcode=str(instruction.opcode),
            )
            for read in found:
                name = instruction.operands[read.operand].name
                message = response.tiles.add(operand=read.operand, operand_name=name)
                _fill_access(message.access, read.indexing, style)
                if read.symbolic is not None:
                    message.symbolic.CopyFrom(_symbolic_tile_message(read.symbolic, style))
                if read.tile is not None:
                    message.tile.CopyFrom(v1.Tile(**read.tile._asdict()))
        return response.SerializeToString()


def _ends_all(error: XlashapeError) -> bool:
    """Whether an error ends the whole call, such as its deadline, and not only the answer about one of many
    instructions. Each instruction has a budget of steps of its own.
    """
    return isinstance(error, DeadlineExceededError) or (
        isinstance(error, LimitExceededError) and error.limit == "worker_memory"
    )


def _error_of(
    response_class: type[v1.IndexingMapsResponse] | type[v1.OperandReadsResponse],
    instruction: HloInstruction,
    error: XlashapeError,
    direction: int = v1.DIRECTION_UNSPECIFIED,
) -> bytes:
    """The response about an instruction for which the library raised `error`, in a request about many instructions."""
    response = response_class(
        instruction=instruction.name, computation=instruction.computation.name, opcode=str(instruction.opcode)
    )
    response.error.CopyFrom(
        v1.InstructionError(reason=error.code.upper(), message=error.message, details=error.details())
    )
    if isinstance(response, v1.IndexingMapsResponse):
        response.direction = direction or v1.DIRECTION_OUTPUT_TO_INPUT
    return response.SerializeToString()


def _maps_of(
    analysis: Analysis, instruction: HloInstruction, direction: str, index: int | None, style: str, *, raw: bool
) -> v1.IndexingMapsResponse:
    """The maps of one instruction in one direction: of the output or operand with number `index`, or of all of them if
    it is None.
    """
    response = v1.IndexingMapsResponse(
        instruction=instruction.name, computation=instruction.computation.name, opcode=str(instruction.opcode)
    )
    operands = instruction.operands
    if direction == "out":
        response.direction = v1.DIRECTION_OUTPUT_TO_INPUT
        if not operands:
            return response
        for output in range(leaf_count(instruction.shape)) if index is None else (index,):
            for operand, found in enumerate(analysis.output_to_input(instruction, output)):
                if found:
                    message = response.maps.add(output=output, operand=operand, operand_name=operands[operand].name)
                    _fill(message, found if raw else found.simplify(), style)
        return response
    response.direction = v1.DIRECTION_INPUT_TO_OUTPUT
    if index is not None and not 0 <= index < len(operands):
        raise InvalidArgumentError(
            f"{instruction.name} has no operand {index}: it has {len(operands)}", field="operand"
        )
    for operand in range(len(operands)) if index is None else (index,):
        for leaf in range(leaf_count(operands[operand].shape)):
            for output, found in enumerate(analysis.input_to_output(instruction, operand, leaf)):
                if found:
                    name = operands[operand].name
                    message = response.maps.add(output=output, operand=operand, operand_name=name, operand_leaf=leaf)
                    _fill(message, found if raw else found.simplify(), style)
    return response


def _physical_maps_of(instruction: HloInstruction, index: int | None, style: str) -> v1.IndexingMapsResponse:
    """The maps from positions in the buffers of an instruction's outputs to positions in the buffers of its
    operands.
    """
    response = v1.IndexingMapsResponse(
        instruction=instruction.name,
        computation=instruction.computation.name,
        opcode=str(instruction.opcode),
        direction=v1.DIRECTION_OUTPUT_TO_INPUT,
    )
    if not instruction.operands:
        return response
    arrays = [number for number, leaf in enumerate(leaves(instruction.shape)) if leaf.is_array or leaf.is_buffer]
    for output in arrays if index is None else (index,):
        for operand, found in enumerate(output_to_input_physical(instruction, output)):
            if found:
                message = response.maps.add(
                    output=output, operand=operand, operand_name=instruction.operands[operand].name
                )
                _fill(message, found, style)
    return response


def _lacks_output(instruction: HloInstruction, output: int | None) -> bool:
    """Whether an instruction has no output of that number, or one that is not an array. A request about many
    instructions leaves such instructions out.
    """
    arrays = leaves(instruction.shape)
    return output is not None and not (
        0 <= output < len(arrays) and (arrays[output].is_array or arrays[output].is_buffer)
    )


def _reads_of(instruction: HloInstruction, found: Iterable[InstructionReads], style: str) -> v1.OperandReadsResponse:
    response = v1.OperandReadsResponse(
        instruction=instruction.name, computation=instruction.computation.name, opcode=str(instruction.opcode)
    )
    for _, output, operands in found:
        for operand, use, accesses in operands:
            if not accesses:
                continue
            message = response.reads.add(
                output=output,
                operand=operand,
                operand_name=instruction.operands[operand].name,
                elements=use.elements,
                distinct_elements=use.distinct,
                is_upper_bound=use.is_upper_bound,
                reads=use.reads if use.reads is None or use.reads <= INT64_MAX else None,
            )
            for access in accesses:
                spend(16)
                message.accesses.add(
                    map=map_output(access.indexing.map, style),
                    leaf=access.leaf,
                    stride=access.stride,
                    segments=access.segments,
                    ideal=int(access.ideal or 0),
                )
    return response


def _tile_of(given: v1.Tile) -> TileBox:
    rank = len(given.sizes)
    for name, default in (("offsets", 0), ("strides", 1)):
        values = getattr(given, name)
        if values and len(values) != rank:
            raise InvalidArgumentError(f"a tile of {rank} sizes has {len(values)} {name}", field=("tile", name))
        if not values:
            values.extend([default] * rank)
    return TileBox(tuple(given.offsets), tuple(given.sizes), tuple(given.strides))


def _symbolic_tile_message(tile: SymbolicTile, style: str) -> v1.SymbolicTile:
    return v1.SymbolicTile(
        offset_map=map_output(tile.offset_map, style),
        size_map=map_output(tile.size_map, style),
        stride_map=map_output(tile.stride_map, style),
        constraints=tile.constraints.to_text(style),
        text=tile.to_text(style),
    )


def _fill(message: v1.TensorMaps, found: OperandIndexingSet, style: str) -> None:
    message.knowledge = _KNOWLEDGE[found.knowledge]
    for access in found:
        _fill_access(message.accesses.add(), access, style)


def _fill_access(message: v1.Access, access: OperandIndexing, style: str) -> None:
    spend(16)
    message.map.CopyFrom(map_output(access.map, style))
    message.leaf = access.leaf
    message.knowledge = _KNOWLEDGE[access.knowledge]
    for producer in access.runtime:
        message.runtime.add(
            instruction=producer.instruction.name,
            map=map_output(producer.map, style),
            leaf=producer.leaf,
            is_position=producer.is_position,
            is_clamped=producer.is_clamped,
            bounds=None
            if producer.bounds is None
            else v1.Interval(lower=producer.bounds.lower, upper=producer.bounds.upper),
        )
    replica = access.replica
    if replica is not None:
        message.replica.map.CopyFrom(map_output(replica.map, style))
        for group in replica.groups:
            message.replica.groups.add(replicas=group)
        if replica.pairs is not None:
            message.replica.pairs.SetInParent()
            for source, target in replica.pairs:
                message.replica.pairs.pairs.add(source=source, target=target)
