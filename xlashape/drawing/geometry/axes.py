"""The axes of a picture: an array as the first tile of its layout cuts it, and the position in the buffer of each cell.

A layout has any number of tiles: in T(8,128)(2,1) the first, (8,128), cuts the array into blocks, and the later one
cuts each block. The first tile may add axes of size 1, and merges dimensions under a `*`. The result is an array of
axes, each with a size and a padded size. A cell is a coordinate on each axis. Cells inside the sizes are elements; the
others are padding. All positions come from `xlashape.shape.tiling`: the padded array is itself an array whose
dimensions are the padded axes, so that cells of padding have positions, too. Padding that later tiles add, or that the
layout adds at the end of the buffer (the tail), has no cell, because no coordinate of the array leads to it.

`memory_rows` goes the other way: from the positions of a buffer, in rows of whole words, to their elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xlashape.base.math import ceil_div, product, round_up
from xlashape.errors import UnsupportedError
from xlashape.shape import Layout, Shape, Tile, tiling
from xlashape.shape.arguments import array_of, checked_index
from xlashape.shape.parts.checks import brief
from xlashape.shape.tiling.formula import geometry


class Axis(NamedTuple):
    """An axis of an array: a dimension, several dimensions that the first tile merges, or an axis that the tile
    adds."""

    dimensions: tuple[int, ...]
    """The numbers of the dimensions, most major first. Empty for an axis of size 1 that a tile of higher rank than the
    array adds."""
    sizes: tuple[int, ...]
    """The sizes of these dimensions."""
    size: int
    """The product of the sizes."""
    padded: int
    """`size`, rounded up to a multiple of `tile`."""
    tile: int
    """The size of the layout's first tile along this axis; 1 if the tile does not have this axis."""

    @property
    def name(self) -> str:
        """`d1`; `d0·d1` for dimensions that a `*` merges; `added` for an axis that the tile adds."""
        names = [f"d{number}" for number in self.dimensions]
        if len(names) > 4:
            names[2:-1] = ["…"]
        return "·".join(names) or "added"


class ArrayAxes(NamedTuple):
    """An array with the axes that its layout's first tile cuts. `axes` are in the order of memory, most major first.

    >>> view = axes_of(Shape.parse("f32[3,5]{1,0:T(2,2)}"))
    >>> view.position((2, 3)), view.element((2, 3)), view.block((2, 3))
    (17, (2, 3), 4)
    >>> view.position((3, 5)), view.element((3, 5))
    (23, None)
    """

    shape: Shape
    padded: Shape
    """The array with the padding of its first tile, as a shape of its own whose dimensions are the axes. It has the
    same buffer."""
    axes: tuple[Axis, ...]
    row_axis: int | None
    """The axis whose coordinates are the rows of a grid; None where there are fewer than two axes."""
    column_axis: int
    blocks: tuple[int, ...]
    """The number of blocks along each axis. A block is one of the pieces into which the first tile cuts the array."""
    block_elements: int | None
    """The elements that a block takes in memory, padding of later tiles included. None where a later tile mixes
    elements of several blocks, so that a block is not contiguous, or where the layout has no tiles."""
    group_elements: int
    """The elements of the layout's last tile, such as 2 in T(8,128)(2,1); 1 with fewer than two tiles, or where blocks
    are not contiguous."""
    elements: int
    """The elements that the buffer has room for, padding included."""
    bits: int
    """The bits from one element to the next."""

    @property
    def is_tiled(self) -> bool:
        """Whether the layout has tiles."""
        return self.shape.layout is not None and bool(self.shape.layout.tiles)

    @property
    def outer_axes(self) -> tuple[int, ...]:
        """The axes that are neither rows nor columns."""
        return tuple([i for i in range(len(self.axes)) if i not in (self.row_axis, self.column_axis)])

    def position(self, coordinates: Sequence[int]) -> int:
        """The position in the buffer, in elements, of a cell inside the padded axes."""
        return tiling.linear_index(self.padded, coordinates)

    def element(self, coordinates: Sequence[int]) -> tuple[int, ...] | None:
        """The index of the element in a cell; None for padding."""
        index = [0] * len(self.shape.dimensions)
        for axis, coordinate in zip(self.axes, coordinates, strict=True):
            if coordinate >= axis.size:
                return None
            for number, size in zip(reversed(axis.dimensions), reversed(axis.sizes), strict=True):
                coordinate, index[number] = divmod(coordinate, size)
        return tuple(index)

    def coordinates(self, index: Sequence[int]) -> tuple[int, ...]:
        """The cell of the element at `index`. InvalidIndexError for one outside the array."""
        numbers = checked_index(self.shape, self.shape.dimensions, index)
        found: list[int] = []
        for axis in self.axes:
            coordinate = 0
            for number, size in zip(axis.dimensions, axis.sizes, strict=True):
                coordinate = coordinate * size + numbers[number]
            found.append(coordinate)
        return tuple(found)

    def block(self, coordinates: Sequence[int]) -> int:
        """The number of the block that holds a cell; blocks count in the order of their coordinates."""
        number = 0
        for axis, count, coordinate in zip(self.axes, self.blocks, coordinates, strict=True):
            number = number * count + coordinate // axis.tile
        return number


