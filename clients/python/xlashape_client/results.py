"""The named tuples that methods of the client return, each with a class method that makes it of a message of the
service. They are the results of ShapeService, HloService, IndexingService and ViewService, in this order. Reports have
result classes of their own, in `xlashape.reports`.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import NamedTuple

from xlashape.base.caches import cached
from xlashape.errors import XlashapeError, from_details
from xlashape.proto import v1
from xlashape.shape import Shape
from xlashape.symbolic import IndexingMap, Interval

__all__ = [
    "AccessResult",
    "ByteTotals",
    "CoalescedAccess",
    "Drawing",
    "GraphInstruction",
    "Instruction",
    "InstructionGraph",
    "InstructionMaps",
    "InstructionReadsResult",
    "InstructionSize",
    "InstructionTiles",
    "Module",
    "OperandReadsResult",
    "OperandTileResult",
    "RecognizeResult",
    "ReplicaIndexingResult",
    "RuntimeVariableResult",
    "ShapeDescription",
    "ShapeSize",
    "SimplifiedMap",
    "SymbolicTileResult",
    "TensorMaps",
    "TextSlice",
    "TileResult",
]


class ShapeSize(NamedTuple):
    """The sizes of a shape. For a tuple they are sums over the arrays in the tuple.

    `byte_size` is the value of XLA's ShapeUtil::ByteSizeOf: it ignores tiles, and for a tuple it is the size of the
    table of pointers. `physical_elements` and `physical_bytes` include padding.
    """

    byte_size: int
    element_count: int
    logical_bytes: int
    physical_elements: int
    physical_bytes: int

    @property
    def padding_bytes(self) -> int:
        """The bytes of the buffers that hold no element."""
        return self.physical_bytes - self.logical_bytes

    @classmethod
    def of(cls, size: v1.ShapeSize) -> ShapeSize:
        """Converts the message."""
        return cls(size.byte_size, size.element_count, size.logical_bytes, size.physical_elements, size.physical_bytes)


class ShapeDescription(NamedTuple):
    """The description of a shape. `size` is None if a dynamic dimension has no bound."""

    shape: Shape
    text: str
    size: ShapeSize | None
    true_rank: int
    leaf_count: int
    is_static: bool
    is_major_to_minor: bool
    is_tiled: bool
    element_bits: int
    memory_space: int

    @classmethod
    def of(cls, message: v1.ShapeDescription) -> ShapeDescription:
        """Converts the message."""
        layout = message.layout
        return cls(
            shape=Shape.from_proto(message.shape.SerializeToString()),
            text=message.text,
            size=ShapeSize.of(message.size) if message.HasField("size") else None,
            true_rank=message.true_rank,
            leaf_count=message.leaf_count,
            is_static=message.is_static,
            is_major_to_minor=layout.is_major_to_minor,
            is_tiled=layout.is_tiled,
            element_bits=layout.element_bits,
            memory_space=layout.memory_space,
        )


# -- modules -----------------------------------------------------------------------------------


class Module(NamedTuple):
    """A module that the server keeps. Requests refer to it by `name`; `format` is "hlo_module_proto", "hlo_proto" or
    "text".
    """

    name: str
    size_bytes: int
    format: str
    module_name: str
    entry_computation: str
    computation_count: int
    instruction_count: int
    create_time: datetime
    expire_time: datetime

    @classmethod
    def of(cls, message: v1.Module) -> Module:
        """Converts the message. Times are in UTC."""
        return cls(
            message.name,
            message.size_bytes,
            v1.ModuleFormat.Name(message.format).removeprefix("MODULE_FORMAT_").lower()
            if message.format in v1.ModuleFormat.values()
            else "",
            message.module_name,
            message.entry_computation,
            message.computation_count,
            message.instruction_count,
            message.create_time.ToDatetime(timezone.utc),
            message.expire_time.ToDatetime(timezone.utc),
        )


class Instruction(NamedTuple):
    """An instruction, without the attributes of its opcode. `parameter_number` is None unless it is a parameter."""

    name: str
    id: int
    opcode: str
    shape: Shape
    computation: str
    is_root: bool
    operands: tuple[str, ...]
    called_computations: tuple[str, ...]
    parameter_number: int | None
    op_name: str

    @classmethod
    def of(cls, message: v1.Instruction) -> Instruction:
        """Converts the message."""
        return cls(
            message.name,
            message.id,
            message.opcode,
            Shape.parse(message.shape),
            message.computation,
            message.is_root,
            tuple(message.operands),
            tuple(message.called_computations),
            message.parameter_number if message.HasField("parameter_number") else None,
            message.op_name,
        )


class InstructionSize(NamedTuple):
    """The bytes of an instruction's result. The numbers of bytes are None if a dynamic dimension has no bound."""

    instruction: str
    id: int
    opcode: str
    computation: str
    shape: Shape
    logical_bytes: int | None
    physical_bytes: int | None
    padding_bytes: int | None

    @classmethod
    def of(cls, message: v1.InstructionSize) -> InstructionSize:
        """Converts the message."""
        known = message.HasField("physical_bytes")
        return cls(
            message.instruction,
            message.id,
            message.opcode,
            message.computation,
            Shape.parse(message.shape),
            message.logical_bytes if known else None,
            message.physical_bytes if known else None,
            message.padding_bytes if known else None,
        )


