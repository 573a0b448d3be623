"""What a program calculates and moves: each executed instruction with how often it runs, and the sums over the program.

Instructions of the entry computation and of what it executes instruction by instruction (loops, branches, calls,
asynchronous computations) are executed. What a fusion or a reducer holds is counted with the instruction that applies
it.

- A loop runs as often as XLA states (`known_trip_count`) or as its counter says. Where neither is known, body and
  condition count once, and `is_exact` is false.
- Of a conditional's branches, one runs. The one with the most FLOPs counts, of equal FLOPs the one that moves the most
  bytes: instructions of the others run 0 times. `is_exact` is false. Two sums take another branch. The sum of
  transcendentals takes the branch with the most of them, as XLA does; the least time takes the quickest, so that no run
  is quicker.
- With `as_xla` every loop counts one iteration. Each sum takes the branch of which it is largest, as in XLA's
  HloCostAnalysis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from functools import reduce
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from xlashape.errors import InvalidModuleError, SizeOverflowError
from xlashape.hlo import HloComputation, HloInstruction, HloModule, Opcode
from xlashape.hlo.collectives import Collective, DeviceGrid, device_grid, find_collectives, groups_of
from xlashape.hlo.ops.calls import Arguments
from xlashape.hlo.ops.operation import Operation, ResultSource
from xlashape.indexing.walk.repeated.trip_count import trip_count
from xlashape.limits import spend
from xlashape.reports.cost.arithmetic import NOTHING, Arithmetic, arithmetic_of, elements
from xlashape.reports.cost.custom_calls import custom_call
from xlashape.reports.cost.kernel_blocks import kernel_blocks
from xlashape.reports.cost.links import link_seconds
from xlashape.reports.cost.targets import Roof
from xlashape.reports.cost.traffic import NO_TRAFFIC, Traffic, traffic_of
from xlashape.reports.cost.xla_traffic import xla_bytes
from xlashape.shape import PrimitiveType

_R = TypeVar("_R")

_MAX_BITS: Final = 128
_KIND: Final = attrgetter("kind")


class Sums(NamedTuple):
    """The sums over the instructions of a computation and of what it executes, loops included."""

    flops: int = 0
    transcendentals: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    padded_bytes: int = 0
    xla_bytes: int = 0
    seconds: float = 0.0
    """The sum of the least times of instructions that run one after the other, in the quickest branches."""
    link_seconds: float = 0.0
    """The sum of the least times of collectives on the links between devices, in the branches with the least of it."""
    is_complete: bool = True
    """Whether all FLOPs are known. What is not known counts 0, also in the seconds."""
    is_timed: bool = True
    """Whether all instructions count in the seconds."""

    def plus(self, other: Sums, count: int = 1) -> Sums:
        """The sum of this and `count` times the other."""
        sums = [mine + count * its for mine, its in zip(self[:6], other[:6], strict=True)]
        is_complete = self.is_complete and (other.is_complete or not count)
        is_timed = self.is_timed and (other.is_timed or not count)
        seconds, links = self.seconds + count * other.seconds, self.link_seconds + count * other.link_seconds
        return Sums(*sums, seconds=seconds, link_seconds=links, is_complete=is_complete, is_timed=is_timed)

    def either(self, other: Sums) -> Sums:
        """The larger one of each number of both, but for the seconds, which are 0."""
        numbers = [max(mine, its) for mine, its in zip(self[:6], other[:6], strict=True)]
        is_complete, is_timed = self.is_complete and other.is_complete, self.is_timed and other.is_timed
        return Sums(*numbers, is_complete=is_complete, is_timed=is_timed)


class Execution(NamedTuple):
    """What one execution of an instruction costs, without what it executes itself. Equal instructions share it."""

    arithmetic: Arithmetic
    traffic: Traffic
    xla_bytes: int
    seconds: float | None
    """The least time: that of the arithmetic, of the bytes or of a collective on the links between devices, whichever
    is longest. None without a peak and a bandwidth, and where the FLOPs are not known: of a Pallas kernel whose bytes
    are known it is the time of these.
    """
    compute_seconds: float | None
    """The least time of the arithmetic alone."""
    link_seconds: float | None
    """The least time of a collective on the links. None where that is not known, and for other instructions."""
    is_collective: bool
    """Whether it sends to other devices or receives from them."""
    is_beside: bool
    """Whether it runs beside the instructions after it, until their `-done`: no sum of times includes its time."""
    weight: float
    """What makes it costly: the least time, or that of the bytes alone where the FLOPs are not known; without a peak
    and a bandwidth the bytes."""
    has_share: bool
    """Whether the weight is all of its cost: false where it is a time and the FLOPs are not known."""
    is_listed: bool
    """Whether it calculates or moves anything, or may do so, as a custom call may."""

    @property
    def sums(self) -> Sums:
        """The cost of an execution as sums."""
        arithmetic, traffic = self.arithmetic, self.traffic
        return Sums(
            arithmetic.flops,
            arithmetic.transcendentals,
            traffic.bytes_read,
            traffic.bytes_written,
            traffic.padded_bytes,
            self.xla_bytes,
            0.0 if self.is_beside else self.seconds or 0.0,
            self.link_seconds or 0.0,
            arithmetic.is_complete,
            self.has_share,
        )


class ComputationRuns(NamedTuple):
    """An executed computation."""

    computation: HloComputation
    times: int
    is_exact: bool
    """Whether `times` is known."""
    once: list[Execution]
    """What one execution of each of its instructions costs."""


class Program(NamedTuple):
    """The cost of a module."""

    runs: tuple[ComputationRuns, ...]
    sums: Sums
    unknown_loops: tuple[HloInstruction, ...]
    """The executed loops whose number of iterations is not known."""
    conditionals: int
    unknown_instructions: int
    """How many executed instructions there are whose FLOPs are not known."""
    stated_instructions: int
    """How many there are whose FLOPs their kernels state."""
    weight: float
    """The sum of the weights of all executions that have a share."""
    called: dict[HloInstruction, Sums]
    """For each executed loop, conditional and call, what one execution of it costs with all that it executes."""


class ClassCosts(NamedTuple):
    """What each instruction costs by itself, those in fusions included."""

    times: dict[HloComputation, int]
    """Computation that is executed or fused → how often it runs in one run of the program."""
    classes: dict[HloComputation, list[int]]
    """Computation that the entry reaches → a number for each instruction, its class. Instructions of a class are of one
    kind, have operands of the same shapes, and cost the same.
    """
    flops: dict[HloComputation, dict[int, int | None]]
    """Computation that is executed or fused → for each class the FLOPs of such an instruction in one run of the
    program; None where they are not known. A fusion, a call, a loop and a conditional have 0: the instructions in the
    called computation have the FLOPs.
    """
    traffic: dict[int, Traffic]
    """Class of executed instructions → what one execution of such an instruction reads and writes."""

    def flops_of(self, instruction: HloInstruction) -> int | None:
        """As `flops`; 0 for an instruction that does not run."""
        computation = instruction.computation
        known = self.flops.get(computation)
        return 0 if known is None else known[self.classes[computation][instruction.index]]


def costs_of(module: HloModule) -> ClassCosts:
    """What each instruction of a module costs. The sums are those of `program_of`, those of FLOPs where these are
    exact. Raises InvalidModuleError as `program_of` does.

    >>> text = "HloModule m ENTRY e { p = f32[8] parameter(0) n = f32[8] negate(p) ROOT a = f32[8] add(n, n) }"
    >>> found = costs_of(HloModule.parse(text))
    >>> list(found.flops.values()), [each[:2] for each in found.traffic.values()]
    ([{0: 0, 1: 8, 2: 8}], [(0, 0), (32, 32), (32, 32)])
    """
    return _Walk(module, Roof(None, None, None), as_xla=False).costs()


class Runs(NamedTuple):
    """How often computations run in one run of a program."""

    times: dict[HloComputation, int]
    """Computation that is executed or fused → how often it runs. Loops of unknown length count once, and every branch
    counts as taken.
    """
    exact: set[HloComputation]
    """Those of which the number is certain."""
    unknown_loops: tuple[HloInstruction, ...]
    """The executed loops whose number of iterations is not known."""


def runs_of(module: HloModule) -> Runs:
    """How often each computation that is executed or fused runs in one run of the program."""
    walk = _Walk(module, Roof(None, None, None), as_xla=False)
    times, exact = walk.times(fused=True)
    return Runs(times, exact, walk.unknown_loops(times))


def program_of(module: HloModule, roof: Roof, *, as_xla: bool) -> Program:
    """The cost of each executed instruction of a module. Raises InvalidModuleError for shapes and attributes that do
    not fit each other.
    """
    return _Walk(module, roof, as_xla=as_xla).program()


class _Walk:
    """Computes the sums and the numbers of executions of a module's computations. Sums are computed from called
    computations to their callers, numbers of executions from callers to the called ones.

    Instructions that cost the same for certain are a class, and costs are computed by class: those of one kind whose
    operands have the same shapes and of which the same ones are equal, and that apply equal computations. A class is a
    number.
    """

    def __init__(self, module: HloModule, roof: Roof, *, as_xla: bool) -> None:
        self._module = module
        self._roof = roof
        self._as_xla = as_xla
        self._callers = _called_first(module.entry)
        self._applied = {
            called
            for callers in self._callers.values()
            for each in callers
            if not each.kind.row.runs_called_instructions
            for called in each.called_computations
        }
        self._caller: dict[HloComputation, HloInstruction | None] = {}
        """Computation → the instruction that calls it; None where several do."""
        for callers in self._callers.values():
            for each in callers:
                for inner in dict.fromkeys(each.called_computations):
                    self._caller[inner] = None if inner in self._caller else each
        self._equal: dict[Any, HloComputation] = {}
        """Contents of an applied computation, and each applied computation → the first one with these contents."""
        self._class_of: dict[tuple[Any, ...], int] = {}
        """What makes instructions equal → their class."""
        self._firsts: list[HloInstruction] = []
        """The first instruction of each class."""
        self._own: list[Arithmetic] = []
        """What one execution of an instruction of each class calculates; nothing for a loop and a conditional."""
        self._executions: dict[int, Execution] = {}
        self._classes: dict[HloComputation, list[int]] = {}
        """The classes of the instructions of each computation."""
        self._counts: dict[HloComputation, Counter[int]] = {}
        """How many instructions of each class a computation has."""
        self._arithmetic: dict[HloComputation, Arithmetic] = {}
        """What one execution of each computation calculates, with everything that it calls."""
        self._seconds: dict[HloComputation, tuple[float, float]] = {}
        self._trips: dict[HloInstruction, int | None] = {}
        self._collectives: dict[HloInstruction, Collective] | None = None
        """The instruction that each collective's cost is counted with → the collective."""
        self._grid = DeviceGrid(1, 1)
        self._branches: dict[HloInstruction, int] = {}
        """Executed conditional → the number of the branch that counts. Filled by `_called`."""

    def _summed(self) -> tuple[dict[HloComputation, Sums], dict[HloInstruction, Sums]]:
        """The sums of each executed computation, and of what each executed loop, conditional and call executes."""
        for computation in self._callers:
            self._count(computation)
        times, _ = self.times()
        sums: dict[HloComputation, Sums] = {}
        called: dict[HloInstruction, Sums] = {}
        for computation in self._callers:
            if computation not in times:
                continue
            counts = self._counts[computation]
            spend(4 * len(computation.instructions))
            total = Sums()
            for number, count in counts.items():
                total = total.plus(self._execution(number).sums, count)
            for each in self._callers[computation]:
                with_called = self._called(each, sums)
                if with_called is not None:
                    called[each] = with_called
                    total = total.plus(with_called)
            sums[computation] = total
        return sums, called

    def program(self) -> Program:
        sums, called = self._summed()
        times, exact = self.times()
        runs: list[ComputationRuns] = []
        unknown = stated = 0
        weight = 0.0
        for computation in reversed(sums):
            count_of = times[computation]
            for number, count in self._counts[computation].items():
                once = self._executions[number]
                unknown += 0 if once.arithmetic.is_complete else count
                stated += count if once.arithmetic.is_stated else 0
                weight += once.weight * count * count_of if once.has_share else 0.0
            executions = [self._executions[number] for number in self._classes[computation]]
            runs.append(ComputationRuns(computation, count_of, computation in exact, executions))
        conditionals = [each.opcode == Opcode.CONDITIONAL for run in runs for each in self._callers[run.computation]]
        loops, entry = self.unknown_loops(sums), sums[self._module.entry]
        return Program(tuple(runs), entry, loops, sum(conditionals), unknown, stated, weight, called)

    def unknown_loops(self, executed: Container[HloComputation]) -> tuple[HloInstruction, ...]:
        """The loops in `executed` computations whose number of iterations is not known; none with `as_xla`."""
        return tuple([loop for loop, trips in self._trips.items() if trips is None and loop.computation in executed])

    def costs(self) -> ClassCosts:
        self._summed()
        times, exact = self.times(fused=True)
        flops: dict[HloComputation, dict[int, int | None]] = {}
        for computation, count in times.items():
            is_known = computation in exact
            of_class = flops[computation] = {}
            for number in self._counts[computation]:
                own = self._own[number]
                if self._firsts[number].kind.row.calls.arguments is Arguments.OPERANDS:
                    of_class[number] = 0
                else:
                    is_complete = own.is_complete and (is_known or not own.flops)
                    of_class[number] = own.flops * count if is_complete else None
        traffic = {number: once.traffic for number, once in self._executions.items()}
        return ClassCosts(times, self._classes, flops, traffic)

    def _called(self, instruction: HloInstruction, sums: dict[HloComputation, Sums]) -> Sums | None:
        """The cost of the computations that an instruction executes; None for an instruction that executes none. `sums`
        has the costs of computations.
        """
        row, called = instruction.kind.row, instruction.called_computations
        source = row.source
        if source is ResultSource.STATE and len(called) == 2:
            trips, tests = self._trips_of(instruction)
            return Sums().plus(sums[called[0]], trips).plus(sums[called[1]], tests)
        if source is ResultSource.BRANCH and called:
            branches = [sums[each] for each in called]
            if self._as_xla:
                return reduce(Sums.either, branches)
            sizes = [(each.flops, each.padded_bytes) for each in branches]
            self._branches[instruction] = sizes.index(max(sizes))
            return branches[self._branches[instruction]]._replace(
                transcendentals=max([each.transcendentals for each in branches]),
                seconds=min([each.seconds for each in branches]),
                link_seconds=min([each.link_seconds for each in branches]),
                is_complete=all(each.is_complete for each in branches),
                is_timed=all(each.is_timed for each in branches),
            )
        if _runs_once(row) and called:
            of_called = sums[called[0]]
            return of_called._replace(seconds=0.0) if row.begins_asynchronously else of_called
        return None

    def _trips_of(self, loop: HloInstruction) -> tuple[int, int]:
        """How often the body and the condition of a loop run; once each where that is not known."""
        if self._as_xla:
            return 1, 1
        if loop not in self._trips:
            self._trips[loop] = trip_count(loop, *loop.called_computations, caller=self._caller.get)
        trips = self._trips[loop]
        return (1, 1) if trips is None else (trips, trips + 1)

    def times(self, *, fused: bool = False) -> tuple[dict[HloComputation, int], set[HloComputation]]:
        """How often each executed computation runs, and the computations for which this is certain. With `fused`, fused
        computations are counted too.
        """
        entry = self._module.entry
        times = {entry: 1}
        inexact: set[HloComputation] = set()
        for computation in reversed(self._callers):
            if computation not in times:
                continue
            for instruction in self._callers[computation]:
                runs = self._runs(instruction)
                if fused and instruction.kind.row.fuses_called_computation:
                    runs = [(called, 1, True) for called in instruction.called_computations[:1]]
                for called, count, is_exact in runs:
                    spend()
                    times[called] = _fitting(times.get(called, 0) + times[computation] * count, called)
                    if not is_exact or computation in inexact:
                        inexact.add(called)
        return times, set(times) - inexact

    def _runs(self, instruction: HloInstruction) -> Sequence[tuple[HloComputation, int, bool]]:
        """The computations that an instruction executes instruction by instruction, each with how often, and with
        whether that is known.
        """
        row, called = instruction.kind.row, instruction.called_computations
        source = row.source
        if source is ResultSource.STATE and len(called) == 2:
            trips, tests = self._trips_of(instruction)
            is_exact = self._as_xla or self._trips[instruction] is not None
            return [(called[0], trips, is_exact), (called[1], tests, is_exact)]
        if source is ResultSource.BRANCH:
            chosen = self._branches.get(instruction)
            return [(branch, int(chosen in (None, number)), len(called) == 1) for number, branch in enumerate(called)]
        return [(called[0], 1, True)] if _runs_once(row) and called else []

    def _count(self, computation: HloComputation) -> None:
        """Classifies the instructions of a computation and counts what one execution of it calculates, once those that
        it calls are counted."""
        instructions = computation.instructions
        spend(len(instructions))
        if computation in self._applied:
            contents: list[object] = [computation.root.index]
            for each in instructions:
                contents += (each.kind, each.number)
                contents += [operand.index for operand in each.operands]
                if each.called_computations:
                    contents += [self._equal.get(called, called) for called in each.called_computations]
            first = self._equal[computation] = self._equal.setdefault(tuple(contents), computation)
            if first is not computation:
                self._classes[computation], self._counts[computation] = self._classes[first], self._counts[first]
                self._arithmetic[computation] = self._arithmetic[first]
                return
        known = self._class_of
        classes: list[int] = []
        for each in instructions:
            operands = each.operands
            key: tuple[Any, ...] = (
                (each.kind, operands[0].kind) if len(operands) == 1 else (each.kind, *map(_KIND, operands))
            )
            if len(operands) > 1 and len(set(operands)) < len(operands):
                numbers: dict[HloInstruction, int] = {}
                key += (tuple([numbers.setdefault(operand, number) for number, operand in enumerate(operands)]),)
            if each.called_computations:
                key += tuple([self._equal.get(called, called) for called in each.called_computations])
            number = known.get(key)
            if number is None:
                number = known[key] = self._class(each, key)
            classes.append(number)
        total = NOTHING
        counts = self._counts[computation] = Counter(classes)
        for number, count in counts.items():
            if self._own[number] is not NOTHING:
                total = total.plus(self._own[number].times(count))
        for each in self._callers[computation]:
            source, called = each.kind.row.source, each.called_computations
            if source is ResultSource.STATE and len(called) == 2:
                trips, tests = self._trips_of(each)
                body, condition = self._arithmetic[called[0]], self._arithmetic[called[1]]
                total = total.plus(body.times(trips)).plus(condition.times(tests))
            elif source is ResultSource.BRANCH:
                total = total.plus(reduce(Arithmetic.largest, [self._arithmetic[inner] for inner in called]))
        _fitting(max(total.flops, total.transcendentals), computation)
        self._arithmetic[computation] = total
        self._classes[computation] = classes

    def _class(self, instruction: HloInstruction, key: tuple[Any, ...]) -> int:
        """The class of an instruction; a new one unless operands of other kinds have the same shapes. `key` has its
        kind, those of its operands, and further objects."""
        shapes = [id(operand.shape) for operand in instruction.operands]
        by_shapes = (instruction.kind, *shapes, *key[1 + len(shapes) :])
        number = self._class_of.get(by_shapes)
        if number is None:
            row, called = instruction.kind.row, instruction.called_computations
            is_sum = (row.source is ResultSource.STATE and len(called) == 2) or (
                row.source is ResultSource.BRANCH and called
            )
            own = NOTHING if is_sum else _checked(instruction, self._arithmetic_of)
            number = self._class_of[by_shapes] = len(self._own)
            self._own.append(own)
            self._firsts.append(instruction)
        return number

    def _arithmetic_of(self, instruction: HloInstruction) -> Arithmetic:
        if instruction.opcode == Opcode.CUSTOM_CALL:
            return custom_call(instruction, as_xla=self._as_xla)
        return arithmetic_of(instruction, self._arithmetic.__getitem__, as_xla=self._as_xla)

    def _execution(self, number: int) -> Execution:
        """What one execution of an instruction of a class costs."""
        found = self._executions.get(number)
        if found is None:
            instruction = self._firsts[number]
            row = instruction.kind.row
            is_call = _runs_once(row) and bool(instruction.called_computations)
            arithmetic = NOTHING if is_call else self._own[number]
            traffic = NO_TRAFFIC if self._as_xla else _checked(instruction, traffic_of)
            bytes_as_xla = _checked(instruction, xla_bytes) if self._as_xla else 0
            compute: float | None = None
            seconds: float | None = None
            links: float | None = None
            collective: Collective | None = None
            weight = float(max(0, bytes_as_xla) + traffic.main_bytes)
            is_timed = self._roof.is_known and not self._as_xla
            if is_timed:
                weight = traffic.main_bytes / (self._roof.bandwidth or 1.0)
                collective = self._collective(instruction)
                links = None if collective is None else self._link_seconds(collective)
                weight = max(weight, links or 0.0)
                if arithmetic.is_complete:
                    compute = max(self._compute_seconds(instruction, arithmetic))
                    seconds = weight = max(compute, weight)
                elif (kernel := kernel_blocks(instruction)) is not None and kernel.is_known:
                    seconds = weight
            is_listed = any((*arithmetic[:2], traffic.padded_bytes, bytes_as_xla, row.opcode == Opcode.CUSTOM_CALL))
            has_share = seconds is not None or not is_timed
            is_beside = row.begins_asynchronously or (collective is not None and collective.is_asynchronous)
            is_listed = is_listed or collective is not None
            found = Execution(
                arithmetic,
                traffic,
                bytes_as_xla,
                seconds,
                compute,
                links,
                collective is not None,
                is_beside,
                weight,
                has_share,
                is_listed,
            )
            self._executions[number] = found
        return found

    def _collective(self, instruction: HloInstruction) -> Collective | None:
        """The collective that sends anything and that an instruction is, or that begins with this fusion."""
        if self._collectives is None:
            found = find_collectives(self._module)
            self._grid = device_grid(self._module, found)
            self._collectives = {
                each.begin if each.begin.kind.row.fuses_called_computation else each.instruction: each for each in found
            }
        collective = self._collectives.get(instruction)
        return collective if collective and any(groups_of(collective, self._grid).moved(collective)) else None

    def _link_seconds(self, collective: Collective) -> float | None:
        links = self._roof.links
        return None if links is None else link_seconds(collective, groups_of(collective, self._grid), links)

    def _compute_seconds(self, instruction: HloInstruction, arithmetic: Arithmetic) -> tuple[float, float]:
        """The least times in matrix units and in vector units. Both work at once, so the larger counts."""
        row, called = instruction.kind.row, instruction.called_computations
        if row.runs_called_instructions:
            return 0.0, 0.0
        if row.fuses_called_computation and called:
            return self._fused_seconds(called[0])
        is_matrix = row.uses_matrix_units or (row.opcode == Opcode.CUSTOM_CALL and arithmetic.flops > 0)
        arrays = [each.shape for each in instruction.operands if each.shape.is_array] if is_matrix else []
        if row.opcode != Opcode.CUSTOM_CALL:
            arrays = arrays[:1]
        # The first operands of a kernel may be a few numbers.
        shape = max(arrays, key=elements, default=None) or next(iter(instruction.shape.leaves()), instruction.shape)
        kind = shape.element_type if shape.is_array else PrimitiveType.F32
        seconds = arithmetic.flops / (self._roof.peak(kind, is_matrix=is_matrix) or 1.0)
        return (seconds, 0.0) if is_matrix else (0.0, seconds)

    def _fused_seconds(self, computation: HloComputation) -> tuple[float, float]:
        """As `_compute_seconds`, for all instructions of a fused computation together."""
        for each in _called_first(computation) if computation not in self._seconds else ():
            if each in self._seconds:
                continue
            matrix = vector = 0.0
            for instruction in each.instructions:
                called = instruction.called_computations
                if instruction.kind.row.fuses_called_computation and called:
                    of_called = self._seconds[called[0]]
                else:
                    of_called = self._compute_seconds(instruction, self._arithmetic_of(instruction))
                matrix, vector = matrix + of_called[0], vector + of_called[1]
            self._seconds[each] = matrix, vector
        return self._seconds[computation]


