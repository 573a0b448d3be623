"""The named tuples that methods of the client return, each with a class method that makes it of a message of the
service. They are the results of ShapeService, HloService, IndexingService and ViewService, in this order. Reports have
result classes of their own, in `xlashape.reports`.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import NamedTuple

from xlashape.proto import v1
from xlashape.shape import Shape
from xlashape.symbolic import IndexingMap

__all__ = [
    "Drawing", "GraphInstruction", "Instruction", "InstructionGraph", "Module", "RecognizeResult", "ShapeDescription",
    "ShapeSize", "SimplifiedMap", "TextSlice",
]  # fmt: skip


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


# -- maps --------------------------------------------------------------------------------------


class SimplifiedMap(NamedTuple):
    """A simplified map, and the numbers of the range and runtime variables that were removed from it."""

    map: IndexingMap
    removed_ranges: tuple[int, ...]
    removed_runtime: tuple[int, ...]


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
