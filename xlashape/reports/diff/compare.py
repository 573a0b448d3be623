"""`diff`: what changed from one module to another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from xlashape.errors import DeadlineExceededError, InvalidArgumentError, LimitExceededError, XlashapeError
from xlashape.frozen import Frozen, set_field
from xlashape.hlo.module import HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.registry import operation_of
from xlashape.reports.diff.graph import Side
from xlashape.reports.diff.matching import match
from xlashape.reports.diff.measures import Measures, ModuleMeasures
from xlashape.reports.diff.rows import Change, changes
from xlashape.reports.diff.units import Units
from xlashape.reports.memory import memory
from xlashape.reports.report import Answer, Option, Report, Section
from xlashape.reports.text import short_bytes
from xlashape.similar import did_you_mean
from xlashape.tables import Column, Kind

_DELTAS: Final = (
    ("bytes", "bytes of buffers", "bytes"),
    ("padding_bytes", "bytes of buffers that are padding", "bytes"),
    ("bytes_read", "bytes that executed instructions read", "bytes"),
    ("bytes_written", "bytes that executed instructions write", "bytes"),
    ("copies", "copies", ""),
    ("copy_bytes", "bytes that copies write", "bytes"),
    ("collectives", "collectives", ""),
    ("collective_bytes", "bytes of the results of collectives", "bytes"),
    ("fusions", "fusions", ""),
    ("instructions", "instructions", ""),
)
_RANKS: Final = {"bytes": 2, "bytes_read": 6, "bytes_written": 7, "copies": 8, "instructions": 9}

COLUMNS: Final = (
    Column("kind", Kind.TEXT, "`added`, `removed`, `changed` or `moved`", rank=1),
    Column("what", Kind.TEXTS, "in what respect: `copy`, `layout`, `element type`, `donation`, `fusion split`, …", rank=1),
    Column("opcode", Kind.TEXT, "the opcode, in the second module where both have the instruction", rank=3),
    Column("a", Kind.TEXT, "the name of the instruction in the first module", rank=4),
    Column("b", Kind.TEXT, "the name of the instruction in the second module", rank=2),
    Column("times", Kind.INTEGER, "how many changes are alike; the numbers are those of all of them", rank=3),
    *[Column(f"delta_{name}", Kind.INTEGER, f"how many more {meaning} the second module has", unit, _RANKS.get(name, 0), f"Δ {name.replace('_', ' ')}") for name, meaning, unit in _DELTAS],
    Column("details", Kind.TEXT, "the values before and after", rank=6),
    Column("shape", Kind.TEXT, "the shape of the result in the second module, or in the first one", rank=0),
    Column("source", Kind.TEXT, "the line of the user's code that the instruction comes from", rank=5),
    Column("op_name", Kind.TEXT, "the operation of the program that the instruction comes from", rank=0),
    Column("source_a", Kind.TEXT, "the line of the user's code, in the first module", rank=0),
    Column("op_name_a", Kind.TEXT, "the operation of the program, in the first module", rank=0),
    Column("source_b", Kind.TEXT, "the line of the user's code, in the second module", rank=0),
    Column("op_name_b", Kind.TEXT, "the operation of the program, in the second module", rank=0),
)  # fmt: skip

MEASURE_COLUMNS: Final = (
    Column("name", Kind.TEXT, "what is counted", rank=1),
    Column("unit", Kind.TEXT, "the unit of the numbers; none for counts", rank=0),
    Column("a", Kind.INTEGER, "in the first module", rank=2),
    Column("b", Kind.INTEGER, "in the second module", rank=2),
    Column("delta", Kind.INTEGER, "how much more in the second module", rank=1),
)

REPORT: Final = Report(
    name="diff",
    summary="What changed from one module to another, matched by structure, ranked by what it costs.",
    columns=COLUMNS,
    totals=(
        Column("same", Kind.BOOLEAN, "whether both modules are the same program"),
        Column("fingerprint_a", Kind.TEXT, "the fingerprint of the first module"),
        Column("fingerprint_b", Kind.TEXT, "the fingerprint of the second module"),
        Column("ignored", Kind.INTEGER, "how many rows were left out because `ignore` names what changed in them"),
        *[Column(f"delta_{name}", Kind.INTEGER, f"how many more {meaning} the second module has", unit) for name, meaning, unit in _DELTAS],
        Column("delta_peak_bytes", Kind.INTEGER, "how much higher the peak of memory is in the second module", "bytes"),
    ),
    sections=(Section("measures", MEASURE_COLUMNS, "What the modules cost as a whole; the names are those that `--fail-if` takes"),),
    options=(
        Option("ignore", Kind.TEXTS, "what does not count, as the column `what` or `kind` has it: `layout`, `sharding`, `moved`, …"),
    ),
    inputs=("a", "b"),
    compute="xlashape.reports.diff:diff",
    rows="changes",
    takes="A and B are files with HLO modules (text, proto, gzip), or two directories of dumps.",
)  # fmt: skip

WORDS: Final = (
    "added", "removed", "changed", "moved",
    "opcode", "shape", "element type", "layout", "tile", "memory space", "dynamic dimensions", "value", "operands", "control dependencies", "sharding",
    "replica groups", "aliasing", "donation", "entry layout", "copy", "collective", "recomputed", "replaced", "order", "backend_config", "frontend_attributes",
    "fusion split", "fusion merged", "fusion grown", "fusion shrunk", "fusion boundary", "fused", "unfused", "outlined", "inlined", "parameter number",
)  # fmt: skip
"""What `ignore` may name, beside attributes of HLO text."""


class Measure(NamedTuple):
    """A number of both modules."""

    name: str
    unit: str
    a: int | None
    b: int | None

    @property
    def delta(self) -> int | None:
        """How much more the second module has."""
        return None if self.a is None or self.b is None else self.b - self.a


class Diff(Answer, Frozen):
    """What changed from module `a` to module `b`. The rows of `changes` sum up to the totals, but for the peak of memory and for rows that are ignored."""

    __slots__ = ("_by_name", "_sums", "changes", "fingerprint_a", "fingerprint_b", "ignored", "modules")

    report = REPORT

    changes: tuple[Change, ...]
    """What changed, what costs most first."""
    fingerprint_a: str
    fingerprint_b: str
    ignored: int
    modules: tuple[HloModule, HloModule]
    _sums: tuple[Measure, ...]
    _by_name: dict[str, Measure]

    def __init__(
        self, modules: tuple[HloModule, HloModule], changes: Sequence[Change], measures: Iterable[Measure], ignored: int
    ) -> None:
        set_field(self, "modules", modules)
        set_field(self, "fingerprint_a", modules[0].fingerprint())
        set_field(self, "fingerprint_b", modules[1].fingerprint())
        set_field(self, "changes", tuple(changes))
        set_field(self, "_sums", tuple(measures))
        set_field(self, "ignored", ignored)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The numbers of both modules. The peak of memory is estimated when this is asked for first, which takes as long as the comparison."""
        return tuple(self._measured().values())

    def _measured(self) -> dict[str, Measure]:
        try:
            return self._by_name
        except AttributeError:
            one, other = self.modules
            before = _peak_bytes(one)
            is_same = one is other or (
                self.fingerprint_a == self.fingerprint_b and one.hlo_proto is other.hlo_proto is None
            )
            peak = Measure("peak_bytes", "bytes", before, before if is_same else _peak_bytes(other))
            by_name = {each.name: each for each in (*self._sums, peak)}
            set_field(self, "_by_name", by_name)
            return by_name

    @property
    def same(self) -> bool:
        """Whether there is no change, but for what is ignored."""
        return not self.changes

    def __getattr__(self, name: str) -> Any:
        measure = _MEASURE_OF.get(name.removeprefix("delta_")) if name.startswith("delta_") else None
        if measure is not None:
            return self.measure(measure).delta
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def measure(self, name: str) -> Measure:
        """A number of both modules by its name, such as `copies.bytes`. Raises InvalidArgumentError."""
        found = next((each for each in self._sums if each.name == name), None) or self._measured().get(name)
        if found is None:
            names = self._measured()
            message = f"there is no measure {name!r}; there are {', '.join(names)}{did_you_mean(name, names)}"
            raise InvalidArgumentError(message, field="measure")
        return found

    def headline(self) -> str:
        """How many changes there are, and which numbers are others."""
        if self.same:
            text = f"The same program: {self.fingerprint_a}"
            return text if not self.ignored else f"No changes but {self.ignored:,} that are ignored"
        count = sum([change.times for change in self.changes])
        lines = [f"{count:,} change{'s' * (count != 1)} in {len(self.changes):,} row{'s' * (len(self.changes) != 1)}"]
        for each in self.measures:
            if each.delta and each.a is not None and each.b is not None:
                lines.append(f"{each.name:<18} {_amount(each, each.a)} → {_amount(each, each.b)} ({_signed(each)})")
        return "\n".join(lines)

    def side_by_side(self, row: int, *, width: int = 160) -> str:
        """The text of the instructions of a row of `changes`, those of the first module beside or above those of the second."""
        lines: list[str] = []
        for member in self.changes[row].nodes:
            for sign, node, module in zip("-+", member, self.modules, strict=True):
                if node is not None:
                    instruction = module.computations[node[0]].instructions[node[1]]
                    text = instruction.to_text(print_metadata=False)
                    lines.append(f"{sign} {text if len(text) <= width else text[: width - 1] + '…'}")
        return "\n".join(lines)


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
    "peak_bytes": "peak_bytes",
}
"""The names of measures, by those of columns."""


