r"""Shardings that divide an array into tiles: the number of tiles of each dimension, the device of each tile, and
subgroups of devices that share a tile.

tiled       := 'devices=[' INT (',' INT)* ']' devices last?
devices     := INT (',' INT)* | '<=' iota
last        := 'last_tile_dim_replicate' | 'last_tile_dims={' kind (',' kind)* '}'
kind        := 'maximal' | 'manual' | 'unreduced' | 'replicated' | 'unknown' | 'unknown_' INT

The dimensions in `devices=[…]` are those of the array, then one for each subgroup kind in `last`. The latter do not
divide the array: the devices along such a dimension form a subgroup, and all devices of a subgroup hold the same tile.

XLA makes every sharding canonical when it reads text or a proto. `Tiles.canonical` does the same, in these steps:

1. Subgroups are sorted by kind, and the devices are transposed accordingly. Neighbouring subgroups of one kind are
   merged.
2. If one subgroup of kind manual, replicated or unreduced has all devices, nothing is tiled: the sharding becomes that
   kind.
3. Subgroups of one device are dropped. If one subgroup of kind manual or replicated is left and has all devices, the
   sharding becomes that kind.
4. If the last subgroup is replicated, its devices hold the same data, and are sorted within each group.
5. An iota gets the fewest dimensions that give the same devices. If step 1 or 4 changes the order of the devices and
   the iota's dimensions cannot be split along the tiles, the iota becomes a list.

The source of these steps is what jaxlib 0.10.2 makes of shardings in text and in protos, recorded in
tests/vectors/shardings.jsonl. jaxlib writes a subgroup of kind unknown as `error_type.` and cannot read that back; here
it is written as `unknown`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from xlashape.base.math import product
from xlashape.errors import InvalidModuleError
from xlashape.hlo.tokens import HloCursor
from xlashape.hlo.values.devices import MAX_DEVICES, Iota, transposed
from xlashape.hlo.values.enums import EnumWords
from xlashape.limits import check
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
"""The order in which subgroups are sorted: kind → rank. Kinds without a name come last."""
_KINDS_OF_A_WHOLE: Final = (_S.MANUAL, _S.REPLICATED, _S.UNREDUCED)
_MAX_LISTED: Final = 1 << 20
"""The greatest number of devices of an iota that becomes a list. A few characters of text must not take much memory."""


class Tiles(NamedTuple):
    """A tiled sharding: its tiles, its subgroups and its devices."""

    dimensions: list[int]
    """The number of tiles of each dimension of the array, then the number of devices of each subgroup."""
    subgroups: list[int]
    """The kind of each subgroup."""
    devices: list[int] | Iota
    """The device of each tile in row-major order of the tiles."""

    @staticmethod
    def of(sharding: xla.OpSharding) -> Tiles:
        """The tiles of a sharding of type OTHER, not made canonical. InvalidModuleError for fields that contradict each
        other.
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
        """The canonical form: tiles, or the kind of the sharding if nothing is tiled. LimitExceededError if an iota of
        too many devices would become a list.
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
        """Whether there is exactly one subgroup and it has all devices."""
        return len(self.subgroups) == 1 and product(self.dimensions[:-1]) == 1

    def _sorted(self) -> Tiles:
        """The same tiles with the subgroups sorted, the devices transposed accordingly, and neighbouring subgroups of
        one kind merged."""
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
        """The devices of the tiles when the tile dimensions are put into another order."""
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
        """Stores these tiles in a sharding that has none yet."""
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
        """The text of the tiles, `devices=[…]…`, without braces."""
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
    """Reads the value of `devices=`: numbers of tiles, and devices. The text has the kinds of subgroups elsewhere, so
    the result has no subgroups yet."""
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
