"""The cells of an array: their labels, their fills, and their hover texts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from xlashape.drawing.geometry.axes import ArrayAxes
from xlashape.drawing.geometry.grids import Spot
from xlashape.drawing.marks import colours
from xlashape.drawing.marks.options import Options
from xlashape.drawing.marks.scene import Cell, Legend, shortened

_LONGEST_LABEL = 36
_LONGEST_TIP = 120


def index_text(index: tuple[int, ...] | None) -> str:
    """An index as it is written in a cell; nothing for padding.

    >>> index_text((2, 3)), index_text(()), index_text(None)
    ('2,3', '()', '')
    """
    return "" if index is None else shortened(",".join(map(str, index)), _LONGEST_LABEL) or "()"


def place_text(view: ArrayAxes, position: int) -> str:
    """The bytes of the buffer that an element takes: `bytes 68–71`, `byte 7`, `bits 4–7 of byte 8`."""
    first, last = position * view.bits, (position + 1) * view.bits - 1
    if first % 8 == 0 and view.bits % 8 == 0:
        return f"byte {first // 8:,}" if view.bits == 8 else f"bytes {first // 8:,}–{last // 8:,}"
    if first // 8 == last // 8:
        low, high = first % 8, last % 8
        return f"bit{'' if low == high else 's'} {low}{'' if low == high else f'–{high}'} of byte {first // 8:,}"
    return f"bit {first % 8} of byte {first // 8:,} to bit {last % 8} of byte {last // 8:,}"


class Brush(NamedTuple):
    """Makes the cells of one array.

    `steps` are the positions that are shown, ascending. Each is one step of the colour scale, so that neighbours have different colours even if most of
    a large buffer is left out.
    """

    view: ArrayAxes
    options: Options
    steps: tuple[int, ...] = (0,)
    marked: int | None = None
    """The position of the element that the caller asked for."""
    origin: Brush | None = None
    """For an array in two layouts: the brush of the other layout, whose fills the cells of this layout have too, so that an element has one colour in both."""
    has_two_layouts: bool = False
    fill_at: Callable[[tuple[int, ...]], int] | None = None
    """The fill of each element by its index, if fills show something other than the position in memory."""

    def cell(self, spot: Spot) -> Cell:
        """The cell of an array."""
        position = spot.position
        fill = colours.PADDING if spot.element is None else self.fill(position, spot.coordinates, spot.block)
        return Cell(
            self.label(position, spot.element, spot.block),
            fill,
            self.tip(position, spot.element, spot.block),
            key=self.key(position, spot.element),
            block=spot.block if self.view.is_tiled else 0,
            group=position // self.view.group_elements if self.view.group_elements > 1 else 0,
            order=position,
            is_marked=position == self.marked,
        )

    def memory_cell(self, position: int, index: tuple[int, ...] | None) -> Cell:
        """The cell of the same element in a strip of memory, labelled with its index."""
        if index is None:
            fill, block = colours.PADDING, None
        else:
            coordinates = self.view.coordinates(index)
            block = self.view.block(coordinates)
            has_fill = self.origin is not None or self.fill_at is not None
            fill = self.fill(position, coordinates, block) if has_fill else self.fill_of(index)
        tip = self.tip(position, index, block)
        key = self.key(position, index)
        return Cell(index_text(index), fill, tip, key, is_marked=position == self.marked)

    def fill(self, position: int, coordinates: tuple[int, ...], block: int) -> int:
        """The fill of an element."""
        if self.fill_at is not None:
            index = self.view.element(coordinates)
            return colours.BLANK if index is None else self.fill_at(index)
        if self.origin is not None:
            index = self.view.element(coordinates)
            assert index is not None
            return self.origin.fill_of(index)
        color = self.options.color
        if color == "memory":
            return colours.of_scale(bisect_right(self.steps, position) - 1, 0, len(self.steps) - 1)
        if color == "tile":
            return colours.of_number(self.tile(position, block) if self.view.is_tiled else 0)
        if color == "row":
            axis = self.view.row_axis
            return colours.of_number(0 if axis is None else coordinates[axis])
        if color == "bank":
            return colours.of_scale(self.bank(position), 0, self.options.banks - 1)
        return colours.of_number(self.segment(position))

    def fill_of(self, index: tuple[int, ...]) -> int:
        """The fill of the element at an index; blank outside the scale."""
        coordinates = self.view.coordinates(index)
        position = self.view.position(coordinates)
        if self.options.color == "memory" and not self.steps[0] <= position <= self.steps[-1]:
            return colours.BLANK
        return self.fill(position, coordinates, self.view.block(coordinates))

    def key(self, position: int, index: tuple[int, ...] | None) -> int | None:
        """A key that cells of the same element share: its position, or its row-major number if there are two layouts."""
        if not self.has_two_layouts:
            return position
        if index is None:
            return None
        number = 0
        for size, i in zip(self.view.shape.dimensions, index, strict=True):
            number = number * size + i
        return number

    def label(self, position: int, index: tuple[int, ...] | None, block: int) -> str:
        """The label of a cell. Padding has a label too, unless labels are indices, which padding does not have."""
        label = self.options.label
        if label == "position":
            return str(position)
        if label == "index":
            return index_text(index)
        if label == "byte":
            return str(position * self.view.bits // 8)
        if label == "tile":
            return str(self.tile(position, block))
        return str(self.bank(position) if label == "bank" else self.segment(position))

    def label_length(self) -> int:
        """The length of the longest label that a cell may have."""
        if self.options.label == "index":
            sizes = self.view.shape.dimensions
            return max(2, min(_LONGEST_LABEL, sum(len(str(max(0, size - 1))) + 1 for size in sizes) - 1))
        last = max(0, self.view.elements - 1)
        return len(self.label(last, None, max(0, self.view.block([axis.padded - 1 for axis in self.view.axes]))))

    def tip(self, position: int, index: tuple[int, ...] | None, block: int | None) -> str:
        """The hover text of a cell."""
        what = "padding" if index is None else f"index ({shortened(', '.join(map(str, index)), _LONGEST_TIP)})"
        parts = [f"{what} ↔ position {position:,}", place_text(self.view, position)]
        if self.view.is_tiled and block is not None:
            parts.append(f"tile {self.tile(position, block):,}")
        if self.options.color == "bank":
            parts.append(f"bank {self.bank(position)}")
        if self.options.color == "segment":
            parts.append(f"segment {self.segment(position):,}")
        return " · ".join(parts)

    def tile(self, position: int, block: int) -> int:
        """The number of a first tile; in the order of memory if tiles are contiguous."""
        return block if self.view.block_elements is None else position // self.view.block_elements

    def bank(self, position: int) -> int:
        """The memory bank that holds the first bit of the element."""
        return position * self.view.bits // 8 // self.options.bank_bytes % self.options.banks

    def segment(self, position: int) -> int:
        """The segment of memory that holds the first bit of the element."""
        return position * self.view.bits // 8 // self.options.segment_bytes

    def legends(self) -> tuple[Legend, ...]:
        """The legend of the fills."""
        options = self.options
        meaning = {
            "memory": Legend(colours.SCALE, f"order in memory: position {self.steps[0]:,} to {self.steps[-1]:,}"),
            "tile": Legend(colours.PALETTE, "the tile, by its number"),
            "row": Legend(colours.PALETTE, "the row"),
            "bank": Legend(colours.SCALE, f"the bank: 0 to {options.banks - 1}, {options.bank_bytes} bytes wide each"),
            "segment": Legend(colours.PALETTE, f"the segment of {options.segment_bytes} bytes"),
        }[options.color]
        return (meaning,)
