"""The findings of each report: what costs a part of the peak, of the traffic, of the time or of the bytes sent."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from xlashape.base.math import counted
from xlashape.base.similar import stem_of
from xlashape.base.tables import Column, ColumnKind
from xlashape.hlo import HloModule
from xlashape.limits import INT64_MAX
from xlashape.reports.collectives import Collectives
from xlashape.reports.copies import Copies
from xlashape.reports.copies.causes import MEMORY_SPACE
from xlashape.reports.cost import Cost
from xlashape.reports.groups import ARGUMENTS, argument_of, folded, layer_of
from xlashape.reports.layers import Layers
from xlashape.reports.memory import ProgramMemory
from xlashape.reports.memory.suggestions import recomputing, suggestions
from xlashape.reports.origin import source_of
from xlashape.reports.profile import Profile
from xlashape.reports.reads import Reads
from xlashape.reports.reads.answer import ELSEWHERE
from xlashape.reports.reads.kernels import LargerBlocks
from xlashape.reports.summary.answer import Finding, Fine
from xlashape.reports.text import cell_text, short_bytes
from xlashape.reports.why.causes import array_causes

LEAST_SHARE: Final = 0.01
"""A change that saves a smaller part is no finding, and copies, reads and padding that cost less are fine."""
LEAST_FACT: Final = 0.05
"""What costs a smaller part and has no change is no finding. A change that saves less stands behind what costs more."""
_MOST_OF_A_KIND: Final = 2
_LAYOUT: Final = "Format(Layout("
"""What a change of a layout has in it."""
_OF_TIME: Final = ("measured time", "least time", "FLOPs", "collectives")
_SECONDS: Final = Column("time", ColumnKind.NUMBER, "", "seconds")
_LEAST_KEPT: Final = 0.2
"""The least part of the peak that is worth being computed again."""
_FLOPS: Final = Column("flops", ColumnKind.INTEGER, "", "flops")


Layer: TypeAlias = Callable[[Any], str]
"""From a row of a report to the layer that it belongs to."""


def layers_of(module: HloModule) -> Layer:
    """The layer of a row about an instruction of the module: that of its name or of what uses it, or else its line, or
    else the name of the instruction without its number."""
    layers = Layers(module)

    def layer(row: Any) -> str:
        named = layer_of(row.op_name or "") or layers.of_row(row)
        name = getattr(row, "name", None) or row.instruction
        return named or row.source or argument_of(row) or stem_of(name)

    return layer


class _Group(NamedTuple):
    """Rows of a report with something in common, the most costly one first, and what they cost together."""

    name: str
    rows: Sequence[Any]
    cost: float


def of_memory(memory: ProgramMemory, layer: Layer) -> list[Finding | Fine]:
    """The changes that are certain to lower the peak, and what holds most of it."""
    peak = memory.peak_bytes
    if not peak:
        return [Fine("memory", "the program holds no memory")]
    found: list[Finding | Fine] = []
    certain = suggestions(memory.plan, None, only_certain=True)
    for each in [*{each.change: each for each in reversed(certain)}.values()]:  # the first of each kind
        is_estimated = each.change in ("donate", "carry")
        saved = peak - (each.new_peak_bytes if is_estimated or each.upper_bytes is None else each.upper_bytes)
        about = "" if each.is_exact or not is_estimated else "about "
        text = f"{about}{short_bytes(saved)} of the peak of {short_bytes(peak)} need not be held"
        if each.parameters:
            text += ", if the caller no longer needs what it passes"
        where = each.name or ARGUMENTS
        found.append(Finding(saved / peak, "peak", "memory", text, each.text, saved, 1, where, each.name, None))
    again = recomputing(memory.plan)
    if again is not None and again.saved_bytes >= _LEAST_KEPT * peak:
        change, _, _ = again.text.partition(": ")
        upper = again.upper_bytes
        most = "" if upper is None or upper <= again.new_peak_bytes else f", at most {short_bytes(upper)}"
        text = (
            f"about {short_bytes(again.saved_bytes)} of {short_bytes(peak)} are kept for the backward pass; {change} "
            f"computes them again instead, and the peak is then about {short_bytes(again.new_peak_bytes)}{most}"
        )
        share, size, where = again.saved_bytes / peak, again.saved_bytes, again.name or ""
        found.append(Finding(share, "peak", "memory", text, None, size, 1, where, again.name, None))
    for group in _groups(memory.peak_buffers, partial(_holder, layer), lambda row: row.bytes)[:1]:
        held = f"{short_bytes(int(group.cost))} of {short_bytes(peak)}"
        text = f"{held} in {counted(len(group.rows), 'buffer')} of {group.name}"
        found.append(_of_group(layer, group, peak, "peak", "memory", text, None))
    padded = [row for row in memory.peak_buffers if row.padding_bytes]
    padding = sum([row.padding_bytes or 0 for row in padded])
    if padding < LEAST_SHARE * peak:
        return [*found, Fine("memory", f"padding is {_percent(padding / peak)} of the peak")]
    for group in _groups(padded, partial(_holder, layer), lambda row: row.padding_bytes)[:1]:
        text = f"{short_bytes(padding)} of padding, {short_bytes(int(group.cost))} of it in {group.name}"
        causes = array_causes(group.rows[0].shape) if group.rows[0].shape.is_array else ()
        if causes:
            text += f", as in {group.rows[0].shape}: {max(causes, key=lambda each: each.bytes).text}"
        finding = _of_group(layer, group, peak, "peak", "memory", text, None)
        found.append(finding._replace(share=padding / peak, bytes=padding))
    return found


def of_copies(copies: Copies, cost: Cost, traffic: int, layer: Layer) -> list[Finding | Fine]:
    """The copies by cause, or what an edit of the program saves of them, in bytes of main memory, or saves at most.
    Those between memory spaces are how a device works, and no finding.
    """
    main = {row.name: _moved(row) * row.times for row in cost.rows}
    copied = {row.name: min(_copied(row), main.get(row.name, INT64_MAX)) for row in copies.rows}
    between = sum([copied[row.name] for row in copies.rows if row.cause_kind == MEMORY_SPACE])
    moved = sum(copied.values()) - between
    share = moved / traffic if traffic else 0.0
    found: list[Finding] = []
    edits = {name: each for each in reversed(copies.suggestions) if each.is_exact for name in each.removes}
    bounds = {name: each for each in reversed(copies.suggestions) if not each.is_exact for name in each.removes}
    rows = [row for row in copies.rows if copied[row.name] and row.cause_kind != MEMORY_SPACE]
    for group in _groups(rows, lambda row: row.cause_kind, lambda row: copied[row.name])[:_MOST_OF_A_KIND]:
        first = group.rows[0]
        edit = edits.get(first.name)
        if edit is None:
            count = counted(len(group.rows), "copy")
            what = f"{short_bytes(int(group.cost))} in {count} ({group.name}), which compute nothing"
            text = f"{what}; {first.name}: {first.cause}"
            bound = bounds.get(first.name)
            fix = f"{bound.text}, which saves at most {short_bytes(bound.saved_bytes)}" if bound is not None else None
            found.append(_of_group(layer, group, traffic, "traffic", "copies", text, fix))
        else:
            removed = [row for row in group.rows if row.name in edit.removes]
            group = group._replace(cost=sum([copied[row.name] for row in removed]), rows=removed)
            count = counted(len(removed), "copy")
            text = f"{short_bytes(int(group.cost))} in {count} like {first.name} need not be moved"
            found.append(_of_group(layer, group, traffic, "traffic", "copies", text, edit.text))
    if share >= LEAST_FACT and not any(map(_counts, found)):
        text = f"{short_bytes(moved)} in {counted(len(rows), 'copy')} of several kinds, which compute nothing"
        found = [_of_group(layer, _Group("", rows, moved), traffic, "traffic", "copies", text, None)]
    more = f", beside {_percent(between / traffic)} that go from one memory to another" if between and traffic else ""
    return _or_fine(found, Fine("copies", f"copies move {_percent(share)} of the bytes{more}"))


def _copied(row: Any) -> int:
    """The bytes that the executions of a copy read and write in main memory."""
    read = 0 if row.from_layout.memory_space else row.bytes_read
    written = 0 if row.to_layout.memory_space else row.bytes_written
    return (row.total_bytes or 0) * (read + written) // ((row.bytes_read + row.bytes_written) or 1)


def of_reads(
    reads: Reads, moving: Container[str], computing: Container[str], traffic: int, layer: Layer
) -> list[Finding | Fine]:
    """The reads of main memory that fetch bytes in vain, whatever the emitter does, in parts of the traffic, beside
    which they are. What mends one read was tried on that read and not on the program, so it is no change of the
    program. `moving`: the names of copies; `computing`: of what moves
    bytes in less time than it calculates.
    """
    rows = [row for row in reads.reads if row.wasted_bytes and not ELSEWHERE.search(row.operand_shape or "")]
    share = sum(map(_wasted, rows)) / traffic if traffic else 0.0
    found: list[Finding] = []
    for group in _groups(rows, lambda _: "", _wasted):
        count, most = counted(len(group.rows), "read"), group.rows[0]
        text = f"{short_bytes(int(group.cost))} more are fetched and not used, in {count} (counted: {reads.unit})"
        if most.mend:
            text += f"; {most.instruction}, which fetches most of it, would fetch less with {most.mend}"
        found.append(_of_group(layer, group, traffic, "traffic", "reads", text, None, "instruction"))
    found += [*_of_kernels(reads, computing, traffic), *_refetched(reads, moving, traffic, layer)]
    return _or_fine(found, Fine("reads", f"{_percent(share)} of the bytes of main memory are fetched in vain"))


def _refetched(reads: Reads, moving: Container[str], traffic: int, layer: Layer) -> list[Finding]:
    """The reads of main memory that fetch most again at most, if another layout of an argument or a result lowers that,
    but for those of `moving`, copies. A TPU turns arrays in registers, and need not fetch again.
    """
    rows = [row for row in reads.reads if row.mend and _LAYOUT in row.mend and row.again_bytes]
    rows = [row for row in rows if row.instruction not in moving]
    rows = [row for row in rows if not ELSEWHERE.search(row.operand_shape or "")] if reads.device.kind != "tpu" else []
    found: list[Finding] = []
    for group in _groups(rows, lambda row: row.mend, lambda row: row.again_bytes * (row.runs or 1))[:1]:
        count, most = counted(len(group.rows), "read"), group.rows[0]
        text = f"up to {short_bytes(int(group.cost))} more are fetched again, in {count} (counted: {reads.unit}), as "
        text += f"{most.instruction} reads {most.operand_name}; to try: {most.mend}, with which XLA may fuse otherwise"
        finding = _of_group(layer, group, traffic or 1, "traffic", "reads", text, None, "instruction")
        found.append(finding._replace(share=min(1.0, finding.share)))
    return found


def _of_kernels(reads: Reads, computing: Container[str], traffic: int) -> list[Finding]:
    """The Pallas kernels that move blocks of main memory again, and larger blocks less often: those first that save
    most."""
    found: list[Finding] = []
    times = {(row.computation, row.instruction): row.runs or 1 for row in reads.reads}
    for instruction, alike in reads.alike.items():
        runs = times.get((instruction.computation.name, instruction.name), 1)
        again = 0
        by_dimension: dict[int, list[tuple[float, str, LargerBlocks]]] = {}
        for _, number, measured in alike.worst_first:
            operand, mend = instruction.operands[number], measured.mend
            layout = operand.shape.layout
            if isinstance(mend, LargerBlocks) and (layout is None or not layout.memory_space):
                again += measured.lost * runs
                saved = (measured.lost + measured.distinct) * mend.part * runs
                by_dimension.setdefault(mend.dimension, []).append((saved, mend.fewer_steps(operand.name), mend))
        # Along as many dimensions of the grid as VMEM has room for, those first that save most.
        best = sorted(by_dimension.values(), key=lambda mends: -sum([saved for saved, _, _ in mends]))
        room = max([count for count in range(1, len(best) + 1) if best[0][0][2].fits(count)], default=0)
        chosen = [each for mends in best[: room or 1] for each in mends]
        saved = sum([each for each, _, _ in chosen])
        if saved and traffic and instruction.name not in computing:
            text = f"{short_bytes(saved)} of the {short_bytes(again)} that the kernel {instruction.name} moves again "
            text += "need not be moved"
            fix = f"{chosen[0][2].held_now(room or 1)}: {'; and '.join([each for _, each, _ in chosen])}"
            text += "" if room else f", with {fix}"
            source, op_name = source_of(instruction)
            where, share = layer_of(op_name) or source or instruction.name, saved / traffic
            told = Finding(share, "traffic", "reads", text, fix, int(saved), 1, where, instruction.name, source or None)
            found.append(told if room else told._replace(fix=None))
    return sorted(found, key=lambda each: -each.share)[:_MOST_OF_A_KIND]


def of_cost(cost: Cost, layer: Layer, *, is_optimized: bool) -> list[Finding | Fine]:
    """The layer that takes most of the least times that are known, or without a target most of the traffic; before
    XLA's optimizations, which change what is moved, most of the FLOPs.
    """
    if not is_optimized:
        rows = [row for row in cost.rows if row.flops]
        found = _groups(rows, layer, lambda row: (row.flops or 0) * row.times)[:1] if cost.flops else []
        return [
            _of_group(
                layer, group, cost.flops, "FLOPs", "cost", f"{cell_text(_FLOPS, int(group.cost))} in {group.name}", None
            )._replace(bytes=None)
            for group in found
        ]
    findings: list[Finding | Fine] = []
    # A layer's collectives may run behind its computing, so that the sum of both would be no least time.
    rows = [row for row in cost.rows if row.share and row.bound != "communication"]
    traffic = sum([_moved(row) * row.times for row in cost.rows])
    is_timed = cost.target is not None

    def weight(row: Any) -> float:
        return row.share if is_timed else _moved(row) * row.times / traffic

    for group in _groups(rows, layer, weight)[:1] if is_timed or traffic else []:
        moved = sum([_moved(row) * row.times for row in group.rows])
        amount = _traffic_text(group.rows, cost)
        if is_timed:
            amount = f"{cell_text(_SECONDS, _seconds(group.rows))} at least for {_bounds_text(group.rows, cost)}"
        text = f"{amount} in {counted(len(group.rows), 'instruction')} of {group.name}"
        measure = "least time" if is_timed else "traffic"
        findings.append(_of_group(layer, group, 1, measure, "cost", text, None)._replace(bytes=moved))
    return findings


def _traffic_text(rows: Sequence[Any], cost: Cost) -> str:
    """What instructions read and write, in words."""
    where = " in main memory" if cost.main_bytes is not None else ""
    return f"{short_bytes(sum([_moved(row) * row.times for row in rows]))} read and written{where}"


def _bounds_text(rows: Sequence[Any], cost: Cost) -> str:
    """What the least times of instructions are for: the FLOPs of those that computing limits, the traffic of those that
    memory limits, or both, if each takes a tenth of the time or more."""
    by_bound = {bound: [row for row in rows if row.bound == bound] for bound in ("compute", "memory")}
    seconds = {bound: _seconds(of_bound) for bound, of_bound in by_bound.items()}
    texts = {
        "compute": cell_text(_FLOPS, sum([(row.flops or 0) * row.times for row in by_bound["compute"]])) + " FLOPs",
        "memory": _traffic_text(by_bound["memory"], cost),
    }
    told = sorted(seconds, key=lambda bound: -seconds[bound])
    if 10 * seconds[told[1]] < sum(seconds.values()):
        return texts[told[0]]
    return " and ".join([f"{texts[bound]} ({cell_text(_SECONDS, seconds[bound])})" for bound in told])


def _moved(row: Any) -> int:
    """The bytes that an instruction reads and writes in main memory."""
    return row.main_bytes if row.main_bytes is not None else row.padded_bytes or row.bytes


def of_collectives(collectives: Collectives, cost: Cost, *, is_optimized: bool) -> list[Finding | Fine]:
    """What sends more than it has to, or more often, and what is sent. XLA's optimizations combine small collectives,
    so these are no finding before.
    """
    if not collectives.count:
        return [Fine("collectives", "nothing is sent between devices")]
    found: list[Finding | Fine] = []
    sent, runs = collectives.sent_bytes, collectives.executions
    rows = {row.name: row for row in collectives.rows}
    for each in [each for each in collectives.findings if is_optimized or each.kind != "small"]:
        about = [rows[name] for name in each.names if name in rows]
        if each.kind == "small":  # of these the number counts
            share, measure = sum([row.times for row in about]) / runs if runs else 0, "collectives"
        else:
            moved = each.saved_bytes or sum([(row.sent_bytes or 0) * row.times for row in about])
            share, measure = moved / sent if sent else 0, "communication"
        place = each.names[0] if each.names else ""
        saved = each.saved_bytes or None
        found.append(
            Finding(share, measure, "collectives", each.text, each.fix, saved, each.count, place, place or None, None)
        )
    time = collectives.least_time
    text = f"{short_bytes(sent)} sent by each device in {_runs_of(collectives.count, runs)}"
    if time:
        whole = max(time, cost.least_time or _seconds(cost.rows))
        text += f", {cell_text(_SECONDS, time)} at least"
        found.append(Finding(time / whole, "least time", "collectives", text, None, sent, runs, "", None, None))
    elif sent and not any(isinstance(each, Finding) and _counts(each) for each in found):
        group = collectives.by("layer" if any(row.op_name for row in collectives.rows) else "kind")[0]
        text = f"{short_bytes(group.sent_bytes)} of the {short_bytes(sent)} that each device sends are of {group.group}"
        text += f", in {_runs_of(group.count, group.executions)}"
        share, size = group.sent_bytes / sent, group.sent_bytes
        found.append(Finding(share, "communication", "collectives", text, None, size, runs, group.group, None, None))
    return found


def _runs_of(count: int, runs: int) -> str:
    """A number of collectives, and how often they run together where that is another number."""
    again = f" that run {runs:,} times in all" if count > 1 else f" that runs {runs:,} times"
    return counted(count, "collective") + (again if runs != count else "")


def of_profile(profile: Profile, module: HloModule, layer: Layer) -> list[Finding | Fine]:
    """What took the time of a module in a profile: the layer that took most of it, copies, and communication."""
    rows = _of_program(profile, module)
    whole = sum([row.self_time for row in rows])
    if not whole:
        return [Fine("profile", "the profile has no time of this program")]
    found: list[Finding | Fine] = []
    for group in _groups(rows, layer, lambda row: row.self_time)[:1]:
        text = f"{cell_text(_SECONDS, group.cost)} in {counted(len(group.rows), 'instruction')} of {group.name}"
        least = [row.least_time * row.executions for row in group.rows if row.least_time is not None]
        if len(least) == len(group.rows):
            text += f", where {cell_text(_SECONDS, sum(least))} is the least"
        found.append(_of_group(layer, group, whole, "measured time", "profile", text, None)._replace(bytes=None))
    copies, collectives = [row for row in rows if row.is_copy], [row for row in rows if row.is_collective]
    for what, each in (("copies", copies), ("collectives", collectives)):
        time = sum([row.self_time for row in each])
        text = f"{cell_text(_SECONDS, time)} in {what}"
        finding = Finding(time / whole, "measured time", "profile", text, None, None, len(each), "", None, None)
        found += _or_fine([finding], Fine("profile", f"{what} took {_percent(time / whole)} of the measured time"))
    return found


def _of_program(profile: Profile, module: HloModule) -> list[Any]:
    """The rows of a module. Of several programs with its name it is the one of whose instructions it has most."""
    programs: dict[int | None, list[Any]] = {}
    for row in profile.rows:
        if row.module == module.name:
            programs.setdefault(row.program_id, []).append(row)

    def known(rows: Sequence[Any]) -> float:
        made = [module.instruction_by_name().get(row.name) for row in rows]
        alike = [
            each is not None and str(each.opcode) == row.opcode and each.metadata.source == (row.source or "")
            for each, row in zip(made, rows, strict=True)
        ]
        return sum(alike) / len(alike)

    return max(programs.values(), key=known) if programs else []


def ranked(found: Iterable[Finding | Fine], most: int) -> tuple[list[Finding], list[Fine]]:
    """At most `most` findings: first those with a change that saves much; of these and of the others those of times
    and FLOPs by their share, then those of bytes by their bytes. And what is fine.
    """
    every = list(found)
    findings = [each for each in every if isinstance(each, Finding) and _counts(each)]
    findings.sort(
        key=lambda each: (
            each.fix is None or each.share < LEAST_FACT,
            each.measure not in _OF_TIME,
            -each.share if each.measure in _OF_TIME else -(each.bytes or 0),
        )
    )
    return findings[:most], [each for each in every if isinstance(each, Fine)]


def _counts(finding: Finding) -> bool:
    return finding.share >= (LEAST_FACT if finding.fix is None else LEAST_SHARE)


def _or_fine(found: Sequence[Finding], fine: Fine) -> list[Finding | Fine]:
    """The findings that count, or else that all is fine."""
    return [*filter(_counts, found)] or [fine]


def _groups(rows: Iterable[Any], key: Callable[[Any], str], cost: Callable[[Any], float]) -> list[_Group]:
    """Rows by what they have in common, with repeated layers as one; the group that costs most first."""
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    groups = [
        _Group(name, sorted(each, key=cost, reverse=True), sum(map(cost, each))) for name, each in folded(found).items()
    ]
    return sorted(groups, key=lambda group: group.cost, reverse=True)


def _wasted(row: Any) -> float:
    return row.wasted_bytes * (row.runs or 1)


def _seconds(rows: Iterable[Any]) -> float:
    """The least time of all executions of instructions, as far as it is known."""
    return sum([(row.least_time or 0) * row.times for row in rows])


def _holder(layer: Layer, row: Any) -> str:
    names = {"parameter": ARGUMENTS, "output": "outputs", "constant": "constants"}
    return names[row.kind] if row.kind in names else layer(row)


def _of_group(
    layer: Layer, group: _Group, whole: float, measure: str, kind: str, text: str, fix: str | None, name: str = "name"
) -> Finding:
    first = group.rows[0]
    instruction = getattr(first, name)
    layers = folded({layer(row): [row] for row in group.rows})
    where = next(iter(layers)) if len(layers) == 1 else ""
    share = group.cost / whole
    return Finding(
        share,
        measure,
        kind,
        text,
        fix or None,
        int(group.cost),
        len(group.rows),
        where,
        instruction,
        first.source or None,
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%" if share else "0%"
