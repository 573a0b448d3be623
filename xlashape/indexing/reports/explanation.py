"""What every instruction of a compiled program reads and how well: `explain`.

    report = explain(jax.jit(f), *args)        # or a Lowered, a Compiled, a module, a path: whatever `HloModule.of` takes
    print(report)                              # a table
    report.worst()                             # the reads that transfer most in vain
    report.to_pandas()                         # every read as a row of names and numbers; also to_polars, to_arrow

The sizes are those of `xlashape.shape.tiling`, how well an operand is read is the answer of `xlashape.indexing.reports.reads`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from xlashape.display import Displayed
from xlashape.errors import XlashapeError
from xlashape.frozen import Frozen, set_field
from xlashape.hlo import HloInstruction, HloModule
from xlashape.hlo.files.module_of import compiled
from xlashape.indexing.answers.operand_indexing import Knowledge
from xlashape.indexing.queries import is_of_budget
from xlashape.indexing.reports.reads import OperandReads, executed_readers, instruction_reads
from xlashape.indexing.walk.analysis import Analysis
from xlashape.math import ceil_div, product
from xlashape.shape import Shape
from xlashape.shape.tiling.physical_size import physical_bytes, stored_bits
from xlashape.tables import Column, Kind, Table, Tabular

__all__ = ["ExplainedInstruction", "ExplainedRead", "Explanation", "explain"]

_SHOWN: Final = 60
"""The most instructions in the text of an explanation."""


class ExplainedRead(NamedTuple):
    """How one output of an instruction reads one operand: a row of names and numbers. A number is None where it is not known."""

    instruction: str
    opcode: str
    computation: str
    output: int
    """Which array of the result, counted depth first."""
    operand: int
    operand_name: str
    operand_shape: str
    bytes: int | None
    """Of the operand's buffer, padding included."""
    padding_bytes: int | None
    bytes_read: int | None
    """Of the elements that are read at least once."""
    part_read: float | None
    """Elements that are read ÷ elements of the operand."""
    is_upper_bound: bool
    """Fewer elements may be read: which ones is known at run time only."""
    times: float | None
    """How often each element is read that is read, on average."""
    stride: int | None
    """Elements in memory between what two neighbouring outputs read. Of several ways of reading this and the next two are the worst."""
    segments: float | None
    """Segments of memory that a warp of outputs touches in one read, on average."""
    ideal_segments: int | None
    """Segments that it would touch if the warp read contiguous elements."""
    knowledge: Knowledge
    map: str
    """From the index of an output to the indices of the operand; several ways of reading are several lines."""

    @property
    def efficiency(self) -> float | None:
        """Ideal segments ÷ segments, at most 1.0."""
        if self.segments is None or self.ideal_segments is None:
            return None
        return min(1.0, self.ideal_segments / self.segments)


_COLUMNS: Final = (
    Column("instruction", Kind.TEXT, "the name of the instruction"),
    Column("opcode", Kind.TEXT, "its opcode"),
    Column("computation", Kind.TEXT, "the computation that it is in"),
    Column("output", Kind.INTEGER, "which array of its result, counted depth first"),
    Column("operand", Kind.INTEGER, "the number of the operand"),
    Column("operand_name", Kind.TEXT, "the name of the operand"),
    Column("operand_shape", Kind.TEXT, "the shape of the operand, with its layout"),
    Column("bytes", Kind.INTEGER, "the bytes of the operand's buffer, padding included"),
    Column("padding_bytes", Kind.INTEGER, "how many of them are padding"),
    Column("bytes_read", Kind.INTEGER, "the bytes of the elements that are read at least once"),
    Column("part_read", Kind.NUMBER, "elements that are read ÷ elements of the operand"),
    Column("is_upper_bound", Kind.BOOLEAN, "whether fewer may be read: which ones is known at run time only"),
    Column("times", Kind.NUMBER, "how often each element is read that is read, on average"),
    Column("stride", Kind.INTEGER, "elements in memory between what two neighbouring outputs read, in the worst way of reading"),
    Column("segments", Kind.NUMBER, "segments of memory that a warp of outputs reads, on average"),
    Column("ideal_segments", Kind.INTEGER, "segments that it would read if the warp read contiguous elements"),
    Column("knowledge", Kind.TEXT, "exact, every element, or unknown"),
    Column("map", Kind.TEXT, "from the index of an output to the indices of the operand"),
    Column("efficiency", Kind.NUMBER, "ideal segments ÷ segments, at most 1"),
    Column("error", Kind.TEXT, "why it is not known how the instruction reads"),
)  # fmt: skip


