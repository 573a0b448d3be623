"""What a report is: a declaration of columns, totals, further tables and options; and an answer that has an attribute
for each of them.

    REPORT = Report(
        name="memory",
        summary="What lives at the peak of a program's memory.",
        columns=(Column("name", ColumnKind.TEXT, "the instruction that makes the buffer", rank=1), …),
        totals=(Column("peak_bytes", ColumnKind.INTEGER, "the most bytes that live at once", "bytes"),),
        compute="xlashape.reports.memory:memory",
        rows="peak_buffers",
    )

    class Memory(Answer):
        report = REPORT
        peak_bytes: int
        peak_buffers: tuple[PeakBuffer, ...]    # PeakBuffer.name, …

The names in the declaration are those of attributes. Text, JSON, JSON's schema, Arrow tables, HTML for notebooks and
the messages of the service are made from the declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, overload

from xlashape.base.display import Displayed, printable
from xlashape.base.frozen import set_field
from xlashape.base.similar import did_you_mean
from xlashape.base.tables import Column, ColumnKind, Table, Tabular
from xlashape.errors import InvalidArgumentError, NotFoundError
from xlashape.reports import vocabularies
from xlashape.reports.groups import ARGUMENTS, RowGroup, grouped
from xlashape.reports.text import alike_together, broken_text, facts_text, not_shown, table_text

if TYPE_CHECKING:  # Python's own TypeVar has no defaults before 3.13
    from typing_extensions import Self, TypeVar

    Row = TypeVar("Row", covariant=True, default=Any)
else:
    from typing import TypeVar

    Row = TypeVar("Row", covariant=True)


class Option(NamedTuple):
    """A keyword argument of a report's function. The command line offers it as `--name`, and requests to a server have
    a field of that name, except as `positional`, `is_local` and `is_content` say.
    """

    name: str
    kind: ColumnKind
    meaning: str
    default: Any = None
    choices: tuple[str, ...] = ()
    """The allowed values, a Vocabulary where requests to a server have them as an enum; empty where any value of the
    kind is allowed.
    """
    unit: str = ""
    """The unit, as in a Column. With the unit "bytes", the command line and the service take text such as `16GiB`."""
    positional: bool = False
    """Whether the command line takes the value without `--name`, behind the subject. Several such options follow in the
    order of the declaration.
    """
    is_local: bool = False
    """Whether the option names something on this machine, such as a directory. Requests to a server do not have it."""
    is_content: bool = False
    """Whether the value names a file on this machine, whose content requests to a server have in the field."""
    percent_of: str = ""
    """With the unit "bytes": the total of which the command line takes a percentage, such as `80%`. Empty: none."""


_NO_METADATA: Final = "The file has no metadata of its instructions: layers, lines and operations are not known."
FRAMES: Final = Option(
    "frames",
    ColumnKind.TEXT,
    "what `source` names: the line of your own code, or every frame that called an operation, libraries included",
    None,
    vocabularies.FRAMES,
)
"""The option of reports with a column `source`."""
NOTES: Final = Column(
    "notes", ColumnKind.TEXTS, "what must be known of the answer, such as what of the text was left out or assumed"
)
"""The total of reports whose answers have notes: `Answer.notes`."""
STRICT: Final = Option(
    "strict",
    ColumnKind.BOOLEAN,
    "refuse text that is no HLO module as it stands; without it, what was left out or assumed is said in `notes`",
    False,
)
"""The option of reports that read text as people have it in hand (`xlashape.reports.program`)."""


class Structure(NamedTuple):
    """A field of a row's message in the service's schema that has a value as fields, beside its text in a column. A
    request that is `structured` asks for it. The library's rows have the value itself, as an attribute.
    """

    name: str
    """The name of the attribute and of the field."""
    message: str
    """The message of the field, one of those in `xlashape.reports.structures`."""
    meaning: str


INDEXING: Final = Structure(
    "indexing", "OperandIndexing", "the map as structure, and where the values of its variables come from"
)
"""The structure of rows that have a map."""


class Section(NamedTuple):
    """A further table of a report. The answer has its rows in the attribute `name`; where `argument` is given, `name`
    is a method of one argument that returns them.
    """

    name: str
    columns: tuple[Column, ...]
    meaning: str
    argument: Option | None = None
    """The argument of the method, such as the column to group by. A table with an argument is made on demand only:
    `Answer.to_dict` leaves it out.
    """
    headline: Callable[[Any, Sequence[Any], Any], str] | None = None
    """A function of the answer, the rows and the argument, which returns the text above the table for people."""
    structures: tuple[Structure, ...] = ()
    """Values of the rows that requests to a server may ask for as fields."""
    of: str = ""
    """The attribute of the answer with the answer that the table is about, whose totals stand beside it. Empty: the
    answer itself."""


def by_section(
    what: str, columns: Sequence[Column], keys: Sequence[str], remark: Callable[[Any], str] = lambda _: ""
) -> Section:
    """The section of a report whose answers have a method `by`: a row for each group, with these columns behind its
    name. `what` names the rows, and `keys` are those that the method takes, of `vocabularies.GROUPINGS`. `remark` of
    the answer stands below its headline.
    """

    def headline(answer: Any, groups: Sequence[Any], key: str) -> str:
        return "\n".join(filter(None, (_headline_of_groups(answer, groups, key), remark(answer))))

    option = Option("by", ColumnKind.TEXT, "what they have in common", None, vocabularies.GROUPINGS.among(*keys))
    name = Column("group", ColumnKind.TEXT, f"what {what} have in common", rank=1)
    return Section("by", (name, *columns), f"sums of {what} with something in common", option, headline)


def _headline_of_groups(answer: Any, groups: Sequence[Any], key: str) -> str:
    """The headline of the report; and where nothing is known of what groups should have in common, why."""
    names = {each.group for each in groups} - {ARGUMENTS}
    unknown = "" if names - {f"(no {key.removeprefix('each_')} known)"} or not names else f"\n{_NO_METADATA}"
    return f"{answer.headline()}{unknown}"


class Report(NamedTuple):
    """The declaration of a report."""

    name: str
    """The name of its command and its JSON schema: `memory`, for example. `Entry.rpc` is that of its RPC."""
    summary: str
    """What the report answers, in a sentence."""
    columns: tuple[Column, ...]
    """The columns of its main table. On a terminal the first column that has a rank is always shown."""
    totals: tuple[Column, ...] = ()
    """Numbers and facts about the whole: attributes of the answer."""
    sections: tuple[Section, ...] = ()
    """The further tables."""
    options: tuple[Option, ...] = ()
    compute: str = ""
    """`module:function`. The function takes the subject, such as a module, and the options as keyword arguments."""
    rows: str = "rows"
    """The attribute of the answer with the rows of the main table."""
    shown: int = 20
    """The most rows that text for people shows; 0 shows all."""
    listing: str = ""
    """`module:function`. The function takes rows, as tuples of the columns' values, and returns their text for people.
    It is for values that are too long for the columns of a table; without it the text is a table.
    """
    failures: str = ""
    """The name of a total. Where it is above 0, the command's exit code is 1. Empty for none."""
    alike: tuple[str, ...] = ()
    """The names of columns. In tables for people, rows that are equal in all of them are one row, whose `times` is the
    sum over these rows. Empty: every row is shown by itself.
    """
    takes: str = (
        "X is a file with an HLO module (text, proto, gzip), or the name of a module that --server keeps. `-` "
        "reads standard input."
    )
    """The subjects that the report takes, in sentences for `--help`."""
    has_picture: bool = False
    """Whether `xlashape.drawing` draws the answer, which the command then offers as `-o FILE`."""
    asks_directories: bool = False
    """Whether a directory is one subject, such as a profile, and not its files one by one."""
    inputs: tuple[str, ...] = ("module",)
    """The fields of a request to a server that may have the subject. A request sets one of them; of `("a", "b")` both,
    which are compared.
    """
    structures: tuple[Structure, ...] = ()
    """Values of the rows of the main table that requests to a server may ask for as fields."""

    def run(self, *x: Any, **options: Any) -> Answer:
        """The answer about the subject `x`; `diff` takes two. Errors are those of the report's function."""
        return _named(self.compute)(*x, **options)

    def rows_text(self, values: Sequence[Sequence[Any]], width: int | None = None) -> str:
        """Rows of the main table, as tuples of the columns' values, as text for people."""
        return _named(self.listing)(values) if self.listing else table_text(self.columns, values, width)

    def section(self, name: str) -> Section:
        """The section of this name; `totals` is the table whose only row has the totals. InvalidArgumentError for a
        name that the report does not have.
        """
        if name == "totals":
            return Section("totals", self.totals, "numbers about the whole")
        for each in self.sections:
            if each.name == name:
                return each
        names = [each.name for each in self.sections]
        message = f"{self.name} has no section {name!r}; it has {', '.join(names) or 'none'}{did_you_mean(name, names)}"
        raise InvalidArgumentError(message, field="section")

    def columns_of(self, section: str = "") -> tuple[Column, ...]:
        """The columns of the main table or of a section. InvalidArgumentError for a section that the report does not
        have.
        """
        return self.section(section).columns if section else self.columns

    def structures_of(self, section: str = "") -> tuple[Structure, ...]:
        """The structures of the main table or of a section."""
        return self.section(section).structures if section else self.structures

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the document that `--json` prints: what `Answer.to_dict` returns, or one section, and what
        was asked about.
        """
        properties: dict[str, Any] = {
            "schema": {"const": f"xlashape.{self.name}.v1"},
            "x": {"type": "string", "description": "what was asked about"},
            "totals": _object_schema(self.totals),
            "files": {"type": "array", "description": "what was asked about, of several", "items": {"type": "string"}},
            "totals_of_files": {"type": "array", "items": _row_schema(self.totals)},
            self.rows: {"type": "array", "items": _row_schema(self.columns)},
        }
        for each in self.sections:
            properties[each.name] = {
                "type": "array",
                "description": each.meaning,
                "items": _object_schema(each.columns),
            }
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": f"urn:xlashape:{self.name}.v1",
            "title": f"xlashape.{self.name}.v1",
            "description": f"`xlashape {self.name} --json`: {self.summary} A line of --format jsonl is an element of "
            f"`{self.rows}`.",
            "type": "object",
            "properties": properties,
            "required": ["schema"],
            "additionalProperties": False,
        }


def _named(path: str) -> Any:
    module, _, function = path.partition(":")
    return getattr(import_module(module), function)


_JSON_TYPES: Final = {
    ColumnKind.TEXT: "string",
    ColumnKind.INTEGER: "integer",
    ColumnKind.NUMBER: "number",
    ColumnKind.BOOLEAN: "boolean",
    ColumnKind.TEXTS: "array",
    ColumnKind.INTEGERS: "array",
    ColumnKind.COUNTS: "object",
}


def _object_schema(columns: Sequence[Column]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for column in columns:
        unit = f", in {column.unit}" if column.unit and column.unit != "fraction" else ""
        made: dict[str, Any] = {"type": [_JSON_TYPES[column.kind], "null"], "description": f"{column.meaning}{unit}"}
        if column.kind in (ColumnKind.TEXTS, ColumnKind.INTEGERS):
            made["items"] = {"type": "string" if column.kind is ColumnKind.TEXTS else "integer"}
        elif column.kind is ColumnKind.COUNTS:
            made["additionalProperties"] = {"type": "integer"}
        if column.choices:
            of_one: dict[str, Any] = made["items"] if column.kind is ColumnKind.TEXTS else made
            of_one["enum"] = [*column.choices, *([None] if of_one is made else [])]
        properties[column.name] = made
    names = [column.name for column in columns]
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


def _row_schema(columns: Sequence[Column]) -> dict[str, Any]:
    """The schema of a row. With several files, a row names its file, and a refused file has a row with the reason
    alone.
    """
    made = _object_schema(columns)
    text = {"type": ["string", "null"]}
    about = {"file": "the file that was asked about", "module": "its module", "error": "why it is refused"}
    made["properties"] = {
        **{name: {**text, "description": meaning} for name, meaning in about.items()},
        **made["properties"],
    }
    return {**made, "required": []}


def plain(column: Column, value: Any) -> Any:
    """A value as tables and JSON have it: text for objects such as shapes, None for numbers that are not finite.

    >>> from xlashape.shape import Shape
    >>> (
    ...     plain(Column("shape", ColumnKind.TEXT, "a shape"), Shape.parse("f32[2]")),
    ...     plain(Column("n", ColumnKind.NUMBER, "a number"), float("inf")),
    ... )
    ('f32[2]{0}', None)
    """
    if value is None:
        return None
    if column.kind is ColumnKind.TEXT:
        return str(value)
    if column.kind is ColumnKind.INTEGER:
        return int(value)
    if column.kind is ColumnKind.BOOLEAN:
        return bool(value)
    if column.kind is ColumnKind.TEXTS:
        return [str(each) for each in value]
    if column.kind is ColumnKind.INTEGERS:
        return [int(each) for each in value]
    if column.kind is ColumnKind.COUNTS:
        return {int(key): int(count) for key, count in value.items()}
    number = float(value)
    return number if isfinite(number) else None


def row_values(columns: Sequence[Column], row: Any) -> tuple[Any, ...]:
    """The values of a row's object in the order of the columns."""
    return tuple([plain(column, getattr(row, column.name)) for column in columns])


