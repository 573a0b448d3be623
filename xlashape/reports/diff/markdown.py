"""A diff as a document: as Markdown for the comment of a pull request, with the summary first and the rows behind the
first ten folded, in at most 65,536 characters; or as HTML in one file.

Both functions take a Diff, or the answer of a server with its section `measures`, as `found`.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any, Final

from xlashape.base.math import counted
from xlashape.reports.diff.text import amount, costs_of, title_of, verdict
from xlashape.reports.text import short_bytes

MAX_CHARACTERS: Final = 65_536
"""GitHub refuses longer comments."""
_SHOWN: Final = 10
"""How many rows are not folded."""
_CELL: Final = 160
"""The most characters of a cell."""
_ESCAPED: Final = str.maketrans(
    {each: f"&#{ord(each)};" for each in "<>|@&"} | {each: f"\\{each}" for each in "\\`*_[]#~"}
)
"""Characters that have a meaning in Markdown → how to write them as plain text."""


def markdown(
    found: Any,
    title: str,
    reasons: Sequence[str] = (),
    most: int = MAX_CHARACTERS,
    *,
    changes: Sequence[Any] | None = None,
) -> str:
    """The diff in Markdown, with as many rows as fit into `most` characters. `title` says what was compared, `reasons`
    why a gate fails; `changes` are the rows, without it all."""
    rows = found.changes if changes is None else changes
    lines = [f"### {_plain(title)}", ""]
    lines += [f"- ❌ {_plain(reason)}" for reason in reasons] + [""] * bool(reasons)
    if found.same:
        lines.append(found.headline().replace(found.fingerprint_a, f"`{found.fingerprint_a}`"))
        return _cut("\n".join(lines) + "\n", most)
    lines += [f"{_plain(verdict(found.changes, found.measures))}.", ""]
    different = [each for each in found.measures if each.delta]
    if different:
        lines += ["| | before | after | Δ |", "|---|--:|--:|--:|", *[_measure(each) for each in different], ""]
    lines += [*_HEAD, *[_row(change) for change in rows[:_SHOWN]], ""]
    text = _cut("\n".join(lines), most)
    rest = rows[_SHOWN:]
    if rest:
        text += _folded(rest, most - len(text))
    return text


_HEAD: Final = (
    "| kind | what | opcode | before | after | × | Δ bytes | Δ read | Δ written | source | details |",
    "|---|---|---|---|---|--:|--:|--:|--:|---|---|",
)


def _folded(changes: Sequence[Any], room: int) -> str:
    """The remaining rows in a part that is folded, as many as fit into `room` characters."""
    head = f"<details><summary>{len(changes):,} more rows</summary>\n\n" + "\n".join(_HEAD) + "\n"
    tail = "\n</details>\n"
    left_out = "\n{:,} further rows are left out.\n"
    room -= len(head) + len(tail) + len(left_out) + 16
    rows: list[str] = []
    for change in changes:
        row = _row(change) + "\n"
        if len(row) > room:
            break
        room -= len(row)
        rows.append(row)
    if not rows:
        return ""
    note = left_out.format(len(changes) - len(rows)) if len(rows) < len(changes) else ""
    return head + "".join(rows) + note + tail


def _measure(measure: Any) -> str:
    one, other, delta = _cells_of(measure)
    note = f" ({_plain(measure.note)})" if measure.note else ""
    return f"| {_plain(measure.name)}{note} | {one} | {other} | {delta} |"


def _cells_of(measure: Any) -> tuple[str, str, str]:
    values: Iterable[int] = (measure.a or 0, measure.b or 0, abs(measure.delta or 0))
    one, other, delta = [amount(measure.unit, value) for value in values]
    return one, other, f"{'+' if (measure.delta or 0) > 0 else '-'}{delta}"


def _row(change: Any) -> str:
    cells = [
        change.kind,
        ", ".join(change.what),
        str(change.opcode),
        _code(change.a),
        _code(change.b),
        f"{change.times:,}",
        *[_signed(value) for value in (change.delta_bytes, change.delta_bytes_read, change.delta_bytes_written)],
        change.source or "",
        change.details,
    ]
    return f"| {' | '.join([_plain(cell) if number not in (3, 4) else cell for number, cell in enumerate(cells)])} |"


def _signed(value: int) -> str:
    return "" if not value else f"{'+' if value > 0 else '-'}{short_bytes(abs(value))}"


def _code(name: str | None) -> str:
    return "" if name is None else f"`{name[:_CELL].replace('`', '').replace('|', '')}`"


def _plain(text: str) -> str:
    """Text as a cell of a table, in which nothing is markup: names in a module may have such characters."""
    text = " ".join(text.split())
    text = text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"
    return text.translate(_ESCAPED)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 2] + "…\n"


# -- HTML -----------------------------------------------------------------------------------

_STYLE: Final = """
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:76em;padding:0 1em;color:#1c1e21;background:#fff}
h1{font-size:1.2em;overflow-wrap:anywhere}.verdict{font-size:1.35em;font-weight:600;margin:.3em 0}
.failed{color:#b00020;font-weight:600}
table{border-collapse:collapse;margin:1.2em 0;width:100%}
td,th{padding:4px 10px;text-align:left;vertical-align:top;border-bottom:1px solid #d8dadf}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}.more{color:#b00020}.less{color:#13702b}
small{color:#5c6370;overflow-wrap:anywhere}
code{font:13px ui-monospace,monospace;overflow-wrap:anywhere}
@media (prefers-color-scheme:dark){body{color:#e6e6e6;background:#17181b}td,th{border-color:#3a3d44}
small{color:#a3a8b3}.more,.failed{color:#ff8a95}.less{color:#7ddb95}}"""


def html_page(found: Any, title: str, reasons: Sequence[str] = (), *, changes: Sequence[Any] | None = None) -> str:
    """The diff as one HTML file without scripts: why a gate fails (`reasons`), what changed in a line, the numbers that
    differ, and the rows of `changes`, without it all. `title` says what was compared.
    """
    rows = found.changes if changes is None else changes
    told = found.headline() if found.same else verdict(found.changes, found.measures)
    parts = [f'<p class="failed">{html.escape(reason)}</p>' for reason in reasons]
    parts.append(f'<p class="verdict">{html.escape(told)}</p>')
    different = [each for each in found.measures if each.delta]
    if different:
        parts.append("<table><tr><th></th><th class=n>before</th><th class=n>after</th><th class=n>Δ</th></tr>")
        for each in different:
            one, other, delta = _cells_of(each)
            name = html.escape(each.name) + (f" <small>{html.escape(each.note)}</small>" if each.note else "")
            parts.append(
                f"<tr><td>{name}</td><td class=n>{one}</td><td class=n>{other}</td>{_number(each.delta, delta)}</tr>"
            )
        parts.append("</table>")
    if rows:
        parts.append(f"<table><tr><th class=n>Δ buffers</th><th>{counted(len(rows), 'row')}</th></tr>")
        for change in rows:
            rest = " · ".join([each for each in (costs_of(change), change.source, change.op_name) if each])
            shown = _signed(change.delta_bytes) or "0"
            more = f"<br><small>{html.escape(rest)}</small>" if rest else ""
            parts.append(
                f"<tr>{_number(change.delta_bytes, shown)}"
                f"<td><code>{html.escape(title_of(change))}</code>{more}</td></tr>"
            )
        parts.append("</table>")
    head = (
        '<meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
    )
    return (
        f'<!doctype html>\n<html lang="en">{head}\n<h1>{html.escape(title)}</h1>\n' + "\n".join(parts) + "\n</html>\n"
    )


def _number(value: int, text: str) -> str:
    return f'<td class="n{" more" if value > 0 else " less" if value < 0 else ""}">{text}</td>'