class ExplainedInstruction(NamedTuple):
    """What an instruction writes and reads."""

    instruction: HloInstruction
    bytes: int | None
    """Of the buffers of its result, padding included."""
    padding_bytes: int | None
    reads: tuple[ExplainedRead, ...]
    error: XlashapeError | None = None
    """Why it is not known how the instruction reads, else None."""


class Explanation(Frozen, Displayed, Tabular):
    """What the instructions of a module read. `str()` is a table."""

    __slots__ = ("instructions", "module")

    module: HloModule
    instructions: tuple[ExplainedInstruction, ...]
    """Those that read arrays from memory, in the order of the module: not what is inside fusions."""

    def __init__(self, module: HloModule, instructions: Iterable[ExplainedInstruction]) -> None:
        set_field(self, "module", module)
        set_field(self, "instructions", tuple(instructions))

    @property
    def rows(self) -> tuple[ExplainedRead, ...]:
        """All reads of all instructions."""
        return tuple([read for instruction in self.instructions for read in instruction.reads])

    def worst(self, count: int = 10) -> tuple[ExplainedRead, ...]:
        """The reads that transfer most in vain, were every segment fetched again for each warp: bytes read × times × (1 ÷ efficiency - 1).

        Where as much is transferred in vain, those that read most are first.
        """
        return tuple(sorted(self.rows, key=_wasted, reverse=True)[: max(count, 0)])

    def table(self) -> Table:
        """A row for each read, and one for each instruction of which it is not known how it reads."""
        rows: list[tuple[Any, ...]] = []
        for explained in self.instructions:
            instruction = explained.instruction
            for read in explained.reads:
                row = read._asdict() | {"knowledge": str(read.knowledge.value)}
                rows.append((*row.values(), read.efficiency, None))
            if explained.error is not None:
                head = (instruction.name, str(instruction.opcode), instruction.computation.name)
                rows.append((*head, *[None] * (len(_COLUMNS) - 4), explained.error.message))
        return Table(_COLUMNS, rows)

    def __str__(self) -> str:
        rows: list[Sequence[str]] = []
        for explained in self.instructions[:_SHOWN]:
            instruction = explained.instruction
            sizes = (_grouped(explained.bytes), _share(explained.padding_bytes, explained.bytes))
            rows.append((instruction.name, f"writes {_brief(str(instruction.shape))}", *sizes, "", "", "", "", ""))
            if explained.error is not None:
                rows.append(("", f"reads: not known: {_brief(explained.error.message)}", *[""] * 7))
            rows += [
                ("", *_cells(read, len({read.output for read in explained.reads}) > 1)) for read in explained.reads
            ]
        columns = ("instruction", "array", "bytes", "padding", "part read", "times", "stride", "segments", "ideal")
        hidden = len(self.instructions) - _SHOWN
        more = f"\n… and {hidden} more instructions, in .instructions" if hidden > 0 else ""
        count = len(self.instructions)
        read = "instruction that reads" if count == 1 else "instructions that read"
        return f"{self.module.name}: {count} {read} arrays\n\n{_table(columns, rows)}{more}"

    def __repr__(self) -> str:
        return f"<Explanation of {self.module.name!r}: {len(self.instructions)} instructions, {len(self.rows)} reads>"


def explain(value: Any, *args: Any, **kwargs: Any) -> Explanation:
    """What each instruction of a program reads and how well, with the bytes and the padding of each array.

    `value` is a jitted function, whose arguments follow and which is lowered and compiled for the device that JAX has; a Lowered, which is
    compiled; or whatever else `HloModule.of` takes, as it is. Instructions inside fusions are not listed. An instruction that is
    not answered has an `error`. A warp is 32 outputs, a segment 128 bytes: `xlashape.indexing.operand_reads` takes others.

    Raises what `HloModule.of` raises, errors of JAX as they are, and those of the budget in force.

    >>> report = explain("HloModule m ENTRY e { p = f32[64,20]{1,0:T(8,128)} parameter(0) ROOT t = f32[20,64] transpose(p), dimensions={1,0} }")
    >>> print(report)
    m: 1 instruction that reads arrays
    <BLANKLINE>
    instruction   array                               bytes   padding   part read   times   stride   segments   ideal
    ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    t             writes f32[20,64]{1,0}              5,120        0%
                  reads p f32[64,20]{1,0:T(8,128)}   32,768     84.4%      100.0%       1      128         32       1
    >>> [(read.operand_name, read.efficiency, read.map) for read in report.worst(1)]
    [('p', 0.03125, '(d0, d1) -> (d1, d0), domain: d0 in [0, 19], d1 in [0, 63]')]
    """
    module = HloModule.of(compiled(value, args, kwargs))
    analysis = Analysis()
    return Explanation(module, [_explained(instruction, analysis) for instruction in executed_readers(module)])


