"""Coalescing: how far apart in memory the elements lie that neighbouring outputs read, and how many segments of memory
the reads of a group of neighbours (a warp) touch.

Neighbours are successive elements of the output in the order of its buffer, as the threads (lanes) of a GPU's warp
compute them. A segment is what one transaction fetches, aligned to its size; every buffer is taken to begin at the
start of a segment. Where an output combines several elements (reductions, contractions, windows), a warp may as well
read the successive elements of one output: the better of the two orders counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

from xlashape.base.caches import cached
from xlashape.base.math import ceil_div, product
from xlashape.errors import InvalidArgumentError, LimitExceededError
from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.leaves import leaves, map_bytes
from xlashape.indexing.answers.operand_indexing import OperandIndexing, OperandIndexingSet
from xlashape.indexing.reports.counting import box_size, fixed_runtime
from xlashape.indexing.reports.physical import output_to_input_physical
from xlashape.limits import INT64_MAX, spend
from xlashape.shape.tiling.padding import stored_bits
from xlashape.symbolic import IndexingMap, Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MAX_WARP = 1 << 16
MAX_SEGMENT_BYTES = 1 << 40
SAMPLED_WARPS = 64
"""The most warps of an output that are sampled."""
SAMPLED_STEPS = 32
"""The most values of the range variables that are sampled. A warp makes one read for each value."""
SAMPLED_READS = 1 << 15
"""The most elements that are sampled: the wider the warps, the fewer are sampled."""
EXACT_READS = 1 << 16
"""If the warps of a sample differ, all are counted where they read no more elements than this."""


class Sample(NamedTuple):
    """The memory that reads of warps touch, on average. Attributes are None where nothing is known or read."""

    stride: int | None
    """The distance, in elements of the operand's buffer, between what two neighbouring outputs read; None where that
    differs, or there are no neighbours.
    """
    segments: float | None
    """Segments that one read of a warp touches."""
    ideal: float | None
    """Segments that the read would touch if its elements were contiguous. Never more than `segments`."""
    per_element: float | None
    """Segments ÷ elements that the lanes of a warp ask for."""


class OperandCoalescing(NamedTuple):
    """How one output reads one leaf of an operand (an array within it) in one way."""

    operand: int
    leaf: int
    indexing: OperandIndexing
    """The map from positions in the output's buffer to positions in the buffer of the operand's leaf."""
    stride: int | None
    """The distance, in elements of the operand's buffer, between what two neighbouring outputs read; None where that
    differs, or there are no neighbours.
    """
    segments: float | None
    """Segments that one read of a warp touches, on average. None where nothing is known or read."""
    ideal: float | None
    """Segments that the read would touch if its elements were contiguous, on average. Never more than
    `segments`.
    """

    @property
    def efficiency(self) -> float | None:
        """ideal ÷ segments, at most 1.0."""
        return None if self.segments is None or self.ideal is None else self.ideal / self.segments


def coalescing(
    instruction: HloInstruction, output: int = 0, *, warp: int = 32, segment_bytes: int = 128
) -> tuple[OperandCoalescing, ...]:
    """How each operand is read: one result for each way in which it is read.

    `warp` successive outputs read together; `segment_bytes` is what one transaction fetches. Up to 64 warps, spread
    over the output, and up to 32 values of the range variables are sampled, with runtime variables at their lower
    bounds; all warps where the sampled ones differ and the output makes no more than 2¹⁶ reads. InvalidArgumentError
    for a warp or segment below 1, LimitExceededError for one beyond `MAX_WARP` or `MAX_SEGMENT_BYTES`, else errors as
    for `output_to_input_physical`.

    >>> from xlashape.hlo import HloModule
    >>> text = "HloModule m ENTRY e { p = f32[64,64] parameter(0) ROOT t = f32[64,64] transpose(p), dimensions={1,0} }"
    >>> (read,) = coalescing(HloModule.parse(text).entry.root)
    >>> read.stride, read.segments, read.ideal
    (64, 32.0, 1.0)
    """
    check_warp(warp, segment_bytes)
    return coalescing_of(instruction, output_to_input_physical(instruction, output), warp, segment_bytes)


def check_warp(warp: int, segment_bytes: int) -> None:
    """Raises InvalidArgumentError for a warp or segment below 1, LimitExceededError for a warp beyond `MAX_WARP` or a
    segment beyond `MAX_SEGMENT_BYTES`.
    """
    if warp < 1 or segment_bytes < 1:
        raise InvalidArgumentError(
            f"a warp and a segment are at least 1, not {warp} and {segment_bytes}",
            field="warp" if warp < 1 else "segment_bytes",
        )
    for name, value, most, what in (
        ("warp", warp, MAX_WARP, f"a warp is at most {MAX_WARP} outputs"),
        ("segment_bytes", segment_bytes, MAX_SEGMENT_BYTES, f"a segment is at most {MAX_SEGMENT_BYTES} bytes"),
    ):
        if value > most:
            raise LimitExceededError(f"{what}, not {value}", limit=name, maximum=most, value=value, field=name)


def coalescing_of(
    instruction: HloInstruction, physical: Iterable[OperandIndexingSet], warp: int, segment_bytes: int
) -> tuple[OperandCoalescing, ...]:
    """`coalescing`, where the maps between positions are known."""
    results: list[OperandCoalescing] = []
    for number, (operand, reads) in enumerate(zip(instruction.operands, physical, strict=True)):
        arrays = leaves(operand.shape)
        for read in reads:
            found = sampled(fixed_runtime(read.map), stored_bits(arrays[read.leaf]), warp, segment_bytes)
            results.append(OperandCoalescing(number, read.leaf, read, found.stride, found.segments, found.ideal))
    return tuple(results)


# Modules repeat their maps, so results are kept.
@cached(max_bytes=8 << 20, weigh=lambda key, value: 400 + map_bytes(key[0]))
def sampled(indexing_map: IndexingMap, bits: int, warp: int, segment_bytes: int) -> Sample:
    """The memory that the reads of warps touch, where reads follow a map between positions; an element has `bits`
    bits.
    """
    if indexing_map.is_undefined or indexing_map.is_known_empty:
        return Sample(None, None, None, None)
    by_output = _sample(indexing_map, bits, warp, segment_bytes, combines=False)
    if not any(var.bounds.size > 1 for var in indexing_map.ranges) or by_output.segments is None:
        return by_output
    if by_output.segments <= (by_output.ideal or 0.0) or box_size(indexing_map) > INT64_MAX:
        return by_output
    along = _sample(indexing_map, bits, warp, segment_bytes, combines=True)
    if along.per_element is None or by_output.per_element is None or along.per_element >= by_output.per_element:
        return by_output
    return along._replace(stride=by_output.stride)


def _sample(indexing_map: IndexingMap, bits: int, warp: int, segment_bytes: int, *, combines: bool) -> Sample:
    found = positions_read(indexing_map, warp, combines=combines)
    sample, is_uniform = _touched(found, bits, segment_bytes)
    if not is_uniform and not found.is_all and box_size(indexing_map) <= EXACT_READS:
        sample, _ = _touched(positions_read(indexing_map, warp, combines=combines, every=True), bits, segment_bytes)
    return sample


class PositionsRead(NamedTuple):
    """Elements that warps read. The arrays have a row for each read of a warp, and a column for each lane."""

    outputs: NDArray[np.int64]
    """Positions in the output's buffer."""
    positions: NDArray[np.int64]
    """Positions in the operand's buffer."""
    is_read: NDArray[np.bool_]
    """Whether the lane reads: not in padding, nor behind the end of the output."""
    is_all: bool
    """Whether these are all reads, and not a sample."""


