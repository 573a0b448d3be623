"""Coalescing: how far apart in memory the elements lie that neighbouring outputs read, and how many memory transactions a group of them takes.

Neighbours are successive elements of the output in the order of its buffer, as the threads of a GPU's warp compute them. One transaction fetches one
aligned segment of memory; every buffer is taken to begin at the start of a segment.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from xlashape.caches import cached
from xlashape.errors import InvalidArgumentError, LimitExceededError
from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.leaves import leaves, map_bytes
from xlashape.indexing.answers.operand_indexing import OperandIndexing
from xlashape.indexing.answers.operand_indexing_set import OperandIndexingSet
from xlashape.indexing.reports.counting import fixed_runtime
from xlashape.indexing.reports.physical import output_to_input_physical
from xlashape.limits import INT64_MAX, spend
from xlashape.math import ceil_div, product
from xlashape.shape.tiling.physical_size import stored_bits
from xlashape.symbolic import IndexingMap, Interval

__all__ = ["MAX_WARP", "OperandCoalescing", "check_warp", "coalescing", "coalescing_of"]

MAX_WARP = 1 << 16
SAMPLED_WARPS = 64
"""The most warps of an output that are sampled."""
SAMPLED_STEPS = 64
"""The most values of the range variables that are sampled: each read of a warp is one step of a loop over them."""
SAMPLED_READS = 1 << 18
"""The most elements that are sampled; of wide warps, fewer warps are."""


class OperandCoalescing(NamedTuple):
    """How one output reads one leaf of an operand in one way."""

    operand: int
    leaf: int
    indexing: OperandIndexing
    """The map between positions."""
    stride: int | None
    """Elements between what two neighbouring outputs read; None where that differs, or there are no neighbours."""
    transactions: float | None
    """Segments that one read of a warp touches, on average. None where nothing is known or read."""
    ideal: int
    """Segments that a read would touch if the warp's elements were contiguous."""

    @property
    def efficiency(self) -> float | None:
        """ideal ÷ transactions, at most 1.0 (all reading one element takes less than the ideal)."""
        return None if self.transactions is None else min(1.0, self.ideal / self.transactions)


def coalescing(
    instruction: HloInstruction, output: int = 0, *, warp: int = 32, segment_bytes: int = 128
) -> tuple[OperandCoalescing, ...]:
    """How each operand is read: one result for each way in which it is read.

    `warp` successive outputs read together; `segment_bytes` is what one transaction fetches. Up to 64 warps, spread over the output, and up to 64
    values of the range variables are sampled, with runtime variables at their lower bounds. InvalidArgumentError for a warp or segment
    below 1, LimitExceededError for a warp beyond `MAX_WARP`, else errors as for `output_to_input_physical`.

    >>> from xlashape.hlo import HloModule
    >>> text = "HloModule m ENTRY e { p = f32[64,64] parameter(0) ROOT t = f32[64,64] transpose(p), dimensions={1,0} }"
    >>> (read,) = coalescing(HloModule.parse(text).entry.root)
    >>> read.stride, read.transactions, read.ideal
    (64, 32.0, 1)
    """
    check_warp(warp, segment_bytes)
    return coalescing_of(instruction, output_to_input_physical(instruction, output), warp, segment_bytes)


def check_warp(warp: int, segment_bytes: int) -> None:
    """Raises InvalidArgumentError below 1, LimitExceededError for a warp beyond `MAX_WARP`."""
    if warp < 1 or segment_bytes < 1:
        raise InvalidArgumentError(
            f"a warp and a segment are at least 1, not {warp} and {segment_bytes}",
            field="warp" if warp < 1 else "segment_bytes",
        )
    if warp > MAX_WARP:
        raise LimitExceededError(
            f"a warp is at most {MAX_WARP} outputs, not {warp}",
            limit="warp",
            maximum=MAX_WARP,
            value=warp,
            field="warp",
        )


