"""The scene of an array in two layouts: the same elements have the same colours before and after."""

from __future__ import annotations

from xlashape.drawing.geometry.axes import axes_of
from xlashape.drawing.marks import colours
from xlashape.drawing.marks.arrays import (
    brush_of,
    facts_of,
    grid_title,
    has_padding,
    is_small,
    notes_of,
    open_grids,
    tile_maps,
    title_of,
)
from xlashape.drawing.marks.cells import Brush
from xlashape.drawing.marks.options import Options, Space
from xlashape.drawing.marks.panels import grid_panel, strip_panel
from xlashape.drawing.marks.scene import Legend, Panel, Scene
from xlashape.errors import InvalidShapeError
from xlashape.shape import Shape


def relayout_scene(before: Shape, after: Shape, options: Options, space: Space) -> Scene:
    """The scene of two layouts of one array. InvalidShapeError for shapes of different dimensions; other errors as for one array."""
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
    for name, view, its_brush, its_grids in (("before", first, brush, grids), ("after", second, other, other_grids)):
        panels: list[Panel] = []
        if view.is_tiled and not is_small(view, space):
            focus = at if view is first else cells[0] if cells else None
            for panel in tile_maps(view, options, space, focus or (0,) * len(view.axes)):
                panels.append(panel._replace(title=f"{name}: {panel.title}"))
        for grid in its_grids:
            panels.append(grid_panel(its_brush, grid, f"{name}: {grid_title(view, grid, options)}"))
        start = its_brush.marked if its_brush.marked is not None else its_brush.steps[0]
        panels.append(strip_panel(its_brush, space, [start], f"{name}: memory"))
        bands.append(tuple(panels))
    legends = list(brush.legends())
    legends[0] = Legend(legends[0].fills, f"{legends[0].text}, before; an element keeps its colour")
    if has_padding(first) or has_padding(second):
        legends.append(Legend((colours.PADDING,), "padding"))
    return Scene(title, facts, tuple(bands), tuple(legends), notes)
