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

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final, NamedTuple, TypeVar

from xlashape.errors import InvalidModuleError, SizeOverflowError
from xlashape.hlo import HloComputation, HloInstruction, HloModule, Opcode
from xlashape.indexing.walk.repeated.while_loop import trip_count
from xlashape.limits import spend
from xlashape.reports.cost.arithmetic import NOTHING, Arithmetic, arithmetic_of
from xlashape.reports.cost.targets import Roof
from xlashape.reports.cost.traffic import NO_TRAFFIC, Traffic, traffic_of
from xlashape.reports.cost.xla_traffic import xla_bytes
from xlashape.shape import PrimitiveType

_R = TypeVar("_R")

_MATRIX: Final = frozenset((Opcode.CONVOLUTION, Opcode.DOT, Opcode.RAGGED_DOT, Opcode.SCALED_DOT))
_RUNS_CALLED: Final = frozenset((Opcode.ASYNC_START, Opcode.CALL))
_INLINED: Final = _RUNS_CALLED | {Opcode.FUSION}
_BESIDE: Final = frozenset(
    (
        Opcode.ALL_GATHER_START,
        Opcode.ALL_REDUCE_START,
        Opcode.ASYNC_START,
        Opcode.COLLECTIVE_PERMUTE_START,
        Opcode.COPY_START,
    )
)
"""Operations that run beside the instructions after them, until their `-done`: no sum of times includes theirs."""

_MAX_BITS: Final = 128


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

    def plus(self, other: Sums, count: int = 1) -> Sums:
        """The sum of this and `count` times the other."""
        sums = [mine + count * its for mine, its in zip(self[:6], other[:6], strict=True)]
        return Sums(*sums, seconds=self.seconds + count * other.seconds)

    def either(self, other: Sums) -> Sums:
        """The larger one of each number of both, but for the seconds, which are 0."""
        return Sums(*[max(mine, its) for mine, its in zip(self[:6], other[:6], strict=True)])


class Executed(NamedTuple):
    """An executed instruction and the cost of one execution."""

    instruction: HloInstruction
    times: int
    is_exact: bool
    """Whether `times` is known."""
    arithmetic: Arithmetic
    traffic: Traffic
    xla_bytes: int
    seconds: float | None
    """The least time of one execution: that of the arithmetic or that of the bytes, whichever is longer. None without a
    peak and a bandwidth.
    """
    compute_seconds: float | None
    """The least time of the arithmetic alone."""
    is_beside: bool
    """Whether it runs beside the instructions after it (`_BESIDE`)."""


class Program(NamedTuple):
    """The cost of a module."""

    executed: tuple[Executed, ...]
    sums: Sums
    unknown_loops: int
    conditionals: int
    unknown_instructions: int
    """How many executed instructions there are whose FLOPs are not known."""
    called: dict[HloInstruction, Sums]
    """For each executed loop, conditional and call, what one execution of it costs with all that it executes."""


class Flops(NamedTuple):
    """The FLOPs of each instruction by itself, those in fusions included."""

    times: dict[HloComputation, int]
    """Computation that is executed or fused → how often it runs in one run of the program."""
    known: dict[HloComputation, list[int | None]]
    """Each of these computations → the FLOPs of its instructions in one run of the program; None where they are not
    known. A fusion, a call, a loop and a conditional have 0: the instructions in the called computation have the FLOPs.
    """


def flops_of(module: HloModule) -> Flops:
    """The FLOPs of each instruction of a module, which add up to those of `program_of` where these are exact. Raises
    InvalidModuleError as `program_of` does.

    >>> text = "HloModule m ENTRY e { p = f32[8] parameter(0) n = f32[8] negate(p) ROOT a = f32[8] add(n, n) }"
    >>> list(flops_of(HloModule.parse(text)).known.values())
    [[0, 8, 8]]
    """
    return _Walk(module, Roof(None, None, None), as_xla=False).flops()


def runs_of(module: HloModule) -> dict[HloComputation, int]:
    """Computation that is executed or fused → how often it runs in one run of the program. Those of which that is not
    known are left out.
    """
    times, exact = _Walk(module, Roof(None, None, None), as_xla=False).times(fused=True)
    return {computation: times[computation] for computation in exact}


def program_of(module: HloModule, roof: Roof, *, as_xla: bool) -> Program:
    """The cost of each executed instruction of a module. Raises InvalidModuleError for shapes and attributes that do
    not fit each other.
    """
    return _Walk(module, roof, as_xla=as_xla).program()


