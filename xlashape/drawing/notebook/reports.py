"""The HTML that notebooks show for reports, such as why buffers are as large as they are, and for tables."""

from __future__ import annotations

from itertools import islice
from typing import Final, cast

from xlashape.base.tables import TEXTUAL, ColumnKind, Table
from xlashape.drawing.notebook.card import card, picture_of, table_of
from xlashape.drawing.notebook.reading import picture_of_reads
from xlashape.drawing.notebook.shapes import size_first
from xlashape.indexing.reports.reads import InstructionReads, OperandReads, OutputReads
from xlashape.reports.report import Answer
from xlashape.reports.text import alike_together, cell_text
from xlashape.reports.why import ArrayMemory, InstructionMemory

_MAX_ROWS: Final = 12
_READ_HEADINGS: Final = ("part read", "times", "stride", "segments", "ideal")


def html(value: object) -> str | None:
    """The HTML of an explanation of memory or of reads, of the answer of another report, or of a table; None for
    anything else."""
    if isinstance(value, ArrayMemory):
        return _array(str(value.shape), [], value)
    if isinstance(value, InstructionMemory) and isinstance(value.result, ArrayMemory):
        return _instruction(value, value.result)
    if isinstance(value, OutputReads):
        return _reads(InstructionReads(value.instruction, value.output, value.operands))
    if isinstance(value, InstructionReads):
        return _reads(value)
    if isinstance(value, OperandReads):
        return card(f"operand {value.operand}", [], table=table_of(_READ_HEADINGS, _read_rows(value), left=()))
    if isinstance(value, Answer):
        return _answer(cast("Answer", value))
    if isinstance(value, Table):
        return _table(value)
    return None


_TERMINAL: Final = 80
"""The most characters of a line of a headline, which is folded for terminals."""


def _answer(answer: Answer) -> str:
    """The HTML of a report's answer: a total in large letters, the headline, and the first rows as a table."""
    lines = _unfolded(answer.headline().splitlines())
    columns = answer.report.columns
    ranked = [number for number, column in enumerate(columns) if column.rank]
    every = answer.rows_of()
    if answer.report.alike:
        every = iter(alike_together(columns, every, answer.report.alike))
    found = list(islice(every, _MAX_ROWS))
    shown = [number for number in ranked if number == ranked[0] or any(row[number] is not None for row in found)]
    rows = [[cell_text(columns[number], row[number]) for number in shown] for row in found]
    left = [place for place, number in enumerate(shown) if columns[number].kind in TEXTUAL]
    headings = [columns[number].heading or columns[number].name.replace("_", " ") for number in shown]
    if next(every, None) is not None:
        lines.append(f"the first {len(rows)} rows of {len(answer):,}:")
    table = table_of(headings, rows, left=left) if rows else ""
    return card(f"{answer.report.name}: {answer.report.summary}", lines, table=table, first=_first_total(answer))


def _first_total(answer: Answer) -> tuple[str, str] | None:
    """The first total in bytes that is known, or else the first known number, with its meaning; None without any."""
    known = [column for column in answer.report.totals if column.kind in (ColumnKind.INTEGER, ColumnKind.NUMBER)]
    known = [column for column in known if getattr(answer, column.name) is not None]
    for column in [column for column in known if column.unit == "bytes"] + known:
        return cell_text(column, getattr(answer, column.name)), column.meaning
    return None


def _unfolded(lines: list[str]) -> list[str]:
    """The lines as they were before they were folded for a terminal: a notebook folds them at its own width."""
    found: list[str] = []
    last = ""
    for line in lines:
        words = line.split(None, 1)
        is_rest = found and line.startswith("  ") and words and len(last) + 1 + len(words[0]) > _TERMINAL
        if is_rest:
            found[-1] += f" {line.strip()}"
        else:
            found.append(line)
        last = line
    return found


def _array(title: str, lines: list[str], memory: ArrayMemory) -> str:
    lines = [*lines, *[f"{head or '·'} {text}" for head, text in memory.facts()]]
    size = size_first([memory.shape])
    return card(title, lines, picture_of(memory.shape), first=size and (size[0], f"buffer{size[1]}"))


def _instruction(memory: InstructionMemory, result: ArrayMemory) -> str:
    title, *lines = memory.headline().splitlines()
    return _array(title, [str(result.shape), *lines], result)


def _reads(reads: InstructionReads) -> str:
    instruction = reads.instruction
    title = f"{instruction.name} ({instruction.opcode}): what output {reads.output} reads"
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


def _read_rows(read: OperandReads) -> list[tuple[str, ...]]:
    """A row for each way in which the operand is read; without any, one row that only says how much of it is read."""
    use = read.utilisation
    part = ("≤ " if use.is_upper_bound else "") + _number(use.utilisation, ".1%")
    times = _number(use.reads_per_element, ".4g")
    rows = [
        (part, times, _number(access.stride, "d"), _number(access.segments, ".4g"), _number(access.ideal, ".4g"))
        for access in read.accesses[:_MAX_ROWS]
    ]
    return list(rows) or [(part, times, "", "", "")]


def _table(table: Table) -> str:
    names = [column.name for column in table.columns]
    texts = [column.kind in TEXTUAL for column in table.columns]
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
    if isinstance(value, dict):
        return ", ".join([f"{key}: {count:,}" for key, count in value.items()])  # pyright: ignore[reportUnknownVariableType] - integers
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _number(value: float | None, form: str) -> str:
    return "?" if value is None else format(value, form)