def _runs_once(row: Operation) -> bool:
    """Whether an instruction runs the instructions of the computation that it calls, once and with its own operands."""
    return row.runs_called_instructions and row.calls.arguments is Arguments.OPERANDS


def _fitting(count: int, computation: HloComputation) -> int:
    """The number of runs or operations of a computation. Calls of calls multiply it, so it may have as many digits as
    there are computations: SizeOverflowError for more than 128 bits.
    """
    if count.bit_length() > _MAX_BITS:
        raise SizeOverflowError(
            f"computation {computation.name[:200]!r}: how often it runs, or what it calculates, has more than "
            f"{_MAX_BITS} bits"
        )
    return count


def _called_first(entry: HloComputation) -> dict[HloComputation, list[HloInstruction]]:
    """The entry and all computations that it calls, directly or not, each with its instructions that call others. Each
    comes after those that it calls itself."""
    ordered: dict[HloComputation, list[HloInstruction]] = {}
    seen = {entry}
    waiting = [_with_calls(entry)]
    while waiting:
        computation, callers, calls = waiting[-1]
        called = next((each for each in calls if each not in seen), None)
        if called is None:
            ordered[computation] = callers
            waiting.pop()
        else:
            seen.add(called)
            waiting.append(_with_calls(called))
    return ordered


def _with_calls(computation: HloComputation) -> tuple[HloComputation, list[HloInstruction], Iterator[HloComputation]]:
    """A computation, its instructions that call others, and those that they call."""
    callers = [each for each in computation.instructions if each.called_computations]
    return computation, callers, iter([called for each in callers for called in each.called_computations])


def _checked(instruction: HloInstruction, compute: Callable[[HloInstruction], _R]) -> _R:
    """`compute(instruction)`. Raises InvalidModuleError where an attribute names a dimension or an operand that does
    not exist.
    """
    try:
        return compute(instruction)
    except (IndexError, ValueError, ZeroDivisionError) as error:
        if isinstance(error, InvalidModuleError):
            raise
        raise InvalidModuleError(
            f"instruction {instruction.name!r} ({instruction.opcode}) has operands or attributes that do not fit its "
            f"shape: {error}"
        ) from error