class _Walk:
    """Computes the sums and the numbers of executions of a module's computations. Sums are computed from called
    computations to their callers, numbers of executions from callers to the called ones.
    """

    def __init__(self, module: HloModule, roof: Roof, *, as_xla: bool) -> None:
        self._module = module
        self._roof = roof
        self._as_xla = as_xla
        self._order = _called_first(module.entry)
        self._arithmetic: dict[HloComputation, Arithmetic] = {}
        """What one execution of each computation calculates, with everything that it calls."""
        self._own_arithmetic: dict[HloComputation, list[Arithmetic]] = {}
        """What one execution of each of its instructions calculates; nothing for a loop and a conditional."""
        self._seconds: dict[HloComputation, tuple[float, float]] = {}
        self._trips: dict[HloInstruction, int | None] = {}
        self._branches: dict[HloInstruction, int] = {}
        """Executed conditional → the number of the branch that counts. Filled by `_called`."""
        self._same: tuple[dict[Arithmetic, Arithmetic], dict[Traffic, Traffic]] = {}, {}
        """Each value → itself, so that equal instructions share one object: large programs repeat their layers."""

    def program(self) -> Program:
        for computation in self._order:
            self._count(computation)
        times, exact = self.times()
        executed: list[Executed] = []
        sums: dict[HloComputation, Sums] = {}
        called: dict[HloInstruction, Sums] = {}
        for computation in self._order:
            if computation not in times:
                continue
            total = Sums()
            rows: list[Executed] = []
            for instruction, own in zip(computation.instructions, self._own_arithmetic[computation], strict=True):
                spend(4)
                row = self._executed(instruction, own, times[computation], computation in exact)
                rows.append(row)
                total = total.plus(self._own(row))
                with_called = self._called(instruction, sums)
                if with_called is not None:
                    called[instruction] = with_called
                    total = total.plus(with_called)
            sums[computation] = total
            executed += reversed(rows)
        executed.reverse()
        if self._branches:
            times, _ = self.times()
            executed = [each._replace(times=times[each.instruction.computation]) for each in executed]
        unknown = [loop for loop, trips in self._trips.items() if trips is None and loop.computation in times]
        return Program(
            tuple(executed),
            sums[self._module.entry],
            0 if self._as_xla else len(unknown),
            sum([row.instruction.opcode == Opcode.CONDITIONAL for row in executed]),
            sum([not row.arithmetic.is_complete for row in executed]),
            called,
        )

    def flops(self) -> Flops:
        for computation in self._order:
            self._count(computation)
        times, exact = self.times(fused=True)
        known: dict[HloComputation, list[int | None]] = {}
        for computation, count in times.items():
            is_known = computation in exact
            rows: list[int | None] = []
            for instruction, own in zip(computation.instructions, self._own_arithmetic[computation], strict=True):
                if own is NOTHING or instruction.opcode in _INLINED:
                    rows.append(0)
                else:
                    rows.append(own.flops * count if own.is_complete and (is_known or not own.flops) else None)
            known[computation] = rows
        return Flops(times, known)

    def _own(self, row: Executed) -> Sums:
        """The cost of an instruction without what it calls."""
        arithmetic, traffic = row.arithmetic, row.traffic
        return Sums(
            arithmetic.flops,
            arithmetic.transcendentals,
            traffic.bytes_read,
            traffic.bytes_written,
            traffic.padded_bytes,
            row.xla_bytes,
            0.0 if row.is_beside or row.seconds is None else row.seconds,
        )

    def _called(self, instruction: HloInstruction, sums: dict[HloComputation, Sums]) -> Sums | None:
        """The cost of the computations that an instruction executes; None for an instruction that executes none. `sums`
        has the costs of computations.
        """
        opcode, called = instruction.opcode, instruction.called_computations
        if opcode == Opcode.WHILE and len(called) == 2:
            trips, tests = self._trips_of(instruction)
            return Sums().plus(sums[called[0]], trips).plus(sums[called[1]], tests)
        if opcode == Opcode.CONDITIONAL and called:
            branches = [sums[each] for each in called]
            if self._as_xla:
                return reduce(Sums.either, branches)
            sizes = [(each.flops, each.padded_bytes) for each in branches]
            self._branches[instruction] = sizes.index(max(sizes))
            return branches[self._branches[instruction]]._replace(
                transcendentals=max([each.transcendentals for each in branches]),
                seconds=min([each.seconds for each in branches]),
            )
        if opcode in _RUNS_CALLED and called:
            of_called = sums[called[0]]
            return of_called._replace(seconds=0.0) if opcode == Opcode.ASYNC_START else of_called
        return None

    def _trips_of(self, loop: HloInstruction) -> tuple[int, int]:
        """How often the body and the condition of a loop run; once each where that is not known."""
        if self._as_xla:
            return 1, 1
        if loop not in self._trips:
            self._trips[loop] = trip_count(loop, *loop.called_computations)
        trips = self._trips[loop]
        return (1, 1) if trips is None else (trips, trips + 1)

    def times(self, *, fused: bool = False) -> tuple[dict[HloComputation, int], set[HloComputation]]:
        """How often each executed computation runs, and the computations for which this is certain. With `fused`, fused
        computations are counted too.
        """
        entry = self._module.entry
        times = {entry: 1}
        inexact: set[HloComputation] = set()
        for computation in reversed(self._order):
            if computation not in times:
                continue
            for instruction in computation.instructions:
                runs = self._runs(instruction)
                if fused and instruction.opcode == Opcode.FUSION:
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
        opcode, called = instruction.opcode, instruction.called_computations
        if opcode == Opcode.WHILE and len(called) == 2:
            trips, tests = self._trips_of(instruction)
            is_exact = self._as_xla or self._trips[instruction] is not None
            return [(called[0], trips, is_exact), (called[1], tests, is_exact)]
        if opcode == Opcode.CONDITIONAL:
            chosen = self._branches.get(instruction)
            return [(branch, int(chosen in (None, number)), len(called) == 1) for number, branch in enumerate(called)]
        return [(called[0], 1, True)] if opcode in _RUNS_CALLED and called else []

    def _count(self, computation: HloComputation) -> None:
        """Counts what one execution of a computation calculates, once those that it calls are counted."""
        total = NOTHING
        rows: list[Arithmetic] = []
        for instruction in computation.instructions:
            spend()
            called = instruction.called_computations
            own = NOTHING
            if instruction.opcode == Opcode.WHILE and len(called) == 2:
                trips, tests = self._trips_of(instruction)
                body, condition = self._arithmetic[called[0]], self._arithmetic[called[1]]
                total = total.plus(body.times(trips)).plus(condition.times(tests))
            elif instruction.opcode == Opcode.CONDITIONAL and called:
                total = total.plus(reduce(Arithmetic.largest, [self._arithmetic[each] for each in called]))
            else:
                own = _checked(instruction, self._arithmetic_of)
                if own is not NOTHING:
                    own = self._same[0].setdefault(own, own)
                    total = total.plus(own)
            rows.append(own)
        _fitting(max(total.flops, total.transcendentals), computation)
        self._arithmetic[computation] = total
        self._own_arithmetic[computation] = rows

    def _arithmetic_of(self, instruction: HloInstruction) -> Arithmetic:
        return arithmetic_of(instruction, self._arithmetic.__getitem__, as_xla=self._as_xla)

    def _executed(self, instruction: HloInstruction, own: Arithmetic, times: int, is_exact: bool) -> Executed:
        is_call = instruction.opcode in _RUNS_CALLED and bool(instruction.called_computations)
        arithmetic = NOTHING if is_call else own
        traffic = NO_TRAFFIC if self._as_xla else _checked(instruction, traffic_of)
        compute: float | None = None
        seconds: float | None = None
        if self._roof.is_known and not self._as_xla:
            compute = max(self._compute_seconds(instruction, arithmetic))
            seconds = max(compute, traffic.main_bytes / (self._roof.bandwidth or 1.0))
        bytes_as_xla = _checked(instruction, xla_bytes) if self._as_xla else 0
        is_beside = instruction.opcode in _BESIDE
        traffic = self._same[1].setdefault(traffic, traffic)
        return Executed(instruction, times, is_exact, arithmetic, traffic, bytes_as_xla, seconds, compute, is_beside)

    def _compute_seconds(self, instruction: HloInstruction, arithmetic: Arithmetic) -> tuple[float, float]:
        """The least times in matrix units and in vector units. Both work at once, so the larger counts."""
        opcode, called = instruction.opcode, instruction.called_computations
        if opcode in _RUNS_CALLED or opcode in (Opcode.WHILE, Opcode.CONDITIONAL):
            return 0.0, 0.0
        if opcode == Opcode.FUSION and called:
            return self._fused_seconds(called[0])
        is_matrix = opcode in _MATRIX or (opcode == Opcode.CUSTOM_CALL and arithmetic.flops > 0)
        arrays = [each for each in instruction.operands[:1] if each.shape.is_array] if is_matrix else []
        shape = arrays[0].shape if arrays else next(iter(instruction.shape.leaves()), instruction.shape)
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
                if instruction.opcode == Opcode.FUSION and called:
                    of_called = self._seconds[called[0]]
                else:
                    of_called = self._compute_seconds(instruction, self._arithmetic_of(instruction))
                matrix, vector = matrix + of_called[0], vector + of_called[1]
            self._seconds[each] = matrix, vector
        return self._seconds[computation]


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


def _called_first(entry: HloComputation) -> list[HloComputation]:
    """The entry and all computations that it calls, directly or not. Each comes after those that it calls itself."""
    ordered: list[HloComputation] = []
    seen = {entry}
    waiting = [(entry, iter(_calls(entry)))]
    while waiting:
        computation, calls = waiting[-1]
        called = next((each for each in calls if each not in seen), None)
        if called is None:
            ordered.append(computation)
            waiting.pop()
        else:
            seen.add(called)
            waiting.append((called, iter(_calls(called))))
    return ordered


def _calls(computation: HloComputation) -> list[HloComputation]:
    with_calls = [each for each in computation.instructions if each.fields.called_computation_ids]
    return [called for each in with_calls for called in each.called_computations]


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
