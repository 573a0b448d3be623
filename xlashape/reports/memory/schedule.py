"""The order in which a whole program runs its instructions, called computations included.

A scheduled module gives the order of each computation; the instructions of a called computation come before the
instruction that calls it, the condition of a loop before its body, as in XLA's HloLiveRange. For a module without a
schedule the order is computed here: among the instructions whose operands are ready, the next one is that which takes
the least memory less the memory that it frees, as in XLA's ListScheduler.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from xlashape.base.math import product
from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep, MemoryTraffic, Operation, ResultSource
from xlashape.hlo.values.sharding import Sharding
from xlashape.limits import check, spend
from xlashape.reports.why.causes import on_target
from xlashape.shape import Shape, Target
from xlashape.shape.tiling import physical_bytes
from xlashape.shape.xla_util.shape_util import byte_size_of

_MOST_INSTRUCTIONS: Final = 4_000_000
_MARKS: Final = frozenset(["Sharding", "SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape"])
"""Targets of custom calls that the partitioner removes."""


class ComputationRun:
    """One run of a computation: its instructions run one after the other. A computation that is called twice has two
    runs, as if each caller had a copy, which XLA makes."""

    __slots__ = ("above", "begun", "caller", "computation", "first", "last")

    computation: HloComputation
    caller: HloInstruction | None
    """The instruction that runs the computation; None for the entry computation."""
    above: ComputationRun | None
    """The run of the caller."""
    begun: dict[HloInstruction, tuple[ComputationRun, ...]]
    """The runs that instructions of this run begin, in the order of their called computations."""
    first: int
    last: int
    """The first and the last time of the run, those of what it calls included."""

    def __init__(
        self, computation: HloComputation, caller: HloInstruction | None, above: ComputationRun | None
    ) -> None:
        self.computation, self.caller, self.above = computation, caller, above
        self.begun = {}
        self.first = self.last = 0


class Segment(NamedTuple):
    """Successive instructions of one run, without those that they call."""

    run: ComputationRun
    begin: int
    """The time of the first instruction."""
    end: int
    """The time after the last instruction."""


class FlatSchedule(NamedTuple):
    """The instructions of a program in the order in which they run, without those of fused computations and of
    computations that are applied to elements. The time of an instruction is a position in `instructions`."""

    instructions: Sequence[HloInstruction]
    """An instruction of a computation that is called twice occurs twice."""
    segments: Sequence[Segment]
    """What runs, in the order of times. Together they have each instruction once."""
    runs: Sequence[ComputationRun]
    """The run of the entry computation comes first, then those that are called, in the order in which they begin."""
    is_given: bool
    """Whether the module gives the order. If not, `flat_schedule` computed it."""
    parts: int
    """Over how many devices XLA will divide the arrays; 1 for a module that is partitioned already, and for one that is
    not divided."""

    def run_at(self, time: int) -> ComputationRun:
        """The run of the instruction that runs at a time."""
        return self.segments[bisect_right(self.segments, time, key=lambda each: each.begin) - 1].run


def flat_schedule(module: HloModule) -> FlatSchedule:
    """The order of a module's instructions. Fused computations, and those that are applied to elements, are left out.
    Raises LimitExceededError for more than 4,000,000 instructions, those of each call counted."""
    sequences = {key & LOCAL_ID: value.instruction_ids for key, value in module.head.schedule.sequences.items()}
    is_given = (module.entry.id & LOCAL_ID) in sequences
    order: list[HloInstruction] = []
    segments: list[Segment] = []
    runs: list[ComputationRun] = []
    orders: dict[HloComputation, list[HloInstruction]] = {}

    def begin(run: ComputationRun) -> tuple[ComputationRun, Iterator[HloInstruction]]:
        computation = run.computation
        found = orders.get(computation)
        if found is None:
            ids = sequences.get(computation.id & LOCAL_ID)
            found = _list_schedule(computation) if ids is None else _given_schedule(computation, ids)
            orders[computation] = found
        spend(len(found))
        check("instructions that run, those of each call counted", len(order) + len(found), _MOST_INSTRUCTIONS)
        run.first = len(order)
        runs.append(run)
        return run, iter(found)

    # Each entry: a run, its instructions that are left, the instruction that waits for the runs that it begins, and
    # those of them that are left.
    stack: list[tuple[ComputationRun, Iterator[HloInstruction], HloInstruction | None, list[ComputationRun]]] = []
    stack.append((*begin(ComputationRun(module.entry, None, None)), None, []))
    while stack:
        run, left, caller, calls = stack.pop()
        if calls:
            stack.append((run, left, caller, calls))
            stack.append((*begin(calls.pop()), None, []))
            continue
        start = len(order)
        if caller is not None:
            order.append(caller)
        for instruction in left:
            row = instruction.kind.row
            if row.runs_called_instructions and row.async_step in (None, AsyncStep.START):
                called = tuple([ComputationRun(each, instruction, run) for each in instruction.called_computations])
                run.begun[instruction] = called
                # The condition of a loop runs first.
                pending = list(called) if row.source is ResultSource.STATE else list(called[::-1])
                stack.append((run, left, instruction, pending))
                break
            order.append(instruction)
        else:
            run.last = max(run.first, len(order) - 1)
        if len(order) > start:
            segments.append(Segment(run, start, len(order)))
    return FlatSchedule(order, segments, runs, is_given, 1 if is_given else partitions(module))


def _given_schedule(computation: HloComputation, ids: Iterable[int]) -> list[HloInstruction]:
    """The instructions with these ids. Raises InvalidModuleError where one runs before an operand of it, or
    where the root does not run."""
    order: list[HloInstruction] = []
    run = set[HloInstruction]()
    for each in computation.resolve(ids):
        spend()
        for operand in each.operands:
            if operand not in run:
                raise InvalidModuleError(
                    f"the schedule of computation {computation.name!r} runs {each.name!r} before its operand "
                    f"{operand.name!r}"
                )
        order.append(each)
        run.add(each)
    if computation.root not in run:
        raise InvalidModuleError(
            f"the schedule of computation {computation.name!r} does not run its root {computation.root.name!r}"
        )
    return order


def _list_schedule(computation: HloComputation) -> list[HloInstruction]:
    """An order of a computation's instructions that keeps little memory alive."""
    instructions = computation.instructions
    count = len(instructions)
    kinds = [each.kind for each in instructions]
    size_of = {kind: 0 if _is_free(kind.row) else leaf_bytes(kind.shape) for kind in set(kinds)}
    sizes = [size_of[kind] for kind in kinds]
    operands_of = [
        [operand.index for operand in (operands if len(operands) < 2 else dict.fromkeys(operands))]
        for operands in [each.operands for each in instructions]
    ]
    followers_of: list[list[int]] = [[] for _ in instructions]
    """For each instruction, those that use it, then those that wait for it without using it."""
    for index, operands in enumerate(operands_of):
        for operand in operands:
            followers_of[operand].append(index)
    left = list(map(len, followers_of))
    """For each instruction, how many of its users have not run."""
    waits = list(map(len, operands_of))
    """For each instruction, how many others it waits for; -1 once it has run."""
    controlled: list[tuple[int, int]] = []
    for index, each in enumerate(instructions):
        if each.control_predecessors:
            others = {other.index for other in each.control_predecessors}.difference(operands_of[index])
            controlled += [(other, index) for other in others]
            waits[index] += len(others)
    users_of = followers_of
    if controlled:
        users_of = [list(each) for each in followers_of]
        for other, index in controlled:
            followers_of[other].append(index)

    def key(index: int) -> int:
        """The key that orders instructions; the least one runs next. It is the memory that an instruction takes less
        the memory that it frees, then its position.
        """
        taken = sizes[index]
        for operand in operands_of[index]:
            if left[operand] == 1:
                taken -= sizes[operand]
        return taken * count + index

    ready = [key(index) for index, waiting in enumerate(waits) if not waiting]
    heapify(ready)
    spend(count)
    order: list[HloInstruction] = []
    while ready:
        index = heappop(ready) % count
        if waits[index]:
            continue
        waits[index] = -1
        order.append(instructions[index])
        for operand in operands_of[index]:
            left[operand] -= 1
            if left[operand] == 1:
                # The one user that is left frees the value, and so may run earlier than its key said before.
                for user in users_of[operand]:
                    if not waits[user]:
                        heappush(ready, key(user))
        for follower in followers_of[index]:
            waits[follower] -= 1
            if not waits[follower]:
                heappush(ready, key(follower))
    return order


