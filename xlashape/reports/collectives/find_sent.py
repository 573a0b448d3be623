"""`collectives`: what a program sends between devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from xlashape.base.math import checked_int64
from xlashape.hlo import HloInstruction, HloModule
from xlashape.hlo.collectives import (
    Collective,
    DeviceGroups,
    DeviceMesh,
    axes_of,
    device_grid,
    find_collectives,
    groups_of,
    mesh_of,
)
from xlashape.hlo.flow import Flow
from xlashape.hlo.module_proto.shown_frames import showing_frames
from xlashape.hlo.ops.exchange import Exchanged
from xlashape.reports.collectives.answer import CollectiveFinding, CollectiveRow, Collectives
from xlashape.reports.collectives.findings import Found, Sent, cause_of, findings_of, is_spmd
from xlashape.reports.collectives.pairs import ShardingPairs
from xlashape.reports.collectives.rematerialized import rematerializations
from xlashape.reports.collectives.schedule import windows_of
from xlashape.reports.cost.links import Topology, link_seconds
from xlashape.reports.cost.program import Program, Runs, Sums, program_of, runs_of
from xlashape.reports.cost.targets import Roof, roof_of
from xlashape.reports.program import loop_notes, program

_SHOWN: Final = 5
"""How many arrays that XLA gathers involuntarily are named."""


class _Known(NamedTuple):
    """What holds for all collectives that are written alike."""

    groups: DeviceGroups
    moved: Exchanged
    axes: tuple[str, ...] | None
    seconds: float | None


class _Window(NamedTuple):
    """What runs between the begin and the end of a collective."""

    flops: int | None
    size: int
    seconds: float | None


def collectives(
    x: Any,
    *args: Any,
    mesh: Any = None,
    target: str | None = None,
    topology: str | None = None,
    frames: str | None = None,
    strict: bool = False,
    **kwargs: Any,
) -> Collectives:
    """The collectives of a program: which devices exchange how many bytes, how often, behind what, and what would
    shrink that.

    x: whatever `HloModule.of` takes; a jitted function is lowered with the arguments that follow, and has collectives
    only once it is compiled, but for those that it asks for itself. mesh: the mesh whose axes the rows name, as
    `"data=4,model=2"`, a mapping, or a `jax.sharding.Mesh`; without it the one that the program names. target: the name
    of a device, whose links give least times where they are known. topology: where the devices are (`Topology.parse`).
    frames: with "all", `source` names every frame that called an operation. strict: refuse text that is no module as it
    stands.

    Raises what `HloModule.of` raises, InvalidArgumentError for another mesh, target or topology, InvalidModuleError for
    groups that contradict themselves, LimitExceededError for more than 1,048,576 devices.
    """
    where = None if topology is None else Topology.parse(topology)
    roof = roof_of(target if target is not None or where is None else where.target)
    given = None if mesh is None else DeviceMesh.of(mesh)
    with showing_frames(frames):
        module = program(x, args, kwargs, strict=strict)
        return _Finder(module, roof, given, where).answer()


class _Finder:
    """Finds the rows of one module."""

    def __init__(self, module: HloModule, roof: Roof, mesh: DeviceMesh | None, topology: Topology | None) -> None:
        self._module, self._roof, self._topology = module, roof, topology
        self._found = find_collectives(module)
        self._mesh = mesh or (mesh_of(module) if self._found else None)
        self._grid = device_grid(module, self._found, self._mesh.device_count if self._mesh else 1)
        self._ids = _chips(module)
        self._alike: dict[tuple[Any, ...], _Known] = {}
        self._windows = windows_of(module, self._found)
        self._program: Program | None = program_of(module, roof, as_xla=False) if any(self._windows.values()) else None
        self._costs = _costs(self._program)
        self._flow = Flow(module)
        axes = {each.instruction: self._known(each).axes for each in self._found}
        self._pairs = None if self._mesh is None else ShardingPairs(module, self._flow, self._mesh, axes)

    def answer(self) -> Collectives:
        module, notes = self._module, [*self._module.notes]
        runs = runs_of(module) if self._found else Runs({}, set(), ())
        sent = [
            Sent(each, known.moved, known.groups, known.axes, runs.times.get(each.instruction.computation, 0))
            for each in self._found
            for known in [self._known(each)]
        ]
        target = self._roof.target
        sends_floats = target is not None and target.kind != "cpu"
        findings = findings_of(self._flow, sent, runs, self._grid, self._pairs, sends_floats=sends_floats)
        fixes = {each: finding.fix for finding in reversed(findings) for each in finding.collectives}
        rows = [self._row(each, runs, fixes.get(each.collective)) for each in sent]
        rows.sort(key=lambda row: -row.sent_bytes * row.times)
        if self._found and not self._grid.is_stated:
            notes.append("The module does not say how many devices run it; as many count as its collectives name.")
        if self._topology is not None and self._ids is None:
            notes.append("The module does not say which chips run it; the position of a device counts as its chip.")
        if self._roof.target is not None and self._roof.links is None:
            notes.append(f"Links of {self._roof.target.name} are not known, so there are no times.")
        notes += loop_notes(() if all(row.is_exact for row in rows) else runs.unknown_loops)
        gathered = [str(each) for each in rematerializations(module)]
        notes += gathered[:_SHOWN]
        if gathered[_SHOWN:]:
            notes.append(f"XLA gathers {len(gathered) - _SHOWN:,} more arrays involuntarily.")
        answer = Collectives(
            module.name,
            tuple(rows),
            tuple([_finding(each) for each in findings]),
            self._grid.device_count,
            str(self._mesh) if self._mesh is not None else None,
            self._roof.target.name if self._roof.target is not None else None,
            module,
        )
        return answer.with_notes(tuple(notes))

    def _known(self, each: Collective) -> _Known:
        key = (
            each.instruction.kind,
            each.operand_bytes,
            each.result_bytes,
            each.exchange,
            bool(each.instruction.channel),
        )
        known = self._alike.get(key)
        if known is None:
            groups = groups_of(each, self._grid)
            axes = None if self._mesh is None else axes_of(groups, self._mesh)
            links = self._roof.links
            seconds = None if links is None else link_seconds(each, groups, links, self._topology, self._ids)
            known = self._alike[key] = _Known(groups, groups.moved(each), axes, seconds)
        return known

    def _row(self, sent: Sent, runs: Runs, fix: str | None) -> CollectiveRow:
        each, moved = sent.collective, sent.moved
        known = self._known(each)
        instruction = each.instruction
        between = self._windows.get(instruction)
        window = None if between is None else self._window(between)
        exposed = known.seconds
        if exposed is not None and window is not None and window.seconds is not None:
            exposed = max(0.0, exposed - window.seconds)
        elif each.is_asynchronous:
            exposed = None
        pair = self._pairs.pair(each) if self._pairs is not None else None
        metadata = instruction.metadata
        return CollectiveRow(
            name=instruction.name,
            opcode=str(instruction.opcode),
            kind=each.exchange.kind,
            group_size=known.groups.size,
            groups=len(known.groups.members),
            mesh_axes=known.axes,
            mode=known.groups.mode,
            bytes=checked_int64(each.size, f"the number of bytes of {instruction.name!r}"),
            sent_bytes=checked_int64(moved.sent, f"the number of bytes of {instruction.name!r}"),
            received_bytes=moved.received,
            sent_all=checked_int64(moved.sent_all, f"the number of bytes of {instruction.name!r}"),
            received_all=checked_int64(moved.received_all, f"the number of bytes of {instruction.name!r}"),
            at_most=each.exchange.is_bound,
            times=checked_int64(sent.times, f"how often {instruction.name!r} runs"),
            is_exact=instruction.computation in runs.exact,
            branch=each.is_in_branch,
            is_asynchronous=each.is_asynchronous,
            between=None if between is None else tuple([step.name for step in between]),
            between_flops=window.flops if window is not None else None,
            between_bytes=window.size if window is not None else None,
            between_time=window.seconds if window is not None else None,
            least_time=known.seconds,
            exposed=exposed,
            spmd=is_spmd(instruction),
            before=pair[0] if pair is not None else None,
            after=pair[1] if pair is not None else None,
            cause=cause_of(each, known.axes, pair),
            suggestion=fix,
            source=metadata.source,
            op_name=metadata.op_name,
            names=tuple([part.name for part in each.parts]),
            computation=instruction.computation.name,
            members=known.groups.members,
        )

    def _window(self, between: Sequence[HloInstruction]) -> _Window:
        """The sums over instructions that run once. Their time is that of arithmetic and memory: a collective in a
        fusion counts 0."""
        total = Sums()
        sending = {each.begin for each in self._found}
        for step in between:
            once = self._costs.get(step, Sums())
            total = total.plus(once._replace(seconds=0.0) if step in sending else once)
        is_timed = self._roof.is_known
        return _Window(
            total.flops if total.is_complete else None,
            total.bytes_read + total.bytes_written,
            total.seconds if is_timed else None,
        )


def _costs(costs: Program | None) -> Mapping[HloInstruction, Sums]:
    """What one execution of each instruction costs, with all that it executes."""
    found: dict[HloInstruction, Sums] = {}
    for run in costs.runs if costs is not None else ():
        for instruction, once in zip(run.computation.instructions, run.once, strict=True):
            found[instruction] = once.sums
    return {**found, **(costs.called if costs is not None else {})}


def _chips(module: HloModule) -> tuple[int, ...] | None:
    """The chips of the devices by position, as the device assignment says; None where the module has none."""
    assignment = module.head.device_assignment
    parts = [part.replica_device_ids for part in assignment.computation_devices]
    if not parts or any(len(part) != assignment.replica_count for part in parts):
        return None
    return tuple([part[replica] for replica in range(assignment.replica_count) for part in parts])


def _finding(found: Found) -> CollectiveFinding:
    saved = checked_int64(found.saved_bytes, "the number of bytes")
    names = tuple([each.instruction.name for each in found.collectives])
    return CollectiveFinding(found.kind, saved, len(names), found.text, found.fix, names)
