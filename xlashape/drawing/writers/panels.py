"""Grids, strips and lists as SVG: each panel is measured first, then written at its coordinates. Also the style sheet
of pictures, for light and dark pages.

All names of CSS classes begin with `xs`, since a picture shares them with the rest of the notebook or page. A number
behind it is that of a fill (`marks/colours.py`). Sizes and coordinates are pixels of the SVG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from html import escape
from itertools import pairwise
from typing import Final, NamedTuple

from xlashape.drawing.marks import colours
from xlashape.drawing.marks.cells import Cell, Grid, Listing, Panel, Strip

THEMES: Final = ("auto", "light", "dark")
"""`auto` follows the reader's setting."""

FONT: Final = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"

CHARACTER: Final = 6.65
"""The width of a character at a font size of 11 pixels."""

LIGHT: Final = {"ground": "#ffffff", "text": "#1b1b1b", "muted": "#595959", "rule": "#8a8a8a", "mark": "#b3003c"}
DARK: Final = {"ground": "#15171c", "text": "#ededed", "muted": "#b4b4b4", "rule": "#9a9a9a", "mark": "#ff8fab"}

_CELL_TEXT: Final = "#000"
_PADDING_TEXT: Final = "#333"
_CELL_LINE: Final = "#fff"
_BLOCK_LINE: Final = "#1b1b1b"
_PATH: Final = "#7a1fa2"


def style_sheet(fills: Iterable[int], theme: str, scope: str) -> str:
    """The rules for all classes and for `fills`. `scope` is the class of the picture's root."""
    # The letters behind `xs`. Texts: w title of the picture, f bold, n small, k label, q label of padding, h centred,
    # e right-aligned. Lines: c around a cell, b between blocks, g between groups, p path, j jump of the path, m around
    # a marked cell. Dot: o, at which the path begins. In the colours of the page: l background, t text, u muted text.
    rules = [
        f".{scope} text{{font:11px {FONT}}}",
        f".{scope} .xsw{{font-size:15px;font-weight:bold}}",
        f".{scope} .xsf{{font-weight:bold}}",
        f".{scope} .xsn{{font-size:9px}}",
        # Labels have a rim, so that neither paths nor the border of padding run into them.
        f".{scope} .xsk{{fill:{_CELL_TEXT};stroke:{_CELL_LINE}}}",
        f".{scope} .xsq{{fill:{_PADDING_TEXT};stroke:{colours.hex_of(colours.PADDING)}}}",
        f".{scope} .xsk,.{scope} "
        f".xsq{{text-anchor:middle;paint-order:stroke;stroke-width:3;stroke-linejoin:round;stroke-opacity:.5}}",
        f".{scope} .xsh{{text-anchor:middle}}",
        f".{scope} .xse{{text-anchor:end}}",
        f".{scope} .xsc{{stroke:{_CELL_LINE};stroke-width:1}}",
        f".{scope} .xsb{{stroke:{_BLOCK_LINE};stroke-width:2;fill:none;stroke-linecap:square}}",
        f".{scope} .xsg{{stroke:{_BLOCK_LINE};stroke-width:.8}}",
        f".{scope} .xsp{{stroke:{_PATH};stroke-width:1.4;fill:none}}",
        f".{scope} .xsj{{stroke:{_PATH};stroke-width:.9;stroke-dasharray:2 2.5;fill:none;opacity:.75}}",
        f".{scope} .xso{{fill:{_PATH}}}",
        f".{scope} .xsm{{fill:none;stroke-width:3}}",
    ]
    rules += [f".{scope} .xs{fill}{{fill:{colours.hex_of(fill)}}}" for fill in sorted(set(fills))]
    page = DARK if theme == "dark" else LIGHT
    rules += _page_rules(page, scope)
    if theme == "auto":
        rules.append("@media (prefers-color-scheme:dark){" + "".join(_page_rules(DARK, scope)) + "}")
    return "".join(rules)


