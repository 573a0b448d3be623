"""The report `verify`: the rules of XLA's verifier that a module breaks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from xlashape.base.tables import Column, ColumnKind
from xlashape.errors import InvalidModuleError
from xlashape.hlo import HloModule, Problem
from xlashape.hlo import verify as problems_of
from xlashape.reports.report import Computed, Option, Report

REPORT: Final = Report(
    name="verify",
    summary="Whether a module keeps the rules of XLA's verifier: names, order, operands, shapes, calls, shardings, "
        "schedule.",
    columns=(
        Column("computation", ColumnKind.TEXT, "the computation that breaks a rule; empty where the module does", rank=1),
        Column("instruction", ColumnKind.TEXT, "the instruction that breaks it; empty where the computation does", rank=1),
        Column("message", ColumnKind.TEXT, "what is wrong, in words", rank=1),
    ),
    totals=(
        Column("module", ColumnKind.TEXT, "the name of the module"),
        Column("instruction_count", ColumnKind.INTEGER, "the instructions of the module"),
        Column("problem_count", ColumnKind.INTEGER, "the rules that are broken"),
    ),
    options=(
        Option("replica_count", ColumnKind.INTEGER, "how many replicas the module is for; without it what its text or its device assignment says"),
        Option("num_partitions", ColumnKind.INTEGER, "how many partitions the module is for; without it what its text or its device assignment says"),
        Option("allow_unbounded", ColumnKind.BOOLEAN, "allow dimensions without a bound, f32[?]", False),
        Option("allow_mixed_precision", ColumnKind.BOOLEAN, "allow operands and results of different floating-point types; without it modules with tiled layouts, which "
               "compilers for TPUs make, may have them"),
    ),
    compute="xlashape.reports.verification:verification",
    listing="xlashape.reports.verification:listing",
    rows="problems",
    shown=0,
    failures="problem_count",
)  # fmt: skip


class Verification(Computed[Problem]):
    """The problems of a module, in the order of its instructions. The name and the number of instructions are None for
    a module that was refused before it was verified.
    """

    report: ClassVar[Report] = REPORT
    module: str | None
    instruction_count: int | None
    problems: Sequence[Problem]
    problem_count: int

    def __init__(self, module: str | None, instruction_count: int | None, problems: Sequence[Problem]) -> None:
        self.module = module
        self.instruction_count = instruction_count
        self.problems = problems
        self.problem_count = len(problems)

    def headline(self) -> str:
        """Empty where there are problems, since their messages say what is wrong."""
        if self.problems:
            return ""
        return f"{self.module}: {self.instruction_count:,} instructions keep the rules"


def verification(
    x: Any,
    *,
    replica_count: int | None = None,
    num_partitions: int | None = None,
    allow_unbounded: bool = False,
    allow_mixed_precision: bool | None = None,
) -> Verification:
    """The rules that a module breaks. x: whatever `HloModule.of` takes. The options are those of `xlashape.hlo.verify`,
    where `allow_unbounded` is `allow_unbounded_dimensions`.

    Errors are those of `HloModule.of` except InvalidModuleError: its message is then the only problem of the answer.

    >>> text = "HloModule m ENTRY e { p = f32[4] parameter(0) ROOT n = f32[5] negate(p) }"
    >>> [(problem.instruction, problem.message) for problem in verification(text)]
    [('n', 'its shape is f32[5]{0}, its operands give f32[4]{0}')]
    """
    try:
        module = HloModule.of(x)
    except InvalidModuleError as error:
        return Verification(None, None, (Problem("", "", error.message),))
    found = problems_of(
        module,
        replica_count=replica_count,
        num_partitions=num_partitions,
        allow_unbounded_dimensions=allow_unbounded,
        allow_mixed_precision=allow_mixed_precision,
    )
    return Verification(module.name, sum(1 for _ in module.instructions()), found)


def listing(values: Iterable[Sequence[Any]]) -> str:
    """The text of rows, a line for each problem: messages are too long for the columns of a table."""
    return "\n".join([str(Problem(*row)) for row in values])
