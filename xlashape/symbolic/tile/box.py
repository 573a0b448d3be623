"""Tiles whose sizes are numbers: boxes with strides, and the arithmetic progressions that sums of runs give along each dimension."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from xlashape.errors import InvalidArgumentError, InvalidMapError
from xlashape.math import ceil_div
from xlashape.symbolic.expr.expression import const
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.tile.digits import Run
from xlashape.symbolic.tile.sums import is_mixed


def integers(values: Iterable[Any], field: str) -> list[int]:
    """Sizes, offsets or values as Python integers. Raises InvalidArgumentError if they are not integers."""
    try:
        return [value if value.__class__ is int else const(value).value for value in values]
    except (TypeError, InvalidMapError):
        raise InvalidArgumentError(f"{field} are integers, not {values!r:.60}", field=field) from None


class TileBox(NamedTuple):
    """Along each dimension the indices offset, offset + stride, …, `size` of them.

    The stride of a dimension with size 1 has no meaning. A box with a size of 0 has no elements.
    """

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class Progression(NamedTuple):
    """The numbers offset, offset + stride, …, `size` of them."""

    offset: int
    size: int
    stride: int


def progression_of(offset: int, terms: Sequence[tuple[Run, int]]) -> Progression | None:
    """The numbers offset + Σ factor × run as one progression; None if they are not one. The stride is 0 if there are several terms, all of length 1.

    If there are factors of both signs, the stride is positive.

    >>> progression_of(5, [(Run(1, 3), 8), (Run(0, 8), 1)]), progression_of(0, [(Run(0, 3), 8), (Run(0, 7), 1)])
    (Progression(offset=13, size=24, stride=1), None)
    """
    offset += sum([run.start * factor for run, factor in terms])
    if is_mixed([factor for _, factor in terms]):
        offset += sum([(run.length - 1) * factor for run, factor in terms if factor < 0])
        terms = [(run, abs(factor)) for run, factor in terms]
    varying = sorted([(abs(factor), factor, run.length) for run, factor in terms if run.length > 1])
    if len(varying) < 2:
        size = varying[0][2] if varying else 1
        stride = terms[0][1] if len(terms) == 1 else varying[0][1] if varying else 0
        return Progression(offset, size, stride)
    smallest = varying[0][1]
    reach = 0
    for step, factor, count in varying:
        if factor % smallest or step > abs(smallest) + reach:
            return None
        reach += step * (count - 1)
    return Progression(offset, reach // abs(smallest) + 1, smallest)


def clipped(progression: Progression, limit: Interval) -> Progression:
    """The numbers of the progression that lie within the limit.

    >>> clipped(Progression(-3, 5, 2), Interval(0, 4)), clipped(Progression(9, 5, -2), Interval(2, 7)), clipped(Progression(0, 3, 1), Interval(5, 9))
    (Progression(offset=1, size=2, stride=2), Progression(offset=7, size=3, stride=-2), Progression(offset=0, size=0, stride=1))
    """
    offset, size, stride = progression
    low, high = limit
    if stride < 0:
        offset, stride, low, high = -offset, -stride, -high, -low
    if stride == 0:
        return progression if progression.offset in limit else progression._replace(size=0)
    first = max(0, ceil_div(low - offset, stride))
    last = min(size - 1, (high - offset) // stride)
    if first > last:
        return progression._replace(size=0)
    return Progression(progression.offset + first * progression.stride, last - first + 1, progression.stride)
