"""Changes that a person can write in JAX to make a program's memory peak smaller, each with the new peak and bounds.

    donate       arguments whose memory outputs of the same shape can take
    carry        an array that a scan takes apart in xs and stacks again in ys, in its carry instead
    recompute    what a loop or a function keeps for the backward pass, or what lives across the peak without being used
                 there (jax.checkpoint)
    precision    f32 temporaries, or f32 arguments, as bf16
    padding      another layout where tiles pad what lives at the peak
    copy         copies at the peak that an edit of the program removes, as the report `copies` finds them
    smaller      a dimension of the data, such as the batch, at half its size; with a limit, at the largest that is
                 within it for certain, or else by the estimate

A donation and a smaller dimension are tried: the peak is that of the changed module. The other changes are simulated on
the plan: the schedule stays, lives and sizes change. A compiler may schedule and fuse the changed program otherwise. So
only a donation is exact, and only where no copy can become necessary; all other changes have bounds. A change without
an upper bound is an idea: its text says what is not known.

Changes are listed by what they cost the author: a donation costs nothing, a copy, padding or a carry an edit that
changes no value, recomputing time, another precision changes results, and a smaller dimension is another program. With
a limit, the search is for a list of changes that is certain to bring the peak within it: donations, then one smaller
dimension, or several. Where there is none, and no single change is enough by the estimate, it is for a list that is:
donations, bf16, then smaller dimensions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from heapq import nlargest
from typing import Final, NamedTuple

from xlashape.errors import XlashapeError
from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.module_proto.stack_frames import Frame
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import ReadPattern, ResultSource
from xlashape.hlo.ops.registry import operation_of
from xlashape.reports.memory.carrying import carried
from xlashape.reports.memory.dimensions import Followed
from xlashape.reports.memory.donations import Aliases, Donation, Donations
from xlashape.reports.memory.kept import Residual, Uses, calls_of, layers_of, without
from xlashape.reports.memory.plan import PARAMETER, TEMPORARY, Plan, holder_of, origin_of, padding_of
from xlashape.reports.memory.recomputing import Recomputing, is_forward
from xlashape.reports.memory.schedule import leaf_bytes
from xlashape.reports.memory.smaller import Changes, Sizes, f32_values, halved
from xlashape.reports.origin import source_of
from xlashape.reports.text import short_bytes
from xlashape.reports.why import why
from xlashape.shape import PrimitiveType, Shape

_EACH_LAYER: Final = "each layer in "
_LEAST_SHARE: Final = 0.01
"""Changes that save a smaller part of the peak are not listed."""
_MOST_OF_A_KIND: Final = 5
_BY_COST: Final = ("donate", "carry", "copy", "padding", "recompute", "precision", "smaller")
"""The kinds of changes, first those that cost the author least."""
_IN_A_LIST: Final = {"donate": "the donations", "precision": "bf16", "smaller": "the smaller dimensions"}
"""What verdicts call the changes of a list."""
_CHEAP: Final = frozenset([Opcode.CONSTANT, Opcode.COPY, Opcode.IOTA])
_NEVER_FUSED: Final = (Opcode.DOT, Opcode.CONVOLUTION, Opcode.CUSTOM_CALL)
"""Of what computes large arrays, what every compiler gives an array of its own."""
_RESHAPES: Final = ("merge", "split", "reshape")
"""The kinds of other dimensions for the same elements."""
_LOOP: Final = re.compile(r"/while/body/")
_AT_ONCE: Final = "; not known: what lives while it is computed again"
_BEFORE: Final = "; not known: which temporaries XLA's optimizations leave"


class MemorySuggestion(NamedTuple):
    """A change of the program."""

    change: str
    """`donate`, `recompute`, `precision`, `padding`, `copy`, `smaller` or `carry`."""
    text: str
    """The change in words, as one writes it in JAX."""
    new_peak_bytes: int
    saved_bytes: int
    lower_bytes: int
    upper_bytes: int | None
    """The lower and the upper bound of the new peak. An idea, whose text says what is not known, has no upper one."""
    is_exact: bool
    fits: bool | None
    """Whether the new peak is within the limit for certain; None without a limit."""
    verdict: str | None
    """In words whether the change brings the peak within the limit, and how sure that is; None without a limit."""
    flops: int | None
    """Floating-point operations that the change adds; None where that is not counted."""
    name: str | None
    """The instruction that the change is about, or the largest of several; None where it names none."""
    together_bytes: int | None = None
    """For a change in the list that brings the peak within the limit: the peak with this change and those before it. It
    is the upper bound, unless the list fits by the estimate only, as `verdict` of its last change says."""
    dimensions: tuple[tuple[int, int], ...] | None = None
    """Of `smaller`: the dimensions of arguments that get the new size together, each as the number of the parameter and
    of its dimension; else None."""
    size: int | None = None
    """Of `smaller`: the new size; else None."""
    parameters: tuple[int, ...] | None = None
    """Of `donate`, and of a `carry` with donations: the numbers of all parameters that are donated; else None."""


def suggestions(plan: Plan, limit: int | None, *, only_certain: bool = False) -> tuple[MemorySuggestion, ...]:
    """The changes for a plan, first the kind that costs the author least; of a kind those in the list that
    brings the peak within the limit of bytes, then the others, the one with the lowest peak first. Empty for a plan
    without a module. `only_certain` leaves out ideas, what may not lower the peak, what computes values again, and
    smaller sizes, which make another program; all donations are one.
    """
    if plan.module is None or not plan.module.computations:
        return ()
    return _Suggestions(plan, plan.module, limit).all(only_certain)


def recomputing(plan: Plan) -> MemorySuggestion | None:
    """Of the functions and loops for `jax.checkpoint`, the one that lowers the peak of a plan most; None if none does,
    or before XLA's optimizations, which decide what is kept."""
    if plan.module is None or not plan.module.computations:
        return None
    made = _Suggestions(plan, plan.module, None)
    return min(made.checkpoints(), key=lambda each: each.new_peak_bytes, default=None)


