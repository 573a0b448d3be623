"""Which cells of an array a picture shows, as planes with rows and columns.

A grid is a plane of the array: the row axis and the column axis vary, the other axes, which are the outer axes, are
fixed. A slice is the plane at given coordinates of the outer axes. An array of one axis is wrapped into rows. Of a long
axis, both ends are shown and the surroundings of the coordinates in focus, such as those of the element that the caller
asked for. `axes.py` explains the axes of an array and its blocks, which are also called its tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

from xlashape.drawing.geometry.axes import ArrayAxes
from xlashape.errors import InvalidArgumentError

GAP = None
"""Stands for coordinates that are left out."""

Shown: TypeAlias = "tuple[int | None, ...]"
"""Coordinates in ascending order, with `GAP` between two that are not adjacent."""


# An axis of at most this many coordinates is shown whole if it fits, whatever the distance from the focus is.
_FEW = 8


class GridWindow(NamedTuple):
    """The coordinates from `start` on, before `stop`."""

    start: int
    stop: int

    def clipped(self, size: int, what: str) -> GridWindow:
        """The part inside an axis of this size. InvalidArgumentError, which names `what`, if no part is inside."""
        start, stop = max(0, self.start), min(size, self.stop)
        if start >= stop:
            raise InvalidArgumentError(
                f"{what} {self.start}:{self.stop} lie outside the axis, which has {size}", field=what
            )
        return GridWindow(start, stop)


def window_of(value: object, what: str) -> GridWindow | None:
    """A window from `"8:16"`, `"8"`, a range, a slice or a pair of ints; None from None. InvalidArgumentError for
    anything else.

    >>> window_of("8:16", "rows"), window_of(range(4), "rows"), window_of("7", "rows")
    (GridWindow(start=8, stop=16), GridWindow(start=0, stop=4), GridWindow(start=7, stop=8))
    """
    if value is None:
        return None
    given = repr(str(value)[:60])
    pair: tuple[object, object] | None = None
    if isinstance(value, str):
        start, colon, stop = value.partition(":")
        if len(value) < 48 and _is_number(start) and (_is_number(stop) if colon else True):
            pair = int(start), int(stop) if colon else int(start) + 1
    elif isinstance(value, range) and value.step == 1:
        pair = value.start, value.stop
    elif isinstance(value, slice):
        part = cast("slice[object, object, object]", value)
        if part.step in (None, 1):
            pair = part.start or 0, part.stop
    elif isinstance(value, (tuple, list)):
        entries = cast("Sequence[object]", value)
        if len(entries) == 2:
            pair = entries[0], entries[1]
    numbers = [number for number in pair or () if isinstance(number, int) and not isinstance(number, bool)]
    if len(numbers) != 2:
        raise InvalidArgumentError(f"{what} takes a window such as '8:16' or range(8, 16), found {given}", field=what)
    window = GridWindow(*numbers)
    if window.start < 0 or window.stop <= window.start:
        raise InvalidArgumentError(
            f"{what} takes a window that begins at 0 or later and is not empty, found {given}", field=what
        )
    return window


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def coordinates_shown(
    size: int, budget: int, focus: Iterable[int] = (), start: int = 0, reach: int | None = None
) -> Shown:
    """The coordinates to show of `size` coordinates from `start` on: at most `budget` entries, of which gaps are some.

    If not all fit, both ends are shown, the coordinates in `focus` (ascending; if empty, the first coordinate), and as
    many around these as fit. If the focus does not fit, its first coordinates, its last two, and the one after these
    are shown. Below five entries, there may be no place for the focus. Below three, there is no place for both ends:
    the first coordinate of the focus is shown alone.

    `reach` is the largest distance from `focus` that is shown, None any. An axis of at most eight coordinates is shown
    whole if it fits.

    >>> coordinates_shown(5, 8), coordinates_shown(100, 6)
    ((0, 1, 2, 3, 4), (0, 1, 2, 3, None, 99))
    >>> coordinates_shown(100, 8, [40])
    (0, None, 39, 40, 41, 42, None, 99)
    >>> coordinates_shown(100, 10, range(32))
    (0, 1, 2, 3, None, 30, 31, 32, None, 99)
    """
    stop = start + size
    if size <= budget and (reach is None or size <= _FEW):
        return tuple(range(start, stop))
    wanted = [coordinate for coordinate in focus if start <= coordinate < stop] or [start]
    if budget < 3:
        return (wanted[0],)
    chosen = {start, stop - 1}
    if len(wanted) > 1 and len(wanted) + 2 > budget:
        wanted = _from_both_ends(wanted, budget, stop)
    for coordinate in wanted:
        _add(chosen, coordinate, budget)
    for distance in range(1, budget if reach is None else reach + 1):
        if len(_with_gaps(chosen)) >= budget:
            break
        for coordinate in wanted:
            for neighbour in (coordinate + distance, coordinate - distance):
                if start <= neighbour < stop:
                    _add(chosen, neighbour, budget)
    return _with_gaps(chosen)


def _from_both_ends(wanted: Sequence[int], budget: int, stop: int) -> list[int]:
    """The coordinates of a focus that does not fit, in the order in which they are added: its edges first."""
    edges = [wanted[0], wanted[-1], min(wanted[-1] + 1, stop - 1), wanted[-2]]
    return [*dict.fromkeys([*edges, *wanted[1:budget]])]


def _add(chosen: set[int], coordinate: int, budget: int) -> None:
    """Adds a coordinate to `chosen`, if the entries with their gaps then still fit the budget."""
    if coordinate not in chosen:
        chosen.add(coordinate)
        if len(_with_gaps(chosen)) > budget:
            chosen.remove(coordinate)


def _with_gaps(chosen: set[int]) -> Shown:
    shown: list[int | None] = []
    previous: int | None = None
    for coordinate in sorted(chosen):
        if previous is not None and coordinate == previous + 2:
            shown.append(previous + 1)  # a gap of one coordinate would take as much space as the coordinate
        elif previous is not None and coordinate > previous + 1:
            shown.append(GAP)
        shown.append(coordinate)
        previous = coordinate
    return tuple(shown)


# -- grids -------------------------------------------------------------------------------------


class Spot(NamedTuple):
    """A cell of an array, with its place in the array and in memory."""

    coordinates: tuple[int, ...]
    position: int
    """The position in the buffer, in elements."""
    element: tuple[int, ...] | None
    """The index of its element; None for padding."""
    block: int
    """The number of the block that holds it, as `ArrayAxes.block` counts."""


class SpotGrid(NamedTuple):
    """The cells of part of a plane. The cells of a row or column that is a gap are `GAP`."""

    fixed: tuple[int, ...]
    """A coordinate for each axis; those of the row axis and the column axis have no meaning."""
    rows: Shown
    columns: Shown
    spots: tuple[tuple[Spot | None, ...], ...]
    wrapped: bool = False
    """Whether the array has one axis, which is cut into rows: then `rows` are the coordinates at which the rows
    begin."""


class TileSpot(NamedTuple):
    """A block of an array: a piece into which the layout's first tile cuts it."""

    block: int
    """Its number, as `ArrayAxes.block` counts."""
    position: int
    """The position of its first cell."""
    last: int | None
    """The position of its last cell, if the tile is contiguous in memory."""
    used_rows: tuple[int, int]
    """The number of its rows that hold elements, and the number of all its rows."""
    used_columns: tuple[int, int]
    starts: tuple[int, ...]
    """The coordinates of its first cell."""
    used: bool
    """Whether it holds any element."""


