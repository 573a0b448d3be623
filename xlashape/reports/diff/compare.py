"""The function `diff`, its answer `Diff`, which says what changed from one module to another, and the declaration of
the report. Changes are in `rows.py`; a measure is a number of both modules, such as `copies.bytes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from xlashape.base.collector import collector_paused
from xlashape.base.frozen import Frozen, set_field
from xlashape.base.math import counted
from xlashape.base.similar import did_you_mean
from xlashape.base.tables import Column, ColumnKind
from xlashape.errors import InvalidArgumentError
from xlashape.hlo.module import HloModule
from xlashape.hlo.module_proto.shown_frames import showing_frames
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.registry import operation_of
from xlashape.limits import INT64_MAX
from xlashape.reports import vocabularies
from xlashape.reports.copies.times import copied_bytes
from xlashape.reports.diff.graph import Side, are_equal, sides
from xlashape.reports.diff.matching import match
from xlashape.reports.diff.measures import ModuleMeasures
from xlashape.reports.diff.peak import PEAK_COLUMNS, PeakChange, memories, peak_changes
from xlashape.reports.diff.rows import Change, changes
from xlashape.reports.diff.text import answer_text, beside, measure_lines, peak_lines, verdict
from xlashape.reports.diff.units import Member, Units
from xlashape.reports.memory import ProgramMemory
from xlashape.reports.reads.find_reads import fused_copies
from xlashape.reports.report import FRAMES, Computed, Option, Report, Section, by_section
from xlashape.reports.text import short_bytes

_DELTAS: Final = (
    ("bytes", "bytes of buffers", "bytes"),
    ("padding_bytes", "bytes of buffers that are padding", "bytes"),
    ("bytes_read", "bytes that executed instructions read in one run", "bytes"),
    ("bytes_written", "bytes that executed instructions write in one run", "bytes"),
    ("copies", "copies", ""),
    ("copy_bytes", "bytes that copies read and write in one run", "bytes"),
    ("collectives", "collectives", ""),
    ("collective_bytes", "bytes of the results of collectives in one run", "bytes"),
    ("fusions", "fusions", ""),
    ("instructions", "instructions", ""),
    ("flops", "FLOPs in one run", "flops"),
)
_RANKS: Final = {"bytes": 2}


def _meaning(name: str, meaning: str) -> str:
    return f"how many more {meaning} the second module has" + "; none where they are not known" * (name == "flops")


_DELTA_COLUMNS: Final = tuple(
    [
        Column(
            f"delta_{name}",
            ColumnKind.INTEGER,
            _meaning(name, meaning),
            unit,
            _RANKS.get(name, 0),
            f"Δ {name.replace('_', ' ')}",
        )
        for name, meaning, unit in _DELTAS
    ]
)

COLUMNS: Final = (
    Column("kind", ColumnKind.TEXT, "how the instruction differs", rank=1, choices=vocabularies.CHANGE_KINDS),
    Column("what", ColumnKind.TEXTS, "in what respect: `copy`, `layout`, `element type`, `donation`, `fusion split`, …", rank=1),
    Column("opcode", ColumnKind.TEXT, "the opcode, in the second module where both have the instruction", rank=3),
    Column("a", ColumnKind.TEXT, "the name of the instruction in the first module", rank=4),
    Column("b", ColumnKind.TEXT, "the name of the instruction in the second module", rank=2),
    Column("times", ColumnKind.INTEGER, "how many changes are alike; the numbers are those of all of them", rank=3),
    *_DELTA_COLUMNS,
    Column("delta_segments", ColumnKind.NUMBER, "how many more segments of memory one read of a warp touches, summed over the operands, in the instructions that both modules have; none where reads do not differ or are not known", rank=0),
    Column("runs", ColumnKind.INTEGER, "how often the instruction runs in one run of the module, in the module in which it runs more often", rank=0),
    Column("details", ColumnKind.TEXT, "the values before and after", rank=6),
    Column("shape", ColumnKind.TEXT, "the shape of the result in the second module, or in the first one", rank=0),
    Column("source", ColumnKind.TEXT, "the line of the user's code that the instruction comes from", rank=5),
    Column("op_name", ColumnKind.TEXT, "the operation of the program that the instruction comes from", rank=0),
    Column("source_a", ColumnKind.TEXT, "the line of the user's code, in the first module", rank=0),
    Column("op_name_a", ColumnKind.TEXT, "the operation of the program, in the first module", rank=0),
    Column("source_b", ColumnKind.TEXT, "the line of the user's code, in the second module", rank=0),
    Column("op_name_b", ColumnKind.TEXT, "the operation of the program, in the second module", rank=0),
)  # fmt: skip

MEASURE_COLUMNS: Final = (
    Column("name", ColumnKind.TEXT, "the name of what is counted", rank=1),
    Column("unit", ColumnKind.TEXT, "the unit of the numbers; none for counts", rank=0),
    Column("a", ColumnKind.INTEGER, "in the first module", rank=2),
    Column("b", ColumnKind.INTEGER, "in the second module", rank=2),
    Column("delta", ColumnKind.INTEGER, "how much more in the second module", rank=1),
    Column(
        "note",
        ColumnKind.TEXT,
        "how far the numbers can be trusted: `estimated` where no module, or one alone, has XLA's assignment of "
        "buffers; why numbers are not known",
        rank=3,
    ),
)

REPORT: Final = Report(
    name="diff",
    summary="What changed from one module to another, matched by structure, ranked by what it costs.",
    columns=COLUMNS,
    totals=(
        Column("same", ColumnKind.BOOLEAN, "whether both modules are the same program"),
        Column("fingerprint_a", ColumnKind.TEXT, "the fingerprint of the first module"),
        Column("fingerprint_b", ColumnKind.TEXT, "the fingerprint of the second module"),
        Column("ignored", ColumnKind.INTEGER, "how many rows were left out because `ignore` names what changed in them"),
        *[Column(f"delta_{name}", ColumnKind.INTEGER, _meaning(name, meaning), unit) for name, meaning, unit in _DELTAS],
        Column("delta_peak_bytes", ColumnKind.INTEGER, "how much higher the peak of memory is in the second module", "bytes"),
    ),
    sections=(
        Section("measures", MEASURE_COLUMNS, "What the modules cost as a whole; the names are those that `--fail-if` takes"),
        Section("peak", PEAK_COLUMNS, "What left and entered the peak of memory; the numbers add up to how much it changed"),
        by_section("changes", (Column("times", ColumnKind.INTEGER, "how many changes they are", rank=2), *_DELTA_COLUMNS), ("source", "op_name", "opcode", "kind", "layer", "each_layer")),
    ),
    options=(
        Option("ignore", ColumnKind.TEXTS, "what does not count, as the column `what` or `kind` has it: `layout`, `sharding`, `moved`, …"),
        Option("schedule", ColumnKind.BOOLEAN, "whether every other schedule is a change; without it, one that makes another peak is", False),
        FRAMES,
    ),
    inputs=("a", "b"),
    compute="xlashape.reports.diff:diff",
    rows="changes",
    takes="A and B are files with HLO modules (text, proto, gzip), or two directories of dumps.",
)  # fmt: skip

WORDS: Final = (
    "added", "removed", "changed", "moved",
    "opcode", "shape", "element type", "layout", "tile", "memory space", "dynamic dimensions", "value", "operands",
    "control dependencies", "sharding", "replica groups", "aliasing", "donation", "entry layout", "copy", "collective",
    "recomputed", "replaced", "order", "schedule", "iterations", "backend_config", "frontend_attributes",
    "fusion split", "fusion merged", "fusion grown", "fusion shrunk", "fusion boundary", "fused", "unfused", "outlined",
    "inlined", "parameter number",
)  # fmt: skip
"""What the option `ignore` may name, beside the names of attributes in HLO text."""


class Measure(NamedTuple):
    """One number of both modules, such as their copies or their peaks of memory."""

    name: str
    unit: str
    a: int | None
    b: int | None
    note: str | None = None
    """How far the numbers can be trusted, such as `estimated`."""

    @property
    def delta(self) -> int | None:
        """How much more the second module has; None where a number is not known."""
        return None if self.a is None or self.b is None else self.b - self.a


class Diff(Computed[Change], Frozen):
    """What changed from module a to module b. The numbers of `changes` add up to the totals, but for the peak of
    memory, for numbers that are not known, and for rows that are ignored.
    """

    __slots__ = ("_by_name", "_of_peak", "changes", "ignored", "modules", "sums")

    report = REPORT

    changes: tuple[Change, ...]
    """The changes, those that cost most first."""
    ignored: int
    modules: tuple[HloModule, HloModule]
    sums: tuple[Measure, ...]
    """The measures that the comparison has computed: all but, unless schedules differ, the peak of memory."""
    _by_name: dict[str, Measure]
    _of_peak: tuple[ProgramMemory | None, ProgramMemory | None]

    def __init__(
        self, modules: tuple[HloModule, HloModule], changes: Sequence[Change], measures: Iterable[Measure], ignored: int
    ) -> None:
        set_field(self, "modules", modules)
        set_field(self, "changes", tuple(changes))
        set_field(self, "sums", tuple(measures))
        set_field(self, "ignored", ignored)

    @property
    def fingerprint_a(self) -> str:
        """The fingerprint of the first module, as it is now."""
        return self.modules[0].fingerprint()

    @property
    def fingerprint_b(self) -> str:
        """The fingerprint of the second module, as it is now."""
        return self.modules[1].fingerprint()

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The numbers of both modules. The first access computes the peak of memory and the copies inside fusions,
        which takes as long as the comparison.
        """
        return tuple(self._measured().values())

    def _measured(self) -> dict[str, Measure]:
        try:
            return self._by_name
        except AttributeError:
            every = (*self.sums, *_fused_copies(*self.modules), peak_of(*self._memories()))
            by_name = {each.name: each for each in every}
            set_field(self, "_by_name", by_name)
            return by_name

    def _memories(self) -> tuple[ProgramMemory | None, ProgramMemory | None]:
        try:
            return self._of_peak
        except AttributeError:
            set_field(self, "_of_peak", memories(*self.modules))
            return self._of_peak

    @property
    def peak(self) -> tuple[PeakChange, ...]:
        """What left and entered the peak of memory, by layer and line of the program. The numbers add up to how much
        the peak changed. Empty where a peak is not known.
        """
        return peak_changes(*self._memories())

    @property
    def same(self) -> bool:
        """Whether there is no change beside those that are ignored."""
        return not self.changes

    # The measures by the names of the totals.
    delta_bytes: int | None
    delta_padding_bytes: int | None
    delta_bytes_read: int | None
    delta_bytes_written: int | None
    delta_copies: int | None
    delta_copy_bytes: int | None
    delta_collectives: int | None
    delta_collective_bytes: int | None
    delta_fusions: int | None
    delta_instructions: int | None
    delta_flops: int | None
    delta_peak_bytes: int | None

    if not TYPE_CHECKING:  # checkers know the attributes from the lines above

        def __getattr__(self, name: str) -> Any:
            measure = _MEASURE_OF.get(name.removeprefix("delta_")) if name.startswith("delta_") else None
            if measure is not None:
                return self.measure(measure).delta
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def sums_of(self, rows: Sequence[Change]) -> dict[str, Any]:
        """The differences that these changes make."""
        found = {each.name: [getattr(row, each.name) for row in rows] for each in _DELTA_COLUMNS}
        sums = {name: None if None in values else sum(values) for name, values in found.items()}
        return {"times": sum([row.times for row in rows]), **sums}

    def measure(self, name: str) -> Measure:
        """A number of both modules by its name, such as `copies.bytes`. Raises InvalidArgumentError for other names."""
        return measure_of(self, name)

    def headline(self) -> str:
        """How many changes there are, and which numbers differ."""
        if self.same:
            text = f"The same program: {self.fingerprint_a}"
            return text if not self.ignored else f"No changes but {self.ignored:,} that are ignored"
        lines = [
            verdict(self.changes, self.measures),
            *measure_lines(self.measures),
            *peak_lines(self.peak if self.delta_peak_bytes else ()),
        ]
        return "\n".join([*lines, f"{self.ignored:,} rows are ignored"] if self.ignored else lines)

    def to_text(self, limit: int | None = None, *, width: int | None = None, hint: str = "") -> str:
        return answer_text(self, self.changes, limit, width=width, hint=hint)

    def side_by_side(self, row: int, *, width: int = 160) -> str:
        """The text of the instructions of a row of `changes`, a line each: an instruction of the first module with `-`,
        below it the one of the second with `+`. Lines are cut at `width` characters.
        """
        lines: list[str] = []
        for member in self.changes[row].nodes:
            for sign, node, module in zip("-+", member, self.modules, strict=True):
                if node is not None:
                    instruction = module.computations[node[0]].instructions[node[1]]
                    text = instruction.to_text(print_metadata=False)
                    lines.append(f"{sign} {text if len(text) <= width else text[: width - 1] + '…'}")
        return "\n".join(lines)

    def beside(self, name: str, *, width: int = 160) -> str:
        """The instruction or the computation `name` of either module, in columns beside what it is matched to in the
        other module.

        A fusion and a loop come with the computations that they call. `|` stands between lines that differ, `<` and `>`
        at what one module has alone. The modules are matched again. Raises NotFoundError for a name that neither has.

        >>> one = "HloModule m ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }"
        >>> print(diff(one, one.replace("negate", "abs")).beside("n", width=80))
        A                                        B
        ROOT %n = f32[8]{0} negate(%p)         | ROOT %n = f32[8]{0} abs(%p)
        """
        return beside(match(*sides(*self.modules)), name, width)


