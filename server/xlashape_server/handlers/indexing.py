"""IndexingService: which elements an instruction reads for each element it writes, how well, and in which tiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xlashape.errors import InvalidArgumentError, InvalidModuleError, XlashapeError
from xlashape.hlo import HloInstruction, HloModule
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
from xlashape_server.handlers.hlo import selected
from xlashape_server.handlers.inputs import (
    choice,
    decoded,
    map_output,
    placed,
    style_of,
)
from xlashape_server.handlers.maps import MapHandlers
from xlashape_server.modules import Modules

__all__ = ["IndexingHandlers"]

_KNOWLEDGE = {
    Knowledge.EXACT: v1.KNOWLEDGE_EXACT,
    Knowledge.EVERY_ELEMENT: v1.KNOWLEDGE_EVERY_ELEMENT,
    Knowledge.UNKNOWN: v1.KNOWLEDGE_UNKNOWN,
}


class IndexingHandlers(MapHandlers):
    """Requests as bytes in, responses as bytes out. Deadlines are times of time.monotonic(). Errors are those of the library, `field` set."""

    def __init__(self, config: Config, modules: Modules) -> None:
        super().__init__(config)
        self._modules = modules

    def indexing_maps(self, data: bytes, deadline: float) -> Iterator[bytes]:
        """IndexingMaps."""
        request = decoded(v1.IndexingMapsRequest, data)
        style = style_of(request.style)
        direction = choice(request.direction, ("out", "out", "in"), "direction")
        index = request.index if request.HasField("index") else None
        if request.physical and (direction != "out" or request.raw):
            raise InvalidArgumentError("physical maps go from output to input, and are simplified", field="physical")
        with budget(self._max_steps, deadline, "a module"):
            module = self._modules.read(request.module, ("module",))
            if request.instruction:
                chosen = [_instruction(module, request.computation, request.instruction)]
            else:
                chosen = selected(module, request.computation)
        # What was found out for one instruction serves the next.
        analysis = Analysis()
        for one in chosen:
            if (
                not request.instruction
                and index is not None
                and index >= (leaf_count(one.shape) if direction == "out" else len(one.operands))
            ):
                continue
            with budget(self._max_steps, deadline, one.name):
                try:
                    if request.physical:
                        response = _physical_maps_of(one, index, style)
                    else:
                        response = _maps_of(analysis, one, direction, index, style, raw=request.raw)
                except XlashapeError as error:
                    chosen_one = {} if index is None else {"output": ("index",), "operand": ("index",)}
                    raise placed(error, ("instruction",), **chosen_one) from None
            yield response.SerializeToString()

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
                chosen = [_instruction(module, request.computation, request.instruction)]
            elif request.computation:
                chosen = selected(module, request.computation)
            else:
                chosen = executed_readers(module)
        analysis = Analysis()
        for one in chosen:
            if not request.instruction and (not one.operands or _lacks(one, output)):
                continue
            with budget(self._max_steps, deadline, one.name):
                try:
                    found = instruction_reads(one, output, warp=warp, segment_bytes=segment_bytes, analysis=analysis)
                    response = _reads_of(one, found, style)
                except XlashapeError as error:
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
            one = _instruction(module, request.computation, request.instruction)
            try:
                found = operand_tiles(one, tile, request.output)
            except XlashapeError as error:
                about_tile = tile is not None and not isinstance(error, InvalidModuleError)
                raise placed(error, ("tile",) if about_tile else ("instruction",), output=("output",)) from None
            response = v1.OperandTilesResponse(
                instruction=one.name, computation=one.computation.name, opcode=one.proto.opcode
            )
            for each in found:
                made = response.tiles.add(operand=each.operand, operand_name=one.operands[each.operand].name)
                _fill_access(made.access, each.indexing, style)
                if each.symbolic is not None:
                    made.symbolic.CopyFrom(_symbolic_output(each.symbolic, style))
                if each.tile is not None:
                    made.tile.CopyFrom(v1.Tile(**each.tile._asdict()))
        return response.SerializeToString()


def _instruction(module: HloModule, computation: str, name: str) -> HloInstruction:
    if computation:
        return module.computation(computation).instruction(name)
    return module.instruction(name)


def _maps_of(
    analysis: Analysis, one: HloInstruction, direction: str, index: int | None, style: str, *, raw: bool
) -> v1.IndexingMapsResponse:
    """Everything that is known of one instruction, in one direction."""
    response = v1.IndexingMapsResponse(instruction=one.name, computation=one.computation.name, opcode=one.proto.opcode)
    operands = one.operands
    if direction == "out":
        response.direction = v1.DIRECTION_OUTPUT_TO_INPUT
        if not operands:
            return response
        for output in range(leaf_count(one.shape)) if index is None else (index,):
            for operand, found in enumerate(analysis.output_to_input(one, output)):
                if found:
                    made = response.maps.add(output=output, operand=operand, operand_name=operands[operand].name)
                    _fill(made, found if raw else found.simplify(), style)
        return response
    response.direction = v1.DIRECTION_INPUT_TO_OUTPUT
    if index is not None and not 0 <= index < len(operands):
        raise InvalidArgumentError(f"{one.name} has no operand {index}: it has {len(operands)}", field="operand")
    for operand in range(len(operands)) if index is None else (index,):
        for leaf in range(leaf_count(operands[operand].shape)):
            for output, found in enumerate(analysis.input_to_output(one, operand, leaf)):
                if found:
                    name = operands[operand].name
                    made = response.maps.add(output=output, operand=operand, operand_name=name, operand_leaf=leaf)
                    _fill(made, found if raw else found.simplify(), style)
    return response


def _physical_maps_of(one: HloInstruction, index: int | None, style: str) -> v1.IndexingMapsResponse:
    """Where the elements that one instruction reads lie in memory, by where the element lies that it writes."""
    response = v1.IndexingMapsResponse(
        instruction=one.name,
        computation=one.computation.name,
        opcode=one.proto.opcode,
        direction=v1.DIRECTION_OUTPUT_TO_INPUT,
    )
    if not one.operands:
        return response
    arrays = [number for number, leaf in enumerate(leaves(one.shape)) if leaf.is_array]
    for output in arrays if index is None else (index,):
        for operand, found in enumerate(output_to_input_physical(one, output)):
            if found:
                made = response.maps.add(output=output, operand=operand, operand_name=one.operands[operand].name)
                _fill(made, found, style)
    return response


def _lacks(one: HloInstruction, output: int | None) -> bool:
    """Whether there is no such array: where every instruction is asked about, those are left out."""
    arrays = leaves(one.shape)
    return output is not None and not (
        0 <= output < len(arrays) and (arrays[output].is_array or arrays[output].is_buffer)
    )


def _reads_of(one: HloInstruction, found: Iterable[InstructionReads], style: str) -> v1.OperandReadsResponse:
    response = v1.OperandReadsResponse(instruction=one.name, computation=one.computation.name, opcode=one.proto.opcode)
    for _, output, operands in found:
        for operand, use, accesses in operands:
            if not accesses:
                continue
            made = response.reads.add(
                output=output,
                operand=operand,
                operand_name=one.operands[operand].name,
                elements=use.elements,
                distinct_elements=use.distinct,
                is_upper_bound=use.is_upper_bound,
                reads=use.reads if use.reads is None or use.reads <= INT64_MAX else None,
            )
            for access in accesses:
                spend(16)
                made.accesses.add(
                    map=map_output(access.indexing.map, style),
                    leaf=access.leaf,
                    stride=access.stride,
                    transactions=access.transactions,
                    ideal_transactions=access.ideal,
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


def _symbolic_output(tile: SymbolicTile, style: str) -> v1.SymbolicTile:
    return v1.SymbolicTile(
        offset_map=map_output(tile.offset_map, style),
        size_map=map_output(tile.size_map, style),
        stride_map=map_output(tile.stride_map, style),
        constraints=tile.constraints.to_text(style),
        text=tile.to_text(style),
    )


def _fill(made: v1.TensorMaps, found: OperandIndexingSet, style: str) -> None:
    made.knowledge = _KNOWLEDGE[found.knowledge]
    for access in found:
        _fill_access(made.accesses.add(), access, style)


def _fill_access(one: v1.Access, access: OperandIndexing, style: str) -> None:
    spend(16)
    one.map.CopyFrom(map_output(access.map, style))
    one.leaf = access.leaf
    one.knowledge = _KNOWLEDGE[access.knowledge]
    for producer in access.runtime:
        one.runtime.add(
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
        one.replica.map.CopyFrom(map_output(replica.map, style))
        for group in replica.groups:
            one.replica.groups.add(replicas=group)
        if replica.pairs is not None:
            one.replica.pairs.SetInParent()
            for source, target in replica.pairs:
                one.replica.pairs.pairs.add(source=source, target=target)
