"""Operations of a profile joined with the instructions of modules: by program id where both have one, else by the
module's name.

A module that is joined by name must be the only one of that name, or the only one that has all the instructions of the
operations. An operation without a module keeps the facts that the profile has. Nothing is guessed: operations that are
not joined are counted and reported.

A kernel that runs several instructions is shared out by their bytes with padding, where all are known, and in equal
parts otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from xlashape.errors import XlashapeError
from xlashape.hlo import HloInstruction, HloModule, Opcode
from xlashape.hlo.collectives import device_grid, find_collectives, groups_of
from xlashape.hlo.ops.operation import Movement, ReadPattern, ResultSource
from xlashape.hlo.ops.registry import operation_of
from xlashape.reports.cost.links import link_seconds
from xlashape.reports.cost.program import ComputationRuns, Execution, program_of
from xlashape.reports.cost.targets import Roof
from xlashape.reports.origin import source_of
from xlashape.reports.profile.events import EventTimes, ProfiledOperation, Tally
from xlashape.reports.profile.xplane import HeldProgram
from xlashape.reports.reads.find_reads import wasted_by

_PLANE = re.compile(r"/host:(CPU)|/device:([A-Z]+)")
_COPIES = (Movement.COPY, Movement.TRANSFER, Movement.TRANSPOSE)


class Static(NamedTuple):
    """What one execution of an instruction costs; None where that is not known."""

    flops: int | None
    bytes: int | None
    """The bytes of the elements that are read and written."""
    padded_bytes: int | None
    """These bytes with the padding of tiles."""
    main_bytes: int | None
    """The part of `padded_bytes` that is in main memory."""
    compute_seconds: float | None
    """The least time of the arithmetic on the device."""
    wasted_bytes: int | None = None
    """The bytes that are moved beside the elements: padding, and bytes that reads fetch in vain."""
    sent_bytes: int | None = None
    """The bytes that the busiest device sends in a collective; None for the end of one and for other instructions."""
    link_seconds: float | None = None
    """The least time of a collective on the links between devices."""
    is_collective: bool = False
    """Whether it is a collective, or the begin or end of one."""


_NOTHING: Final = Static(None, None, None, None, None)


@dataclass(frozen=True, slots=True)
class Joined:
    """An instruction of a profile: its times in picoseconds, and what is known of it."""

    name: str
    module: str
    program_id: int | None
    instruction: HloInstruction | None
    """The instruction of the module; None where the module is not known or does not have it."""
    operation: ProfiledOperation
    """What the profile itself says of the instruction."""
    static: Static
    count: int
    """How many events the instruction has."""
    executions: int
    """How often it ran; its events where that is not known."""
    total: float
    own: float
    shortest: float
    longest: float
    is_copy: bool
    runs: int = 0
    """How often the program of the instruction ran, runs on several devices at once counted once; 0 where the profile
    has none.
    """

    @property
    def opcode(self) -> str:
        """The opcode of the instruction, or where the module does not tell the one that the profile names."""
        return str(self.instruction.opcode) if self.instruction is not None else self.operation.opcode

    @property
    def source(self) -> str:
        """The line of the user's program; empty where it is not known."""
        return (source_of(self.instruction)[0] if self.instruction is not None else "") or self.operation.source

    @property
    def op_name(self) -> str:
        """The operation of the user's program; empty where it is not known."""
        return (source_of(self.instruction)[1] if self.instruction is not None else "") or self.operation.op_name


class Join(NamedTuple):
    """All instructions of a profile, and what could not be joined."""

    rows: tuple[Joined, ...]
    shared: int
    """How many kernels ran several instructions."""
    without_module: tuple[str, ...]
    """Programs whose module is not known, or is one of several of its name."""
    without_instruction: tuple[str, ...]
    """Names of instructions that their module does not have."""
    same_names: tuple[str, ...]
    """Names that modules of several programs have."""


class ProfileModules:
    """The modules that belong to a profile: those in it, read when they are needed, and those that are given beside."""

    def __init__(self, held: Sequence[HeldProgram], given: Iterable[HloModule], roof: Roof) -> None:
        self._held = held
        self._given = tuple(given)
        self._roof = roof
        self._read: dict[int, HloModule | None] = {}
        self._costs: dict[HloModule, Costs] = {}
        self.broken: list[str] = []
        """The modules in the profile that cannot be read, each with the error."""

    def of(self, name: str, program_id: int | None, operations: Sequence[str]) -> HloModule | None:
        """The module of a program with instructions of the names `operations`; None where no module fits, or several
        do."""
        if program_id is not None:
            same = [index for index, each in enumerate(self._held) if each.program_id == program_id]
            same = [index for index in same if not name or self._held[index].name in ("", name)] or same
            if len(same) > 1:
                same = [index for index in same if (one := self._module(index)) and _has_all(one, operations)]
            if len(same) == 1:
                return self._module(same[0])
        fitting = [each for each in self._given if not name or each.name == name]
        if program_id is None or not self._held:
            inside = [index for index, each in enumerate(self._held) if not name or each.name == name]
            fitting += [module for index in inside if (module := self._module(index)) is not None]
        if len(fitting) > 1 or not name:
            fitting = [each for each in fitting if _has_all(each, operations)]
        return fitting[0] if len(fitting) == 1 else None

    def _module(self, index: int) -> HloModule | None:
        if index not in self._read:
            program = self._held[index]
            try:
                self._read[index] = HloModule.from_bytes(program.content())
            except XlashapeError as error:
                self._read[index] = None
                self.broken.append(f"{program.name}({program.program_id}): {error}")
        return self._read[index]

    def costs(self, module: HloModule) -> Costs:
        """The costs of a module's instructions."""
        if module not in self._costs:
            self._costs[module] = Costs(module, self._roof)
        return self._costs[module]


