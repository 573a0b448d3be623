"""The table of a module's instructions, made of their protos."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from xlashape.errors import XlashapeError
from xlashape.hlo.module_proto.stack_frames import Metadata, ModuleFrames
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.tiling.physical_size import physical_bytes
from xlashape.tables import Column, Kind, Table

INSTRUCTION_COLUMNS: Final = (
    Column("instruction", Kind.TEXT, "its name"),
    Column("computation", Kind.TEXT, "the computation that it is in"),
    Column("opcode", Kind.TEXT, "its opcode"),
    Column("shape", Kind.TEXT, "the shape of its result, with its layout"),
    Column("bytes", Kind.INTEGER, "the bytes of all arrays of its result, padding included, whether or not they have memory of their own"),
    Column("operands", Kind.TEXTS, "the names of its operands"),
    Column("called_computations", Kind.TEXTS, "the names of the computations that it calls"),
    Column("is_root", Kind.BOOLEAN, "whether its result is that of its computation"),
    Column("op_name", Kind.TEXT, "the operation of the program that it comes from"),
    Column("source", Kind.TEXT, "the line of the user's own code that it comes from, as train.py:73"),
    Column("source_file", Kind.TEXT, "the path of that file"),
    Column("source_line", Kind.INTEGER, "the line of that file"),
)  # fmt: skip


def instruction_table(
    module: xla.HloModuleProto,
    computations: Iterable[xla.HloComputationProto],
    shape_of: Callable[[xla.ShapeProto], Shape],
) -> Table:
    """A row for each instruction of these computations of a module, in their order."""
    names = {computation.id & LOCAL_ID: computation.name for computation in module.computations}
    sizes: dict[Shape, int | None] = {}
    frames = ModuleFrames(module.stack_frame_index)
    rows: list[tuple[Any, ...]] = []
    for computation in computations:
        instructions = {instruction.id & LOCAL_ID: instruction.name for instruction in computation.instructions}
        for each in computation.instructions:
            shape = shape_of(each.shape)
            if shape not in sizes:
                sizes[shape] = _bytes(shape)
            metadata = Metadata.of_proto(each.metadata, frames)
            rows.append(
                (
                    each.name,
                    computation.name,
                    each.opcode,
                    str(shape),
                    sizes[shape],
                    [instructions[number & LOCAL_ID] for number in each.operand_ids],
                    [names[number & LOCAL_ID] for number in each.called_computation_ids],
                    each.id & LOCAL_ID == computation.root_id & LOCAL_ID,
                    metadata.op_name or None,
                    metadata.source or None,
                    metadata.source_file or None,
                    metadata.source_line or None,
                )
            )
    return Table(INSTRUCTION_COLUMNS, rows)


def _bytes(shape: Shape) -> int | None:
    """None where a dimension has no bound, or the width of the elements is not known."""
    try:
        arrays = [leaf.buffer_shape if leaf.is_buffer else leaf for leaf in shape.leaves()]
        return sum([physical_bytes(array) for array in arrays if array.is_array])
    except XlashapeError:
        return None