class TileGrid(NamedTuple):
    """The blocks of part of a plane of blocks. `rows` and `columns` count blocks; `fixed` has the coordinates of cells,
    as in `SpotGrid`."""

    fixed: tuple[int, ...]
    rows: Shown
    columns: Shown
    tiles: tuple[tuple[TileSpot | None, ...], ...]


def slices_shown(
    view: ArrayAxes, budget: int, focus: Iterable[Sequence[int]] = (), windows: Mapping[int, GridWindow] | None = None
) -> tuple[tuple[int, ...] | None, ...]:
    """The slices that are shown: the coordinates of the outer axes of each, and `GAP` for slices that are left out.
    `budget` is the most entries, as for `coordinates_shown`.

    `focus` has cells, as coordinates of all axes, whose slices are shown. `windows` narrows an axis, given by its
    number.

    >>> from xlashape.drawing.geometry.axes import axes_of
    >>> from xlashape.shape import Shape
    >>> slices_shown(axes_of(Shape.parse("f32[2,100,8,128]")), 5)
    ((0, 0), (0, 1), (0, 2), None, (1, 99))
    """
    windows = windows or {}
    spans = [windows.get(i, GridWindow(0, view.axes[i].padded)) for i in view.outer_axes]
    sizes = [span.stop - span.start for span in spans]
    total = 1
    for size in sizes:
        total *= size
    numbers: list[int] = []
    for coordinates in focus:
        number = 0
        for i, span, size in zip(view.outer_axes, spans, sizes, strict=True):
            number = number * size + coordinates[i] - span.start
        numbers.append(number)
    found: list[tuple[int, ...] | None] = []
    for number in coordinates_shown(total, budget, sorted(set(numbers))):
        if number is None:
            found.append(GAP)
            continue
        digits: list[int] = []
        for size in reversed(sizes):
            number, digit = divmod(number, size)
            digits.append(digit)
        found.append(tuple([digit + span.start for digit, span in zip(reversed(digits), spans, strict=True)]))
    return tuple(found)


