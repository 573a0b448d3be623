"""The scene of a tuple: its arrays as a list, each with its size and a small picture."""

from __future__ import annotations

from collections.abc import Iterator

from xlashape.drawing.geometry.axes import axes_of
from xlashape.drawing.geometry.grids import element_grid, slices_shown, tile_grid
from xlashape.drawing.marks.arrays import brush_of, is_small
from xlashape.drawing.marks.cells import Brush
from xlashape.drawing.marks.options import Options, Space
from xlashape.drawing.marks.panels import grid_panel, tile_panel
from xlashape.drawing.marks.scene import Grid, Listing, ListingRow, Scene
from xlashape.errors import XlashapeError
from xlashape.math import byte_text, ceil_div, product
from xlashape.shape import Shape, tiling


def tuple_scene(shape: Shape, options: Options, space: Space) -> Scene:
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
    """A small picture of an array: its tiles, or its elements if it has no tiles. None if it has no elements or cannot be drawn."""
    try:
        view = axes_of(shape)
    except XlashapeError:
        return None
    if not view.elements:
        return None
    plain = options._replace(color="memory", label="position", path=False, at=None)
    space = (5, 9)
    if view.is_tiled and not is_small(view, _TINY):
        tiles = tile_grid(view, [0] * len(view.outer_axes), space)
        brush = Brush(view, plain, tuple(sorted([tile.position for row in tiles.tiles for tile in row if tile])))
        return tile_panel(brush, tiles, "", style="thumbnail")
    outer = slices_shown(view, 1)[0] or ()
    grid = element_grid(view, outer, None, None, space)
    return grid_panel(brush_of(view, plain, [grid], None), grid, "", style="thumbnail")


_TINY = Space(5, 9, 1000, 5, 9, 1, 0, 0)
