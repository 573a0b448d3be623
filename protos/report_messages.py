"""Writes the enums and messages of ReportService, in protos/xlashape/v1/report_service.proto, from the declarations of
reports.

    python protos/report_messages.py

What the schema has already keeps its numbers; what is new gets the next ones. The head of the file and the service
itself are written by hand.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from xlashape.base.tables import Column
from xlashape.base.vocabulary import Vocabulary
from xlashape.reports.messages import (
    MOST_ROWS,
    arguments,
    has_structures,
    remote_options,
    tables,
    type_text,
    vocabulary_of,
)
from xlashape.reports.report import REPORTS, Option, Report, Structure, report_of, rpc_of

SCHEMA = Path(__file__).parent / "xlashape" / "v1" / "report_service.proto"

_INPUTS = {
    "module": ("ModuleInput", "The module"),
    "profile": ("optional bytes", "The content of an .xplane.pb or a .trace.json.gz"),
    "shape": ("ShapeInput", "The shape"),
    "text": ("string", "Text with shapes in it, such as a report about memory that has run out"),
}
"""The inputs of reports → type and meaning. An input that is not here is a module under another name."""

Numbers = Mapping[tuple[str, str], int]


def schema_text(schema: str) -> str:
    """The schema with the enums and messages that the declarations of the registered reports give it."""
    head, end, generated = schema.partition("\n}\n")
    numbers = _numbers_of(generated)
    elsewhere = _enums_of((SCHEMA.parent / "types.proto").read_text(encoding="utf-8"))
    return f"{head}{end}\n{proto_text(list(map(report_of, REPORTS)), numbers, elsewhere)}"


def proto_text(reports: Sequence[Report], numbers: Numbers, elsewhere: Collection[str] = ()) -> str:
    """The enums, but for those that are declared `elsewhere`, and the messages of reports. `numbers`: message or enum
    and the name of a field or value → its number, where it has one.
    """
    enums = [each for each in _vocabularies(reports) if each.enum not in elsewhere]
    parts = [*map(_enum, enums), *[part for report in reports for part in _messages(report, numbers)]]
    lines = "\n\n".join(parts).splitlines()
    return "\n".join([_wrapped(each) if each.lstrip().startswith("//") else each for each in lines]) + "\n"


def _numbers_of(text: str) -> Numbers:
    numbers: dict[tuple[str, str], int] = {}
    declared = ""
    for line in text.splitlines():
        begun = re.match(r"(?:message|enum) (\w+) \{", line)
        member = re.match(r" +(?:[\w.<>, ]+ )?(\w+) = (\d+);", line)
        declared = begun[1] if begun else declared
        if member:
            numbers[declared, member[1]] = int(member[2])
    return numbers


def _enums_of(text: str) -> set[str]:
    return set(re.findall(r"^enum (\w+) \{", text, re.MULTILINE))


def _vocabularies(reports: Iterable[Report]) -> Iterator[Vocabulary]:
    """The vocabularies of all columns and options, each enum once."""
    seen: set[str] = set()
    for report in reports:
        columns: list[Column | Option] = [*report.options, *arguments(report), *report.totals, *report.columns]
        columns += [column for section in report.sections for column in section.columns]
        for found in (*map(vocabulary_of, columns), tables(report)):
            if found is not None and found.enum not in seen:
                seen.add(found.enum)
                yield found


def _enum(vocabulary: Vocabulary) -> str:
    lines = [f"// {_sentence(vocabulary.meaning)}", f"enum {vocabulary.enum} {{", "  // Not set, or not known."]
    lines.append(f"  {vocabulary.member('')} = 0;")
    for text, meaning in vocabulary.meanings.items():
        lines += [f"  // {_sentence(meaning)}", f"  {vocabulary.member(text)} = {vocabulary.number(text)};"]
    return "\n".join([*lines, "}"])


def _messages(report: Report, numbers: Numbers) -> Iterator[str]:
    name, rpc = report.name.capitalize(), rpc_of(report.name)
    rows = [
        (section.name, f"{name}Row" if section.columns == report.columns else f"{name}{_camel(section.name)}Row")
        for section in report.sections
    ]
    summary = f"{report.summary[:1].lower()}{report.summary[1:]}"
    yield _message(f"{rpc}Request", f"The request of the report `{report.name}`: {summary}", _request(report), numbers)
    table = f" of `table`, {report.rows} if it is not set" if rows else ""
    fields = [
        ("The totals of the report.", f"{name}Totals", "totals"),
        (
            f"Rows of the main table{', if the request names no other' if rows else ''}.",
            f"repeated {name}Row",
            report.rows,
        ),
        ("The number of rows on all pages.", "int64", "row_count"),
        ("The page_token of a request for the next page. Empty if this is the last page.", "string", "next_page_token"),
        ("A summary of the report, as text of a few lines.", "string", "headline"),
        *[(_sentence(report.section(each).meaning), f"repeated {kind}", each) for each, kind in rows],
    ]
    yield _message(f"{rpc}Response", f"The answer of the report `{report.name}`: rows{table}.", fields, numbers)
    same = [report.rows, *[section for section, message in rows if message == f"{name}Row"]]
    yield _row(f"{name}Totals", f"The totals of the report `{report.name}`.", report.totals, numbers)
    comment = f"A row of the table {' or '.join([f'`{each}`' for each in same])}."
    yield _row(f"{name}Row", comment, report.columns, numbers, report.structures)
    for section, message in rows:
        if message != f"{name}Row":
            found = report.section(section)
            yield _row(message, _sentence(found.meaning), found.columns, numbers, found.structures)


Field = tuple[str, str, str]
"""Comment, type and name."""


def _request(report: Report) -> list[Field | list[Field]]:
    """The fields of a request; a list of fields is the `oneof` of the subject."""
    paged = f"The most rows of the answer; 0, and more than {MOST_ROWS:,}, stand for {MOST_ROWS:,}. Fewer rows are "
    fields: list[Field | list[Field]] = [
        (f"{paged}returned where their texts are long, but at least one.", "int32", "page_size"),
        ("The next_page_token of the previous answer; all other fields but page_size must be as in the previous request. "
         "Empty: the first page.", "string", "page_token"),
    ]  # fmt: skip
    inputs: list[Field] = []
    for each in report.inputs:
        meaning = f"The module {each}" if len(report.inputs) > 1 else "The module"
        kind, meaning = _INPUTS.get(each, ("ModuleInput", meaning))
        inputs.append((f"{meaning}.", kind, each))
    fields += inputs if report.inputs in (("a", "b"),) or len(inputs) == 1 else [inputs]
    table = tables(report)
    if table is not None:
        fields.append(
            (f"The table whose rows are returned. Default: {table.member(report.rows)}.", table.enum, "table")
        )
    for section, option in zip([each for each in report.sections if each.argument], arguments(report), strict=True):
        of = f"Of the table `{section.name}`, which needs it, and of no other: {option.meaning}"
        among = _among(option)
        kind = "optional bytes" if option.is_content else type_text(option)
        fields.append((_sentence(f"{of}{among}", option.unit), kind, option.name))
    for option in remote_options(report):
        choices = vocabulary_of(option)
        default = (
            f"{_sentence(option.meaning)} Default: {choices.member(option.default)}."
            if choices and option.default
            else ""
        )
        fields.append(
            (default or _sentence(option.meaning + _among(option), option.unit), type_text(option), option.name)
        )
    if has_structures(report):
        fields.append(("Whether rows have their maps as fields too.", "bool", "structured"))
    return fields


def _among(option: Option) -> str:
    """Which values of its enum an option may have, where it may not have all of them."""
    choices = vocabulary_of(option)
    if choices is None or len(choices) == len(choices.meanings):
        return ""
    return f". One of {', '.join(map(choices.member, choices))}"


def _row(
    name: str, comment: str, columns: Iterable[Column], numbers: Numbers, structures: Iterable[Structure] = ()
) -> str:
    fields = [(_sentence(each.meaning, each.unit), type_text(each), each.name) for each in columns]
    fields += [(f"If the request is `structured`: {each.meaning}.", each.message, each.name) for each in structures]
    return _message(name, comment, fields, numbers)


def _message(name: str, comment: str, fields: Iterable[Field | list[Field]], numbers: Numbers) -> str:
    lines = [f"// {comment}", f"message {name} {{"]
    last = max([number for (message, _), number in numbers.items() if message == name], default=0)

    def add(field: Field, indent: str) -> None:
        nonlocal last
        meaning, kind, field_name = field
        number = numbers.get((name, field_name))
        if number is None:
            number = last = last + 1
        lines.extend([f"{indent}// {meaning}", f"{indent}{kind} {field_name} = {number};"])

    for each in fields:
        if isinstance(each, list):
            lines += ["  // What the question is about. Exactly one of these fields is set.", "  oneof subject {"]
            for member in each:
                add(member, "    ")
            lines.append("  }")
        else:
            add(each, "  ")
    return "\n".join([*lines, "}"])


def _camel(name: str) -> str:
    return "".join([part.capitalize() for part in name.split("_")])


def _sentence(meaning: str, unit: str = "") -> str:
    counted = f", in {unit}" if unit and unit != "fraction" and unit not in meaning.lower() else ""
    return f"{meaning[:1].upper()}{meaning[1:].rstrip('.')}{counted}."


def _wrapped(comment: str) -> str:
    begin = comment[: comment.index("//")] + "// "
    words = textwrap.TextWrapper(120, subsequent_indent=begin, break_long_words=False, break_on_hyphens=False)
    return words.fill(comment)


if __name__ == "__main__":
    SCHEMA.write_text(schema_text(SCHEMA.read_text(encoding="utf-8")), encoding="utf-8")
