"""Writes what the page knows of reports, src/reports.json, from their declarations: python
server/page/generate_reports.py.

Columns, types, units and meanings are those of the register of reports, so that the page has one table for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xlashape.base.tables import Column
from xlashape.reports.messages import remote_options
from xlashape.reports.report import REPORTS, Option, report_of

_OF_AN_ELEMENT = ("map", "tile")
"""Reports that the page shows in the view of an element, and not as tables."""
FILE = Path(__file__).resolve().parent / "src" / "reports.json"


def text() -> str:
    """The content of the file: a line for each report."""
    shown = [name for name in REPORTS if name not in _OF_AN_ELEMENT]
    reports = ",\n".join(f"{json.dumps(name)}: {_line(_report(name))}" for name in shown)
    return f'{{"reports": {{\n{reports}\n}}}}\n'


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _report(name: str) -> dict[str, Any]:
    report = report_of(name)
    return {
        "short": REPORTS[name].short,
        "summary": report.summary,
        "rows": report.rows,
        "shown": report.shown,
        "inputs": report.inputs,
        "columns": _columns(report.columns),
        "totals": _columns(report.totals),
        "sections": [
            {
                "name": each.name,
                "meaning": each.meaning,
                "columns": _columns(each.columns),
                "argument": None if each.argument is None else _option(each.argument),
            }
            for each in report.sections
            if each.argument is None or not each.argument.is_content  # the page uploads one file
        ],
        "options": [_option(each) for each in remote_options(report)],
    }


def _columns(columns: Sequence[Column]) -> list[dict[str, Any]]:
    return [
        {name: getattr(each, name) for name in ("name", "kind", "unit", "meaning", "rank", "heading")}
        | {"choices": each.choices or ()}
        for each in columns
    ]


def _option(option: Option) -> dict[str, Any]:
    names = ("name", "kind", "meaning", "choices", "unit")
    return {name: getattr(option, name) for name in names}


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
