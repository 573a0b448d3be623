"""What `xs.equivalent` answers: a verdict, what shows a difference, and the stages of a directory."""

from __future__ import annotations

from typing import Any, ClassVar, Final, NamedTuple

from xlashape.base.tables import Column, ColumnKind
from xlashape.evaluation.domains.modular import P
from xlashape.hlo import HloInstruction
from xlashape.reports import vocabularies
from xlashape.reports.equivalent.compare import DIFFERS, EQUAL, OVER_REALS, UNKNOWN, Verdict
from xlashape.reports.equivalent.partners import named
from xlashape.reports.report import FRAMES, Computed, Option, Report

_TEXT: Final = ColumnKind.TEXT


class PassStage(NamedTuple):
    """A module that was dumped after a pass, compared with the one before."""

    pass_name: str
    """The pass that ran last; the pipeline where it has just begun."""
    file: str
    verdict: str
    instruction: str | None
    """The first instruction whose value no instruction of the stage before has, where the verdict is not equal."""
    source: str | None
    """The line of the user's program that it comes from."""
    reasons: tuple[str, ...]
    """Why a verdict is unknown."""

    def __str__(self) -> str:
        return self.file


_VERDICT: Final = Column(
    "verdict", _TEXT, "whether it computes what it is compared with computes", rank=1, choices=vocabularies.VERDICTS
)
_INSTRUCTION: Final = Column(
    "instruction", _TEXT, "the first instruction whose value the program before does not have", rank=2
)
_SOURCE: Final = Column("source", _TEXT, "the line of the program that the instruction comes from", rank=3)
_REASONS: Final = Column("reasons", ColumnKind.TEXTS, "why a verdict is unknown")

REPORT: Final = Report(
    name="equivalent",
    summary="Whether two programs compute the same, or after which pass a program no longer does.",
    columns=(
        Column("pass_name", _TEXT, "the pass that ran last, or the pipeline that has just begun", rank=1),
        _VERDICT,
        _INSTRUCTION,
        _SOURCE,
        Column("file", _TEXT, "the file of the stage", rank=4),
        _REASONS,
    ),
    totals=(
        _VERDICT,
        Column("unequal_count", ColumnKind.INTEGER, "how many comparisons did not end with one of the kinds of equal"),
        Column("is_sampled", ColumnKind.BOOLEAN, "whether of large parts some elements alone were compared"),
        Column("first", _TEXT, "the file of the first stage that does not compute what the one before computes"),
        Column("output", ColumnKind.INTEGER, "the number of the output that differs"),
        Column("element", ColumnKind.INTEGERS, "the index of the element that differs most"),
        Column("device", ColumnKind.INTEGER, "the device on which it differs, of a partitioned program"),
        Column("a_value", _TEXT, "the value of the element in the first program"),
        Column("b_value", _TEXT, "the value of the element in the second program"),
        _INSTRUCTION,
        _SOURCE,
        _REASONS,
    ),
    options=(Option("seed", ColumnKind.INTEGER, "draws other inputs", 0), FRAMES),
    compute="xlashape.reports.equivalent:equivalent",
    inputs=("a", "b"),
    rows="stages",
    failures="unequal_count",
    asks_directories=True,
    takes=(
        "A and B are files with HLO modules (text, proto, gzip); or A alone is a directory of dumps, which XLA writes "
        "with --xla_dump_hlo_pass_re=.*, and each stage is compared with the one before. The exit code is 0 for "
        "`equal` and `equal over the reals`, 1 for `differs` and `unknown`."
    ),
)


class Equivalent(Computed[PassStage]):
    """Whether programs compute the same. Of two programs `stages` is empty."""

    report: ClassVar[Report] = REPORT

    verdict: str
    is_sampled: bool
    """Whether of large parts some elements alone were compared."""
    stages: tuple[PassStage, ...] = ()
    first: PassStage | None
    """The first stage that does not compute what the one before computes."""
    output: int | None
    element: tuple[int, ...] | None
    device: int | None
    a_value: Any
    b_value: Any
    inputs: list[Any] | None
    """Ordinary arrays, for which `xs.evaluate` of both programs shows the difference."""
    instruction: str | None
    """The first instruction of the second program whose value the first does not have."""
    source: str | None
    reasons: tuple[str, ...]
    """Why the verdict is unknown."""
    constants: tuple[str, ...]
    """Of programs that differ, the constants of one that stand in the place of others, as far as that is known."""

    def __init__(self, verdict: Verdict, stages: tuple[PassStage, ...] = (), first: PassStage | None = None) -> None:
        difference, instruction = verdict.difference, verdict.instruction
        self.verdict = verdict.verdict
        self.reasons = tuple(verdict.reasons)
        self.is_sampled = verdict.is_sampled
        self.stages = stages
        self.first = first
        self.output = None if difference is None else difference.output
        self.element = None if difference is None else difference.element
        self.device = None if difference is None else difference.device
        self.a_value = None if difference is None else difference.a_value
        self.b_value = None if difference is None else difference.b_value
        self.inputs = None if difference is None else difference.inputs
        self.instruction = None if instruction is None else instruction.name
        self.source = source_of(instruction)
        self.constants = tuple(verdict.constants)
        self._inputs = verdict.inputs
        self._alone = verdict.alone

    @property
    def is_equal(self) -> bool:
        """Whether the verdict is one of the two kinds of equal."""
        return self.verdict in (EQUAL, OVER_REALS)

    @property
    def unequal_count(self) -> int:
        """How many comparisons did not end with one of the kinds of equal: of stages, or of the two programs."""
        return sum(each.verdict not in (EQUAL, OVER_REALS) for each in self.stages or [self])

    def headline(self) -> str:
        lines = [
            _HEADLINES[self.verdict].format(count=len(self.stages) or 2, chance=f"{2 / P:.0e}", inputs=self._inputs)
        ]
        if self.is_sampled and self.is_equal:
            lines.append("of large parts some elements alone were compared: what only a few others show may be missed")
        if self.stages:
            lines[0] = f"{len(self.stages)} stages: {lines[0]}"
        if self.first is not None:
            lines.append(f"the first stage that computes something else is after {self.first.pass_name}: {self.first}")
        if self.output is not None:
            where = f"output {self.output}, element {list(self.element or ())}"
            on = "" if self.device is None else f" on device {self.device}"
            lines.append(f"{where}{on}: {self.a_value} became {self.b_value}")
        programs = ("in the stage before", "in the stage") if self.stages else ("in A", "in B")
        both = zip((self._alone.b, self._alone.a), programs[::-1], strict=True)
        where = ", ".join([f"{named(each)} {program}" for each, program in both if each is not None])
        if where:
            at = "" if self._alone.is_first else " is this, or one before"
            lines.append(f"the first instruction whose value has no partner{at}: {where}")
        lines += self.constants
        return "\n".join([*lines, *[f"not known: {reason}" for reason in self.reasons]])


_HEADLINES: Final = {
    EQUAL: "equal: the programs compute the same, and round in the same way",
    OVER_REALS: "equal over the reals: only rounding, overflow and NaN may differ. The chance that a difference of one "
    "product or sum was missed is below {chance}",
    DIFFERS: "differs: on {inputs} the programs compute something else",
    UNKNOWN: "unknown: it could neither be shown that the programs compute the same nor that they differ",
}


def source_of(instruction: HloInstruction | None) -> str | None:
    """The line of the user's program that an instruction comes from."""
    return None if instruction is None else instruction.metadata.source or None
