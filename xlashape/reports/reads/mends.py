"""What mends a way of reading that fetches in vain or again: another order of the operand's dimensions in memory, which
is tried, or an array of its own for what is read.
"""

from __future__ import annotations

from collections.abc import Callable

from xlashape.reports.reads.answer import Way
from xlashape.shape import Layout, Shape
from xlashape.symbolic.expr.expression import variables_of


def mend_of(way: Way, operand: Shape, output: Shape, lost: int, lost_by: Callable[[Shape], int]) -> str | None:
    """What mends a streamed read of an array; None where nothing is known to.

    Of all orders of the operand, that of the outputs which read it lets neighbouring outputs read neighbours. `lost`
    bytes are fetched in vain or again, and `lost_by` says how many are with another layout of the operand: the order is
    given if it saves at least half of them.
    """
    if way.consumer.kind != "streamed" or not operand.is_array or not output.is_array:
        return None
    dims = way.access.map.variable_expressions()[0]
    used = [variables_of([each]) for each in way.access.map.results]
    before = _minor_to_major(operand)
    order = dict.fromkeys(
        [
            number
            for along in _minor_to_major(output)
            if along < len(dims) and output.dimensions[along] > 1
            for number in before
            if dims[along] in used[number]
        ]
    )
    order = tuple(dict.fromkeys([*order, *before]))
    if order != before:
        layout = Layout(order) if operand.layout is None else operand.layout.replace(minor_to_major=order)
        left = lost_by(operand.replace(layout=layout))
        if 2 * left <= lost:
            return f"the operand as {layout}, or the result in its order"
    stride = abs(way.sample.stride or 0)
    minor = next((each for each in before if operand.dimensions[each] > 1), None)
    along = next((each for each in _minor_to_major(output) if output.dimensions[each] > 1), None)
    if stride > 1 and minor is not None and along is not None and along < len(dims) and dims[along] in used[minor]:
        return f"an array of its own for what is read: 1 of {stride} elements of dimension {minor}"
    return None


def _minor_to_major(array: Shape) -> tuple[int, ...]:
    return tuple(range(array.rank - 1, -1, -1)) if array.layout is None else array.layout.minor_to_major