def _explained(instruction: HloInstruction, analysis: Analysis) -> ExplainedInstruction:
    reads: list[ExplainedRead] = []
    error: XlashapeError | None = None
    size = None, None
    try:
        size = _sizes(instruction.shape)
        for of_output in instruction_reads(instruction, analysis=analysis):
            maps = analysis.output_to_input(instruction, of_output.output)
            for operand, indexing in zip(of_output.operands, maps, strict=True):
                simple = indexing.simplify()
                text = "\n".join([each.to_text() for each in simple.maps if not each.is_known_empty]) or "not read"
                reads.append(_read(instruction, of_output.output, operand, simple.knowledge, text))
    except XlashapeError as failure:
        if is_of_budget(failure):
            raise
        error = failure
    return ExplainedInstruction(instruction, *size, tuple(reads), error)


def _read(
    instruction: HloInstruction, output: int, reads: OperandReads, knowledge: Knowledge, text: str
) -> ExplainedRead:
    operand = instruction.operands[reads.operand]
    use = reads.utilisation
    size, padding = _sizes(operand.shape)
    bits = {stored_bits(leaf) for leaf in operand.shape.leaves() if leaf.is_array}
    known = [access for access in reads.accesses if access.transactions is not None]
    worst = min(known, key=lambda access: access.efficiency or 0.0, default=None)
    return ExplainedRead(
        instruction.name,
        str(instruction.opcode),
        instruction.computation.name,
        output,
        reads.operand,
        operand.name,
        str(operand.shape),
        size,
        padding,
        None if use.distinct is None or len(bits) != 1 else ceil_div(use.distinct * bits.pop(), 8),
        use.utilisation,
        use.is_upper_bound,
        use.reads_per_element,
        None if worst is None else worst.stride,
        None if worst is None else worst.transactions,
        None if worst is None else worst.ideal,
        knowledge,
        text,
    )


def _sizes(shape: Shape) -> tuple[int | None, int | None]:
    """The bytes of the buffers of all arrays of a shape, and how many of them are padding; None where a size is not known."""
    total = elements = 0
    try:
        for leaf in shape.leaves():
            array = leaf.buffer_shape if leaf.is_buffer else leaf
            if array.is_array:
                total += physical_bytes(array)
                elements += ceil_div(product(array.dimensions) * stored_bits(array), 8)
    except XlashapeError:  # a dimension without a bound, or an element type without a known width
        return None, None
    return total, total - elements


def _wasted(read: ExplainedRead) -> tuple[float, float]:
    wanted = (read.bytes_read or 0) * (read.times or 0.0)
    return wanted * (1 / (read.efficiency or 1.0) - 1), wanted


# -- text -----------------------------------------------------------------------------------


def _cells(read: ExplainedRead, shows_output: bool) -> tuple[str, ...]:
    """The row of a read, without its first cell."""
    output = f"for output {read.output} " if shows_output else ""
    if read.part_read == 0:
        return (f"{output}reads nothing of {read.operand_name}", *[""] * 7)
    return (
        f"{output}reads {read.operand_name} {_brief(read.operand_shape)}",
        _grouped(read.bytes),
        _share(read.padding_bytes, read.bytes),
        ("≤ " if read.is_upper_bound else "") + _number(read.part_read, ".1%"),
        _number(read.times, ".4g"),
        _number(read.stride, "d"),
        _number(read.segments, ".4g"),
        _number(read.ideal_segments, "d"),
    )


def _grouped(value: int | None) -> str:
    return _number(value, ",d")


def _number(value: float | None, form: str) -> str:
    return "?" if value is None else format(value, form)


def _share(part: int | None, whole: int | None) -> str:
    if part is None or whole is None:
        return "?"
    return f"{part / whole:.1%}" if part else "0%"


def _brief(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The two first columns are aligned to the left, the others to the right. Cells of a row that says no numbers do not count."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    lines = [
        "   ".join([f"{cell:<{width}}" if i < 2 else f"{cell:>{width}}" for i, (cell, width) in enumerate(zip(row, widths, strict=True))])
        for row in (columns, *rows)
    ]  # fmt: skip
    lines.insert(1, "─" * len(lines[0]))
    return "\n".join([line.rstrip() for line in lines])