_MEASURE_OF: Final[dict[str, str]] = {
    "instructions": "instructions",
    "fusions": "fusions",
    "copies": "copies",
    "copy_bytes": "copies.bytes",
    "collectives": "collectives",
    "collective_bytes": "collectives.bytes",
    "bytes": "buffer_bytes",
    "padding_bytes": "padding_bytes",
    "bytes_read": "bytes_read",
    "bytes_written": "bytes_written",
    "flops": "flops",
    "peak_bytes": "peak_bytes",
}
"""Name of a total without `delta_` → name of the measure. All of them but `peak_bytes` are fields of `Measures`."""


@collector_paused()
def diff(a: Any, b: Any, *, ignore: Iterable[str] = (), schedule: bool = False, frames: str | None = None) -> Diff:
    """What changed from one module to another. Each may be whatever `HloModule.of` takes: a path, text, a message, an
    object of JAX.

    Instructions are matched by structure, data flow and op_name. What a fingerprint does not count
    (`xlashape.hlo.canonical`) is no change. `ignore` names further differences that do not count, by words of the
    columns `what` and `kind`. Another schedule is a change if the peak of memory differs, and always with `schedule`.
    With `frames="all"`, `source` names every frame that called an operation, and not the line of the user's own code
    alone. Raises what `HloModule.of` raises, and InvalidArgumentError for a word in `ignore` that does not exist.

    >>> one = "HloModule m ENTRY e { p = f32[256] parameter(0) ROOT n = f32[256] negate(p) }"
    >>> two = "HloModule m ENTRY f { q = f32[256] parameter(0) c = f32[256] copy(q) ROOT r = f32[256] negate(c) }"
    >>> d = diff(one, two)
    >>> d.same, d.changes[0].kind, str(d.changes[0].opcode), d.changes[0].b, d.changes[0].delta_bytes
    (False, 'added', 'copy', 'c', 1024)
    >>> diff(one, one).same
    True
    """
    modules = HloModule.of(a), HloModule.of(b)
    ignored_words = _ignored(ignore)
    with showing_frames(frames):
        return _compared(modules, ignored_words, schedule)


