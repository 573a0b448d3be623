"""Coalescing: how far apart in memory the elements lie that neighbouring outputs read, and how many memory transactions a group of them takes.

Neighbours are successive elements of the output in the order of its buffer, as the threads of a GPU's warp take them. One transaction fetches one
aligned segment of memory; buffers are taken to begin at a segment.
"""

from __future__ import annotations

from typing import NamedTuple

from xlashape.errors import InvalidArgumentError
from xlashape.hlo import HloInstruction
from xlashape.indexing.counting import fixed_runtime
from xlashape.indexing.operand_indexing import OperandIndexing
from xlashape.indexing.physical import output_to_input_physical
from xlashape.indexing.registry import leaves
from xlashape.math import ceil_div, product
from xlashape.shape import Shape
from xlashape.symbolic import IndexingMap

__all__ = ["OperandCoalescing", "coalescing"]

SAMPLED_WARPS = 64
SAMPLED_STEPS = 64
"""Values of the range variables that are looked at: every read of a warp is one step of a loop over them."""


class OperandCoalescing(NamedTuple):
    """How one output reads one leaf of an operand in one way."""

    operand: int
    leaf: int
    indexing: OperandIndexing
    """The map between positions that was looked at."""
    stride: int | None
    """Elements between what two neighbouring outputs read; None where it is not always the same (or there are no neighbours)."""
    transactions: float | None
    """Segments that one read of a warp touches, on average. None where nothing is known or read."""
    ideal: int
    """Segments if the warp's elements lay one after the other."""

    @property
    def efficiency(self) -> float | None:
        """ideal ÷ transactions, at most 1.0 (all reading one element takes less than the ideal)."""
        return None if self.transactions is None else min(1.0, self.ideal / self.transactions)


def coalescing(
    instruction: HloInstruction, output: int = 0, *, warp: int = 32, segment_bytes: int = 128
) -> tuple[OperandCoalescing, ...]:
    """How each operand is read, one answer for each way in which it is.

    `warp` successive outputs read together; `segment_bytes` is what one transaction fetches. Up to 64 warps all over the output and as many
    values of the range variables are looked at, with runtime variables at their lower bounds. InvalidArgumentError for a warp or segment
    below 1, else errors as for `output_to_input`.
    """
    if warp < 1 or segment_bytes < 1:
        raise InvalidArgumentError(f"a warp and a segment are at least 1, not {warp} and {segment_bytes}")
    found: list[OperandCoalescing] = []
    for number, (operand, read) in enumerate(
        zip(instruction.operands, output_to_input_physical(instruction, output), strict=True)
    ):
        arrays = leaves(operand.shape)
        for one in read:
            bits = _element_bits(arrays[one.leaf])
            stride, transactions = _sampled(fixed_runtime(one.map), bits, warp, segment_bytes)
            found.append(
                OperandCoalescing(number, one.leaf, one, stride, transactions, ceil_div(warp * bits, segment_bytes * 8))
            )
    return tuple(found)


def _element_bits(shape: Shape) -> int:
    array = shape.tuple_shapes[0] if shape.is_buffer else shape
    own = array.layout.element_size_in_bits if array.layout is not None else 0
    return own or max(8, array.element_type.bit_width)


def _sampled(found: IndexingMap, bits: int, warp: int, segment_bytes: int) -> tuple[int | None, float | None]:
    import numpy as np

    if found.is_undefined or found.is_known_empty:
        return None, None
    low, high = found.dims[0].bounds
    warps = ceil_div(high - low + 1, warp)
    starts = low + warp * np.unique(np.linspace(0, warps - 1, min(warps, SAMPLED_WARPS)).astype(np.int64))
    steps = _steps([var.bounds.size for var in found.ranges], [var.bounds.lower for var in found.ranges])
    lanes = starts[:, None, None] + np.arange(warp, dtype=np.int64)[None, None, :]
    shape = (len(starts), len(steps), warp)
    points = np.empty((*shape, 1 + len(found.ranges)), dtype=np.int64)
    points[..., 0] = lanes
    points[..., 1:] = np.asarray(steps, dtype=np.int64).reshape(1, len(steps), 1, len(found.ranges))
    results, inside = found.evaluate_batch(points.reshape(-1, points.shape[-1]))
    positions, read = results[:, 0].reshape(shape), inside.reshape(shape)
    both = read[..., 1:] & read[..., :-1]
    strides = np.unique((positions[..., 1:] - positions[..., :-1])[both])
    total = count = 0
    for places, used in zip(positions.reshape(-1, warp), read.reshape(-1, warp), strict=True):
        taken = places[used]
        if len(taken):
            first, last = taken * bits // 8 // segment_bytes, ((taken + 1) * bits - 1) // 8 // segment_bytes
            total += len(np.unique(np.concatenate([first, last])))
            count += 1
    return int(strides[0]) if len(strides) == 1 else None, total / count if count else None


def _steps(sizes: list[int], lowers: list[int]) -> list[list[int]]:
    """Some values of the range variables: all of them if they are few, else spread evenly over their number."""
    total = product(sizes)
    count = min(total, SAMPLED_STEPS)
    found: list[list[int]] = []
    for i in range(count):
        at = i * (total - 1) // max(1, count - 1)
        index: list[int] = []
        for size in reversed(sizes):
            index.append(at % size)
            at //= size
        found.append([lower + value for lower, value in zip(lowers, reversed(index), strict=True)])
    return found
