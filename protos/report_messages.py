"""Makes the messages of a report's RPC, in protos/xlashape/v1/report_service.proto, from the report's declaration.

    python protos/report_messages.py memory      # prints the messages, with the numbers of new ones
    python protos/report_messages.py             # writes the comments of all reports' messages into the schema

Fields that the schema has already keep their numbers.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from xlashape.base.tables import Column
from xlashape.reports.messages import MOST_ROWS, remote_options, type_text
from xlashape.reports.report import REPORTS, Report, report_of

_INPUTS = {
    "module": ("ModuleInput", "The module"),
    "profile": ("optional bytes", "The content of an .xplane.pb or a .trace.json.gz"),
    "shape": ("ShapeInput", "The shape, instead of a module"),
    "text": (
        "optional string",
        "Text with shapes in it, such as a report about memory that has run out, instead of a module",
    ),
}
"""The inputs of reports → type and meaning. An input that is not here is a module under another name."""


def proto_text(report: Report) -> str:
    """The messages of a report's RPC as text for the schema. Their fields are numbered as in a new message."""
    name = report.name.capitalize()
    rows = [
        (section.name, f"{name}Row" if section.columns == report.columns else f"{name}{_camel(section.name)}Row")
        for section in report.sections
    ]
    lines = [
        f"// The request of the report `{report.name}`: {report.summary[:1].lower()}{report.summary[1:]}",
        f"message {name}Request {{",
        "  // The first row of the answer, counted from 0.",
        "  int64 first_row = 1;",
        f"  // The most rows of the answer, at most {MOST_ROWS:,}; 0 stands for {MOST_ROWS:,}. Fewer rows are "
        "returned where their texts are long, but at least one.",
        "  int32 max_rows = 2;",
        f"  // The table whose rows are returned: empty for `{report.rows}`{_sections(report)}.",
        "  string section = 3;",
        f"  // {_arguments(report)}",
        "  string argument = 4;",
    ]
    for number, each in enumerate(report.inputs, 5):
        kind, meaning = _INPUTS.get(
            each, ("ModuleInput", f"The module {each}" if len(report.inputs) > 1 else "The module")
        )
        lines += [f"  // {meaning}.", f"  {kind} {each} = {number};"]
    for number, option in enumerate(remote_options(report), 5 + len(report.inputs)):
        kind = type_text(Column(option.name, option.kind, option.meaning))
        choices = f": {' or '.join(option.choices)}" if option.choices and len(option.choices) <= 2 else ""
        lines += [f"  // {_sentence(option.meaning + choices, option.unit)}", f"  {kind} {option.name} = {number};"]
    contents = [each.argument for each in report.sections if each.argument is not None and each.argument.is_content]
    for number, each in enumerate(contents, 5 + len(report.inputs) + len(remote_options(report))):
        lines += [f"  // The content of {each.meaning}.", f"  optional bytes {each.name} = {number};"]
    lines += [
        "}",
        "",
        f"// The answer of the report `{report.name}`.",
        f"message {name}Response {{",
        "  // The totals of the report.",
        f"  {name}Totals totals = 1;",
        "  // The rows from `first_row` on, if the request names no section.",
        f"  repeated {name}Row {report.rows} = 2;",
        "  // The number of rows of the requested table.",
        "  int64 row_count = 3;",
        "  // A summary of the report, as text of a few lines.",
        "  string headline = 4;",
    ]
    for offset, (section, message) in enumerate(rows):
        lines += [
            f"  // {_sentence(report.section(section).meaning)}",
            f"  repeated {message} {section} = {5 + offset};",
        ]
    lines.append("}")
    same = [report.rows, *[section for section, message in rows if message == f"{name}Row"]]
    tables = [
        (f"{name}Totals", f"The totals of the report `{report.name}`", report.totals),
        (f"{name}Row", f"A row of the table {' or '.join([f'`{each}`' for each in same])}", report.columns),
    ]
    for section, message in rows:
        if message != f"{name}Row":
            tables.append((message, _sentence(report.section(section).meaning)[:-1], report.section(section).columns))
    for message, meaning, columns in tables:
        lines += ["", f"// {meaning}.", f"message {message} {{"]
        for offset, column in enumerate(columns):
            lines += [
                f"  // {_sentence(column.meaning, column.unit)}",
                f"  {type_text(column)} {column.name} = {offset + 1};",
            ]
        lines.append("}")
    return "\n".join([_wrapped(line) if line.lstrip().startswith("//") else line for line in lines]) + "\n"


def _sections(report: Report) -> str:
    names = [f"`{section.name}`" for section in report.sections]
    return f", or one of {', '.join(names)}" if names else ""


def _arguments(report: Report) -> str:
    parts: list[str] = []
    for section in report.sections:
        if section.argument is not None and section.argument.is_content:
            parts.append(f"for `{section.name}` nothing, since it takes the field `{section.argument.name}`")
        elif section.argument is not None:
            choices = f" ({', '.join(section.argument.choices)})" if section.argument.choices else ""
            parts.append(f"for `{section.name}` {section.argument.meaning}{choices}")
    return (
        f"The argument of the table: {'; '.join(parts)}."
        if parts
        else "The argument of the table. No table of this report has one."
    )


def _camel(name: str) -> str:
    return "".join([part.capitalize() for part in name.split("_")])


def _sentence(meaning: str, unit: str = "") -> str:
    counted = f", in {unit}" if unit and unit != "fraction" and unit not in meaning.lower() else ""
    return f"{meaning[:1].upper()}{meaning[1:].rstrip('.')}{counted}."


SCHEMA = Path(__file__).parent / "xlashape" / "v1" / "report_service.proto"


def commented(schema: str) -> str:
    """The schema with the comments that the declarations of the registered reports give its messages and fields."""
    declared = {where: comment for name in REPORTS for where, comment, _ in _places(proto_text(report_of(name)))}
    lines: list[str] = []
    for where, comment, line in _places(schema):
        if comment:
            lines.append(comment if where is None else declared.get(where, comment))
        lines.append(line)
    return "\n".join(lines) + "\n"


def _wrapped(comment: str) -> str:
    begin = comment[: comment.index("//")] + "// "
    words = textwrap.TextWrapper(120, subsequent_indent=begin, break_long_words=False, break_on_hyphens=False)
    return words.fill(comment)


def _places(text: str) -> Iterator[tuple[tuple[str, str] | None, str, str]]:
    """For each line of a schema that is no comment: the message and field that it declares, the comment above it, the
    line."""
    comment: list[str] = []
    message = ""
    for line in text.splitlines():
        if line.lstrip().startswith("//"):
            comment.append(line)
            continue
        begun = re.match(r"message (\w+) \{", line)
        field = re.match(r"  (?:repeated |optional )?[\w.]+ (\w+) = [0-9]+;", line)
        message = begun[1] if begun else "" if line == "}" else message
        where = (message, field[1] if field else "") if message and (begun or field) else None
        yield where, "\n".join(comment), line
        comment = []


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.stdout.write(proto_text(report_of(sys.argv[1])))
    else:
        SCHEMA.write_text(commented(SCHEMA.read_text(encoding="utf-8")), encoding="utf-8")
