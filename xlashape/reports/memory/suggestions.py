"""Changes that a person can write in JAX to make a program's memory peak smaller, each with the new peak and bounds.

    donate       arguments whose memory outputs of the same shape can take
    recompute    what a function keeps for the backward pass, or what lives across the peak without being used there
                 (jax.checkpoint)
    precision    f32 temporaries as bf16
    padding      another layout where tiles pad what lives at the peak
    copy         copies at the peak that an edit of the program removes, as the report `copies` finds them
    smaller      a dimension of the arguments, such as the batch, at half its size, or at the largest that is within
                 the limit

A change is simulated on the plan: the schedule stays, lives and sizes change. A compiler may schedule and fuse the
changed program otherwise. So only a donation is exact, and only where no copy can become necessary; all other changes
have bounds.

With a limit, the search is for a list of changes that is certain to bring the peak within it: donations first, which
cost nothing, then a smaller dimension.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from heapq import nlargest
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from xlashape.errors import XlashapeError
from xlashape.hlo.flow import behind_bitcasts
from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.module_proto.stack_frames import Frame
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import ResultSource
from xlashape.hlo.ops.registry import operation_of
from xlashape.limits import spend
from xlashape.reports.memory.liveness import keeps_positions, plan_of_module
from xlashape.reports.memory.plan import PARAMETER, TEMPORARY, Plan, holder_of, in_space, origin_of
from xlashape.reports.memory.schedule import array_bytes, leaf_bytes
from xlashape.reports.text import short_bytes
from xlashape.reports.why import why
from xlashape.shape import PrimitiveType, Shape

_LEAST_SHARE: Final = 0.01
"""Changes that save a smaller part of the peak are not listed."""
_MOST_OF_A_KIND: Final = 5
_MOST_DONORS: Final = 40
# Each donation needs a plan of the whole module. The first number is the most instructions that are planned in all, the
# second how many plans may be made in any case.
_MOST_PLANNED: Final = 100_000
_LEAST_PLANNED: Final = 3
_SLACK: Final = 0.1
"""The largest deviation that is assumed of the predicted temporaries of a program with another size, as a fraction of
them. Compilers choose fusions and loops by sizes."""

_CHEAP: Final = frozenset([Opcode.CONSTANT, Opcode.COPY, Opcode.IOTA])
_ARGUMENT: Final = re.compile(r"[.\[]")
"""The characters after the name of an argument in the name of one of its arrays, such as `ws[0]`."""
_AGAIN: Final = re.compile(r"transpose\(|checkpoint|remat")
"""Parts of the names of operations of a backward pass, and of operations that are already computed again."""
_LOOP: Final = re.compile(r"/while/body/")
_Aliases: TypeAlias = tuple[tuple[tuple[int, ...], int], ...]
"""Pairs of the index of an output and the number of the parameter whose memory it takes."""


class MemorySuggestion(NamedTuple):
    """A change of the program."""

    change: str
    """`donate`, `recompute`, `precision`, `padding`, `copy` or `smaller`."""
    text: str
    """The change in words, as one writes it in JAX."""
    new_peak_bytes: int
    saved_bytes: int
    lower_bytes: int
    upper_bytes: int
    """The lower and the upper bound of the new peak."""
    is_exact: bool
    fits: bool | None
    """Whether the new peak is within the limit for certain; None without a limit."""
    flops: int | None
    """Floating-point operations that the change adds; None where that is not counted."""
    name: str | None
    """The instruction that the change is about, or the largest of several; None where it names none."""
    together_bytes: int | None = None
    """For a change in the list that is certain to bring the peak within the limit: the upper bound of the peak with
    this change and those before it."""


def suggestions(plan: Plan, limit: int | None) -> tuple[MemorySuggestion, ...]:
    """The changes for a plan: first the list that is certain to bring the peak within the limit of bytes, then the
    others, the one with the lowest peak first. Empty for a plan without a module."""
    if plan.module is None or not plan.module.computations:
        return ()
    return _Suggestions(plan, plan.module, limit).all()


class _Residual(NamedTuple):
    """A value that lives across the peak and can be computed again."""

    life: int
    instruction: HloInstruction
    origin: HloInstruction
    """The instruction whose metadata says where the value comes from."""
    size: int
    begin: int
    end: int
    """The first and the last step without the value in memory if it is computed again."""


class _Smaller(NamedTuple):
    """The peak with another size of a dimension, and its bounds, in bytes."""

    peak: int
    lower: int
    upper: int


class _Suggestions:
    """Simulates changes on one plan."""

    def __init__(self, plan: Plan, module: HloModule, limit: int | None) -> None:
        self._plan = plan
        self._module = module
        self._limit = limit
        self._peak = max(plan.steps.totals)
        self._peak_step = plan.steps.peak
        self._at_peak = list(plan.lives.at(self._peak_step))
        self._donated: dict[_Aliases, Plan] = {}
        count = sum([len(computation.instructions) for computation in module.computations])
        self._may_plan = max(_LEAST_PLANNED, _MOST_PLANNED // max(1, count))

    def all(self) -> tuple[MemorySuggestion, ...]:
        donations = self._donations()
        found: list[MemorySuggestion] = []
        for each in (
            [suggestion for suggestion, _ in donations],
            self._recomputed(),
            self._precision(),
            self._padding(),
            self._copies(),
            self._smaller(),
        ):
            made = [one for one in each if one.saved_bytes >= _LEAST_SHARE * self._peak]
            found += sorted(made, key=lambda one: (one.new_peak_bytes, not one.is_exact))[:_MOST_OF_A_KIND]
        found.sort(key=lambda one: (one.new_peak_bytes, not one.is_exact, one.text))
        first = self._certain_list(donations)
        texts = {one.text for one in first}
        is_smaller = any(one.change == "smaller" for one in first)
        return (
            *first,
            *[one for one in found if one.text not in texts and not (is_smaller and one.change == "smaller")],
        )

    def _certain_list(self, donations: Sequence[tuple[MemorySuggestion, _Aliases]]) -> list[MemorySuggestion]:
        """The changes that together are certain to bring the peak within the limit; empty if there are none, or if the
        peak is within the limit already."""
        limit = self._limit
        if limit is None or self._peak <= limit:
            return []
        chosen: list[MemorySuggestion] = []
        parameters: set[int] = set()
        peak = self._peak
        for suggestion, aliases in sorted(donations, key=lambda each: (each[0].new_peak_bytes, each[0].text)):
            given = parameters | {parameter for _, parameter in aliases}
            if peak <= limit or not suggestion.is_exact or given == parameters or not self._may_plan:
                continue
            together = self._aliases(given)
            with_it = self._peak_of(together)
            if with_it < peak and self._is_exact(together):
                peak, parameters = with_it, given
                chosen.append(suggestion._replace(together_bytes=peak))
        if peak > limit:
            # The bytes that donations save depend on sizes too, so the smaller program is one with the donations.
            smaller = self._smallest_change(self._aliases(parameters), limit)
            if smaller is None:
                return []
            together_bytes = self._with_size(self._aliases(parameters), *smaller).upper
            chosen.append(self._smaller_of(*smaller)._replace(together_bytes=together_bytes))
        return chosen

    def _made(
        self,
        change: str,
        text: str,
        new_peak: int,
        *,
        bounds: tuple[int, int] | None = None,
        flops: int | None = None,
        name: str | None = None,
    ) -> MemorySuggestion:
        """A suggestion; without bounds it is exact."""
        lower, upper = (new_peak, new_peak) if bounds is None else bounds
        fits = None if self._limit is None else upper <= self._limit
        return MemorySuggestion(
            change,
            text,
            new_peak,
            self._peak - new_peak,
            min(lower, new_peak),
            max(upper, new_peak),
            bounds is None,
            fits,
            flops,
            name,
        )

    # -- donation -----------------------------------------------------------------------------

    def _donations(self) -> list[tuple[MemorySuggestion, _Aliases]]:
        """Arrays of arguments, and whole arguments, whose memory outputs can take: each with these outputs."""
        given = {alias.parameter_number for alias in self._module.head.input_output_alias.entries}
        groups: dict[tuple[int, ...], str] = {}
        parts: dict[str, list[int]] = {}
        for parameter in self._module.entry.parameters:
            number = parameter.number
            if number in given or parameter.shape.is_tuple or not self._aliases({number}):
                continue
            parts.setdefault(_ARGUMENT.split(parameter.metadata.op_name, 1)[0], []).append(number)
            if len(groups) < _MOST_DONORS and self._bytes_of([number]) >= _LEAST_SHARE * self._peak:
                groups[number,] = ""
        for argument, numbers in parts.items():
            if argument and len(numbers) > 1:
                groups[tuple(numbers)] = argument
        found: list[tuple[MemorySuggestion, _Aliases]] = []
        # The largest first, as long as further plans may be made.
        for numbers, argument in sorted(groups.items(), key=lambda item: -self._bytes_of(item[0])):
            aliases = self._aliases(set(numbers))
            if not self._may_plan and aliases not in self._donated:
                break
            new_peak = min(self._peak, self._peak_of(aliases))
            first = self._module.entry.parameters[numbers[0]]
            if argument:
                which = f"{argument} (parameters {', '.join([str(number) for number in numbers])})"
                takes = ", ".join([f"output {output[0]} of {parameter}" for output, parameter in aliases if output])
                text = f"jax.jit(f, donate_argnames='{argument}'), all of {which}: outputs take their memory, {takes}"
            else:
                output = aliases[0][0]
                takes = f"output {output[0]}" if output else "the output"
                which = f"{first.metadata.op_name or first.name} (parameter {numbers[0]})"
                text = f"jax.jit(f, donate_argnums=…) with argument {which}: {takes} takes its memory"
            bounds = None if self._is_exact(aliases) else (new_peak, self._peak)
            found.append(
                (self._made("donate", text, new_peak, bounds=bounds, name=None if argument else first.name), aliases)
            )
        return found

    def _bytes_of(self, numbers: Iterable[int]) -> int:
        parameters = self._module.entry.parameters
        return sum([leaf_bytes(parameters[number].shape, self._plan.target) for number in numbers])

    def _aliases(self, numbers: set[int]) -> _Aliases:
        """Which output takes the memory of which of these parameters: each output the first of its shape that is left,
        as JAX chooses."""
        root = self._module.entry.root
        taken = {tuple(alias.output_shape_index) for alias in self._module.head.input_output_alias.entries}
        outputs = (
            [((number,), shape) for number, shape in enumerate(root.shape.tuple_shapes)]
            if root.shape.is_tuple
            else [((), root.shape)]
        )
        left: dict[Shape, deque[int]] = {}
        for number in sorted(numbers):
            left.setdefault(self._module.entry.parameters[number].shape, deque()).append(number)
        return tuple(
            [(index, left[shape].popleft()) for index, shape in outputs if index not in taken and left.get(shape)]
        )

    def _plan_with(self, aliases: _Aliases) -> Plan:
        """The estimated plan of the module with donations."""
        known = self._donated.get(aliases)
        if known is None:
            changed = self._module
            if aliases:
                self._may_plan -= 1
                proto = self._module.to_proto()
                for output, parameter in aliases:
                    proto.input_output_alias.entries.add(output_shape_index=output, parameter_number=parameter, kind=1)
                changed = HloModule.from_proto(proto)
            known = plan_of_module(changed, self._plan.target)
            known = self._donated[aliases] = known if self._plan.space is None else in_space(known, self._plan.space)
        return known

    def _peak_of(self, aliases: _Aliases) -> int:
        """The peak with donations: the present peak less the bytes that they save in the estimated plan, which does not
        model XLA's heap."""
        saved = max(self._plan_with(()).steps.totals) - max(self._plan_with(aliases).steps.totals)
        return self._peak - saved

    def _is_exact(self, aliases: _Aliases) -> bool:
        entry = self._module.entry
        return all(
            _needs_no_copy(entry.parameters[parameter], _made_by(entry.root, output[0] if output else None))
            for output, parameter in aliases
        )

    # -- what lives long ----------------------------------------------------------------------

    def _recomputed(self) -> Iterator[MemorySuggestion]:
        """Suggestions to recompute: one for all that a function keeps for the backward pass, and one for each value
        that is kept for another reason."""
        kept: dict[tuple[str, str], list[_Residual]] = {}
        alone: list[_Residual] = []
        for each in self._residuals():
            op_name = each.origin.metadata.op_name
            if "jvp(" in op_name and not _AGAIN.search(op_name):
                kept.setdefault(_function(each.origin), []).append(each)
            elif "transpose(" not in op_name:
                alone.append(each)
        for each in nlargest(_MOST_OF_A_KIND, alone, key=lambda each: each.size):
            text = (
                f"compute {_where(each.origin)} again where it is used after the peak, from "
                "jax.lax.optimization_barrier(…) of its inputs"
            )
            yield self._without([each], text)
        for (function, _), group in nlargest(
            _MOST_OF_A_KIND, kept.items(), key=lambda item: sum([each.size for each in item[1]])
        ):
            group.sort(key=lambda each: -each.size)
            size = short_bytes(sum([each.size for each in group]))
            many = f"{len(group)} values of {size}" if len(group) > 1 else f"a value of {size}"
            name = group[0].origin.metadata.op_name
            text = (
                f"jax.checkpoint({function}): the backward pass computes {many}, such as {name}, again instead "
                "of keeping them"
            )
            yield self._without(group, text.replace("keeping them", "keeping it") if len(group) == 1 else text)

    def _residuals(self) -> Iterator[_Residual]:
        """The temporaries that live across the peak and can be computed again."""
        plan = self._plan
        peak = self._peak_step
        for life in self._at_peak:
            value = plan.lives.values[life]
            begin, end = plan.lives.begins[life], plan.lives.ends[life]
            if plan.values.kinds[value] != TEMPORARY or not begin < peak < end:
                continue
            instruction = holder_of(plan, life, peak).instruction
            if instruction is None or _is_not_computed(instruction):
                continue
            origin = origin_of(instruction)
            name = origin.metadata.op_name
            if origin.opcode == Opcode.PARAMETER or (name and "/" not in name):  # it only moves an argument
                continue
            last = self._instruction_of(end)
            end -= last is not None and last in instruction.users
            yield _Residual(life, instruction, origin, plan.values.sizes[value], begin + 1, end)

    def _without(self, group: Sequence[_Residual], text: str) -> MemorySuggestion:
        """A suggestion to compute these values again where they are used, with the remaining peak. Their operands stay
        in memory until then, and while values are computed again both may be in memory."""
        totals = self._plan.steps.totals
        less = [0] * (len(totals) + 1)
        for each in group:
            if each.begin <= each.end:
                less[each.begin] += each.size
                less[each.end + 1] -= each.size
        without = [total - part for total, part in zip(totals, accumulate(less), strict=False)]
        own = {each.instruction for each in group}
        operands = {
            operand
            for instruction in own
            for operand in instruction.operands
            if operand not in own and operand not in self._alive and not _is_not_computed(operand)
        }
        lowest = max(without)
        new_peak = min(self._peak, lowest + sum([leaf_bytes(operand.shape, self._plan.target) for operand in operands]))
        upper = self._peak + sum([each.size for each in group])
        flops = sum([_flops(instruction) for instruction in own])
        return self._made(
            "recompute",
            text,
            new_peak,
            bounds=(min(lowest, self._floor()), upper),
            flops=flops,
            name=group[0].instruction.name,
        )

    @cached_property
    def _alive(self) -> set[HloInstruction | None]:
        """The instructions whose values live at the peak."""
        return {holder_of(self._plan, life, self._peak_step).instruction for life in self._at_peak}

    def _floor(self) -> int:
        """The least peak of a program with the same arguments, outputs and constants: their bytes."""
        plan = self._plan
        values = [plan.lives.values[life] for life in self._at_peak]
        return sum([plan.values.sizes[value] for value in values if plan.values.kinds[value] != TEMPORARY])

    def _instruction_of(self, step: int) -> HloInstruction | None:
        """The instruction that runs in a step."""
        steps = self._plan.steps
        if steps.instructions is not None:
            return steps.instructions[step - 1] if 0 < step <= len(steps.instructions) else None
        value = steps.values[step]
        return None if value < 0 else self._plan.values.place(value).instruction

    def _peak_without(self, life: int, less: int) -> int:
        """The peak if a life took `less` bytes less."""
        begin, end = self._plan.lives.begins[life], self._plan.lives.ends[life]
        totals = self._plan.steps.totals
        inside = max(totals[begin : end + 1], default=0) - less
        return max([inside, *totals[:begin], *totals[end + 1 :]])

    # -- sizes --------------------------------------------------------------------------------

    def _precision(self) -> Iterator[MemorySuggestion]:
        """All f32 temporaries as bf16. Where a device has no bf16, it converts each to f32 and back, and both live for
        a while."""
        plan = self._plan
        sizes = list(plan.values.sizes)
        for value in set(plan.lives.values):
            if plan.values.kinds[value] == TEMPORARY and _is_f32(plan.values.place(value).shape):
                sizes[value] -= sizes[value] // 2
        new_peak = max(_totals(plan, sizes))
        if new_peak < self._peak:
            values = [plan.lives.values[life] for life in self._at_peak]
            both = sum([plan.values.sizes[value] for value in values if _is_f32(plan.values.place(value).shape)])
            text = (
                "bf16 instead of f32 for temporaries: x.astype(jnp.bfloat16) where they begin, or a policy of "
                "mixed precision; results change, and a device without bf16 saves less or nothing"
            )
            yield self._made("precision", text, new_peak, bounds=(min(new_peak, self._floor()), self._peak + both // 2))

    def _padding(self) -> Iterator[MemorySuggestion]:
        """Other layouts of values that tiles pad at the peak."""
        plan = self._plan
        for life in self._at_peak:
            value = plan.lives.values[life]
            shape = plan.values.place(value).shape
            if shape is None or shape.is_tuple or shape.layout is None or not shape.layout.tiles:
                continue
            advice = next((each for each in why(shape).suggestions if each.is_lossless and each.saved_bytes > 0), None)
            if advice is not None:
                name = plan.values.place(value).name
                new_peak = self._peak_without(life, min(advice.saved_bytes, plan.values.sizes[value]))
                how = f"{advice.jax}, {advice.text}" if advice.jax else advice.text
                yield self._made("padding", f"{name} as x: {how}", new_peak, bounds=(new_peak, self._peak), name=name)

    def _copies(self) -> Iterator[MemorySuggestion]:
        """Copies that live at the peak and that an edit of the program removes."""
        lives = {name: life for life in self._at_peak if (name := self._copied(life)) is not None}
        if not lives:
            return
        from xlashape.reports.copies import copies  # deferred: it imports indexing maps, and few ask for suggestions

        try:
            report = copies(self._module)
        except XlashapeError:  # the module is not a compiled program
            return
        for each in report.suggestions:
            removed = [lives[name] for name in each.removes if name in lives]
            if removed and "donate" not in each.kinds:
                values = self._plan.values
                life = max(removed, key=lambda one: values.sizes[self._plan.lives.values[one]])
                value = self._plan.lives.values[life]
                new_peak = self._peak_without(life, values.sizes[value])
                name = values.place(value).name
                text = f"{each.text}: {name} is not needed then"
                yield self._made("copy", text, new_peak, bounds=(new_peak, self._peak), name=name)

    def _copied(self, life: int) -> str | None:
        """The name of the copy, transpose or fusion that makes the value of a life outside parameters; else None."""
        value = self._plan.lives.values[life]
        instruction = self._plan.values.place(value).instruction
        if instruction is None or self._plan.values.kinds[value] == PARAMETER:
            return None
        return instruction.name if instruction.opcode in (Opcode.COPY, Opcode.TRANSPOSE, Opcode.FUSION) else None

    # -- a smaller program --------------------------------------------------------------------

    def _smaller(self) -> Iterator[MemorySuggestion]:
        """Another size of the batch, and of the sequence: the largest that brings the peak within the limit for
        certain; half where there is no limit, no such size, or no need."""
        for dimensions in self._dimensions():
            sized: list[tuple[int, int]] = []
            if self._limit is not None and self._peak > self._limit:
                sized = [
                    found for each in dimensions if (found := self._largest_size((), each, self._limit)) is not None
                ]
            sized = sized or [(dimension, dimension // 2) for dimension in dimensions]
            made = [self._smaller_of(dimension, size) for dimension, size in sized]
            if made:
                yield min(made, key=lambda each: (each.new_peak_bytes, each.text))

    def _smallest_change(self, aliases: _Aliases, limit: int) -> tuple[int, int] | None:
        """The dimension that has to shrink least for the peak to be certainly within the limit, and its new size; None
        where no size is enough. The batch is tried before the sequence."""
        for dimensions in self._dimensions():
            found = [size for each in dimensions if (size := self._largest_size(aliases, each, limit)) is not None]
            if found:
                return max(found, key=lambda each: (each[1] / each[0], each))
        return None

    def _largest_size(self, aliases: _Aliases, dimension: int, limit: int) -> tuple[int, int] | None:
        """A dimension, and the largest size of it whose peak is within the limit for certain; None where there is
        none."""
        if self._with_size(aliases, dimension, 1).upper > limit:
            return None
        low, high = 1, dimension
        while high - low > 1:
            middle = (low + high) // 2
            if self._with_size(aliases, dimension, middle).upper <= limit:
                low = middle
            else:
                high = middle
        return dimension, low

    def _dimensions(self) -> tuple[list[int], list[int]]:
        """The sizes of batch dimensions and of sequence dimensions, by a heuristic.

        The batch is the first dimension of an argument, the sequence the second of three or more. Sizes of features,
        which are the last dimensions of arguments of rank 2 or more, and sizes of arguments whose shape an output has,
        such as weights, are neither. If no size remains, the first dimensions of all arguments count as batches.
        """
        entry = self._module.entry
        shape = entry.root.shape
        outputs = set(shape.tuple_shapes) if shape.is_tuple else {shape}
        arrays = [each.shape for each in entry.parameters if each.shape.is_array and each.shape.rank]
        inputs = [each for each in arrays if each not in outputs] or arrays
        last = {each.dimensions[-1] for each in arrays if each.rank > 1}
        last |= {size for each in arrays if each not in inputs for size in each.dimensions}
        batch = {each.dimensions[0] for each in inputs} - last
        sequence = {each.dimensions[1] for each in inputs if each.rank > 2} - last - batch
        if not batch and not sequence:
            first = {each.dimensions[0] for each in arrays}
            batch = first - {each.dimensions[-1] for each in arrays if each.rank > 1} or first
        return sorted([size for size in batch if size > 1]), sorted([size for size in sequence if size > 1])

    def _with_size(self, aliases: _Aliases, dimension: int, size: int) -> _Smaller:
        """The peak if each dimension of size `dimension` had the size `size`.

        XLA chooses fusions by sizes. So in the upper bound temporaries are a fraction larger, and arrays inside a
        fusion that a library runs have memory; in the lower bound there are no temporaries."""
        plan = self._plan_with(aliases) if aliases else self._plan
        offset = self._peak - max(self._plan_with(()).steps.totals) if aliases else 0
        scales: dict[Shape, float] = {}

        def scale(shape: Shape) -> float:
            found = scales.get(shape)
            if found is None:
                found = scales[shape] = _scale(shape, dimension, size)
            return found

        sizes = list(plan.values.sizes)
        for value in set(plan.lives.values):
            shape = plan.values.place(value).shape
            if shape is not None and shape.is_array and dimension in shape.dimensions:
                sizes[value] = round(sizes[value] * scale(shape))
        spend(len(plan.lives.values))
        totals = _totals(plan, sizes)
        peak = max(totals) + offset
        static = sum([sizes[plan.lives.values[life]] for life in plan.lives.at(0)])
        fused = [sum([array_bytes(each, plan.target) * scale(each) for each in shapes]) for shapes in self._inside]
        inside = max(fused, default=0)
        return _Smaller(peak, min(peak, static), peak + round(_SLACK * max(0, peak - static) + inside))

    @cached_property
    def _inside(self) -> list[list[Shape]]:
        """The two largest arrays that each fusion that a library runs computes inside."""
        found: list[list[Shape]] = []
        for computation in self._module.computations:
            for fusion in computation.instructions:
                is_custom = fusion.opcode == Opcode.FUSION and fusion.details.fusion_kind == "kCustom"
                if is_custom and fusion.called_computations:
                    fused = fusion.called_computations[0]
                    shapes = [
                        each.shape
                        for each in fused.instructions
                        if each is not fused.root
                        and each.shape.is_array
                        and not _is_not_computed(each)
                        and each.opcode != Opcode.BROADCAST
                    ]
                    found.append(sorted(shapes, key=array_bytes, reverse=True)[:2])
        return found

    def _smaller_of(self, dimension: int, size: int) -> MemorySuggestion:
        """The suggestion to give dimensions of size `dimension` the size `size`."""
        found = self._with_size((), dimension, size)
        at_peak = [self._plan.values.place(self._plan.lives.values[life]).shape for life in self._at_peak]
        is_line = all(shape is None or not shape.is_array or shape.dimensions.count(dimension) < 2 for shape in at_peak)
        having = [
            each.metadata.op_name or each.name
            for each in self._module.entry.parameters
            if each.shape.is_array and dimension in each.shape.dimensions
        ]
        of = f" (of {', '.join(having[:3])}{', …' if len(having) > 3 else ''})" if having else ""
        text = f"a dimension of {dimension}{of} as {size}"
        if is_line:
            each = (self._peak - found.peak) / (dimension - size)
            fixed = max(0, round(self._peak - each * dimension))
            text += f": the peak is about {fixed:,} bytes and {each:,.0f} for each of its {dimension}"
        return self._made("smaller", text, found.peak, bounds=(found.lower, found.upper))


def _totals(plan: Plan, sizes: Sequence[int]) -> Sequence[int]:
    """The bytes that live in each step if values had other sizes."""
    changed = plan._replace(values=plan.values._replace(sizes=sizes))
    return changed.totals_by([0] * len(sizes)).get(0, [0])


def _scale(shape: Shape, dimension: int, size: int) -> float:
    """By which factor an array grows if its dimensions of size `dimension` have the size `size`."""
    before = array_bytes(shape)
    changed = shape.replace(dimensions=[size if each == dimension else each for each in shape.dimensions])
    return array_bytes(changed) / before if before else 1.0


def _function(origin: HloInstruction) -> tuple[str, str]:
    """The function to wrap in jax.checkpoint so that an instruction's value is not kept, and a text that distinguishes
    the function from others of its name."""
    metadata = origin.metadata
    if _LOOP.search(metadata.op_name):
        return (
            f"the body of the loop at {metadata.source}" if metadata.source else "the body of the loop",
            metadata.op_name,
        )
    frame = metadata.frame
    function = frame.function.rpartition(".")[2] if frame is not None else ""
    if frame is not None and function.isidentifier():
        return f"{function} of {Frame(frame.file).source}", frame.file
    return f"the function at {metadata.source}" if metadata.source else f"the function of {metadata.op_name}", ""


def _where(instruction: HloInstruction) -> str:
    """An instruction in terms of the program: its operation, and the line of the program."""
    metadata = instruction.metadata
    name = metadata.op_name or instruction.name
    return f"{name} ({metadata.source})" if metadata.source else name


def _is_f32(shape: Shape | None) -> bool:
    return shape is not None and shape.is_array and shape.element_type == PrimitiveType.F32


def _made_by(root: HloInstruction, output: int | None) -> HloInstruction:
    """The instruction that makes an output."""
    found = root
    if output is not None and found.opcode == Opcode.TUPLE:
        found = found.operands[output]
    return found


def _hands_on(instruction: HloInstruction) -> bool:
    """Whether the result of an instruction is what others make: the instruction that makes or reads it is another."""
    return operation_of(instruction.opcode).source is not ResultSource.COMPUTED


def _is_not_computed(instruction: HloInstruction) -> bool:
    """Whether an instruction cannot be computed a second time, or costs next to nothing."""
    row = operation_of(instruction.opcode)
    return row.source is not ResultSource.COMPUTED or row.has_effect or row.opcode in _CHEAP


def _needs_no_copy(parameter: HloInstruction, made: HloInstruction) -> bool:
    """Whether every use of a parameter comes before the instruction that overwrites it, in any order that operands
    allow."""
    made = behind_bitcasts(made)
    if made.computation is not parameter.computation or made is parameter or _hands_on(made):
        return False
    if any(_hands_on(user) for user in parameter.users):
        return False
    read = [number for number, operand in enumerate(made.operands) if operand is parameter]
    if read and not keeps_positions(made, read):
        return False
    before: set[HloInstruction] = set()
    pending = list(made.operands)
    while pending:
        instruction = pending.pop()
        if instruction not in before:
            before.add(instruction)
            pending += [*instruction.operands, *instruction.control_predecessors]
    return all(user in before for user in parameter.users if user is not made)


def _flops(instruction: HloInstruction) -> int:
    """About how many floating-point operations computing an instruction again takes: two for each product of a dot,
    else one for each element, fused instructions included."""
    parts: Iterable[HloInstruction] = (instruction,)
    if instruction.opcode == Opcode.FUSION and instruction.called_computations:
        parts = instruction.called_computations[0].instructions
    total = 0
    for each in parts:
        row = operation_of(each.opcode)
        if row.is_given or row.moves_no_data or each.opcode == Opcode.BROADCAST:
            continue
        elements = 1
        for size in each.shape.dimensions if each.shape.is_array else ():
            elements *= size
        if each.opcode == Opcode.DOT and each.operands:
            for dimension in each.details.dot_dimension_numbers.lhs_contracting_dimensions:
                elements *= each.operands[0].shape.dimensions[dimension]
            elements *= 2
        total += elements
    return total
