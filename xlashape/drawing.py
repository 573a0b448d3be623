"""A picture of a layout, as SVG: the position of each element in the buffer, and the index that each position holds.

On the left is the array: a panel for each index of the leading dimensions, with the last two dimensions as rows and columns. Each cell
shows the position of its element in the buffer. On the right is the buffer: positions in order, in rows as long as the most minor physical
dimension. Each cell shows the index that it holds; padding is hatched. The colour depends on the position, so that elements that are close
in memory have similar colours on both sides.
"""

from __future__ import annotations

import colorsys
import itertools
from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from xlashape import limits
from xlashape.errors import InvalidShapeError
from xlashape.shape import Shape, tiling

__all__ = ["MAX_CELLS", "svg"]

MAX_CELLS = 16384
"""The largest buffer that is drawn, in elements with padding. A picture of a larger one could not be read."""

_CELL_HEIGHT = 22
_GAP = 26
_MARGIN = 24
_STYLE = (
    "text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:#111}"
    ".title{font-weight:bold;font-size:13px}.head{fill:#666}.cell text{text-anchor:middle}.light text{fill:#fff}"
)


def svg(shape: Shape) -> str:
    """The picture of an array shape, as the text of an SVG file.

    Raises InvalidShapeError for a shape that is not an array or has an unbounded dimension, and LimitExceededError for a buffer of more than
    `MAX_CELLS` elements.

    >>> svg(Shape.parse("f32[3,5]{1,0:T(2,2)}")).startswith("<svg ")
    True
    """
    if not shape.is_array:
        raise InvalidShapeError(f"only arrays can be drawn, found {shape}")
    size = tiling.physical_elements(shape)
    limits.check("cells drawn", size, MAX_CELLS)
    canvas = _Canvas(size, _cell_width(shape, size))
    canvas.text(0, 0, str(shape), "title")
    logical_width = canvas.put(_logical(shape), 0, _GAP)
    canvas.put([_memory(shape, size)], logical_width + 2 * _GAP, _GAP)
    return canvas.finish()


class _Cell(NamedTuple):
    """A cell of a panel."""

    position: int  # in the buffer
    label: str
    is_element: bool  # or padding


class _Panel(NamedTuple):
    """A table of cells under a title."""

    title: str
    rows: list[list[_Cell]]
    row_heads: list[str]
    column_heads: list[str]


def _logical(shape: Shape) -> list[_Panel]:
    dimensions = shape.dimensions
    rows = dimensions[-2] if len(dimensions) > 1 else 1
    columns = dimensions[-1] if dimensions else 1
    if not rows or not columns:
        return []
    panels: list[_Panel] = []
    for prefix in itertools.product(*(range(size) for size in dimensions[:-2])):
        cells: list[list[_Cell]] = []
        for row in range(rows):
            indices = (
                (*prefix, row, column)[max(0, 2 - len(dimensions)) :] if dimensions else () for column in range(columns)
            )
            positions = (tiling.linear_index(shape, index) for index in indices)
            cells.append([_Cell(position, str(position), True) for position in positions])
        title = f"[{', '.join(map(str, prefix))}, :, :]" if prefix else "elements"
        row_heads = [str(row) for row in range(rows)] if len(dimensions) > 1 else []
        panels.append(_Panel(title, cells, row_heads, [str(column) for column in range(columns)] if dimensions else []))
    return panels


def _memory(shape: Shape, size: int) -> _Panel:
    columns = _row_length(tiling.physical_dimensions(shape), size)
    cells: list[_Cell] = []
    for position in range(size):
        index = tiling.multi_index(shape, position)
        label = "" if index is None else ",".join(map(str, index)) or "()"
        cells.append(_Cell(position, label, index is not None))
    rows = [cells[start : start + columns] for start in range(0, size, columns)]
    return _Panel("memory", rows, [str(row[0].position) for row in rows], [])


def _row_length(physical: tuple[int, ...], size: int) -> int:
    # The most minor dimension that has more than one element, times the next ones as long as the row has at most 16 cells.
    length = 1
    for dimension in reversed(physical):
        if length > 1 and length * dimension > 16:
            break
        length *= dimension
    return max(1, min(length, size))


def _cell_width(shape: Shape, size: int) -> int:
    longest = max(len(str(size)), sum(len(str(max(0, d - 1))) + 1 for d in shape.dimensions) - 1)
    return 10 + 7 * max(2, longest)


def _color(share: float) -> str:
    # From dark blue to light yellow; in hexadecimal, since some SVG viewers do not support hsl().
    channels = colorsys.hls_to_rgb((250 - 200 * share) / 360, 0.40 + 0.38 * share, 0.65)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)


class _Canvas:
    def __init__(self, size: int, cell_width: int) -> None:
        self._size = max(1, size - 1)
        self._cell_width = cell_width
        self._parts: list[str] = []
        self._width = self._height = 0

    def text(self, x: int, y: int, content: str, style: str) -> None:
        self._grow(x + 8 * len(content), y + 12)
        self._parts.append(f'<text x="{x}" y="{y + 12}" class="{style}">{escape(content)}</text>')

    def put(self, panels: list[_Panel], x: int, y: int) -> int:
        """Draws panels below each other and returns the x coordinate of their right edge."""
        right = x
        for panel in panels:
            head = 8 + 7 * max(map(len, panel.row_heads), default=0) if panel.row_heads else 0
            self.text(x, y, panel.title, "head")
            y += 18
            if panel.column_heads:
                for column, label in enumerate(panel.column_heads):
                    middle = x + head + column * self._cell_width + self._cell_width // 2 - 3 * len(label)
                    self.text(middle, y, label, "head")
                y += 18
            for number, row in enumerate(panel.rows):
                if panel.row_heads:
                    self.text(x, y + 4, panel.row_heads[number], "head")
                for column, cell in enumerate(row):
                    self._cell(x + head + column * self._cell_width, y, cell)
                right = max(right, x + head + len(row) * self._cell_width)
                y += _CELL_HEIGHT
            y += _GAP
        self._grow(right, y - _GAP)
        return right

    def _cell(self, x: int, y: int, cell: _Cell) -> None:
        share = cell.position / self._size
        fill = _color(share) if cell.is_element else "url(#padding)"
        light = " light" if cell.is_element and share < 0.28 else ""
        self._parts.append(
            f'<g class="cell{light}"><rect x="{x}" y="{y}" width="{self._cell_width}" height="{_CELL_HEIGHT}" fill="{fill}" stroke="#fff"/>'
            f'<text x="{x + self._cell_width // 2}" y="{y + 15}">{cell.label}</text></g>'
        )

    def _grow(self, x: int, y: int) -> None:
        self._width, self._height = max(self._width, x), max(self._height, y)

    def finish(self) -> str:
        width, height = self._width + 2 * _MARGIN, self._height + 2 * _MARGIN
        return "\n".join(self._lines(width, height)) + "\n"

    def _lines(self, width: int, height: int) -> Iterator[str]:
        yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        yield f"<style>{_STYLE}</style>"
        yield '<defs><pattern id="padding" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        yield '<rect width="6" height="6" fill="#f4f4f4"/><line x1="0" y1="0" x2="0" y2="6" stroke="#bbb" stroke-width="2"/></pattern></defs>'
        yield f'<rect width="{width}" height="{height}" fill="#fff"/>'
        yield f'<g transform="translate({_MARGIN},{_MARGIN})">'
        yield from self._parts
        yield "</g></svg>"