def coalescing_of(
    instruction: HloInstruction, physical: Iterable[OperandIndexingSet], warp: int, segment_bytes: int
) -> tuple[OperandCoalescing, ...]:
    """`coalescing`, where the maps between positions are known."""
    results: list[OperandCoalescing] = []
    for number, (operand, reads) in enumerate(zip(instruction.operands, physical, strict=True)):
        arrays = leaves(operand.shape)
        for read in reads:
            bits = stored_bits(arrays[read.leaf])
            ideal = ceil_div(warp * bits, segment_bytes * 8)
            stride, transactions = _sampled(fixed_runtime(read.map), bits, warp, segment_bytes)
            results.append(OperandCoalescing(number, read.leaf, read, stride, transactions, ideal))
    return tuple(results)


# Modules repeat their maps, so results are kept.
@cached(max_bytes=8 << 20, weigh=lambda key, value: 400 + map_bytes(key[0]))
def _sampled(indexing_map: IndexingMap, bits: int, warp: int, segment_bytes: int) -> tuple[int | None, float | None]:
    """(stride, transactions) of a map between positions."""
    import numpy as np

    if indexing_map.is_undefined or indexing_map.is_known_empty:
        return None, None
    low, high = indexing_map.dims[0].bounds
    rows = max(1, SAMPLED_READS // warp)
    steps = _steps([var.bounds for var in indexing_map.ranges], min(SAMPLED_STEPS, rows))
    warps = ceil_div(high - low + 1, warp)
    sampled = min(warps, SAMPLED_WARPS, max(1, rows // len(steps)))
    spend(sampled * len(steps) * warp // 64 + 1)
    starts = np.array([low + warp * (i * (warps - 1) // max(1, sampled - 1)) for i in range(sampled)], np.int64)
    # The last warp may have fewer lanes; its other lanes compute the first element of the warp again and are not counted.
    lanes = np.arange(warp, dtype=np.int64)
    inside_output = lanes[None, :] <= high - starts[:, None]
    outputs = starts[:, None] + np.where(inside_output, lanes[None, :], 0)
    shape = (len(starts), len(steps), warp)
    points = np.empty((*shape, 1 + len(indexing_map.ranges)), dtype=np.int64)
    points[..., 0] = outputs[:, None, :]
    points[..., 1:] = np.asarray(steps, dtype=np.int64).reshape(1, len(steps), 1, len(indexing_map.ranges))
    results, inside = indexing_map.evaluate_batch(points.reshape(-1, points.shape[-1]))
    positions = results[:, 0].reshape(-1, warp)
    read = (inside.reshape(shape) & inside_output[:, None, :]).reshape(-1, warp)
    both = read[:, 1:] & read[:, :-1]
    between = (positions[:, 1:] - positions[:, :-1])[both]
    stride = int(between[0]) if len(between) and bool((between == between[0]).all()) else None
    read_rows = int(read.any(axis=1).sum())
    if not read_rows:
        return stride, None
    ascending = np.sort(np.where(read, positions, INT64_MAX), axis=1)
    read = ascending != INT64_MAX
    ascending = np.where(read, ascending, 0)
    exact = ascending.astype(object) if (int(ascending.max()) + 1) * bits > INT64_MAX else ascending
    first, last = exact * bits // 8 // segment_bytes, ((exact + 1) * bits - 1) // 8 // segment_bytes
    # In ascending order of positions, an element adds those of its segments that the element before it has not touched.
    new = last - first + 1
    new[:, 1:] = np.minimum(new[:, 1:], last[:, 1:] - last[:, :-1])
    return stride, int(np.where(read, new, 0).sum()) / read_rows


def _steps(bounds: list[Interval], most: int) -> list[list[int]]:
    """Some values of the range variables: all if there are no more than `most`, else `most` of them, evenly spaced.

    >>> _steps([Interval(0, 1), Interval(5, 7)], 3)
    [[0, 5], [0, 7], [1, 7]]
    """
    total = product(interval.size for interval in bounds)
    count = min(total, most)
    steps: list[list[int]] = []
    for i in range(count):
        position = i * (total - 1) // max(1, count - 1)
        values: list[int] = []
        for interval in reversed(bounds):
            values.append(interval.lower + position % interval.size)
            position //= interval.size
        steps.append(values[::-1])
    return steps
