"""Maps of shardings: from a device and an index in its part of an array to the index in the array, and to the byte of
the device's memory.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from xlashape.base.math import ceil_div
from xlashape.errors import InvalidArgumentError
from xlashape.indexing.ops.rows import make_map
from xlashape.indexing.reports.physical import logical_to_physical
from xlashape.indexing.sharding.digits import Digits, Tiling, digits_of, tiling_of
from xlashape.indexing.sharding.spelled import of
from xlashape.shape import UNBOUNDED_SIZE, Shape
from xlashape.shape.xla_util.shape_util import element_size_in_bits
from xlashape.symbolic import Expr, IndexingMap, Interval, const, dim


def map(shape: Shape | str, sharding: Any, devices: int | None = None) -> IndexingMap:  # noqa: A001 - as xs.sharding.map
    """From (device, index in the device's part …) to the index in the array. Two devices that hold the same element
    lead to the same index. The last tiles of a dimension that the tiles do not divide are smaller, or empty: the map's
    constraints say so.

    devices: how many there are, where the sharding does not name them. Raises InvalidArgumentError for a manual or
    unreduced sharding, which place no elements, and for one that does not fit the array.

    >>> map("f32[5]", "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}")
    (d0, d1) -> ((d0 mod 2) * 3 + d1), domain: d0 in [0, 3], d1 in [0, 2], (d0 mod 2) * 3 + d1 in [0, 4]
    """
    array, tiling = _read(shape, sharding, devices)
    digits = digits_of([tiling])
    sizes = [ceil_div(size, count) for size, count in zip(array.dimensions, tiling.counts, strict=True)]
    results: list[Expr] = []
    for number, size in enumerate(sizes):
        tile = _in_table(tiling, number) if digits is None else _of_digits(digits[0], number)
        results.append(tile * size + dim(1 + number))
    constraints = [
        (result, Interval(0, whole - 1))
        for result, whole, size, count in zip(results, array.dimensions, sizes, tiling.counts, strict=True)
        if size * count > whole
    ]
    return make_map([Interval(min(tiling.tiles), max(tiling.tiles)), *sizes], results, constraints=constraints)


def local_bytes(shape: Shape | str, sharding: Any) -> IndexingMap:
    """From an index in a device's part to the byte of its buffer where that element begins, tiles and padding of the
    layout of `shape` included. Elements of less than a byte lead to the byte that they are in.

    >>> local_bytes("f32[8,6]{0,1}", "{devices=[4,1]<=[4]}")
    (d0, d1) -> (d0 * 4 + d1 * 8), domain: d0 in [0, 1], d1 in [0, 5]
    """
    array = Shape.of(shape)
    part = of(sharding, array).shard_shape(array)
    positions = logical_to_physical(part)
    bits = element_size_in_bits(part)
    (position,) = positions.results
    address = position * (bits // 8) if bits % 8 == 0 else position * bits // 8
    return make_map(part.dimensions, [address]).simplify()


def _read(shape: Shape | str, sharding: Any, devices: int | None) -> tuple[Shape, Tiling]:
    array = Shape.of(shape)
    if UNBOUNDED_SIZE in array.dimensions:
        raise InvalidArgumentError(f"{array} has an unbounded dimension, so no sizes of tiles", field="shape")
    return array, tiling_of(of(sharding, array), array, devices)


def _of_digits(digits: Digits, number: int) -> Expr:
    """The number of the tile of device d0 in a dimension."""
    tile: Expr = const(0)
    for digit in digits.dims[number]:
        value = dim(0) // digits.after(digit) % digits.sizes[digit] if digit else dim(0) // digits.after(digit)
        tile = tile * digits.sizes[digit] + value
    return tile


def _in_table(tiling: Tiling, number: int) -> Expr:
    """As `_of_digits`, for devices in any order: the sum of the steps from each device to the next one."""
    devices = sorted(tiling.tiles)
    if devices != list(range(devices[0], devices[-1] + 1)):
        raise InvalidArgumentError("the devices of the sharding are not successive numbers", field="sharding")
    tile: Expr = const(tiling.tiles[devices[0]][number])
    span = len(devices)
    for before, device in pairwise(devices):
        step = tiling.tiles[device][number] - tiling.tiles[before][number]
        if step:
            tile = tile + (dim(0) + (span - device)) // span * step  # 1 from `device` on, 0 before
    return tile