class ByteTotals(NamedTuple):
    """Sums over the instructions whose results have memory of their own, and how many other instructions there are."""

    instruction_count: int
    logical_bytes: int
    physical_bytes: int
    padding_bytes: int
    shared_instruction_count: int = 0
    """The number of instructions whose results share buffers of other instructions: tuples and their elements,
    bitcasts, loops, branches, calls, …
    """
    fused_instruction_count: int = 0
    """The number of instructions that are fused or applied to elements."""

    @classmethod
    def of(cls, message: v1.ByteTotals) -> ByteTotals:
        """Converts the message."""
        return cls(
            message.instruction_count,
            message.logical_bytes,
            message.physical_bytes,
            message.padding_bytes,
            message.shared_instruction_count,
            message.fused_instruction_count,
        )


# -- maps --------------------------------------------------------------------------------------


class RuntimeVariableResult(NamedTuple):
    """The origin of a runtime variable's value: the element of `leaf` of the named instruction at the index that `map`
    gives for the access's variables.

    If `is_position`, the value is not an element but the position of the executing replica in its group of that
    instruction. A value beyond `bounds` (None: the variable's bounds in the access's map) counts as the nearest bound
    if `is_clamped`; otherwise the access does not happen. The access does not happen either if the value is outside the
    variable's bounds in the map.
    """

    instruction: str
    map: IndexingMap
    leaf: int
    is_position: bool
    is_clamped: bool
    bounds: Interval | None

    @classmethod
    def of(cls, message: v1.RuntimeVariable) -> RuntimeVariableResult:
        """Converts the message."""
        bounds = Interval(message.bounds.lower, message.bounds.upper) if message.HasField("bounds") else None
        return cls(
            message.instruction, _map(message.map), message.leaf, message.is_position, message.is_clamped, bounds
        )


class ReplicaIndexingResult(NamedTuple):
    """The replicas that hold the elements: `map` gives a position in the group of the executing replica, one of
    `groups` (empty: all replicas).

    With `pairs`, the replica is the partner of the executing replica.
    """

    map: IndexingMap
    groups: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...] | None


class AccessResult(NamedTuple):
    """One way in which an array is accessed. `knowledge` is "exact", "every element" or "unknown"; `text` is the map in
    the requested style.
    """

    map: IndexingMap
    text: str
    runtime: tuple[RuntimeVariableResult, ...]
    replica: ReplicaIndexingResult | None
    leaf: int
    knowledge: str

    @classmethod
    def of(cls, message: v1.Access) -> AccessResult:
        """Converts the message."""
        runtime = tuple(RuntimeVariableResult.of(part) for part in message.runtime)
        return cls(
            _map(message.map),
            message.map.text,
            runtime,
            _replica(message.replica) if message.HasField("replica") else None,
            message.leaf,
            _knowledge(message.knowledge),
        )