def _is_free(row: Operation) -> bool:
    return row.moves_no_data or (row.is_given and row.traffic is MemoryTraffic.NOTHING)


def leaf_bytes(shape: Shape, target: Target | None = None) -> int:
    """The bytes of all arrays of a shape, padding of tiles included: by their layouts, or on a target by the layouts
    that they have there. Tokens, opaques and arrays of unknown size count as nothing.

    >>> leaf_bytes(Shape.parse("(f32[3,5]{1,0:T(8,128)}, s32[], token[])"))
    4100
    """
    return sum([array_bytes(leaf, target) for leaf in (shape.leaves() if shape.is_tuple else (shape,))])


def array_bytes(shape: Shape, target: Target | None = None) -> int:
    """The bytes of an array's buffer by its layout, or on a target by the layout that it has there; 0 for another
    shape, and for an array of unknown size."""
    if not (shape.is_array or shape.is_buffer) or shape.is_unbounded_dynamic:
        return 0
    if target is not None:
        return byte_size_of(on_target(shape, target), target=target)
    layout = shape.buffer_shape.layout if shape.is_buffer else shape.layout
    return physical_bytes(shape) if layout is not None and layout.tiles else byte_size_of(shape)


def partitions(module: HloModule) -> int:
    """Over how many devices XLA will divide the arrays of a module; 1 for a module that is partitioned already, or
    whose shardings divide nothing. A partitioned module may still have shardings: the collectives between its parts
    tell, unless the program itself has them and marks where it is written for each device.

    >>> from xlashape.hlo import HloModule
    >>> text = "HloModule m ENTRY e { ROOT p = f32[8,8] parameter(0), sharding={devices=[2,2]<=[4]} }"
    >>> partitions(HloModule.parse(text))
    4
    """
    kinds = {each.kind for each in module.instructions()}
    marks = {each for each in kinds if each.opcode is Opcode.CUSTOM_CALL and each.message.custom_call_target in _MARKS}
    if not marks and any(each.row.exchanges_with_replicas for each in kinds):
        return 1
    most = 1
    for kind in {*marks, *[each.kind for each in (*module.entry.parameters, module.entry.root)]}:
        if kind.message.HasField("sharding"):
            with suppress(InvalidArgumentError):
                sharding = Sharding.from_proto(kind.message.sharding)
                for part in sharding.elements or (sharding,):
                    if product(part.tile_counts or ()) > 1:
                        most = max(most, len(part.devices or ()))
    return most
