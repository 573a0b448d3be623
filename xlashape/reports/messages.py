"""Answers of reports as protobuf messages of the service, and back. Each report has an RPC, whose messages have the
fields that the report's declaration names.

A request names its subject, a table of the report, the argument of that table if it takes one, and a page. A response
has `totals` (a message with a field for each total), `headline` (a text), and rows of one table, in the field of the
table's name. `row_count` is how many rows the table has, and `next_page_token` leads to the rest of them. A column or
an option with a Vocabulary has the vocabulary's enum. `differences` compares the schema of the messages with the
declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.message import Message

from xlashape.base.tables import Column, ColumnKind, Table
from xlashape.base.vocabulary import Vocabulary
from xlashape.errors import InvalidArgumentError
from xlashape.limits import INT64_MAX, INT64_MIN, spend
from xlashape.proto import is_repeated
from xlashape.reports.report import Answer, Option, Report, Row, Structure, row_values
from xlashape.reports.structures import CODECS

M = TypeVar("M", bound=Message)

_TYPES: Final = {
    ColumnKind.TEXT: "optional string",
    ColumnKind.INTEGER: "optional int64",
    ColumnKind.NUMBER: "optional double",
    ColumnKind.BOOLEAN: "optional bool",
    ColumnKind.TEXTS: "repeated string",
    ColumnKind.INTEGERS: "repeated int64",
    ColumnKind.COUNTS: "map<int64, int64>",
}
MOST_ROWS: Final = 2_000
"""The most rows of one response."""
_MOST_BYTES: Final = 3 << 20
"""A response ends after the row with which it exceeds this number of bytes: gRPC receives 4 MiB by default."""


def response_of(
    answer: Answer, response: type[M], *, section: str = "", argument: Any = "", first: int = 0, most: int = 0,
    structured: bool = False,
) -> M:  # fmt: skip
    """The message of type `response` for an answer, with rows of the section named `section`, or of the main table.

    first: the number of the first row. most: the most rows; 0, and more than MOST_ROWS, stand for MOST_ROWS. There are
    fewer where the texts of rows are long, but at least one if there is a row `first`. argument: that of the section,
    if it takes one. structured: fill the fields that have values as structure. Raises NotFoundError
    for a section that the report does not have.
    """
    message: Any = response()
    report = answer.report
    _fill(message.totals, report.totals, row_values(report.totals, answer.answer_about(section)))
    last = first + min(most or MOST_ROWS, MOST_ROWS)
    columns = report.columns_of(section)
    rows = answer.objects_of(section, argument)
    of_section = report.section(section).headline if section and section != "totals" else None
    message.headline = of_section(answer, rows, argument) if of_section else answer.headline()
    message.row_count = len(rows)
    structures = report.structures_of(section) if structured else ()
    _add(getattr(message, section or report.rows), columns, structures, rows[first:last])
    return message


def _add(messages: Any, columns: Sequence[Column], structures: Sequence[Structure], rows: Iterable[Any]) -> None:
    """Adds rows to a repeated field, until their size exceeds _MOST_BYTES."""
    size = 0
    for row in rows:
        spend(len(columns))
        made = messages.add()
        _fill(made, columns, row_values(columns, row))
        for each in structures:
            value = getattr(row, each.name)
            if value is not None:
                getattr(made, each.name).CopyFrom(CODECS[each.message][0](value))
        size += made.ByteSize()
        if size > _MOST_BYTES:
            return


def _fill(message: Any, columns: Sequence[Column], values: Sequence[Any]) -> None:
    """Sets the fields of a message. A field stays unset for None, and for an integer that is no int64."""
    for column, value in zip(columns, values, strict=True):
        if value is None:
            continue
        kind, choices = column.kind, column.choices
        if kind is ColumnKind.COUNTS:
            getattr(message, column.name).update(value)
        elif kind in (ColumnKind.TEXTS, ColumnKind.INTEGERS):
            getattr(message, column.name).extend(map(choices.number, value) if choices is not None else value)
        elif choices is not None:
            setattr(message, column.name, choices.number(value))
        elif kind is not ColumnKind.INTEGER or INT64_MIN <= value <= INT64_MAX:
            setattr(message, column.name, value)


class ReceivedRow:
    """A row of an answer that a server has sent: an attribute for each column."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    if not TYPE_CHECKING:  # checkers know the attributes from the stub of the client's answers

        def __getattr__(self, name: str) -> Any:
            try:
                return self._values[name]
            except KeyError:
                raise AttributeError(f"the row has no {name!r}; it has {', '.join(self._values)}") from None

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, ReceivedRow) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(map(str, self._values.values())))

    def __repr__(self) -> str:
        return f"<{', '.join([f'{name}={value!r}' for name, value in self._values.items() if value is not None])}>"

    def __getstate__(self) -> dict[str, Any]:
        return self._values

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._values = state


