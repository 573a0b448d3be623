"""The positions of a buffer, in rows of whole words, with the bits that each element takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from xlashape.drawing.geometry.axes import ArrayAxes
from xlashape.shape import tiling

_WORD_BITS = 32
"""The unit in which vector registers and memory banks hold small elements."""


class MemoryCell(NamedTuple):
    """A position of a buffer."""

    position: int
    element: tuple[int, ...] | None
    """The index of the element at this position; None for padding."""
    bit: int
    """Its first bit, counted from the start of the row. Of the bits of a byte, the low-order ones come first."""


class MemoryRow(NamedTuple):
    """Consecutive positions."""

    bit: int
    """The first bit of the row, counted from the start of the buffer."""
    cells: tuple[MemoryCell, ...]


def positions_in_a_row(bits: int) -> int:
    """The number of elements of this width in a row: those of a 32-bit word for small elements, four for larger ones.

    >>> positions_in_a_row(4), positions_in_a_row(16), positions_in_a_row(32), positions_in_a_row(6)
    (8, 2, 4, 4)
    """
    if bits < _WORD_BITS and _WORD_BITS % bits == 0:
        return _WORD_BITS // bits
    return 4


def memory_rows(view: ArrayAxes, starts: Iterable[int], count: int) -> tuple[MemoryRow, ...]:
    """A row for each of `starts`, of at most `count` positions; rows end with the buffer.

    >>> from xlashape.drawing.geometry.axes import axes_of
    >>> from xlashape.shape import Shape
    >>> (row,) = memory_rows(axes_of(Shape.parse("bf16[20,300]{1,0:T(8,128)(2,1)}")), [2], 2)
    >>> row
    MemoryRow(bit=32, cells=(MemoryCell(position=2, element=(0, 1), bit=0), MemoryCell(position=3, element=(1, 1), bit=16)))
    """
    rows: list[MemoryRow] = []
    for start in starts:
        cells = [
            MemoryCell(position, tiling.multi_index(view.shape, position), (position - start) * view.bits)
            for position in range(start, min(start + count, view.elements))
        ]
        if cells:
            rows.append(MemoryRow(start * view.bits, tuple(cells)))
    return tuple(rows)