class Costs:
    """The cost of each instruction of a module, by name."""

    def __init__(self, module: HloModule, roof: Roof) -> None:
        self.module = module
        self.names: dict[str, HloInstruction] = {}
        for instruction in module.instructions():
            # Names are unique in modules; where they are not, an instruction of the entry computation counts.
            if instruction.name not in self.names or instruction.computation is module.entry:
                self.names[instruction.name] = instruction
        self.error: XlashapeError | None = None
        """Why costs are not known; None where they are."""
        self._executed: dict[HloInstruction, tuple[ComputationRuns, Execution]] = {}
        self._called: dict[HloInstruction, Static] = {}
        self._wasted: dict[HloInstruction, int] = {}
        self._measured: set[str] = set()
        self._sent: dict[HloInstruction, tuple[int | None, float | None]] = {}
        """Begin or end of a collective → the bytes that a device sends, and the least time on the links."""
        try:
            program = program_of(module, roof, as_xla=False)
        except XlashapeError as error:
            self.error = error
            return
        for run in program.runs:
            for instruction, once in zip(run.computation.instructions, run.once, strict=True):
                self._executed[instruction] = run, once
        for instruction, sums in program.called.items():
            moved = sums.bytes_read + sums.bytes_written
            padding = max(0, sums.padded_bytes - moved)
            flops = sums.flops if sums.is_complete else None
            self._called[instruction] = Static(flops, moved, sums.padded_bytes, sums.padded_bytes, None, padding)
        found = find_collectives(module)
        grid = device_grid(module, found)
        for each in found:
            groups = groups_of(each, grid)
            seconds = None if roof.links is None else link_seconds(each, groups, roof.links)
            for begin in (each.instruction, each.begin):
                self._sent[begin] = groups.moved(each).sent, seconds
            if each.end is not None:
                self._sent[each.end] = None, None

    def measure(self, timed: set[str], target: str | None) -> None:
        """Finds how many bytes the reads of instructions with these names waste on a device: `cpu`, `gpu` or `tpu`."""
        chosen = [self.names[name] for name in sorted(timed) if name in self.names and name not in self._measured]
        self._measured |= timed
        self._wasted |= wasted_by(self.module, chosen, target)

    def times_of(self, instruction: HloInstruction) -> int | None:
        """How often an instruction runs in one run of its program; None where that is not known."""
        run = self._executed[instruction][0] if instruction in self._executed else None
        return run.times if run is not None and run.is_exact else None

    def of(self, instruction: HloInstruction, timed: set[str]) -> Static | None:
        """The cost of one execution; None where it is not known. For a loop or a call, it is the sum over the
        instructions that it runs, unless these have times too: then the loop or call has no cost of its own. `timed`
        has the names of the instructions with times.
        """
        static = self._of(instruction, timed)
        if instruction not in self._sent:
            return static
        sent, seconds = self._sent[instruction]
        return (static or _NOTHING)._replace(sent_bytes=sent, link_seconds=seconds, is_collective=True)

    def _of(self, instruction: HloInstruction, timed: set[str]) -> Static | None:
        if instruction in self._called:
            inner = [each.name in timed for called in instruction.called_computations for each in called.instructions]
            return _NOTHING if any(inner) else self._called[instruction]
        if instruction not in self._executed:
            return None
        once = self._executed[instruction][1]
        traffic = once.traffic
        moved = traffic.bytes_read + traffic.bytes_written
        return Static(
            once.arithmetic.flops if once.arithmetic.is_complete else None,
            moved,
            traffic.padded_bytes,
            traffic.main_bytes,
            once.compute_seconds,
            max(0, traffic.padded_bytes - moved) + self._wasted.get(instruction, 0),
        )


def _has_all(module: HloModule, operations: Sequence[str]) -> bool:
    names = {instruction.name for instruction in module.instructions()}
    return all(name in names for name in operations)


