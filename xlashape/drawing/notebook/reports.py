"""Why buffers are as large as they are, how instructions read, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from xlashape.drawing.notebook.card import card, picture_of, table_of
from xlashape.drawing.notebook.reading import picture_of_reads
from xlashape.indexing import Explanation
from xlashape.indexing.reports.reads import InstructionReads, ModuleReads, OperandReads, OutputReads, executed_readers
from xlashape.math import byte_text
from xlashape.memory import (
    ArrayMemory,
    InstructionMemory,
    ModuleMemory,
    ReportMemory,
    ShapesMemory,
    TupleMemory,
)
from xlashape.memory.parts import factor_text
from xlashape.tables import Kind, Table

__all__ = ["html"]

_MAX_ROWS: Final = 12
_MAX_READS: Final = 40
_READ_HEADINGS: Final = ("part read", "times", "stride", "segments", "ideal")


def html(value: object) -> str | None:
    """The HTML of an explanation of memory or of reads, or of a table; None for anything else."""
    if isinstance(value, ArrayMemory):
        return _array(str(value.shape), [], value)
    if isinstance(value, InstructionMemory):
        return _instruction(value)
    if isinstance(value, (TupleMemory, ModuleMemory, ReportMemory, ShapesMemory)):
        return _buffers(value)
    if isinstance(value, Explanation):
        return _explanation(value)
    if isinstance(value, OutputReads):
        return _reads(InstructionReads(value.instruction, value.output, value.operands))
    if isinstance(value, InstructionReads):
        return _reads(value)
    if isinstance(value, ModuleReads):
        return _module_reads(value)
    if isinstance(value, OperandReads):
        return card(f"operand {value.operand}", [], table=table_of(_READ_HEADINGS, _read_rows(value), left=()))
    if isinstance(value, Table):
        return _table(value)
    return None


def _array(title: str, lines: list[str], memory: ArrayMemory) -> str:
    lines = [*lines, *[f"{head or '·'} {text}" for head, text in memory.facts()]]
    return card(title, lines, picture_of(memory.shape))


def _instruction(memory: InstructionMemory) -> str:
    title = f"{memory.name} ({memory.opcode}, in {memory.computation})"
    lines = [memory.note] if memory.note else []
    if isinstance(memory.result, ArrayMemory):
        return _array(title, [str(memory.result.shape), *lines], memory.result)
    return card(title, [*lines, *_totals(memory)], table=_buffer_table(memory.table()))


def _totals(memory: TupleMemory | InstructionMemory | ModuleMemory | ReportMemory | ShapesMemory) -> list[str]:
    times = f", {factor_text(memory.factor)} the elements" if memory.overhead_bytes and memory.element_bytes else ""
    return [f"elements {byte_text(memory.element_bytes)}", f"buffers {byte_text(memory.buffer_bytes)}{times}"]


def _buffers(memory: TupleMemory | ModuleMemory | ReportMemory | ShapesMemory) -> str:
    table = memory.table()
    lines = _totals(memory)
    if isinstance(memory, ModuleMemory):
        on = f" on {memory.target.name}" if memory.target is not None else ""
        title = f"{memory.name or 'module'}: {len(memory.buffers):,} buffers{on}"
        lines += [f"without {line}" for line in memory.not_counted()]
    elif isinstance(memory, TupleMemory):
        title = str(memory.shape)
    elif isinstance(memory, ReportMemory):
        title = f"a report about memory: {len(table):,} allocations"
        lines.append("every number of it is ours too" if memory.agrees else "not all of its numbers are ours")
    else:
        title = f"{len(table):,} arrays"
    if len(table) > _MAX_ROWS:
        lines.append(f"the first {_MAX_ROWS} of {len(table):,}:")
    return card(title, lines, table=_buffer_table(table))


def _buffer_table(table: Table) -> str:
    rows: list[Sequence[str]] = []
    for number, row in enumerate(table):
        if number == _MAX_ROWS:
            break
        index = "" if row["index"] == "{}" else row["index"]
        shape = row["shape"] or ""
        if row["error"] is not None:
            shape = f"{shape}: {row['error']}"
        sizes = [_grouped(row[name]) for name in ("element_bytes", "buffer_bytes")]
        rows.append(
            (
                f"{row['instruction'] or ''}{index}",
                shape,
                *sizes,
                "" if row["factor"] is None else f"{row['factor']:.4g} ×",
            )
        )
    return table_of(["buffer", "shape", "elements", "bytes", "factor"], rows, left=range(2))


def _explanation(explanation: Explanation) -> str:
    reads = explanation.worst(_MAX_ROWS)
    lines = [
        f"instructions that read arrays: {len(explanation.instructions):,}; ways in which they read: {len(explanation.rows):,}"
    ]
    failed = [each for each in explanation.instructions if each.error is not None]
    if failed:
        lines.append(
            f"not known of {len(failed):,}: {', '.join([each.instruction.name for each in failed[:_MAX_ROWS]])}"
        )
    if len(explanation.rows) > _MAX_ROWS:
        lines.append(f"the {_MAX_ROWS} that transfer most in vain:")
    rows = [
        (
            read.instruction,
            read.operand_name,
            read.operand_shape,
            _grouped(read.bytes),
            ("≤ " if read.is_upper_bound else "") + _number(read.part_read, ".1%"),
            _number(read.times, ".4g"),
            _number(read.stride, "d"),
            _number(read.segments, ".4g"),
            _number(read.ideal_segments, "d"),
        )
        for read in reads
    ]
    return card(
        f"{explanation.module.name}: what it reads",
        lines,
        table=table_of(["instruction", "reads", "shape", "bytes", *_READ_HEADINGS], rows, left=range(3)),
    )


def _reads(reads: InstructionReads) -> str:
    instruction = reads.instruction
    title = f"{instruction.name} ({instruction.proto.opcode}): what output {reads.output} reads"
    if reads.error is not None:
        return card(title, [f"not known: {reads.error.message}"])
    rows = [
        (instruction.operands[read.operand].name, *row)
        for read in reads.operands[:_MAX_ROWS]
        for row in _read_rows(read)
    ]
    picture = picture_of_reads(instruction, reads.output)
    lines = ["drawn: the first 32 elements of the output, and what they read"] if picture else []
    return card(title, lines, picture, table_of(["operand", *_READ_HEADINGS], rows))


def _module_reads(reads: ModuleReads) -> str:
    """The first outputs: all of a large module would take long."""
    rows: list[tuple[str, ...]] = []
    shown = list(islice(reads, _MAX_ROWS))
    for each in shown:
        name = each.instruction.name
        if each.error is not None:
            rows.append((name, f"not known: {each.error.message}", *[""] * len(_READ_HEADINGS)))
        for read in each.operands:
            rows += [(name, each.instruction.operands[read.operand].name, *row) for row in _read_rows(read)]
    count = len(executed_readers(reads.module))
    lines = [f"instructions that read arrays: {count:,}"]
    if len(shown) == _MAX_ROWS < count:
        lines.append(f"the first {_MAX_ROWS} outputs; .to_pandas() has all of them:")
    headings = ["instruction", "operand", *_READ_HEADINGS]
    return card(f"{reads.module.name}: reads", lines, table=table_of(headings, rows[:_MAX_READS], left=range(2)))


def _read_rows(read: OperandReads) -> list[tuple[str, ...]]:
    """A row for each way in which the operand is read, or one row that says that it is not read."""
    use = read.utilisation
    part = ("≤ " if use.is_upper_bound else "") + _number(use.utilisation, ".1%")
    times = _number(use.reads_per_element, ".4g")
    rows = [
        (part, times, _number(access.stride, "d"), _number(access.transactions, ".4g"), _number(access.ideal, "d"))
        for access in read.accesses[:_MAX_ROWS]
    ]
    return list(rows) or [(part, times, "", "", "")]


def _table(table: Table) -> str:
    names = [column.name for column in table.columns]
    texts = [column.kind in (Kind.TEXT, Kind.TEXTS) for column in table.columns]
    rows: list[list[str]] = []
    for number, row in enumerate(table):
        if number == _MAX_ROWS:
            break
        rows.append([_cell(value) for value in row.values()])
    left = [number for number, is_text in enumerate(texts) if is_text]
    lines = [f"{len(table):,} rows" + (f"; the first {_MAX_ROWS}:" if len(table) > _MAX_ROWS else "")]
    return card("table", lines, table=table_of(names, rows, left=left))


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType] - texts
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _grouped(value: int | None) -> str:
    return _number(value, ",d")


def _number(value: float | None, form: str) -> str:
    return "?" if value is None else format(value, form)