def _page_rules(page: dict[str, str], scope: str) -> list[str]:
    return [
        f".{scope} .xsl{{fill:{page['ground']}}}",
        f".{scope} .xst{{fill:{page['text']}}}",
        f".{scope} .xsu{{fill:{page['muted']}}}",
        f".{scope} .xsm{{stroke:{page['mark']}}}",
    ]


# -- panels ------------------------------------------------------------------------------------


# The heights of a title and of the labels of columns, the size of a gap, the least size of a cell's part with elements.
_TITLE: Final = 20
_HEAD: Final = 16
_GAP: Final = 18
_LEAST_PART: Final = 3
# The width that the path takes beside a label.
_LANE: Final = 8
# The most rows and columns that a dashed line between elements spans: a longer one would cross too many labels.
_LONGEST_JUMP: Final = (8, 1)


class Pen(NamedTuple):
    """How cells are written."""

    padding: str
    """The id of the SVG pattern that fills padding."""
    tips: str
    """How hover texts are written. `title`: as SVG's own. `data`: as attributes for a script. `none`: not at all."""


class PlacedPanel(NamedTuple):
    """A panel with its size; `write` returns its SVG with the upper left corner at (x, y)."""

    width: float
    height: float
    write: Callable[[float, float], Iterator[str]]