def element_grid(
    view: ArrayAxes,
    outer: Sequence[int],
    rows: GridWindow | None,
    columns: GridWindow | None,
    budget: tuple[int, int],
    focus: Iterable[Sequence[int]] = (),
    reach: int | None = None,
) -> SpotGrid:
    """The cells of a slice: `outer` has the coordinates of the outer axes.

    `rows` and `columns` are windows of the two axes; None is the whole axis. `budget` has the most rows and the most
    columns, gaps included; `focus` has coordinates of cells that should be shown, and `reach` is the largest distance
    from them that is shown, None any.

    >>> from xlashape.drawing.geometry.axes import axes_of
    >>> from xlashape.shape import Shape
    >>> grid = element_grid(axes_of(Shape.parse("f32[3,5]{1,0:T(2,2)}")), (), None, None, (16, 16))
    >>> [[spot.position for spot in row] for row in grid.spots][:2]
    [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10, 11]]
    """
    focus = list(focus)
    fixed = _fixed(view, outer)
    column_axis = view.axes[view.column_axis]
    span = columns or GridWindow(0, column_axis.padded)
    if view.row_axis is None:
        return _wrapped(view, fixed, span, budget, [cell[view.column_axis] for cell in focus], reach)
    row_span = rows or GridWindow(0, view.axes[view.row_axis].padded)
    row_focus = sorted({cell[view.row_axis] for cell in focus})
    column_focus = sorted({cell[view.column_axis] for cell in focus})
    shown_rows = coordinates_shown(row_span.stop - row_span.start, budget[0], row_focus, row_span.start, reach)
    shown_columns = coordinates_shown(span.stop - span.start, budget[1], column_focus, span.start, reach)
    spots: list[tuple[Spot | None, ...]] = []
    for row in shown_rows:
        line: list[Spot | None] = []
        for column in shown_columns:
            if row is None or column is None:
                line.append(GAP)
                continue
            cell = list(fixed)
            cell[view.row_axis], cell[view.column_axis] = row, column
            line.append(_spot(view, cell))
        spots.append(tuple(line))
    return SpotGrid(fixed, shown_rows, shown_columns, tuple(spots))