def _amount(measure: Measure, value: float) -> str:
    return short_bytes(value) if measure.unit == "bytes" else f"{value:,.10g}"


def _signed(measure: Measure) -> str:
    delta = measure.delta or 0
    text = _amount(measure, abs(delta)) if measure.unit != "bytes" else f"{abs(delta):,} bytes"
    return f"{'+' if delta > 0 else '-'}{text}"


def diff(a: Any, b: Any, *, ignore: Iterable[str] = ()) -> Diff:
    """What changed from one module to another. Each may be whatever `HloModule.of` takes: a path, text, a message, an object of JAX.

    Instructions are matched by structure, data flow and op_name. What a fingerprint does not count (`xlashape.hlo.canonical`) is no change. `ignore` names
    what does not count either, as the columns `what` and `kind` have it. Raises what `HloModule.of` raises, and InvalidArgumentError for names to ignore.

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
    if modules[0].fingerprint() == modules[1].fingerprint():
        total = ModuleMeasures(modules[0]).total()
        return Diff(modules, (), _measures(total, total), 0)
    one, other = Side(modules[0]), Side(modules[1])
    units = Units(match(one, other))
    rows = changes(one, other, units.units(), units.module_aspects)
    if not rows:
        rows = (_other_order(modules),)
    kept = [row for row in rows if not _is_ignored(row, ignored_words)]
    measures = _measures(one.measures.total(), other.measures.total())
    return Diff(modules, kept, measures, len(rows) - len(kept))


def _other_order(modules: tuple[HloModule, HloModule]) -> Change:
    """What is left where each instruction is matched to an equal one: the numbering of parameters, which channels are shared."""
    names = (modules[0].name, modules[1].name)
    details = "the order of parameters or of computations, or which instructions share a channel"
    return Change("changed", ("order",), "module", *names, 1, details, names=(names,))


def _ignored(ignore: Iterable[str]) -> frozenset[str]:
    """What is ignored, spelled as in the rows. Attributes of HLO text are known by their names, configurations also by their keys."""
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
    if not words:
        return False
    if row.kind in words:
        return True
    return bool(row.what) and all(word in words or word.partition(".")[0] in words for word in row.what)


def _measures(one: Measures, other: Measures) -> list[Measure]:
    units = {name: unit for name, _, unit in _DELTAS}
    before, after = one._asdict(), other._asdict()
    return [Measure(_MEASURE_OF[name], units[name], before[name], after[name]) for name in before]


def measures_of(module: HloModule) -> dict[str, int | None]:
    """The numbers of a module by the names of measures; None for those that are not known.

    >>> measures_of(HloModule.parse("HloModule m ENTRY e { p = f32[256] parameter(0) ROOT c = f32[256] copy(p) }"))["copies.bytes"]
    1024
    """
    total = ModuleMeasures(module).total()
    return {**{each.name: each.a for each in _measures(total, total)}, "peak_bytes": _peak_bytes(module)}


def _peak_bytes(module: HloModule) -> int | None:
    """The peak of memory, by XLA's assignment of buffers or estimated; None where neither is possible."""
    try:
        return memory(module).peak_bytes
    except (DeadlineExceededError, LimitExceededError):
        raise
    except XlashapeError:
        return None
