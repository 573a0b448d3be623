"""The panels of an array, which are the parts of its scene: grids of elements, grids of tiles, strips of memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xlashape.drawing.geometry.axes import ArrayAxes, Axis, memory_rows, positions_in_a_row
from xlashape.drawing.geometry.grids import SpotGrid, TileGrid, TileSpot, coordinates_shown
from xlashape.drawing.marks import colours
from xlashape.drawing.marks.cells import (
    Brush,
    Cell,
    Grid,
    PictureSpace,
    Strip,
    StripCell,
    StripRow,
    index_text,
    shortened,
)

# A path is the line through the cells of a grid in the order of memory. A longer one cannot be followed by eye.
_MAX_PATH = 700


def coordinate_text(axis: Axis, coordinate: int) -> str:
    """A coordinate as the indices of its dimensions; `·` for padding.

    >>> coordinate_text(Axis((0, 1), (3, 5), 15, 16, 4), 7), coordinate_text(Axis((0,), (3,), 3, 4, 4), 3)
    ('1,2', '·')
    """
    if coordinate >= axis.size:
        return "·"
    return shortened(",".join(_digits(axis, coordinate)), 24) or "0"


def _digits(axis: Axis, coordinate: int) -> list[str]:
    """A coordinate of an axis as the indices of the axis' dimensions, in text."""
    digits: list[str] = []
    for size in reversed(axis.sizes):
        coordinate, digit = divmod(coordinate, size)
        digits.append(str(digit))
    return digits[::-1]


def slice_text(view: ArrayAxes, fixed: Sequence[int], extents: Sequence[int] | None = None) -> str:
    """The slice of an array that a panel shows, as in NumPy: `[0, :, :]`; `padding` for one without elements. `fixed`
    has a coordinate for each axis, `extents` the number of coordinates along each outer axis, 1 each if not given."""
    parts = [":"] * len(view.shape.dimensions)
    for number, i in enumerate(view.outer_axes):
        axis, start = view.axes[i], fixed[i]
        if not axis.dimensions:
            continue
        if start >= axis.size:
            return "padding"
        extent = min(1 if extents is None else extents[number], axis.size - start)
        texts = _digits(axis, start)
        if extent > 1:
            stop = _digits(axis, start + extent - 1)
            texts = [a if a == b else f"{a}–{b}" for a, b in zip(texts, stop, strict=True)]
        for number_of_dimension, text in zip(axis.dimensions, texts, strict=True):
            parts[number_of_dimension] = text
    return f"[{shortened(', '.join(parts), 60)}]"


def grid_panel(brush: Brush, grid: SpotGrid, title: str, caption: str = "", style: str = "element") -> Grid:
    """The panel of a grid of elements, with the labels of its rows and columns."""
    view = brush.view
    column_axis = view.axes[view.column_axis]
    row_axis = None if view.row_axis is None else view.axes[view.row_axis]
    cells = tuple([tuple([None if spot is None else brush.cell(spot) for spot in row]) for row in grid.spots])
    count = sum(len(row) for row in cells)
    if grid.wrapped:
        single = len(grid.rows) == 1
        row_heads = tuple(
            [None if row is None else "" if single else coordinate_text(column_axis, row) for row in grid.rows]
        )
        column_heads = tuple(
            [
                coordinate_text(column_axis, column) if single else f"+{column}"
                for column in grid.columns
                if column is not None
            ]
        )
    else:
        assert row_axis is not None
        row_heads = tuple([None if row is None else coordinate_text(row_axis, row) for row in grid.rows])
        column_heads = tuple(
            [None if column is None else coordinate_text(column_axis, column) for column in grid.columns]
        )
    is_scalar = not view.shape.dimensions and column_axis.padded == 1
    return Grid(
        title,
        cells,
        row_heads,
        ("",) if is_scalar else column_heads,
        "" if row_axis is None else row_axis.name,
        "" if is_scalar else column_axis.name,
        style,
        # No path where an axis is cut into rows and the last tile groups elements: the path would jump between rows.
        brush.options.path and 1 < count <= _MAX_PATH and not (grid.wrapped and view.group_elements > 1),
        caption,
    )


def tile_panel(
    brush: Brush, grid: TileGrid, title: str, caption: str = "", style: str = "tile", opened: int | None = None
) -> Grid:
    """The panel of a grid of tiles. `opened` is the number of the tile that gets a frame; None for no frame."""
    view = brush.view
    column_axis = view.axes[view.column_axis]
    row_axis = None if view.row_axis is None else view.axes[view.row_axis]
    cells = tuple(
        [tuple([None if tile is None else _tile_cell(brush, tile, opened) for tile in row]) for row in grid.tiles]
    )
    return Grid(
        title,
        cells,
        tuple([None if row is None else "" if row_axis is None else _range_text(row_axis, row) for row in grid.rows]),
        tuple([None if column is None else _range_text(column_axis, column) for column in grid.columns]),
        "" if row_axis is None else row_axis.name,
        column_axis.name,
        style,
        brush.options.path and sum(map(len, cells)) > 1,
        caption,
    )


def _tile_cell(brush: Brush, tile: TileSpot, opened: int | None) -> Cell:
    view = brush.view
    number = brush.tile(tile.position, tile.block)
    index = view.element(tile.starts)
    fill = colours.PADDING if not tile.used else brush.fill(tile.position, tile.starts, tile.block)
    share = (tile.used_rows[0] / tile.used_rows[1], tile.used_columns[0] / tile.used_columns[1])
    positions = f"position {tile.position:,}" + ("" if tile.last is None else f"–{tile.last:,}")
    first = "padding alone" if index is None else f"first element ({index_text(index)})"
    return Cell(
        str(number),
        fill,
        f"tile {number:,}: {positions} · {first} · {tile.used_rows[0]} of {tile.used_rows[1]} rows and "
        f"{tile.used_columns[0]} of {tile.used_columns[1]} columns hold elements",
        key=None,
        block=tile.block,
        order=tile.position,
        used=share,
        note=f"@{tile.position}",
        is_marked=tile.block == opened,
        element=index,
    )


def _range_text(axis: Axis, block: int) -> str:
    first = block * axis.tile
    last = min(first + axis.tile, axis.size) - 1
    if last <= first:
        return coordinate_text(axis, first)
    return f"{coordinate_text(axis, first)}–{coordinate_text(axis, last)}"


def strip_panel(
    brush: Brush, space: PictureSpace, focus: Iterable[int], title: str = "memory: the index at each position"
) -> Strip:
    """The panel of a part of the buffer: as many rows as fit, around the positions in `focus`, and both ends."""
    view = brush.view
    count = positions_in_a_row(view.bits)
    longest = min(36, sum(len(str(max(0, size - 1))) + 1 for size in view.shape.dimensions))
    while count % 2 == 0 and count * (longest + 1) + 12 > space.characters:
        count //= 2
    total = -(-view.elements // count)
    rows: list[StripRow] = []
    for number in coordinates_shown(total, space.memory_rows, sorted({position // count for position in focus})):
        if number is None:
            rows.append(StripRow(None, ()))
            continue
        for row in memory_rows(view, [number * count], count):
            head = f"byte {row.bit // 8:,}" if row.bit % 8 == 0 else f"bit {row.bit:,}"
            cells = [
                StripCell(brush.memory_cell(cell.position, cell.element), cell.bit, view.bits) for cell in row.cells
            ]
            rows.append(StripRow(head, tuple(cells)))
    order = "Low-order bits are on the left." if view.bits < 8 else ""
    return Strip(title, tuple(rows), count * view.bits, order)
