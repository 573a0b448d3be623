"""The scene of a sharding: which device holds which block of an array, and the layout of one part."""

from __future__ import annotations

from typing import Final

from xlashape.base.math import byte_text, ceil_div
from xlashape.drawing.marks import colours
from xlashape.drawing.marks.arrays import array_scene
from xlashape.drawing.marks.cells import Cell, Grid, Options, PictureSpace, Scene, shortened
from xlashape.errors import InvalidArgumentError
from xlashape.hlo.values.sharding import Sharding
from xlashape.shape import Shape, tiling

_MOST: Final = 16
"""The most blocks along an axis that are shown."""


def sharding_scene(sharding: Sharding, shape: Shape, options: Options, space: PictureSpace) -> Scene:
    """Blocks along the two axes that have the most tiles, each with the devices that hold it; then the layout of the
    part of one device. InvalidArgumentError for a shape that is no array of static sizes and of the sharding's rank.
    """
    if not shape.is_array or not shape.is_static:
        raise InvalidArgumentError(f"{shape} has no parts of fixed sizes", field="shape")
    counts = sharding.counts_for(shape)
    holders = sharding.holders or [[]]
    part = sharding.shard_shape(shape)
    axes = sorted(sorted(range(shape.rank), key=lambda axis: -counts[axis])[:2])
    rows, columns = ([(None, 1), (None, 1)] + [(axis, counts[axis]) for axis in axes])[-2:]
    cells: list[tuple[Cell, ...]] = []
    for row in range(min(_MOST, rows[1])):
        line: list[Cell] = []
        for column in range(min(_MOST, columns[1])):
            place = {rows[0]: row, columns[0]: column}
            tile = 0
            index: list[str] = []
            for axis, count in enumerate(counts):
                at = place.get(axis, 0)
                tile = tile * count + at
                length = ceil_div(shape.dimensions[axis], count)
                index.append(
                    f"{min(at * length, shape.dimensions[axis])}:{min((at + 1) * length, shape.dimensions[axis])}"
                )
            devices = ", ".join([str(device) for device in sorted(holders[tile])]) or "all"
            tip = f"[{', '.join(index)}] on device {devices}"
            line.append(Cell(shortened(devices, 12), colours.of_number(tile), tip, block=tile))
        cells.append(tuple(line))
    row_heads, column_heads = [tuple(map(str, range(min(_MOST, count)))) for _, count in (rows, columns)]
    row_name, column_name = ["" if axis is None else f"d{axis}" for axis, _ in (rows, columns)]
    hidden = [f"d{axis}" for axis in range(shape.rank) if axis not in axes and counts[axis] > 1]
    caption = f"The first blocks along {', '.join(hidden)}." if hidden else ""
    if max(rows[1], columns[1]) > _MOST:
        caption = f"{caption} The first {_MOST} blocks along an axis.".strip()
    title = "blocks, and the devices that hold them"
    grid = Grid(title, tuple(cells), row_heads, column_heads, row_name, column_name, "tile", caption=caption)
    facts = (
        f"{sharding} gives each device {part}, {byte_text(tiling.physical_bytes(part))} of memory.",
        "The layout of one part follows.",
    )
    return Scene(f"{shape} on devices", facts, ((grid,), *array_scene(part, options, space).bands))
