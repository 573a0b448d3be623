"""The tiling formula: logical index → position in the buffer, and back.

The formula uses `+`, `*`, `//` and `%` alone, so an index may be made of ints, NumPy arrays or symbolic expressions.
`floor_sums` calls it with numbers that record the operations on them. Sizes are always ints.

Sizes and coordinates are in physical order, most major first. A tile applies to the last dimensions. Each of these
dimensions splits into the number of tiles and the size of a tile, and the sizes of tiles move behind the numbers of
tiles:

    sizes (…, d, …)  →  (…, ⌈d/t⌉, …, t, …)        coordinate e  →  ⌊e/t⌋, e mod t

If a tile is longer than the array has dimensions, dimensions of size 1 are added at the major end first. A `*` first
merges its dimension into the next more minor one. A tile size `d` is as long as the dimension that it cuts. Source of
the fact: XLA's documentation of tiled layouts, and `xla.TileProto`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xlashape import limits
from xlashape.base.caches import BoundedCache
from xlashape.base.math import ceil_div, checked_product, product, round_up
from xlashape.errors import InvalidShapeError
from xlashape.shape.arguments import array_of, guarded
from xlashape.shape.parts.checks import brief
from xlashape.shape.parts.tile import UNBOUNDED_SIZE, WHOLE_DIMENSION, Tile
from xlashape.shape.value.shape import Layout, Shape, shape_bytes

MAX_TILED_DIMENSIONS = 1 << 17
"""The largest number of dimensions that the tiles of a layout may make, summed over the tiles. Each tile makes as many
more dimensions as it has sizes.
"""


class TileStep(NamedTuple):
    """One tile applied to the sizes that the tiles before it made.

    First, `added` dimensions of size 1 are put in front. The sizes in `kept` stay as they are. Each of `groups` is a
    group of sizes that merge into one, which one entry of `tile` splits; `sizes` are the products of the groups, and
    `counts` the numbers of tiles along them. `result` are the sizes after the tile.
    """

    added: int
    kept: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    tile: tuple[int, ...]
    counts: tuple[int, ...]
    result: tuple[int, ...]


class Geometry(NamedTuple):
    """The sizes of an array in memory.

    `dimensions` are the logical sizes, with the bound of a dynamic dimension as its size. `physical` are the sizes
    after all tiles, most major first. `tiled_elements` is the product of the physical sizes, and `elements` includes
    the tail padding. All numbers fit int64.
    """

    dimensions: tuple[int, ...]
    major_to_minor: tuple[int, ...]
    steps: tuple[TileStep, ...]
    physical: tuple[int, ...]
    tiled_elements: int
    elements: int


class Condition(NamedTuple):
    """Holds where 0 <= `value` < `size`; `value` is never negative."""

    value: Any
    size: int


def _weight(shape: Shape, array: Geometry) -> int:
    made = sum([len(step.result) for step in array.steps])
    return shape_bytes(shape) + 600 + 120 * len(array.physical) + 700 * len(array.steps) + 200 * made


_geometries: BoundedCache[Shape, Geometry] = BoundedCache("xlashape.shape: geometry of buffers", 8 << 20, _weight)


@_geometries.results_by_argument
def geometry(shape: Shape) -> Geometry:
    """The sizes of an array in memory. An array without a layout has the default one.

    InvalidShapeError for a shape that is not an array or has an unbounded dimension, SizeOverflowError if the padded
    array has more elements than int64 can count, LimitExceededError beyond `MAX_TILED_DIMENSIONS`.

    >>> geometry(Shape.parse("f32[3,5]{1,0:T(2,2)}")).physical
    (2, 3, 2, 2)
    """
    array = array_of(shape)
    dimensions = array.dimensions
    if UNBOUNDED_SIZE in dimensions:
        number = dimensions.index(UNBOUNDED_SIZE)
        raise InvalidShapeError(
            f"dimension {number} of {brief(shape)} is unbounded: its elements have no place in a buffer", field="shape"
        )
    layout = array.layout or Layout.default(len(dimensions))
    order = layout.major_to_minor
    sizes = tuple([dimensions[d] for d in order])
    steps = tile_steps(sizes, layout.tiles)
    if steps:
        sizes = steps[-1].result
    tiled = checked_product(sizes, f"the number of elements of {brief(shape)}, padding included,", field="shape")
    alignment = layout.tail_padding_alignment_in_elements
    elements = checked_product(
        [round_up(tiled, alignment)], f"the number of elements of {brief(shape)}, tail padding included,", field="shape"
    )
    return Geometry(dimensions, order, steps, sizes, tiled, elements)


def tile_steps(sizes: tuple[int, ...], tiles: Sequence[Tile]) -> tuple[TileStep, ...]:
    """The steps by which the tiles, one after the other, change sizes in physical order. Overflow is not checked."""
    steps: list[TileStep] = []
    count = 0
    for tile in tiles:
        step = _tile_step(sizes, tile)
        steps.append(step)
        sizes = step.result
        count += len(sizes)
        limits.check("dimensions made by tiles", count, MAX_TILED_DIMENSIONS, field="shape")
    return tuple(steps)


def _tile_step(sizes: tuple[int, ...], tile: Tile) -> TileStep:
    added = max(0, len(tile.dimensions) - len(sizes))
    sizes = (1,) * added + sizes
    at = head = len(sizes) - len(tile.dimensions)
    kept = sizes[:head]
    groups: list[tuple[int, ...]] = []
    plain: list[int] = []
    for count, t in tile.groups():
        groups.append(sizes[at : at + count])
        at += count
        plain.append(max(product(groups[-1]), 1) if t == WHOLE_DIMENSION else t)
    merged = tuple([product(group) for group in groups])
    counts = tuple([ceil_div(size, t) for size, t in zip(merged, plain, strict=True)])
    return TileStep(added, kept, tuple(groups), merged, tuple(plain), counts, (*kept, *counts, *plain))


@guarded
def physical_position(shape: Shape, index: Sequence[Any]) -> Any:
    """The position in the buffer, in elements, of the element at `index`.

    `index` has one entry for each dimension: ints, NumPy arrays that broadcast together, or expressions. Entries must
    be inside their dimensions, which is not checked. The formula relies on it: a dimension of size 1 adds nothing, and
    a size that fits into its tile is not divided. The result is therefore the plain int 0 if all sizes are 1 or the
    array is empty.

    >>> physical_position(Shape.parse("f32[3,5]{1,0:T(2,2)}"), (2, 3))
    17
    """
    array = geometry(shape)
    if not array.elements:
        return 0
    coordinates: list[Any] = [0 if array.dimensions[d] == 1 else index[d] for d in array.major_to_minor]
    for step in array.steps:
        coordinates = [0] * step.added + coordinates
        counts: list[Any] = []
        remainders: list[Any] = []
        at = len(step.kept)
        for group, size, t in zip(step.groups, step.sizes, step.tile, strict=True):
            merged = _weighted_sum(coordinates[at : at + len(group)], group)
            at += len(group)
            if t == 1 or _is_zero(merged):
                count, remainder = merged, 0
            elif size <= t:
                count, remainder = 0, merged
            else:
                count, remainder = merged // t, merged % t
            counts.append(count)
            remainders.append(remainder)
        coordinates = coordinates[: len(step.kept)] + counts + remainders
    return _weighted_sum(coordinates, array.physical)


@guarded
def logical_index(shape: Shape, position: Any) -> tuple[tuple[Any, ...], tuple[Condition, ...]]:
    """The index of the element at `position` of the buffer, and the conditions under which there is an element.

    `position` is an int, a NumPy array or an expression. It must be inside the buffer, which is not checked. Where a
    condition fails, the position is padding and the index has no meaning. Conditions that always hold are left out.

    >>> logical_index(Shape.parse("f32[3,5]{1,0:T(2,2)}"), 17)
    ((2, 3), (Condition(value=2, size=3), Condition(value=3, size=5)))
    """
    array = geometry(shape)
    if not array.elements:
        return (0,) * len(array.dimensions), (Condition(position, 0),)
    conditions: list[Condition] = []
    if array.elements > array.tiled_elements:
        conditions.append(Condition(position, array.tiled_elements))
    coordinates = _digits(position, array.physical)
    for step in reversed(array.steps):
        head, tiled = len(step.kept), len(step.tile)
        restored: list[Any] = []
        for i, (group, size, t) in enumerate(zip(step.groups, step.sizes, step.tile, strict=True)):
            count, remainder = coordinates[head + i], coordinates[head + tiled + i]
            merged = _weighted_sum((count, remainder), (ceil_div(size, t), t))
            if size % t:
                conditions.append(Condition(merged, size))
            restored += _digits(0 if size == 1 else merged, group)
        coordinates = (coordinates[:head] + restored)[step.added :]
    index: list[Any] = [0] * len(array.dimensions)
    for d, coordinate in zip(array.major_to_minor, coordinates, strict=True):
        index[d] = coordinate
    return tuple(index), tuple(conditions)


def _weighted_sum(coordinates: Sequence[Any], sizes: Sequence[int]) -> Any:
    """The coordinates, most major first, as one number. Coordinates that are the int 0 are left out. No size is 0."""
    total: Any = 0
    stride = product(sizes)
    for coordinate, size in zip(coordinates, sizes, strict=True):
        stride //= size
        if not _is_zero(coordinate):
            term = coordinate if stride == 1 else coordinate * stride
            total = term if _is_zero(total) else total + term
    return total


def _digits(number: Any, sizes: Sequence[int]) -> list[Any]:
    """The inverse of `_weighted_sum` for a number below the product of the sizes."""
    digits: list[Any] = []
    stride = total = product(sizes)
    for size in sizes:
        stride //= size
        if size == 1 or _is_zero(number):
            digits.append(0)
            continue
        digit = number if stride == 1 else number // stride
        # The most major size above 1 needs no mod: the number is below the product.
        digits.append(digit if size * stride == total else digit % size)
    return digits


def _is_zero(number: Any) -> bool:
    return type(number) is int and number == 0
