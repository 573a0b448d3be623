"""The answer of `summary`: its findings, what is fine, and the declaration of their columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from xlashape.base.math import counted
from xlashape.base.tables import Column, ColumnKind
from xlashape.reports import vocabularies
from xlashape.reports.report import FRAMES, NOTES, STRICT, Computed, Option, Report, Section
from xlashape.reports.text import cell_text, short_bytes
from xlashape.shape.parts.target import TARGET_NAMES

_SHARE: Final = Column("share", ColumnKind.NUMBER, "the part of the measure that it costs, and that its change saves where it has one", "fraction", rank=1)  # fmt: skip

REPORT: Final = Report(
    name="summary",
    summary="What stands out in a program, first what costs most, each with what mends it; and what is fine.",
    columns=(
        _SHARE,
        Column("measure", ColumnKind.TEXT, "what it is a part of", rank=1, heading="of", choices=vocabularies.MEASURES),
        Column("kind", ColumnKind.TEXT, "the report that has the details", rank=2, choices=vocabularies.FINDINGS),
        Column("text", ColumnKind.TEXT, "what was found, in a sentence", rank=1),
        Column("fix", ColumnKind.TEXT, "the change of the program that mends it; empty where none is known that was tried", rank=2),
        Column("bytes", ColumnKind.INTEGER, "the bytes that it costs in a run of the program, or holds at the peak", "bytes", rank=2),
        Column("times", ColumnKind.INTEGER, "how many instructions it is about", rank=3),
        Column("where", ColumnKind.TEXT, "the layer, with repeated layers as one, or else the instruction", rank=3),
        Column("instruction", ColumnKind.TEXT, "the instruction that costs most of them"),
        Column("source", ColumnKind.TEXT, "the line of the program", rank=3),
    ),
    totals=(
        Column("module", ColumnKind.TEXT, "the name of the module"),
        Column("instructions", ColumnKind.INTEGER, "the instructions of the module"),
        Column("argument_bytes", ColumnKind.INTEGER, "the bytes of the arguments", "bytes", heading="arguments"),
        Column("peak_bytes", ColumnKind.INTEGER, "the peak of the main memory of a run; not set before XLA's optimizations", "bytes", heading="peak"),
        Column("is_estimate", ColumnKind.BOOLEAN, "whether the peak is estimated", heading="estimate"),
        Column("bytes", ColumnKind.INTEGER, "what instructions read and write in main memory in a run; not set before XLA's optimizations", "bytes", heading="read and written"),
        Column("flops", ColumnKind.INTEGER, "the FLOPs of a run", "flops", heading="FLOPs"),
        Column("least_time", ColumnKind.NUMBER, "the least time of a run on the target", "seconds"),
        Column("sent_bytes", ColumnKind.INTEGER, "what the busiest device sends in a run", "bytes", heading="sent"),
        Column("target", ColumnKind.TEXT, "the device that was asked for", choices=TARGET_NAMES),
        NOTES,
    ),
    sections=(
        Section("fine", (
            Column("kind", ColumnKind.TEXT, "the report that has the details", rank=1, choices=vocabularies.FINDINGS),
            Column("text", ColumnKind.TEXT, "what is fine, in a sentence", rank=1),
        ), "what was looked at and costs little"),
    ),
    options=(
        Option("target", ColumnKind.TEXT, "the chip whose peaks and links give the least times", None, TARGET_NAMES),
        Option("profile", ColumnKind.TEXT, "a profile of a run of the program, whose times count too", None, is_local=True),
        FRAMES,
        STRICT,
    ),
    compute="xlashape.reports.summary:summary",
)  # fmt: skip


_OTHERS: Final = "Where most of it goes, without a change that is sure to help:"
_NONE_MENDED: Final = "No change is known that is sure to help. Where most of it goes:"


class Finding(NamedTuple):
    """Something that costs much. The columns of `REPORT` say what the fields are."""

    share: float
    measure: str
    kind: str
    text: str
    fix: str | None
    bytes: int | None
    times: int
    where: str
    instruction: str | None
    source: str | None


class Fine(NamedTuple):
    """Something that was looked at and costs little."""

    kind: str
    text: str


class Summary(Computed[Finding]):
    """What stands out in a program. `str()` is the text for people."""

    report: ClassVar[Report] = REPORT

    rows: Sequence[Finding]
    fine: Sequence[Fine] = ()
    module: str
    instructions: int
    argument_bytes: int
    peak_bytes: int | None
    is_estimate: bool
    bytes: int | None
    flops: int | None
    least_time: float | None
    sent_bytes: int
    target: str | None

    def __init__(self, rows: Sequence[Finding], fine: Sequence[Fine], totals: Mapping[str, Any]) -> None:
        """`totals`: the totals of `REPORT` by name, without notes."""
        self.rows, self.fine = rows, fine
        self.__dict__.update(totals)

    def headline(self) -> str:
        """What the program takes: instructions, memory, work, time and communication."""
        parts = [counted(self.instructions, "instruction")]
        if self.peak_bytes is None:
            parts.append(f"{short_bytes(self.argument_bytes)} of arguments")
        else:
            parts.append(f"peak {short_bytes(self.peak_bytes)}{' (estimated)' if self.is_estimate else ''}")
        if self.bytes is not None:
            parts.append(f"{short_bytes(self.bytes)} read and written in main memory")
        parts.append("FLOPs not known" if self.flops is None else f"{_cell('flops', self.flops)} FLOPs")
        if self.least_time is not None:
            parts.append(f"at least {_cell('least_time', self.least_time)} a run on {self.target}")
        if self.sent_bytes:
            parts.append(f"{short_bytes(self.sent_bytes)} sent by each device")
        return f"{self.module}: {'; '.join(parts)}"

    def to_text(self, limit: int | None = None, *, width: int | None = None, hint: str = "") -> str:
        """The findings that a change mends as numbered paragraphs, then the others, each from the one that costs most;
        and a line for what is fine. The arguments are those of every report.
        """
        del hint
        room = max(width or 120, 40)
        lines = [self.headline(), *[line for note in self.notes for line in textwrap.wrap(note, room)]]
        rows = self.rows if limit is None else self.rows[:limit]
        mended, others = ([row for row in rows if bool(row.fix) == has_fix] for has_fix in (True, False))
        told: dict[str, int] = {}
        for number, row in enumerate(mended, 1):
            first = told.setdefault((row.fix or "").partition(", which saves")[0], number)
            shown = row if first == number else row._replace(fix=f"the same change as {first}.")
            lines += ["", *_paragraph(f"{number}. ", shown, room)]
        if others:
            lines += ["", _OTHERS if mended else _NONE_MENDED]
        for row in others:
            lines += ["", *_paragraph("-  ", row, room)]
        if self.fine:
            lines += ["", *textwrap.wrap(f"Fine: {'; '.join(each.text for each in self.fine)}.", room)]
        return "\n".join(lines)


def _paragraph(begin: str, row: Finding, room: int) -> list[str]:
    """The lines of a finding."""
    first = f"{begin}{cell_text(_SHARE, row.share)} of the {row.measure}: {row.text}"
    lines = textwrap.wrap(first, room, subsequent_indent="   ", break_long_words=False)
    if row.fix:
        lines += textwrap.wrap(row.fix, room, initial_indent="   → ", subsequent_indent="     ")
    places = dict.fromkeys(filter(None, (row.source, row.instruction, f"xlashape {row.kind}")))
    return [*lines, f"   {' · '.join(places)}"]


def _cell(name: str, value: Any) -> str:
    return cell_text(next(each for each in REPORT.totals if each.name == name), value)
