"""The report `tile`: the tile of each operand that a tile of an instruction's output reads. A row gives the operand's
tile in numbers, for an output tile of given sizes, and as expressions in the sizes of any output tile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from xlashape.base.math import checked_int64
from xlashape.base.tables import Column, ColumnKind
from xlashape.errors import InvalidArgumentError, InvalidIndexError, LimitExceededError
from xlashape.hlo import HloInstruction
from xlashape.indexing import OperandIndexing, TileBox, operand_tiles
from xlashape.reports import vocabularies
from xlashape.reports.maps import STYLE, instructions_of
from xlashape.reports.program import program
from xlashape.reports.report import INDEXING, NOTES, STRICT, Computed, Option, Report, Structure
from xlashape.symbolic import SymbolicTile

REPORT: Final = Report(
    name="tile",
    summary="The tile of each operand that a tile of an instruction's output reads.",
    columns=(
        Column("operand", ColumnKind.INTEGER, "the number of the operand", rank=1),
        Column("operand_name", ColumnKind.TEXT, "the name of the operand", rank=1),
        Column("leaf", ColumnKind.INTEGER, "which array of the operand, counted depth first"),
        Column("map", ColumnKind.TEXT, "the simplified map that the tile is pushed through", rank=2),
        Column("is_tile", ColumnKind.BOOLEAN, "whether the elements that the tile reads form a tile; not set where no sizes are given"),
        Column("offsets", ColumnKind.INTEGERS, "where the operand's tile begins", rank=1),
        Column("sizes", ColumnKind.INTEGERS, "the sizes of the operand's tile", rank=1),
        Column("strides", ColumnKind.INTEGERS, "the steps between its indices", rank=1),
        Column("offset_map", ColumnKind.TEXT, "the offsets for a tile of any sizes d0, d1, … that begins at 0"),
        Column("size_map", ColumnKind.TEXT, "the sizes for such a tile"),
        Column("stride_map", ColumnKind.TEXT, "the strides for such a tile"),
        Column("constraints", ColumnKind.TEXT, "under which constraints the expressions of the row hold"),
        Column("symbolic", ColumnKind.TEXT, "the expressions and their constraints as XLA writes them; not set where none are found"),
    ),
    totals=(
        Column("instruction", ColumnKind.TEXT, "the name of the instruction"),
        Column("computation", ColumnKind.TEXT, "the computation that it is in"),
        Column("opcode", ColumnKind.TEXT, "the opcode of the instruction"),
        Column("output", ColumnKind.INTEGER, "which array of its result the tile is of, counted depth first"),
        NOTES,
    ),
    options=(
        Option("instruction", ColumnKind.TEXT, "the instruction; without it the root of the computation", "", positional=True),
        Option("sizes", ColumnKind.INTEGERS, "the sizes of the tile of the output; what reaches over the output's edge is cut off; without them only expressions are given", positional=True),
        Option("at", ColumnKind.INTEGERS, "the index where the tile begins, within the output; without it 0 along each dimension"),
        Option("strides", ColumnKind.INTEGERS, "the steps between the tile's indices; without them 1 along each dimension"),
        Option("output", ColumnKind.INTEGER, "which array of the result the tile is of, counted depth first", 0),
        STYLE,
        Option("computation", ColumnKind.TEXT, "the computation of the instruction; without a name of either, the entry computation", ""),
        STRICT,
    ),
    compute="xlashape.reports.tiles:tiles",
    listing="xlashape.reports.tiles:listing",
    rows="tiles",
    shown=0,
    structures=(INDEXING, Structure("tile", "SymbolicTile", "the expressions as maps; not set where none are found")),
)  # fmt: skip

_INTEGERS: Final = re.compile(r"-?[0-9]+(?:,-?[0-9]+)*")


class TileRow(NamedTuple):
    """What the output's tile reads of one array of an operand, in one of the ways in which the operand is read. The
    columns of `REPORT` say what the fields are.
    """

    operand: int
    operand_name: str
    leaf: int
    map: str
    is_tile: bool | None
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset_map: str | None
    size_map: str | None
    stride_map: str | None
    constraints: str | None
    symbolic: str | None
    indexing: OperandIndexing | None = None
    """The map itself, and where the values of its variables come from."""
    tile: SymbolicTile | None = None
    """The expressions themselves."""


class OperandTiles(Computed[TileRow]):
    """The answer of the report. An operand that is read through several maps has a row for each map."""

    report: ClassVar[Report] = REPORT
    instruction: str
    computation: str
    opcode: str
    output: int
    tiles: Sequence[TileRow]

    def __init__(self, about: HloInstruction, output: int, tiles: Sequence[TileRow]) -> None:
        self.instruction = about.name
        self.computation = about.computation.name
        self.opcode = str(about.opcode)
        self.output = output
        self.tiles = tiles

    def headline(self) -> str:
        nothing = "" if self.tiles else "\n  reads nothing"
        return f"{self.instruction} ({self.opcode}, in {self.computation}){nothing}"


def tiles(
    x: Any,
    instruction: str = "",
    sizes: str | Sequence[int] | None = None,
    *,
    at: str | Sequence[int] | None = None,
    strides: str | Sequence[int] | None = None,
    output: int = 0,
    style: str = "xla",
    computation: str = "",
    strict: bool = False,
) -> OperandTiles:
    """The tile of each operand that is read for one tile of an output of `instruction`.

    x: whatever `HloModule.of` takes. instruction: its name; without it, the root of `computation`, or without both the
    root of the entry computation. computation: where the instruction is. output: which array of the result, counted
    depth first. sizes, at, strides: of the output's tile, each numbers or text such as "16,32": how many indices it has
    along each dimension, where it begins (0 without `at`), and the steps between its indices (1 without `strides`).
    Without `sizes`, rows have expressions alone. style: the syntax of maps, "xla" or "affine". strict: refuse text that
    is no module as it stands (`xlashape.hlo.files.forgiving`).

    Errors are those of `HloModule.of` and `operand_tiles`; NotFoundError for a name that the module does not have,
    InvalidArgumentError for another style and for `at` or `strides` of another rank or without sizes, InvalidIndexError
    for text that is no list of numbers.

    >>> text = "HloModule m ENTRY e { p = f32[64,32] parameter(0) ROOT t = f32[32,64] transpose(p), dimensions={1,0} }"
    >>> [(row.operand_name, row.offsets, row.sizes) for row in tiles(text, "t", "4,16", at="8,0")]
    [('p', (0, 8), (16, 4))]
    """
    vocabularies.STYLES.check(style, "style")
    module = program(x, strict=strict)
    if instruction:
        [about] = instructions_of(module, instruction, computation)
    else:
        about = (module.computation(computation) if computation else module.entry).root
    box = _box(sizes, at, strides)
    rows: list[TileRow] = []
    try:
        found = operand_tiles(about, box, output)
    except (InvalidArgumentError, InvalidIndexError, LimitExceededError) as error:
        if error.path == ("tile",):
            error.path = ("sizes",)
        raise
    for read in found:
        symbolic, tile = read.symbolic, read.tile
        numbers = ((), (), ()) if tile is None else (tile.offsets, tile.sizes, tile.strides)
        expressions = (
            (None, None, None, None, None)
            if symbolic is None
            else (
                symbolic.offset_map.to_text(style),
                symbolic.size_map.to_text(style),
                symbolic.stride_map.to_text(style),
                symbolic.constraints.to_text(style),
                symbolic.to_text(style),
            )
        )
        name, access = about.operands[read.operand].name, read.indexing
        is_tile = None if box is None else tile is not None
        text = access.map.to_text(style)
        rows.append(TileRow(read.operand, name, access.leaf, text, is_tile, *numbers, *expressions, access, symbolic))
    return OperandTiles(about, output, rows).with_notes(module.notes)


def _box(
    sizes: str | Sequence[int] | None, at: str | Sequence[int] | None, strides: str | Sequence[int] | None
) -> TileBox | None:
    if sizes is None:
        if at is not None or strides is not None:
            raise InvalidArgumentError("a tile's sizes are missing", field="sizes")
        return None
    of_sizes = integers_of(sizes, "sizes")
    offsets = (0,) * len(of_sizes) if at is None else integers_of(at, "at")
    steps = (1,) * len(of_sizes) if strides is None else integers_of(strides, "strides")
    for name, values in (("at", offsets), ("strides", steps)):
        if len(values) != len(of_sizes):
            raise InvalidArgumentError(f"a tile of {len(of_sizes)} sizes has {len(values)} {name}", field=name)
    return TileBox(offsets, of_sizes, steps)


def integers_of(value: str | Sequence[int], field: str) -> tuple[int, ...]:
    """Integers, or text such as `16,32` or `(16, 32)`. InvalidIndexError for other text."""
    if not isinstance(value, str):
        return tuple(value)
    text = value.strip().removeprefix("(").removesuffix(")").removesuffix(",").replace(" ", "")
    if text and not _INTEGERS.fullmatch(text):
        raise InvalidIndexError(f"expected integers such as 2,3, found {value[:60]!r}", field=field)
    return tuple([checked_int64(int(part), f"a number of {field}") for part in text.split(",") if part])


def _text(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def listing(values: Iterable[Sequence[Any]]) -> str:
    """The text of rows: expressions are too long for the columns of a table, so they are lines below their operand."""
    lines: list[str] = []
    for row in [TileRow(*row) for row in values]:
        lines += [f"  operand {row.operand} ({row.operand_name})", f"    {row.map}"]
        if row.is_tile is not None:
            parts = [
                f"{name} {_text(found)}" for name in ("offsets", "sizes", "strides") if (found := getattr(row, name))
            ]
            read = ", ".join(parts) or "the only element"
            lines.append(f"    this tile    {read if row.is_tile else 'the elements that are read do not form a tile'}")
        if row.symbolic is None:
            lines.append("    any tile     no symbolic tile is found")
        else:
            texts = row.symbolic.splitlines()[1:]
            lines += [f"    {'' if number else 'any tile':<11}{text}" for number, text in enumerate(texts)]
    return "\n".join(lines)
