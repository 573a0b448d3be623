"""Shardings as values: which device holds which slice of an array."""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.message import DecodeError, Message

from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.frozen import FrozenValue, set_field
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.mesh import mesh_device_ids, mesh_devices_along
from xlashape.hlo.values.sharding import parse_sharding, sharding_text
from xlashape.hlo.values.tiled_sharding import KINDS, Tiles
from xlashape.math import ceil_div, product
from xlashape.proto import xla
from xlashape.shape import UNBOUNDED_SIZE, Shape

__all__ = ["Shard", "Sharding"]

_S = xla.OpSharding


class Shard(NamedTuple):
    """The part of an array that a device holds.

    >>> Shard((2, 0), (2, 4)).slices
    (slice(2, 4, None), slice(0, 4, None))
    """

    offset: tuple[int, ...]
    """The index of its first element."""
    sizes: tuple[int, ...]
    """Its sizes; 0 where there are more tiles than elements."""

    @property
    def slices(self) -> tuple[slice, ...]:
        """What selects it from a NumPy array."""
        return tuple([slice(first, first + size) for first, size in zip(self.offset, self.sizes, strict=True)])


class _Assignment(NamedTuple):
    """The tiles of an array and who holds them."""

    counts: tuple[int, ...] | None
    """The number of tiles of each dimension; None where an array of any rank is one tile."""
    holders: list[list[int]] | None
    """The devices of each tile in row-major order; None where the sharding does not name its devices."""


