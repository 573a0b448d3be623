"""The report `map`: which elements of its operands an instruction reads, as indexing maps. It is about one instruction,
or about all instructions of a module or of one computation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final, NamedTuple

from xlashape.base.tables import Column, ColumnKind
from xlashape.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    LimitExceededError,
    NotFoundError,
    XlashapeError,
)
from xlashape.hlo import HloInstruction, HloModule
from xlashape.indexing import OperandIndexing, OperandIndexingSet, output_to_input_physical
from xlashape.indexing.answers.leaves import leaf_count, leaves
from xlashape.indexing.walk.analysis import Analysis
from xlashape.limits import spend
from xlashape.reports import vocabularies
from xlashape.reports.program import program
from xlashape.reports.report import INDEXING, NOTES, STRICT, Computed, Option, Report

STYLE: Final = Option("style", ColumnKind.TEXT, "the syntax of the maps", "xla", vocabularies.STYLES)

REPORT: Final = Report(
    name="map",
    summary="Which elements of its operands an instruction reads, as indexing maps.",
    columns=(
        Column("instruction", ColumnKind.TEXT, "the name of the instruction", rank=1),
        Column("computation", ColumnKind.TEXT, "the computation that it is in", rank=1),
        Column("opcode", ColumnKind.TEXT, "the opcode of the instruction", rank=1),
        Column("direction", ColumnKind.TEXT, "from where to where", choices=vocabularies.DIRECTIONS),
        Column("output", ColumnKind.INTEGER, "which array of its result, counted depth first"),
        Column("operand", ColumnKind.INTEGER, "the number of the operand", rank=1),
        Column("operand_name", ColumnKind.TEXT, "the name of the operand"),
        Column("leaf", ColumnKind.INTEGER, "which array of the operand, counted depth first"),
        Column("knowledge", ColumnKind.TEXT, "how much the map says: exactly what is read, perhaps more than that, or nothing", choices=vocabularies.KNOWLEDGE),
        Column("map", ColumnKind.TEXT, "the indexing map, from the indices of the output to those of the operand", rank=1),
        Column("runtime", ColumnKind.TEXTS, "where the values of the runtime variables rt0, rt1, … of the map come from"),
        Column("error", ColumnKind.TEXT, "why there are no maps"),
    ),
    totals=(
        Column("direction", ColumnKind.TEXT, "from where to where", choices=vocabularies.DIRECTIONS),
        Column("instruction_count", ColumnKind.INTEGER, "the instructions that were asked about"),
        Column("map_count", ColumnKind.INTEGER, "the maps, of which an operand has one for each way in which it is read"),
        Column("unknown_count", ColumnKind.INTEGER, "the maps that are not known"),
        Column("error_count", ColumnKind.INTEGER, "the instructions that are not answered"),
        NOTES,
    ),
    options=(
        Option("instruction", ColumnKind.TEXT, "the instruction; without it all of the module", "", positional=True),
        Option("operand", ColumnKind.INTEGER, "only the maps of this operand"),
        Option("output", ColumnKind.INTEGER, "only the maps of this array of the result"),
        Option("direction", ColumnKind.TEXT, "from where to where: from an element of the result to those of operands that it is computed from, or from an element of an operand to those of the result that are computed from it", "output_to_input", vocabularies.DIRECTIONS),
        STYLE,
        Option("raw", ColumnKind.BOOLEAN, "give the maps as the operation defines them, not simplified", False),
        Option("physical", ColumnKind.BOOLEAN, "map positions in the buffer of the result to positions in the buffers of operands", False),
        Option("computation", ColumnKind.TEXT, "only the instructions of this computation", ""),
        STRICT,
    ),
    compute="xlashape.reports.maps:maps",
    listing="xlashape.reports.maps:listing",
    rows="maps",
    shown=0,
    structures=(INDEXING,),
)  # fmt: skip


class MapRow(NamedTuple):
    """One way in which an instruction reads an operand, or the error of an instruction without maps. The columns of
    `REPORT` say what the fields are.
    """

    instruction: str
    computation: str
    opcode: str
    direction: str
    output: int | None = None
    operand: int | None = None
    operand_name: str | None = None
    leaf: int | None = None
    knowledge: str | None = None
    map: str | None = None
    runtime: Sequence[str] = ()
    error: str | None = None
    indexing: OperandIndexing | None = None
    """The map itself, and where the values of its variables come from."""


class Maps(Computed[MapRow]):
    """The maps of one instruction, or of all instructions of a module or computation. An instruction whose maps raise
    an error has one row, with the error.
    """

    report: ClassVar[Report] = REPORT
    direction: str
    maps: Sequence[MapRow]
    instruction_count: int
    map_count: int
    unknown_count: int
    error_count: int

    def __init__(self, direction: str, maps: Sequence[MapRow], instructions: Sequence[HloInstruction]) -> None:
        self.direction = direction
        self.maps = maps
        self._instructions = instructions
        self.instruction_count = len(instructions)
        self.map_count = sum([row.error is None for row in maps])
        self.unknown_count = sum([row.knowledge == "unknown" for row in maps])
        self.error_count = sum([row.error is not None for row in maps])

    def headline(self) -> str:
        """Empty where there are rows, since these name their instructions."""
        if self.maps:
            return ""
        if len(self._instructions) != 1:
            return f"There are no such maps of {self.instruction_count:,} instructions."
        [only] = self._instructions
        return f"{only.name} ({only.opcode}, in {only.computation.name})\n  reads nothing"

    def selected(self, rows: Sequence[MapRow]) -> Maps:
        return Maps(self.direction, rows, self._instructions).with_notes(self.notes)


def maps(
    x: Any,
    instruction: str = "",
    *,
    operand: int | None = None,
    output: int | None = None,
    direction: str = "output_to_input",
    style: str = "xla",
    raw: bool = False,
    physical: bool = False,
    computation: str = "",
    strict: bool = False,
) -> Maps:
    """The maps of the instruction named `instruction`, or of all instructions of the module or of `computation`.

    x: whatever `HloModule.of` takes. operand, output: only the maps of the operand of this number, and of this array of
    the result, counted depth first. direction: "output_to_input", from elements of the result to those of operands, or
    "input_to_output", the other way. style: the syntax of the maps, "xla" or "affine". raw: maps as the operation
    defines them, not simplified. physical: maps from positions in the buffer of the result to positions in those of
    operands. strict: refuse text that is no module as it stands (`xlashape.hlo.files.forgiving`).

    Errors are those of `HloModule.of`; NotFoundError for a name that the module does not have, or for the number of an
    operand or output that the named instruction does not have; InvalidArgumentError for another style or direction, or
    for `physical` with `raw` or "input_to_output". Without `instruction`, an instruction whose maps raise an error has
    a row with the error, and the call goes on; only a lack of time or memory ends it.

    >>> found = maps(
    ...     "HloModule m ENTRY e { p = f32[20] parameter(0) ROOT b = f32[10,20] broadcast(p), dimensions={1} }", "b"
    ... )
    >>> found.maps[0].operand_name, found.maps[0].map
    ('p', '(d0, d1) -> (d1), domain: d0 in [0, 9], d1 in [0, 19]')
    """
    vocabularies.STYLES.check(style, "style")
    vocabularies.DIRECTIONS.check(direction, "direction")
    if physical and (raw or direction == "input_to_output"):
        raise InvalidArgumentError("physical maps go from output to input, and are simplified", field="physical")
    module = program(x, strict=strict)
    chosen = instructions_of(module, instruction, computation)
    analysis = Analysis()  # one for all: what it finds about an instruction is used again for the users of that
    rows: list[MapRow] = []
    for each in chosen:
        if instruction:
            _check_number("operand", operand, len(each.operands), each)
            _check_number("output", output, leaf_count(each.shape), each)
        about = (each.name, each.computation.name, str(each.opcode), direction)
        found: list[MapRow] = []
        try:
            asked = _asked(analysis, each, direction, operand, output, physical, is_named=bool(instruction))
            for row_output, number, leaf, accesses in asked:
                for access in accesses if raw or physical else accesses.simplify():
                    spend(4)
                    found.append(MapRow(
                        *about, row_output, number, each.operands[number].name, access.leaf if leaf is None else leaf,
                        access.knowledge.value, access.map.to_text(style), _runtime(access), None, access,
                    ))  # fmt: skip
        except XlashapeError as error:
            if instruction or ends_all(error):
                raise
            found = [MapRow(*about, error=" ".join(error.message.split()))]
        rows += found
    return Maps(direction, rows, chosen).with_notes(module.notes)


def instructions_of(module: HloModule, instruction: str, computation: str) -> Sequence[HloInstruction]:
    """The instruction of this name; without a name, all instructions of the module, or of the computation.
    NotFoundError for a name that does not exist.
    """
    if computation:
        inside = module.computation(computation)
        return [inside.instruction(instruction)] if instruction else inside.instructions
    return [module.instruction(instruction)] if instruction else list(module.instructions())


def ends_all(error: XlashapeError) -> bool:
    """Whether an error that one of many instructions raised ends the whole call, since no time or no memory is left."""
    is_memory = isinstance(error, LimitExceededError) and error.limit == "worker_memory"
    return is_memory or isinstance(error, DeadlineExceededError)


def _check_number(what: str, number: int | None, count: int, instruction: HloInstruction) -> None:
    if number is not None and not 0 <= number < count:
        message = f"{instruction.name} has no {what} {number}: it has {count}"
        raise NotFoundError(message, kind=what, name=str(number), field=what)


def _asked(
    analysis: Analysis, instruction: HloInstruction, direction: str, operand: int | None, output: int | None,
    physical: bool, *, is_named: bool,
) -> Iterator[tuple[int, int, int | None, OperandIndexingSet]]:  # fmt: skip
    """The requested sets of accesses that are not empty, as (output, operand, leaf, accesses). `leaf` is the array of
    the operand, which may be a tuple; None where `leaf` of each access says it. Outputs without positions have no
    physical maps: they are left out, unless the caller named the instruction (`is_named`) and the output.
    """
    operands = range(len(instruction.operands))
    if not operands:
        return
    if direction == "output_to_input":
        arrays = leaves(instruction.shape)
        for number, array in enumerate(arrays):
            if output not in (None, number):
                continue
            if physical and not (array.is_array or array.is_buffer) and not (is_named and output is not None):
                continue
            found = (
                output_to_input_physical(instruction, number)
                if physical
                else analysis.output_to_input(instruction, number)
            )
            yield from [
                (number, each, None, found[each]) for each in operands if operand in (None, each) and found[each]
            ]
        return
    for each in operands:
        if operand in (None, each):
            for leaf in range(leaf_count(instruction.operands[each].shape)):
                for number, accesses in enumerate(analysis.input_to_output(instruction, each, leaf)):
                    if output in (None, number) and accesses:
                        yield number, each, leaf, accesses


def _runtime(access: OperandIndexing) -> tuple[str, ...]:
    return tuple([f"rt{number} is {each.instruction.name} at {each.map}" for number, each in enumerate(access.runtime)])


def listing(values: Iterable[Sequence[Any]]) -> str:
    """The text of rows: maps are too long for the columns of a table, so they are lines below their instruction."""
    rows = [MapRow(*row) for row in values]
    parts: list[str] = []
    for _, group in groupby(rows, key=lambda row: (row.computation, row.instruction)):
        of_one = list(group)
        first = of_one[0]
        lines = [f"{first.instruction} ({first.opcode}, in {first.computation})"]
        has_outputs = len({row.output for row in of_one}) > 1
        ends_before = ""
        for row in of_one:
            if row.error is not None:
                lines.append(f"  not known: {row.error}")
                continue
            output = f"output {row.output}" if has_outputs else "output"
            operand = f"operand {row.operand} ({row.operand_name})"
            ends = f"{output} → {operand}" if row.direction == "output_to_input" else f"{operand} → {output}"
            ends += "" if row.knowledge == "exact" else f": {row.knowledge}"
            if ends != ends_before:  # one heading for all maps between the same two arrays
                lines.append(f"  {ends}")
            ends_before = ends
            lines.append(f"    {row.map}")
            lines += [f"      {each}" for each in row.runtime]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
