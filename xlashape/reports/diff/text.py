"""A diff as text for people: a line that sums it up (the verdict), the totals that differ, the changes as rows, and two
instructions or computations side by side.

Verdict and rows are made from the columns that the report declares. So an answer that a server has sent has the same
text as an answer that is computed here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from xlashape.base.math import counted
from xlashape.base.similar import did_you_mean
from xlashape.errors import NotFoundError
from xlashape.reports.diff.graph import Computation
from xlashape.reports.diff.matching import Matching, NodeId
from xlashape.reports.diff.units import longest_rise
from xlashape.reports.report import Answer
from xlashape.reports.text import listing_text, not_shown, short_bytes

_LEAST_WIDTH: Final = 40
_VERDICT: Final = (
    ("peak_bytes", "peak memory {}"),
    ("copies.bytes", "copied {}"),
    ("collectives.bytes", "collectives {}"),
    ("buffer_bytes", "buffers {}"),
    ("flops", "FLOPs {}"),
)
"""The measures that a verdict may name, the most important first, and how it does."""
_MOST_NUMBERS: Final = 3
_WORDS: Final = {
    "buffer_bytes": "buffers",
    "padding_bytes": "padding",
    "bytes_read": "read",
    "bytes_written": "written",
    "copies.bytes": "copied",
    "fused_copies": "fused copies",
    "fused_copies.bytes": "copied in fusions",
    "collectives.bytes": "exchanged",
    "flops": "FLOPs",
    "peak_bytes": "peak memory",
}
"""Measures whose names are not the words for people."""


def amount(unit: str, value: float) -> str:
    """A value in its unit: bytes in short form, such as `1.50 MiB`, other numbers in full."""
    return short_bytes(value) if unit == "bytes" else f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"


def verdict(changes: Sequence[Any], measures: Iterable[Any]) -> str:
    """How many changes there are and what they cost, in a line."""
    by_name = {each.name: each for each in measures}
    numbers: list[str] = []
    for name, form in _VERDICT:
        each = by_name.get(name)
        if each is not None and each.delta:
            has_share = each.a and name == "peak_bytes" and abs(each.delta) < 10 * each.a
            share = f" ({100 * each.delta / each.a:+.1f}%)" if has_share else ""
            numbers.append(form.format(f"{'+' if each.delta > 0 else '-'}{amount(each.unit, abs(each.delta))}") + share)
    count = sum([change.times for change in changes])
    return ", ".join([counted(count, "change"), *(numbers[:_MOST_NUMBERS] or ["which cost nothing"])])


def measure_lines(measures: Iterable[Any]) -> Iterator[str]:
    """A line for each measure whose value differs between the modules."""
    for each in measures:
        if each.delta and each.a is not None and each.b is not None:
            sign = "+" if each.delta > 0 else "-"
            delta = f"{abs(each.delta):,} bytes" if each.unit == "bytes" else amount("", abs(each.delta))
            note = f"; {each.note}" if each.note else ""
            name, values = _WORDS.get(each.name, each.name), [amount(each.unit, value) for value in (each.a, each.b)]
            yield f"{name:<18} {' → '.join(values)} ({sign}{delta}{note})"


def peak_lines(changes: Sequence[Any]) -> Iterator[str]:
    """A line for each of the first things that left or entered the peak of memory."""
    for each in changes[:_MOST_NUMBERS]:
        size = f"{'+' if each.delta_bytes > 0 else '-'}{short_bytes(abs(each.delta_bytes))}"
        verb = "grew" if each.delta_bytes > 0 else "shrank"
        verb = "left" if not each.b_bytes else "entered" if not each.a_bytes else verb
        where = f" ({each.source})" if each.source else ""
        yield f"{'at the peak':<18} {size}: {each.layer}{where} {verb}, {each.largest}"
    rest = changes[_MOST_NUMBERS:]
    if rest:
        sums = sum([each.delta_bytes for each in rest])
        size = f"{'+' if sums > 0 else '-'}{short_bytes(abs(sums))}"
        yield f"{'at the peak':<18} {size} in {len(rest):,} more: --show peak lists all"


def answer_text(
    answer: Answer, changes: Sequence[Any], limit: int | None, *, width: int | None = None, hint: str = ""
) -> str:
    """The headline of an answer, and the first `limit` of `changes`; 0 stands for all, None for the report's number."""
    most = answer.report.shown if limit is None else limit
    shown = changes[:most] if most else changes
    parts = [answer.headline()]
    if shown:
        parts.append(rows_text(shown, width))
    if len(shown) < len(changes):
        parts.append(not_shown(len(changes) - len(shown), hint))
    return "\n\n".join(parts)


