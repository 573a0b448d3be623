"""What `memory` answers: totals by XLA's formulas, what lives at the peak, and how the bytes that live change along the
program.

peak_bytes               the most bytes that live at once, in all memory spaces together
                         (CompiledMemoryStats.peak_memory_in_bytes)
argument_bytes           allocations of parameters             output_bytes    those that may hold a part of the result
alias_bytes              allocations that are both             constant_bytes  allocations of constants
temp_bytes               all other allocations that are not thread-local
host_…_bytes             arguments, outputs, aliases and temporaries in the host's memory; the five totals above leave
                         the host's memory out
total_allocation_bytes   all allocations of memory space 0
indefinite_bytes         those of memory space 0 that live throughout the program, or in each call of a computation
unpadded_peak_bytes      the peak if values took the bytes of their elements alone
fragmentation_bytes      the bytes of temporary allocations beyond the most that ever live in them at once
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from xlashape.base.frozen import Frozen, set_field
from xlashape.base.math import byte_text
from xlashape.base.similar import did_you_mean
from xlashape.errors import InvalidArgumentError, NotFoundError
from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode
from xlashape.reports.memory.declaration import REPORT, limit_of
from xlashape.reports.memory.plan import (
    CONSTANT,
    HOST,
    KINDS,
    OUTPUT,
    PARAMETER,
    SPACES,
    TEMPORARY,
    Allocation,
    Place,
    Plan,
    holder_of,
    in_space,
    origin_of,
    padding_of,
)
from xlashape.reports.memory.schedule import flat_schedule
from xlashape.reports.memory.suggestions import MemorySuggestion, suggestions
from xlashape.reports.report import Computed, Report
from xlashape.reports.text import short_bytes, sparkline
from xlashape.shape import Shape, ShapeIndex, Target


class LiveBuffer(NamedTuple):
    """A value that takes memory. What follows from its instruction is None where the module is not known."""

    name: str
    """The name of the instruction that makes the value; `allocation 3` where only the allocation is known."""
    shape_index: str | None
    """Where the value is in the instruction's result, such as `{1}`; None where it is the whole result."""
    opcode: Opcode | UnknownOpcode | None
    shape: Shape | None
    bytes: int
    padding_bytes: int | None
    """The part of `bytes` that holds no element; None where the shape is not known."""
    allocation: int | None
    """XLA's index of the allocation that the value is in; None where it is in none."""
    offset: int | None
    """The bytes from the start of the allocation to the value; None where that is not known."""
    space: int
    """XLA's number of the memory space."""
    kind: str
    """`parameter`, `temporary`, `output` or `constant`."""
    begin: int
    end: int
    """The first and the last step of the timeline in which the value takes memory."""
    op_name: str | None
    source: str | None
    computation: str | None
    instruction: HloInstruction | None = None
    """The instruction that makes the value; None where the module is not known. It is not a column."""


class Step(NamedTuple):
    """A row of the timeline: the bytes that live in one step of the program."""

    step: int
    name: str
    """The instruction that runs; "" before the first, and where it is not known."""
    computation: str | None
    bytes: int
    """All bytes that live in the step. The next four fields divide them by kind."""
    parameter_bytes: int
    temporary_bytes: int
    output_bytes: int
    constant_bytes: int
    spaces: dict[int, int]
    """Memory space, but for 0 → the bytes in it."""
    is_peak: bool
    """Whether it is the first step with the most bytes."""


class MemorySpace(NamedTuple):
    """The totals of one memory space."""

    space: int
    name: str | None
    """`main memory`, `on-chip memory` or `host memory`; None for a space that XLA's compilers use differently."""
    peak_bytes: int
    """The most bytes that live at once in this space."""
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temp_bytes: int
    constant_bytes: int
    total_allocation_bytes: int