class _Suggestions:
    """Simulates changes on one plan."""

    def __init__(self, plan: Plan, module: HloModule, limit: int | None) -> None:
        self._plan = plan
        self._module = module
        self._limit = limit
        self._peak = max(plan.steps.totals)
        self._peak_step = plan.steps.peak
        self._at_peak = list(plan.lives.at(self._peak_step))
        self._is_idea = plan.bounds is not None and not module.head.HasField("schedule")
        """Whether XLA's optimizations are still to come, so that temporaries are not those of the compiled program."""
        self._donations = Donations(plan, module)
        self._sizes = Sizes(plan, module, self._donations)

    def all(self, only_certain: bool) -> tuple[MemorySuggestion, ...]:
        donations = self._donations.found(_LEAST_SHARE * self._peak)
        found: list[MemorySuggestion] = []
        kinds = [self._carried, self._precision, self._padding, self._copies, self._recomputed, self._smaller]
        if only_certain:
            kinds = [] if self._is_idea else kinds[:4]
            if len(donations) > 1 and self._donations.may_plan > 0:
                every = [self._donations.together(donations), *donations]
                donations = [min(every, key=lambda each: (each.new_peak_bytes, not each.is_exact))]
        for each in ([self._donate(donation) for donation in donations], *[kind() for kind in kinds]):
            made = [one for one in each if one.saved_bytes >= _LEAST_SHARE * self._peak]
            found += sorted(made, key=lambda one: (one.new_peak_bytes, not one.is_exact))[:_MOST_OF_A_KIND]
        if only_certain:
            found = [one for one in found if one.change == "donate" or (one.upper_bytes or self._peak) < self._peak]
        found.sort(key=lambda one: (one.new_peak_bytes, not one.is_exact, one.text))
        first = self._listed(donations, is_certain=True)
        if not first and not only_certain and all(one.new_peak_bytes > (self._limit or 0) for one in found):
            first = self._listed(donations, is_certain=False)
        texts = {one.text for one in first}
        is_smaller = any(one.change == "smaller" for one in first)
        found = [one for one in found if one.text not in texts and not (is_smaller and one.change == "smaller")]
        return tuple(sorted([*first, *found], key=lambda one: _BY_COST.index(one.change)))

    def checkpoints(self) -> list[MemorySuggestion]:
        """The functions and loops for `jax.checkpoint` of which it is known what a call or an iteration keeps; none
        before XLA's optimizations."""
        found = () if self._is_idea else self._recomputed()
        named = [each for each in found if each.text.startswith("jax.checkpoint(") and each.saved_bytes > 0]
        return [each for each in named if _EACH_LAYER not in each.text]

    def _donate(self, each: Donation) -> MemorySuggestion:
        bounds = None if each.is_exact else (each.lower_bytes, each.upper_bytes)
        made = self._made("donate", each.text, each.new_peak_bytes, bounds=bounds, name=each.name)
        return made._replace(parameters=each.parameters)

    def _listed(self, donations: Sequence[Donation], *, is_certain: bool) -> list[MemorySuggestion]:
        """The changes that together bring the peak within the limit, for certain or by the estimate, first what costs
        the author least; empty if there are none, or if the peak is within the limit already."""
        limit = self._limit
        if limit is None or self._peak <= limit:
            return []
        chosen: list[MemorySuggestion] = []
        parameters: set[int] = set()
        peak = self._peak
        for each in sorted(donations, key=lambda each: (each.new_peak_bytes, each.text)):
            given = parameters.union(each.parameters)
            if peak <= limit or not each.is_exact or given == parameters or not self._donations.may_plan:
                continue
            together = self._donations.aliases(given)
            with_it = self._donations.peak_with(together)
            if with_it < peak and self._donations.is_exact(together):
                peak, parameters = with_it, given
                chosen.append(self._donate(each)._replace(together_bytes=peak))
        if peak > limit:
            # The bytes that other changes save depend on donations and sizes, so the smaller program is one with them.
            aliases = self._donations.aliases(parameters)
            in_bf16 = not is_certain and self._in_bf16 is not None
            if in_bf16 and self._in_bf16 is not None:
                peak = self._sizes.peak((), aliases, in_bf16=True).peak
                chosen.append(self._in_bf16._replace(together_bytes=peak))
            if peak > limit:
                found = self._shrunk(aliases, limit, is_certain=is_certain, in_bf16=in_bf16)
                if not found:
                    return []
                chosen += found
        if len(chosen) > 1:
            kinds = dict.fromkeys([_IN_A_LIST[each.change] for each in chosen[:-1]])
            fits, about = ("fits", "at most") if is_certain else ("fits by the estimate", "about")
            together = f"{fits} with {' and '.join(kinds)} above: {about} {short_bytes(chosen[-1].together_bytes or 0)}"
            chosen[-1] = chosen[-1]._replace(verdict=together)
        return chosen

    def _made(
        self,
        change: str,
        text: str,
        new_peak: int,
        *,
        bounds: tuple[int, int | None] | None = None,
        flops: int | None = None,
        name: str | None = None,
    ) -> MemorySuggestion:
        """A suggestion; without bounds it is exact."""
        lower, upper = (new_peak, new_peak) if bounds is None else bounds
        fits = verdict = None
        if self._limit is not None:
            fits = upper is not None and upper <= self._limit
            verdict = _verdict(self._limit, new_peak, upper)
        return MemorySuggestion(
            change,
            text,
            new_peak,
            self._peak - new_peak,
            min(lower, new_peak),
            None if upper is None else max(upper, new_peak),
            bounds is None,
            fits,
            verdict,
            flops,
            name,
        )

    # -- what lives long ----------------------------------------------------------------------

    def _recomputed(self) -> Iterator[MemorySuggestion]:
        """Suggestions to recompute: one for all that a function keeps for the backward pass, and one for each value
        that is kept for another reason."""
        kept: dict[tuple[str, str], list[Residual]] = {}
        alone: list[Residual] = []
        loops = Recomputing(self._plan, self._module)
        for loop in loops.found():
            upper = None if self._is_idea or loop.upper_bytes >= self._peak else loop.upper_bytes
            yield self._made(
                "recompute",
                loop.text + (_BEFORE if self._is_idea else _AT_ONCE if upper is None else ""),
                loop.new_peak_bytes,
                bounds=(min(loop.lower_bytes, self._floor()), upper),
                flops=loop.flops,
                name=loop.name,
            )
        for each in self._residuals():
            if each.life in loops.lives:
                continue
            op_name = each.origin.metadata.op_name
            if is_forward(op_name):
                kept.setdefault(_function(each.origin), []).append(each)
            elif "transpose(" not in op_name and (op_name or not self._has_names):
                alone.append(each)
        if self._is_idea:  # XLA computes what it fuses again without being told
            alone = [each for each in alone if each.instruction.opcode in _NEVER_FUSED]
        for each in nlargest(_MOST_OF_A_KIND, alone, key=lambda each: each.size):
            text = (
                f"compute {_where(each.origin)} again where it is used after the peak, from "
                "jax.lax.optimization_barrier(…) of its inputs"
            )
            yield self._without([[each]], text)
        for (function, file), group in nlargest(
            _MOST_OF_A_KIND, kept.items(), key=lambda item: sum([each.size for each in item[1]])
        ):
            group.sort(key=lambda each: -each.size)
            size = short_bytes(sum([each.size for each in group]))
            many = f"{len(group)} values of {size}" if len(group) > 1 else f"a value of {size}"
            source = group[0].origin.metadata.source
            name = f"{group[0].origin.metadata.op_name}{f' at {source}' if source else ''}"
            calls = calls_of(group)
            layers = [] if calls else layers_of(group)
            # One call around all layers computes all of them again before their backward pass, and saves nothing.
            is_one = calls is not None or len(layers) == 1 or _LOOP.search(name)
            wrapped = function if is_one else f"{_EACH_LAYER}{function.partition(', in Flax')[0]}"
            text = f"jax.checkpoint({wrapped}): the backward pass computes {many}, such as {name}, again instead of "
            text += "keeping it" if len(group) == 1 else "keeping them"
            made = self._without(calls or layers, text, (function, file))
            yield made._replace(flops=None)  # what leads up to these values is computed again as well

    def _residuals(self) -> Iterator[Residual]:
        """The temporaries that live across the peak and can be computed again."""
        plan = self._plan
        peak = self._peak_step
        uses = Uses(plan)
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
            before, behind = uses.around(life, peak)
            yield Residual(life, instruction, origin, plan.values.sizes[value], before + 1, behind - 1)

    def _without(
        self, calls: Sequence[Sequence[Residual]], text: str, function: tuple[str, str] | None = None
    ) -> MemorySuggestion:
        """A suggestion to compute these values again where they are used, with the remaining peak. Their operands stay
        in memory until then, but for those that the function computes, which each of its calls computes again before
        its backward pass begins."""
        totals = self._plan.steps.totals
        for call in calls:
            totals = without(totals, call)
        own = {each.instruction for call in calls for each in call}
        operands = {
            operand
            for instruction in own
            for operand in instruction.operands
            if operand not in own and operand not in self._alive and not _is_not_computed(operand)
            if function is None or _function(origin_of(operand)) != function
        }
        lowest = max(totals)
        new_peak = min(self._peak, lowest + sum([leaf_bytes(operand.shape, self._plan.target) for operand in operands]))
        flops = sum([_flops(instruction) for instruction in own])
        return self._made(
            "recompute",
            text + (_BEFORE if self._is_idea else _AT_ONCE),
            new_peak,
            bounds=(min(lowest, self._floor()), None),
            flops=flops,
            name=max([each for call in calls for each in call], key=lambda each: each.size).instruction.name,
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

    def _peak_without(self, life: int, less: int) -> int:
        """The peak if a life took `less` bytes less."""
        begin, end = self._plan.lives.begins[life], self._plan.lives.ends[life]
        totals = self._plan.steps.totals
        inside = max(totals[begin : end + 1], default=0) - less
        return max([inside, *totals[:begin], *totals[end + 1 :]])

    def _carried(self) -> Iterator[MemorySuggestion]:
        """Arrays that scans take apart and stack again, in their carry."""
        for each in carried(self._plan, self._module, self._donations):
            upper = None if self._is_idea else each.upper_bytes
            text = each.text + (_BEFORE if self._is_idea else "")
            bounds = (each.lower_bytes, upper)
            made = self._made("carry", text, each.new_peak_bytes, bounds=bounds, name=each.name)
            yield made._replace(parameters=each.parameters or None)

    # -- sizes --------------------------------------------------------------------------------

    def _precision(self) -> Iterator[MemorySuggestion]:
        """All f32 temporaries, and all large f32 arguments, as bf16. Where a device has no bf16, it converts each to
        f32 and back, and both live for a while."""
        plan = self._plan
        if self._in_bf16 is not None:
            yield self._in_bf16
        given = f32_values(plan, PARAMETER)
        half = sum([plan.values.sizes[each] for each in given]) // 2
        if given and half * 2 > self._peak // 2:
            largest = plan.values.place(max(given, key=lambda each: plan.values.sizes[each])).instruction
            name = "" if largest is None else f" such as {largest.metadata.op_name or largest.name}"
            text = (
                f"f32 arguments{name} in bf16: {short_bytes(half)} instead of {short_bytes(2 * half)}; results "
                "change; not known: where the program converts them to f32 and holds both"
            )
            yield self._made("precision", text, halved(plan, given), bounds=(self._floor() - half, None))

    @cached_property
    def _in_bf16(self) -> MemorySuggestion | None:
        """All f32 temporaries as bf16; None where that does not lower the peak."""
        plan = self._plan
        new_peak = halved(plan, f32_values(plan, TEMPORARY))
        if new_peak >= self._peak:
            return None
        at_peak = {plan.lives.values[life] for life in self._at_peak}
        both = sum([plan.values.sizes[each] for each in at_peak if _is_f32(plan.values.place(each).shape)])
        text = (
            "temporaries in bf16 instead of f32: x.astype(jnp.bfloat16) where they are first computed, or a policy "
            "of mixed precision; results change, and a device without bf16 may hold both types at once"
        )
        upper = None if self._is_idea else self._peak + both // 2
        text += _BEFORE if self._is_idea else ""
        return self._made("precision", text, new_peak, bounds=(min(new_peak, self._floor()), upper))

    def _padding(self) -> Iterator[MemorySuggestion]:
        """Other layouts of values that tiles pad at the peak; other dimensions where that changes no meaning."""
        plan = self._plan
        for life in self._at_peak:
            value = plan.lives.values[life]
            shape = plan.values.place(value).shape
            if shape is None or shape.is_tuple or shape.layout is None or not shape.layout.tiles:
                continue
            if padding_of(shape, plan.values.sizes[value]) < _LEAST_SHARE * self._peak:
                continue
            if not self._is_of_the_program(value):
                continue
            instruction = plan.values.place(value).instruction
            keeps_dimensions = instruction is None or not _may_be_reshaped(instruction)
            lossless = [each for each in why(shape).suggestions if each.is_lossless and each.saved_bytes > 0]
            advice = next((each for each in lossless if not (keeps_dimensions and each.kind in _RESHAPES)), None)
            if advice is not None:
                name = plan.values.place(value).name
                new_peak = self._peak_without(life, min(advice.saved_bytes, plan.values.sizes[value]))
                how = f"{advice.jax}, {advice.text}" if advice.jax else advice.text
                yield self._made("padding", f"{name} as x: {how}", new_peak, bounds=(new_peak, self._peak), name=name)

    def _is_of_the_program(self, value: int) -> bool:
        """Whether the program itself has a value: an argument, or what one of its operations makes. The compiler alone
        decides on the layouts of its copies and fetches, and of what has no name in a module with names.
        """
        instruction = self._plan.values.place(value).instruction
        if instruction is None or self._plan.values.kinds[value] == PARAMETER:
            return True
        if instruction.opcode == Opcode.COPY or operation_of(instruction.opcode).begins_asynchronously:
            return False
        return bool(source_of(instruction)[1]) or not self._has_names

    @cached_property
    def _has_names(self) -> bool:
        """Whether the module says of any instruction which operation of the program it is."""
        return any(each.op_metadata.op_name for each in self._module.entry.instructions)

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
            if removed and not {"donate", "carry"}.intersection(each.kinds):
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
        """A smaller batch, and a shorter sequence: the largest that brings the peak within the limit for certain, or
        else by the estimate; half where there is no limit, no such size, or no need."""
        for followed in (*self._sizes.batches, *self._sizes.sequences):
            least = self._sizes.least(followed)
            size, verdict = max(followed.size // 2 // least, 1) * least, None
            if self._limit is not None and self._peak > self._limit and least < followed.size:
                sizes = [self._sizes.largest(followed, (), self._limit, is_certain=each) for each in (True, False)]
                lowest = self._sizes.peak(((followed, least),)).peak - self._limit
                if lowest > 0:
                    verdict = f"not enough at any size: {short_bytes(lowest)} more than the limit even at {least}"
                size = sizes[0] or sizes[1] or size
            found = self._smaller_of(followed, size) if size < followed.size else None
            if found is not None:
                yield found if verdict is None else found._replace(verdict=verdict)

    def _shrunk(self, aliases: Aliases, limit: int, *, is_certain: bool, in_bf16: bool) -> list[MemorySuggestion]:
        """The dimension that has to shrink least, with donations and in bf16, for the peak to be within the limit; the
        batch is tried before the sequence. Where no size is enough, several: each at its least, until the next one has
        a size that is enough; empty if none has."""

        def largest(each: Followed, others: Changes) -> int | None:
            return self._sizes.largest(each, aliases, limit, is_certain=is_certain, others=others, in_bf16=in_bf16)

        def made(each: Followed, size: int, others: Changes) -> MemorySuggestion | None:
            found = self._smaller_of(each, size) if size < each.size else None
            its = self._sizes.peak((*others, (each, size)), aliases, in_bf16=in_bf16)
            together = its.upper if is_certain else its.peak
            return None if found is None or together is None else found._replace(together_bytes=together)

        kinds = (self._sizes.batches, self._sizes.sequences)
        for kind in kinds:
            sizes = [(each, size) for each in kind if (size := largest(each, ())) is not None]
            for each, size in sorted(sizes, key=lambda one: (-one[1] / one[0].size, one[0].axes)):
                found = made(each, size, ())
                if found is not None:
                    return [found]
        chosen: list[MemorySuggestion] = []
        others: list[tuple[Followed, int]] = []
        for each in [one for kind in kinds for one in kind]:
            size = largest(each, tuple(others)) if others else None
            found = made(each, size or self._sizes.least(each), tuple(others))
            highest = (chosen[-1].together_bytes if chosen else None) or self._peak
            if found is None:
                continue
            if size is not None:
                return [*chosen, found]
            if highest - (found.together_bytes or 0) >= _LEAST_SHARE * self._peak:
                chosen.append(found)
                others.append((each, self._sizes.least(each)))
        return []

    def _smaller_of(self, followed: Followed, size: int) -> MemorySuggestion | None:
        """The suggestion to give a dimension another size; None where the changed module breaks a rule, although the
        dimension was followed everywhere."""
        if not followed.unknown and not self._sizes.is_valid(followed, size):
            return None
        found = self._sizes.peak(((followed, size),))
        text = self._sizes.text(followed, size)
        if found.upper is None and not followed.unknown:
            text += _BEFORE
        made = self._made("smaller", text, found.peak, bounds=(found.lower, found.upper))
        return made._replace(dimensions=tuple([tuple(axis) for axis in sorted(followed.axes)]), size=size)


def _verdict(limit: int, new_peak: int, upper: int | None) -> str:
    """Whether a new peak is within a limit, and how sure that is.

    >>> _verdict(64, 50, 60), _verdict(64, 50, 70), _verdict(64, 50, None)
    ('fits', 'fits by the estimate; at most 70 B', 'fits by the estimate; no upper bound is known')
    >>> _verdict(64, 80, None)
    'not enough alone: still 16 B more than the limit'
    """
    if upper is not None and upper <= limit:
        return "fits"
    if new_peak <= limit:
        return (
            f"fits by the estimate; {'no upper bound is known' if upper is None else f'at most {short_bytes(upper)}'}"
        )
    return f"not enough alone: still {short_bytes(new_peak - limit)} more than the limit"


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
    function = frame.function.rpartition("<locals>.")[2] if frame is not None else ""
    if frame is not None and function.replace(".", "").isidentifier():
        owner, _, method = function.rpartition(".")
        flax = f", in Flax nn.remat({owner})" if method == "__call__" and owner else ""
        return f"{function} of {Frame(frame.file).source}{flax}", frame.file
    return f"the function at {metadata.source}" if metadata.source else f"the function of {metadata.op_name}", ""


def _where(instruction: HloInstruction) -> str:
    """An instruction in terms of the program: its operation, and the line of the program."""
    metadata = instruction.metadata
    name = metadata.op_name or instruction.name
    return f"{name} ({metadata.source})" if metadata.source else name


def _is_f32(shape: Shape | None) -> bool:
    return shape is not None and shape.is_array and shape.element_type == PrimitiveType.F32


def _is_not_computed(instruction: HloInstruction) -> bool:
    """Whether an instruction cannot be computed a second time, or costs next to nothing."""
    if instruction.opcode == Opcode.FUSION and instruction.called_computations:
        return all(each.opcode in _CHEAP for each in instruction.called_computations[0].instructions)
    row = operation_of(instruction.opcode)
    return row.source is not ResultSource.COMPUTED or row.has_effect or row.opcode in _CHEAP


def _may_be_reshaped(instruction: HloInstruction) -> bool:
    """Whether a value may have other dimensions and the program means the same: all that is computed from it takes each
    element alone, all elements together, or reshapes it, up to what the program returns."""
    pending, seen = [instruction], {instruction}
    while pending:
        for user in pending.pop().users:
            if user in seen or user.opcode in (Opcode.RESHAPE, Opcode.BITCAST):
                continue
            row = operation_of(user.opcode)
            seen.add(user)
            if user.opcode == Opcode.REDUCE and len(user.kind.dimensions) == user.operands[0].shape.rank:
                continue
            if user.opcode == Opcode.FUSION and user.called_computations:
                fused = user.called_computations[0].parameters
                pending += [one for one, operand in zip(fused, user.operands, strict=False) if operand in seen]
            elif (
                row.reads is not ReadPattern.SAME
                and user.opcode != Opcode.COPY
                and row.source is not ResultSource.OPERANDS
            ):
                return False
            pending.append(user)
    return True


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
