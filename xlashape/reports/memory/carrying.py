"""The peak of a program whose scans carry the arrays that they take apart and stack again (`restacked.py`).

With an array in the carry, the stack of new parts is in the memory of the argument, if that is donated: it no longer
takes memory of its own. The estimate leaves the stack out. Where other instructions than what writes a new part read
the old one, the change has a barrier, behind which the part is an array of its own: the estimate counts it. The upper
bound counts that for every array, which a compiler may also do without a barrier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.reports.donating import argument_name, how_to_donate
from xlashape.reports.memory.donations import Donations
from xlashape.reports.memory.inside import lives_of
from xlashape.reports.memory.plan import OUTPUT, TEMPORARY, Plan
from xlashape.reports.memory.restacked import Restacked, carry_text, restacked

_INDICES: Final = 1 << 10
"""The bytes of the indices that a scan over them takes."""


class Carried(NamedTuple):
    """An estimate, in bytes: the peak of memory of a program after one of its scans carries such arrays."""

    text: str
    new_peak_bytes: int
    lower_bytes: int
    upper_bytes: int | None
    name: str
    """The loop."""
    parameters: tuple[int, ...]
    """The numbers of the arguments that are donated as well."""


def carried(plan: Plan, module: HloModule, donations: Donations) -> Iterator[Carried]:
    """For each loop that takes arrays apart and stacks them again, the peak if it carries them."""
    loops: dict[HloInstruction, list[Restacked]] = {}
    for each in restacked(module):
        loops.setdefault(each.loop, []).append(each)
    for loop, arrays in loops.items():
        given = _given(module, donations, [each for each in arrays if not each.shares])
        both = [each for each in arrays if each.shares or each in given]
        if both:
            yield _carried(plan, module, loop, both, [each.parameter for each in given if each.parameter is not None])


def _given(module: HloModule, donations: Donations, arrays: Sequence[Restacked]) -> list[Restacked]:
    """The arrays whose outputs take their memory if their whole arguments are donated."""
    names = {argument_name(_path(each.parameter)) for each in arrays if each.parameter is not None}
    aliases = donations.aliases(
        [each.number for each in module.entry.parameters if argument_name(_path(each)) in names]
    )
    return [
        each
        for each in arrays
        if each.parameter is not None and each.output is not None and (each.output, each.parameter.number) in aliases
    ]


def _path(parameter: HloInstruction) -> str:
    return parameter.metadata.op_name or parameter.name


def _carried(
    plan: Plan,
    module: HloModule,
    loop: HloInstruction,
    arrays: Sequence[Restacked],
    given: Sequence[HloInstruction],
) -> Carried:
    totals = plan.steps.totals
    stacks = {each.stacked: each for each in arrays}
    lives = lives_of(plan, {loop: stacks}, (TEMPORARY, OUTPUT)).get(loop, {})
    change = [0] * (len(totals) + 1)
    parts: dict[int, int] = {}
    for life, number in lives.items():
        size = plan.values.sizes[plan.lives.values[life]]
        parts[number] = size // stacks[number].shape.dimensions[0]
        change[plan.lives.begins[life]] += size
        change[plan.lives.ends[life] + 1] -= size
    least = max([total - less for total, less in zip(totals, accumulate(change), strict=False)])
    peak = max(totals)
    new_peak = min(peak, least + sum([size for number, size in parts.items() if not stacks[number].is_ordered]))
    most: int | None = least + sum(parts.values()) + _INDICES
    lower = least
    if plan.bounds is not None:
        lowest, highest = plan.bounds
        lower, most = min(least, lowest), None if highest is None else most + max(0, highest - peak)
    text = carry_text(arrays)
    numbers = tuple([each.number for each in given])
    if numbers:
        how = how_to_donate(module, numbers)
        text = f"{text}; and donate {'it' if len(arrays) == 1 else 'them'}, jax.jit(f, {how.option}){how.otherwise}"
    return Carried(text, new_peak, lower, most, loop.name, numbers)
