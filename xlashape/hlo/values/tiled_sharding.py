"""Tiled shardings in the form in which XLA keeps them, and lists of devices as iotas.

XLA normalises a sharding when it reads one: subgroups come in the order manual, unreduced, replicated, those of one type merged and
those of size 1 dropped, the devices transposed with them; one that tiles nothing is just `manual` or `replicated`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from xlashape.errors import InvalidModuleError
from xlashape.limits import check
from xlashape.math import product
from xlashape.proto import xla

__all__ = ["MAX_DEVICES", "Tiles", "canonical_iota", "iota_devices", "tiles_of", "transposed"]

MAX_DEVICES: Final = 1 << 24
"""Devices of a list written out."""
_RANKS = {
    xla.OpSharding.MANUAL: 0,
    xla.OpSharding.UNREDUCED: 1,
    xla.OpSharding.UNKNOWN: 2,
    xla.OpSharding.REPLICATED: 3,
}


@dataclass(frozen=True)
class Tiles:
    """`dimensions` tile the array, then come the subgroups of `last`; devices are a list or an iota (sizes, order)."""

    dimensions: list[int]
    last: list[int]
    devices: list[int] | None
    iota: tuple[list[int], list[int]] | None


def tiles_of(sharding: xla.OpSharding) -> Tiles:
    """The tiles of a sharding of type OTHER, normalised. Raises InvalidModuleError for subgroups that cannot be."""
    sizes = list(sharding.tile_assignment_dimensions)
    last = list(sharding.last_tile_dims)
    if not last and sharding.replicate_on_last_tile_dim:
        last = [xla.OpSharding.REPLICATED]
    if len(last) > len(sizes) or any(size < 1 for size in sizes):
        raise InvalidModuleError(f"{sizes} with {len(last)} subgroups do not tile anything")
    iota: tuple[list[int], list[int]] | None = None
    devices: list[int] | None = None
    if sharding.iota_reshape_dims:
        iota = list(sharding.iota_reshape_dims), list(sharding.iota_transpose_perm)
        check_permutation(*iota)
        if product(iota[0]) != product(sizes):
            raise InvalidModuleError(f"{product(iota[0])} devices do not fill tiles of {sizes}")
    else:
        devices = list(sharding.tile_assignment_devices)
        if len(devices) != product(sizes):
            raise InvalidModuleError(f"{len(devices)} devices do not fill tiles of {sizes}")
    first = len(sizes) - len(last)
    kept = [i for i in range(first, len(sizes)) if sizes[i] != 1]
    kept.sort(key=lambda i: _RANKS.get(last[i - first], 4))
    order = [*range(first), *kept]
    if kept != sorted(kept):
        if iota is not None:
            moved = _transposed_iota(iota, sizes, order)
            if moved is None:
                devices, iota = transposed(iota_devices(*iota), sizes, order), None
            else:
                iota = moved
        elif devices is not None:
            devices = transposed(devices, sizes, order)
    merged: list[int] = []
    dimensions = sizes[:first]
    for i in kept:
        kind = last[i - first]
        if merged and merged[-1] == kind:
            dimensions[-1] *= sizes[i]
        else:
            merged.append(kind)
            dimensions.append(sizes[i])
    return Tiles(dimensions, merged, devices, iota)


def check_permutation(sizes: Sequence[int], order: Sequence[int]) -> None:
    """Raises InvalidModuleError unless `order` is a permutation of the dimensions of `sizes`, which are positive."""
    if sorted(order) != list(range(len(sizes))) or any(size < 1 for size in sizes):
        raise InvalidModuleError(f"{list(order)} is not a permutation of the dimensions {list(sizes)} of an iota")


def transposed(values: list[int], sizes: Sequence[int], order: Iterable[int]) -> list[int]:
    """The values of a row-major array of `sizes`, its dimensions reordered; dimensions left out have size 1."""
    strides = [product(sizes[i + 1 :]) for i in range(len(sizes))]
    places = [0]
    for i in order:
        places = [place + step * strides[i] for place in places for step in range(sizes[i])]
    return [values[place] for place in places]


def iota_devices(reshape: Iterable[int], perm: Iterable[int]) -> list[int]:
    """0, 1, 2, … reshaped and transposed, as a list."""
    sizes, order = list(reshape), list(perm)
    check_permutation(sizes, order)
    check("devices of a list", product(sizes), MAX_DEVICES)
    return transposed(list(range(product(sizes))), sizes, order)


def canonical_iota(sizes: list[int], order: list[int]) -> tuple[list[int], list[int]]:
    """The same iota in the fewest dimensions: those of size 1 go, neighbours that stay neighbours merge."""
    check_permutation(sizes, order)
    groups: list[list[int]] = []
    for i in order:
        if sizes[i] == 1:
            continue
        if groups and groups[-1][-1] < i and all(sizes[j] == 1 for j in range(groups[-1][-1] + 1, i)):
            groups[-1].append(i)
        else:
            groups.append([i])
    if not groups:
        return [1], [0]
    starts = sorted(group[0] for group in groups)
    merged = {group[0]: product(sizes[i] for i in group) for group in groups}
    return [merged[start] for start in starts], [starts.index(group[0]) for group in groups]


def _transposed_iota(
    iota: tuple[list[int], list[int]], tiles: list[int], order: list[int]
) -> tuple[list[int], list[int]] | None:
    """An iota that fills `tiles`, those reordered; None where its dimensions do not split along theirs."""
    sizes, perm = iota
    # Each dimension of the iota splits into atoms that lie within one tile dimension: (dimension, number within it, size).
    rest = [(i, 0, sizes[i]) for i in reversed(perm)]
    atoms: list[list[tuple[int, int, int]]] = []
    for tile in tiles:
        inside: list[tuple[int, int, int]] = []
        while tile > 1:
            if not rest:
                return None
            dimension, number, size = rest.pop()
            if tile % size == 0:
                inside.append((dimension, number, size))
                tile //= size
            elif size % tile == 0:
                inside.append((dimension, number, tile))
                rest.append((dimension, number + 1, size // tile))
                tile = 1
            else:
                return None
        atoms.append(inside)
    placed = [atom for i in order for atom in atoms[i]]
    base = sorted(placed)
    return canonical_iota([size for _, _, size in base], [base.index(atom) for atom in placed])
