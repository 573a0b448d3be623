"""The declaration of the report `cost`, its answer `Cost`, and the function that makes it, `cost`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, ClassVar, Final, NamedTuple

from xlashape.base.frozen import Frozen, set_field
from xlashape.base.math import byte_text, checked_int64, counted
from xlashape.base.tables import Column, ColumnKind
from xlashape.errors import InvalidArgumentError
from xlashape.hlo import HloInstruction, HloModule
from xlashape.hlo.module_proto.shown_frames import showing_frames
from xlashape.reports import vocabularies
from xlashape.reports.cost.kernel_blocks import kernel_blocks
from xlashape.reports.cost.program import ComputationRuns, Execution, Program, program_of
from xlashape.reports.cost.targets import Roof, roof_of
from xlashape.reports.origin import source_of
from xlashape.reports.program import early_notes, loop_notes, program
from xlashape.reports.report import FRAMES, NOTES, STRICT, Computed, Option, Report, Section, by_section
from xlashape.reports.text import cell_text, short_bytes
from xlashape.shape.parts.target import TARGET_NAMES

_KEYS: Final = ("source", "op_name", "opcode", "computation", "layer", "each_layer")

_SPACES: Final = (
    Column("space", ColumnKind.INTEGER, "the memory space as in layouts: 0 is main memory; on TPUs 1 is VMEM; 5 is the host's", rank=1),
    Column("bytes_read", ColumnKind.INTEGER, "bytes read in one run of the program", "bytes", rank=1),
    Column("bytes_written", ColumnKind.INTEGER, "the bytes that are written", "bytes", rank=1),
    Column("padded_bytes", ColumnKind.INTEGER, "bytes read and written, with padding", "bytes", rank=1),
)  # fmt: skip
_FLOPS: Final = Column(
    "flops", ColumnKind.INTEGER, "the FLOPs of these instructions in one run of the program", "flops", rank=1
)
_ADDED: Final = "computing and communication added, as if they did not overlap"
_LEAST_TIME: Final = Column(
    "least_time", ColumnKind.NUMBER, f"the least time that they take on the target, with {_ADDED}", "seconds", rank=2
)
_GROUPS: Final = (
    Column("instructions", ColumnKind.INTEGER, "how many instructions of the program have the key in common", rank=3),
    _FLOPS,
    Column("transcendentals", ColumnKind.INTEGER, "the transcendental functions that these instructions compute", rank=4),
    Column("bytes", ColumnKind.INTEGER, "bytes that they read and write", "bytes", rank=1),
    Column("padded_bytes", ColumnKind.INTEGER, "the bytes that are read and written, with the padding of tiles", "bytes", rank=4),
    Column("main_bytes", ColumnKind.INTEGER, "the part of it in the device's main memory; not set of a program that has no other", "bytes", rank=1, heading="in main memory"),
    _LEAST_TIME,
    Column("bound", ColumnKind.TEXT, "what the most of this time is for", rank=3, choices=vocabularies.BOUNDS),
    Column("share", ColumnKind.NUMBER, "the share of the sum of all least times, or without a target of the bytes of main memory, with padding", "fraction", rank=2),
)  # fmt: skip


def _remark_on_groups(answer: Any) -> str:
    """What must be known of the least times of groups, where the program communicates."""
    return f"least time: of a group with {_ADDED}." if answer.communication_time else ""


REPORT: Final = Report(
    name="cost",
    summary="How much each instruction of a program calculates and moves, and the least time that this takes on a "
        "chip.",
    columns=(
        Column("name", ColumnKind.TEXT, "the name of the instruction", rank=1),
        Column("opcode", ColumnKind.TEXT, "the opcode of the instruction", rank=3),
        Column("computation", ColumnKind.TEXT, "the computation that it is in"),
        Column("times", ColumnKind.INTEGER, "how often it runs in one run of the program; 0 in branches of conditionals that do not count", rank=2),
        Column("is_exact", ColumnKind.BOOLEAN, "whether it is known how often it runs: false in a loop without known trip count and in branches"),
        Column("flops", ColumnKind.INTEGER, "FLOPs of one execution; empty where they are not known, as for custom calls", "flops", rank=1),
        Column("basis", ColumnKind.TEXT, "what the FLOPs are known from", choices=vocabularies.COST_BASES),
        Column("transcendentals", ColumnKind.INTEGER, "transcendental functions of one execution: exp, log, sqrt, tanh, …"),
        Column("bytes", ColumnKind.INTEGER, "bytes that one execution reads and writes", "bytes", rank=1),
        Column("bytes_read", ColumnKind.INTEGER, "bytes that it reads", "bytes"),
        Column("bytes_written", ColumnKind.INTEGER, "bytes that it writes", "bytes"),
        Column("padded_bytes", ColumnKind.INTEGER, "bytes that it reads and writes, with the padding of tiles", "bytes", rank=5),
        Column("main_bytes", ColumnKind.INTEGER, "the part of it in the device's main memory; not set of a program that has no other", "bytes", rank=2, heading="in main memory"),
        Column("spaces", ColumnKind.COUNTS, "memory space → the bytes that one execution reads and writes there, where any is not main memory"),
        Column("grid", ColumnKind.INTEGERS, "how many steps a Pallas kernel takes along each dimension of its grid, the last dimension fastest", rank=2),
        Column("blocks", ColumnKind.TEXTS, "the parts of its operands and results that a Pallas kernel holds in VMEM at a time, then its scratch arrays", rank=3),
        Column("block_bytes", ColumnKind.INTEGER, "the bytes of VMEM that these arrays take, a block twice if the next one is loaded meanwhile; the compiler may need more, for intermediate values", "bytes", rank=2),
        Column("intensity", ColumnKind.NUMBER, "FLOPs for each byte, of main memory where that is set", "flops/byte", rank=4),
        Column("bound", ColumnKind.TEXT, "what limits it on the target", rank=2, choices=vocabularies.BOUNDS),
        Column("least_time", ColumnKind.NUMBER, "the least time of one execution on the target", "seconds", rank=2),
        Column("communication_time", ColumnKind.NUMBER, "of a collective the least time of one execution on the links between devices, without latency", "seconds"),
        Column("share", ColumnKind.NUMBER, "the share of its executions in the sum of all least times, or without a target of the bytes of main memory, with padding", "fraction", rank=3),
        Column("source", ColumnKind.TEXT, "the line of the program that it comes from", rank=2),
        Column("op_name", ColumnKind.TEXT, "the operation of the program that it comes from"),
    ),
    totals=(
        Column("name", ColumnKind.TEXT, "the name of the module", heading="module"),
        Column("flops", ColumnKind.INTEGER, "FLOPs of one run of the program", "flops"),
        Column("transcendentals", ColumnKind.INTEGER, "transcendental functions; of a conditional those of the branch with the most"),
        Column("bytes", ColumnKind.INTEGER, "bytes read and written", "bytes"),
        Column("bytes_read", ColumnKind.INTEGER, "the bytes that are read", "bytes", heading="read"),
        Column("bytes_written", ColumnKind.INTEGER, "the bytes that are written", "bytes", heading="written"),
        Column("padded_bytes", ColumnKind.INTEGER, "bytes read and written, with the padding of tiles", "bytes", heading="with padding"),
        Column("main_bytes", ColumnKind.INTEGER, "the part of it in the device's main memory; not set of a program that has no other", "bytes", heading="in main memory"),
        Column("intensity", ColumnKind.NUMBER, "FLOPs for each byte, of main memory where that is set", "flops/byte"),
        Column("target", ColumnKind.TEXT, "the device that was asked for, whose peaks give the times", choices=TARGET_NAMES),
        Column("least_time", ColumnKind.NUMBER, "the least time of one run: the sum over instructions that run one after the other, in the quickest branch of each conditional", "seconds"),
        Column("communication_time", ColumnKind.NUMBER, "the least time of all collectives of one run on the links between devices, without latency; docs/cost.md has the links", "seconds", heading="communication"),
        Column("is_exact", ColumnKind.BOOLEAN, "whether the sums are exact: no loop of unknown length, no branches, nothing unknown", heading="exact"),
        Column("unknown_loops", ColumnKind.INTEGER, "loops whose number of iterations is not known; they count one iteration"),
        Column("conditionals", ColumnKind.INTEGER, "conditionals; in FLOPs, bytes and rows the branch with the most FLOPs counts, of equal FLOPs the one that moves the most bytes"),
        Column("unknown_instructions", ColumnKind.INTEGER, "instructions, such as custom calls, of which the FLOPs are not known and count 0"),
        NOTES,
    ),
    sections=(
        Section("spaces", _SPACES, "the bytes of each memory space"),
        by_section("instructions", _GROUPS, _KEYS, _remark_on_groups),
    ),
    options=(
        Option("as_xla", ColumnKind.BOOLEAN, "count FLOPs and bytes as XLA's HloCostAnalysis does: loops once, and its other peculiarities", False),
        Option("target", ColumnKind.TEXT, "the chip whose peaks give the least times", None, TARGET_NAMES),
        Option("peak", ColumnKind.NUMBER, "FLOP/s of the device, instead of those of a target", None, unit="flops/s"),
        Option("bandwidth", ColumnKind.NUMBER, "bytes/s of the device's memory, instead of those of a target", None, unit="bytes/s"),
        FRAMES,
        STRICT,
    ),
    compute="xlashape.reports.cost.report:cost",
)  # fmt: skip


class InstructionCost(NamedTuple):
    """An instruction and the cost of one execution of it. In a run of the program, it is executed `times` times. The
    columns of `REPORT` say what the fields are.
    """

    name: str
    opcode: str
    computation: str
    times: int
    is_exact: bool
    flops: int | None
    basis: str
    transcendentals: int
    bytes: int
    bytes_read: int | None
    bytes_written: int | None
    padded_bytes: int | None
    main_bytes: int | None
    spaces: dict[int, int]
    grid: tuple[int, ...]
    blocks: tuple[str, ...]
    block_bytes: int | None
    intensity: float | None
    bound: str | None
    least_time: float | None
    communication_time: float | None
    share: float | None
    source: str
    op_name: str


class SpaceCost(NamedTuple):
    """The bytes that a run of the program reads from and writes to one memory space."""

    space: int
    bytes_read: int
    bytes_written: int
    padded_bytes: int


class Cost(Computed[InstructionCost], Frozen):
    """How much a program calculates and moves.

    `rows` has the instructions that calculate or move anything, and custom calls. Those come first whose executions
    take the most time at least or, where no times are known, move the most bytes.
    """

    __slots__ = ("_is_split", "_notes", "as_xla", "module", "program", "roof", "rows")

    report: ClassVar[Report] = REPORT
    module: HloModule
    program: Program
    roof: Roof
    as_xla: bool
    rows: tuple[InstructionCost, ...]

    def __init__(self, module: HloModule, roof: Roof, *, as_xla: bool = False) -> None:
        program = program_of(module, roof, as_xla=as_xla)
        set_field(self, "module", module)
        set_field(self, "program", program)
        set_field(self, "roof", roof)
        set_field(self, "as_xla", as_xla)
        kinds = {id(once): once for run in program.runs for once in run.once}.values()
        is_split = not as_xla and any(each.space for once in kinds for each in once.traffic.spaces)
        set_field(self, "_is_split", is_split)
        groups: list[tuple[float, tuple[Any, ...], list[HloInstruction]]] = []
        for run in program.runs:
            listed: dict[int, list[HloInstruction]] = {}
            for instruction, once in zip(run.computation.instructions, run.once, strict=True):
                if once.is_listed:
                    alike = listed.get(id(once))
                    if alike is None:
                        alike = listed[id(once)] = []
                        weight = once.weight * run.times
                        share = weight / program.weight if once.has_share and program.weight else None
                        groups.append((weight, _values(instruction, run, once, share, as_xla, is_split), alike))
                    alike.append(instruction)
        groups.sort(key=itemgetter(0), reverse=True)
        make = InstructionCost._make
        rows = [make((each.name, *values, *source_of(each))) for _, values, alike in groups for each in alike]
        set_field(self, "rows", tuple(rows))

    @property
    def name(self) -> str:
        """The name of the module."""
        return self.module.name

    @property
    def flops(self) -> int:
        """FLOPs of one run of the program; what is not known counts 0."""
        return checked_int64(self.program.sums.flops, "the number of FLOPs")

    @property
    def transcendentals(self) -> int:
        """Transcendental functions of one run; of a conditional those of the branch with the most."""
        return checked_int64(self.program.sums.transcendentals, "the number of transcendentals")

    @property
    def bytes(self) -> int:
        """Bytes that one run reads and writes; with `as_xla` XLA's "bytes accessed"."""
        sums = self.program.sums
        return checked_int64(
            sums.xla_bytes if self.as_xla else sums.bytes_read + sums.bytes_written, "the number of bytes"
        )

    @property
    def bytes_read(self) -> int | None:
        """Bytes that one run reads. None with `as_xla`, since XLA counts bytes read and written together."""
        return None if self.as_xla else checked_int64(self.program.sums.bytes_read, "the number of bytes")

    @property
    def bytes_written(self) -> int | None:
        """Bytes that one run writes. None with `as_xla`."""
        return None if self.as_xla else checked_int64(self.program.sums.bytes_written, "the number of bytes")

    @property
    def padded_bytes(self) -> int | None:
        """Bytes that one run reads and writes, with padding. None with `as_xla`."""
        return None if self.as_xla else checked_int64(self.program.sums.padded_bytes, "the number of bytes")

    @property
    def main_bytes(self) -> int | None:
        """The part of `padded_bytes` in the device's main memory; None where nothing is in another memory space."""
        main = [each.padded_bytes for each in self.spaces if not each.space] if self._is_split else None
        return None if main is None else checked_int64(sum(main), "the number of bytes")

    @property
    def intensity(self) -> float | None:
        """FLOPs for each byte, of main memory where `main_bytes` is set; None where nothing is moved."""
        moved = self.bytes if self.main_bytes is None else self.main_bytes
        return self.flops / moved if moved > 0 else None

    @property
    def target(self) -> str | None:
        """The name of the target; None where none was given."""
        return self.roof.target.name if self.roof.target is not None else None

    @property
    def least_time(self) -> float | None:
        """Seconds that one run takes at least, if its instructions run one after the other and nothing stays in caches;
        of a conditional the quickest branch counts. Asynchronous operations run beside other instructions, but no run
        is shorter than `communication_time`, nor than all bytes take in main memory. None with `as_xla`, where no peak
        and bandwidth are given, and where FLOPs are not known, but for kernels whose bytes are known: these count
        alone.
        """
        sums = self.program.sums
        if self.as_xla or not self.roof.is_known or not sums.is_timed:
            return None
        main = self.padded_bytes if self.main_bytes is None else self.main_bytes
        moving = (main or 0) / (self.roof.bandwidth or 1.0) if not self.conditionals else 0.0
        return max(sums.seconds, sums.link_seconds, moving)

    @property
    def communication_time(self) -> float | None:
        """Seconds that all collectives of one run take at least on the links between devices, wherever these are.
        Latency, and collectives of which that is not known, count 0. None where the links are not known.
        """
        is_known = self.roof.is_known and self.roof.links is not None and not self.as_xla
        return self.program.sums.link_seconds if is_known else None

    @property
    def is_exact(self) -> bool:
        """Whether no loop is of unknown length, no branch is chosen when the program runs, and all FLOPs are known."""
        program = self.program
        return not (program.unknown_loops or program.conditionals or program.unknown_instructions)

    @property
    def unknown_loops(self) -> int:
        """Executed loops whose number of iterations is not known: they count one iteration."""
        return len(self.program.unknown_loops)

    @property
    def conditionals(self) -> int:
        """Executed conditionals: in FLOPs, bytes and rows the branch with the most FLOPs counts."""
        return self.program.conditionals

    @property
    def unknown_instructions(self) -> int:
        """Executed instructions whose FLOPs are not known: they count 0."""
        return self.program.unknown_instructions

    @property
    def stated_instructions(self) -> int:
        """Executed instructions whose FLOPs are what their kernels state."""
        return self.program.stated_instructions

    @property
    def spaces(self) -> tuple[SpaceCost, ...]:
        """The bytes read and written in each memory space; empty with `as_xla`."""
        sums: dict[int, list[int]] = {}
        for run in self.program.runs:
            for each in [space for once in run.once for space in once.traffic.spaces]:
                found = sums.setdefault(each.space, [0, 0, 0])
                for number, value in enumerate(each[1:]):
                    found[number] += run.times * value
        return tuple([SpaceCost(space, *sums[space]) for space in sorted(sums)])

    def sums_of(self, rows: Sequence[InstructionCost]) -> dict[str, Any]:
        """The sums over all executions of these instructions in a run of the program.

        >>> c = cost("HloModule m ENTRY e { p = f32[8] parameter(0) n = f32[8] negate(p) ROOT a = f32[8] add(n, n) }")
        >>> [(group.group, group.flops) for group in c.by("opcode")]
        [('add', 8), ('negate', 8)]
        """
        times = [row.least_time * row.times for row in rows if row.least_time is not None]
        shares = [row.share for row in rows if row.share is not None]
        bounds: dict[str, float] = {}
        for row in rows:
            if row.bound is not None and row.least_time is not None:
                bounds[row.bound] = bounds.get(row.bound, 0) + row.least_time * row.times
        return {
            "instructions": len(rows),
            "flops": checked_int64(sum([(row.flops or 0) * row.times for row in rows]), "the number of FLOPs"),
            "transcendentals": checked_int64(
                sum([row.transcendentals * row.times for row in rows]), "the number of transcendentals"
            ),
            "bytes": checked_int64(sum([row.bytes * row.times for row in rows]), "the number of bytes"),
            "padded_bytes": checked_int64(
                sum([(row.padded_bytes or 0) * row.times for row in rows]), "the number of bytes"
            ),
            "main_bytes": checked_int64(sum([(row.main_bytes or 0) * row.times for row in rows]), "the number of bytes")
            if self._is_split
            else None,
            "least_time": sum(times) if len(times) == len(rows) else None,
            "bound": max(bounds, key=lambda each: bounds[each]) if bounds else None,
            "share": sum(shares) if shares else None,
        }

    def headline(self) -> str:
        least, moved, main = self.least_time, byte_text(self.bytes), self.main_bytes
        if least is not None:
            first = f"at least {cell_text(_LEAST_TIME, least)} a run on {self.target or 'the device'}"
        else:
            first = f"{moved} read and written in a run"
        if self.communication_time:
            first += f"; at least {cell_text(_LEAST_TIME, self.communication_time)} of communication"
        lines = [f"{self.name}: {first}"]
        if self.flops or self.transcendentals:
            where = "" if main is None else " of main memory"
            rate = f", {self.intensity:.4g} for each byte{where}" if self.intensity else ""
            functions = f"; {self.transcendentals:,} transcendental functions" if self.transcendentals else ""
            lines.append(f"{cell_text(_FLOPS, self.flops)} FLOPs{rate}{functions}")
        if self.bytes_read is not None and self.bytes_written is not None and self.bytes:
            parts = [f"{short_bytes(self.bytes_read)} read", f"{short_bytes(self.bytes_written)} written"]
            padded = self.padded_bytes or self.bytes
            parts += [f"{short_bytes(padded)} with padding"] if padded != self.bytes else []
            parts += [f"{short_bytes(main)} of it in main memory"] if main is not None else []
            lines.append(", ".join(parts))
        if self.program.weight:
            is_timed = self.roof.bandwidth is not None and not self.as_xla
            moved = "the bytes read and written" if main is None else "the bytes read and written in main memory"
            apart = f"all least times, {cell_text(_LEAST_TIME, self.program.weight)} if nothing overlaps"
            lines.append(f"share: of {apart if is_timed else moved}")
        notes = [*self.roof.notes]
        if self.conditionals:
            quickest = "" if least is None else ", in the least time the quickest"
            notes.append(
                f"Of {counted(self.conditionals, 'conditional')} the branch with the most FLOPs counts{quickest}."
            )
        if self.unknown_instructions:
            missing = ""
            if self.roof.is_known and not self.as_xla:
                missing = ", and there is no least time" if least is None else ", also in the least time"
            unknown = counted(self.unknown_instructions, "instruction")
            notes.append(f"The FLOPs of {unknown} are not known; they count 0{missing}.")
        if self.stated_instructions and not self.as_xla:
            notes.append(
                f"The FLOPs of {counted(self.stated_instructions, 'instruction')} are stated: by a kernel, its configuration or a model."
            )
        kernels = [kernel_blocks(each) for run in self.program.runs for each in run.computation.instructions]
        unknown = sum([kernel is not None and not kernel.is_known for kernel in kernels])
        if unknown and not self.as_xla:
            notes.append(
                f"What {counted(unknown, 'kernel')} of Pallas copies is known in part only. Unless the kernel states its bytes, a block "
                "whose index depends on data counts as if it stayed, and an array that the kernel copies itself counts once."
            )
        return "\n".join([*lines, *notes])


