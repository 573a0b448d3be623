"""A diff as Markdown for the comment of a pull request: the summary first, details folded, at most 65,536 characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from xlashape.reports.diff.compare import Diff, Measure
from xlashape.reports.diff.rows import Change
from xlashape.reports.text import short_bytes

MAX_CHARACTERS: Final = 65_536
"""GitHub refuses longer comments."""
_SHOWN: Final = 10
"""The rows that are not folded."""
_CELL: Final = 160


def markdown(found: Diff, title: str, reasons: Sequence[str] = (), most: int = MAX_CHARACTERS) -> str:
    """The diff. `title` says what was compared, `reasons` why a gate fails. As many rows as fit into `most` characters."""
    lines = [f"### {_plain(title)}", ""]
    lines += [f"- ❌ {_plain(reason)}" for reason in reasons] + [""] * bool(reasons)
    if found.same:
        lines.append(found.headline().replace(found.fingerprint_a, f"`{found.fingerprint_a}`"))
        return _cut("\n".join(lines) + "\n", most)
    count = sum([change.times for change in found.changes])
    lines += [
        f"{count:,} change{'s' * (count != 1)} in {len(found.changes):,} row{'s' * (len(found.changes) != 1)}.",
        "",
    ]
    different = [each for each in found.measures if each.delta]
    if different:
        lines += ["| | before | after | Δ |", "|---|--:|--:|--:|", *[_measure(each) for each in different], ""]
    lines += [*_HEAD, *[_row(change) for change in found.changes[:_SHOWN]], ""]
    text = _cut("\n".join(lines), most)
    rest = found.changes[_SHOWN:]
    if rest:
        text += _folded(rest, most - len(text))
    return text


_HEAD: Final = (
    "| kind | what | opcode | before | after | × | Δ bytes | Δ read | Δ written | source | details |",
    "|---|---|---|---|---|--:|--:|--:|--:|---|---|",
)


def _folded(changes: Sequence[Change], room: int) -> str:
    """The remaining rows in a part that is folded, as many as there is room for."""
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


def _measure(measure: Measure) -> str:
    values: Iterable[int] = (measure.a or 0, measure.b or 0, abs(measure.delta or 0))
    one, other, delta = [short_bytes(value) if measure.unit == "bytes" else f"{value:,}" for value in values]
    return f"| {measure.name} | {one} | {other} | {'+' if (measure.delta or 0) > 0 else '-'}{delta} |"


def _row(change: Change) -> str:
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
    """Text as a cell: no markup of whoever wrote the module."""
    text = " ".join(text.split())
    text = text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"
    for character in "\\`*_[]<>|#@~":
        text = text.replace(character, f"&#{ord(character)};" if character in "<>|@" else f"\\{character}")
    return text


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 2] + "…\n"