class TensorMaps(NamedTuple):
    """The mapping between an output and an operand: the union of `accesses`."""

    output: int
    operand: int
    operand_name: str
    operand_leaf: int
    knowledge: str
    accesses: tuple[AccessResult, ...]

    @property
    def maps(self) -> tuple[IndexingMap, ...]:
        """The maps of the accesses."""
        return tuple(access.map for access in self.accesses)

    @classmethod
    def of(cls, message: v1.TensorMaps) -> TensorMaps:
        """Converts the message."""
        accesses = tuple(AccessResult.of(part) for part in message.accesses)
        return cls(
            message.output,
            message.operand,
            message.operand_name,
            message.operand_leaf,
            _knowledge(message.knowledge),
            accesses,
        )


class InstructionMaps(NamedTuple):
    """The maps of one instruction. `direction` is "output_to_input" or "input_to_output". Pairs of operand and output
    that do not depend on each other are left out of `maps`.
    """

    instruction: str
    computation: str
    opcode: str
    direction: str
    maps: tuple[TensorMaps, ...]
    error: XlashapeError | None = None
    """The reason why there are no maps. Only with `report_errors`."""

    @classmethod
    def of(cls, message: v1.IndexingMapsResponse) -> InstructionMaps:
        """Converts the message."""
        direction = "input_to_output" if message.direction == v1.DIRECTION_INPUT_TO_OUTPUT else "output_to_input"
        return cls(
            message.instruction,
            message.computation,
            message.opcode,
            direction,
            tuple(TensorMaps.of(part) for part in message.maps),
            _error(message.error) if message.HasField("error") else None,
        )


class CoalescedAccess(NamedTuple):
    """One way in which neighbouring elements of an output read an operand, as `xlashape.indexing.OperandCoalescing`.

    `map` goes from positions in the output's buffer to positions in the operand's buffer; `text` is the map in the
    requested style. `stride` is in elements, `segments` is the average number of segments that a warp reads. They
    are None if unknown; `stride` is also None if it is not the same for all elements.
    """

    map: IndexingMap
    text: str
    leaf: int
    stride: int | None
    segments: float | None
    ideal: int

    @classmethod
    def of(cls, message: v1.CoalescedAccess) -> CoalescedAccess:
        """Converts the message."""
        return cls(
            _map(message.map),
            message.map.text,
            message.leaf,
            message.stride if message.HasField("stride") else None,
            message.segments if message.HasField("segments") else None,
            message.ideal,
        )


class OperandReadsResult(NamedTuple):
    """How one output reads one operand, as `xlashape.indexing.OperandUtilisation`. Unknown values are None.

    If `is_upper_bound`, fewer elements than `distinct_elements` may be read; which ones depends on values at run time.
    """

    output: int
    operand: int
    operand_name: str
    elements: int | None
    distinct_elements: int | None
    is_upper_bound: bool
    reads: int | None
    accesses: tuple[CoalescedAccess, ...]

    @property
    def utilisation(self) -> float | None:
        """Distinct elements read ÷ elements; 1.0 for an operand without elements."""
        if self.elements is None or self.distinct_elements is None:
            return None
        return self.distinct_elements / self.elements if self.elements else 1.0

    @property
    def reads_per_element(self) -> float | None:
        """Reads ÷ distinct elements read; 0.0 if nothing is read."""
        if self.reads is None or self.distinct_elements is None:
            return None
        return self.reads / self.distinct_elements if self.distinct_elements else 0.0

    @classmethod
    def of(cls, message: v1.OperandReads) -> OperandReadsResult:
        """Converts the message."""
        return cls(
            message.output,
            message.operand,
            message.operand_name,
            message.elements if message.HasField("elements") else None,
            message.distinct_elements if message.HasField("distinct_elements") else None,
            message.is_upper_bound,
            message.reads if message.HasField("reads") else None,
            tuple(CoalescedAccess.of(part) for part in message.accesses),
        )


class InstructionReadsResult(NamedTuple):
    """How one instruction reads, for each requested output. Operands that an output does not read are left out."""

    instruction: str
    computation: str
    opcode: str
    reads: tuple[OperandReadsResult, ...]
    error: XlashapeError | None = None
    """The reason why there are no reads. Only with `report_errors`."""

    @classmethod
    def of(cls, message: v1.OperandReadsResponse) -> InstructionReadsResult:
        """Converts the message."""
        return cls(
            message.instruction,
            message.computation,
            message.opcode,
            tuple(OperandReadsResult.of(part) for part in message.reads),
            _error(message.error) if message.HasField("error") else None,
        )


