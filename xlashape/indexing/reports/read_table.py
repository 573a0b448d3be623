"""The table of reads: its columns, and the rows of one output. `operand_reads`, `module_reads` and the command line have the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from xlashape.errors import XlashapeError
from xlashape.hlo import HloInstruction
from xlashape.indexing.reports.coalescing import OperandCoalescing
from xlashape.indexing.reports.utilisation import OperandUtilisation
from xlashape.tables import Column, Kind

__all__ = ["READ_COLUMNS", "failed_row", "read_rows"]

READ_COLUMNS: Final = (
    Column("instruction", Kind.TEXT, "the name of the instruction"),
    Column("computation", Kind.TEXT, "the computation that it is in"),
    Column("opcode", Kind.TEXT, "its opcode"),
    Column("output", Kind.INTEGER, "which array of its result, counted depth first"),
    Column("operand", Kind.INTEGER, "the number of the operand"),
    Column("operand_name", Kind.TEXT, "the name of the operand"),
    Column("elements", Kind.INTEGER, "the elements of the operand"),
    Column("distinct", Kind.INTEGER, "how many of them are read at least once"),
    Column("is_upper_bound", Kind.BOOLEAN, "whether fewer may be read: which ones is known at run time only"),
    Column("reads", Kind.INTEGER, "how many reads there are"),
    Column("utilisation", Kind.NUMBER, "the part of the operand that is read, 0 to 1"),
    Column("reads_per_element", Kind.NUMBER, "how often each element is read that is read, on average"),
    Column("leaf", Kind.INTEGER, "which array of the operand this way of reading reads"),
    Column("stride", Kind.INTEGER, "elements in memory between what two neighbouring outputs read"),
    Column("transactions", Kind.NUMBER, "segments of memory that a warp of outputs reads, on average"),
    Column("ideal", Kind.INTEGER, "segments that it would read if the warp read contiguous elements"),
    Column("map", Kind.TEXT, "from positions in the output's buffer to positions in the operand's"),
    Column("error", Kind.TEXT, "why it is not known how the instruction reads"),
)


def read_rows(
    instruction: HloInstruction,
    output: int,
    operand: int,
    use: OperandUtilisation,
    accesses: tuple[OperandCoalescing, ...],
) -> Iterator[tuple[Any, ...]]:
    """A row for each way in which an output reads an operand."""
    head = (*_who(instruction), output, operand, instruction.operands[operand].name)
    numbers = (use.elements, use.distinct, use.is_upper_bound, use.reads, use.utilisation, use.reads_per_element)
    for access in accesses:
        stride = (access.stride, access.transactions, access.ideal)
        yield (*head, *numbers, access.leaf, *stride, str(access.indexing), None)


def failed_row(instruction: HloInstruction, output: int, error: XlashapeError) -> tuple[Any, ...]:
    """The row of an output of which it is not known how it reads."""
    return (*_who(instruction), output, *[None] * (len(READ_COLUMNS) - 5), error.message)


def _who(instruction: HloInstruction) -> tuple[str, str, str]:
    return instruction.name, instruction.computation.name, str(instruction.opcode)
