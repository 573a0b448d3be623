r"""Shardings that tile an array: how many tiles each dimension has, which device holds each tile, and what the last
tile dimensions mean.

tiled       := 'devices=[' INT (',' INT)* ']' devices last?
devices     := INT (',' INT)* | '<=' iota
last        := 'last_tile_dim_replicate' | 'last_tile_dims={' kind (',' kind)* '}'
kind        := 'maximal' | 'manual' | 'unreduced' | 'replicated' | 'unknown' | 'unknown_' INT

The last tile dimensions do not divide the array: the devices along such a dimension form a subgroup that holds the same
tile. XLA makes every sharding canonical when it reads text or a proto. `Tiles.canonical` does the same:

1. subgroups are sorted by kind, the devices transposed with them, and neighbours of one kind merged;
2. where one subgroup of kind manual, replicated or unreduced has all devices, nothing is tiled: the sharding is just
   that kind;
3. subgroups of one device are dropped; where one subgroup of kind manual or replicated with all devices is left, the
   sharding is that kind;
4. devices that hold the same data, those of a replicated subgroup that comes last, are sorted in each group;
5. an iota has the fewest dimensions that give the same devices. It stays an iota where its dimensions can be split
   along the tiles that are transposed or sorted, and becomes a list otherwise.

Source: what jaxlib 0.10.2 makes of shardings in text and in protos, recorded in tests/vectors/shardings.jsonl. jaxlib
writes a subgroup of kind unknown as `error_type.` and does not read that back; here it is written as `unknown`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from xlashape.errors import InvalidModuleError
from xlashape.hlo.tokens import HloCursor
from xlashape.hlo.values.devices import MAX_DEVICES, Iota, transposed
from xlashape.hlo.values.enums import EnumWords
from xlashape.limits import check
from xlashape.math import product
from xlashape.proto import xla

_S = xla.OpSharding

KINDS: Final = EnumWords(
    [
        ("replicated", _S.REPLICATED),
        ("maximal", _S.MAXIMAL),
        ("manual", _S.MANUAL),
        ("unknown", _S.UNKNOWN),
        ("unreduced", _S.UNREDUCED),
    ],
    "a kind of sharding",
)
"""The words for the kind of a sharding or of a subgroup."""

_ORDER: Final = {
    kind: rank
    for rank, kind in enumerate((_S.MAXIMAL, _S.TUPLE, _S.OTHER, _S.MANUAL, _S.UNREDUCED, _S.REPLICATED, _S.UNKNOWN))
}
"""The order of subgroups. Kinds without a name come last."""
_KINDS_OF_A_WHOLE: Final = (_S.MANUAL, _S.REPLICATED, _S.UNREDUCED)
_MAX_LISTED: Final = 1 << 20
"""Devices of an iota that is turned into a list. A few characters of text must not take much memory."""


class Tiles(NamedTuple):
    """A tiled sharding."""

    dimensions: list[int]
    """The number of tiles of each dimension of the array, then the number of devices of each subgroup."""
    subgroups: list[int]
    """The kind of each subgroup."""
    devices: list[int] | Iota
    """The device of each tile in row-major order of the tiles."""

    @staticmethod
    def of(sharding: xla.OpSharding) -> Tiles:
        """The tiles of a sharding of type OTHER, as its fields have them. InvalidModuleError for fields that contradict
        each other.
        """
        dimensions = list(sharding.tile_assignment_dimensions)
        subgroups: list[int] = list(sharding.last_tile_dims)
        if not subgroups and sharding.replicate_on_last_tile_dim:
            subgroups = [_S.REPLICATED]
        if len(subgroups) > len(dimensions) or any(size < 1 for size in dimensions):
            raise InvalidModuleError(f"{dimensions} with {len(subgroups)} subgroups do not tile anything")
        if sharding.iota_reshape_dims:
            devices = Iota.of(sharding.iota_reshape_dims, sharding.iota_transpose_perm)
            count = devices.device_count
        else:
            devices = list(sharding.tile_assignment_devices)
            count = len(devices)
        if count != product(dimensions):
            raise InvalidModuleError(f"{count} devices do not fill tiles of {dimensions}")
        return Tiles(dimensions, subgroups, devices)

    def canonical(self) -> Tiles | int:
        """The canonical form: tiles, or a kind where nothing is tiled. LimitExceededError where too many devices would
        be listed.
        """
        tiles = self._sorted()
        if tiles._is_one_subgroup() and tiles.subgroups[0] in _KINDS_OF_A_WHOLE:
            return tiles.subgroups[0]
        tiles = tiles._without_subgroups_of_one()
        if tiles._is_one_subgroup() and tiles.subgroups[0] in (_S.MANUAL, _S.REPLICATED):
            return tiles.subgroups[0]
        if tiles.subgroups and tiles.subgroups[-1] == _S.REPLICATED:
            return tiles._replace(devices=_sorted_within_groups(tiles.devices, tiles.dimensions[-1]))
        if isinstance(tiles.devices, Iota):
            return tiles._replace(devices=tiles.devices.canonical())
        return tiles

    def _is_one_subgroup(self) -> bool:
        """Whether there is one subgroup, and it has all devices."""
        return len(self.subgroups) == 1 and product(self.dimensions[:-1]) == 1

    def _sorted(self) -> Tiles:
        """Subgroups in their order, the devices transposed with them, neighbours of one kind merged."""
        first = len(self.dimensions) - len(self.subgroups)
        order = sorted(
            range(len(self.subgroups)), key=lambda i: (_ORDER.get(self.subgroups[i], len(_ORDER)), self.subgroups[i])
        )
        moved = self._transposed([*range(first), *(first + i for i in order)])
        dimensions, subgroups = self.dimensions[:first], list[int]()
        for i in order:
            if subgroups and subgroups[-1] == self.subgroups[i]:
                dimensions[-1] *= self.dimensions[first + i]
            else:
                subgroups.append(self.subgroups[i])
                dimensions.append(self.dimensions[first + i])
        return Tiles(dimensions, subgroups, moved)

    def _transposed(self, order: list[int]) -> list[int] | Iota:
        """The devices with the tile dimensions in another order."""
        moved = [dim for dim in order if self.dimensions[dim] != 1]
        if moved == sorted(moved):
            return self.devices
        if isinstance(self.devices, Iota):
            iota = self.devices.with_tiles_in_order(self.dimensions, moved)
            return iota or transposed(_listed(self.devices), self.dimensions, moved)
        return transposed(self.devices, self.dimensions, moved)

    def _without_subgroups_of_one(self) -> Tiles:
        first = len(self.dimensions) - len(self.subgroups)
        kept = [i for i in range(len(self.subgroups)) if self.dimensions[first + i] != 1]
        dimensions = [*self.dimensions[:first], *(self.dimensions[first + i] for i in kept)]
        return Tiles(dimensions, [self.subgroups[i] for i in kept], self.devices)

    def put_into(self, sharding: xla.OpSharding) -> None:
        """Sets the fields of a sharding to these tiles."""
        sharding.type = _S.OTHER
        sharding.tile_assignment_dimensions.extend(self.dimensions)
        if isinstance(self.devices, Iota):
            sharding.iota_reshape_dims.extend(self.devices.sizes)
            sharding.iota_transpose_perm.extend(self.devices.order)
        else:
            sharding.tile_assignment_devices.extend(self.devices)
        if self.subgroups == [_S.REPLICATED]:
            sharding.replicate_on_last_tile_dim = True
        else:
            sharding.last_tile_dims.extend(self.subgroups)

    def text(self) -> str:
        """`devices=[…]…`, without braces."""
        text = f"devices=[{','.join(map(str, self.dimensions))}]"
        text += f"<={self.devices}" if isinstance(self.devices, Iota) else ",".join(map(str, self.devices))
        if self.subgroups == [_S.REPLICATED]:
            return f"{text} last_tile_dim_replicate"
        if self.subgroups:
            text += f" last_tile_dims={{{', '.join(map(KINDS.text, self.subgroups))}}}"
        return text


def _sorted_within_groups(devices: list[int] | Iota, size: int) -> list[int] | Iota:
    """The devices with each run of `size` devices sorted."""
    if isinstance(devices, Iota):
        iota = devices.sorted_within_groups(size)
        if iota is not None:
            return iota
        devices = _listed(devices)
    groups = [sorted(devices[first : first + size]) for first in range(0, len(devices), size)]
    return [device for group in groups for device in group]


def _listed(iota: Iota) -> list[int]:
    check("devices of an iota that must be listed", iota.device_count, _MAX_LISTED)
    return iota.devices()


def read_tiles(cursor: HloCursor) -> Tiles:
    """The value of `devices=`: tiles and devices. Subgroups follow as values of their own."""
    cursor.skip_space()
    at = cursor.at
    dimensions = cursor.parse_ints("[", "]", "a number of tiles")
    if any(size < 1 for size in dimensions) or product(dimensions) > MAX_DEVICES:
        raise cursor.error(f"tile dimensions must be positive and their product at most {MAX_DEVICES}", at=at)
    return Tiles(dimensions, [], _read_devices(cursor, product(dimensions)))


def _read_devices(cursor: HloCursor, count: int) -> list[int] | Iota:
    cursor.skip_space()
    at = cursor.at
    if cursor.accept("<="):
        iota = Iota.parse(cursor)
        if iota.device_count != count:
            raise cursor.error(f"{iota.device_count} devices for {count} tiles", at=at)
        return iota
    devices = [cursor.parse_int("a device")]
    while cursor.accept(","):
        devices.append(cursor.parse_int("a device"))
    if len(devices) != count:
        raise cursor.error(f"{len(devices)} devices for {count} tiles", at=at)
    return devices
