"""The declaration of the report `reads`, and its answer `Reads`, whose main rows are of the class `Read`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from xlashape.base.frozen import Frozen
from xlashape.base.math import byte_text
from xlashape.base.tables import Column, ColumnKind
from xlashape.errors import XlashapeError
from xlashape.hlo import HloInstruction, HloModule
from xlashape.indexing.answers.operand_indexing import OperandIndexing
from xlashape.indexing.reports.coalescing import Sample
from xlashape.reports import vocabularies
from xlashape.reports.reads.consumers import Consumer
from xlashape.reports.reads.devices import Device
from xlashape.reports.report import (
    FRAMES,
    INDEXING,
    NOTES,
    STRICT,
    Computed,
    Option,
    Report,
    Section,
    Structure,
    by_section,
)
from xlashape.reports.text import short_bytes
from xlashape.shape.parts.target import TARGET_NAMES
from xlashape.symbolic import IndexingMap

_SHOWN_ERRORS: Final = 5
_SUMMED: Final = ("distinct_bytes", "wasted_bytes", "again_bytes")
ELSEWHERE: Final = re.compile(r"S\([1-9]")
"""A memory space that is not main memory, in the text of a layout."""

_WHO: Final = (
    Column("instruction", ColumnKind.TEXT, "the instruction that reads", rank=1),
    Column("computation", ColumnKind.TEXT, "the computation that it is in"),
    Column("output", ColumnKind.INTEGER, "which array of its result, counted depth first"),
    Column("operand", ColumnKind.INTEGER, "the number of the operand"),
    Column("operand_name", ColumnKind.TEXT, "the operand that it reads", rank=1, heading="reads"),
)
_UNITS: Final = (
    Column("stride", ColumnKind.INTEGER, "elements in memory between what two neighbouring outputs read; of several ways of reading the worst"),
    Column("segments", ColumnKind.NUMBER, "on a GPU: segments of memory that a warp of outputs touches in one read, on average", rank=1),
    Column("tiles", ColumnKind.NUMBER, "on a TPU: tiles of the operand that a tile of the output touches in one read, on average", rank=1),
    Column("lines", ColumnKind.NUMBER, "on a CPU: cache lines that a vector of outputs touches in one read, on average", rank=1),
    Column("ideal", ColumnKind.NUMBER, "how many it would touch if the elements that it reads were contiguous", rank=3, heading="at best"),
)  # fmt: skip

_ACCESS_COLUMNS: Final = (
    *_WHO,
    Column("leaf", ColumnKind.INTEGER, "which array of the operand this way of reading reads"),
    Column("access", ColumnKind.TEXT, "how the elements are read", rank=2, choices=vocabularies.ACCESSES),
    Column("reused_along", ColumnKind.TEXTS, "dimensions of the output along which the same elements are read again, with their sizes", rank=3, heading="reused along"),
    *_UNITS,
    Column("lanes", ColumnKind.NUMBER, "on a TPU: the part of the lanes of the tiles touched that is used", "fraction", rank=4),
    Column("sublanes", ColumnKind.NUMBER, "on a TPU: the part of their sublanes that is used", "fraction", rank=4),
    Column("relayout", ColumnKind.TEXT, "on a TPU: whether elements change their lanes, their sublanes, or both", rank=3, choices=vocabularies.RELAYOUTS),
    Column("map", ColumnKind.TEXT, "from the index of an output to the index of the operand"),
    Column("physical_map", ColumnKind.TEXT, "from positions in the output's buffer to positions in the operand's"),
)  # fmt: skip
_WRITE_COLUMNS: Final = (
    Column("instruction", ColumnKind.TEXT, "the name of the instruction", rank=1),
    Column("computation", ColumnKind.TEXT, "the computation that it is in"),
    Column("opcode", ColumnKind.TEXT, "the opcode of the instruction", rank=2),
    Column("shape", ColumnKind.TEXT, "what it writes, with its layout", rank=1),
    Column("bytes", ColumnKind.INTEGER, "the bytes of the buffers of its result, padding included", "bytes", rank=1),
    Column("padding_bytes", ColumnKind.INTEGER, "how many of them are padding", "bytes", rank=1),
    Column("error", ColumnKind.TEXT, "why it is not known how it reads", rank=2),
)

_SUMS: Final = (
    Column("wasted_bytes", ColumnKind.INTEGER, "the sum of the bytes that are fetched in vain in one run of the program", "bytes", rank=1, heading="fetched unused"),
    Column("again_bytes", ColumnKind.INTEGER, "the sum of the bytes that are fetched again in one run of the program, at most, because neighbouring outputs stream elements that lie apart, or a kernel moves blocks again", "bytes", rank=1, heading="fetched again, up to"),
    Column("distinct_bytes", ColumnKind.INTEGER, "the sum of the bytes of the elements that are read in one run of the program", "bytes", rank=2, heading="read in a run"),
    Column("instructions", ColumnKind.INTEGER, "instructions that read arrays from memory", rank=3),
    Column("operands", ColumnKind.INTEGER, "operands that they read; for each output once", rank=4),
    Column("failed", ColumnKind.INTEGER, "instructions of which it is not known how they read", heading="not known"),
)  # fmt: skip

REPORT: Final = Report(
    name="reads",
    summary="What the instructions of a program read from memory, and how well: those first that fetch most in vain and again.",
    columns=(
        *_WHO,
        Column("opcode", ColumnKind.TEXT, "the opcode of the instruction"),
        Column("runs", ColumnKind.INTEGER, "how often the instruction runs in one run of the program, such as in a loop; empty where that is not known. Bytes are those of one time"),
        Column("access", ColumnKind.TEXTS, "how the elements are read", rank=3, choices=vocabularies.ACCESSES),
        Column("part_read", ColumnKind.NUMBER, "elements that are read ÷ elements of the operand", "fraction", rank=2),
        Column("is_upper_bound", ColumnKind.BOOLEAN, "whether fewer may be read: which ones is known at run time only, or not at all, as for a custom call"),
        Column("times", ColumnKind.NUMBER, "how often each element is read that is read, on average", rank=3, heading="times each"),
        Column("reused_along", ColumnKind.TEXTS, "dimensions of the output along which the same elements are read again, with their sizes"),
        *_UNITS,
        Column("is_coalesced", ColumnKind.BOOLEAN, "on a GPU: whether a warp touches no more than twice the ideal number of segments"),
        Column("tile_part", ColumnKind.NUMBER, "on a TPU: elements that are read ÷ elements of the tiles that are moved for them", "fraction", rank=3, heading="of tiles"),
        Column("relayout", ColumnKind.TEXT, "on a TPU: whether elements change their lanes, their sublanes, or both", rank=4, choices=vocabularies.RELAYOUTS),
        Column("operand_shape", ColumnKind.TEXT, "the shape of the operand, with its layout"),
        Column("bytes", ColumnKind.INTEGER, "the bytes of the operand's buffer, padding included", "bytes", rank=2, heading="operand"),
        Column("padding_bytes", ColumnKind.INTEGER, "how many of them are padding", "bytes"),
        Column("distinct_bytes", ColumnKind.INTEGER, "the bytes of the elements that are read at least once", "bytes"),
        Column("least_bytes", ColumnKind.INTEGER, "the bytes of the segments, tiles or lines with these elements: what is fetched if all reuse is caught", "bytes"),
        Column("most_bytes", ColumnKind.INTEGER, "what is fetched if no reuse is caught, and every warp, tile or vector fetches anew", "bytes", rank=5, heading="at most"),
        Column("wasted_bytes", ColumnKind.INTEGER, "bytes that are fetched in vain whatever the emitter does: least_bytes − distinct_bytes; 0 where the elements lie in as few "
               "segments, tiles or lines as could hold them, and where outputs combine elements; empty where "
                   "it is not known what is read", "bytes", rank=1, heading="unused"),
        Column("again_bytes", ColumnKind.INTEGER, "bytes that are fetched again, at most, because neighbouring outputs stream elements that lie apart: most_bytes − what the reads take if "
               "these elements are contiguous, or least_bytes where that is more; of a Pallas kernel, blocks that it moves again; 0 for other ways of reading; empty where that is not known", "bytes", rank=1, heading="refetched"),
        Column("knowledge", ColumnKind.TEXT, "how much is known of what is read", choices=vocabularies.KNOWLEDGE),
        Column("map", ColumnKind.TEXT, "from the index of an output to the index of the operand; several ways of reading are several lines"),
        Column("source", ColumnKind.TEXT, "the line of the program that the instruction comes from", rank=2),
        Column("op_name", ColumnKind.TEXT, "the operation of the program that it comes from"),
        Column("error", ColumnKind.TEXT, "why it is not known how the instruction reads"),
        Column("mend", ColumnKind.TEXT, "what to write in JAX so that a read fetches less in vain or again: another layout of an argument or a result; empty where XLA alone decides", rank=1, heading="what mends it"),
    ),
    totals=(
        Column("name", ColumnKind.TEXT, "the name of the module", heading="module"),
        Column("target", ColumnKind.TEXT, "the device whose memory is read", choices=TARGET_NAMES),
        Column("evidence", ColumnKind.TEXT, "what in the module says which device it is for", heading="known by"),
        Column("unit", ColumnKind.TEXT, "what segments, tiles or lines count", heading="counted"),
        *[_SUMS[number]._replace(rank=0) for number in (3, 4, 2, 0, 1, 5)],
        NOTES,
    ),
    sections=(
        Section("accesses", _ACCESS_COLUMNS, "every way in which an operand is read; a fusion may read it in several", structures=(
            INDEXING, Structure("physical", "IndexingMap", "the map between positions in buffers as structure"),
        )),
        Section("writes", _WRITE_COLUMNS, "what the instructions write, in the order of the module"),
        by_section("reads", _SUMS, ("source", "op_name", "opcode", "computation", "layer", "each_layer")),
    ),
    options=(
        Option("instruction", ColumnKind.TEXT, "only this instruction, which may be a fused one", "", positional=True),
        Option("computation", ColumnKind.TEXT, "all instructions of this computation; without it those that read from memory", ""),
        Option("output", ColumnKind.INTEGER, "only the reads of this output; the arrays of a tuple are counted depth first"),
        Option("target", ColumnKind.TEXT, "the device; without it the one that the module names, or else a GPU. TPUs give layouts without tiles their own",
               None, TARGET_NAMES),
        Option("warp", ColumnKind.INTEGER, "the number of neighbouring outputs that read together, instead of the target's"),
        Option("segment_bytes", ColumnKind.INTEGER, "the bytes that are fetched together, instead of the target's"),
        FRAMES,
        STRICT,
    ),
    compute="xlashape.reports.reads:reads",
    rows="reads",
)  # fmt: skip


class Read(NamedTuple):
    """How one output of an instruction reads one operand. Each field is the column of its name in `REPORT`. A number is
    None where it is not known, or where the target has no such unit.
    """

    instruction: str
    computation: str
    output: int | None
    operand: int | None
    operand_name: str | None
    opcode: str
    access: tuple[str, ...]
    part_read: float | None
    is_upper_bound: bool | None
    times: float | None
    reused_along: tuple[str, ...]
    stride: int | None
    segments: float | None
    tiles: float | None
    lines: float | None
    ideal: float | None
    is_coalesced: bool | None
    tile_part: float | None
    relayout: str | None
    operand_shape: str | None
    bytes: int | None
    padding_bytes: int | None
    distinct_bytes: int | None
    least_bytes: int | None
    most_bytes: int | None
    wasted_bytes: int | None
    again_bytes: int | None
    knowledge: str | None
    map: str | None
    mend: str | None
    source: str
    op_name: str
    error: str | None = None
    runs: int | None = None

    @property
    def touched(self) -> float | None:
        """`segments`, `tiles` or `lines`: the one that the target has; None where it is not known."""
        touched = self.segments if self.segments is not None else self.tiles
        return self.lines if touched is None else touched

    @property
    def efficiency(self) -> float | None:
        """`ideal` ÷ the segments, tiles or lines that are touched, at most 1; None where these are not known."""
        return None if self.touched is None or self.ideal is None else self.ideal / self.touched

    def __str__(self) -> str:
        """The row as a sentence.

        >>> from xlashape.reports.reads import reads
        >>> text = "HloModule m ENTRY e { p = f32[64] parameter(0) ROOT s = f32[2] slice(p), slice={[0:64:32]} }"
        >>> print(reads(text).worst()[0])
        s reads 3.1% of p f32[64]{0}, streamed: 256 bytes are fetched for 8 bytes, 248 bytes in vain; 2 segments at a time, where 1 would do.
        """
        if self.error is not None:
            return f"{self.instruction}: it is not known how it reads: {self.error}"
        who = f"{self.instruction} reads"
        if self.part_read == 0:
            return f"{who} nothing of {self.operand_name} {self.operand_shape}."
        part = "" if self.part_read is None else f" {'at most ' if self.is_upper_bound else ''}{self.part_read:.1%} of"
        return f"{who}{part} {self.operand_name} {self.operand_shape}, {' and '.join(self.access)}{self._amount()}."

    def _amount(self) -> str:
        parts: list[str] = []
        if self.reused_along and self.times is not None:
            parts.append(f" {self.times:.4g} times along {', '.join(self.reused_along)}")
        if self.wasted_bytes is not None and self.least_bytes is not None and self.wasted_bytes:
            parts.append(
                f": {byte_text(self.least_bytes)} are fetched for {byte_text(self.distinct_bytes or 0)}, "
                f"{byte_text(self.wasted_bytes)} in vain"
            )
        elif self.least_bytes is not None and self.most_bytes is not None and self.most_bytes > self.least_bytes:
            parts.append(
                f": {byte_text(self.least_bytes)} to {byte_text(self.most_bytes)} are fetched, by how much reuse is "
                "caught"
            )
        unit = next((name for name in ("segments", "tiles", "lines") if getattr(self, name) is not None), None)
        if unit is not None and self.ideal is not None and (self.touched or 0) > self.ideal:
            parts.append(f"; {self.touched:.4g} {unit} at a time, where {self.ideal:.4g} would do")
        return "".join(parts)


class ReadAccess(NamedTuple):
    """One way in which one output of an instruction reads an array of an operand. Each field is the column of its name
    in the section `accesses`, and None where it is not known."""

    instruction: str
    computation: str
    output: int
    operand: int
    operand_name: str
    leaf: int
    access: str
    reused_along: tuple[str, ...]
    stride: int | None
    segments: float | None
    tiles: float | None
    lines: float | None
    ideal: float | None
    lanes: float | None
    sublanes: float | None
    relayout: str | None
    map: str
    physical_map: str
    indexing: OperandIndexing
    """The map itself, and where the values of its variables come from."""
    physical: IndexingMap | None
    """The map between positions in buffers itself."""


class Lanes(NamedTuple):
    """How a way of reading uses the tiles of a TPU that it touches. None on other targets."""

    lanes: float | None = None
    """The part of the lanes that is used, 0.0 to 1.0."""
    sublanes: float | None = None
    """The part of the sublanes that is used, 0.0 to 1.0."""
    relayout: str | None = None
    """What elements change from operand to output: `lanes`, `sublanes`, `lanes and sublanes` or `none`."""


class Way(NamedTuple):
    """One way of reading an operand, and its measurements."""

    access: OperandIndexing
    """The simplified map from indices of the output to indices of the operand."""
    physical: OperandIndexing | None
    """The map from positions in the output's buffer to positions in the operand's; None where it is not known."""
    consumer: Consumer
    sample: Sample
    """The segments, tiles or lines that neighbouring outputs touch."""
    lanes: Lanes


class Ways(NamedTuple):
    """The ways in which one output reads one operand."""

    who: tuple[str, str, int, int, str]
    """Instruction, computation, output, operand, name of the operand."""
    ways: tuple[Way, ...]


class Measured(NamedTuple):
    """How an output reads an operand."""

    columns: tuple[Any, ...]
    """The columns of the operand's row from `access` to `map`."""
    ways: tuple[Way, ...]
    lost: int
    """The bytes that are fetched in vain or again."""
    distinct: int
    """The bytes of the elements that are read."""
    mend: Any = None
    """What mends the read: a Mend of `mends.py`, or None."""


