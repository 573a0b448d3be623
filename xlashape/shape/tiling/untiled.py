"""Decides whether tiles move nothing: whether an array lies in its buffer as it lies without tiles, and nothing is
padded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xlashape.base.math import product
from xlashape.shape.parts.tile import WHOLE_DIMENSION, Tile


class _Digit(NamedTuple):
    """A part of the row-major position of an element: `position // weight mod size`."""

    weight: int
    size: int


def moves_nothing(tiles: Iterable[Tile], sizes: Sequence[int]) -> bool:
    """Whether an array of physical `sizes`, most major first, lies under `tiles` as it lies without tiles.

    Every tile cuts the digits of the row-major position into digits that count tiles and digits within a tile. Nothing
    moves if no size is padded and the digits end in the order in which they began.

    >>> moves_nothing([Tile((8, 128))], (64, 128)), moves_nothing([Tile((8, 128))], (64, 256))
    (True, False)
    """
    if 0 in sizes:
        return True
    dimensions = [_digits(product(sizes[i + 1 :]), size) for i, size in enumerate(sizes)]
    for tile in tiles:
        missing: list[list[_Digit]] = [[] for _ in range(len(tile.dimensions) - len(dimensions))]
        dimensions = missing + dimensions
        first = len(dimensions) - len(tile.dimensions)
        outer: list[list[_Digit]] = []
        inner: list[list[_Digit]] = []
        at = first
        for count, size in tile.groups():
            digits = _merged([digit for part in dimensions[at : at + count] for digit in part])
            at += count
            parts = (list[_Digit](), digits) if size == WHOLE_DIMENSION else _split(digits, size)
            if parts is None:
                return False
            outer.append(parts[0])
            inner.append(parts[1])
        dimensions = [*dimensions[:first], *outer, *inner]
    weights = [digit.weight for digits in dimensions for digit in digits]
    return weights == sorted(weights, reverse=True)


def _digits(weight: int, size: int) -> list[_Digit]:
    return [] if size == 1 else [_Digit(weight, size)]


def _merged(digits: list[_Digit]) -> list[_Digit]:
    """The digits after merging neighbours that together are one digit."""
    merged: list[_Digit] = []
    for digit in digits:
        if merged and merged[-1].weight == digit.weight * digit.size:
            merged[-1] = _Digit(digit.weight, merged[-1].size * digit.size)
        else:
            merged.append(digit)
    return merged


def _split(digits: list[_Digit], size: int) -> tuple[list[_Digit], list[_Digit]] | None:
    """The digits that count runs of `size`, and the digits within a run. None if a run is padded or ends inside a
    digit.
    """
    inner: list[_Digit] = []
    outer = list(digits)
    while size > 1:
        if not outer:
            return None
        digit = outer.pop()
        if size % digit.size == 0:
            inner.insert(0, digit)
            size //= digit.size
        elif digit.size % size == 0:
            inner.insert(0, _Digit(digit.weight, size))
            outer.append(_Digit(digit.weight * size, digit.size // size))
            size = 1
        else:
            return None
    return outer, inner
