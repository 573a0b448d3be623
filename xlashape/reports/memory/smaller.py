"""The program with a smaller batch or a shorter sequence: which dimensions these are, and the peak of the changed
module.

A program's data and its parameters are both arguments. A dimension is one of the data if it is followed to no dimension
of a parameter's own. These are told apart by what the module does and by the names of the arguments:

    looked up by indices           words of a vocabulary
    last of an array of numbers    features, hidden sizes, and what is tied with them
    taken apart by a loop          layers of a stack, unless the array has a batch as well: then it is time
    tied with an argument that is named as parameters are, such as `params['w']`
    tied with an argument whose shape an output has, as a gradient or a new state, unless nothing else is left
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from math import floor, lcm
from typing import Final, NamedTuple, TypeAlias

from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.verifier import verify
from xlashape.reports.memory.dimensions import ArgumentAxis, Dimensions, Followed, resized
from xlashape.reports.memory.donations import Aliases, Donations, hands_on
from xlashape.reports.memory.plan import TEMPORARY, Plan
from xlashape.reports.memory.schedule import array_bytes, partitions
from xlashape.reports.text import short_bytes
from xlashape.shape import PrimitiveType, Shape

_SLACK: Final = 0.1
"""The largest deviation that is assumed of the predicted temporaries of a program with another size, as a fraction of
them. Compilers choose fusions and loops by sizes."""
_MOST_SIZES: Final = 16
"""The most sizes that a search for the largest tries."""
_GRAINS: Final = (128, 8, 1)
"""What a size is a multiple of, as tiles are, if it has `_LEAST_STEPS` of them; else of the next."""
_LEAST_STEPS: Final = 3
_MOST_INSTRUCTIONS: Final = 100_000
"""The most instructions of all modules that a search plans."""
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_OF_PARAMETERS: Final = re.compile(
    r"params?|parameters|weights?|variables|batch_stats|[wW][a-z]?\d*|[wW]_\w+|opt_state|optimizer|opt|mu|nu|kernels?"
    r"|bias(es)?|scales?|emb|embed(ding)?s?|experts?|routers?|gates?|layers?|blocks?|table|wte|wpe|lora_?[ab]?",
)
_OF_DATA: Final = re.compile(
    r"xs?_?\d*|ys?\d*|inputs?|batch|tokens?|\w*_ids|ids|labels?|targets?|images?|data|mask|\w*_mask"
    r"|positions?|queries|query",
)


Changes: TypeAlias = tuple[tuple[Followed, int], ...]
"""Dimensions, each with its new size."""


class Smaller(NamedTuple):
    """The peak with another size, and its bounds, in bytes."""

    peak: int
    lower: int
    upper: int | None
    """None where no bound is known."""


class Sizes:
    """Other sizes of the data of a module, of which `plan` is the plan."""

    def __init__(self, plan: Plan, module: HloModule, donations: Donations) -> None:
        self._plan = plan
        self._module = module
        self._donations = donations
        self._peak = max(plan.steps.totals)
        count = sum([len(computation.instructions) for computation in module.computations])
        self._tries = max(3, min(_MOST_SIZES, _MOST_INSTRUCTIONS // max(1, count)))
        self._known: dict[tuple[tuple[tuple[int, int], ...], Aliases, bool], Smaller] = {}

    # -- which dimensions ---------------------------------------------------------------------

    @cached_property
    def batches(self) -> list[Followed]:
        """What may be the batch, the most likely first."""
        return self._chosen[0]

    @cached_property
    def sequences(self) -> list[Followed]:
        """What may be the length of a sequence."""
        return self._chosen[1]

    @cached_property
    def _chosen(self) -> tuple[list[Followed], list[Followed]]:
        arrays = {each.number: each for each in self._module.entry.parameters if each.shape.is_array}
        evidence = {number: _evidence(each) for number, each in arrays.items()}
        dimensions = Dimensions(self._module)

        def is_own(axis: ArgumentAxis) -> bool:
            shape = arrays[axis.parameter].shape
            is_feature = shape.rank > 1 and axis.dimension == shape.rank - 1 and not _counts(shape)
            return is_feature or evidence[axis.parameter] < 0 or axis in own

        own: set[ArgumentAxis] = set()
        seen: set[ArgumentAxis] = set()
        all_axes: list[Followed] = []
        for number, each in arrays.items():
            for axis in [ArgumentAxis(number, dimension) for dimension in range(min(2, each.shape.rank))]:
                if each.shape.dimensions[axis.dimension] > 1 and axis not in seen and not is_own(axis):
                    found = dimensions.follow(axis, is_own)
                    seen.update(found.axes)
                    if found.is_own:
                        own.update(found.axes)
                    else:
                        all_axes.append(found)
        stepped = {axis for each in all_axes if each.is_stepped for axis in each.axes}

        def is_first(axis: ArgumentAxis) -> bool:
            return axis.dimension == 0 or (axis.dimension == 1 and ArgumentAxis(axis.parameter, 0) in stepped)

        batches = [each for each in all_axes if not each.is_stepped and all(is_first(axis) for axis in each.axes)]
        batches = self._likely(batches, evidence)
        rows = {axis.parameter for each in batches for axis in each.axes}

        def is_second(axis: ArgumentAxis) -> bool:
            array = arrays[axis.parameter].shape
            if axis.dimension == 0:
                return (axis in stepped and axis.parameter in rows) or (array.rank == 1 and _counts(array))
            return axis.parameter in rows and array.rank == (2 if _counts(array) else 3)

        sequences = [
            each
            for each in all_axes
            if each not in batches and not each.is_batch_of_dot and all(is_second(axis) for axis in each.axes)
        ]
        return batches, sequences

    def _likely(self, found: list[Followed], evidence: dict[int, int]) -> list[Followed]:
        """Those that are most likely a batch. Where two or more are as likely, and nothing says that they are data,
        there is none."""
        shape = self._module.entry.root.shape
        outputs = set(shape.tuple_shapes) if shape.is_tuple else {shape}
        parameters = self._module.entry.parameters

        def weight(each: Followed) -> tuple[int, bool]:
            """2 for data by name or type, 0 where an output has the shape of all its arguments, else 1; and whether it
            was followed everywhere, as what is a part of a feature is not."""
            if any(evidence[axis.parameter] > 0 for axis in each.axes):
                return 2, True
            is_own = all(parameters[axis.parameter].shape in outputs for axis in each.axes)
            return int(not is_own), not each.unknown

        weights = [weight(each) for each in found]
        best = [each for each, its in zip(found, weights, strict=True) if its == max(weights)]
        return best if len(best) < 2 or max(weights) == (2, True) else []

    # -- the peak -----------------------------------------------------------------------------

    def peak(self, changes: Changes, aliases: Aliases = (), *, in_bf16: bool = False) -> Smaller:
        """The peak of the module in which the dimensions that were followed have other sizes; `in_bf16` with all f32
        temporaries in bf16, which has no upper bound.

        XLA chooses fusions by sizes. So in the upper bound temporaries are a fraction larger, and arrays inside a
        fusion that a library runs have memory; in the lower bound there are no temporaries."""
        key = tuple([(id(followed), size) for followed, size in changes]), aliases, in_bf16
        known = self._known.get(key)
        if known is None:
            changed = self._module
            for followed, size in changes:
                changed = resized(changed, followed, size)
            before, after = self._donations.plan_with(()), self._donations.plan_with(aliases, changed)
            # What XLA's assignment has more than the estimate in temporaries, it has in proportion afterwards.
            static = _lasting(after)
            less = self._peak - _lasting(self._plan)
            planned = max(before.steps.totals) - _lasting(before)
            highest = halved(after, f32_values(after, TEMPORARY)) if in_bf16 else max(after.steps.totals)
            temporary = highest - static
            if self._plan.bounds is None and planned > 0 < less:
                scaled = round(temporary * less / planned)
                temporary = max(temporary, scaled) if aliases else scaled
            peak = static + temporary
            upper = peak + round(_SLACK * temporary) + _inside(changed, self._plan)
            bounds = after.bounds if self._plan.bounds is not None else (static, upper)
            is_known = not in_bf16 and not any(followed.unknown for followed, _ in changes)
            most = None if bounds is None or bounds[1] is None or not is_known else max(upper, bounds[1])
            least = min(static, peak if bounds is None else bounds[0])
            known = self._known[key] = Smaller(peak, least, most)
        return known

    def largest(
        self,
        followed: Followed,
        aliases: Aliases,
        limit: int,
        *,
        is_certain: bool,
        others: Changes = (),
        in_bf16: bool = False,
    ) -> int | None:
        """The largest size found whose peak, with the other changes, is within the limit, for certain or by the
        estimate; None where there is none. It is a multiple of 128 from 384 on, and of 8 from 24 on, which costs less
        than a third of it, and of the devices that XLA has yet to divide the dimension over."""
        if is_certain and (followed.unknown or (self._plan.bounds is not None and self._plan.bounds[1] is None)):
            return None

        def peak(size: int) -> int:
            found = self.peak((*others, (followed, size)), aliases, in_bf16=in_bf16)
            return found.peak if not is_certain else limit + 1 if found.upper is None else found.upper

        least = self.least(followed)
        low, high = least, followed.size
        if low >= high or (at_low := peak(low)) > limit:
            return None
        at_high, tries = self._peak, self._tries
        for grain in _GRAINS:
            step = lcm(grain, least)
            is_halved = True
            while tries and (low // step + 1) * step < high:
                # What is linear in the size is found at once; a step that leaves more than half is followed by a half.
                part = (limit - at_low) / max(1, at_high - at_low) if is_halved else 0.5
                guess = floor(low + min(part, 1.0) * (high - low)) // step * step
                guess = min(max(guess, (low // step + 1) * step), (high - 1) // step * step)
                before, tries = high - low, tries - 1
                at_guess = peak(guess)
                if at_guess <= limit:
                    low, at_low = guess, at_guess
                else:
                    high, at_high = guess, at_guess
                is_halved = (high - low) * 2 <= before
            if low >= _LEAST_STEPS * step:
                break
        return low

    def least(self, followed: Followed) -> int:
        """The least size, of which all are multiples: the devices that XLA has yet to divide the dimension over."""
        return lcm(*self._tiles(followed)) if self._is_whole else 1

    @cached_property
    def _is_whole(self) -> bool:
        """Whether the sizes of the module are those of all devices together."""
        return partitions(self._module) > 1

    def _tiles(self, followed: Followed) -> Iterator[int]:
        """Over how many devices each axis is distributed."""
        for axis in followed.axes:
            details = self._module.entry.parameters[axis.parameter].details
            tiles = details.sharding.tile_assignment_dimensions if details.HasField("sharding") else ()
            yield tiles[axis.dimension] if axis.dimension < len(tiles) else 1

    def is_valid(self, followed: Followed, size: int) -> bool:
        """Whether the changed module keeps all rules that the module keeps: shapes are inferred anew."""
        broken = {str(problem) for problem in verify(self._module)}
        return all(str(problem) in broken for problem in verify(resized(self._module, followed, size)))

    def text(self, followed: Followed, size: int) -> str:
        """The change in words."""
        by_dimension: dict[int, list[str]] = {}
        for axis in sorted(followed.axes):
            parameter = self._module.entry.parameters[axis.parameter]
            by_dimension.setdefault(axis.dimension, []).append(parameter.metadata.op_name or parameter.name)
        named = " and ".join(
            [
                f"dimension {dimension} of {', '.join(names[:3])}{f' and {len(names) - 3} more' if names[3:] else ''}"
                for dimension, names in sorted(by_dimension.items())
            ]
        )
        less = (self._peak - self.peak(((followed, size),)).peak) / (followed.size - size)
        parts = lcm(*self._tiles(followed))
        split = "" if parts == 1 else f", over {parts} devices" if self._is_whole else f" on each of {parts} devices"
        text = f"shrink {named} from {followed.size} to {size}{split}"
        text += f": each 1 less lowers the peak by about {short_bytes(less)}"
        if followed.unknown:
            reason, name = next(iter(followed.unknown.items()))
            text += f"; not known: {reason} ({name})"
        return text


def _evidence(parameter: HloInstruction) -> int:
    """What the name and the type of an argument say: 1 for data, -1 for a parameter of the model or the state of its
    optimizer, 0 for neither."""
    words = _WORD.findall(parameter.metadata.op_name)
    if any(_OF_PARAMETERS.fullmatch(word) for word in words):
        return -1
    return int(_counts(parameter.shape) or any(_OF_DATA.fullmatch(word) for word in words))


def _counts(shape: Shape) -> bool:
    """Whether an array holds integers or truth values, as tokens and masks."""
    return shape.element_type == PrimitiveType.PRED or shape.element_type.is_integral


def f32_values(plan: Plan, kind: int) -> list[int]:
    """The values of a kind that ever live and are arrays of f32."""
    shapes = {each: plan.values.place(each).shape for each in set(plan.lives.values) if plan.values.kinds[each] == kind}
    return [
        each
        for each, shape in shapes.items()
        if shape is not None and shape.is_array and shape.element_type == PrimitiveType.F32
    ]


def halved(plan: Plan, values: Iterable[int]) -> int:
    """The peak if these values took half their bytes."""
    sizes = list(plan.values.sizes)
    for value in values:
        sizes[value] -= sizes[value] // 2
    changed = plan._replace(values=plan.values._replace(sizes=sizes))
    return max(changed.totals_by([0] * len(sizes)).get(0, [0]))


def _lasting(plan: Plan) -> int:
    """The bytes that live throughout: arguments, outputs and constants."""
    return sum(
        [plan.values.sizes[plan.lives.values[each]] for each in plan.lives.at(plan.steps.peak) if _lasts(plan, each)]
    )


def _lasts(plan: Plan, life: int) -> bool:
    return plan.values.kinds[plan.lives.values[life]] != TEMPORARY


def _inside(module: HloModule, plan: Plan) -> int:
    """The bytes of the two largest arrays that a fusion that a library runs computes inside."""
    return max([sum(sorted(each)[-2:]) for each in _fused_arrays(module, plan)], default=0)


def _fused_arrays(module: HloModule, plan: Plan) -> Iterator[Sequence[int]]:
    for computation in module.computations:
        for fusion in computation.instructions:
            is_custom = fusion.opcode == Opcode.FUSION and fusion.details.fusion_kind == "kCustom"
            if is_custom and fusion.called_computations:
                fused = fusion.called_computations[0]
                yield [
                    array_bytes(each.shape, plan.target)
                    for each in fused.instructions
                    if each is not fused.root and each.shape.is_array and not hands_on(each) and _is_made(each)
                ]


def _is_made(instruction: HloInstruction) -> bool:
    return not instruction.kind.row.is_given and instruction.opcode not in (Opcode.BROADCAST, Opcode.IOTA, Opcode.COPY)
