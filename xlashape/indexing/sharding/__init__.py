"""Shardings: which device holds which part of an array, as numbers and as maps, and what it takes to go from one
sharding to another.

>>> shape, rows = Shape.parse("f32[8,6]"), of("{devices=[4,1]<=[4]}")
>>> map(shape, rows)
(d0, d1, d2) -> (d0 * 2 + d1, d2), domain: d0 in [0, 3], d1 in [0, 1], d2 in [0, 5]
>>> devices_of(shape, rows, (5, 0)), str(shard_shape(shape, rows))
((2,), 'f32[2,6]{1,0}')
>>> columns = of("{devices=[1,2,2]<=[4] last_tile_dim_replicate}")
>>> reshard(shape, rows, columns).received_bytes
72

A device is its position in the device assignment. Functions take a sharding as `of` does.

    spelled.py    of: shardings of JAX, of Shardy and in HLO text
    digits.py     the tile of a device as digits of its number
    maps.py       map, local_bytes
    resharding.py reshard: the bytes that each device lacks, and the collectives that bring them
"""

from collections.abc import Sequence
from typing import Any

from xlashape.hlo.values.sharding import Shard, Sharding
from xlashape.indexing.sharding.maps import local_bytes, map  # noqa: A004 - as xs.sharding.map
from xlashape.indexing.sharding.resharding import Reshard, ReshardStep, reshard
from xlashape.indexing.sharding.spelled import of
from xlashape.shape import Shape

__all__ = [
    "Reshard", "ReshardStep", "Shard", "Sharding", "devices_of", "local_bytes", "map", "of", "reshard", "shard_shape",
]  # fmt: skip


def shard_shape(shape: Shape | str, sharding: Any) -> Shape:
    """The shape of the part of an array that each device holds, padding included: `Sharding.shard_shape`."""
    array = Shape.of(shape)
    return of(sharding, array).shard_shape(array)


def devices_of(shape: Shape | str, sharding: Any, index: Sequence[int]) -> tuple[int, ...] | None:
    """The devices that hold the element at an index: `Sharding.devices_of`."""
    array = Shape.of(shape)
    return of(sharding, array).devices_of(tuple(index), array)
