"""The findings of each report: what costs a part of the peak, of the traffic, of the least time or of the bytes sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from xlashape.base.math import counted
from xlashape.base.tables import Column, ColumnKind
from xlashape.reports.collectives import Collectives
from xlashape.reports.copies import Copies
from xlashape.reports.cost import Cost
from xlashape.reports.memory import ProgramMemory
from xlashape.reports.memory.answer import layer_of
from xlashape.reports.reads import Reads
from xlashape.reports.summary.answer import Fine, Finding
from xlashape.reports.text import cell_text, short_bytes

LEAST_SHARE: Final = 0.01
"""What costs a smaller part is no finding."""
_MOST_OF_A_KIND: Final = 2
_NUMBER: Final = re.compile(r"\d+")
_LAST_NUMBER: Final = re.compile(r"(?:\.\d+)+$")

_SECONDS: Final = Column("time", ColumnKind.NUMBER, "", "seconds")

T = TypeVar("T")


class _Group(NamedTuple):
    """Rows of a report with something in common, the most costly one first, and what they cost together."""

    key: str | None
    rows: list[Any]
    cost: float


def of_memory(memory: ProgramMemory) -> list[Finding | Fine]:
    """The changes that are certain to lower the peak, and what holds most of it."""
    peak = memory.peak_bytes
    if not peak:
        return [Fine("memory", "the program holds no memory")]
    found: list[Finding | Fine] = []
    for each in memory.suggest():
        if each.change == "smaller" or each.upper_bytes is None:
            continue  # half a batch is another program, and an idea is no change that was tried
        saved = peak - each.upper_bytes
        text = f"{short_bytes(saved)} of the peak of {short_bytes(peak)} need not be held"
        found.append(Finding(saved / peak, "peak", "memory", text, each.text, saved, 1, each.name or "", each.name, None))
    found = found[:_MOST_OF_A_KIND]
    held = _groups(memory.peak_buffers, _holder, lambda row: row.bytes)
    if held:
        group = held[0]
        what = f"{group.key} {'hold' if str(group.key).endswith('s') else 'holds'}"
        text = f"{what} {short_bytes(int(group.cost))} of the {short_bytes(peak)} at the peak, in {counted(len(group.rows), 'buffer')}"
        found.append(_of_group(group, peak, "peak", "memory", text, None, "name"))
    padding = sum(each.padding_bytes or 0 for each in memory.peak_buffers)
    if padding < LEAST_SHARE * peak:
        found.append(Fine("memory", f"padding is {_percent(padding / peak)} of the peak"))
    return found


def of_copies(copies: Copies, traffic: int) -> list[Finding | Fine]:
    """The copies by cause and layer."""
    total = copies.total_bytes
    if total < LEAST_SHARE * traffic or not traffic:
        return [Fine("copies", f"copies move {_percent(total / traffic) if traffic else '0%'} of the bytes")]
    found: list[Finding | Fine] = []
    edits = {name: each for each in reversed(copies.suggestions) if each.is_exact for name in each.removes}
    rows = [row for row in copies.rows if row.total_bytes]
    for group in _groups(rows, lambda row: row.cause_kind, lambda row: row.total_bytes):
        kind = group.rows[0].cause_kind
        edit = edits.get(group.rows[0].name)
        text = f"{counted(len(group.rows), 'instruction')} of the kind {kind} only move data: {short_bytes(int(group.cost))}"
        found.append(_of_group(group, traffic, "traffic", "copies", text, edit and edit.text, "name"))
    return found


def of_reads(reads: Reads, traffic: int) -> list[Finding | Fine]:
    """The reads that fetch bytes in vain, whatever the emitter does."""
    total = reads.wasted_bytes
    if total < LEAST_SHARE * traffic or not traffic:
        return [Fine("reads", f"{_percent(total / traffic) if traffic else '0%'} of the bytes are fetched in vain")]
    found: list[Finding | Fine] = []
    rows = [row for row in reads.reads if row.wasted_bytes]
    for group in _groups(rows, lambda row: row.mend, lambda row: row.wasted_bytes * (row.runs or 1)):
        text = f"{counted(len(group.rows), 'read')} fetch {short_bytes(int(group.cost))} in vain, {reads.unit} counted"
        found.append(_of_group(group, traffic, "traffic", "reads", text, group.rows[0].mend, "instruction"))
    return found


def of_cost(cost: Cost) -> list[Finding | Fine]:
    """The layer that takes most of the least times that are known, or without a target most of the traffic."""
    groups = _groups([row for row in cost.rows if row.share], lambda row: _layer(row, row.name), lambda row: row.share)
    found: list[Finding | Fine] = []
    for group in groups[:1]:
        moved = sum(row.bytes * row.times for row in group.rows)
        text = f"{group.key} reads and writes {short_bytes(moved)} in {counted(len(group.rows), 'instruction')}"
        if cost.target is not None:
            text += f", {cell_text(_SECONDS, _seconds(group.rows))} at least"
        measure = "traffic" if cost.target is None else "least time"
        found.append(_of_group(group, 1, measure, "cost", text, None, "name")._replace(bytes=moved))
    return found


def _seconds(rows: Iterable[Any]) -> float:
    """The least time of all executions of instructions, as far as it is known."""
    return sum((row.least_time or 0) * row.times for row in rows)


def of_collectives(collectives: Collectives, cost: Cost) -> list[Finding | Fine]:
    """What sends more than it has to, and what communication takes of the least time."""
    if not collectives.count:
        return [Fine("collectives", "nothing is sent between devices")]
    found: list[Finding | Fine] = []
    sent = collectives.sent_bytes
    for each in collectives.findings:
        if sent and each.saved_bytes:
            share = each.saved_bytes / sent
            place = each.names[0] if each.names else ""
            found.append(Finding(share, "communication", "collectives", each.text, each.fix, each.saved_bytes, each.count, place, place or None, None))
    time = collectives.least_time
    if time:
        whole = max(time, _seconds(cost.rows))
        text = f"{counted(collectives.executions, 'collective')} send {short_bytes(sent)} from each device, {cell_text(_SECONDS, time)} at least"
        found.append(Finding(time / whole, "least time", "collectives", text, None, sent, collectives.count, "", None, None))
    return found


def ranked(found: Iterable[Finding | Fine], most: int) -> tuple[list[Finding], list[Fine]]:
    """At most `most` findings, those with a change first, and of these the one that costs most; and what is fine."""
    all_found = list(found)
    findings = [each for each in all_found if isinstance(each, Finding) and each.share >= LEAST_SHARE]
    findings.sort(key=lambda each: (each.fix is None, -each.share))
    return findings[:most], [each for each in all_found if isinstance(each, Fine)]


def _groups(rows: Iterable[T], key: Callable[[T], str | None], cost: Callable[[T], float]) -> list[_Group]:
    """Rows by what they have in common; the group that costs most first."""
    found: dict[str | None, list[T]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    groups = [_Group(name, sorted(each, key=cost, reverse=True), sum(map(cost, each))) for name, each in found.items()]
    return sorted(groups, key=lambda group: group.cost, reverse=True)[:_MOST_OF_A_KIND]


def _layer(row: Any, name: str) -> str:
    """The layer of a row, with the numbers of repeated layers as `*`; where it has none, the name of its instruction
    without the number at the end.
    """
    return _NUMBER.sub("*", layer_of(row.op_name)) if row.op_name else _LAST_NUMBER.sub("", name)


def _holder(row: Any) -> str:
    if row.kind != "temporary":
        return {"parameter": "arguments", "output": "outputs", "constant": "constants"}.get(row.kind, row.kind)
    return _layer(row, row.name)


def _of_group(group: _Group, whole: float, measure: str, kind: str, text: str, fix: str | None, name: str) -> Finding:
    first = group.rows[0]
    instruction = getattr(first, name)
    layers = {_layer(row, getattr(row, name)) for row in group.rows}
    where = layers.pop() if len(layers) == 1 else ""
    return Finding(
        group.cost / whole, measure, kind, text, fix or None, int(group.cost), len(group.rows), where, instruction,
        first.source or None,
    )  # fmt: skip


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%" if share else "0%"
