"""A memory plan: which values of a program live when, in which allocation. All sources of the report are converted into
a plan.

An assignment of XLA (`assignment.py`) gives a plan whose steps are those of XLA's own simulation of the heap; a module
without one (`liveness.py`) gives a plan whose steps are the instructions of the module's schedule. Values, lives (the
spans of steps in which a value takes memory) and steps are lists of numbers: a plan of a million values takes no object
for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from xlashape.errors import NotFoundError
from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.ops.operation import ResultSource
from xlashape.hlo.ops.registry import operation_of
from xlashape.shape import Shape, Target
from xlashape.shape.xla_util.shape_util import byte_size_of

PARAMETER, TEMPORARY, OUTPUT, CONSTANT = range(4)
KINDS: Final = ("parameter", "temporary", "output", "constant")
"""The kinds of values, by what their memory is for. A parameter whose memory the program may overwrite with an output
counts as a parameter."""

FAST: Final = 1
"""The memory space of a layout that is the on-chip memory of a TPU, its VMEM."""
HOST: Final = 5
"""The memory space of a layout that is the host's memory."""

_MOST_STEPS_TO_ORIGIN: Final = 8

SPACES: Final = {0: "main memory", FAST: "on-chip memory", HOST: "host memory"}
"""Names of memory spaces that all of XLA's compilers give the same meaning."""


class Allocation(NamedTuple):
    """A range of memory that values share, at different times or at different offsets. XLA's BufferAllocation."""

    number: int
    """XLA's index of the allocation."""
    size: int
    space: int
    kind: int
    """One of the numbers of `KINDS`."""
    is_thread_local: bool = False
    """Whether each call of a computation, such as a reduction's function, has its own. The program's peak does not
    count it."""
    is_live_out: bool = False
    """Whether it may hold a part of the result."""
    is_parameter: bool = False
    is_aliased: bool = False
    """Whether it is a parameter's, and holds a part of the result."""
    is_constant: bool = False
    parameter_number: int = 0
    parameter_index: tuple[int, ...] = ()
    """Where in the parameter's shape the array is that the allocation holds."""
    values: tuple[int, ...] = ()
    """The numbers of the values in it, in `Plan.values`."""

    @property
    def lives_throughout(self) -> bool:
        """Whether XLA counts it from the beginning to the end of the program."""
        return not self.is_thread_local and (self.is_parameter or self.is_constant or self.is_live_out)


def kind_of(*, is_parameter: bool, is_constant: bool, is_live_out: bool) -> int:
    """The kind of the values in an allocation, as a number of `KINDS`."""
    return PARAMETER if is_parameter else CONSTANT if is_constant else OUTPUT if is_live_out else TEMPORARY


class Place(NamedTuple):
    """Where a value is made."""

    instruction: HloInstruction | None
    """None where the module is not known."""
    name: str
    """The name of the instruction; "" where not even that is known."""
    shape_index: tuple[int, ...] = ()
    """The index of the value in the instruction's result."""
    shape: Shape | None = None
    """The shape of the value; None where it is not known."""


class Values(NamedTuple):
    """The values of a plan. The number of a value is its position in these lists."""

    sizes: Sequence[int]
    spaces: Sequence[int]
    kinds: Sequence[int]
    """Numbers of `KINDS`."""
    allocations: Sequence[int]
    """The position of the value's allocation in `Plan.allocations`; -1 where there is none."""
    offsets: Sequence[int]
    """Bytes from the allocation's start; -1 where the offset is not known."""
    place: Callable[[int], Place]
    """Gives where the value of a number is made."""


class Lives(NamedTuple):
    """The lives of values: spans of steps in which a value takes memory. A value may live several times. The number of
    a life is its position in these lists."""

    values: Sequence[int]
    """The number of the value that lives."""
    begins: Sequence[int]
    """The first step of the life."""
    ends: Sequence[int]
    """The last step of the life."""
    heirs: Mapping[int, Sequence[tuple[int, int]]] = {}
    """Number of a life → the values that take over its memory, each as the step from which it does and its number."""

    def at(self, step: int) -> Iterator[int]:
        """The numbers of the lives that include a step."""
        begins, ends = self.begins, self.ends
        for life in range(len(begins)):
            if begins[life] <= step <= ends[life]:
                yield life


class Steps(NamedTuple):
    """The steps of the program."""

    values: Sequence[int]
    """A value that begins in each step; -1 where none does, as in step 0, before the first instruction, or where
    `instructions` says what runs."""
    totals: Sequence[int]
    """The bytes of all values that live in each step."""
    instructions: Sequence[HloInstruction] | None = None
    """The instructions that run in steps 1, 2, …; None where steps are not instructions."""

    @property
    def peak(self) -> int:
        """The first step with the largest total."""
        return max(range(len(self.totals)), key=self.totals.__getitem__)


