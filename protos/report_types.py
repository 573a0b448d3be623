"""Makes clients/python/xlashape_client/answers.pyi, the types of the answers of Python's clients, from the declarations
of the reports.

    python protos/report_types.py

A value may be None where the attribute of the library's own answer may be, and where a number may not be finite.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from xlashape.base.tables import Column
from xlashape.reports.report import REPORTS, Report, report_of
from xlashape.reports.structures import RECEIVED

FILE: Final = Path(__file__).resolve().parents[1] / "clients/python/xlashape_client/answers.pyi"
_TYPES: Final = {
    "TEXT": "str", "INTEGER": "int", "NUMBER": "float", "BOOLEAN": "bool", "TEXTS": "list[str]", "INTEGERS": "list[int]",
    "COUNTS": "dict[int, int]",
}  # fmt: skip
_HEAD: Final = '''"""The answers of reports from a server: an attribute for each total, table and column.

Written by protos/report_types.py.
"""

from collections.abc import Sequence

from xlashape.reports.messages import Received, ReceivedRow
from xlashape.reports.structures import ReceivedIndexing, ReceivedTileMaps
from xlashape.symbolic import IndexingMap
'''


def types_text() -> str:
    """The text of the file."""
    return "\n".join([_HEAD, *[line for name in REPORTS for line in _of_report(report_of(name))]])


def answers_of(name: str) -> list[Any]:
    """The classes of the library's answers of a report."""
    module, _, function = report_of(name).compute.partition(":")
    return _classes(inspect.unwrap(getattr(import_module(module), function)), "return")


def _of_report(report: Report) -> Iterator[str]:
    answers = answers_of(report.name)
    name = f"Received{report.name.capitalize()}"
    tables = {report.rows: f"{name}Row"} | {each.name: f"{name}{_camel(each.name)}Row" for each in report.sections}
    for table, row in tables.items():
        columns = report.columns_of("" if table == report.rows else table)
        rows = [found for answer in answers for found in _classes(answer, table)]
        yield from ["", f"class {row}(ReceivedRow):", *_attributes(columns, rows)]
        for each in report.structures_of("" if table == report.rows else table):
            yield f"    {each.name}: {RECEIVED[each.message]} | None"
    yield from ["", f"class {name}(Received[{name}Row]):", *_attributes(report.totals, answers)]
    yield from [f"    {table}: Sequence[{row}]" for table, row in tables.items()]


def _attributes(columns: Sequence[Column], owners: Sequence[Any]) -> Iterator[str]:
    for column in columns:
        if column.name == "notes":  # every answer has it
            continue
        kind = _TYPES[column.kind.name]
        found = [annotation(owner, column.name) for owner in owners]
        is_known = bool(found) and all(text and "None" not in text and "Any" not in text for text in found)
        is_known = kind.startswith(("list", "dict")) or (is_known and kind != "float")
        yield f"    {column.name}: {kind}{'' if is_known else ' | None'}"


def annotation(owner: Any, name: str) -> str:
    """The annotation of an attribute, a property or a method, as text; "" if there is none."""
    if inspect.isfunction(owner):
        return str(owner.__annotations__.get(name, ""))
    value = inspect.getattr_static(owner, name, None)
    function = value if inspect.isfunction(value) else getattr(value, "fget", None) or getattr(value, "func", None)
    if function is not None:
        return str(function.__annotations__.get("return", ""))
    annotations = [inspect.get_annotations(base) for base in owner.__mro__]
    return next((str(each[name]) for each in annotations if name in each), "")


def _classes(owner: Any, name: str) -> list[Any]:
    """The classes of ours that an annotation names."""
    return [each for word in re.findall(r"\w+", annotation(owner, name)) for each in _named(owner.__module__, word)]


def _named(module: str, word: str) -> Iterator[Any]:
    found = getattr(sys.modules[module], word, None) or getattr(sys.modules[module.rpartition(".")[0]], word, None)
    if isinstance(found, str):  # the alias of a union
        yield from [each for one in re.findall(r"\w+", found) for each in _named(module, one)]
    elif inspect.isclass(found) and found.__module__.startswith("xlashape."):
        yield found


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


if __name__ == "__main__":
    FILE.write_text(types_text() + "\n", encoding="utf-8")