def number(value: float) -> str:
    """A coordinate as text, with one digit after the point at most."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def text_width(text: str, size: float = 11) -> float:
    """The width of a text in pixels."""
    return len(text) * CHARACTER * size / 11


def placed(panel: Panel, pen: Pen) -> PlacedPanel:
    """A panel with its size, ready to be written at any coordinates."""
    if isinstance(panel, Grid):
        return _GridWriter(panel, pen).placed()
    if isinstance(panel, Strip):
        return _StripWriter(panel, pen).placed()
    return _ListingWriter(panel, pen).placed()


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{number(x)}" y="{number(y)}" class="{style}">{escape(text)}</text>' if text else ""


def _caption(text: str, width: float) -> list[str]:
    """A caption in lines of at most this width."""
    lines: list[str] = []
    limit = max(28, int(width / CHARACTER))
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= limit:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _rectangle(x: float, y: float, width: float, height: float, cell: Cell, pen: Pen) -> Iterator[str]:
    """The background of a cell, with its hover text."""
    size = f'width="{number(width)}" height="{number(height)}"'
    tip = f"<title>{escape(cell.tip)}</title>" if pen.tips == "title" and cell.tip else ""
    data = _data(cell) if pen.tips == "data" and cell.tip else ""
    look = f'class="xsc" fill="url(#{pen.padding})"' if cell.fill == colours.PADDING else f'class="xsc xs{cell.fill}"'
    start = f'<rect x="{number(x)}" y="{number(y)}" {size} {look}{data}'
    yield f"{start}>{tip}</rect>" if tip else f"{start}/>"
    rows, columns = cell.used
    if cell.fill != colours.PADDING and (rows < 1 or columns < 1):
        # The part with elements is visible however small it is.
        right, low = x + max(_LEAST_PART, width * columns), y + max(_LEAST_PART, height * rows)
        outline = (
            f"M{number(right)} "
            f"{number(y)}H{number(x + width)}V{number(y + height)}H{number(x)}V{number(low)}H{number(right)}Z"
            if 0 < rows < 1
            else f"M{number(right)} {number(y)}H{number(x + width)}V{number(y + height)}H{number(right)}Z"
        )
        edge = ' class="xsg"' if width > 30 else ""
        yield f'<path{edge} d="{outline}" fill="url(#{pen.padding})" pointer-events="none"/>'


def _data(cell: Cell) -> str:
    """The attributes of a cell for scripts: its hover text, the key of its element, its index and position."""
    found = f' data-t="{escape(cell.tip)}"'
    if cell.key is not None:
        found += f' data-k="{cell.key}"'
    if cell.element is not None:
        found += f' data-i="{",".join(map(str, cell.element))}"'
    return found if cell.order is None else f'{found} data-p="{cell.order}"'


def _start(x: float, y: float, panel: Grid | Strip, pen: Pen) -> str:
    """The opening tag of a panel's group. With attributes for scripts, it says what the panel shows, and of which
    array."""
    kind = "memory" if isinstance(panel, Strip) else "tiles" if panel.style == "tile" else "elements"
    data = f' data-panel="{kind}" data-array="{panel.array}"' if pen.tips == "data" else ""
    return f'<g transform="translate({number(x)},{number(y)})"{data}>'


class _GridWriter:
    def __init__(self, grid: Grid, pen: Pen) -> None:
        self._grid = grid
        self._pen = pen
        cells = [cell for row in grid.cells for cell in row if cell is not None]
        self._cell_width, self._cell_height = self._cell_size(cells)
        heads = [head for head in grid.row_heads if head is not None]
        self._left = 0.0
        if grid.style != "thumbnail":
            corner = f"{grid.row_name} ↓" if grid.row_name else ""
            self._left = max([text_width(head) for head in heads] + [text_width(corner)]) + 8
            self._left = self._left if any(heads) or corner else 0.0
        self._top = 0.0 if grid.style == "thumbnail" else _TITLE + (_HEAD if any(grid.column_heads) else 0)
        self._xs = self._edges(grid.column_heads, self._cell_width, self._left)
        self._ys = self._edges(grid.row_heads, self._cell_height, self._top)

    def _cell_size(self, cells: list[Cell]) -> tuple[float, float]:
        grid = self._grid
        if grid.style == "thumbnail":
            return 17, 11
        label = max([text_width(cell.label) for cell in cells] + [text_width(h) for h in grid.column_heads if h] + [0])
        if grid.style == "tile":
            note = max([text_width(cell.note, 9) for cell in cells] + [0])
            # The path runs below the texts and to their right.
            return max(62, max(label, note) + 10 + (_LANE if grid.has_path else 0)), 54
        # The path runs to the right of the label and below it.
        return (max(28, label + 10 + _LANE), 25) if grid.has_path else (max(24, label + 12), 22)

    @staticmethod
    def _edges(heads: tuple[str | None, ...], size: float, start: float) -> list[float]:
        edges = [start]
        for head in heads:
            edges.append(edges[-1] + (_GAP if head is None else size))
        return edges

    def placed(self) -> PlacedPanel:
        grid = self._grid
        width = max(self._xs[-1], text_width(grid.title) * 1.02)
        lines = _caption(grid.caption, width) if grid.caption else []
        return PlacedPanel(
            width, self._ys[-1] + len(lines) * 15 + (4 if lines else 0), partial(self._write, caption=lines)
        )

    def _write(self, x: float, y: float, caption: list[str]) -> Iterator[str]:
        grid = self._grid
        yield _start(x, y, grid, self._pen)
        if grid.style != "thumbnail":
            yield _text(0, 12, grid.title, "xst xsf")
            yield from self._heads()
        yield from self._cells()
        yield from self._lines()
        if grid.has_path:
            yield from self._path()
        yield from self._labels()
        yield from self._marks()
        for i, line in enumerate(caption):
            yield _text(0, self._ys[-1] + 15 * (i + 1), line, "xsu")
        yield "</g>"

    def _heads(self) -> Iterator[str]:
        grid = self._grid
        if any(grid.column_heads):
            row = f"{grid.row_name} ↓" if grid.row_name else ""
            yield _text(0, self._top - 5, row, "xsu")
            right = f"→ {grid.column_name}" if grid.column_name else ""
            yield _text(self._xs[-1] - text_width(right), 12, right, "xsu") if self._has_space(right) else ""
        for i, head in enumerate(grid.column_heads):
            middle = (self._xs[i] + self._xs[i + 1]) / 2
            yield _text(middle, self._top - 5, "⋯" if head is None else head, "xsu xsh")
        for i, head in enumerate(grid.row_heads):
            middle = (self._ys[i] + self._ys[i + 1]) / 2
            yield _text(self._left - 6, middle + 4, "⋮" if head is None else head, "xsu xse")

    def _has_space(self, right: str) -> bool:
        return bool(right) and self._xs[-1] > text_width(self._grid.title) * 1.05 + text_width(right) + 10

    def _each(self) -> Iterator[tuple[int, int, Cell]]:
        for r, row in enumerate(self._grid.cells):
            for c, cell in enumerate(row):
                if cell is not None:
                    yield r, c, cell

    def _cells(self) -> Iterator[str]:
        for r, c, cell in self._each():
            yield from _rectangle(self._xs[c], self._ys[r], self._cell_width, self._cell_height, cell, self._pen)

    def _labels(self) -> Iterator[str]:
        if self._grid.style == "thumbnail":
            return
        for r, c, cell in self._each():
            middle = self._xs[c] + self._cell_width / 2
            style = "xsq" if cell.fill == colours.PADDING else "xsk"
            if self._grid.style == "tile":
                middle, down, style = self._place_of_texts(r, c, cell)
                yield _text(middle, down, cell.label, f"{style} xsf")
                yield _text(middle, down + 11, cell.note, f"{style} xsn")
            elif cell.label:
                left, down = (_LANE / 2, 14) if self._grid.has_path else (0, 15)
                yield _text(middle - left, self._ys[r] + down, cell.label, style)

    def _place_of_texts(self, row: int, column: int, cell: Cell) -> tuple[float, float, str]:
        """Where the two texts of a tile stand: the x of their middle, the y of the first base line, and their style.
        They stand in the part of the tile that holds elements, or in its padding if they fit only there."""
        x, y, height = self._xs[column], self._ys[row], self._cell_height
        width = self._cell_width - (_LANE if self._grid.has_path else 0)
        least = max(text_width(cell.label), text_width(cell.note, 9)) + 4
        rows, columns = cell.used
        in_elements, in_padding = "xsk", "xsq"
        if cell.fill == colours.PADDING:
            return x + width / 2, y + 17, in_padding
        border = self._cell_width * columns
        if columns < 1 and border < least:
            is_padding = width - border >= least
            return (
                (border + width) / 2 + x if is_padding else x + width / 2,
                y + 17,
                in_padding if is_padding else in_elements,
            )
        middle = x + min(width, border) / 2
        if 24 <= height * rows < 32:
            return middle, y + 12, in_elements
        is_padding = rows < 1 and height * rows < 24
        return (
            middle,
            y + (max(17, height * rows + 12) if is_padding else 17),
            in_padding if is_padding else in_elements,
        )

    def _lines(self) -> Iterator[str]:
        """Thick lines around the grid and between blocks, thin lines between groups."""
        if self._grid.style != "element":
            return
        thick: list[str] = []
        thin: list[str] = []
        for r, c, cell in self._each():
            x, y, right, low = self._xs[c], self._ys[r], self._xs[c + 1], self._ys[r + 1]
            sides = (
                (r, c - 1, f"M{number(x)} {number(y)}V{number(low)}"),
                (r - 1, c, f"M{number(x)} {number(y)}H{number(right)}"),
                (r, c + 1, f"M{number(right)} {number(y)}V{number(low)}"),
                (r + 1, c, f"M{number(x)} {number(low)}H{number(right)}"),
            )
            for side, (row, column, line) in enumerate(sides):
                other = self._at(row, column)
                if other is None:
                    # No line beside a gap, since the block may go on behind it.
                    is_edge = not (0 <= row < len(self._grid.cells)) or not (0 <= column < len(self._grid.cells[0]))
                    if is_edge:
                        thick.append(line)
                elif side < 2 and other.block != cell.block:
                    thick.append(line)
                elif side < 2 and other.group != cell.group:
                    thin.append(line)
        if thin:
            yield f'<path class="xsg" fill="none" d="{"".join(thin)}"/>'
        if thick:
            yield f'<path class="xsb" d="{"".join(thick)}"/>'

    def _at(self, row: int, column: int) -> Cell | None:
        cells = self._grid.cells
        return cells[row][column] if 0 <= row < len(cells) and 0 <= column < len(cells[row]) else None

    def _path(self) -> Iterator[str]:
        """The order of memory: arrows along neighbours, dashes where memory jumps."""
        ordered = sorted([(cell.order, r, c) for r, c, cell in self._each() if cell.order is not None])
        if len(ordered) < 2:
            return
        runs: list[str] = []
        jumps: list[str] = []
        # The distance in memory of neighbours that an arrow may join. Beside a gap, neighbours may be farther apart.
        unit = min([after[0] - before[0] for before, after in pairwise(ordered)])
        previous = ordered[0]
        arrow = ""
        is_running = False
        for step in ordered[1:]:
            (at, r0, c0), (to, r1, c1) = previous, step
            x0, y0, x1, y1 = *self._point(r0, c0), *self._point(r1, c1)
            if abs(r0 - r1) + abs(c0 - c1) == 1 and to - at == unit:
                start = "" if is_running else f"M{number(x0)} {number(y0)}"
                runs.append(f"{start}L{number(x1)} {number(y1)}")
                is_running = True
                arrow = _arrow(x0, y0, x1, y1)
            else:
                if is_running:
                    runs.append(arrow)
                is_running = False
                if self._grid.style == "tile" or (
                    abs(r0 - r1) <= _LONGEST_JUMP[0] and abs(c0 - c1) <= _LONGEST_JUMP[1]
                ):
                    jumps.append(f"M{number(x0)} {number(y0)}L{number(x1)} {number(y1)}")
                arrow = ""
            previous = step
        if is_running:
            runs.append(arrow)
        if jumps:
            yield f'<path class="xsj" d="{"".join(jumps)}"/>'
        if runs:
            yield f'<path class="xsp" d="{"".join(runs)}"/>'
        x, y = self._point(ordered[0][1], ordered[0][2])
        yield f'<circle class="xso" cx="{number(x)}" cy="{number(y)}" r="2.6"/>'

    def _point(self, row: int, column: int) -> tuple[float, float]:
        """The point at which the path passes a cell, below the label."""
        if self._grid.style == "tile":
            return self._xs[column + 1] - 6, self._ys[row + 1] - 9
        return self._xs[column + 1] - 6, self._ys[row + 1] - 5

    def _marks(self) -> Iterator[str]:
        for r, c, cell in self._each():
            if cell.is_marked:
                yield (
                    f'<rect class="xsm" x="{number(self._xs[c])}" y="{number(self._ys[r])}" '
                    f'width="{number(self._cell_width)}" height="{number(self._cell_height)}"/>'
                )


def _arrow(x0: float, y0: float, x1: float, y1: float) -> str:
    """The head of an arrow that ends in (x1, y1)."""
    dx, dy = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
    ax, ay = x1 - 4 * dx - 3 * dy, y1 - 4 * dy - 3 * dx
    bx, by = x1 - 4 * dx + 3 * dy, y1 - 4 * dy + 3 * dx
    return f"M{number(ax)} {number(ay)}L{number(x1)} {number(y1)}L{number(bx)} {number(by)}"


class _StripWriter:
    _ROW: Final = 24

    def __init__(self, strip: Strip, pen: Pen) -> None:
        self._strip = strip
        self._pen = pen
        cells = [cell for row in strip.rows for cell in row.cells]
        widest = max([text_width(cell.cell.label) for cell in cells] + [14]) + 10
        bits = min([cell.bits for cell in cells], default=8)
        self._bit = max(widest / bits, 120 / max(1, strip.row_bits))
        self._bits = bits
        self._left = max([text_width(row.head) for row in strip.rows if row.head] + [0]) + 8
        self._top = _TITLE + _HEAD

    def placed(self) -> PlacedPanel:
        width = max(self._left + self._strip.row_bits * self._bit, text_width(self._strip.title))
        heights: list[float] = [_GAP if row.head is None else self._ROW for row in self._strip.rows]
        lines = _caption(self._strip.caption, width) if self._strip.caption else []
        height = self._top + sum(heights) + len(lines) * 15 + (4 if lines else 0)
        return PlacedPanel(width, height, partial(self._write, heights=heights, caption=lines))

    def _write(self, x: float, y: float, heights: list[float], caption: list[str]) -> Iterator[str]:
        yield _start(x, y, self._strip, self._pen)
        yield _text(0, 12, self._strip.title, "xst xsf")
        yield from self._ruler()
        top = self._top
        for row, height in zip(self._strip.rows, heights, strict=True):
            if row.head is None:
                yield _text(self._left - 6, top + 13, "⋮", "xsu xse")
                top += height
                continue
            yield _text(self._left - 6, top + 16, row.head, "xsu xse")
            for cell, bit, bits in row.cells:
                left, width = self._left + bit * self._bit, bits * self._bit
                yield from _rectangle(left, top, width, height - 2, cell, self._pen)
                style = "xsq" if cell.fill == colours.PADDING else "xsk"
                yield _text(left + width / 2, top + 15, cell.label, style)
            last = row.cells[-1]
            # The boundary of a byte inside an element is a short line.
            lines = [
                f"M{number(self._left + bit * self._bit)} "
                f"{number(top + (0 if is_whole else height - 5))}V{number(top + height - 2)}"
                for bit in range(0, last.bit + last.bits + 1, 8)
                for is_whole in [bit % self._bits == 0]
            ]
            if self._bits < 32:
                yield f'<path class="xsg" fill="none" d="{"".join(lines)}"/>'
            for cell, bit, bits in row.cells:
                if cell.is_marked:
                    size = f'width="{number(bits * self._bit)}" height="{number(height - 2)}"'
                    yield f'<rect class="xsm" x="{number(self._left + bit * self._bit)}" y="{number(top)}" {size}/>'
            top += height
        for i, line in enumerate(caption):
            yield _text(0, top + 15 * (i + 1) - 2, line, "xsu")
        yield "</g>"

    def _ruler(self) -> Iterator[str]:
        """A number at the beginning of each element: of its first bit if elements have less than 32 bits or no whole
        bytes, else of its first byte."""
        in_bits = self._bits < 32 or self._bits % 8 > 0
        yield _text(self._left - 6, self._top - 5, "bit" if in_bits else "", "xsu xse")
        for bit in range(0, self._strip.row_bits, self._bits):
            text = str(bit) if in_bits else f"+{bit // 8}"
            yield _text(self._left + bit * self._bit, self._top - 5, text, "xsu")


class _ListingWriter:
    def __init__(self, listing: Listing, pen: Pen) -> None:
        self._listing = listing
        self._rows = [(row, None if row.thumbnail is None else placed(row.thumbnail, pen)) for row in listing.rows]
        self._path = max([text_width(row.path) for row in listing.rows] + [0]) + 14
        self._thumb = max([thumb.width for _, thumb in self._rows if thumb is not None] + [0])
        self._thumb += 16 if self._thumb else 0
        self._heights: list[float] = [
            max(18 + 15 * len(row.facts), 0 if thumb is None else thumb.height) + 12 for row, thumb in self._rows
        ]

    def placed(self) -> PlacedPanel:
        texts = [text for row in self._listing.rows for text in (row.text, *row.facts)]
        width = self._path + self._thumb + max([text_width(text) for text in texts] + [0])
        caption = [self._listing.caption] if self._listing.caption else []
        return PlacedPanel(width, _TITLE + sum(self._heights) + 15 * len(caption), self._write)

    def _write(self, x: float, y: float) -> Iterator[str]:
        yield _text(x, y + 12, self._listing.title, "xst xsf")
        top = y + _TITLE
        for (row, thumb), height in zip(self._rows, self._heights, strict=True):
            yield _text(x, top + 14, row.path, "xsu")
            left = x + self._path
            if thumb is not None:
                yield from thumb.write(left, top + 4)
            left += self._thumb
            yield _text(left, top + 14, row.text, "xst")
            for i, fact in enumerate(row.facts):
                yield _text(left, top + 29 + 15 * i, fact, "xsu")
            top += height
        yield _text(x, top + 12, self._listing.caption, "xsu")
