"""The elements of an operand that part of an output reads. If there are few reads, the map is evaluated for each; else
the part is a box (offsets, sizes and strides), which the map transforms into another box."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from xlashape import limits
from xlashape.base.math import product
from xlashape.errors import InvalidArgumentError, InvalidShapeError, LimitExceededError
from xlashape.indexing.reports.tiles import push_tile
from xlashape.shape import Shape, tiling
from xlashape.shape.arguments import checked_index
from xlashape.symbolic import IndexingMap, TileBox

MAX_READS = 1 << 14
"""The most reads that are enumerated: elements of the output, times the values of the map's range variables."""


class Elements(NamedTuple):
    """Elements of an array that outputs read: single ones, and boxes of them. For the output array itself, each element
    stands for itself."""

    numbers: dict[tuple[int, ...], int]
    """The index of a single element → the number of the first output that reads it, counted from 0."""
    boxes: tuple[TileBox, ...] = ()
    """Boxes of elements, whose outputs are not numbered."""
    reads: int = 0
    """The number of reads, including repeated ones."""
    outside: int = 0
    """The number of reads that lie outside the array."""

    def number(self, index: tuple[int, ...]) -> int | None:
        """The number of the first output that reads an element, 0 for an element in a box; None for an element that no
        output reads."""
        if index in self.numbers:
            return self.numbers[index]
        return 0 if any(_is_inside(index, box) for box in self.boxes) else None

    def distinct(self) -> int | None:
        """The number of different elements; None if boxes may overlap, so that it is not known."""
        if not self.boxes:
            return len(self.numbers)
        return product(self.boxes[0].sizes) if len(self.boxes) == 1 and not self.numbers else None

    def samples(self) -> list[tuple[int, ...]]:
        """The numbered elements, and some of each box, at most 256: the first three and the last along each dimension,
        combined."""
        found = list(self.numbers)
        for box in self.boxes:
            spans = [
                [offset + k * stride for k in sorted({*range(min(size, 3)), size - 1})]
                for offset, size, stride in zip(box.offsets, box.sizes, box.strides, strict=True)
            ]
            found += itertools.islice(itertools.product(*spans), 256)
        return found


def _is_inside(index: tuple[int, ...], box: TileBox) -> bool:
    for i, offset, size, stride in zip(index, box.offsets, box.sizes, box.strides, strict=True):
        step, rest = divmod(i - offset, stride) if stride else (0, i - offset)
        if rest or not 0 <= step < size:
            return False
    return True


class Outputs(NamedTuple):
    """Elements of an output: their indices in order, or only a box if there are more than `MAX_READS`."""

    indices: tuple[tuple[int, ...], ...]
    box: TileBox | None
    """The box of the elements of a tile; None for a warp."""

    @property
    def total(self) -> int:
        """The number of elements."""
        return len(self.indices) or (0 if self.box is None else product(self.box.sizes))

    def elements(self) -> Elements:
        """The elements themselves."""
        if self.indices or self.box is None:
            return Elements({index: number for number, index in enumerate(self.indices)})
        return Elements({}, (self.box,))


def outputs_of_tile(output: Shape, at: Sequence[int], sizes: Sequence[int]) -> Outputs:
    """The elements of the tile of an output that begins at the index `at`, in row-major order. It is cut off where the
    output ends.

    >>> outputs_of_tile(Shape.parse("f32[3,5]"), (2, 3), (2, 4)).indices
    ((2, 3), (2, 4))
    """
    start = checked_index(output, output.dimensions, at)
    if len(sizes) != len(start) or any(size < 1 for size in sizes):
        raise InvalidArgumentError(
            f"a tile of {output} takes {len(start)} sizes of 1 or more, found {list(sizes)}", field="tile"
        )
    cut = tuple([min(t, size - i) for i, size, t in zip(start, output.dimensions, sizes, strict=True)])
    box = TileBox(tuple(start), cut, (1,) * len(start))
    if product(cut) > MAX_READS:
        return Outputs((), box)
    return Outputs(tuple(itertools.product(*[range(i, i + size) for i, size in zip(start, cut, strict=True)])), box)


def outputs_of_warp(output: Shape, at: Sequence[int], lanes: int) -> Outputs:
    """The next `lanes` elements from the index `at` on, in the order of the output's buffer, without padding.
    LimitExceededError for more than `MAX_READS`.

    >>> outputs_of_warp(Shape.parse("f32[3,5]{0,1}"), (1, 0), 3).indices
    ((1, 0), (2, 0), (0, 1))
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
    return Outputs(tuple(indices[:lanes]), None)


def elements_read(maps: Iterable[IndexingMap], outputs: Outputs, operand: Shape) -> Elements:
    """The elements of `operand` that `outputs` read by any of the maps. Runtime variables have their lower bounds.

    LimitExceededError if a map gives more than `MAX_READS` reads, and they form no box; InvalidShapeError for an
    operand of another rank than a map's results.

    >>> m = IndexingMap.parse("(d0)[s0] -> (d0, s0), domain: d0 in [0, 2], s0 in [0, 1]")
    >>> elements_read([m], outputs_of_tile(Shape.parse("f32[3]"), (1,), (1,)), Shape.parse("f32[3,2]")).numbers
    {(1, 0): 0, (1, 1): 0}
    """
    numbers: dict[tuple[int, ...], int] = {}
    boxes: list[TileBox] = []
    reads = outside = 0
    for indexing_map in maps:
        if indexing_map.is_known_empty or not outputs.total:
            continue
        if len(indexing_map.results) != operand.rank:
            raise InvalidShapeError(
                f"the map has {len(indexing_map.results)} results, and {operand} has {operand.rank} dimensions",
                field="operand",
            )
        count = outputs.total * product(var.bounds.size for var in indexing_map.ranges)
        if count > MAX_READS:
            reads += count
            box = None if outputs.box is None else push_tile(indexing_map, outputs.box)
            if box is None:
                raise LimitExceededError(
                    f"reads that are drawn: {count} is more than {MAX_READS}, and they form no tile",
                    limit="reads_drawn",
                    maximum=MAX_READS,
                    value=count,
                    field="tile",
                )
            if box not in boxes:
                boxes.append(box)
            continue
        for row, lane in _evaluated(indexing_map, outputs.indices):
            reads += 1
            if all(0 <= i < size for i, size in zip(row, operand.dimensions, strict=True)):
                numbers.setdefault(row, lane)
            else:
                outside += 1
    return Elements(numbers, tuple(boxes), reads, outside)


def _evaluated(indexing_map: IndexingMap, outputs: Sequence[tuple[int, ...]]) -> Iterator[tuple[tuple[int, ...], int]]:
    """The elements that each output reads, with the number of the output."""
    spans = [(var.bounds.lower, var.bounds.size) for var in indexing_map.ranges]
    combinations = product(size for _, size in spans)
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
    rows: list[list[int]] = results[inside].tolist()
    owners: list[int] = lanes.tolist()
    for row, lane in zip(rows, owners, strict=True):
        yield tuple(row), lane