class Plan(NamedTuple):
    """The memory of a program."""

    module: HloModule | None
    allocations: tuple[Allocation, ...]
    values: Values
    lives: Lives
    steps: Steps
    unpadded_peak: int | None
    """The peak of the same plan if each value took the bytes of its elements alone, without tiles and padding; None
    where shapes or heap traces are not known."""
    notes: tuple[str, ...] = ()
    """Remarks for readers on where the plan comes from."""
    bounds: tuple[int, int | None] | None = None
    """The least and the most that the peak of an estimated plan can be, the most None where it is not known. None for a
    plan that is exact."""
    space: int | None = None
    """The memory space that the plan is of; None for all of them together."""
    target: Target | None = None
    """The device whose sizes the values have; None where the sizes are those of the layouts, or of the compiler."""

    def totals_by(self, groups: Sequence[int]) -> dict[int, list[int]]:
        """The bytes that live in each step, for each group of values that has bytes. `groups` has the group of each
        value, as `values.kinds` does."""
        sizes, steps = self.values.sizes, len(self.steps.totals)
        changes: dict[int, list[int]] = {}
        for value, begin, end in zip(self.lives.values, self.lives.begins, self.lives.ends, strict=True):
            change = changes.get(groups[value])
            if change is None:
                change = changes[groups[value]] = [0] * (steps + 1)
            change[begin] += sizes[value]
            change[end + 1] -= sizes[value]
        return {group: list(accumulate(changes[group]))[:steps] for group in sorted(changes)}


def in_space(plan: Plan, space: int) -> Plan:
    """The part of a plan that is in one memory space. Raises NotFoundError where nothing is in it."""
    values, lives = plan.values, plan.lives
    known = sorted({*values.spaces, *[each.space for each in plan.allocations]})
    if space not in known:
        names = ", ".join([f"{each} ({SPACES[each]})" if each in SPACES else str(each) for each in known])
        raise NotFoundError(
            f"nothing of the program is in memory space {space}; there is {names or 'none'}",
            kind="memory space",
            name=str(space),
            field="space",
        )
    kept = [life for life, value in enumerate(lives.values) if values.spaces[value] == space]
    number = {life: position for position, life in enumerate(kept)}
    position = {
        each: count for count, each in enumerate([n for n, own in enumerate(plan.allocations) if own.space == space])
    }
    steps = len(plan.steps.totals)
    totals = plan.totals_by(values.spaces).get(space, [0] * steps)
    made = plan._replace(
        allocations=tuple([plan.allocations[each] for each in position]),
        values=values._replace(allocations=[position.get(each, -1) for each in values.allocations]),
        lives=Lives(
            [lives.values[life] for life in kept],
            [lives.begins[life] for life in kept],
            [lives.ends[life] for life in kept],
            {number[life]: heirs for life, heirs in lives.heirs.items() if life in number},
        ),
        steps=plan.steps._replace(totals=totals),
        space=space,
    )
    if plan.unpadded_peak is not None:
        made = made._replace(unpadded_peak=_unpadded_peak(made))
    if plan.bounds is not None and totals != plan.steps.totals:
        elsewhere = plan.steps.totals[0] - totals[0]
        most = plan.bounds[1]
        least = totals[0]
        if most is None:  # nor is it known which constants the compiler keeps
            least -= sum([each.size for each in made.allocations if each.is_constant])
        if most is not None:
            every = sum([values.sizes[value] for value in set(made.lives.values)])
            most = max(max(totals), min(most - elsewhere, every))
        made = made._replace(bounds=(least, most))
    return made


def _unpadded_peak(plan: Plan) -> int:
    sizes = list(plan.values.sizes)
    for value in set(plan.lives.values):
        shape = plan.values.place(value).shape
        if shape is not None and (shape.is_array or shape.is_buffer) and not shape.is_unbounded_dynamic:
            sizes[value] = min(sizes[value], byte_size_of(shape))
    return max(plan._replace(values=plan.values._replace(sizes=sizes)).totals_by([0] * len(sizes)).get(0, [0]))


def may_merge(instruction: HloInstruction) -> bool:
    """Whether the result of an instruction may merge values of other computations, as the state of a loop does. Another
    value of the same memory is more informative."""
    return operation_of(instruction.opcode).source in (
        ResultSource.ARGUMENT,
        ResultSource.STATE,
        ResultSource.BRANCH,
        ResultSource.CALLED,
    )


def holder_of(plan: Plan, life: int, step: int) -> Place:
    """Where the value is made that has the memory of a life in a step: the last value that took the memory over by then
    and is as informative and as large, else the value of the life itself."""
    values, lives = plan.values, plan.lives
    number = lives.values[life]
    for begin, heir in reversed(lives.heirs.get(life, ())):
        if begin <= step and values.sizes[heir] == values.sizes[number]:
            place = values.place(heir)
            if place.instruction is not None and not may_merge(place.instruction):
                return place
    return values.place(number)


def origin_of(instruction: HloInstruction) -> HloInstruction:
    """The instruction whose metadata says where a value comes from: the instruction itself, or another one if it has no
    metadata.

    For a fusion, that is the last fused instruction with metadata; for another instruction, such as a copy that the
    compiler inserted, its first operand, or what that comes from by the same rule.
    """
    found = instruction
    for _ in range(_MOST_STEPS_TO_ORIGIN):
        if found.op_metadata.op_name:
            return found
        if operation_of(found.opcode).fuses_called_computation and found.called_computations:
            for fused in reversed(found.called_computations[0].instructions):
                if fused.op_metadata.op_name:
                    return fused
        if not found.operands:
            break
        found = found.operands[0]
    return instruction


def padding_of(shape: Shape, size: int) -> int:
    """The bytes of a value of `size` bytes that hold no element; 0 for a tuple, a token and an array of unknown size.

    >>> padding_of(Shape.parse("f32[3,5]{1,0:T(8,128)}"), 4096)
    4036
    """
    if shape.is_tuple or not (shape.is_array or shape.is_buffer) or shape.is_unbounded_dynamic:
        return 0
    return max(0, size - byte_size_of(shape))