def _compared(modules: tuple[HloModule, HloModule], ignored_words: frozenset[str], schedule: bool) -> Diff:
    one, other = sides(*modules)
    is_same = are_equal(one, other)
    if is_same and not _other_schedules(*modules):
        return Diff(modules, (), _measures(one.measures, one.measures), 0)
    units = Units(match(one, other))
    rows = changes(one, other, units.units(), units.module_aspects)
    if not rows and not is_same:
        rows = (_other_order(modules),)
    peak = peak_of(*memories(*modules)) if units.rescheduled else None
    if peak is not None and (peak.delta or schedule):
        rows = _with_schedule(rows, one, other, units.rescheduled, peak)
    kept = [row for row in rows if not _is_ignored(row, ignored_words)]
    measures = _measures(one.measures, other.measures)
    return Diff(modules, kept, [*measures, peak] if peak is not None else measures, len(rows) - len(kept))


def _other_schedules(one: HloModule, other: HloModule) -> bool:
    """Whether both modules say in which order their instructions run, and the two orders differ."""
    return all(each.head.schedule.sequences for each in (one, other)) and (
        one.fingerprint(schedule=True) != other.fingerprint(schedule=True)
    )


def _with_schedule(
    rows: tuple[Change, ...], one: Side, other: Side, rescheduled: Sequence[tuple[Member, int, int]], peak: Measure
) -> tuple[Change, ...]:
    """The rows, with one more for the other schedule, behind the rows that cost bytes. rescheduled: as in `Units`."""
    (first, second), moved, count = max(rescheduled, key=lambda each: each[1])
    assert first is not None and second is not None
    a, b = one.computations[first[0]], other.computations[second[0]]
    names = a.hlo.name, b.hlo.name
    details = f"{moved:,} of {count:,} instructions run at another place, first {b.name(second[1])}"
    if peak.a is not None and peak.b is not None:
        details += f"; the peak of memory is {short_bytes(peak.a)} → {short_bytes(peak.b)}"
    if len(rescheduled) > 1:
        details += f"; {counted(len(rescheduled) - 1, 'more computation')} with another schedule"
    row = Change("changed", ("schedule",), "computation", *names, 1, details, names=(names,))
    costly = sum([each.cost > 0 for each in rows])
    return (*rows[:costly], row, *rows[costly:])


