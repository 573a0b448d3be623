"""The declaration of the report `profile`, its answer `Profile`, and the function `profile`, which makes the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from xlashape.base.frozen import Frozen, set_field
from xlashape.base.tables import Column, ColumnKind
from xlashape.errors import InvalidArgumentError
from xlashape.hlo import HloInstruction, HloModule
from xlashape.hlo.module_proto.shown_frames import showing_frames
from xlashape.reports import vocabularies
from xlashape.reports.cost.targets import Roof, roof_of
from xlashape.reports.groups import grouped
from xlashape.reports.layers import Layers
from xlashape.reports.profile.changes import CHANGES, TimeChange, changes_of
from xlashape.reports.profile.events import EventTimes, Tally
from xlashape.reports.profile.joined import Join, Joined, ProfileModules, device_kind, join
from xlashape.reports.profile.sources import opened
from xlashape.reports.report import FRAMES, NOTES, Answer, Option, Report, Section, by_section
from xlashape.reports.text import cell_text
from xlashape.shape.parts.target import TARGET_NAMES, Target

_PS: Final = 1e-12
"""Seconds of a picosecond, the unit of times in profiles."""
_KEYS: Final = ("source", "op_name", "opcode", "module", "computation", "step", "layer", "each_layer")

_GROUPS: Final = (
    Column("time", ColumnKind.NUMBER, "the time of their events, without what runs within them", "seconds", rank=1),
    Column("share", ColumnKind.NUMBER, "the time of the row ÷ that of all instructions", "fraction", rank=1, heading="of time"),
    Column("count", ColumnKind.INTEGER, "how many events they have", rank=2),
    Column("instructions", ColumnKind.INTEGER, "how many instructions they are; empty for steps", rank=3),
    Column("flops", ColumnKind.INTEGER, "FLOPs of all executions, as far as they are known", "flops", rank=3, heading="flops in all"),
    Column("bytes", ColumnKind.INTEGER, "bytes of all executions, as far as they are known", "bytes", rank=3, heading="bytes in all"),
    Column("layout_time", ColumnKind.NUMBER, "the time that their layouts cost", "seconds", rank=4),
)  # fmt: skip

# Words for the headline of a comparison: the period of its times, and the reason where that is not a step.
_UNITS: Final = {
    "step": ("A step", ""),
    "run": ("A run of each program", " Not both profiles have marks of steps: times are those of one run of the program."),
    "profile": ("All", " Steps or runs are not known of both profiles: times are those of whole profiles."),
}  # fmt: skip


def _against_headline(_found: Profile, rows: Sequence[TimeChange], earlier: Any) -> str:
    """A text: the times of both profiles, and how many instructions became slower and quicker."""
    before, after = (
        sum([value or 0.0 for value in times])
        for times in zip(*[(row.a_time, row.b_time) for row in rows], strict=True)
    )
    slower, quicker = sum([row.delta_time > 0 for row in rows]), sum([row.delta_time < 0 for row in rows])
    share = f", {100 * (after / before - 1):+.1f}%" if before else ""
    what, why = _UNITS[rows[0].per]
    texts = [cell_text(_GROUPS[0], value) for value in (before, after)]
    return (
        f"{what}: {texts[0]} → {texts[1]}{share} since {earlier}; {slower:,} instructions are slower, "
        f"{quicker:,} are quicker.{why}"
    )


REPORT: Final = Report(
    name="profile",
    summary="Where the time of a profile goes: its events summed up by instruction, beside what each instruction "
        "calculates and moves.",
    columns=(
        Column("name", ColumnKind.TEXT, "the name of the instruction", rank=1),
        Column("module", ColumnKind.TEXT, "the module of the instruction", rank=6),
        Column("program_id", ColumnKind.INTEGER, "the id of the program, which keeps modules of one name apart; empty where the profile has none", rank=7, heading="program"),
        Column("opcode", ColumnKind.TEXT, "the opcode of the instruction", rank=4),
        Column("computation", ColumnKind.TEXT, "the computation that it is in"),
        Column("time", ColumnKind.NUMBER, "the time of all its events, over all devices and threads", "seconds", rank=3),
        Column("self_time", ColumnKind.NUMBER, "the time of the instruction's events without the events within them, such as those of a loop's body", "seconds", rank=1, heading="self"),
        Column("share", ColumnKind.NUMBER, "the self time of the instruction ÷ that of all instructions", "fraction", rank=1, heading="of time"),
        Column("count", ColumnKind.INTEGER, "how many events it has", rank=3),
        Column("executions", ColumnKind.INTEGER, "how often it ran, as far as that is known: runs of the program × how often it runs in each; else its events"),
        Column("min", ColumnKind.NUMBER, "the shortest event of the instruction", "seconds"),
        Column("max", ColumnKind.NUMBER, "the longest event of the instruction", "seconds"),
        Column("bytes", ColumnKind.INTEGER, "bytes that one execution reads and writes", "bytes", rank=4, heading="bytes a run"),
        Column("padded_bytes", ColumnKind.INTEGER, "the bytes that are read and written, with the padding of tiles", "bytes"),
        Column("wasted_bytes", ColumnKind.INTEGER, "bytes that one execution moves in vain: padding, and the segments, tiles or lines that are fetched beside what is read", "bytes", rank=6, heading="wasted"),
        Column("flops", ColumnKind.INTEGER, "FLOPs of one execution", "flops", rank=5),
        Column("bandwidth", ColumnKind.NUMBER, "padded bytes in main memory of all executions ÷ time", "bytes/s", rank=3),
        Column("flop_rate", ColumnKind.NUMBER, "FLOPs of all executions ÷ time", "flops/s", rank=4),
        Column("sent_bytes", ColumnKind.INTEGER, "bytes that the busiest device sends in one execution of a collective", "bytes"),
        Column("send_rate", ColumnKind.NUMBER, "sent bytes of all executions ÷ time: the bus bandwidth of nccl-tests", "bytes/s", rank=5),
        Column("bound", ColumnKind.TEXT, "what limits it on the target", rank=1, choices=vocabularies.BOUNDS),
        Column("least_time", ColumnKind.NUMBER, "the least time of one execution on the target", "seconds"),
        Column("efficiency", ColumnKind.NUMBER, "the least time of all executions ÷ their time", "fraction", rank=1, heading="roof"),
        Column("layout_time", ColumnKind.NUMBER, "the time that its layout costs: all of a copy's, and otherwise the share of wasted_bytes in the bytes that it moves", "seconds", rank=1, heading="layout"),
        Column("is_collective", ColumnKind.BOOLEAN, "whether it is a collective, or begins or ends one"),
        Column("is_copy", ColumnKind.BOOLEAN, "whether it moves data only: copies, transposes, and fusions of nothing else"),
        Column("source", ColumnKind.TEXT, "the line of the program that it comes from", rank=2),
        Column("op_name", ColumnKind.TEXT, "the operation of the program that it comes from"),
    ),
    totals=(
        Column("time", ColumnKind.NUMBER, "the self time of all instructions, over all devices and threads", "seconds"),
        Column("events", ColumnKind.INTEGER, "events of instructions"),
        Column("devices", ColumnKind.TEXTS, "the devices with instructions"),
        Column("modules", ColumnKind.TEXTS, "the modules with instructions, each with its program id where that is known"),
        Column("steps", ColumnKind.INTEGER, "steps, or without any mark of steps executions of programs"),
        Column("target", ColumnKind.TEXT, "the device that was asked for, whose peaks give the times", choices=TARGET_NAMES),
        Column("copy_time", ColumnKind.NUMBER, "the time of copies and transposes", "seconds"),
        Column("copy_share", ColumnKind.NUMBER, "the time of copies ÷ the time of all instructions", "fraction"),
        Column("communication_time", ColumnKind.NUMBER, "the time of collectives, their begins and their ends", "seconds"),
        Column("exposed_time", ColumnKind.NUMBER, "the part of that time in which the device runs nothing else: known for TPUs, which run one instruction after the other", "seconds"),
        Column("layout_time", ColumnKind.NUMBER, "the time that layouts cost: copies, padding, and what reads fetch in vain", "seconds"),
        Column("lost_time", ColumnKind.NUMBER, "the time of kernels that the profile gives no instruction for", "seconds"),
        Column("lost_kernels", ColumnKind.INTEGER, "how many kernels the profile gives no instruction for"),
        Column("lost_in_graphs", ColumnKind.INTEGER, "how many of the lost kernels ran in command buffers, which lose the names of instructions"),
        Column("shared_kernels", ColumnKind.INTEGER, "kernels of several instructions, whose time is shared out by padded bytes"),
        Column("without_module", ColumnKind.TEXTS, "programs whose module is neither in the profile nor given, or is one of several of its name"),
        Column("without_instruction", ColumnKind.INTEGER, "instructions of the profile that their module does not have"),
        NOTES,
    ),
    sections=(
        by_section("instructions", _GROUPS, _KEYS),
        Section("against", CHANGES, "what became slower since an earlier profile, each for one step or run of the program, and what changed in the instruction", Option("earlier", ColumnKind.TEXT, "an earlier profile: what became slower since", None, is_content=True), _against_headline),
    ),
    options=(
        Option("modules", ColumnKind.TEXT, "a file or directory with the modules, for a profile without modules of its own", None, is_local=True),
        Option("target", ColumnKind.TEXT, "the chip whose peaks give the least times; without it those that the profile states", None, TARGET_NAMES),
        Option("peak", ColumnKind.NUMBER, "FLOP/s of the device, instead of those of a target", None, unit="flops/s"),
        Option("bandwidth", ColumnKind.NUMBER, "bytes/s of the device's memory, instead of those of a target", None, unit="bytes/s"),
        FRAMES,
    ),
    compute="xlashape.reports.profile.report:profile",
    inputs=("profile",),
    takes="X is a profile, *.xplane.pb or *.trace.json.gz, or the directory that jax.profiler wrote, of which the "
        "newest run is read.",
    has_picture=True,
    asks_directories=True,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InstructionTime:
    """An instruction and the times of its events, in seconds. Bytes, FLOPs and `least_time` are those of one execution.
    Each field is the column of its name in `REPORT`, and None or empty where it is not known.
    """

    name: str
    module: str
    program_id: int | None
    opcode: str
    computation: str | None
    time: float
    self_time: float
    share: float
    count: int
    executions: int
    min: float
    max: float
    bytes: int | None
    padded_bytes: int | None
    wasted_bytes: int | None
    flops: int | None
    bandwidth: float | None
    flop_rate: float | None
    sent_bytes: int | None
    send_rate: float | None
    bound: str | None
    least_time: float | None
    efficiency: float | None
    layout_time: float | None
    is_collective: bool
    is_copy: bool
    source: str
    op_name: str
    instruction: HloInstruction | None = field(compare=False, repr=False)
    """The instruction of the module; None where that is not known. It is not a column."""


@dataclass(frozen=True, slots=True)
class GroupTime:
    """The sums over instructions with something in common. Each field is the column of its name in the section `by`,
    and None where it is not known."""

    group: str
    time: float
    share: float
    count: int
    instructions: int | None
    flops: int | None
    bytes: int | None
    layout_time: float | None


class Profile(Answer[InstructionTime], Frozen):
    """Where the time of a profile goes. `rows` has the instructions, those with the most self time first."""

    __slots__ = ("_notes", "join", "roof", "rows", "tally")

    report: ClassVar[Report] = REPORT
    rows: tuple[InstructionTime, ...]
    tally: Tally
    """The sums of the events."""
    join: Join
    """The operations of the events, joined with the instructions of modules."""
    roof: Roof
    """The peaks of the device, from which least times follow."""

    def __init__(self, tally: Tally, found: Join, roof: Roof, notes: Sequence[str] = ()) -> None:
        total = sum([each.own for each in found.rows])
        rows = [_row(each, total, roof, is_whole=not tally.is_in_part) for each in found.rows]
        rows.sort(key=lambda row: (-row.self_time, row.name))
        set_field(self, "tally", tally)
        set_field(self, "join", found)
        set_field(self, "roof", roof)
        set_field(self, "rows", tuple(rows))
        set_field(self, "_notes", (*notes, *_notes(tally, found)))

    @property
    def time(self) -> float:
        """Seconds of all instructions, over all devices and threads, each moment of a thread counted once."""
        return sum([row.self_time for row in self.rows])

    @property
    def events(self) -> int:
        """How many events instructions have."""
        return sum([times.count for times in self.tally.operations.values()])

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices with instructions."""
        return tuple(sorted(self.tally.planes))

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules with instructions, such as `jit_f(12)`: each with its program id, where that is known."""
        return tuple(dict.fromkeys([_module_of(row) for row in self.rows]))

    @property
    def steps(self) -> int:
        """How many steps the program or the device has marked; if none, how many executions of programs there are."""
        return len(self.tally.marked or self.tally.steps)

    @property
    def target(self) -> str | None:
        """The name of the chip; None where none was given."""
        return self.roof.target.name if self.roof.target is not None else None

    @property
    def copy_time(self) -> float:
        """Seconds of copies and transposes."""
        return sum([row.self_time for row in self.rows if row.is_copy])

    @property
    def copy_share(self) -> float | None:
        """The time of copies ÷ the time of all instructions; None for a profile without instructions."""
        return self.copy_time / self.time if self.time else None

    @property
    def communication_time(self) -> float:
        """Seconds of collectives, their begins and their ends."""
        return sum([row.self_time for row in self.rows if row.is_collective])

    @property
    def exposed_time(self) -> float | None:
        """Seconds of collectives in which their device runs nothing else; None where the profile does not tell, as for
        GPUs, which run several streams at once.
        """
        return self.communication_time if device_kind(self.tally) == "tpu" else None

    @property
    def layout_time(self) -> float:
        """Seconds that layouts cost: the time of copies, and of every other instruction the share of its bytes that are
        moved in vain: padding, and bytes that are fetched and not read.
        """
        return sum([row.layout_time or 0.0 for row in self.rows])

    @property
    def lost_time(self) -> float:
        """Seconds of the kernels that the profile gives no instruction for."""
        return self.tally.lost.total * _PS

    @property
    def lost_kernels(self) -> int:
        """How many kernels the profile gives no instruction for."""
        return self.tally.lost.count

    @property
    def lost_in_graphs(self) -> int:
        """How many of the kernels without an instruction ran in command buffers."""
        return self.tally.lost_in_graphs.count

    @property
    def shared_kernels(self) -> int:
        """How many kernels ran several instructions."""
        return self.join.shared

    @property
    def without_module(self) -> tuple[str, ...]:
        """The programs whose module is not known, or is one of several that fit."""
        return self.join.without_module

    @property
    def without_instruction(self) -> int:
        """How many instructions of the profile their module does not have."""
        return len(self.join.without_instruction)

    def by(self, key: str) -> tuple[GroupTime, ...]:
        """The time by `source`, `opcode`, `module`, `computation`, `step`, `op_name` or `layer`; the most first, steps
        in their order.

        `op_name` groups by the first two parts of the path, `jit(step)/transpose(jvp(layer))`; `op_name:3` by the first
        three. Instructions without a value of the key are in one group: `(no source known)`. Events in no marked step
        are grouped by the run of their program: `step 0 (run 17)`, the first group in the order of time. Raises
        InvalidArgumentError for another key.
        """
        name, _, depth = key.partition(":")
        if name not in _KEYS or (depth and not (name == "op_name" and depth.isdecimal() and 0 < len(depth) < 4)):
            raise InvalidArgumentError(f"expected one of {', '.join(_KEYS)} or op_name:N, found {key!r}", field="by")
        if name == "step":
            total = sum([each.own for each in self.tally.steps.values()])
            in_order = sorted(self.tally.steps.items(), key=lambda step: step[1].begin or 0)
            # The id of a run does not show its position, so runs are numbered.
            names = [
                f"step {number} ({step})" if step.startswith("run ") else step
                for number, (step, _) in enumerate(in_order)
            ]
            return tuple([_step(name, times, total) for name, (_, times) in zip(names, in_order, strict=True)])
        groups: dict[str, list[InstructionTime]] = {}
        if name in ("op_name", "module"):
            for row in self.rows:
                groups.setdefault(_key(row, name, int(depth or 2)), []).append(row)
        else:
            groups = grouped(self.rows, name, _KEYS, Layers().of_row)
        made = [_group(each, rows, self.time) for each, rows in groups.items()]
        return tuple(sorted(made, key=lambda group: -group.time))

    def diff(self, other: Profile) -> tuple[TimeChange, ...]:
        """What became slower or quicker from this profile to another; the largest change of time first.

        Instructions are joined as `xlashape.diff` matches their modules, and each row has the changes that `diff`
        finds. Where a module is not known, instructions are joined by name. Times are those of one step where both
        profiles have marks of steps, so that profiles of different length compare; else those of one run of each
        program; where runs are not known either, those of the whole profiles. `per` of each row says which. Raises
        InvalidArgumentError for a profile without instructions.
        """
        for each in (self, other):
            if not each.rows:
                message = "a profile has no events of HLO instructions: there is nothing to compare"
                raise InvalidArgumentError(message, field="other" if each is other else "self")
        return changes_of(self.join.rows, other.join.rows, (len(self.tally.marked), len(other.tally.marked)))

    def against(self, earlier: Any) -> tuple[TimeChange, ...]:
        """What became slower or quicker since an earlier profile: `diff` from that to this one. `earlier` is a Profile,
        or an input that `profile` takes.

        Raises what `profile` and `diff` raise.
        """
        before = earlier if isinstance(earlier, Profile) else profile(earlier)
        try:
            return before.diff(self)
        except InvalidArgumentError as error:
            if earlier is before or error.field != "self":
                raise
            raise InvalidArgumentError(f"{earlier}: {error.message}", field="earlier") from None

    def headline(self) -> str:
        lines = [f"{_seconds(self.time)} of instructions"]
        if self.steps > 1 and len(self.modules) > 1 and not self.tally.marked:
            lines = [f"{_seconds(self.time)} of instructions in {self.steps:,} runs of programs"]
        elif self.steps > 1:
            lines = [
                f"{_seconds(self.time / self.steps)} of instructions a step: {_seconds(self.time)} in "
                f"{self.steps:,} steps"
            ]
        if self.rows:
            lines.append(
                f"{self.events:,} events{f' of {self.modules[0]}' if len(self.modules) == 1 else ''} on "
                f"{', '.join(_first(self.devices)) or 'a device without a name'}"
            )
        if len(self.modules) > 1:
            programs = [f"{each.group} {_seconds(each.time)} ({100 * each.share:.1f}%)" for each in self.by("module")]
            lines.append(f"{len(programs):,} programs: {', '.join(_first(programs))}")
        costs = (
            [f"{_seconds(self.copy_time)} ({100 * (self.copy_share or 0.0):.1f}%) are copies and transposes"]
            if self.copy_time
            else []
        )
        wasted = self.layout_time - self.copy_time
        if wasted > 1e-3 * self.time:
            costs.append(f"{_seconds(wasted)} ({100 * wasted / self.time:.1f}%) padding and wasted bytes of others")
        if self.communication_time:
            share = 100 * self.communication_time / self.time
            costs.append(f"{_seconds(self.communication_time)} ({share:.1f}%) collectives")
        lines += [", ".join(costs)] if costs else []
        if self.roof.chip is not None:
            kind = device_kind(self.tally)
            wrong = self.target is not None and kind is not None and kind != Target.of(self.target).kind
            other = f", and the profile is of another device: {', '.join(_first(self.devices))}" if wrong else ""
            lines.append(f"Least times are those of {self.roof.chip.name}{other}.")
        return "\n".join([*lines, *self.notes])


def profile(
    x: Any,
    modules: Any = None,
    *,
    target: str | None = None,
    peak: float | None = None,
    bandwidth: float | None = None,
    frames: str | None = None,
) -> Profile:
    """The time of a profile by instruction.

    x: a path to `*.xplane.pb` or `*.trace.json.gz`, a directory that `jax.profiler.trace` wrote (its newest run
    counts), bytes, an open file.
    modules: what `HloModule.all_of` takes, for a profile that holds no modules.
    target, peak, bandwidth: the chip, or its peaks in FLOP/s and bytes/s, as for `cost`; without them the peaks that
    the profile of a TPU states.
    frames: with "all", `source` names every frame that called an operation, and not the line of the user's own code
    alone.

    Raises NotFoundError for a path without a profile, DecodeError for bytes that are no profile, LimitExceededError for
    a profile with too many operations, InvalidArgumentError for another x, an unknown target, a peak or bandwidth that
    is not a positive finite number, and other frames.
    """
    given = () if modules is None else HloModule.all_of(modules)
    roof = roof_of(target, peak, bandwidth)
    with opened(x) as sources:
        tally = sources.tally
        if (
            roof.chip is None
            and roof.own_peak is None
            and roof.own_bandwidth is None
            and tally.teraflops
            and tally.gigabytes
        ):
            roof = Roof(None, tally.teraflops * 1e12, tally.gigabytes * 1e9, roof.target)
        held = ProfileModules(sources.programs, given, roof)
        found = join(tally, held)
        notes = [*roof.notes, *[f"The module {each}" for each in held.broken]]
    with showing_frames(frames):
        return Profile(tally, found, roof, notes)


def _seconds(value: float) -> str:
    return cell_text(_GROUPS[0], value)


def _first(names: Sequence[str]) -> list[str]:
    """The first three names, and how many more there are."""
    return [*names[:3], *([f"{len(names) - 3:,} more"] if len(names) > 3 else [])]


def _notes(tally: Tally, found: Join) -> list[str]:
    """Sentences about what the profile and the modules lack."""
    notes: list[str] = []
    if not found.rows:
        notes.append("The profile has no events of HLO instructions.")
    if tally.lost.count:
        in_graphs = (
            f"; {tally.lost_in_graphs.count:,} of them ran in command buffers" if tally.lost_in_graphs.count else ""
        )
        notes.append(
            f"{tally.lost.count:,} kernels ({tally.lost.total * 1e-9:,.3f} ms) have no instruction in the "
            f"profile{in_graphs}."
        )
    if tally.is_in_part:
        begun = [each for each in found.rows if each.static.flops and each.own]
        most = max(begun, key=lambda each: (each.static.flops or 0) * each.executions / each.own, default=None)
        such = "" if most is None else f", such as {most.name},"
        notes.append(
            f"The host waits for {_seconds(tally.missing * _PS)} in all for work in threads of libraries, which has "
            f"no events: an instruction that begins such work{such} may take so much longer than its events say. Rates "
            "are left out."
        )
    if found.shared:
        notes.append(f"{found.shared:,} kernels run several instructions each: their time is shared out by bytes.")
    if found.without_module:
        names = ", ".join(found.without_module[:5])
        notes.append(
            f"No module is known for {names}: their instructions have no bytes, FLOPs and sources. Pass their "
            "modules: `--modules FILE`, a file or a directory of dumps."
        )
    if found.without_instruction:
        names = ", ".join(found.without_instruction[:5])
        notes.append(f"{len(found.without_instruction)} instructions are not in their module: {names}.")
    if found.same_names:
        notes.append(f"Several programs are called {', '.join(found.same_names[:5])}; their ids keep them apart.")
    return notes


def _row(each: Joined, total: float, roof: Roof, *, is_whole: bool) -> InstructionTime:
    """`is_whole`: whether the times of events are those of all work, so that rates follow from them."""
    instruction, static = each.instruction, each.static
    seconds, own = each.total * _PS, each.own * _PS
    flops = static.flops
    moved = static.main_bytes

    def rate(amount: float | None) -> float | None:
        # What a loop moves is what all instructions within it do, so it is compared with the whole time of its events.
        return amount * each.executions / seconds if amount and seconds and is_whole else None

    least, bound = _least(each, roof)
    wasted, known = static.wasted_bytes or 0, static.bytes is not None
    share = wasted / ((static.bytes or 0) + wasted) if wasted else 0.0
    return InstructionTime(
        each.name,
        each.module,
        each.program_id,
        each.opcode,
        None if instruction is None else instruction.computation.name,
        seconds,
        own,
        each.own / total if total else 0.0,
        each.count,
        each.executions,
        each.shortest * _PS,
        each.longest * _PS,
        static.bytes,
        static.padded_bytes,
        static.wasted_bytes,
        flops,
        rate(moved),
        rate(flops),
        static.sent_bytes,
        rate(static.sent_bytes),
        bound,
        least,
        rate(least),
        own if each.is_copy else own * share if known else None,
        static.is_collective,
        each.is_copy,
        each.source,
        each.op_name,
        instruction,
    )


def _least(each: Joined, roof: Roof) -> tuple[float | None, str | None]:
    """The least time of one execution, and what limits it."""
    static = each.static
    if not roof.is_known or static.main_bytes is None or static.flops is None:
        return None, None
    compute = static.compute_seconds
    if compute is None:
        peak = roof.own_peak or (max(roof.chip.matrix.values()) if roof.chip is not None else 1.0)
        compute = static.flops / peak
    memory = static.main_bytes / (roof.bandwidth or 1.0)
    if static.sent_bytes:
        return max(compute, memory, static.link_seconds or 0.0), "communication"
    if not compute and not memory:
        return None, None
    return max(compute, memory), "compute" if compute >= memory else "memory"


def _module_of(row: InstructionTime) -> str:
    return row.module if row.program_id is None else f"{row.module}({row.program_id})"


def _key(row: InstructionTime, name: str, depth: int) -> str:
    key = _module_of(row) if name == "module" else "/".join(row.op_name.split("/")[:depth])
    return key or f"(no {name} known)"


def _group(key: str, rows: Sequence[InstructionTime], total: float) -> GroupTime:
    time = sum([row.self_time for row in rows])
    return GroupTime(
        key,
        time,
        time / total if total else 0.0,
        sum([row.count for row in rows]),
        len(rows),
        _known_sum(rows, lambda row: row.flops),
        _known_sum(rows, lambda row: row.bytes),
        sum([row.layout_time or 0.0 for row in rows]),
    )


def _known_sum(rows: Sequence[InstructionTime], of: Callable[[InstructionTime], int | None]) -> int | None:
    """The sum of a number over all executions, where it is known; None if it is known of no row."""
    known = [value * row.executions for row in rows if (value := of(row)) is not None]
    return sum(known) if known else None


def _step(name: str, times: EventTimes, total: int) -> GroupTime:
    return GroupTime(name, times.own * _PS, times.own / total if total else 0.0, times.count, None, None, None, None)