def cost(
    x: Any,
    *args: Any,
    as_xla: bool = False,
    target: str | None = None,
    peak: float | None = None,
    bandwidth: float | None = None,
    frames: str | None = None,
    strict: bool = False,
    **kwargs: Any,
) -> Cost:
    """FLOPs, transcendentals and bytes of a program and of each of its instructions.

    x: whatever `HloModule.of` takes; a jitted function is lowered with the arguments that follow. as_xla: count as
    XLA's HloCostAnalysis does; docs/cost.md lists the differences.
    target: the name of a device, whose peaks give least times where they are known; peak and bandwidth, in FLOP/s and
    bytes/s, replace those of the target. frames: with "all", `source` names every frame that called an operation, and
    not the line of the user's own code alone. strict: refuse text that is no module as it stands
    (`xlashape.hlo.files.forgiving`).

    Raises what `HloModule.of` raises, InvalidArgumentError for an unknown target, for a peak or bandwidth
    that is not positive and finite or, without a target, if one of the two is given alone.

    >>> text = '''HloModule m
    ... ENTRY e { a = f32[4,6] parameter(0) b = f32[6,5] parameter(1)
    ...   ROOT d = f32[4,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }'''
    >>> c = cost(text, target="h100")
    >>> c.flops, c.bytes, c.rows[0].name, c.rows[0].bound
    (240, 296, 'd', 'memory')
    """
    roof = roof_of(target, peak, bandwidth)
    if target is None and (peak is None) != (bandwidth is None):
        given = "bandwidth" if peak is None else "peak"
        raise InvalidArgumentError(f"{given} is given alone: pass peak and bandwidth, or a target", field=given)
    with showing_frames(frames):
        module = program(x, args, kwargs, strict=strict)
        made = Cost(module, roof, as_xla=as_xla)
        loops = loop_notes(made.program.unknown_loops)
        return made.with_notes((*roof.notes, *module.notes, *early_notes(module), *loops))