class Answer(Displayed, Tabular, Generic[Row]):
    """What a report returns. An answer has the attributes that its report declares, and is the sequence of the main
    table's rows, each a `Row`.
    """

    __slots__ = ()

    report: ClassVar[Report]

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be known of the answer, such as what of the text in hand was left out or assumed; mostly empty."""
        return getattr(self, "_notes", ())

    def with_notes(self, notes: tuple[str, ...]) -> Self:
        """Gives this answer these notes, and returns it. A class with slots has one for `_notes`."""
        set_field(self, "_notes", notes)
        return self

    @property
    def totals(self) -> dict[str, Any]:
        """The totals by name."""
        return {column.name: plain(column, getattr(self, column.name)) for column in self.report.totals}

    def headline(self) -> str:
        """The most important facts, in a few lines. By default these are the totals that are known, without notes."""
        totals = [(column, getattr(self, column.name)) for column in self.report.totals if column is not NOTES]
        known = [(column, value) for column, value in totals if value is not None and value != ()]
        return facts_text(known)

    def selected(self, rows: Sequence[Any]) -> Answer | None:  # noqa: ARG002 - for reports whose totals follow from rows
        """The answer about these rows alone, in this order; None where totals of some rows have no meaning."""
        return None

    def answer_about(self, section: str) -> Answer:
        """The answer that the main table or a section is about, with the totals that belong to its rows."""
        of = self.report.section(section).of if section else ""
        return getattr(self, of, self) if of else self

    def objects_of(self, section: str = "", argument: Any = None) -> Sequence[Any]:
        """The rows of the main table or of a section, as objects with an attribute for each column."""
        found: Any = getattr(self, section or self.report.rows)
        if section and self.report.section(section).argument is not None:
            found = found(argument)
        return found if isinstance(found, Sequence) else list(found)  # pyright: ignore[reportUnknownVariableType] - of any row

    def rows_of(self, section: str = "", argument: Any = None) -> Iterator[tuple[Any, ...]]:
        """The rows of the main table or of a section, as tuples in the order of its columns, with plain values."""
        if section == "totals":
            yield tuple(self.totals.values())
            return
        columns = self.report.columns_of(section)
        for row in self.objects_of(section, argument):
            yield row_values(columns, row)

    def table(self) -> Table:
        """The main table."""
        return Table(self.report.columns, self.rows_of())

    def section(self, name: str, argument: Any = None) -> Table:
        """A further table, by its name. InvalidArgumentError for a name that the report does not have."""
        return Table(self.report.columns_of(name), self.rows_of(name, argument))

    def to_dict(self) -> dict[str, Any]:
        """The totals, the rows and the sections that need no argument, as a dict for JSON."""
        document: dict[str, Any] = {"totals": self.totals, self.report.rows: list(self.table())}
        for each in self.report.sections:
            if each.argument is None:
                document[each.name] = list(self.section(each.name))
        return document

    def to_text(self, limit: int | None = None, *, width: int | None = None, hint: str = "") -> str:
        """The headline and the first rows of the main table, for people.

        limit: the most rows; None is the report's own limit, 0 is all. width: the characters of a line; None leaves
        lines as long as they are. hint: the text after the number of rows that are not shown.
        """
        most = self.report.shown if limit is None else limit
        columns = self.report.columns
        rows: Sequence[Any] = self.objects_of()
        if self.report.alike:
            rows = alike_together(columns, [row_values(columns, row) for row in rows], self.report.alike)
        chosen = rows[:most] if most else rows
        headline = self.headline()
        notes = "\n".join([each for each in self.notes if each not in headline])
        parts = [broken_text(headline, width), broken_text(notes, width)]
        if chosen:
            values = chosen if self.report.alike else [row_values(columns, row) for row in chosen]
            parts.append(self.report.rows_text(values, width))
        if len(chosen) < len(rows):
            parts.append(not_shown(len(rows) - len(chosen), hint))
        return printable("\n\n".join([part for part in parts if part]))

    def __str__(self) -> str:
        return printable(self.to_text())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self):,} rows>"

    def __len__(self) -> int:
        return len(self.objects_of())

    def __iter__(self) -> Iterator[Row]:
        return iter(self.objects_of())

    @overload
    def __getitem__(self, number: int) -> Row: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Row]: ...
    def __getitem__(self, number: int | slice) -> Any:
        return self.objects_of()[number]


class Computed(Answer[Row]):
    """An answer whose rows can be grouped by what they have in common. Those from a server have groups as a table."""

    __slots__ = ()

    def sums_of(self, rows: Sequence[Any]) -> dict[str, Any]:
        """The totals that are sums over these rows alone, by name."""
        part = self.selected(rows)
        return {} if part is None else part.totals

    def by(self, key: str) -> Sequence[RowGroup]:
        """The rows of the main table in groups, those first whose sums are greatest. Each has `group`, its name,
        `rows`, `count`, and of the report's totals those that are sums over rows.

        key: what the rows of a group have in common: a choice of the section `by`, or where the report has none a
        column of text. Raises InvalidArgumentError for another key.
        """
        section = next((each for each in self.report.sections if each.name == "by"), None)
        columns = section.columns[1:] if section is not None else ()
        texts = [each.name for each in self.report.columns if each.kind is ColumnKind.TEXT]
        keys = section.argument.choices if section is not None and section.argument is not None else texts
        made: list[RowGroup] = []
        for name, rows in self._grouped(key, keys).items():
            sums = self.sums_of(rows)
            made.append(RowGroup(name, rows, {"count": len(rows)} | {each.name: sums[each.name] for each in columns}))
        costs = [each.name for each in columns if each.name == "share"]
        costs += [each.name for each in columns if each.unit == "bytes"]
        made.sort(key=lambda group: ([-abs(group.sums[name] or 0) for name in costs or ["count"]], group.group))
        return tuple(made)

    def _grouped(self, key: str, keys: Sequence[str]) -> dict[str, list[Row]]:
        if key not in ("layer", "each_layer"):
            return grouped(self.objects_of(), key, keys)
        from xlashape.reports.layers import Layers  # start-up time: questions about a shape need no modules

        module: Any = getattr(self, "_program", None) or getattr(self, "module", None)
        return grouped(self.objects_of(), key, keys, Layers(None if isinstance(module, str) else module).of_row)


class Entry(NamedTuple):
    """The place of a report in the library."""

    module: str
    """The package or module with the declaration, `REPORT`. It is imported when the report is asked for."""
    short: str
    """What the report answers, for its line in the list of commands."""
    rpc: str = ""
    """The name of its RPC. Empty: that of the report, with a capital."""


REPORTS: Final[dict[str, Entry]] = {
    "summary": Entry("xlashape.reports.summary", "What stands out in a program, and what mends it."),
    "cost": Entry("xlashape.reports.cost", "FLOPs and bytes of each instruction, and its least time on a chip."),
    "size": Entry("xlashape.reports.size", "How many bytes a shape or the buffers of a program take."),
    "why": Entry("xlashape.reports.why", "Why a buffer is as large as it is, and what would make it smaller."),
    "memory": Entry("xlashape.reports.memory", "The peak of a program's memory, and what lives then."),
    "collectives": Entry("xlashape.reports.collectives", "What a program sends between devices, and what shrinks it."),
    "diff": Entry("xlashape.reports.diff", "What changed from one program to another."),
    "equivalent": Entry("xlashape.reports.equivalent", "Whether programs compute the same, or which pass changed it."),
    "copies": Entry("xlashape.reports.copies", "What only moves data, why, and what removes it."),
    "map": Entry("xlashape.reports.maps", "What the instructions of a module read, as indexing maps.", "IndexingMaps"),
    "tile": Entry("xlashape.reports.tiles", "The tiles of operands that a tile of an instruction's output reads."),
    "verify": Entry("xlashape.reports.verification", "Whether a module keeps XLA's rules."),
    "reads": Entry("xlashape.reports.reads", "What instructions read, how well, and how much is fetched unused."),
    "profile": Entry("xlashape.reports.profile", "Where the time of a profile goes, by instruction and by line."),
}


def rpc_of(name: str) -> str:
    """The name of a report's RPC, with which those of its messages begin; it need not be registered."""
    entry = REPORTS.get(name)
    return (entry and entry.rpc) or name.capitalize()


def report_of(name: str) -> Report:
    """The declaration of a report. Raises NotFoundError for a name that is not registered."""
    entry = REPORTS.get(name)
    if entry is None:
        message = f"there is no report {name!r}; there are {', '.join(REPORTS)}{did_you_mean(name, REPORTS)}"
        raise NotFoundError(message, kind="report", name=name)
    return import_module(entry.module).REPORT