def rows_text(changes: Iterable[Any], width: int | None) -> str:
    """A row for each change: by how many bytes the buffers grew, what changed, what else it costs, its source line."""

    def rows() -> Iterator[tuple[str, str, str]]:
        for change in changes:
            size = change.delta_bytes
            shown = f"{'+' if size > 0 else '-'}{short_bytes(abs(size))}" if size else "0"
            rest = " · ".join([each for each in (costs_of(change), change.source, change.op_name) if each])
            yield shown, title_of(change), rest

    return listing_text(("Δ buffers", "change"), rows(), width)


def title_of(change: Any) -> str:
    """What has changed, in a line: `changed fusion.3 → fusion.5, 24 times: layout {1,0} → {0,1}`."""
    opcode = str(change.opcode)
    names = [each for each in dict.fromkeys((change.a, change.b)) if each]
    text = " → ".join(names)
    if names and opcode not in ("module", "") and not names[-1].startswith(opcode):
        text = f"{opcode} {text}"
    text = f"{change.kind} {text}"
    if change.times > 1:
        text += f", {change.times:,} times"
    # Words that the opcode or the details say already, such as `layout`, are left out.
    parts = change.details.split(", ")
    words = [word for word in change.what if word != opcode and not any(part.startswith(f"{word} ") for part in parts)]
    rest = ": ".join([each for each in (", ".join(words), change.details) if each])
    return f"{text}: {rest}" if rest else text


def costs_of(change: Any) -> str:
    """What a change costs beside bytes of buffers, such as `reads +1.00 MiB, in 12 runs`."""
    is_copy = change.delta_copy_bytes == change.delta_bytes_read + change.delta_bytes_written
    parts = (
        ("padding", change.delta_padding_bytes, "bytes"),
        ("reads", 0 if is_copy else change.delta_bytes_read, "bytes"),
        ("writes", 0 if is_copy else change.delta_bytes_written, "bytes"),
        ("copies", 0 if abs(change.delta_copies) == change.times else change.delta_copies, ""),
        ("copied", change.delta_copy_bytes, "bytes"),
        ("collectives", change.delta_collective_bytes, "bytes"),
        ("FLOPs", change.delta_flops, ""),
    )
    costs = [f"{name} {'+' if value > 0 else '-'}{amount(unit, abs(value))}" for name, value, unit in parts if value]
    if change.runs and change.runs > 1 and costs:
        costs.append(f"in {change.runs:,} runs")
    if change.delta_segments:
        costs.append(f"segments of a read {change.delta_segments:+,.10g}")
    return ", ".join(costs)


# -- beside each other ------------------------------------------------------------------------


def beside(matching: Matching, name: str, width: int) -> str:
    """The instruction or computation named `name` beside the one of the other module that it is matched to, in lines of
    `width` characters.

    Between the two are the marks of `diff -y`: `|` where they differ, `<` and `>` for what one module has alone. Raises
    NotFoundError for a name that neither module has.
    """
    room = max(width, _LEAST_WIDTH)
    lines = [*_columns("A", " ", "B", room)]
    one, other = _computations_named(matching, name)
    if one is None and other is None:
        first, second = _instructions_named(matching, name)
        lines += _pair_lines(matching, first, second, room)
        # The computations that the two instructions call, such as the body of a fusion or a loop, follow them.
        bodies = [
            list(side[node[0]].called.get(node[1], ())) if node else []
            for side, node in ((matching.a.computations, first), (matching.b.computations, second))
        ]
        pairs = [(each, matching.computation_of_a.get(each)) for each in bodies[0]]
        pairs += [(None, each) for each in bodies[1] if each not in {second for _, second in pairs}]
    else:
        pairs = [(one, other)]
    for left, right in pairs:
        lines += ["", *_computation_lines(matching, left, right, room)]
    return "\n".join(line.rstrip() for line in lines)


def _computations_named(matching: Matching, name: str) -> tuple[int | None, int | None]:
    """The indices, in a and in b, of the computation of this name and of the one that it is matched to."""
    wanted = name.removeprefix("%")
    for each in matching.a.module.computations:
        if each.name == wanted:
            return each.index, matching.computation_of_a.get(each.index)
    for each in matching.b.module.computations:
        if each.name == wanted:
            return matching.computation_of_b.get(each.index), each.index
    return None, None


