"""The answer of `collectives`: its rows, its sums by group, its findings, and the declaration of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from xlashape.base.frozen import Frozen
from xlashape.base.math import byte_text, checked_int64, counted
from xlashape.base.tables import Column, ColumnKind
from xlashape.hlo.module import HloModule
from xlashape.reports import vocabularies
from xlashape.reports.groups import grouped
from xlashape.reports.layers import Layers
from xlashape.reports.report import FRAMES, NOTES, STRICT, Answer, Option, Report, Section, by_section
from xlashape.reports.text import cell_text, short_bytes
from xlashape.shape.parts.target import TARGET_NAMES

_KEYS: Final = ("mesh_axes", "kind", "source", "op_name", "layer", "each_layer")

_SUMS: Final = (
    Column("count", ColumnKind.INTEGER, "how many collectives there are; one in a loop counts once", rank=2),
    Column("executions", ColumnKind.INTEGER, "how often they run in one run of the program, all together", rank=3),
    Column("sent_bytes", ColumnKind.INTEGER, "bytes that the busiest device sends in one run", "bytes", rank=1),
    Column("received_bytes", ColumnKind.INTEGER, "bytes of results that a device lacked before, in one run", "bytes", rank=1),
    Column("least_time", ColumnKind.NUMBER, "the sum of the least times of all executions on the links, without latency", "seconds", rank=2),
    Column("exposed", ColumnKind.NUMBER, "an estimate of the part of that time behind which nothing else runs", "seconds", rank=2),
)  # fmt: skip

REPORT: Final = Report(
    name="collectives",
    summary="What a program sends between devices: which ones, how often, behind what, and what would shrink it.",
    columns=(
        Column("name", ColumnKind.TEXT, "the instruction that says what is exchanged", rank=1),
        Column("opcode", ColumnKind.TEXT, "the opcode as written"),
        Column("kind", ColumnKind.TEXT, "what the collective does: an all-reduce whose fusion slices the result is a reduce-scatter", rank=2, choices=vocabularies.COLLECTIVE_KINDS),
        Column("group_size", ColumnKind.INTEGER, "devices of the largest group", rank=3, heading="devices"),
        Column("groups", ColumnKind.INTEGER, "the number of groups; of permutes, sends and receives those of devices that the pairs connect", rank=5),
        Column("mesh_axes", ColumnKind.TEXTS, "the axes of the mesh that a group spans, or parts of them: `y:(2)2` is the minor half of an axis y of 4; empty where no axes give these groups, or no mesh is known", rank=2, heading="axes"),
        Column("mode", ColumnKind.TEXT, "what the numbers in the groups mean", choices=vocabularies.GROUP_MODES),
        Column("bytes", ColumnKind.INTEGER, "the larger one of all operands and all results of a device, without the padding of tiles", "bytes", rank=4),
        Column("sent_bytes", ColumnKind.INTEGER, "bytes that the busiest device sends in one execution, on a ring or in pairs; of an all-reduce the mean", "bytes", rank=1),
        Column("received_bytes", ColumnKind.INTEGER, "bytes of the result that the device lacked that lacked the most: no algorithm receives less", "bytes", rank=3),
        Column("sent_all", ColumnKind.INTEGER, "bytes that all devices together send in one execution", "bytes"),
        Column("received_all", ColumnKind.INTEGER, "bytes that all devices together lacked", "bytes"),
        Column("at_most", ColumnKind.BOOLEAN, "whether sizes are known only when the program runs: the bytes are then the most that it may send"),
        Column("times", ColumnKind.INTEGER, "how often it runs in one run of the program; a loop of unknown length counts once", rank=2),
        Column("is_exact", ColumnKind.BOOLEAN, "whether it is known how often it runs"),
        Column("branch", ColumnKind.BOOLEAN, "whether it is in a branch of a conditional, which counts as taken"),
        Column("is_asynchronous", ColumnKind.BOOLEAN, "whether other instructions may run between its begin and its end"),
        Column("between", ColumnKind.TEXTS, "the instructions that the schedule puts between begin and end, without collectives, begins and ends of others"),
        Column("between_flops", ColumnKind.INTEGER, "the FLOPs of these instructions; empty where they are not known", "flops", rank=6),
        Column("between_bytes", ColumnKind.INTEGER, "the bytes that these instructions read and write", "bytes", rank=6),
        Column("between_time", ColumnKind.NUMBER, "the least time of these instructions on the target", "seconds"),
        Column("least_time", ColumnKind.NUMBER, "the least time of one execution on the links of the target, without latency", "seconds", rank=3),
        Column("exposed", ColumnKind.NUMBER, "an estimate of the part of the least time behind which nothing else runs: without `between_time`, and all of it where the collective is not asynchronous", "seconds", rank=4),
        Column("spmd", ColumnKind.BOOLEAN, "whether the partitioner made it, as the instruction says; otherwise the program, or a pass that lost the mark"),
        Column("before", ColumnKind.TEXT, "how the array is divided before: the axes of each dimension, `{?}` where they are not known, and the axes over which summands are still to be added; empty where no mesh is known, and for exchanges between pairs", rank=4),
        Column("after", ColumnKind.TEXT, "how the array is divided after", rank=4),
        Column("cause", ColumnKind.TEXT, "what is exchanged and why, in words"),
        Column("suggestion", ColumnKind.TEXT, "what would remove or shrink it"),
        Column("source", ColumnKind.TEXT, "the line of the program that the instruction names", rank=3),
        Column("op_name", ColumnKind.TEXT, "the operation of the program that the instruction names"),
        Column("names", ColumnKind.TEXTS, "all instructions that are this one collective"),
        Column("computation", ColumnKind.TEXT, "the computation that the instruction is in"),
    ),
    totals=(
        Column("module", ColumnKind.TEXT, "the name of the module"),
        *_SUMS,
        Column("devices", ColumnKind.INTEGER, "the devices that run the program: replicas × partitions"),
        Column("mesh", ColumnKind.TEXT, "the mesh whose axes the rows name"),
        Column("target", ColumnKind.TEXT, "the device that was asked for, whose links give the times", choices=TARGET_NAMES),
        Column("is_exact", ColumnKind.BOOLEAN, "whether it is known how often each collective runs, and how much it sends", heading="exact"),
        NOTES,
    ),
    sections=(
        by_section("collectives", _SUMS, _KEYS),
        Section("findings", (
            Column("kind", ColumnKind.TEXT, "why they send more than they have to, or more often", rank=1, choices=vocabularies.COLLECTIVE_FINDINGS),
            Column("saved_bytes", ColumnKind.INTEGER, "the bytes that the busiest device then does not send in one run", "bytes", rank=1),
            Column("count", ColumnKind.INTEGER, "how many collectives the change removes or shrinks", rank=2),
            Column("text", ColumnKind.TEXT, "what was found, in a sentence", rank=3),
            Column("fix", ColumnKind.TEXT, "the change of the program, and what it costs", rank=4),
            Column("names", ColumnKind.TEXTS, "these collectives"),
        ), "what sends more than it has to, by what the change saves"),
    ),
    options=(
        Option("mesh", ColumnKind.TEXT, "the axes of the mesh, such as data=4,model=2, where the program does not name them"),
        Option("target", ColumnKind.TEXT, "the chip whose links give the least times", None, TARGET_NAMES),
        Option("topology", ColumnKind.TEXT, "where the devices are: 4x4 is a torus of TPUs, 8 or h100x8 is 8 GPUs with links between them, 4x8 is 4 such nodes"),
        FRAMES,
        STRICT,
    ),
    compute="xlashape.reports.collectives:collectives",
    alike=("kind", "group_size", "groups", "mesh_axes", "bytes", "sent_bytes", "source", "exposed"),
)  # fmt: skip


class CollectiveRow(NamedTuple):
    """A collective of a program. The columns of `REPORT` say what the fields are; of the others, `members` has the
    devices of each group.
    """

    name: str
    opcode: str
    kind: str
    group_size: int
    groups: int
    mesh_axes: tuple[str, ...] | None
    mode: str
    bytes: int
    sent_bytes: int
    received_bytes: int
    sent_all: int
    received_all: int
    at_most: bool
    times: int
    is_exact: bool
    branch: bool
    is_asynchronous: bool
    between: tuple[str, ...] | None
    between_flops: int | None
    between_bytes: int | None
    between_time: float | None
    least_time: float | None
    exposed: float | None
    spmd: bool
    before: str | None
    after: str | None
    cause: str
    suggestion: str | None
    source: str
    op_name: str
    names: tuple[str, ...]
    computation: str
    members: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class CollectivesOfGroup:
    """Collectives with something in common, and the sums over all of their executions in a run of the program."""

    group: str
    count: int
    executions: int
    sent_bytes: int
    received_bytes: int
    least_time: float | None
    exposed: float | None


@dataclass(frozen=True)
class CollectiveFinding:
    """Collectives that send more than they have to, or more often, and what removes that."""

    kind: str
    saved_bytes: int
    count: int
    text: str
    fix: str
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Collectives(Answer[CollectiveRow], Frozen):
    """What a program sends between devices. Those rows come first whose executions send the most."""

    __slots__ = ("_notes", "_program", "devices", "findings", "mesh", "module", "rows", "target")

    report = REPORT
    module: str
    rows: tuple[CollectiveRow, ...]
    findings: tuple[CollectiveFinding, ...]
    devices: int
    mesh: str | None
    target: str | None
    _program: HloModule

    @property
    def _sums(self) -> CollectivesOfGroup:
        return _group("", self.rows)

    @property
    def count(self) -> int:
        """How many collectives there are."""
        return len(self.rows)

    @property
    def executions(self) -> int:
        """How often collectives run in one run of the program."""
        return self._sums.executions

    @property
    def sent_bytes(self) -> int:
        """Bytes that the busiest device sends in one run, if it is the same one in every collective."""
        return self._sums.sent_bytes

    @property
    def received_bytes(self) -> int:
        """Bytes of results that a device lacked before, in one run."""
        return self._sums.received_bytes

    @property
    def least_time(self) -> float | None:
        """The sum of the least times of all executions on the links; None where that of a collective is not known."""
        return self._sums.least_time

    @property
    def exposed(self) -> float | None:
        """An estimate of the part of that time behind which nothing else runs."""
        return self._sums.exposed

    @property
    def is_exact(self) -> bool:
        """Whether it is known how often each collective runs, and how much it sends."""
        return all(row.is_exact and not row.at_most for row in self.rows)

    def by(self, key: str) -> tuple[CollectivesOfGroup, ...]:
        """The sums of collectives of one `kind`, `source`, `op_name` or `layer`, or over the same `mesh_axes`; those
        first that send the most. Raises InvalidArgumentError for another key.
        """
        made = [
            _group(name, rows) for name, rows in grouped(self.rows, key, _KEYS, Layers(self._program).of_row).items()
        ]
        return tuple(sorted(made, key=lambda group: -group.sent_bytes))

    def headline(self) -> str:
        if not self.rows:
            return "\n".join([f"{self.module}: no collectives", *self.notes])
        sums = self._sums
        lines = [
            f"{self.module}: {counted(self.count, 'collective')}, {counted(sums.executions, 'execution')} in a run on "
            f"{counted(self.devices, 'device')}",
            f"each device sends {byte_text(sums.sent_bytes)}, and receives at least {short_bytes(sums.received_bytes)}",
        ]
        if sums.least_time is not None:
            exposed = "" if sums.exposed is None else f", about {cell_text(_SUMS[5], sums.exposed)} of it exposed"
            lines.append(f"at least {cell_text(_SUMS[4], sums.least_time)} on the links of {self.target}{exposed}")
        parts = [f"{each.group} {short_bytes(each.sent_bytes)} in {each.count:,}" for each in self.by("kind")]
        lines.append("; ".join(parts[:4]))
        for each in self.findings[:3]:
            saved = f"Saves {byte_text(each.saved_bytes)}: " if each.saved_bytes else ""
            lines.append(f"{each.text} {saved}{each.fix}")
        return "\n".join([*lines, *self.notes])


def _group(name: str, rows: Sequence[CollectiveRow]) -> CollectivesOfGroup:
    times = [row.least_time * row.times for row in rows if row.least_time is not None]
    exposed = [row.exposed * row.times for row in rows if row.exposed is not None]
    return CollectivesOfGroup(
        name,
        len(rows),
        checked_int64(sum([row.times for row in rows]), "the number of executions"),
        checked_int64(sum([row.sent_bytes * row.times for row in rows]), "the number of bytes"),
        checked_int64(sum([row.received_bytes * row.times for row in rows]), "the number of bytes"),
        sum(times) if rows and len(times) == len(rows) else None,
        sum(exposed) if rows and len(exposed) == len(rows) else None,
    )