def join(tally: Tally, modules: ProfileModules) -> Join:
    """Joins the operations of a tally with the instructions of their modules."""
    programs: dict[tuple[str, int | None], list[ProfiledOperation]] = {}
    for operation in tally.operations:
        programs.setdefault((operation.module, operation.program_id), []).append(operation)
    rows: list[Joined] = []
    target = device_kind(tally)
    unknown: list[str] = []
    missing: list[str] = []
    shared = 0
    for (name, program_id), operations in programs.items():
        timed = {each for operation in operations for each in operation.names}
        module = modules.of(name, program_id, sorted(timed))
        shown = module.name if module is not None and not name else name
        if module is None:
            unknown.append(f"{name or '?'}({program_id})" if program_id is not None else name or "?")
        costs = None if module is None else modules.costs(module)
        if costs is not None:
            costs.measure(timed, target)
        executions = tally.runs.get((name, program_id), ())
        runs = len({run for _, run in executions})
        sums: dict[str, list[float]] = {}
        firsts: dict[str, ProfiledOperation] = {}
        for operation in operations:
            times = tally.operations[operation]
            shared += times.count if len(operation.names) > 1 else 0
            for each, part in _parts(operation, costs, timed):
                firsts.setdefault(each, operation)
                _add(sums, each, times, part)
        for each, (count, total, own, shortest, longest) in sums.items():
            instruction = None if costs is None else costs.names.get(each)
            if costs is not None and instruction is None:
                missing.append(each)
            operation = firsts[each]
            static = Static(operation.flops, operation.bytes, None, operation.bytes, None)
            if costs is not None and instruction is not None:
                found = costs.of(instruction, timed)
                static = static if found is None else found
            # An execution may have several events: kernels of one instruction, threads of a CPU.
            times_of_run = None if costs is None or instruction is None else costs.times_of(instruction)
            ran = len(executions) * times_of_run if executions and times_of_run else int(count)
            rows.append(
                Joined(
                    each, shown, program_id, instruction, operation, static, int(count), ran, total, own, shortest,
                    longest, _is_copy(instruction, operation), runs,
                )
            )  # fmt: skip
    ids: dict[str, set[int | None]] = {}
    for name, program_id in programs:
        ids.setdefault(name, set()).add(program_id)
    same = tuple([name for name, found in ids.items() if len(found) > 1])
    return Join(tuple(rows), shared, tuple(unknown), tuple(missing), same)


def device_kind(tally: Tally) -> str | None:
    """The kind of the devices that have times: `cpu`, `gpu` or `tpu`; None where they are of several kinds."""
    found = [_PLANE.match(plane) for plane in tally.planes]
    kinds = {(each[1] or each[2]).lower() if each is not None else None for each in found}
    kind = kinds.pop() if len(kinds) == 1 else None
    return kind if kind in ("cpu", "gpu", "tpu") else None


def _parts(operation: ProfiledOperation, costs: Costs | None, timed: set[str]) -> list[tuple[str, float]]:
    """The share of a kernel's time that each of its instructions gets."""
    names = operation.names
    if len(names) == 1:
        return [(names[0], 1.0)]
    weights: list[int] = []
    for name in names:
        instruction = None if costs is None else costs.names.get(name)
        static = costs.of(instruction, timed) if costs is not None and instruction is not None else None
        weights.append((static.padded_bytes or 0) if static is not None else 0)
    if not all(weights):
        weights = [1] * len(names)
    return [(name, weight / sum(weights)) for name, weight in zip(names, weights, strict=True)]


def _add(sums: dict[str, list[float]], name: str, times: EventTimes, part: float) -> None:
    """Adds a part of an operation's times to the sums of an instruction: count, total, own, shortest, longest."""
    shortest, longest = times.shortest * part, times.longest * part
    found = sums.get(name)
    if found is None:
        sums[name] = [times.count, times.total * part, times.own * part, shortest, longest]
        return
    found[0] += times.count
    found[1] += times.total * part
    found[2] += times.own * part
    found[3] = min(found[3], shortest)
    found[4] = max(found[4], longest)


def _is_copy(instruction: HloInstruction | None, operation: ProfiledOperation) -> bool:
    """Whether an instruction moves data only: a copy, a transpose, or a fusion of nothing but these, bitcasts,
    reshapes and reverses. Without a module, its name and the profile's opcode decide."""
    if instruction is None:
        return operation.names[0].startswith(("copy", "transpose")) or operation.opcode in ("copy", "data formatting")
    row = operation_of(instruction.opcode)
    if row.movement in _COPIES or row.opcode == Opcode.COPY_DONE:
        return True
    if not row.fuses_called_computation or not instruction.called_computations:
        return False
    fused = [operation_of(each.opcode) for each in instruction.called_computations[0].instructions]
    return all(each.reads is ReadPattern.EACH_ONCE or each.source is ResultSource.ARGUMENT for each in fused)
