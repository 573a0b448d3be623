"""Tiles of given numbers: boxes with steps, and what sums of runs make of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from xlashape.errors import InvalidArgumentError, InvalidMapError
from xlashape.math import ceil_div
from xlashape.symbolic.expr.expression import const
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.tile.digits import Run
from xlashape.symbolic.tile.sums import is_mixed

__all__ = ["Steps", "TileBox", "clipped", "integers", "steps_of"]


def integers(values: Iterable[Any], field: str) -> list[int]:
    """Sizes, offsets or values as plain ints; InvalidArgumentError if they are not integers."""
    try:
        return [value if value.__class__ is int else const(value).value for value in values]
    except (TypeError, InvalidMapError):
        raise InvalidArgumentError(f"{field} are integers, not {values!r:.60}", field=field) from None


class TileBox(NamedTuple):
    """Along each dimension the indices offset, offset + stride, …, `size` of them.

    The stride of a size of 1 means nothing. A size of 0 along any dimension: no element.
    """

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class Steps(NamedTuple):
    """The numbers offset, offset + stride, …, `size` of them."""

    offset: int
    size: int
    stride: int


def steps_of(offset: int, terms: Sequence[tuple[Run, int]]) -> Steps | None:
    """offset + Σ factor × run as one sequence; None if it is none. With several terms of size 1 alone, the stride is 0.

    Where factors of both signs meet, the sequence grows.

    >>> steps_of(5, [(Run(1, 3), 8), (Run(0, 8), 1)]), steps_of(0, [(Run(0, 3), 8), (Run(0, 7), 1)])
    (Steps(offset=13, size=24, stride=1), None)
    """
    offset += sum([run.start * factor for run, factor in terms])
    if is_mixed([factor for _, factor in terms]):
        offset += sum([(run.length - 1) * factor for run, factor in terms if factor < 0])
        terms = [(run, abs(factor)) for run, factor in terms]
    moving = sorted([(abs(factor), factor, run.length) for run, factor in terms if run.length > 1])
    if len(moving) < 2:
        size = moving[0][2] if moving else 1
        stride = terms[0][1] if len(terms) == 1 else moving[0][1] if moving else 0
        return Steps(offset, size, stride)
    smallest = moving[0][1]
    reach = 0
    for step, factor, count in moving:
        if factor % smallest or step > abs(smallest) + reach:
            return None
        reach += step * (count - 1)
    return Steps(offset, reach // abs(smallest) + 1, smallest)


def clipped(steps: Steps, limit: Interval) -> Steps:
    """Those of the numbers that lie within the limit.

    >>> clipped(Steps(-3, 5, 2), Interval(0, 4)), clipped(Steps(9, 5, -2), Interval(2, 7)), clipped(Steps(0, 3, 1), Interval(5, 9))
    (Steps(offset=1, size=2, stride=2), Steps(offset=7, size=3, stride=-2), Steps(offset=0, size=0, stride=1))
    """
    offset, size, stride = steps
    low, high = limit
    if stride < 0:
        offset, stride, low, high = -offset, -stride, -high, -low
    if stride == 0:
        return steps if steps.offset in limit else steps._replace(size=0)
    first = max(0, ceil_div(low - offset, stride))
    last = min(size - 1, (high - offset) // stride)
    if first > last:
        return steps._replace(size=0)
    return Steps(steps.offset + first * steps.stride, last - first + 1, steps.stride)