class TileResult(NamedTuple):
    """A box with steps. Each field has a number for each dimension: the first index, the number of indices, and the
    distance from one index to the next (0 if there is only one).
    """

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, message: v1.Tile) -> TileResult:
        """Converts the message."""
        return cls(tuple(message.offsets), tuple(message.sizes), tuple(message.strides))


class SymbolicTileResult(NamedTuple):
    """The operand's tile for an output tile of any size, as `xlashape.symbolic.SymbolicTile`. `text` is XLA's text of
    the tile, with expressions in the requested style.
    """

    offset_map: IndexingMap
    size_map: IndexingMap
    stride_map: IndexingMap
    constraints: str
    text: str

    @classmethod
    def of(cls, message: v1.SymbolicTile) -> SymbolicTileResult:
        """Converts the message."""
        return cls(
            _map(message.offset_map),
            _map(message.size_map),
            _map(message.stride_map),
            message.constraints,
            message.text,
        )


class OperandTileResult(NamedTuple):
    """What a tile of an output reads of one operand, for one access. `symbolic` is None if no symbolic tile was found,
    `tile` if the elements that are read do not form a tile.
    """

    operand: int
    operand_name: str
    access: AccessResult
    symbolic: SymbolicTileResult | None
    tile: TileResult | None

    @classmethod
    def of(cls, message: v1.OperandTile) -> OperandTileResult:
        """Converts the message."""
        return cls(
            message.operand,
            message.operand_name,
            AccessResult.of(message.access),
            SymbolicTileResult.of(message.symbolic) if message.HasField("symbolic") else None,
            TileResult.of(message.tile) if message.HasField("tile") else None,
        )


class InstructionTiles(NamedTuple):
    """The tiles that a tile of one output of an instruction reads."""

    instruction: str
    computation: str
    opcode: str
    tiles: tuple[OperandTileResult, ...]

    @classmethod
    def of(cls, message: v1.OperandTilesResponse) -> InstructionTiles:
        """Converts the message."""
        return cls(
            message.instruction,
            message.computation,
            message.opcode,
            tuple(OperandTileResult.of(part) for part in message.tiles),
        )


class SimplifiedMap(NamedTuple):
    """A simplified map, and the numbers of the range and runtime variables that were removed from it."""

    map: IndexingMap
    removed_ranges: tuple[int, ...]
    removed_runtime: tuple[int, ...]


def _error(message: v1.InstructionError) -> XlashapeError:
    return from_details(message.reason.lower(), message.message, message.details)


def _map(message: v1.MapOutput) -> IndexingMap:
    data = message.map.SerializeToString()
    return _small_map(data) if len(data) <= 1024 else IndexingMap.from_proto(data)


# Modules repeat their maps, which take 70 µs each to decode.
@cached(max_bytes=16 << 20, weigh=lambda arguments, _: 2000 + 10 * len(arguments[0]))
def _small_map(data: bytes) -> IndexingMap:
    return IndexingMap.from_proto(data)


def _replica(message: v1.ReplicaIndexing) -> ReplicaIndexingResult:
    pairs = tuple((pair.source, pair.target) for pair in message.pairs.pairs) if message.HasField("pairs") else None
    return ReplicaIndexingResult(_map(message.map), tuple(tuple(group.replicas) for group in message.groups), pairs)


def _knowledge(number: int) -> str:
    return {v1.KNOWLEDGE_EXACT: "exact", v1.KNOWLEDGE_EVERY_ELEMENT: "every element"}.get(number, "unknown")


# -- views -------------------------------------------------------------------------------------


