"""Turns maps into matrices: row i, column j is whether the maps lead from element i to element j of the other array,
both counted in row-major order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from xlashape.hlo import HloInstruction
from xlashape.indexing import OperandIndexing
from xlashape.symbolic import Constant, IndexingMap, Interval, Variable, VariableKind

Dims = tuple[int, ...]
FREE = Interval(-(1 << 40), 1 << 40)


def grid(dims: Iterable[int]) -> np.ndarray:
    """Every index, row-major: int64[n, rank]."""
    dims = tuple(dims)
    return np.indices(dims, dtype=np.int64).reshape(len(dims), -1).T if dims else np.zeros((1, 0), dtype=np.int64)


def matrix(
    members: Iterable[OperandIndexing], dims: Dims, target: Dims, values: Mapping[HloInstruction, Any]
) -> tuple[np.ndarray, bool]:
    """The matrix of all members together, and whether any member leads outside the array. `values` are the values of
    the instructions in this run, from which runtime variables are read.
    """
    found = np.zeros((int(np.prod(dims)), int(np.prod(target))), dtype=bool)
    outside = False
    for one in members:
        if one.map.is_known_empty or not found.shape[0]:
            continue
        rows, results = pairs(one, dims, values)
        inside = np.all((results >= 0) & (results < np.array(target, dtype=np.int64)), axis=1)
        outside |= not inside.all()
        rows, results = rows[inside], results[inside]
        if len(rows):
            columns = np.ravel_multi_index(tuple(results.T), target) if target else np.zeros(len(rows), dtype=np.int64)
            found[rows, columns] = True
    return found, outside


def pairs(
    one: OperandIndexing, dims: Dims, values: Mapping[HloInstruction, Any], position: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs for every value of the range variables, as two arrays: the numbers of elements, and the indices that the
    map leads to from them.

    `position` is the position of the executing replica in its group.
    """
    assert not one.map.is_undefined
    index = grid(dims)
    ranges = grid([var.bounds.size for var in one.map.ranges])
    ranges += np.array([var.bounds.lower for var in one.map.ranges], dtype=np.int64)
    rows = np.repeat(np.arange(len(index)), len(ranges))
    points = np.hstack([index[rows], np.tile(ranges, (len(index), 1))])
    points = np.hstack([points, _runtime(one, points[:, : len(dims)], points[:, len(dims) :], values, position)])
    results, inside = one.map.evaluate_batch(points)
    return rows[inside], results[inside]


def _runtime(
    one: OperandIndexing, index: np.ndarray, ranges: np.ndarray, values: Mapping[HloInstruction, Any], position: int
) -> np.ndarray:
    """The values of the runtime variables in this run. A producer is evaluated after those that its map needs."""
    count = len(one.runtime)
    assert count == len(one.map.runtime)
    known: dict[int, np.ndarray] = {}
    while len(known) < count:
        before = len(known)
        for k, producer in enumerate(one.runtime):
            if producer.is_position:
                known[k] = np.full(len(index), position, np.int64)
                continue
            inner = producer.map
            used = {v.index for v in inner.used_variables() if v.kind is VariableKind.RUNTIME}
            if k in known or used - known.keys():
                continue
            columns = [index, ranges if inner.ranges else ranges[:, :0]]
            columns += [known.get(i, np.zeros(len(index), np.int64))[:, None] for i in range(len(inner.runtime))]
            at = _everywhere(inner, np.hstack(columns))
            value = np.asarray(values[producer.instruction])
            # Rows outside the map's domain are dropped later; their producers may lead anywhere.
            at = np.clip(at, 0, np.array(value.shape, dtype=np.int64) - 1)
            number = value[tuple(at.T)].astype(np.int64) if value.ndim else np.full(len(index), int(value), np.int64)
            bounds = producer.bounds or one.map.runtime[k].bounds
            known[k] = np.clip(number, bounds.lower, bounds.upper) if producer.is_clamped else number
        assert len(known) > before, "producers depend on one another"
    return np.stack([known[k] for k in range(count)], axis=1) if count else np.zeros((len(index), 0), np.int64)


def _everywhere(inner: IndexingMap, points: np.ndarray) -> np.ndarray:
    """The results at every point, whether it lies in the domain or not."""
    if all(type(result) in (Constant, Variable) for result in inner.results):
        flat = (*inner.dims, *inner.ranges, *inner.runtime)
        starts = {
            VariableKind.DIM: 0,
            VariableKind.RANGE: len(inner.dims),
            VariableKind.RUNTIME: len(inner.dims) + len(inner.ranges),
        }
        assert points.shape[1] == len(flat)
        columns = [
            np.full(len(points), result.value, np.int64)
            if isinstance(result, Constant)
            else points[:, starts[result.kind] + result.index]  # type: ignore[attr-defined]  # a start that is not a constant is a variable
            for result in inner.results
        ]
        return np.stack(columns, axis=1) if columns else np.zeros((len(points), 0), np.int64)
    free = IndexingMap(
        [v._replace(bounds=FREE) for v in inner.dims],
        [v._replace(bounds=FREE) for v in inner.ranges],
        [v._replace(bounds=FREE) for v in inner.runtime],
        inner.results,
    )
    results, inside = free.evaluate_batch(points)
    assert inside.all()
    return results