def _other_order(modules: tuple[HloModule, HloModule]) -> Change:
    """The row for modules that differ although all their instructions are equal: in the order of parameters or
    computations, or in which instructions share a channel.
    """
    names = (modules[0].name, modules[1].name)
    details = "the order of parameters or of computations, or which instructions share a channel"
    return Change("changed", ("order",), "module", *names, 1, details, names=(names,))


def _ignored(ignore: Iterable[str]) -> frozenset[str]:
    """The words of `ignore`, spelled as in the rows. Raises InvalidArgumentError for a word that is neither in WORDS
    nor the name of an attribute of HLO text; behind a dot, a word may have any keys, as in `backend_config.KEY`.
    """
    known = {*WORDS, *[use.attribute.name for opcode in Opcode for use in operation_of(opcode).attributes]}
    words: list[str] = []
    for name in [ignore] if isinstance(ignore, str) else ignore:
        word = name.strip()
        word = word.replace("-", " ") if word.replace("-", " ") in known else word
        if word.partition(".")[0] not in known:
            expected = f"expected {', '.join(sorted(known)[:40])}"
            message = f"ignore: there is nothing called {name!r}; {expected}{did_you_mean(word, known)}"
            raise InvalidArgumentError(message, field="ignore")
        words.append(word)
    return frozenset(words)


