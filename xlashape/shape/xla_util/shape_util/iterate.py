"""Every index of an array, as a Python iterator. XLA's `ShapeUtil::ForEachIndex` and its variants call a visitor with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xlashape.errors import InvalidArgumentError, InvalidShapeError
from xlashape.limits import spend
from xlashape.shape.arguments import array_of
from xlashape.shape.parts.checks import brief, integer, shown
from xlashape.shape.parts.tile import UNBOUNDED_SIZE
from xlashape.shape.value.shape import Shape
from xlashape.shape.xla_util.shape_util._common import minor_to_major_of

__all__ = ["for_each_index"]


def for_each_index(
    shape: Shape,
    base: Iterable[int] | None = None,
    count: Iterable[int] | None = None,
    incr: Iterable[int] | None = None,
) -> Iterator[tuple[int, ...]]:
    """The indices of an array in the order of its layout, the most minor dimension fastest.

    Dimension d goes from `base[d]` up to, not with, `base[d] + count[d]` in steps of `incr[d]`; by default it
    covers all indices. As in XLA, a dimension with a count of 0 has one index, `base[d]`, whatever its step. An array without elements has
    no indices; a scalar has one. InvalidArgumentError for arguments of the wrong length, a range beyond the array, or a step below 1: with a
    step of 0 XLA visits several indices again and again until the visitor stops it, which an iterator does not offer.

    >>> list(for_each_index(Shape.parse("f32[2,2]{0,1}")))
    [(0, 0), (1, 0), (0, 1), (1, 1)]
    >>> list(for_each_index(Shape.parse("f32[4]"), (0,), (4,), (3,)))
    [(0,), (3,)]
    >>> list(for_each_index(Shape.parse("f32[2,2]"), (1, 0), (0, 2), (0, 1)))
    [(1, 0), (1, 1)]
    """
    array = array_of(shape)
    if UNBOUNDED_SIZE in array.dimensions:
        raise InvalidShapeError(f"{brief(array)} has an unbounded dimension, so no end of indices", field="shape")
    first = _entries(array, base, 0, "base")
    span = [size - start for size, start in zip(array.dimensions, first, strict=True)]
    span = span if count is None else _entries(array, count, 0, "count")
    step = _entries(array, incr, 1, "incr")
    for d, size in enumerate(array.dimensions):
        if step[d] < 1 and not (step[d] == 0 and span[d] == 0):
            endless = ": the indices would have no end" if step[d] == 0 else ""
            raise InvalidArgumentError(f"a step is 1 or more, not {shown(step[d])}{endless}", field=("incr", d))
        if first[d] < 0 or span[d] < 0 or first[d] + (span[d] or min(size, 1)) > size:
            end = shown(first[d] + span[d])
            raise InvalidArgumentError(
                f"{shown(first[d])} to {end} is not inside dimension {d} of {brief(array)}", field="count"
            )
    if 0 in array.dimensions:
        return iter(())
    ranges = [range(first[d], first[d] + (span[d] or 1), step[d] or 1) for d in range(array.rank)]
    return _indices(ranges, list(minor_to_major_of(array)))


def _entries(array: Shape, values: Iterable[int] | None, default: int, field: str) -> list[int]:
    if values is None:
        return [default] * array.rank
    entries = [integer(value, (field, d)) for d, value in enumerate(values)]
    if len(entries) != array.rank:
        raise InvalidArgumentError(f"{field} has {len(entries)} numbers for {array.rank} dimensions", field=field)
    return entries


def _indices(ranges: list[range], order: list[int]) -> Iterator[tuple[int, ...]]:
    counters = [0] * len(ranges)
    index = [values[0] for values in ranges]
    while True:
        spend()
        yield tuple(index)
        for d in order:
            counters[d] += 1
            if counters[d] < len(ranges[d]):
                index[d] = ranges[d][counters[d]]
                break
            counters[d] = 0
            index[d] = ranges[d][0]
        else:
            return