def axes_of(shape: Shape) -> ArrayAxes:
    """The axes of an array, or of the array that a buffer holds.

    InvalidShapeError for a shape that is not an array or has an unbounded dimension, SizeOverflowError for a buffer
    beyond int64, UnsupportedError for a sparse layout and for an element type of unknown width.

    >>> [
    ...     (axis.name, axis.size, axis.padded)
    ...     for axis in axes_of(Shape.parse("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}")).axes
    ... ]
    [('d0·d1·d2', 112, 112), ('d3·d4', 110, 111)]
    """
    array = array_of(shape)
    if array.layout is not None and array.layout.physical_shape is not None:
        raise UnsupportedError(f"the layout of {brief(array)} is sparse: only dense arrays can be drawn", field="shape")
    bits = tiling.stored_bits(array)
    sizes = geometry(array)
    order: list[int | None] = list(sizes.major_to_minor)
    axes: list[Axis] = []
    later: tuple[Tile, ...] = ()
    block_elements: int | None = None
    group_elements = 1
    if sizes.steps:
        assert array.layout is not None
        first, *others = sizes.steps
        later = array.layout.tiles[1:]
        order = [None] * first.added + order
        axes += [_axis(order[i : i + 1], array, 1) for i in range(len(first.kept))]
        at = len(first.kept)
        for group, t in zip(first.groups, first.tile, strict=True):
            axes.append(_axis(order[at : at + len(group)], array, t))
            at += len(group)
        outer = len(first.kept) + len(first.counts)
        if all(len(step.kept) >= outer and not step.added for step in others):
            block_elements = product(sizes.physical[outer:])
            group_elements = product(others[-1].tile) if others else 1
        plain = [Tile(first.tile), *later]
    else:
        axes = [_axis([d], array, 1) for d in order]
        plain = []
    if not axes:
        axes = [Axis((), (), 1, 1, 1)]
    rank = len(axes)
    layout = Layout(range(rank - 1, -1, -1), plain)
    padded = Shape.array(array.element_type, [axis.padded for axis in axes], layout)
    rows, columns = _shown_axes(axes)
    blocks = tuple([ceil_div(axis.padded, axis.tile) for axis in axes])
    return ArrayAxes(
        array, padded, tuple(axes), rows, columns, blocks, block_elements, group_elements, sizes.elements, bits
    )


def _axis(numbers: Sequence[int | None], array: Shape, tile: int) -> Axis:
    dimensions = tuple([number for number in numbers if number is not None])
    sizes = tuple([array.dimensions[number] for number in dimensions])
    size = product(sizes)
    return Axis(dimensions, sizes, size, round_up(size, tile), tile)


def _shown_axes(axes: Sequence[Axis]) -> tuple[int | None, int]:
    """The two most minor axes with more than one coordinate, or the two most minor axes if fewer than two have more
    than one. The axis of the lower dimension is shown as rows."""
    long = [i for i, axis in enumerate(axes) if axis.padded > 1]
    others = [i for i in range(len(axes)) if i not in long and axes[i].dimensions]
    chosen = sorted((others + long)[-2:])
    if len(chosen) < 2:
        return None, chosen[0] if chosen else len(axes) - 1
    a, b = chosen
    # An axis that a tile adds has no dimension, and comes before the axes that have one.
    return (b, a) if axes[b].dimensions[:1] < axes[a].dimensions[:1] else (a, b)


# -- memory ------------------------------------------------------------------------------------


_WORD_BITS = 32
"""The unit in which vector registers and memory banks hold small elements."""


class MemoryCell(NamedTuple):
    """A position of a buffer."""

    position: int
    element: tuple[int, ...] | None
    """The index of the element at this position; None for padding."""
    bit: int
    """The first bit of the position, counted from the start of the row. In a byte the low-order bits come first."""


class MemoryRow(NamedTuple):
    """Consecutive positions of a buffer."""

    bit: int
    """The first bit of the row, counted from the start of the buffer."""
    cells: tuple[MemoryCell, ...]


def positions_in_a_row(bits: int) -> int:
    """The number of elements of `bits` bits in a row: as many as fill a word of 32 bits if they are smaller and fill it
    exactly, else four.

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
    """  # noqa: E501 - an answer is one line
    rows: list[MemoryRow] = []
    for start in starts:
        cells = [
            MemoryCell(position, tiling.multi_index(view.shape, position), (position - start) * view.bits)
            for position in range(start, min(start + count, view.elements))
        ]
        if cells:
            rows.append(MemoryRow(start * view.bits, tuple(cells)))
    return tuple(rows)
