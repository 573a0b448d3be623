"""Enumerates the elements that maps name, and compares maps as functions. Slow and plain: a reference for tests."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xlashape.indexing import OperandIndexing
from xlashape.symbolic import IndexingMap


def elements(
    indexing: OperandIndexing, index: Sequence[int], values: Mapping[Any, Any] | None = None
) -> set[tuple[int, ...]]:
    """The elements that an access names for one element. `values` are the values of instructions, for the runtime
    variables.
    """
    found = indexing.map
    assert not found.is_undefined
    if found.is_known_empty:
        return set()
    result: set[tuple[int, ...]] = set()
    for ranges in itertools.product(*[range(var.bounds.lower, var.bounds.upper + 1) for var in found.ranges]):
        runtime = _runtime(indexing, tuple(index), ranges, values or {})
        at = found.evaluate((*index, *ranges, *runtime))
        if at is not None:
            result.add(at)
    return result


def _runtime(
    indexing: OperandIndexing, index: tuple[int, ...], ranges: tuple[int, ...], values: Mapping[Any, Any]
) -> list[int]:
    known: dict[int, int] = {}
    count = len(indexing.runtime)
    assert count == len(indexing.map.runtime)
    while len(known) < count:
        before = len(known)
        for k, producer in enumerate(indexing.runtime):
            if k in known:
                continue
            used = {v.index for v in producer.map.used_variables() if v.kind == 2}
            if used - known.keys():
                continue
            own = [known.get(i, 0) for i in range(len(producer.map.runtime))]
            dims = producer.map
            # The producer's map is evaluated without its own bounds: the domain of the access alone decides.
            free = IndexingMap(
                [v._replace(bounds=(-(1 << 60), 1 << 60)) for v in dims.dims],
                [v._replace(bounds=(-(1 << 60), 1 << 60)) for v in dims.ranges],
                [v._replace(bounds=(-(1 << 60), 1 << 60)) for v in dims.runtime],
                dims.results,
            )
            at = free.evaluate((*index, *(ranges if dims.ranges else ()), *own))
            value = np.asarray(values[producer.instruction])
            assert at is not None
            clamped = tuple(min(max(0, a), n - 1) for a, n in zip(at, value.shape, strict=True))
            number = int(value[clamped])
            bounds = producer.bounds or indexing.map.runtime[k].bounds
            known[k] = min(max(number, bounds.lower), bounds.upper) if producer.is_clamped else number
        assert len(known) > before, "producers depend on one another"
    return [known[k] for k in range(count)]


def difference(a: IndexingMap, b: IndexingMap, limit: int = 3000, seed: int = 0) -> str | None:
    """None if the maps agree as functions on every point tried (all, if they are few), else a counterexample."""
    if a.is_undefined or b.is_undefined:
        return None if a.is_undefined == b.is_undefined else "one is undefined"
    if a.is_known_empty and b.is_known_empty:
        return None
    if a.is_known_empty or b.is_known_empty:
        full = b if a.is_known_empty else a
        inside = next((p for p in points(full, limit, seed) if full.evaluate(p) is not None), None)
        return None if inside is None else f"one is empty, the other has {inside}"
    if a.counts != b.counts:
        return set_difference(a, b, limit, seed)
    for first, second in ((a, b), (b, a)):
        for point in points(first, limit, seed):
            if first.evaluate(point) != second.evaluate(point):
                return f"at {point}: {first.evaluate(point)} and {second.evaluate(point)}"
    return None


def set_difference(a: IndexingMap, b: IndexingMap, limit: int = 3000, seed: int = 0) -> str | None:
    """Like `difference`, for maps with different range variables: None if they name the same set of elements for every
    index and value of the runtime variables that was tried, else a counterexample.
    """
    if len(a.dims) != len(b.dims):
        return "they have different dimensions"
    if a.runtime or b.runtime:
        return "they have different variables"
    r = random.Random(seed)
    bounds = [
        (min(x.bounds.lower, y.bounds.lower), max(x.bounds.upper, y.bounds.upper))
        for x, y in zip(a.dims, b.dims, strict=True)
    ]
    for index in _points(bounds, 40, r):
        left, right = (elements(OperandIndexing(m), index) for m in (a, b))
        if left != right:
            return f"at {index}: {left ^ right}"
    return None


def points(m: IndexingMap, limit: int, seed: int) -> Iterator[tuple[int, ...]]:
    return _points([var.bounds for var in m.variables], limit, random.Random(seed))


def _points(bounds: Sequence[Sequence[int]], limit: int, r: random.Random) -> Iterator[tuple[int, ...]]:
    axes = [range(low, high + 1) for low, high in bounds]
    size = 1
    for axis in axes:
        size *= len(axis)
    if size <= limit:
        yield from itertools.product(*axes)
        return
    # Corners and random points.
    for _ in range(limit):
        yield tuple(
            r.choice((axis[0], axis[-1], axis[r.randrange(len(axis))], axis[r.randrange(len(axis))])) for axis in axes
        )