class OperandRead(NamedTuple):
    """How an instruction reads an operand for an output."""

    output: int
    number: int
    """The number of the operand."""
    measured: Measured


class Alike(NamedTuple):
    """What holds for all instructions that read alike."""

    operands: tuple[OperandRead, ...]
    """By output and operand."""
    worst_first: tuple[OperandRead, ...]
    """Those first of which most is fetched in vain or again."""
    size: tuple[str, int | None, int | None]
    """The text of the result's shape on the device, the bytes of its buffers, and how many are padding."""
    error: XlashapeError | None = None
    """Why it is not known how they read."""


class Write(NamedTuple):
    """The shape that an instruction writes, and its bytes. Each field is the column of its name in the section
    `writes`."""

    instruction: str
    computation: str
    opcode: str
    shape: str
    bytes: int | None
    padding_bytes: int | None
    error: str | None


def _sum(rows: Sequence[Read], name: str) -> int:
    """The sum of a column of bytes in one run of the program."""
    return sum([(getattr(row, name) or 0) * (1 if row.runs is None else row.runs) for row in rows])


def units_touched(sample: Sample, kind: str) -> dict[str, float | None]:
    """How many units of memory are touched, under the name that they have on a device of this kind: gpu, tpu or cpu.
    The other two names have None."""
    names = {"segments": "gpu", "tiles": "tpu", "lines": "cpu"}
    return {name: sample.segments if of_kind == kind else None for name, of_kind in names.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Reads(Computed[Read], Frozen):
    """What the instructions of a module read: a row for each operand and output. Instructions that fetch most in vain
    and again come first."""

    __slots__ = ("_notes", "alike", "device", "module", "reads")

    report: ClassVar[Report] = REPORT
    module: HloModule
    device: Device
    reads: tuple[Read, ...]
    alike: dict[HloInstruction, Alike]
    """The instructions in the order of the module → how they read."""

    @property
    def ways(self) -> tuple[Ways, ...]:
        """How each operand is read, with indexing maps as objects, in the order of the module."""
        return tuple(
            [
                Ways((each.name, each.computation.name, output, number, each.operands[number].name), measured.ways)
                for each, alike in self.alike.items()
                for output, number, measured in alike.operands
            ]
        )

    @property
    def writes(self) -> tuple[Write, ...]:
        """What the instructions write, in the order of the module."""
        return tuple(
            [
                Write(
                    each.name, each.computation.name, str(each.opcode), *alike.size,
                    None if alike.error is None else alike.error.message,
                )
                for each, alike in self.alike.items()
            ]
        )  # fmt: skip

    @property
    def errors(self) -> dict[str, XlashapeError]:
        """The instructions whose reads are not known, and why."""
        return {each.name: alike.error for each, alike in self.alike.items() if alike.error is not None}

    @property
    def accesses(self) -> tuple[ReadAccess, ...]:
        """Every way in which an operand is read, in the order of the module."""
        kind = self.device.kind
        made: list[ReadAccess] = []
        for who, ways in self.ways:
            for way in ways:
                physical = "" if way.physical is None else way.physical.map.to_text()
                units = units_touched(way.sample, kind)
                segments, tiles, lines = units["segments"], units["tiles"], units["lines"]
                made.append(
                    ReadAccess(
                        *who, way.access.leaf, *way.consumer, way.sample.stride, segments, tiles, lines,
                        way.sample.ideal, *way.lanes, way.access.map.to_text(), physical, way.access,
                        way.physical and way.physical.map,
                    )
                )  # fmt: skip
        return tuple(made)

    @property
    def name(self) -> str:
        """The name of the module."""
        return self.module.name

    @property
    def target(self) -> str:
        """The device whose memory is read."""
        return self.device.target.name

    @property
    def evidence(self) -> str:
        """The reason why the module counts as one for this device."""
        return self.device.evidence

    @property
    def unit(self) -> str:
        """What `segments`, `tiles` or `lines` count."""
        return self.device.unit

    @property
    def instructions(self) -> int:
        """How many instructions read arrays from memory."""
        return len(self.alike)

    @property
    def operands(self) -> int:
        """How many operands the instructions read, each counted once for every output that reads it."""
        return sum([row.error is None for row in self.reads])

    @property
    def rows(self) -> tuple[Read, ...]:
        """Another name of `reads`."""
        return self.reads

    @property
    def distinct_bytes(self) -> int:
        """The bytes of the elements that are read in one run of the program, summed where they are known."""
        return _sum(self.reads, "distinct_bytes")

    @property
    def wasted_bytes(self) -> int:
        """The bytes that are fetched in vain in one run of the program, summed where they are known."""
        return _sum(self.reads, "wasted_bytes")

    @property
    def again_bytes(self) -> int:
        """The bytes that are fetched again in one run of the program, at most, since neighbouring outputs stream
        elements that lie apart; summed where they are known."""
        return _sum(self.reads, "again_bytes")

    @property
    def failed(self) -> int | None:
        """How many instructions have an error; None if there are none."""
        return len(self.errors) or None

    def headline(self) -> str:
        """The totals, those of main memory where the program uses other memories too, and the first instructions whose
        reads are not known."""
        main = [row for row in self.reads if not ELSEWHERE.search(row.operand_shape or "")]
        where: list[str] = []
        if 0 < len(main) < len(self.reads):
            read, unused, again = (short_bytes(_sum(main, each)) for each in _SUMMED)
            where = [f"of main memory        {read} read, {unused} fetched unused, up to {again} fetched again"]
        errors = [f"{name} is not known: {error.message}" for name, error in self.errors.items()]
        more = [f"{len(errors) - _SHOWN_ERRORS:,} more are not known."] if len(errors) > _SHOWN_ERRORS else []
        return "\n".join([super().headline(), *where, *errors[:_SHOWN_ERRORS], *more])

    def worst(self, count: int = 10) -> tuple[Read, ...]:
        """The first rows: those of the instructions that fetch most bytes in vain and again.

        >>> from xlashape.reports.reads import reads
        >>> text = (
        ...     "HloModule m ENTRY e { p = f32[64,64] parameter(0) ROOT s = f32[64,1] slice(p), slice={[0:64], [3:4]} }"
        ... )
        >>> (worst,) = reads(text).worst(1)
        >>> worst.segments, worst.ideal, worst.distinct_bytes, worst.least_bytes, worst.wasted_bytes
        (32.0, 1.0, 256, 8192, 7936)
        """
        return self.reads[: max(0, count)]

    def selected(self, rows: Sequence[Read]) -> Reads:
        """The answer about these rows alone, with the sums over them."""
        names = {(row.computation, row.instruction) for row in rows}
        alike = {each: found for each, found in self.alike.items() if (each.computation.name, each.name) in names}
        return Reads(self.module, self.device, tuple(rows), alike).with_notes(self.notes)