class RecognizeResult(NamedTuple):
    """What a text or the content of a file is. `kind` is "shape", "layout", "map", "instruction", "module", "report" or
    "profile". `text` is the text to give to other methods; it is empty if they take the content itself. `instruction`
    is the name of an instruction in the module `text`. `summary` describes the content in a line.
    """

    kind: str
    text: str
    instruction: str
    summary: str

    @classmethod
    def of(cls, message: v1.RecognizeResponse) -> RecognizeResult:
        """Converts the message."""
        known = message.kind in v1.ContentKind.values()
        kind = v1.ContentKind.Name(message.kind).removeprefix("CONTENT_KIND_").lower() if known else ""
        return cls(kind, message.text, message.instruction, message.summary)


class Drawing(NamedTuple):
    """A picture: the content of a file and its media type."""

    picture: bytes
    media_type: str
    title: str
    facts: tuple[str, ...]

    @classmethod
    def of(cls, message: v1.DrawResponse) -> Drawing:
        """Converts the message."""
        return cls(message.picture, message.media_type, message.title, tuple(message.facts))


class TextSlice(NamedTuple):
    """Lines of a module's text. Lines are counted from 0. `computation_lines` has the line in which each computation
    begins, and `instruction_lines` has pairs (line, instruction) in the order of the text. Both are None unless
    definitions were asked for.
    """

    lines: tuple[str, ...]
    first_line: int
    line_count: int
    found_lines: tuple[int, ...]
    found_count: int
    computation_lines: dict[str, int] | None
    instruction_lines: tuple[tuple[int, str], ...] | None

    @classmethod
    def of(cls, message: v1.GetTextResponse) -> TextSlice:
        """Converts the message."""
        known = message.HasField("definitions")
        found = message.definitions
        return cls(
            tuple(message.lines),
            message.first_line,
            message.line_count,
            tuple(message.found_lines),
            message.found_count,
            dict(zip(found.computations, found.computation_lines, strict=True)) if known else None,
            tuple(zip(found.instruction_lines, found.instructions, strict=True)) if known else None,
        )


class GraphInstruction(NamedTuple):
    """An instruction of a graph. `bytes` and `padding_bytes` are None if they are not known. `number` is the number of
    a parameter or of a tuple's element, and None for other instructions.
    """

    name: str
    id: int
    opcode: str
    shape: str
    bytes: int | None
    padding_bytes: int | None
    computation: str
    op_name: str
    source: str
    number: int | None


class InstructionGraph(NamedTuple):
    """Instructions in the module's order, and the edges between them. A number in an edge, a call or `roots` is the
    position of an instruction in `instructions`.
    """

    instructions: tuple[GraphInstruction, ...]
    edges: tuple[tuple[int, int, int], ...]
    """Triples: an operand, the instruction that reads it, and the number of the operand in that instruction."""
    control_edges: tuple[tuple[int, int], ...]
    """Pairs of instructions of which the first must run before the second."""
    calls: tuple[tuple[int, str], ...]
    """Pairs: an instruction, and the name of a computation that it calls."""
    roots: tuple[int, ...]
    instruction_count: int
    """How many instructions the request selects; a limit may have left out some of them."""

    @classmethod
    def of(cls, message: v1.GraphResponse) -> InstructionGraph:
        """Converts the message."""
        columns = zip(
            message.names, message.ids, message.opcodes, message.shapes, message.computations, message.op_names,
            message.sources, message.numbers, strict=True,
        )  # fmt: skip
        sizes = [None if size < 0 else size for size in message.shape_bytes]
        paddings = [None if size < 0 else size for size in message.shape_padding_bytes]
        opcodes, shapes, computations = message.opcode_names, message.shape_texts, message.computation_names
        return cls(
            tuple(
                GraphInstruction(
                    name, number, opcodes[opcode], shapes[shape], sizes[shape], paddings[shape],
                    computations[computation], message.op_name_texts[op_name], message.source_texts[source],
                    which - 1 if which else None,
                )
                for name, number, opcode, shape, computation, op_name, source, which in columns
            ),
            tuple(zip(message.edge_sources, message.edge_targets, message.edge_operands, strict=True)),
            tuple(zip(message.control_sources, message.control_targets, strict=True)),
            tuple((by, computations[called]) for by, called in zip(message.callers, message.called, strict=True)),
            tuple(root - 1 for root in message.roots if root),
            message.instruction_count,
        )  # fmt: skip
