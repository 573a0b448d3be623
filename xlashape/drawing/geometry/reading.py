"""The elements of an operand that part of an output reads, by evaluating a map."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from xlashape import limits
from xlashape.errors import InvalidArgumentError, InvalidShapeError
from xlashape.math import product
from xlashape.shape import Shape, tiling
from xlashape.shape.arguments.indices import checked_index
from xlashape.symbolic import IndexingMap

__all__ = ["MAX_READS", "Reading", "elements_read", "outputs_of_tile", "outputs_of_warp"]

MAX_READS = 1 << 16
"""The most reads of one picture: elements of the output, times the values of the map's range variables."""


class Reading(NamedTuple):
    """What some elements of an output read."""

    readers: dict[tuple[int, ...], int]
    """By index of the operand: the number of the first output that reads it, in the order in which outputs were given."""
    reads: int
    """How many reads there are, repeated ones included."""
    outside: int
    """How many of them lie outside of the operand."""


def outputs_of_tile(output: Shape, at: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """The indices of a tile of an output, in row-major order; cut off where the output ends.

    >>> outputs_of_tile(Shape.parse("f32[3,5]"), (2, 3), (2, 4))
    [(2, 3), (2, 4)]
    """
    start = checked_index(output, output.dimensions, at)
    if len(sizes) != len(start) or any(size < 1 for size in sizes):
        raise InvalidArgumentError(
            f"a tile of {output} takes {len(start)} sizes of 1 or more, found {list(sizes)}", field="tile"
        )
    spans = [range(i, min(size, i + t)) for i, size, t in zip(start, output.dimensions, sizes, strict=True)]
    limits.check("elements of the output that are drawn", product(map(len, spans)), MAX_READS, field="tile")
    indices: list[tuple[int, ...]] = [()]
    for span in spans:
        indices = [(*index, i) for index in indices for i in span]
    return indices


def outputs_of_warp(output: Shape, at: Sequence[int], lanes: int) -> list[tuple[int, ...]]:
    """The indices of so many elements that follow each other in the output's buffer, padding left out.

    >>> outputs_of_warp(Shape.parse("f32[3,5]{0,1}"), (1, 0), 3)
    [(1, 0), (2, 0), (0, 1)]
    """
    limits.check("elements of the output that are drawn", lanes, MAX_READS, field="warp")
    position = tiling.linear_index(output, at)
    end = tiling.physical_elements(output)
    indices: list[tuple[int, ...]] = []
    while position < end and len(indices) < lanes:
        block = np.arange(position, min(end, position + MAX_READS), dtype=np.int64)
        rows, is_element = tiling.multi_indices(output, block)
        indices += [tuple(row) for row in rows[is_element].tolist()]
        position += len(block)
    return indices[:lanes]


def elements_read(maps: Iterable[IndexingMap], outputs: Sequence[Sequence[int]], operand: Shape) -> Reading:
    """What these elements of the output read by all the maps together. Runtime variables have their lower bounds.

    LimitExceededError for more than `MAX_READS` reads; InvalidShapeError for an operand of another rank than a map's results.

    >>> m = IndexingMap.parse("(d0)[s0] -> (d0, s0), domain: d0 in [0, 2], s0 in [0, 1]")
    >>> elements_read([m], [(1,)], Shape.parse("f32[3,2]"))
    Reading(readers={(1, 0): 0, (1, 1): 0}, reads=2, outside=0)
    """
    readers: dict[tuple[int, ...], int] = {}
    reads = outside = 0
    for indexing_map in maps:
        if indexing_map.is_known_empty or not outputs:
            continue
        if len(indexing_map.results) != operand.rank:
            raise InvalidShapeError(
                f"the map has {len(indexing_map.results)} results, and {operand} has {operand.rank} dimensions",
                field="operand",
            )
        spans = [(var.bounds.lower, var.bounds.size) for var in indexing_map.ranges]
        combinations = product(size for _, size in spans)
        limits.check("reads that are drawn", len(outputs) * combinations, MAX_READS, field="tile")
        numbers = np.arange(combinations, dtype=np.int64)
        columns: list[np.ndarray] = []
        for lower, size in reversed(spans):
            numbers, digit = np.divmod(numbers, size)
            columns.append(digit + lower)
        values = np.stack(columns[::-1], 1) if columns else np.zeros((1, 0), np.int64)
        points = np.empty((len(outputs) * combinations, len(indexing_map.variables)), np.int64)
        dims = len(indexing_map.dims)
        points[:, :dims] = np.repeat(np.array(outputs, np.int64).reshape(len(outputs), dims), combinations, axis=0)
        points[:, dims : dims + len(spans)] = np.tile(values, (len(outputs), 1))
        points[:, dims + len(spans) :] = [var.bounds.lower for var in indexing_map.runtime]
        results, inside = indexing_map.evaluate_batch(points)
        lanes = np.repeat(np.arange(len(outputs)), combinations)[inside]
        for row, lane in zip(results[inside].tolist(), lanes.tolist(), strict=True):
            reads += 1
            if all(0 <= i < size for i, size in zip(row, operand.dimensions, strict=True)):
                readers.setdefault(tuple(row), lane)
            else:
                outside += 1
    return Reading(readers, reads, outside)