def _is_ignored(row: Change, words: frozenset[str]) -> bool:
    """Whether a row is of an ignored kind, or all words of its `what` are ignored."""
    if not words:
        return False
    if row.kind in words:
        return True
    return bool(row.what) and all(word in words or word.partition(".")[0] in words for word in row.what)


def _measures(one: ModuleMeasures, other: ModuleMeasures) -> list[Measure]:
    """All measures but the peak of memory."""
    made: list[Measure] = []
    for (name, before), after in zip(one.total()._asdict().items(), other.total(), strict=True):
        unit = next(unit for each, _, unit in _DELTAS if each == name)
        a, b = [
            None if name in side.unknown_totals else min(total, INT64_MAX)
            for side, total in ((one, before), (other, after))
        ]
        is_known = a is not None and b is not None
        note = None if is_known else "not known of all instructions, or how often these run is not"
        made.append(Measure(_MEASURE_OF[name], unit, a, b, note))
    return made


def measure_of(found: Any, name: str) -> Measure:
    """A number of a Diff, or of the answer of a server (`found`), by its name. Raises InvalidArgumentError for a name
    that does not exist.
    """
    if isinstance(found, Diff) and (quick := next((each for each in found.sums if each.name == name), None)):
        return quick
    by_name = {each.name: each for each in found.measures}
    if name not in by_name:
        message = f"there is no measure {name!r}; there are {', '.join(by_name)}{did_you_mean(name, by_name)}"
        raise InvalidArgumentError(message, field="measure")
    each = by_name[name]
    return Measure(each.name, each.unit or "", each.a, each.b, each.note)


def measures_of(module: HloModule) -> dict[str, int | None]:
    """The numbers of a module by the names of measures; None for those that are not known.

    >>> measures_of(HloModule.parse("HloModule m ENTRY e { p = f32[256] parameter(0) ROOT c = f32[256] copy(p) }"))[
    ...     "copies.bytes"
    ... ]
    2048
    """
    known = ModuleMeasures(module)
    return {
        **{each.name: each.a for each in (*_measures(known, known), *_fused_copies(module, module))},
        "peak_bytes": peak_of(*memories(module, module)).a,
    }


def _fused_copies(*modules: HloModule) -> tuple[Measure, Measure]:
    """The copies inside loop fusions that compute, and the bytes that they read. Fusions that compute nothing are
    `copies` with bytes."""
    found: dict[HloModule, list[int]] = {}
    for module in modules:
        copies = {each for each, size in copied_bytes(module) if size}
        found[module] = [size for each, size in fused_copies(module).items() if each not in copies]
    (a, b) = [found[module] for module in modules]
    return Measure("fused_copies", "", len(a), len(b)), Measure("fused_copies.bytes", "bytes", sum(a), sum(b))


def peak_of(one: ProgramMemory | None, other: ProgramMemory | None) -> Measure:
    """The peaks of memory of both modules."""
    found = [each for each in (one, other) if each is not None]
    note = "estimated" if any(each.is_estimate for each in found) else None
    peaks = [None if each is None else each.peak_bytes for each in (one, other)]
    return Measure("peak_bytes", "bytes", peaks[0], peaks[1], note)