def _wrapped(
    view: ArrayAxes,
    fixed: tuple[int, ...],
    span: GridWindow,
    budget: tuple[int, int],
    focus: Iterable[int],
    reach: int | None,
) -> SpotGrid:
    """The cells of an array of one axis, in rows of equal length."""
    size = span.stop - span.start
    # Rows of a power of two, so that they begin at round numbers.
    width = size if size <= budget[1] else 1 << (budget[1].bit_length() - 1)
    count = -(-size // width) if width else 0
    in_lines = sorted({(at - span.start) // width for at in focus}) if width else ()
    lines = coordinates_shown(count, budget[0], in_lines, reach=reach)
    rows = tuple([None if line is None else span.start + line * width for line in lines])
    spots: list[tuple[Spot | None, ...]] = []
    for start in rows:
        line: list[Spot | None] = []
        for offset in range(width):
            if start is None or start + offset >= span.stop:
                line.append(GAP)
                continue
            cell = list(fixed)
            cell[view.column_axis] = start + offset
            line.append(_spot(view, cell))
        spots.append(tuple(line))
    return SpotGrid(fixed, rows, tuple(range(width)), tuple(spots), wrapped=True)


def tile_grid(
    view: ArrayAxes, outer_blocks: Sequence[int], budget: tuple[int, int], focus: Sequence[int] | None = None
) -> TileGrid:
    """The blocks of a plane of blocks. `outer_blocks` has the number of the plane's blocks along each outer axis;
    `budget` the most rows and columns of blocks; `focus` is a cell whose block is shown.

    >>> from xlashape.drawing.geometry.axes import axes_of
    >>> from xlashape.shape import Shape
    >>> grid = tile_grid(axes_of(Shape.parse("bf16[20,300]{1,0:T(8,128)(2,1)}")), (), (8, 8))
    >>> [[tile.position for tile in row] for row in grid.tiles]
    [[0, 1024, 2048], [3072, 4096, 5120], [6144, 7168, 8192]]
    >>> grid.tiles[2][2].used_rows, grid.tiles[2][2].used_columns
    ((4, 8), (44, 128))
    """
    fixed = _fixed(view, [block * view.axes[i].tile for i, block in zip(view.outer_axes, outer_blocks, strict=True)])
    column_axis, row_axis = view.column_axis, view.row_axis
    column_focus = [] if focus is None else [focus[column_axis] // view.axes[column_axis].tile]
    columns = coordinates_shown(view.blocks[column_axis], budget[1], column_focus)
    if row_axis is None:
        rows: Shown = (0,) if columns else ()
    else:
        row_focus = [] if focus is None else [focus[row_axis] // view.axes[row_axis].tile]
        rows = coordinates_shown(view.blocks[row_axis], budget[0], row_focus)
    tiles: list[tuple[TileSpot | None, ...]] = []
    for row in rows:
        line: list[TileSpot | None] = []
        for column in columns:
            if row is None or column is None:
                line.append(GAP)
                continue
            cell = list(fixed)
            cell[column_axis] = column * view.axes[column_axis].tile
            if row_axis is not None:
                cell[row_axis] = row * view.axes[row_axis].tile
            line.append(_tile_spot(view, cell))
        tiles.append(tuple(line))
    return TileGrid(fixed, rows, columns, tuple(tiles))


def _fixed(view: ArrayAxes, outer: Sequence[int]) -> tuple[int, ...]:
    fixed = [0] * len(view.axes)
    for i, coordinate in zip(view.outer_axes, outer, strict=True):
        fixed[i] = coordinate
    return tuple(fixed)


def _spot(view: ArrayAxes, cell: Sequence[int]) -> Spot:
    return Spot(tuple(cell), view.position(cell), view.element(cell), view.block(cell))


def _tile_spot(view: ArrayAxes, cell: Sequence[int]) -> TileSpot:
    used: list[tuple[int, int]] = []
    for axis, start in zip(view.axes, cell, strict=True):
        used.append((max(0, min(axis.tile, axis.size - start)), axis.tile))
    position = view.position(cell)
    last = None if view.block_elements is None else position + view.block_elements - 1
    rows = (1, 1) if view.row_axis is None else used[view.row_axis]
    return TileSpot(
        view.block(cell), position, last, rows, used[view.column_axis], tuple(cell), all(part for part, _ in used)
    )