class Sharding(FrozenValue):
    """How a value is distributed over devices.

    >>> sharding = Sharding.parse("{devices=[2,1,2]<=[4] last_tile_dim_replicate}")
    >>> str(sharding), sharding.kind, sharding.tile_counts, sharding.devices
    ('{devices=[2,1,2]<=[4] last_tile_dim_replicate}', 'tiled', (2, 1), (0, 1, 2, 3))
    >>> shape = Shape.parse("f32[5,8]")
    >>> str(sharding.shard_shape(shape)), sharding.tile_of(3, shape), sharding.devices_of((0, 0), shape)
    ('f32[3,8]{1,0}', Shard(offset=(3, 0), sizes=(2, 8)), (0, 1))

    A dimension of n elements in k tiles has tiles of n / k elements, rounded up; the last ones are smaller, or empty.

    - `serialized`: the `xla.OpSharding` as bytes. `parse` gives the canonical form; `from_proto` keeps the message as it is.
    """

    __slots__ = ("_assigned", "serialized")
    _fields = ("serialized",)
    serialized: bytes
    _assigned: _Assignment

    def __init__(self, serialized: bytes = b"") -> None:
        set_field(self, "serialized", bytes(serialized))

    @classmethod
    def parse(cls, text: str) -> Sharding:
        """The sharding written `text`, as in HLO text, braces included. ParseError otherwise."""
        cursor = HloCursor(text)
        sharding = parse_sharding(cursor)
        cursor.expect_end()
        return cls(sharding.SerializeToString(deterministic=True))

    @classmethod
    def from_proto(cls, value: bytes | Message) -> Sharding:
        """The sharding of an `xla.OpSharding`, or of its bytes. InvalidModuleError for other bytes."""
        data = value if isinstance(value, bytes) else value.SerializeToString(deterministic=True)
        try:
            _S.FromString(data)
        except DecodeError:
            raise InvalidModuleError("these bytes are not an xla.OpSharding", field="sharding") from None
        return cls(data)

    def to_proto(self) -> xla.OpSharding:
        """A new `xla.OpSharding`."""
        return _S.FromString(self.serialized)

    @property
    def kind(self) -> str:
        """`tiled`, `named`, `tuple`, `replicated`, `maximal`, `manual`, `unreduced` or `unknown`."""
        proto = self.to_proto()
        if proto.HasField("named_sharding"):
            return "named"
        return {_S.OTHER: "tiled", _S.TUPLE: "tuple"}.get(proto.type) or KINDS.text(proto.type)

    @property
    def elements(self) -> tuple[Sharding, ...]:
        """The shardings of a tuple's leaves; none for another kind."""
        return tuple([Sharding.from_proto(part) for part in self.to_proto().tuple_shardings])

    @property
    def tile_counts(self) -> tuple[int, ...] | None:
        """The number of tiles of each dimension of the array; None where an array of any rank is one tile.

        InvalidArgumentError for the sharding of a tuple, and for one of unknown kind.
        """
        return self._assignment.counts

    @property
    def devices(self) -> tuple[int, ...] | None:
        """The devices that hold a tile, ascending; None where the sharding does not name them. Errors as for `tile_counts`."""
        holders = self._assignment.holders
        return None if holders is None else tuple(sorted({device for group in holders for device in group}))

    def shard_shape(self, shape: Shape) -> Shape:
        """The shape of the part that one device holds, padding included where the tiles do not divide a dimension.

        A tuple's leaves have the shardings of `elements`; a sharding that is not a tuple holds for all leaves.

        >>> str(Sharding.parse("{{replicated}, {devices=[2]<=[2]}}").shard_shape(Shape.parse("(f32[4], s32[3])")))
        '(f32[4]{0}, s32[2]{0})'
        """
        if not shape.is_tuple:
            return self._leaf_shard_shape(shape)
        leaves = list(shape.leaves())
        shardings = list(self.elements) if self.kind == "tuple" else [self] * len(leaves)
        if len(shardings) != len(leaves):
            raise InvalidArgumentError(f"{len(shardings)} shardings for {len(leaves)} leaves of {shape}", field="shape")
        parts = iter([s._leaf_shard_shape(leaf) for s, leaf in zip(shardings, leaves, strict=True)])

        def rebuilt(inner: Shape) -> Shape:
            return (
                inner.replace(tuple_shapes=[rebuilt(e) for e in inner.tuple_shapes]) if inner.is_tuple else next(parts)
            )

        return rebuilt(shape)

    def _leaf_shard_shape(self, shape: Shape) -> Shape:
        if not shape.is_array:
            return shape
        sizes = [
            size if size == UNBOUNDED_SIZE else ceil_div(size, count)
            for size, count in zip(shape.dimensions, self._counts_for(shape), strict=True)
        ]
        return shape.replace(dimensions=sizes)

    def tile_of(self, device: int, shape: Shape) -> Shard | None:
        """The part of an array that a device holds, None for a device that holds nothing.

        A manual or unreduced sharding leaves the whole array on every device: what the program calls the array is one device's part or
        summand. InvalidArgumentError unless `shape` is an array of static or bounded sizes and of the sharding's rank.
        """
        counts = self._counts_for(shape)
        _require_bounded(shape)
        holders = self._assignment.holders
        tile = 0 if holders is None else next((i for i, group in enumerate(holders) if device in group), None)
        if tile is None:
            return None
        offset: list[int] = []
        sizes: list[int] = []
        for size, count in zip(reversed(shape.dimensions), reversed(counts), strict=True):
            tile, coordinate = divmod(tile, count)
            length = ceil_div(size, count)
            first = min(coordinate * length, size)
            offset.insert(0, first)
            sizes.insert(0, min(length, size - first))
        return Shard(tuple(offset), tuple(sizes))

    def devices_of(self, index: tuple[int, ...], shape: Shape) -> tuple[int, ...] | None:
        """The devices that hold the element at `index`, ascending; None where the sharding does not name its devices."""
        counts = self._counts_for(shape)
        _require_bounded(shape)
        inside = len(index) == shape.rank and all(0 <= i < n for i, n in zip(index, shape.dimensions, strict=True))
        if not inside:
            raise InvalidArgumentError(f"index {tuple(index)} is outside {shape}", field="index")
        holders = self._assignment.holders
        if holders is None:
            return None
        tile = 0
        for i, size, count in zip(index, shape.dimensions, counts, strict=True):
            tile = tile * count + i // ceil_div(size, count)
        return tuple(sorted(holders[tile]))

    def _counts_for(self, shape: Shape) -> tuple[int, ...]:
        if not shape.is_array:
            raise InvalidArgumentError(f"{shape} is not an array", field="shape")
        counts = self._assignment.counts
        if counts is None:
            return (1,) * shape.rank
        if len(counts) != shape.rank:
            raise InvalidArgumentError(f"{self} divides {len(counts)} dimensions, not those of {shape}", field="shape")
        return counts

    @property
    def _assignment(self) -> _Assignment:
        try:
            return self._assigned
        except AttributeError:
            assigned = self._assign()
            set_field(self, "_assigned", assigned)
            return assigned

    def _assign(self) -> _Assignment:
        proto = self.to_proto()
        if proto.HasField("named_sharding"):
            return _named_assignment(proto.named_sharding)
        if proto.type == _S.OTHER:
            return _tiled_assignment(Tiles.of(proto))
        if proto.type == _S.MAXIMAL:
            return _Assignment(None, [list(proto.tile_assignment_devices) or [0]])
        if proto.type in (_S.REPLICATED, _S.MANUAL, _S.UNREDUCED):
            return _Assignment(None, None)
        raise InvalidArgumentError(f"a sharding of kind {self.kind} does not tile one array", field="sharding")

    def __str__(self) -> str:
        return sharding_text(self.to_proto())

    def __repr__(self) -> str:
        return f"Sharding({str(self)!r})"


def _require_bounded(shape: Shape) -> None:
    if UNBOUNDED_SIZE in shape.dimensions:
        raise InvalidArgumentError(f"{shape} has an unbounded dimension, so no sizes of tiles", field="shape")


def _tiled_assignment(tiles: Tiles) -> _Assignment:
    rank = len(tiles.dimensions) - len(tiles.subgroups)
    size = product(tiles.dimensions[rank:])
    devices = tiles.devices if isinstance(tiles.devices, list) else tiles.devices.devices()
    holders = [devices[first : first + size] for first in range(0, len(devices), size)]
    return _Assignment(tuple(tiles.dimensions[:rank]), holders)


def _named_assignment(named: xla.NamedShardingProto) -> _Assignment:
    mesh = named.mesh
    if not mesh.axes:
        # A single device has a mesh without axes; an empty mesh names no devices.
        return _Assignment(None, [list(mesh.device_ids)] if mesh.device_ids else None)
    if not named.dim_shardings:
        return _Assignment(None, [mesh_device_ids(mesh)])
    axes = [axis for dimension in named.dim_shardings for axis in dimension.axes]
    devices, sizes = mesh_devices_along(mesh, axes)
    count = product(sizes)
    remaining = iter(sizes)
    counts = tuple([product([next(remaining) for _ in dimension.axes]) for dimension in named.dim_shardings])
    return _Assignment(counts, [devices[tile::count] for tile in range(count)])