def positions_read(
    indexing_map: IndexingMap, warp: int, *, combines: bool = False, every: bool = False
) -> PositionsRead:
    """The reads of warps by a map between positions without runtime variables: a sample, or `every` one.

    The lanes of a warp are successive outputs, and each value of the range variables is one read. If an output
    `combines` elements, the lanes are instead successive pairs of an output and the range variables, among which the
    one with the smallest stride changes first.
    """
    import numpy as np

    bounds = [var.bounds for var in (*indexing_map.dims, *indexing_map.ranges)]
    ranges = _by_stride(indexing_map) if combines else []
    lane_sizes = [bounds[number].size for number in (0, *ranges)]
    count = product(lane_sizes)
    warps = ceil_div(count, warp)
    others = [] if combines else bounds[1:]
    rows = max(1, SAMPLED_READS // warp)
    steps = _steps(others, product(interval.size for interval in others) if every else min(SAMPLED_STEPS, isqrt(rows)))
    chosen = warps if every else min(warps, SAMPLED_WARPS, max(1, rows // len(steps)))
    spend(chosen * len(steps) * warp // 64 + 1)
    starts = np.array([warp * (i * (warps - 1) // max(1, chosen - 1)) for i in range(chosen)], np.int64)
    # The last warp may have fewer lanes; its other lanes compute the first element of the warp again and are not
    # counted.
    lanes = np.arange(warp, dtype=np.int64)
    is_lane = lanes[None, :] < count - starts[:, None]
    numbers = starts[:, None] + np.where(is_lane, lanes[None, :], 0)
    shape = (chosen, len(steps), warp)
    points = np.empty((*shape, len(bounds)), dtype=np.int64)
    if not combines:
        points[..., 1:] = np.asarray(steps, dtype=np.int64).reshape(1, len(steps), 1, len(others))
    for number, size in zip(reversed((0, *ranges)), reversed(lane_sizes), strict=True):
        is_slowest = number == 0
        points[..., number] = bounds[number].lower + (numbers if is_slowest else numbers % size)[:, None, :]
        numbers = numbers if is_slowest else numbers // size
    results, inside = indexing_map.evaluate_batch(points.reshape(-1, len(bounds)))
    return PositionsRead(
        points[..., 0].reshape(-1, warp),
        results[:, 0].reshape(-1, warp),
        (inside.reshape(shape) & is_lane[:, None, :]).reshape(-1, warp),
        chosen == warps and len(steps) == product(interval.size for interval in others),
    )


def _by_stride(indexing_map: IndexingMap) -> list[int]:
    """The numbers of the range variables, in descending order of how far the read moves in memory from a variable's
    first value to its second. Number 0 is the map's dimension; range variables count from 1.
    """
    import numpy as np

    variables = (*indexing_map.dims, *indexing_map.ranges)
    points = np.array([[var.bounds.lower for var in variables]] * len(variables), np.int64)
    for number, var in enumerate(variables[1:], 1):
        points[number, number] = min(var.bounds.lower + 1, var.bounds.upper)
    results, _ = indexing_map.evaluate_batch(points)
    away = np.abs(results[:, 0] - results[0, 0]).tolist()
    return sorted(range(1, len(variables)), key=lambda number: -away[number])


def _touched(found: PositionsRead, bits: int, segment_bytes: int) -> tuple[Sample, bool]:
    """The memory that the reads touch, and whether the reads are alike: every lane reads, and all touch equally many
    segments.
    """
    import numpy as np

    positions, is_read = found.positions, found.is_read
    both = is_read[:, 1:] & is_read[:, :-1]
    between = (positions[:, 1:] - positions[:, :-1])[both]
    stride = int(between[0]) if len(between) and bool((between == between[0]).all()) else None
    reading = is_read.any(axis=1)
    count = int(reading.sum())
    if not count:
        return Sample(stride, None, None, None), found.is_all
    ascending = np.sort(np.where(is_read, positions, INT64_MAX), axis=1)
    is_read = ascending != INT64_MAX
    ascending = np.where(is_read, ascending, 0)
    distinct = is_read.sum(axis=1)
    distinct -= ((ascending[:, 1:] == ascending[:, :-1]) & is_read[:, 1:]).sum(axis=1)
    exact = ascending.astype(object) if (int(ascending.max()) + 1) * bits > INT64_MAX else ascending
    first, last = exact * bits // 8 // segment_bytes, ((exact + 1) * bits - 1) // 8 // segment_bytes
    # In ascending order of positions, an element adds those of its segments that the element before it has not touched.
    new = last - first + 1
    new[:, 1:] = np.minimum(new[:, 1:], last[:, 1:] - last[:, :-1])
    touched = np.where(is_read, new, 0).sum(axis=1)
    segments = int(touched.sum())
    ideal = int(-(-(distinct * bits) // (8 * segment_bytes)).sum())
    of_reading = touched[reading]
    sample = Sample(stride, segments / count, ideal / count, segments / int(is_read.sum()))
    return sample, bool((of_reading == of_reading[0]).all()) and bool(is_read.all())


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
