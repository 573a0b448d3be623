r"""Lists of devices that are an iota: 0, 1, 2, … reshaped and transposed, then read in row-major order.

iota        := '[' INT (',' INT)* ']' ('T(' INT (',' INT)* ')')?        the transposition where there are several dimensions

`[4,2]T(1,0)` is 0, 2, 4, 6, 1, 3, 5, 7. The canonical form of an iota has the fewest dimensions that give the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from xlashape.errors import InvalidModuleError
from xlashape.hlo.tokens.hlo_cursor import HloCursor
from xlashape.limits import check
from xlashape.math import product

MAX_DEVICES: Final = 1 << 24
"""The most devices of a list: more than any machine has."""


class Iota(NamedTuple):
    """0, 1, 2, … reshaped to `sizes` and transposed by `order`.

    >>> Iota([4, 2], [1, 0]).devices()
    [0, 2, 4, 6, 1, 3, 5, 7]
    >>> str(Iota([2, 2, 2], [2, 0, 1])), str(Iota([8, 1], [1, 0]))
    ('[4,2]T(1,0)', '[8]')
    """

    sizes: list[int]
    order: list[int]

    @staticmethod
    def parse(cursor: HloCursor) -> Iota:
        """The iota at the cursor, as it is written. ParseError for an iota without devices or with too many."""
        cursor.skip_space()
        at = cursor.at
        sizes = cursor.parse_ints("[", "]", "a dimension of the iota")
        if cursor.accept("T("):
            cursor.at -= 1
            order = cursor.parse_ints("(", ")", "a dimension number")
        elif len(sizes) > 1:
            cursor.fail("'T(', since the iota has several dimensions")
        else:
            order = [0]
        if not sizes or any(not 1 <= size <= MAX_DEVICES for size in sizes) or product(sizes) > MAX_DEVICES:
            raise cursor.error(
                f"the dimensions of an iota must be positive and their product at most {MAX_DEVICES}", at=at
            )
        if sorted(order) != list(range(len(sizes))):
            raise cursor.error("the transposition is not a permutation of the iota's dimensions", at=at)
        return Iota(sizes, order)

    @staticmethod
    def of(sizes: Iterable[int], order: Iterable[int]) -> Iota:
        """The iota of a message's fields; without an `order` it is not transposed.

        InvalidModuleError if `order` is not a permutation, or a size not positive.
        """
        iota = Iota(list(sizes), list(order))
        if not iota.order:
            iota = iota._replace(order=list(range(len(iota.sizes))))
        if sorted(iota.order) != list(range(len(iota.sizes))) or any(size < 1 for size in iota.sizes):
            raise InvalidModuleError(f"{iota.order} is not a permutation of the dimensions {iota.sizes} of an iota")
        return iota

    @property
    def device_count(self) -> int:
        """The number of devices."""
        return product(self.sizes)

    def canonical(self) -> Iota:
        """The same devices in the fewest dimensions: those of size 1 are dropped, neighbours that stay neighbours merged."""
        kept = [dim for dim in self.order if self.sizes[dim] != 1]
        position = {dim: index for index, dim in enumerate(sorted(kept))}
        runs: list[list[int]] = []
        for dim in kept:
            if runs and position[dim] == position[runs[-1][-1]] + 1:
                runs[-1].append(dim)
            else:
                runs.append([dim])
        if not runs:
            return Iota([1], [0])
        starts = sorted(run[0] for run in runs)
        size_of = {run[0]: product(self.sizes[dim] for dim in run) for run in runs}
        return Iota([size_of[start] for start in starts], [starts.index(run[0]) for run in runs])

    def devices(self, most: int = MAX_DEVICES) -> list[int]:
        """All devices in their order. LimitExceededError for more than `most`."""
        check("devices of a list", self.device_count, most)
        return transposed(list(range(self.device_count)), self.sizes, self.order)

    def split_along(self, tiles: Sequence[int]) -> list[list[tuple[int, int, int]]] | None:
        """Splits the iota's dimensions so that each part lies in one of `tiles`, whose product is the number of devices.

        For each tile its parts, most major first: (dimension of the iota, number of the part in that dimension, size). None where
        the sizes do not divide each other.

        >>> Iota([8], [0]).split_along([2, 4]), Iota([2, 3], [1, 0]).split_along([2, 3])
        ([[(0, 0, 2)], [(0, 1, 4)]], None)
        """
        rest = [(dim, 0, self.sizes[dim]) for dim in reversed(self.order)]
        parts: list[list[tuple[int, int, int]]] = []
        for tile in tiles:
            within: list[tuple[int, int, int]] = []
            while tile > 1:
                if not rest:
                    return None
                dim, number, size = rest.pop()
                if tile % size == 0:
                    within.append((dim, number, size))
                    tile //= size
                elif size % tile == 0:
                    within.append((dim, number, tile))
                    rest.append((dim, number + 1, size // tile))
                    tile = 1
                else:
                    return None
            parts.append(within)
        return parts

    def with_tiles_in_order(self, tiles: Sequence[int], order: Sequence[int]) -> Iota | None:
        """The devices of an array of `tiles`, its dimensions in another order; None where that is not an iota.

        Dimensions that `order` leaves out have size 1.
        """
        parts = self.canonical().split_along(tiles)
        return None if parts is None else _iota_of_parts([part for tile in order for part in parts[tile]])

    def sorted_within_groups(self, size: int) -> Iota | None:
        """The devices with each run of `size` devices sorted; None where that is not an iota.

        >>> Iota([2, 3], [1, 0]).sorted_within_groups(3) is None
        True
        >>> Iota([3, 4], [1, 0]).sorted_within_groups(12)
        Iota(sizes=[12], order=[0])
        """
        parts = self.canonical().split_along([self.device_count // size, size])
        return None if parts is None else _iota_of_parts([*parts[0], *sorted(parts[1])])

    def __str__(self) -> str:
        sizes, order = self.canonical()
        text = f"[{','.join(map(str, sizes))}]"
        return text if len(order) < 2 else f"{text}T({','.join(map(str, order))})"


def _iota_of_parts(parts: list[tuple[int, int, int]]) -> Iota:
    """The iota that has the parts of another iota's dimensions in a new order, most major first."""
    base = sorted(parts)
    return Iota([size for _, _, size in base], [base.index(part) for part in parts]).canonical()


def transposed(values: Sequence[int], sizes: Sequence[int], order: Iterable[int]) -> list[int]:
    """The values of a row-major array of `sizes`, its dimensions reordered; dimensions that `order` leaves out have size 1.

    >>> transposed([0, 1, 2, 3, 4, 5], [2, 3], [1, 0])
    [0, 3, 1, 4, 2, 5]
    """
    strides = [product(sizes[dim + 1 :]) for dim in range(len(sizes))]
    offsets = [0]
    for dim in order:
        offsets = [offset + step * strides[dim] for offset in offsets for step in range(sizes[dim])]
    return [values[offset] for offset in offsets]