def _values(
    instruction: HloInstruction,
    run: ComputationRuns,
    once: Execution,
    share: float | None,
    as_xla: bool,
    is_split: bool,
) -> tuple[Any, ...]:
    """The values of a row of an instruction, but for the first and the last two."""
    arithmetic, traffic = once.arithmetic, once.traffic
    moved = once.xla_bytes if as_xla else traffic.bytes_read + traffic.bytes_written
    flops = arithmetic.flops if arithmetic.is_complete else None
    bound = None
    if once.seconds and once.compute_seconds is not None:
        bound = "compute" if once.compute_seconds >= once.seconds else "memory"
    if once.is_collective:
        bound = "communication"
    held = kernel_blocks(instruction)
    return (
        str(instruction.opcode),
        instruction.computation.name,
        checked_int64(run.times, f"how often {instruction.name!r} runs"),
        run.is_exact,
        None if flops is None else checked_int64(flops, f"the number of FLOPs of {instruction.name!r}"),
        "unknown" if flops is None else "stated" if arithmetic.is_stated else "counted",
        checked_int64(arithmetic.transcendentals, f"the number of transcendentals of {instruction.name!r}"),
        checked_int64(moved, f"the number of bytes of {instruction.name!r}"),
        None if as_xla else traffic.bytes_read,
        None if as_xla else traffic.bytes_written,
        None if as_xla else traffic.padded_bytes,
        traffic.main_bytes if is_split else None,
        {space.space: space.bytes for space in traffic.spaces} if any(space.space for space in traffic.spaces) else {},
        () if held is None else held.grid,
        () if held is None else tuple(map(str, (*held.blocks, *held.scratch))),
        None if held is None else held.size or None,
        flops / counts if flops is not None and (counts := traffic.main_bytes if is_split else moved) > 0 else None,
        bound,
        once.seconds,
        once.link_seconds,
        share,
    )