class Received(Answer[Row]):
    """An answer that a server has sent: the totals, the rows of the main table, and those sections that were asked for,
    with plain values.
    """

    def __init__(self, report: Report, tables: Mapping[str, Sequence[Any]], most: int | None = None) -> None:
        """`tables`: the name of a section, or "" for the main table → its responses, in the order of their rows. most:
        the most rows of a table; None for all.
        """
        self.report = report  # pyright: ignore[reportAttributeAccessIssue] - other classes have one report
        first = next(iter(tables.values()))[0]
        self._headline = first.headline
        self._totals = _read(report.totals, first.totals)
        self._notes = tuple(self._totals.get("notes") or ())
        self._tables: dict[str, list[ReceivedRow]] = {}
        self.row_count: int = next(iter(tables.values()))[0].row_count
        """The rows that the server has of the first table that was asked for; `max_rows` may have left out some."""
        for name, pages in tables.items():
            columns, structures = report.columns_of(name), report.structures_of(name)
            self._tables[name] = [
                ReceivedRow(_read(columns, row) | _read_structures(structures, row))
                for page in pages
                for row in getattr(page, name or report.rows)
            ][:most]

    if not TYPE_CHECKING:  # checkers know the attributes from the stub of the client's answers

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            if name in self._totals:
                return self._totals[name]
            if name == self.report.rows or any(section.name == name for section in self.report.sections):
                return self.objects_of("" if name == self.report.rows else name)
            raise AttributeError(f"the answer of {self.report.name} has no {name!r}")

    def objects_of(self, section: str = "", argument: Any = None) -> Sequence[Any]:  # noqa: ARG002 - the server used it
        """The rows of a table. InvalidArgumentError for a table that was not asked for."""
        rows = self._tables.get(section)
        if rows is None:
            self.report.section(section or "totals")
            message = f"the server was not asked for {section or self.report.rows}: name it in `sections`"
            raise InvalidArgumentError(message, field="sections")
        return rows

    def to_dict(self) -> dict[str, Any]:
        """The totals, and the tables without arguments that were asked for."""
        names = [name for name in self._tables if not name or self.report.section(name).argument is None]
        return {"totals": self.totals} | {
            name or self.report.rows: list(Table(self.report.columns_of(name), self.rows_of(name))) for name in names
        }

    def headline(self) -> str:
        return self._headline

    def __len__(self) -> int:
        """How many rows of the main table the server has sent: 0 where only sections were asked for."""
        return len(self._tables.get("", ()))

    def to_text(self, limit: int | None = None, *, width: int | None = None, hint: str = "") -> str:
        return super().to_text(limit, width=width, hint=hint) if "" in self._tables else self._headline


def _read(columns: Sequence[Column], message: Any) -> dict[str, Any]:
    return {column.name: read_field(column, message) for column in columns}


def _read_structures(structures: Sequence[Structure], message: Any) -> dict[str, Any]:
    return {
        each.name: CODECS[each.message][1](getattr(message, each.name)) if message.HasField(each.name) else None
        for each in structures
    }


def read_field(column: Column | Option, message: Any) -> Any:
    """The value of a column's or an option's field; None where it is not set."""
    value = getattr(message, column.name)
    choices = vocabulary_of(column)
    if column.kind is ColumnKind.COUNTS:
        return dict(value)
    if column.kind in (ColumnKind.TEXTS, ColumnKind.INTEGERS):
        return [choices.text(each) or "" for each in value] if choices is not None else list(value)
    if choices is not None:
        return choices.text(value)
    return value if message.HasField(column.name) else None