class ProgramMemory(Frozen, Computed[LiveBuffer]):
    """The memory of a program: the answer of `memory`. Its rows are `peak_buffers`."""

    report: ClassVar[Report] = REPORT

    plan: Plan
    """The values, the spans of steps in which they take memory, and the steps, as lists of numbers."""
    module: HloModule | None
    """The module, where it is known."""
    said_peak: int | None
    """The peak that the compiler itself reported; None where it reported none."""
    frames: str | None
    """What `source` names: "own" for the line of the user's own code, "all" for every frame of the call stack; None for
    the choice of the enclosing context `showing_frames`."""

    def __init__(
        self, plan: Plan, *, said_peak: int | None = None, notes: Sequence[str] = (), frames: str | None = None
    ) -> None:
        """`said_peak` is the peak that the compiler itself reported."""
        set_field(self, "frames", frames)
        set_field(self, "plan", plan)
        set_field(self, "module", plan.module)
        set_field(self, "said_peak", said_peak)
        set_field(self, "_notes", (*plan.notes, *notes))

    def in_space(self, space: int) -> ProgramMemory:
        """The answer about one memory space alone. Raises NotFoundError where nothing is in it."""
        return ProgramMemory(in_space(self.plan, space), notes=self.notes[len(self.plan.notes) :], frames=self.frames)

    @cached_property
    def of_main_memory(self) -> ProgramMemory:
        """What a limit is about: the device's main memory alone, where the answer is about it and other spaces."""
        spaces = {each.space for each in self.spaces if each.peak_bytes}
        return self.in_space(0) if self.plan.space is None and len(spaces) > 1 and 0 in spaces else self

    def showing(self, frames: str) -> ProgramMemory:
        """The same answer with another value of `frames`: "own" or "all"."""
        notes = self.notes[len(self.plan.notes) :]
        return ProgramMemory(self.plan, said_peak=self.said_peak, notes=notes, frames=frames)

    # -- totals -------------------------------------------------------------------------------

    @property
    def is_estimate(self) -> bool:
        """Whether the peak is estimated, because XLA's own assignment of buffers or its heap traces are not known."""
        return self.plan.bounds is not None

    @property
    def target(self) -> Target | None:
        """The device whose sizes are counted; None where the sizes are those of the layouts, or of the compiler."""
        return self.plan.target

    @property
    def peak_bytes(self) -> int:
        """The most bytes that live at once."""
        return self.plan.steps.totals[self.peak_step]

    @property
    def lower_bytes(self) -> int:
        """The lower bound of the peak. The peak itself, unless it is an estimate."""
        return self.peak_bytes if self.plan.bounds is None else self.plan.bounds[0]

    @property
    def upper_bytes(self) -> int | None:
        """The upper bound of the peak. The peak itself, unless it is an estimate; None where no bound is known."""
        return self.peak_bytes if self.plan.bounds is None else self.plan.bounds[1]

    @property
    def unpadded_peak_bytes(self) -> int | None:
        """The peak if values took the bytes of their elements alone, without tiles; None where shapes or heap traces
        are not known."""
        return self.plan.unpadded_peak

    @cached_property
    def peak_step(self) -> int:
        """The first step of the timeline in which `peak_bytes` live."""
        return self.plan.steps.peak

    @property
    def peak_instruction(self) -> str | None:
        """The instruction that runs at the peak; None where the peak is before the first instruction, or where the
        instruction is not known."""
        return self.name_of_step(self.peak_step) or None

    def _sum(self, is_in: Callable[[Allocation], bool], *, host: bool = False) -> int:
        is_host = self._is_host
        return sum(
            [
                each.size
                for each, hosted in zip(self.plan.allocations, is_host, strict=True)
                if hosted == host and is_in(each)
            ]
        )

    @cached_property
    def _is_host(self) -> list[bool]:
        """Whether each allocation is in the host's memory: by the layout of its first value, or by its space if it has
        no values. An allocation whose first value is a tuple, or has no known shape, is not."""
        found: list[bool] = []
        for each in self.plan.allocations:
            shape = self.plan.values.place(each.values[0]).shape if each.values and self.module is not None else None
            if shape is not None and not shape.is_tuple:
                found.append(shape.layout is not None and shape.layout.memory_space == HOST)
            else:
                found.append(each.space == HOST and not each.values)
        return found

    @cached_property
    def argument_bytes(self) -> int:
        """The bytes of allocations of parameters."""
        return self._sum(_is_argument)

    @cached_property
    def output_bytes(self) -> int:
        """The bytes of allocations that may hold a part of the result, parameters among them."""
        return self._sum(_is_output)

    @cached_property
    def alias_bytes(self) -> int:
        """The bytes of allocations of parameters that hold a part of the result."""
        return self._sum(_is_alias)

    @cached_property
    def temp_bytes(self) -> int:
        """The bytes of allocations that hold no parameter, no constant and no part of the result, and are not
        thread-local."""
        return self._sum(_is_temp)

    @cached_property
    def constant_bytes(self) -> int:
        """The bytes of allocations of constants."""
        return self._sum(_is_constant)

    @cached_property
    def host_argument_bytes(self) -> int:
        """`argument_bytes` of the host's memory."""
        return self._sum(_is_argument, host=True)

    @cached_property
    def host_output_bytes(self) -> int:
        """`output_bytes` of the host's memory."""
        return self._sum(_is_output, host=True)

    @cached_property
    def host_alias_bytes(self) -> int:
        """`alias_bytes` of the host's memory."""
        return self._sum(_is_alias, host=True)

    @cached_property
    def host_temp_bytes(self) -> int:
        """`temp_bytes` of the host's memory."""
        return self._sum(_is_temp, host=True)

    @cached_property
    def total_allocation_bytes(self) -> int:
        """The bytes of all allocations of memory space 0."""
        return sum([each.size for each in self.plan.allocations if each.space == 0])

    @cached_property
    def indefinite_bytes(self) -> int:
        """The bytes of allocations of memory space 0 that live throughout the program or in each call of a
        computation."""
        return sum(
            [
                each.size
                for each in self.plan.allocations
                if each.space == 0 and (each.lives_throughout or each.is_thread_local)
            ]
        )

    @cached_property
    def fragmentation_bytes(self) -> int | None:
        """The bytes of temporary allocations beyond the most that ever live in them at once; None for an estimate."""
        if self.is_estimate:
            return None
        plan = self.plan
        by_allocation = plan.totals_by(plan.values.allocations)
        return sum(
            [
                max(0, each.size - max(by_allocation[position]))
                for position, each in enumerate(plan.allocations)
                if _is_temp(each) and position in by_allocation
            ]
        )

    @property
    def fragmentation(self) -> float | None:
        """`fragmentation_bytes` ÷ `temp_bytes`; None for an estimate."""
        if self.fragmentation_bytes is None:
            return None
        return self.fragmentation_bytes / self.temp_bytes if self.temp_bytes else 0.0

    @property
    def missing_bytes(self) -> int | None:
        """How many bytes the compiler's own peak is below `peak_bytes`; None where the compiler gave no peak."""
        return None if self.said_peak is None else self.peak_bytes - self.said_peak

    # -- what lives when ----------------------------------------------------------------------

    @cached_property
    def peak_buffers(self) -> tuple[LiveBuffer, ...]:
        """The values that live at the peak, the largest first. Their bytes add up to `peak_bytes`."""
        return self._live(self.peak_step)

    def _live(self, step: int) -> tuple[LiveBuffer, ...]:
        found = [self._buffer(life, step) for life in self.plan.lives.at(step)]
        found = [each for each in found if each.bytes]
        found.sort(key=lambda each: (-each.bytes, each.begin, each.name))
        return tuple(found)

    def _source(self, origin: HloInstruction) -> str:
        return origin.metadata.source if self.frames is None else origin.metadata.source_text(self.frames)

    def _buffer(self, life: int, step: int) -> LiveBuffer:
        values, lives = self.plan.values, self.plan.lives
        number = lives.values[life]
        place = holder_of(self.plan, life, step)
        instruction, shape, size = place.instruction, place.shape, values.sizes[number]
        allocation = values.allocations[number]
        offset = values.offsets[number]
        origin = None if instruction is None else origin_of(instruction)
        return LiveBuffer(
            name=place.name,
            shape_index=str(ShapeIndex(place.shape_index)) if place.shape_index else None,
            opcode=None if instruction is None else instruction.opcode,
            shape=shape,
            bytes=size,
            padding_bytes=None if shape is None else padding_of(shape, size),
            allocation=None if allocation < 0 else self.plan.allocations[allocation].number,
            offset=None if offset < 0 else offset,
            space=values.spaces[number],
            kind=KINDS[values.kinds[number]],
            begin=lives.begins[life],
            end=lives.ends[life],
            op_name=None if origin is None else origin.op_metadata.op_name or None,
            source=None if origin is None else self._source(origin) or None,
            computation=None if instruction is None else instruction.computation.name,
            instruction=instruction,
        )

    def buffers(self) -> Iterator[LiveBuffer]:
        """Every value that ever takes memory, in no certain order. A value that lives twice comes twice."""
        for life in range(len(self.plan.lives.values)):
            yield self._buffer(life, self.plan.lives.begins[life])

    @cached_property
    def timeline(self) -> tuple[Step, ...]:
        """The bytes that live in each step of the program. Step 0 is before the first instruction; the largest `bytes`
        are `peak_bytes`."""
        plan = self.plan
        nothing = [0] * len(plan.steps.totals)
        by_kind = plan.totals_by(plan.values.kinds)
        kinds = [by_kind.get(kind, nothing) for kind in range(len(KINDS))]
        spaces = [(space, totals) for space, totals in plan.totals_by(plan.values.spaces).items() if space]
        peak = self.peak_step
        rows: list[Step] = []
        for step, total in enumerate(plan.steps.totals):
            place = self._place_of_step(step)
            instruction = None if place is None else place.instruction
            rows.append(
                Step(
                    step=step,
                    name="" if place is None else place.name,
                    computation=None if instruction is None else instruction.computation.name,
                    bytes=total,
                    parameter_bytes=kinds[PARAMETER][step],
                    temporary_bytes=kinds[TEMPORARY][step],
                    output_bytes=kinds[OUTPUT][step],
                    constant_bytes=kinds[CONSTANT][step],
                    spaces={space: totals[step] for space, totals in spaces},
                    is_peak=step == peak,
                )
            )
        return tuple(rows)

    def _place_of_step(self, step: int) -> Place | None:
        steps = self.plan.steps
        if steps.instructions is not None:
            instruction = steps.instructions[step - 1] if step else None
            return None if instruction is None else Place(instruction, instruction.name)
        value = steps.values[step]
        return None if value < 0 else self.plan.values.place(value)

    def name_of_step(self, step: int) -> str:
        """The name of the instruction that runs in a step; "" before the first, and where it is not known."""
        place = self._place_of_step(step)
        return "" if place is None else place.name

    @cached_property
    def spaces(self) -> tuple[MemorySpace, ...]:
        """The totals of each memory space. Each has its own peak, whereas `peak_bytes` adds up all spaces in one step,
        as XLA does."""
        plan = self.plan
        peaks = {space: max(totals) for space, totals in plan.totals_by(plan.values.spaces).items()}
        found: list[MemorySpace] = []
        for space in sorted({*peaks, *[each.space for each in plan.allocations]}):
            own = [each for each in plan.allocations if each.space == space]
            found.append(
                MemorySpace(
                    space,
                    SPACES.get(space),
                    peaks.get(space, 0),
                    *[
                        sum([each.size for each in own if is_in(each)])
                        for is_in in (_is_argument, _is_output, _is_alias, _is_temp, _is_constant, _is_any)
                    ],
                )
            )
        return tuple(found)

    def at(self, instruction: str | HloInstruction | int) -> tuple[LiveBuffer, ...]:
        """The values that live while an instruction runs, the largest first. A number is a step of the timeline.

        Where XLA assigned the buffers, only instructions that take memory have a step. For another the answer is
        what lives at the last instruction before it that takes some, also if its memory is free since. Raises
        NotFoundError for an instruction that the program does not have or that does not run by itself, such as a fused
        one, and for a step that does not exist.
        """
        if isinstance(instruction, int):
            if not 0 <= instruction < len(self.plan.steps.totals):
                raise NotFoundError(
                    f"there is no step {instruction}: the timeline has steps 0 to {len(self.plan.steps.totals) - 1}",
                    kind="step",
                    name=str(instruction),
                )
            return self._live(instruction)
        name = instruction if isinstance(instruction, str) else instruction.name
        return self._live(self._step_of(name.removeprefix("%")))

    @cached_property
    def _steps_by_name(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for step in range(len(self.plan.steps.totals) - 1, 0, -1):
            found[self.name_of_step(step)] = step
        return found

    def _step_of(self, name: str) -> int:
        step = self._steps_by_name.get(name)
        if step is not None:
            return step
        if self.module is not None:
            order = [each.name for each in flat_schedule(self.module).instructions]
            if name in order:
                last = 0
                for each in order:
                    last = self._steps_by_name.get(each, last)
                    if each == name:
                        return last
        names = [*self._steps_by_name]
        raise NotFoundError(
            f"no instruction {name!r} takes memory in this program{did_you_mean(name, names)}",
            kind="instruction",
            name=name,
            field="at",
        )

    def sums_of(self, rows: Sequence[LiveBuffer]) -> dict[str, Any]:
        """The sums over these values at the peak."""
        total = sum([each.bytes for each in rows])
        padding = sum([each.padding_bytes or 0 for each in rows])
        return {"bytes": total, "share": total / self.peak_bytes, "padding_bytes": padding, "buffers": len(rows)}

    def suggest(self, limit: int | None = None) -> tuple[MemorySuggestion, ...]:
        """Changes that would make the peak smaller, first those that cost the author least: donations, copies, padding,
        recomputing, precision, a smaller size; of a kind the one with the lowest peak. With a limit in bytes, each
        says whether it alone brings the peak within it, and those of the list that together does so have
        `together_bytes`. A limit, and every peak here, is of the main memory, unless the answer is about another space.

        Only a donation is ever exact. Raises InvalidArgumentError for a limit that is no number of bytes.
        """
        # The check is for callers without types.
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgumentError(f"limit takes a number of bytes, 1 or more, not {limit!r}", field="limit")
        return suggestions(self.of_main_memory.plan, limit)

    def fit(self, limit: int | str | None = None) -> tuple[MemorySuggestion, ...]:
        """`suggest` under the name of the command line's option `--fit`. The limit may be text: `16GiB`, digits alone,
        or `80%` of the present peak."""
        return self.suggest(None if limit is None else limit_of(limit, self.of_main_memory.peak_bytes))

    # -- text ---------------------------------------------------------------------------------

    def headline(self) -> str:
        """Five lines of totals; where they say more, the peaks of memory spaces and the timeline as a line of bars; and
        remarks on the numbers."""
        where = f" on {self.target}" if self.target is not None else ""
        spaces = [each for each in self.spaces if each.peak_bytes]
        is_split = self.plan.space is None and (len(spaces) > 1 or any(each.space for each in spaces))
        if is_split and len(spaces) > 1:
            where += " in all memory spaces together"
        if self.peak_instruction:
            where += f", while {self.peak_instruction} runs"
        known = ""
        if self.is_estimate:
            known = f"; an estimate{_between(self.lower_bytes, self.upper_bytes)}"
        donated = f", of which {short_bytes(self.alias_bytes)} in the memory of parameters" if self.alias_bytes else ""
        fragmentation = ""
        if self.fragmentation_bytes:
            fragmentation = f", of which {short_bytes(self.fragmentation_bytes)} fragmentation"
        lines = [
            f"peak         {byte_text(self.peak_bytes)}{where}{known}",
            f"parameters   {byte_text(self.argument_bytes)}",
            f"outputs      {byte_text(self.output_bytes)}{donated}",
            f"temporaries  {byte_text(self.temp_bytes)}{fragmentation}",
            f"constants    {byte_text(self.constant_bytes)}",
        ]
        if is_split:
            parts = [f"{each.name or 'space'} ({each.space}) {short_bytes(each.peak_bytes)}" for each in spaces]
            lines.insert(1, f"by space     {', '.join(parts)}, each at its own peak")
        steps = len(self.plan.steps.totals)
        if steps > 2:
            lines.append(
                f"timeline     {sparkline(self.plan.steps.totals)}  the peak at {self.peak_step:,} of {steps - 1:,}"
            )
        if self.plan.space is not None:
            lines.append(
                "of memory space "
                f"{self.plan.space}{f' ({SPACES[self.plan.space]})' if self.plan.space in SPACES else ''} alone"
            )
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        about = "about " if self.is_estimate else ""
        return f"<ProgramMemory: {about}{byte_text(self.peak_bytes)} at the peak>"


def _between(least: int, most: int | None) -> str:
    """The bounds of an estimate as the end of a line; in full where they differ by less than the rounded ones show."""
    if most is None:
        return f", at least {short_bytes(least)}, and no upper bound is known"
    if least == most:
        return ""
    low, high = short_bytes(least), short_bytes(most)
    if low == high:
        low, high = f"{least:,}", f"{most:,} bytes"
    return f", between {low} and {high}"


def _is_argument(each: Allocation) -> bool:
    return each.is_parameter


def _is_output(each: Allocation) -> bool:
    return each.is_live_out


def _is_alias(each: Allocation) -> bool:
    return each.is_parameter and each.is_aliased


def _is_temp(each: Allocation) -> bool:
    return each.kind == TEMPORARY and not each.is_thread_local


def _is_constant(each: Allocation) -> bool:
    return each.is_constant


def _is_any(_: Allocation) -> bool:
    return True
