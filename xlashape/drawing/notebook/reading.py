"""Small pictures of reads: elements of an output, and beside them the elements of the operands that they read. An
element of an operand has the colour of the first output that reads it."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Final

from xlashape.drawing.marks.cells import Grid, PictureSpace, Scene, options_of, shortened
from xlashape.drawing.marks.reads import Readers, instruction_scene, map_scene
from xlashape.drawing.writers.svg import svg_text
from xlashape.errors import XlashapeError
from xlashape.hlo import HloInstruction
from xlashape.symbolic import IndexingMap

_ROWS, _COLUMNS = 6, 10
_SPACE: Final = PictureSpace(_ROWS, _COLUMNS, 1000, _ROWS, _COLUMNS, 1, 0, 0)
# The output and the operands that are drawn.
_MOST_ARRAYS: Final = 4
_WARP: Final = 32


def picture_of_map(indexing_map: IndexingMap) -> str:
    """HTML that shows what a tile of a map's output, at most 6 × 10 elements, reads; empty if that cannot be drawn."""
    if indexing_map.is_undefined or not indexing_map.dims or not indexing_map.results:
        return ""
    sizes = [1] * len(indexing_map.dims)
    for number, most in zip((-1, -2), (_COLUMNS, _ROWS), strict=False):
        if len(sizes) >= -number:
            bounds = indexing_map.dims[number].bounds
            sizes[number] = min(most, max(1, bounds.upper - bounds.lower + 1))
    return _drawn(lambda: map_scene(indexing_map, None, None, Readers(tuple(sizes)), options_of()))


def picture_of_reads(instruction: HloInstruction, output: int, operand: int | None = None) -> str:
    """HTML that shows what the first 32 elements of an instruction's output read; empty if that cannot be drawn.

    `output` is the number of an array of the result; `operand` that of an operand, None for all.
    """
    return _drawn(lambda: instruction_scene(instruction, output, operand, Readers(None, _WARP), options_of()))


def _drawn(make: Callable[[], Callable[[PictureSpace], Scene]]) -> str:
    try:
        scene = make()(_SPACE)
    except XlashapeError:  # too many reads, an array without a bound: the text says what there is to say
        return ""
    grids: list[Grid] = []
    for band in scene.bands[:_MOST_ARRAYS]:
        of_array = [panel for panel in band if isinstance(panel, Grid)]
        if of_array:
            grids.append(of_array[-1])
    if len(grids) < 2:  # nothing is read
        return ""
    parts: list[str] = []
    for grid in grids:
        name = shortened(grid.title.partition(" ")[0].rstrip(":"), 24)
        picture = svg_text(
            Scene("", (), ((grid._replace(style="thumbnail", has_path=False, title="", caption=""),),)),
            standalone=False,
            tips="title",
            bare=True,
        )
        parts.append(f'<div>{picture}<div style="opacity:.75;font-size:11px">{escape(name)}</div></div>')
    arrow = '<div style="align-self:center;opacity:.75">←</div>'
    return f'<div style="display:flex;gap:.4em;align-items:flex-end">{parts[0]}{arrow}{"".join(parts[1:])}</div>'
