"""Instructions as a table: a row for each, with its name, opcode, shape, bytes, operands and source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from xlashape.base.tables import Column, ColumnKind, Table
from xlashape.errors import XlashapeError
from xlashape.hlo.ir import HloInstruction
from xlashape.shape import Shape
from xlashape.shape.tiling.padding import physical_bytes

INSTRUCTION_COLUMNS: Final = (
    Column("instruction", ColumnKind.TEXT, "its name"),
    Column("computation", ColumnKind.TEXT, "the computation that it is in"),
    Column("opcode", ColumnKind.TEXT, "its opcode"),
    Column("shape", ColumnKind.TEXT, "the shape of its result, with its layout"),
    Column("bytes", ColumnKind.INTEGER,
           "the bytes of all arrays of its result, padding included, whether or not they have memory of their own"),
    Column("operands", ColumnKind.TEXTS, "the names of its operands"),
    Column("called_computations", ColumnKind.TEXTS, "the names of the computations that it calls"),
    Column("is_root", ColumnKind.BOOLEAN, "whether its result is that of its computation"),
    Column("op_name", ColumnKind.TEXT, "the operation of the program that it comes from"),
    Column("source", ColumnKind.TEXT, "the line of the user's own code that it comes from, as train.py:73"),
    Column("source_file", ColumnKind.TEXT, "the path of that file"),
    Column("source_line", ColumnKind.INTEGER, "the line of that file"),
)  # fmt: skip


def instruction_table(instructions: Iterable[HloInstruction]) -> Table:
    """A table with a row for each instruction, in their order."""
    return Table(INSTRUCTION_COLUMNS, instruction_rows(instructions))


def instruction_rows(instructions: Iterable[HloInstruction]) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of `instruction_table`. All rows together would take a kilobyte an instruction."""
    shapes: dict[Shape, tuple[str, int | None]] = {}
    for each in instructions:
        shape = each.shape
        written = shapes.get(shape)
        if written is None:
            written = shapes[shape] = str(shape), _bytes(shape)
        metadata = each.metadata
        yield (
            each.name,
            each.computation.name,
            str(each.opcode),
            *written,
            [operand.name for operand in each.operands],
            [called.name for called in each.called_computations],
            each.is_root,
            metadata.op_name or None,
            metadata.source or None,
            metadata.source_file or None,
            metadata.source_line or None,
        )


def _bytes(shape: Shape) -> int | None:
    """The bytes of all arrays of a shape, padding included. None if a dimension is unbounded, or if the width of the
    elements is not known.
    """
    try:
        arrays = [leaf.buffer_shape if leaf.is_buffer else leaf for leaf in shape.leaves()]
        return sum([physical_bytes(array) for array in arrays if array.is_array])
    except XlashapeError:
        return None
