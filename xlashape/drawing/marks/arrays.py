"""The scenes of shapes: the marks that a picture of a shape shows.

- An array (`array_scene`): its tiles, one tile down to its elements, and its memory down to bits. A small array is
  shown whole.
- A tuple (`tuple_scene`): its arrays as a list, each with its size and a small picture.
- An array in two layouts (`relayout_scene`): an element has the same colour before and after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xlashape.base.math import byte_text, ceil_div, product, round_up
from xlashape.drawing.geometry.axes import ArrayAxes, axes_of
from xlashape.drawing.geometry.grids import GridWindow, SpotGrid, TileGrid, element_grid, slices_shown, tile_grid
from xlashape.drawing.marks import colours
from xlashape.drawing.marks.cells import (
    Brush,
    Grid,
    Legend,
    Listing,
    ListingRow,
    Options,
    Panel,
    PictureSpace,
    Scene,
    shortened,
)
from xlashape.drawing.marks.panels import grid_panel, slice_text, strip_panel, tile_panel
from xlashape.errors import InvalidArgumentError, InvalidShapeError, XlashapeError
from xlashape.shape import Shape, tiling

# The most cells of an array that is shown whole.
_SMALL_CELLS = 480
# If a tile has fewer cells than these rows × columns, neighbouring tiles are shown with it.
_LEAST = (8, 12)
# How many times as many columns and cells a window that the caller chose may have.
_WINDOW = 4
# Rows and columns that are shown around the cells in focus.
_REACH = 2


def array_scene(shape: Shape, options: Options, space: PictureSpace) -> Scene:
    """The scene of an array. Errors as for `axes_of`; InvalidIndexError for an `at` outside the array."""
    view = axes_of(shape)
    at = None if options.at is None else view.coordinates(options.at)
    if not view.elements:
        return Scene(title_of(shape), (*facts_of(view), "The buffer is empty."), (), (), notes_of(view))
    grids = list(open_grids(view, options, space, at))
    brush = brush_of(view, options, grids, at)
    panels: list[Panel] = []
    if view.is_tiled and not is_small(view, space):
        panels += tile_maps(view, options, space, at or _first_cell(view, options))
    panels += [grid_panel(brush, grid, grid_title(view, grid, options)) for grid in grids]
    focus = [brush.marked if brush.marked is not None else brush.steps[0]]
    panels.append(strip_panel(brush, space, focus))
    of_tiles = _tile_legends("tiles", options, panels)
    legends = [legend._replace(text=f"elements: {legend.text}") if of_tiles else legend for legend in brush.legends()]
    legends += of_tiles
    if has_padding(view):
        legends.append(Legend((colours.PADDING,), "padding"))
    return Scene(title_of(shape), facts_of(view), (tuple(panels),), tuple(legends), notes_of(view))


def _tile_legends(name: str, options: Options, panels: Sequence[Panel]) -> list[Legend]:
    """The legend of the grids of tiles, whose colour scale goes from the first tile that is shown to the last. Empty
    without such grids, or if fills show something other than the order in memory."""
    if options.color != "memory":
        return []
    tiles = [panel for panel in panels if isinstance(panel, Grid) and panel.style == "tile"]
    positions = [
        cell.order for panel in tiles for row in panel.cells for cell in row if cell and cell.order is not None
    ]
    if not positions:
        return []
    return [Legend(colours.SCALE, f"{name}: order in memory: position {min(positions):,} to {max(positions):,}")]


def brush_of(view: ArrayAxes, options: Options, grids: Sequence[SpotGrid], at: Sequence[int] | None) -> Brush:
    """The brush whose colour scale covers the positions that the grids show."""
    positions = [spot.position for grid in grids for row in grid.spots for spot in row if spot is not None]
    marked = None if at is None else view.position(at)
    return Brush(view, options, tuple(sorted(positions)) or (0,), marked)


def open_grids(
    view: ArrayAxes,
    options: Options,
    space: PictureSpace,
    at: Sequence[int] | None,
    focus: Sequence[Sequence[int]] | None = None,
) -> Iterator[SpotGrid]:
    """The grids of elements: the window that the options name, else the whole array if it is small, else one tile, else
    as many elements as fit.

    `focus` are cells that must be shown, as coordinates of all axes. If it is given, the cells and their surroundings
    are shown instead of one tile.
    """
    label_length = Brush(view, options).label_length()
    budget = (space.rows, space.columns_for(label_length))
    windows = _windows(view, options)
    explicit = bool(windows)
    whole = is_small(view, space)
    if not explicit and not whole and view.is_tiled and focus is None:
        cell = at or _first_cell(view, options)
        is_small_tile = product([axis.tile for axis in view.axes]) < _LEAST[0] * _LEAST[1]
        for i, axis in enumerate(view.axes):
            start = cell[i] // axis.tile * axis.tile
            # Several tiles if one tile is small.
            least = {view.row_axis: _LEAST[0], view.column_axis: _LEAST[1]}.get(i, 1) if is_small_tile else 1
            windows[i] = GridWindow(start, min(axis.padded, start + round_up(least, axis.tile)))
    elif at is not None:
        for i in view.outer_axes:
            if not whole:
                windows[i] = GridWindow(at[i], at[i] + 1)
    rows = None if view.row_axis is None else windows.get(view.row_axis)
    columns = windows.get(view.column_axis)
    cells: list[Sequence[int]] = [] if at is None else [at]
    cells += focus or []
    if focus:
        # The cells in focus, and some around them.
        found = dict.fromkeys([tuple([cell[i] for i in view.outer_axes]) for cell in focus])
        slices: tuple[tuple[int, ...] | None, ...] = tuple(found)[: space.slices]
    else:
        slices = slices_shown(view, space.slices if not whole else 64, cells, windows)
    # A window that the caller chose may be larger, up to a number of cells that keeps the picture small.
    window_cells = _WINDOW * budget[0] * budget[1]
    if columns is not None and options.columns is not None:
        budget = (budget[0], max(budget[1], min(columns.stop - columns.start, _WINDOW * space.columns)))
    if rows is not None and options.rows is not None:
        budget = (max(budget[0], min(rows.stop - rows.start, window_cells // budget[1])), budget[1])
    for outer in slices:
        if outer is not None:
            inside = [cell for cell in cells if all(cell[i] == c for i, c in zip(view.outer_axes, outer, strict=True))]
            yield element_grid(view, outer, rows, columns, budget, inside, _REACH if focus and not whole else None)


def tile_maps(view: ArrayAxes, options: Options, space: PictureSpace, cell: Sequence[int]) -> Iterator[Grid]:
    """The grids of tiles, one for each slice that is shown. The tile of `cell` has a frame, unless it is the only tile
    or the options name a window."""
    blocks = [GridWindow(0, view.blocks[i]) for i in range(len(view.axes))]
    is_window = options.at is None and (options.rows is not None or options.columns is not None)
    opened = view.block(cell) if product(view.blocks) > 1 and not is_window else None
    in_blocks = [c // axis.tile for c, axis in zip(cell, view.axes, strict=True)]
    by_tile = view._replace(
        axes=tuple([axis._replace(padded=count) for axis, count in zip(view.axes, view.blocks, strict=True)])
    )
    sizes = shortened(" × ".join(str(axis.tile) for axis in view.axes if axis.tile > 1), 60) or "1"
    extents = [view.axes[i].tile for i in view.outer_axes]
    grids: list[TileGrid] = []
    for outer in slices_shown(by_tile, space.slices, [in_blocks], dict(enumerate(blocks))):
        if outer is None:
            continue
        is_here = all(in_blocks[i] == block for i, block in zip(view.outer_axes, outer, strict=True))
        grids.append(tile_grid(view, outer, (space.tile_rows, space.tile_columns), cell if is_here else None))
    brush = Brush(view, options, tuple(sorted([t.position for grid in grids for row in grid.tiles for t in row if t])))
    for grid in grids:
        where = f"{slice_text(view, grid.fixed, extents)}: " if view.outer_axes else ""
        yield tile_panel(brush, grid, f"{where}tiles of {sizes}", opened=opened)


def _windows(view: ArrayAxes, options: Options) -> dict[int, GridWindow]:
    """The windows that the options name."""
    windows: dict[int, GridWindow] = {}
    if options.rows is not None:
        if view.row_axis is None:
            raise InvalidArgumentError("an array of one axis has no rows: choose columns", field="rows")
        windows[view.row_axis] = options.rows.clipped(view.axes[view.row_axis].padded, "rows")
    if options.columns is not None:
        windows[view.column_axis] = options.columns.clipped(view.axes[view.column_axis].padded, "columns")
    return windows


def _first_cell(view: ArrayAxes, options: Options) -> tuple[int, ...]:
    """The first cell of the window, or of the array."""
    cell = [0] * len(view.axes)
    for i, window in _windows(view, options).items():
        cell[i] = window.start
    return tuple(cell)


def is_small(view: ArrayAxes, space: PictureSpace) -> bool:
    """Whether the array is small enough for every cell to be shown."""
    if product([axis.padded for axis in view.axes]) > _SMALL_CELLS:
        return False
    slices = product([view.axes[i].padded for i in view.outer_axes])
    columns = view.axes[view.column_axis].padded
    if view.row_axis is None:
        return columns <= space.rows * space.columns // 2
    return slices <= 16 and columns <= space.columns and view.axes[view.row_axis].padded <= space.rows


def grid_title(view: ArrayAxes, grid: SpotGrid, options: Options) -> str:
    """The title of a grid: the slice, the kind of the labels, and the tile if only one is shown."""
    where = f"{slice_text(view, grid.fixed)}: " if view.outer_axes else ""
    spots = [spot for row in grid.spots for spot in row if spot is not None]
    blocks = {spot.block for spot in spots}
    what = {"position": "positions", "index": "indices"}.get(options.label, f"{options.label} numbers")
    if view.is_tiled and len(blocks) == 1 and product(view.blocks) > 1:
        number = Brush(view, options).tile(spots[0].position, spots[0].block)
        return f"{where}{what} in tile {number:,}"
    return f"{where}{what}"


def title_of(shape: Shape) -> str:
    """The text of a shape, cut where it is very long."""
    text = str(shape)
    return text if len(text) <= 160 else f"{text[:157]}..."


def facts_of(view: ArrayAxes) -> tuple[str, ...]:
    """The sizes of an array, of its tiles and of its buffer, a sentence each."""
    shape = view.shape
    sizes = " × ".join(f"{size:,}" for size in shape.dimensions) or "1"
    elements = ceil_div(product(shape.dimensions) * view.bits, 8)
    buffer = tiling.physical_bytes(shape)
    layout = shape.layout
    sizes = shortened(sizes, 200)
    several, each = ("", "") if product(shape.dimensions) == 1 else ("s", " each")
    lines = [f"{sizes} element{several} of {shape.element_type.text}, {view.bits} bits{each}."]
    if layout is not None and layout.rank > 1:
        order = shortened(", ".join(f"d{d}" for d in layout.major_to_minor), 200)
        lines[0] += f" From major to minor: {order}."
    if view.is_tiled:
        counts = shortened(" × ".join(f"{count:,}" for count in view.blocks), 200)
        assert layout is not None
        inner = "".join(f", each cut into {tile}" for tile in layout.tiles[1:])
        whole = shortened(f"{layout.tiles[0]}{inner}", 300)
        lines.append(f"{counts} tile{'s' if product(view.blocks) != 1 else ''} of {whole}.")
    waste = f": {100 * (buffer - elements) / buffer:.1f} % is padding." if buffer > elements else ", without padding."
    lines.append(f"Elements {byte_text(elements)}, buffer {byte_text(buffer)}{waste}")
    return tuple(lines)


def notes_of(view: ArrayAxes) -> tuple[str, ...]:
    """Notes about what the grids leave out: padding without cells, sizes before the array, …"""
    notes: list[str] = []
    shape, layout = view.shape, view.shape.layout
    cells = product([axis.padded for axis in view.axes])
    tiled = product(tiling.physical_dimensions(shape))
    if tiled > cells:
        notes.append(f"Later tiles add {tiled - cells:,} positions of padding; they are shown in memory alone.")
    if view.elements > tiled:
        notes.append(f"The tail has {view.elements - tiled:,} positions of padding; they are shown in memory alone.")
    dynamic = [
        f"d{number} ({shape.dimensions[number]:,})" for number, is_ in enumerate(shape.dynamic_dimensions) if is_
    ]
    if dynamic:
        notes.append(f"Dynamic dimensions are drawn with their bounds: {shortened(', '.join(dynamic), 200)}.")
    if layout is not None and layout.dynamic_shape_metadata_prefix_bytes:
        notes.append(f"{layout.dynamic_shape_metadata_prefix_bytes:,} bytes of sizes lie before position 0.")
    if layout is not None and layout.split_configs:
        notes.append("Split configs are not drawn.")
    return tuple(notes)


def has_padding(view: ArrayAxes) -> bool:
    """Whether some position of the buffer holds no element."""
    return view.elements > product(view.shape.dimensions)


# -- tuples ------------------------------------------------------------------------------------


def tuple_scene(shape: Shape, options: Options, space: PictureSpace) -> Scene:
    """The scene of a tuple, nested ones included, or of any other shape that is not one array."""
    rows: list[ListingRow] = []
    total = count = unknown = 0
    for path, leaf in _leaves(shape, ()):
        count += 1
        array = leaf.tuple_shapes[0] if leaf.is_buffer else leaf
        size = _bytes(array)
        if array.is_array:
            total += size or 0
            unknown += size is None
        if len(rows) < space.leaves:
            rows.append(_row(path, leaf, array, options))
    left_out = count - len(rows)
    text = str(shape)
    title = text if len(text) <= 160 else f"{text[:157]}..."
    facts = [f"{count:,} {'leaf' if count == 1 else 'leaves'}; their buffers take {byte_text(total)}."]
    if unknown:
        facts.append(f"The size of {unknown:,} of them is not known.")
    caption = f"… and {left_out:,} more." if left_out else ""
    return Scene(title, tuple(facts), ((Listing("leaves", tuple(rows), caption),),) if rows else ())


def _leaves(shape: Shape, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Shape]]:
    if not shape.is_tuple:
        yield path, shape
        return
    for number, inner in enumerate(shape.tuple_shapes):
        yield from _leaves(inner, (*path, number))


def _bytes(array: Shape) -> int | None:
    try:
        return tiling.physical_bytes(array) if array.is_array else None
    except XlashapeError:
        return None


def _row(path: tuple[int, ...], leaf: Shape, array: Shape, options: Options) -> ListingRow:
    text = str(leaf)
    text = text if len(text) <= 120 else f"{text[:117]}..."
    name = "{" + ",".join(map(str, path)) + "}"
    if not array.is_array:
        return ListingRow(name, text, (), None)
    try:
        bits, buffer = tiling.stored_bits(array), tiling.physical_bytes(array)
    except XlashapeError as error:
        return ListingRow(name, text, (error.message[:160],), None)
    elements = ceil_div(product(array.dimensions) * bits, 8)
    waste = f", {100 * (buffer - elements) / buffer:.1f} % padding" if buffer > elements else ""
    return ListingRow(name, text, (byte_text(buffer) + waste,), thumbnail(array, options))


def thumbnail(shape: Shape, options: Options) -> Grid | None:
    """A small picture of an array: its tiles; or its elements, if it has no tiles, few elements, or tiles that would
    say little. None if its buffer is empty or it cannot be drawn."""
    try:
        view = axes_of(shape)
    except XlashapeError:
        return None
    if not view.elements:
        return None
    plain = options._replace(color="memory", label="position", path=False, at=None)
    space = (5, 9)
    tiles = tile_grid(view, [0] * len(view.outer_axes), space)
    if view.is_tiled and not is_small(view, _TINY) and not _is_mostly_padding(tiles):
        brush = Brush(view, plain, tuple(sorted([tile.position for row in tiles.tiles for tile in row if tile])))
        return tile_panel(brush, tiles, "", style="thumbnail")
    outer = slices_shown(view, 1)[0] or ()
    # The corner at which elements end and padding begins is in focus.
    last, behind = [[min(axis.size - less, axis.padded - 1) for axis in view.axes] for less in (1, 0)]
    ends = [[0] * len(view.axes), last, behind] if view.is_tiled else []
    grid = element_grid(view, outer, None, None, space, ends)
    return grid_panel(brush_of(view, plain, [grid], None), grid, "", style="thumbnail")


def _is_mostly_padding(tiles: TileGrid) -> bool:
    """Whether the tiles would say little, because there is only one or less than a quarter of the first is used: the
    thumbnail then shows elements."""
    shown = [tile for row in tiles.tiles for tile in row if tile is not None]
    (rows, all_rows), (columns, all_columns) = shown[0].used_rows, shown[0].used_columns
    return len(shown) == 1 or 4 * rows * columns < all_rows * all_columns


# The space of a thumbnail.
_TINY = PictureSpace(5, 9, 1000, 5, 9, 1, 0, 0)


# -- relayouts ---------------------------------------------------------------------------------


def relayout_scene(before: Shape, after: Shape, options: Options, space: PictureSpace) -> Scene:
    """The scene of two layouts of one array. InvalidShapeError for shapes of different dimensions; other errors as for
    one array."""
    first, second = axes_of(before), axes_of(after)
    before, after = first.shape, second.shape
    if before.dimensions != after.dimensions:
        raise InvalidShapeError(
            f"an array keeps its dimensions when its layout changes: {before} and {after} differ", field="after"
        )
    title = f"{title_of(before)} → {title_of(after)}"
    facts = (
        *[f"Before: {fact[0].lower()}{fact[1:]}" for fact in facts_of(first)[1:]],
        *[f"After: {fact[0].lower()}{fact[1:]}" for fact in facts_of(second)[1:]],
    )
    notes = (*notes_of(first), *[note for note in notes_of(second) if note not in notes_of(first)])
    if not first.elements:
        return Scene(title, (*facts, "The buffers are empty."), (), (), notes)
    at = None if options.at is None else first.coordinates(options.at)
    grids = list(open_grids(first, options, space, at))
    brush = brush_of(first, options, grids, at)._replace(has_two_layouts=True)
    shown = [spot.element for grid in grids for row in grid.spots for spot in row if spot and spot.element is not None]
    cells = [second.coordinates(index) for index in shown]
    plain = options._replace(rows=None, columns=None)
    other_grids = list(open_grids(second, plain, space, cells[0] if cells else None, cells))
    marked = None if options.at is None else second.position(second.coordinates(options.at))
    steps = tuple(sorted([second.position(cell) for cell in cells])) or (0,)
    other = Brush(second, options, steps, marked, origin=brush, has_two_layouts=True)
    bands: list[tuple[Panel, ...]] = []
    sides = (("before", first, brush, grids), ("after", second, other, other_grids))
    for number, (name, view, its_brush, its_grids) in enumerate(sides):
        panels: list[Panel] = []
        if view.is_tiled and not is_small(view, space):
            focus = at if view is first else cells[0] if cells else None
            for panel in tile_maps(view, options, space, focus or (0,) * len(view.axes)):
                panels.append(panel._replace(title=f"{name}: {panel.title}"))
        for grid in its_grids:
            panels.append(grid_panel(its_brush, grid, f"{name}: {grid_title(view, grid, options)}"))
        start = its_brush.marked if its_brush.marked is not None else its_brush.steps[0]
        panels.append(strip_panel(its_brush, space, [start], f"{name}: memory"))
        bands.append(
            tuple([panel._replace(array=number) if not isinstance(panel, Listing) else panel for panel in panels])
        )
    legends = [*brush.legends()]
    legends[0] = Legend(legends[0].fills, f"{legends[0].text}, before; an element keeps its colour")
    for (name, *_), band in zip(sides, bands, strict=True):
        legends += _tile_legends(f"tiles {name}", options, band)
    if has_padding(first) or has_padding(second):
        legends.append(Legend((colours.PADDING,), "padding"))
    return Scene(title, facts, tuple(bands), tuple(legends), notes)