def vocabulary_of(column: Column | Option) -> Vocabulary | None:
    """The vocabulary of a column or an option; None where it has other values."""
    return column.choices if isinstance(column.choices, Vocabulary) else None


def remote_options(report: Report) -> tuple[Option, ...]:
    """The options that a request has: all except those that name something on the caller's machine."""
    return tuple([option for option in report.options if not option.is_local])


def arguments(report: Report) -> tuple[Option, ...]:
    """The arguments of the report's sections, each under the name of its field in the request."""
    found = [(each, each.argument) for each in report.sections if each.argument is not None]
    return tuple([one if one.is_content else one._replace(name=each.name) for each, one in found])


def has_structures(report: Report) -> bool:
    """Whether some rows of a report have values that a request can ask for as fields."""
    return bool(report.structures or any(each.structures for each in report.sections))


def tables(report: Report) -> Vocabulary | None:
    """The tables of a report, the main one first; None where there are no others."""
    meanings = {report.rows: "the main table", **{each.name: each.meaning for each in report.sections}}
    named = f"{report.name.capitalize()}Table"
    return Vocabulary(named, f"A table of the report `{report.name}`", meanings) if report.sections else None


def type_text(column: Column | Option) -> str:
    """The type of a column's field in the protobuf schema, such as `optional int64`."""
    choices = vocabulary_of(column)
    if choices is not None:
        return f"repeated {choices.enum}" if column.kind is ColumnKind.TEXTS else choices.enum
    return _TYPES[column.kind]


def _type_of(field: FieldDescriptor) -> str:
    """The type of a field as `type_text` writes it."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return f"map<{', '.join([_type_of(each).removeprefix('optional ') for each in field.message_type.fields])}>"
    if field.enum_type is not None:
        name = field.enum_type.name
    else:
        name = FieldDescriptorProto.Type.Name(cast("Any", field.type)).removeprefix("TYPE_").lower()
    prefix = (
        "repeated " if is_repeated(field) else "optional " if field.has_presence and field.enum_type is None else ""
    )
    return f"{prefix}{name}"


def differences(report: Report, request: Descriptor, response: Descriptor) -> list[str]:
    """How the messages of a report's RPC differ from its declaration, in sentences; empty if they agree."""
    found: list[str] = []
    by_name = response.fields_by_name
    declared = [("totals", report.totals, ()), (report.rows, report.columns, report.structures)]
    declared += [(section.name, section.columns, section.structures) for section in report.sections]
    for name, columns, structures in declared:
        field = by_name.get(name)
        if field is None or field.message_type is None:
            found.append(f"{response.name} has no message {name}")
            continue
        if (name != "totals") != is_repeated(field):
            found.append(f"{response.name}.{name} is {'not ' if name != 'totals' else ''}repeated")
        found += _field_differences(field.message_type, columns, [each.name for each in structures])
        for each in structures:
            kind = (
                fields[each.name].message_type if each.name in (fields := field.message_type.fields_by_name) else None
            )
            if kind is None or kind.name != each.message:
                found.append(f"{field.message_type.name} has no {each.message} {each.name}")
    others = ("row_count", "headline", "next_page_token")
    found += [f"{response.name} has no {name}" for name in others if name not in by_name]
    known = {*others, *[name for name, *_ in declared]}
    found += [f"{response.name}.{name} is not declared" for name in by_name if name not in known]
    own = {"page_size", "page_token", *report.inputs, *(["table"] if report.sections else [])}
    own |= {"structured"} if has_structures(report) else set()
    found += [f"{request.name} has no {name}" for name in sorted(own - set(request.fields_by_name))]
    return found + _field_differences(request, (*remote_options(report), *arguments(report)), own)


def _field_differences(message: Descriptor, columns: Sequence[Column | Option], own: Iterable[str] = ()) -> list[str]:
    found: list[str] = []
    for column in columns:
        field = message.fields_by_name.get(column.name)
        wanted = "optional bytes" if isinstance(column, Option) and column.is_content else type_text(column)
        if field is None:
            found.append(f"{message.name} has no {column.name}")
        elif _type_of(field) != wanted:
            found.append(f"{message.name}.{column.name} is {_type_of(field)}, and not {wanted}")
    names = {*own, *[column.name for column in columns]}
    return found + [f"{message.name}.{name} is not declared" for name in message.fields_by_name if name not in names]
