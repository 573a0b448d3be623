"""The answer of `copies`: its rows, its sums by cause, its suggestions, and the declaration of their columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Final, NamedTuple

from xlashape.base.display import printable
from xlashape.base.frozen import Frozen
from xlashape.base.math import byte_text, counted
from xlashape.base.tables import Column, ColumnKind
from xlashape.hlo.module import HloModule
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode
from xlashape.reports import vocabularies
from xlashape.reports.report import FRAMES, NOTES, STRICT, Computed, Option, Report, Section, by_section
from xlashape.reports.text import listing_text, not_shown, short_bytes
from xlashape.shape import Layout, Shape


class Copy(NamedTuple):
    """An executed instruction that moves data and computes nothing. `_COPY_COLUMNS` says what the fields are."""

    name: str
    opcode: Opcode | UnknownOpcode
    cause_kind: str
    total_bytes: int | None
    bytes: int | None
    bytes_read: int | None
    bytes_written: int | None
    times: int
    times_bound: str
    from_layout: Layout | None
    to_layout: Layout | None
    shape: Shape | None
    forced_by: str | None
    producer: str
    consumer: str | None
    source: str | None
    op_name: str | None
    pass_name: str | None
    inferred_pass: str | None
    is_inferred: bool
    stage: str | None
    computation: str
    mover: str
    movers: tuple[str, ...]
    computes: bool
    cause: str
    suggestion: str | None
    saved_bytes: int | None
    is_exact: bool | None


_COPY_COLUMNS: Final = (
    Column("name", ColumnKind.TEXT, "the instruction that moves the data", rank=1),
    Column("opcode", ColumnKind.TEXT, "the opcode of the copy; fusion where it is a fusion that only moves"),
    Column("cause_kind", ColumnKind.TEXT, "why the data is moved", rank=2, choices=vocabularies.COPY_CAUSES),
    Column("total_bytes", ColumnKind.INTEGER, "the bytes that one copy moves × how often it runs", "bytes", rank=3),
    Column("bytes", ColumnKind.INTEGER, "the bytes that one execution reads and writes, padding of tiles included", "bytes"),
    Column("bytes_read", ColumnKind.INTEGER, "the bytes that the copy reads: of a slice, the slice", "bytes"),
    Column("bytes_written", ColumnKind.INTEGER, "the bytes that the copy writes", "bytes"),
    Column("times", ColumnKind.INTEGER, "how often it is executed in one execution of the module", rank=7),
    Column("times_bound", ColumnKind.TEXT, "how exactly `times` is known", choices=vocabularies.TIMES_BOUNDS),
    Column("from_layout", ColumnKind.TEXT, "the layout of the array that is moved", rank=5),
    Column("to_layout", ColumnKind.TEXT, "the layout that it gets", rank=6),
    Column("shape", ColumnKind.TEXT, "the array that it makes"),
    Column("forced_by", ColumnKind.TEXT, "what fixes the layout, or the use that would overwrite the buffer", rank=4),
    Column("producer", ColumnKind.TEXT, "what made the data, before bitcasts and tuples"),
    Column("consumer", ColumnKind.TEXT, "what takes the result, and of several the one that fixes layouts"),
    Column("source", ColumnKind.TEXT, "the line of the program; that of a neighbour where the compiler noted none", rank=8),
    Column("op_name", ColumnKind.TEXT, "the operation of the program, as JAX names it"),
    Column("pass_name", ColumnKind.TEXT, "the pass of the compiler that inserted it, from dumps after passes, `program` if it was there before all; not set without such dumps"),
    Column("inferred_pass", ColumnKind.TEXT, "the pass that inserts such an instruction; not set if the program itself may have it"),
    Column("is_inferred", ColumnKind.BOOLEAN, "whether no dump after passes says which pass inserted it"),
    Column("stage", ColumnKind.TEXT, "the pipeline of the pass, and of copy-insertion its stage"),
    Column("computation", ColumnKind.TEXT, "the computation that it is in"),
    Column("mover", ColumnKind.TEXT, "the instruction that decides the cause: itself, or one in the fusion"),
    Column("movers", ColumnKind.TEXTS, "every instruction in it that moves data"),
    Column("computes", ColumnKind.BOOLEAN, "whether it is a fusion that also computes: bytes are then those that it reads and writes for its copies alone"),
    Column("cause", ColumnKind.TEXT, "why it is there, in a sentence"),
    Column("suggestion", ColumnKind.TEXT, "the edit of the program that removes it, or what may help"),
    Column("saved_bytes", ColumnKind.INTEGER, "the total bytes that the edit saves; not set where no edit is known to", "bytes"),
    Column("is_exact", ColumnKind.BOOLEAN, "whether the edit removes exactly this; otherwise other users share the buffer, and the compiler may move data elsewhere"),
)  # fmt: skip


class CopiesOfCause(NamedTuple):
    """The sums over the copies of one kind of cause. `_CAUSE_COLUMNS` says what the fields are."""

    cause_kind: str
    copies: int
    total_bytes: int
    share: float
    saved_bytes: int


_CAUSE_COLUMNS: Final = (
    Column("cause_kind", ColumnKind.TEXT, "the kind of cause", rank=1, choices=vocabularies.COPY_CAUSES),
    Column("copies", ColumnKind.INTEGER, "how many instructions", rank=3),
    Column("total_bytes", ColumnKind.INTEGER, "the bytes that they read and write in one execution of the module", "bytes", rank=2),
    Column("share", ColumnKind.NUMBER, "the bytes of the copies with this cause ÷ the bytes of all copies", "fraction", rank=4, heading="of the copies"),
    Column("saved_bytes", ColumnKind.INTEGER, "what exact suggestions save of it", "bytes", rank=5),
)  # fmt: skip


class CopySuggestion(NamedTuple):
    """Edits of the program that belong together, and the copies that they remove. `_SUGGESTION_COLUMNS` says what the
    fields are.
    """

    text: str
    kinds: tuple[str, ...]
    saved_bytes: int
    copies: int
    removes: tuple[str, ...]
    is_exact: bool
    edits: tuple[str, ...]
    """The edits in a short form for programs: `layout 0 (1, 0)`, `layout {1} (1, 0)`, `order 0 (0, 2, 1)`, `donate 0`,
    `first {1}`, `carry 0`.
    """


_SUGGESTION_COLUMNS: Final = (
    Column("text", ColumnKind.TEXT, "the edits, in JAX's words", rank=1),
    Column("kinds", ColumnKind.TEXTS, "the kinds of edits", choices=vocabularies.COPY_EDITS),
    Column("saved_bytes", ColumnKind.INTEGER, "the total bytes of the copies that it removes", "bytes", rank=2),
    Column("copies", ColumnKind.INTEGER, "how many copies it removes", rank=3),
    Column("removes", ColumnKind.TEXTS, "the names of the copies that the change removes"),
    Column("is_exact", ColumnKind.BOOLEAN, "whether recompiling removes exactly the copies of `removes`", rank=4),
    Column("edits", ColumnKind.TEXTS, "for programs: `layout 0 (1, 0)` is another layout of parameter 0, major to minor, `layout {1} (1, 0)` one of an output; `order 0 (0, 2, 1)` a transposed argument or result; `donate 0` a donation; `first {1}` returns an output before the others; `carry 0` carries a donated array through its scan"),
)  # fmt: skip

_LEAST_SHARE: Final = 0.01
"""Suggestions that save a smaller part are not in the headline."""
_SUMS: Final = (
    Column("copies", ColumnKind.INTEGER, "how many instructions only move data, or are fusions that copy an array while they compute", rank=2),
    Column("total_bytes", ColumnKind.INTEGER, "what copies read and write in one execution of the module, padding included", "bytes", rank=1),
    Column("saved_bytes", ColumnKind.INTEGER, "what the suggestions save of it that are exact", "bytes", rank=2),
)  # fmt: skip

REPORT: Final = Report(
    name="copies",
    summary="Which instructions move data and compute nothing, what forces them, and the edits that remove them.",
    columns=_COPY_COLUMNS,
    totals=(
        Column("module", ColumnKind.TEXT, "the name of the module"),
        *[each._replace(rank=0) for each in _SUMS],
        Column("has_pass_dumps", ColumnKind.BOOLEAN, "whether there were dumps after passes, so that passes are exact"),
        NOTES,
    ),
    sections=(
        Section("causes", _CAUSE_COLUMNS, "a row for each kind of cause"),
        Section("suggestions", _SUGGESTION_COLUMNS, "a row for each set of edits, by what it saves"),
        by_section("copies", _SUMS, ("source", "op_name", "opcode", "computation", "layer", "each_layer")),
    ),
    options=(
        Option("passes", ColumnKind.TEXT, "a directory with dumps after passes of the compiler; without it, that of the file", is_local=True),
        FRAMES,
        STRICT,
    ),
    compute="xlashape.reports.copies:copies",
    rows="rows",
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Copies(Frozen, Computed[Copy]):
    """The instructions of a module that only move data. `str()` is the text for people."""

    __slots__ = ("_notes", "_program", "has_pass_dumps", "module", "rows", "suggestions")
    report = REPORT

    module: str
    rows: tuple[Copy, ...]
    """By descending total bytes."""
    suggestions: tuple[CopySuggestion, ...]
    """By descending bytes that the edits save."""
    has_pass_dumps: bool
    _program: HloModule | None

    @property
    def copies(self) -> int:
        """How many instructions only move data, or copy an array while they compute."""
        return len(self.rows)

    @property
    def total_bytes(self) -> int:
        """The bytes that these instructions read and write in one execution of the module."""
        return sum([row.total_bytes or 0 for row in self.rows])

    @property
    def saved_bytes(self) -> int:
        """The bytes that the suggestions whose effect is exact save in one execution of the module."""
        return sum([row.saved_bytes or 0 for row in self.rows if row.is_exact])

    def sums_of(self, rows: Sequence[Copy]) -> dict[str, Any]:
        """The totals of these copies."""
        return Copies(self.module, tuple(rows), (), self.has_pass_dumps, None).totals

    @property
    def causes(self) -> tuple[CopiesOfCause, ...]:
        """The sums by kind of cause, largest first."""
        whole = self.total_bytes
        found: dict[str, CopiesOfCause] = {}
        for row in self.rows:
            before = found.get(row.cause_kind) or CopiesOfCause(row.cause_kind, 0, 0, 0.0, 0)
            size = before.total_bytes + (row.total_bytes or 0)
            saved = before.saved_bytes + ((row.saved_bytes or 0) if row.is_exact else 0)
            share = size / whole if whole else 0.0
            found[row.cause_kind] = CopiesOfCause(row.cause_kind, before.copies + 1, size, share, saved)
        return tuple(sorted(found.values(), key=lambda each: -each.total_bytes))

    def headline(self) -> str:
        """The sum, its causes, and the best edits."""
        return "\n".join(self._lines(with_first=True))

    def _lines(self, *, with_first: bool) -> list[str]:
        """The lines of the headline; `with_first` adds the cause of the copy that costs most."""
        module = self.module or "module"
        if not self.rows:
            return [f"{module}: no instruction only moves data"]
        fused = sum([row.computes for row in self.rows])
        only = len(self.rows) - fused
        parts = [f"{counted(only, 'instruction')} only move{'s' if only == 1 else ''} data"] if only else []
        if fused:
            parts.append(f"{counted(fused, 'fusion')} cop{'ies' if fused == 1 else 'y'} an array while computing")
        moving = Counter([row.cause_kind for row in self.rows if row.total_bytes != 0])
        causes = [
            f"{each.cause_kind} {each.share:.0%} in {counted(moving[each.cause_kind], 'copy')}"
            for each in self.causes[:4]
            if each.total_bytes
        ]
        lines = [f"{module}: {' and '.join(parts)}: {byte_text(self.total_bytes)} read and written"]
        lines += [f"  {'; '.join(causes)}"] if causes else []
        if with_first:
            lines.append(f"  {self.rows[0].name}: {self.rows[0].cause}")
        for each in [each for each in self.suggestions[:2] if each.saved_bytes >= _LEAST_SHARE * self.total_bytes]:
            about = "" if each.is_exact else "at most "
            lines.append(f"  saves {about}{byte_text(each.saved_bytes)}: {each.text}")
        if not self.has_pass_dumps:
            lines.append("  passes are inferred; dumps with --xla_dump_hlo_pass_re=.* beside the file make them exact")
        return lines

    def to_text(self, limit: int | None = None, *, width: int | None = None, hint: str = "") -> str:
        """The headline, and the copies that cost most, each with its cause and what removes it. Copies with the same
        opcode, kind of cause, bytes, shape, layouts and number of executions are one row.
        """
        groups: dict[object, list[Copy]] = {}
        for row in self.rows:
            key = row.opcode, row.cause_kind, row.total_bytes, str(row.shape), row.times, row.from_layout, row.to_layout
            groups.setdefault(key, []).append(row)
        most = self.report.shown if limit is None else limit
        made = sorted(groups.values(), key=lambda group: -sum([row.total_bytes or 0 for row in group]))
        shown = made[: most or None]
        lines = self._lines(with_first=False)
        if width is not None:
            lines = [
                part for line in lines for part in wrap(line, width, subsequent_indent="    ", break_on_hyphens=False)
            ]
        parts = ["\n".join([*lines, *self.notes])]
        if shown:
            parts.append(listing_text(("moved", "instruction"), [_listed(group) for group in shown], width))
        if len(shown) < len(groups):
            parts.append(not_shown(len(groups) - len(shown), hint))
        return printable("\n\n".join(parts))


def _listed(alike: Sequence[Copy]) -> tuple[str, str, str]:
    """A row of the text for copies that are alike: their bytes, the cause of the first copy, and further facts about
    that copy.
    """
    first = alike[0]
    name = first.name if len(alike) == 1 else f"{first.name} and {len(alike) - 1:,} alike"
    size = None if first.total_bytes is None else sum([row.total_bytes or 0 for row in alike])
    bound = {"exact": "", "unknown": "perhaps "}.get(first.times_bound, f"{first.times_bound} ")
    times = "once" if first.times == 1 else f"{first.times:,} times"
    parts = [
        "" if first.pass_name is None else f"by {first.pass_name}",
        f"runs {bound}{times}" if first.times != 1 or bound else "",
        str(first.shape) if first.shape is not None else "",
        first.source or "",
        f"to remove it: {first.suggestion}" if first.suggestion else "",
    ]
    return (
        "?" if size is None else short_bytes(size),
        f"{name}: {first.cause}",
        " · ".join([each for each in parts if each]),
    )