def _instructions_named(matching: Matching, name: str) -> tuple[NodeId | None, NodeId | None]:
    """The instruction of this name, of b if both modules have one, with the one that it is matched to: (of a, of b)."""
    wanted = name.removeprefix("%")
    known: list[str] = []
    for side, matched, is_a in ((matching.b, matching.of_b, False), (matching.a, matching.of_a, True)):
        for computation in side.computations:
            for i in range(computation.size):
                if computation.name(i) == wanted:
                    node, partner = (computation.index, i), matched[computation.index][i]
                    return (node, partner) if is_a else (partner, node)
                known.append(computation.name(i))
    message = f"neither module has an instruction or a computation {name!r}{did_you_mean(wanted, known)}"
    raise NotFoundError(message, kind="instruction", name=name, field="beside")


def _columns(left: str, mark: str, right: str, width: int) -> Iterator[str]:
    """Two texts beside each other, each wrapped in its column, with a mark between them."""
    half = (width - 3) // 2
    rows = [textwrap.wrap(text, half, subsequent_indent="  ", break_on_hyphens=False) or [""] for text in (left, right)]
    for number in range(max(map(len, rows))):
        first, second = [row[number] if number < len(row) else "" for row in rows]
        yield f"{first:<{half}} {mark} {second}"


def _text(computation: Computation, i: int) -> str:
    text = computation.instructions[i].to_text(print_metadata=False).strip()
    return f"ROOT {text}" if i == computation.root and not text.startswith("ROOT") else text


def _pair_lines(matching: Matching, one: NodeId | None, other: NodeId | None, width: int) -> Iterator[str]:
    """An instruction of a and one of b beside each other; None for one that is not there."""
    left = "" if one is None else _text(matching.a.computations[one[0]], one[1])
    right = "" if other is None else _text(matching.b.computations[other[0]], other[1])
    mark = ">" if one is None else "<" if other is None else " " if _is_alike(matching, one, other) else "|"
    return _columns(left, mark, right, width)


def _is_alike(matching: Matching, one: NodeId, other: NodeId) -> bool:
    """Whether two instructions are equal, and their operands are matched to each other."""
    a, b = matching.a.computations[one[0]], matching.b.computations[other[0]]
    if a.local(one[1]).digest != b.local(other[1]).digest:
        return False
    row = matching.of_a[a.index]
    return [row[i] for i in a.operands(one[1])] == [(b.index, j) for j in b.operands(other[1])]


def _computation_lines(matching: Matching, one: int | None, other: int | None, width: int) -> Iterator[str]:
    """Two computations beside each other. Matched instructions that keep their order divide the lines into parts. A
    part has the other instructions of a, then those of b that are not matched to this computation of a, each beside its
    partner if it has one.
    """
    a = None if one is None else matching.a.computations[one]
    b = None if other is None else matching.b.computations[other]
    heads = ["" if each is None else f"{each.hlo.name} {{" for each in (a, b)]
    yield from _columns(heads[0], " " if a and b else "<" if a else ">", heads[1], width)
    if a is None or b is None:
        for computation, is_a in ((a, True), (b, False)):
            for i in range(computation.size if computation else 0):
                node = (one if is_a else other) or 0, i
                yield from _pair_lines(matching, node if is_a else None, None if is_a else node, width)
        return
    partners = matching.of_a[a.index]
    matched = [i for i, partner in enumerate(partners) if partner is not None and partner[0] == b.index]
    targets = [partner[1] for i in matched if (partner := partners[i]) is not None]
    kept = [matched[place] for place in longest_rise(targets)]
    i = j = 0
    for anchor in [*kept, a.size]:
        partner = partners[anchor] if anchor < a.size else None
        end = partner[1] if partner is not None else b.size
        for each in range(i, anchor):
            yield from _pair_lines(matching, (a.index, each), partners[each], width)
        for each in range(j, end):
            if matching.of_b[b.index][each] is None or (matching.of_b[b.index][each] or (-1,))[0] != a.index:
                yield from _pair_lines(matching, matching.of_b[b.index][each], (b.index, each), width)
        if anchor < a.size:
            yield from _pair_lines(matching, (a.index, anchor), (b.index, end), width)
        i, j = anchor + 1, end + 1
