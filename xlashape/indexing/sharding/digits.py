"""The tile of each device as digits of the device's number: the number is cut into digits, and each dimension of the
array has some of them, the most major first. Digits that no dimension has are replication.

    {devices=[4,2]<=[2,4]T(1,0)}    digits of 8 devices: (2, 4); dimension 0 has digit 1, dimension 1 has digit 0
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from xlashape.base.math import factor_orders, product
from xlashape.errors import InvalidArgumentError
from xlashape.hlo.values.sharding import Sharding
from xlashape.limits import check, spend
from xlashape.shape import Shape

_MOST_DEVICES: Final = 1 << 16


class Tiling(NamedTuple):
    """The tile that each device holds of an array."""

    counts: tuple[int, ...]
    """The number of tiles of each dimension."""
    tiles: dict[int, tuple[int, ...]]
    """Device → the index of its tile."""


def tiling_of(sharding: Sharding, shape: Shape, devices: int | None) -> Tiling:
    """The tiles of an array. `devices` is their number where the sharding does not name them.

    Raises InvalidArgumentError for a manual or unreduced sharding, for one that does not fit the array, and where
    nobody says how many devices there are.
    """
    kind = sharding.kind
    if kind in ("manual", "unreduced", "tuple", "unknown"):
        why = {"manual": "the program says what each device holds", "unreduced": "each device holds a summand"}
        raise InvalidArgumentError(
            f"a sharding of kind {kind} places no elements{': ' + why[kind] if kind in why else ''}", field="sharding"
        )
    counts = sharding.counts_for(shape)
    holders = sharding.holders
    if holders is None:
        if devices is None:
            raise InvalidArgumentError(f"{sharding} names no devices: pass how many there are", field="devices")
        holders = [list(range(devices))]
    check("devices of a sharding", sum(map(len, holders)), _MOST_DEVICES)
    spend(sum(map(len, holders)) * max(1, len(counts)))
    tiles: dict[int, tuple[int, ...]] = {}
    for number, group in enumerate(holders):
        index: list[int] = []
        for count in reversed(counts):
            number, step = divmod(number, count)
            index.append(step)
        tiles |= dict.fromkeys(group, tuple(reversed(index)))
    return Tiling(counts, tiles)


class Digits(NamedTuple):
    """The digits of the devices' numbers, and the dimensions that have them."""

    sizes: tuple[int, ...]
    """The sizes of the digits, the most major first."""
    dims: tuple[tuple[int, ...], ...]
    """For each dimension, the positions in `sizes` of the digits that its tile numbers consist of."""

    def after(self, digit: int) -> int:
        """The product of the sizes of the digits after one."""
        return product(self.sizes[digit + 1 :])


def digits_of(tilings: Sequence[Tiling]) -> list[Digits] | None:
    """The digits of several tilings of the same devices, which are cut alike; None where the devices are not 0, 1, 2, …
    or where tiles are no digits of their numbers.
    """
    count = len(tilings[0].tiles)
    if any(sorted(tiling.tiles) != list(range(count)) for tiling in tilings):
        return None
    for sizes in factor_orders(count):
        found = [_in_digits(tiling, sizes) for tiling in tilings]
        known = [each for each in found if each is not None]
        if len(known) == len(tilings):
            return _merged([Digits(sizes, each) for each in known])
    return None


def _in_digits(tiling: Tiling, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
    """The digits of each dimension, if the number of devices is cut into digits of these sizes."""
    after = [product(sizes[digit + 1 :]) for digit in range(len(sizes))]
    dims: list[tuple[int, ...]] = []
    used: set[int] = set()
    for dim, count in enumerate(tiling.counts):
        weights = {digit: tiling.tiles[after[digit]][dim] for digit in range(len(sizes))}
        mine = sorted([digit for digit, weight in weights.items() if weight], key=lambda digit: -weights[digit])
        rest = count
        for digit in mine:
            if rest % sizes[digit] or weights[digit] * sizes[digit] != rest:
                return None
            rest //= sizes[digit]
        if rest != 1 or used & set(mine):
            return None
        used |= set(mine)
        dims.append(tuple(mine))
    spend(len(tiling.tiles) * (1 + len(sizes)))
    for device, tile in tiling.tiles.items():
        for dim, mine in enumerate(dims):
            value = 0
            for digit in mine:
                value = value * sizes[digit] + device // after[digit] % sizes[digit]
            if value != tile[dim]:
                return None
    return tuple(dims)


def _merged(found: list[Digits]) -> list[Digits]:
    """The same with fewer digits: neighbours are one that are neighbours in all tilings, or in none of them."""
    sizes = found[0].sizes
    joined = [False] * len(sizes)
    for digit in range(1, len(sizes)):
        joined[digit] = all(
            all(digit - 1 not in dim and digit not in dim for dim in each.dims)
            or any((digit - 1, digit) in pairwise(dim) for dim in each.dims)
            for each in found
        )
    number, numbers, merged = -1, list[int](), list[int]()
    for digit, size in enumerate(sizes):
        if joined[digit]:
            merged[-1] *= size
        else:
            number += 1
            merged.append(size)
        numbers.append(number)
    return [
        Digits(tuple(merged), tuple([tuple(dict.fromkeys([numbers[digit] for digit in dim])) for dim in each.dims]))
        for each in found
    ]
