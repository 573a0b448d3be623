"""What would make a program's peak smaller: changes that a person can write in JAX, each with the peak that it gives, or the bounds of that.

    donate       an argument whose memory an output of the same shape can take
    recompute    what lives across the peak without being used there: jax.checkpoint
    precision    f32 temporaries as bf16
    padding      another layout where tiles pad what lives at the peak
    copy         copies that live at the peak
    smaller      half of the dimension that most of the peak grows with

A change is simulated on the plan: the schedule stays, lives and sizes change. A compiler that has the change before it may schedule and fuse otherwise. So only a
donation is exact, and only where no copy can become necessary; all else has bounds, of which the upper one is the present peak.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.reports.memory.liveness import keeps_positions, plan_of_module
from xlashape.reports.memory.plan import PARAMETER, TEMPORARY, Plan
from xlashape.reports.memory.schedule import leaf_bytes
from xlashape.reports.why import why
from xlashape.shape import PrimitiveType, Shape

_LEAST_SHARE: Final = 0.01
"""Changes that save a smaller part of the peak are not listed."""
_MOST_OF_A_KIND: Final = 5
_MOST_DONATIONS: Final = 40
_GIVES_ON: Final = frozenset(
    [
        Opcode.TUPLE,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.BITCAST,
        Opcode.WHILE,
        Opcode.CONDITIONAL,
        Opcode.CALL,
        Opcode.PARAMETER,
    ]
)
"""What reads or makes a value here is another instruction, in another computation or behind this one."""
_ELEMENT_OF_PEAK: Final = frozenset([Opcode.PARAMETER, Opcode.CONSTANT])


class Suggestion(NamedTuple):
    """A change of the program."""

    change: str
    """`donate`, `recompute`, `precision`, `padding`, `copy` or `smaller`."""
    text: str
    """What to write."""
    new_peak_bytes: int
    saved_bytes: int
    lower_bytes: int
    upper_bytes: int
    """What the new peak is at least and at most."""
    is_exact: bool
    fits: bool | None
    """Whether the new peak is within the limit for certain; None without a limit."""
    flops: int | None
    """Floating-point operations that the change adds."""
    name: str | None
    """The instruction that it is about."""


def suggestions(plan: Plan, limit: int | None) -> tuple[Suggestion, ...]:
    """The changes for a plan, the one with the lowest peak first."""
    if plan.module is None or not plan.module.computations:
        return ()
    return _Suggestions(plan, plan.module, limit).all()


class _Suggestions:
    def __init__(self, plan: Plan, module: HloModule, limit: int | None) -> None:
        self._plan = plan
        self._module = module
        self._limit = limit
        self._peak = max(plan.steps.totals)
        self._at_peak = list(plan.lives.at(plan.steps.peak))

    def all(self) -> tuple[Suggestion, ...]:
        found: list[Suggestion] = []
        for each in (
            self._donations(),
            self._recomputed(),
            self._precision(),
            self._padding(),
            self._copies(),
            self._smaller(),
        ):
            made = [one for one in each if one.saved_bytes >= _LEAST_SHARE * self._peak]
            found += sorted(made, key=lambda one: one.new_peak_bytes)[:_MOST_OF_A_KIND]
        return tuple(sorted(found, key=lambda one: (one.new_peak_bytes, not one.is_exact, one.text)))

    def _made(
        self,
        change: str,
        text: str,
        new_peak: int,
        *,
        is_exact: bool = False,
        flops: int | None = None,
        name: str | None = None,
    ) -> Suggestion:
        upper = new_peak if is_exact else self._peak
        fits = None if self._limit is None else upper <= self._limit
        return Suggestion(change, text, new_peak, self._peak - new_peak, new_peak, upper, is_exact, fits, flops, name)

    # -- donation -----------------------------------------------------------------------------

    def _donations(self) -> Iterator[Suggestion]:
        """Arguments whose memory an output can take: the first output of the same shape that no other argument has, as JAX chooses it."""
        entry = self._module.entry
        root = entry.root
        aliases = self._module.proto.input_output_alias.entries
        taken = {tuple(alias.output_shape_index) for alias in aliases}
        given = {alias.parameter_number for alias in aliases}
        is_tuple = root.shape.is_tuple
        outputs = list(enumerate(root.shape.tuple_shapes)) if is_tuple else [(0, root.shape)]
        present: int | None = None
        for parameter in entry.parameters[:_MOST_DONATIONS]:
            number = parameter.proto.parameter_number
            size = leaf_bytes(parameter.shape)
            if number in given or parameter.shape.is_tuple or size < _LEAST_SHARE * self._peak:
                continue
            for output, shape in outputs:
                index = (output,) if is_tuple else ()
                if index in taken or shape != parameter.shape:
                    continue
                if present is None:
                    present = max(plan_of_module(self._module).steps.totals)
                changed = HloModule.from_proto(self._module.to_proto())
                changed.proto.input_output_alias.entries.add(output_shape_index=index, parameter_number=number, kind=1)
                saved = present - max(plan_of_module(changed).steps.totals)
                is_exact = _needs_no_copy(parameter, _made_by(root, output if is_tuple else None))
                name = parameter.metadata.op_name or parameter.name
                where = f"output {output}" if is_tuple else "the output"
                text = (
                    f"jax.jit(f, donate_argnums=…) with argument {name} (parameter {number}): {where} takes its memory"
                )
                yield self._made("donate", text, self._peak - max(0, saved), is_exact=is_exact, name=parameter.name)
                break

    # -- what lives long ----------------------------------------------------------------------

    def _recomputed(self) -> Iterator[Suggestion]:
        """Temporaries that live across the peak, each computed again after it."""
        plan = self._plan
        peak = plan.steps.peak
        for life in self._at_peak:
            value = plan.lives.values[life]
            if plan.values.kinds[value] != TEMPORARY:
                continue
            begin, end = plan.lives.begins[life], plan.lives.ends[life]
            place = plan.values.place(value)
            if place.instruction is None or place.instruction.opcode in _ELEMENT_OF_PEAK or not begin < peak < end:
                continue
            size = plan.values.sizes[value]
            instruction = place.instruction
            is_used_at_end = self._instruction_of(end) in instruction.users
            new = self._peak_without({life: size}, begin + 1, end - is_used_at_end)
            what = instruction.metadata.op_name or instruction.name
            source = f" ({instruction.metadata.source})" if instruction.metadata.source else ""
            text = f"jax.checkpoint around what computes {what}{source}: it is computed again where it is used after the peak"
            yield self._made("recompute", text, new, flops=_flops(instruction), name=instruction.name)

    def _instruction_of(self, step: int) -> HloInstruction | None:
        """The instruction that runs in a step."""
        steps = self._plan.steps
        if steps.instructions is not None:
            return steps.instructions[step - 1] if 0 < step <= len(steps.instructions) else None
        value = steps.values[step]
        return None if value < 0 else self._plan.values.place(value).instruction

    def _peak_without(self, less: dict[int, int], begin: int, end: int) -> int:
        """The peak if values took so many bytes less from one step to another."""
        saved = sum(less.values())
        totals = self._plan.steps.totals
        inside = max(totals[begin : end + 1], default=0) - saved
        return max([inside, *totals[:begin], *totals[end + 1 :]])

    def _peak_with(self, sizes: Sequence[int]) -> int:
        """The peak if values had other sizes."""
        changed = self._plan._replace(values=self._plan.values._replace(sizes=sizes))
        totals = changed.totals_by([0] * len(sizes)).get(0, [0])
        return max(totals)

    # -- sizes --------------------------------------------------------------------------------

    def _precision(self) -> Iterator[Suggestion]:
        plan = self._plan
        sizes = list(plan.values.sizes)
        changed = False
        for value in set(plan.lives.values):
            shape = plan.values.place(value).shape
            if plan.values.kinds[value] == TEMPORARY and shape is not None and _is_f32(shape):
                sizes[value] -= sizes[value] // 2
                changed = True
        if changed:
            text = "bf16 instead of f32 for temporaries: x.astype(jnp.bfloat16) where they begin, or a policy of mixed precision; results change"
            yield self._made("precision", text, self._peak_with(sizes))

    def _padding(self) -> Iterator[Suggestion]:
        plan = self._plan
        for life in self._at_peak:
            value = plan.lives.values[life]
            shape = plan.values.place(value).shape
            if shape is None or shape.is_tuple or shape.layout is None or not shape.layout.tiles:
                continue
            advice = next((each for each in why(shape).suggestions if each.is_lossless and each.saved_bytes > 0), None)
            if advice is not None:
                name = plan.values.place(value).name
                begin, end = plan.lives.begins[life], plan.lives.ends[life]
                new = self._peak_without({life: min(advice.saved_bytes, plan.values.sizes[value])}, begin, end)
                how = f"{advice.jax}, {advice.text}" if advice.jax else advice.text
                yield self._made("padding", f"{name} as x: {how}", new, name=name)

    def _copies(self) -> Iterator[Suggestion]:
        plan = self._plan
        for life in self._at_peak:
            value = plan.lives.values[life]
            place = plan.values.place(value)
            if (
                place.instruction is None
                or place.instruction.opcode != Opcode.COPY
                or plan.values.kinds[value] == PARAMETER
            ):
                continue
            new = self._peak_without({life: plan.values.sizes[value]}, plan.lives.begins[life], plan.lives.ends[life])
            text = f"without the copy {place.name}: `xlashape copies` says what forces it and what would remove it"
            yield self._made("copy", text, new, name=place.name)

    def _smaller(self) -> Iterator[Suggestion]:
        """Half of the dimension that most of the peak grows with, of those that begin an argument and that no array at the peak has twice."""
        plan = self._plan
        sizes_at_peak: Counter[int] = Counter()
        squared: set[int] = set()
        candidates = {
            each.shape.dimensions[0]
            for each in self._module.entry.parameters
            if each.shape.is_array and each.shape.rank
        }
        shapes: dict[int, Shape | None] = {
            life: plan.values.place(plan.lives.values[life]).shape for life in self._at_peak
        }
        for life, shape in shapes.items():
            if shape is not None and shape.is_array:
                squared |= {size for size in shape.dimensions if shape.dimensions.count(size) > 1}
                for size in set(shape.dimensions) & candidates:
                    sizes_at_peak[size] += plan.values.sizes[plan.lives.values[life]]
        linear = [item for item in sizes_at_peak.items() if item[0] not in squared]
        dimension, bytes_ = max(linear, key=lambda item: (item[1], item[0]), default=(0, 0))
        if dimension < 2:
            return
        each = bytes_ / dimension
        fixed = self._peak - bytes_
        half = fixed + round(each * (dimension // 2))
        text = f"a dimension of {dimension} as {dimension // 2}: the peak is about {fixed:,} bytes and {each:,.0f} for each of its {dimension}"
        if self._limit is not None and fixed < self._limit < self._peak and each:
            text += f"; {int((self._limit - fixed) // each)} fit"
        yield self._made("smaller", text, half)


def _is_f32(shape: Shape) -> bool:
    return shape.is_array and shape.element_type == PrimitiveType.F32


def _made_by(root: HloInstruction, output: int | None) -> HloInstruction:
    """The instruction that makes an output."""
    found = root
    if output is not None and found.opcode == Opcode.TUPLE:
        found = found.operands[output]
    return found


def _needs_no_copy(parameter: HloInstruction, made: HloInstruction) -> bool:
    """Whether every use of a parameter comes before the instruction that overwrites it, in any order that operands allow."""
    while made.opcode == Opcode.BITCAST and made.operands:
        made = made.operands[0]
    if made.computation is not parameter.computation or made is parameter or made.opcode in _GIVES_ON:
        return False
    if any(user.opcode in _GIVES_ON for user in parameter.users):
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
    """The operations that computing an instruction again takes: two for each product of a dot, else one for each element, fused instructions included."""
    parts: Iterable[HloInstruction] = (instruction,)
    if instruction.opcode == Opcode.FUSION and instruction.called_computations:
        parts = instruction.called_computations[0].instructions
    total = 0
    for each in parts:
        if each.opcode in (Opcode.PARAMETER, Opcode.CONSTANT, Opcode.BITCAST, Opcode.BROADCAST, Opcode.TUPLE):
            continue
        elements = 1
        for size in each.shape.dimensions if each.shape.is_array else ():
            elements *= size
        if each.opcode == Opcode.DOT and each.operands:
            for dimension in each.proto.dot_dimension_numbers.lhs_contracting_dimensions:
                elements *= each.operands[0].shape.dimensions[dimension]
            elements *= 2
        total += elements
    return total
