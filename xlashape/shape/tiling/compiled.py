"""The compiled formulas of a shape, index → position in the buffer and back, with a cache of those used last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlashape.caches import BoundedCache
from xlashape.shape.parts.fields import shape_bytes
from xlashape.shape.tiling.floor_sums import FloorSums, trace
from xlashape.shape.tiling.formula import Geometry, geometry, logical_index, physical_position
from xlashape.shape.value.shape import Shape

_Conditions = tuple[tuple[int, int], ...]
_ToPosition = tuple[tuple[int, ...], FloorSums]
_ToIndex = tuple[Geometry, FloorSums, _Conditions]


def _weight(shape: Shape, compiled: _ToPosition | _ToIndex) -> int:
    sums = compiled[1]
    terms = 0
    for step, _ in sums.steps:
        terms += len(step)
    for output in sums.outputs:
        terms += len(output)
    return shape_bytes(shape) + 400 + 200 * (len(sums.steps) + len(sums.outputs)) + 150 * terms


_to_position: BoundedCache[Shape, _ToPosition] = BoundedCache("xlashape.shape: index to position", 8 << 20, _weight)
_to_index: BoundedCache[Shape, _ToIndex] = BoundedCache("xlashape.shape: position to index", 8 << 20, _weight)


def position_sums(shape: Shape) -> tuple[tuple[int, ...], FloorSums]:
    """The array's sizes, and the sums index → position."""
    compiled = _to_position.get(shape)
    if compiled is None:
        compiled = _compile_position(shape)
        _to_position.put(shape, compiled)
    return compiled


def index_sums(shape: Shape) -> tuple[Geometry, FloorSums, tuple[tuple[int, int], ...]]:
    """The array's geometry, the sums position → (index…, further values…), and conditions (output, size).

    There is an element at a position where each of these outputs is below its size.
    """
    compiled = _to_index.get(shape)
    if compiled is None:
        compiled = _compile_index(shape)
        _to_index.put(shape, compiled)
    return compiled


def _compile_position(shape: Shape) -> _ToPosition:
    array = geometry(shape)
    if not array.elements:
        return array.dimensions, FloorSums(len(array.dimensions), (), ((),))
    return array.dimensions, trace(array.dimensions, lambda index: [physical_position(shape, index)])


def _compile_index(shape: Shape) -> _ToIndex:
    sizes: list[int] = []

    def formula(position: Sequence[Any]) -> list[Any]:
        index, conditions = logical_index(shape, position[0])
        sizes.extend(condition.size for condition in conditions)
        return [*index, *[condition.value for condition in conditions]]

    array = geometry(shape)
    rank = len(array.dimensions)
    sums = trace((array.elements,), formula)
    # The value of a condition is mostly part of the index already.
    outputs = list(sums.outputs[:rank])
    conditions: list[tuple[int, int]] = []
    for terms, size in zip(sums.outputs[rank:], sizes, strict=True):
        if terms not in outputs:
            outputs.append(terms)
        condition = (outputs.index(terms), size)
        if condition not in conditions:
            conditions.append(condition)
    return array, sums._replace(outputs=tuple(outputs)), tuple(conditions)
