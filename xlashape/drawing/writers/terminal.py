"""A scene as text: tables of labels, with colours as a terminal's escape sequences or without any."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from xlashape.drawing.marks import colours
from xlashape.drawing.marks.cells import Cell, Grid, Legend, Listing, Panel, PictureSpace, Scene, Strip

DEPTHS: Final = ("none", "256", "full")
"""How many colours a terminal has: none, 256, or those of 24 bits."""

_RESET: Final = "\x1b[0m"
_PADDING: Final = "░"
_PARTLY: Final = "▒"
_CONTROL: Final = dict.fromkeys([*range(32), *range(127, 160)], "�")
"""Control characters, on which a terminal would act → what is written instead."""


def space_of(width: int) -> PictureSpace:
    """How much a picture can show on a terminal with lines of `width` characters."""
    characters = max(24, width - 8)
    return PictureSpace(
        rows=18,
        columns=32,
        characters=characters,
        tile_rows=8,
        tile_columns=max(3, min(8, characters // 14)),
        slices=5,
        memory_rows=8,
        leaves=40,
    )


def terminal_text(scene: Scene, depth: str = "none", width: int = 100) -> str:
    """The scene as lines in the colours of `depth`. Panels stand beside each other where they fit within `width`
    characters, or 40 if `width` is less. A panel that is wider than that is not cut.
    """
    return "\n".join(_Writer(depth, width).lines(scene)) + "\n"


def _plain(text: str) -> str:
    return text.translate(_CONTROL)


class _Line:
    """A line of text, and how many characters of it are seen: all but its escape sequences."""

    __slots__ = ("seen", "text")

    def __init__(self, text: str, seen: int | None = None) -> None:
        self.text = text
        self.seen = len(text) if seen is None else seen


class _Writer:
    """Writes scenes in the colours of one terminal."""

    def __init__(self, depth: str, width: int) -> None:
        self._depth = depth
        self._width = max(40, width)

    def lines(self, scene: Scene) -> Iterator[str]:
        yield self._bold(_plain(scene.title))
        yield from map(_plain, scene.facts)
        for band in scene.bands:
            beside: list[list[_Line]] = []
            used = 0
            for panel in band:
                block = self._panel(panel)
                width = max([line.seen for line in block], default=0)
                if beside and used + 4 + width > self._width:
                    yield from self._beside(beside)
                    beside, used = [], 0
                beside.append(block)
                used += width + (4 if used else 0)
            yield from self._beside(beside)
        if scene.legends:
            yield ""
        for legend in scene.legends:
            text = self._legend(legend)
            if text:
                yield text
        if any(_is_partly_padded(panel) for band in scene.bands for panel in band):
            yield f"{_PARTLY} partly padding"
        yield from map(_plain, scene.notes)

    def _beside(self, blocks: list[list[_Line]]) -> Iterator[str]:
        yield ""
        widths = [max([line.seen for line in block], default=0) for block in blocks]
        for lines in zip_longest(*blocks):
            text = ""
            for line, width in zip(lines, widths, strict=True):
                text += (line.text + " " * (width - line.seen) if line else " " * width) + "    "
            yield text.rstrip(" ")

    def _panel(self, panel: Panel) -> list[_Line]:
        if isinstance(panel, Grid):
            return self._grid(panel)
        if isinstance(panel, Strip):
            return self._strip(panel)
        return self._listing(panel)

    def _grid(self, grid: Grid) -> list[_Line]:
        labels = [[self._label(grid, cell) for cell in row] for row in grid.cells]
        width = max(
            [len(label) for row in labels for label in row] + [len(head) for head in grid.column_heads if head] + [2]
        )
        corner = f"{grid.row_name}↓" if grid.row_name else ""
        left = max([len(head) for head in grid.row_heads if head] + [len(corner)])
        lines = [self._title(grid.title)] if grid.title else []
        if any(grid.column_heads):
            heads = " ".join("⋯" if head is None else head.rjust(width) for head in grid.column_heads)
            arrow = f" →{grid.column_name}" if grid.column_name else ""
            lines.append(self._faint(f"{corner.rjust(left)}  {heads}{arrow}"))
        previous: tuple[Cell | None, ...] | None = None
        for head, row, row_labels in zip(grid.row_heads, grid.cells, labels, strict=True):
            if head is None:
                lines.append(_Line("⋮".rjust(left)))
                previous = None
                continue
            if previous is not None and grid.style == "element" and _differ(previous, row):
                rule = "─".join("─" if head is None else "─" * width for head in grid.column_heads)
                lines.append(self._faint(f"{' ' * left}  {rule}"))
            text, seen = f"{head.rjust(left)} ", left + 1
            before: Cell | None = None
            for number, (cell, label) in enumerate(zip(row, row_labels, strict=True)):
                is_gap = cell is None
                between = " "
                if number and grid.style == "element" and cell is not None and before is not None:
                    between = "│" if cell.block != before.block else "┊" if cell.group != before.group else " "
                text += between + (
                    "⋯" if is_gap and grid.column_heads[number] is None else self._cell(cell, label, width)
                )
                seen += 1 + (1 if is_gap and grid.column_heads[number] is None else width)
                before = cell
            lines.append(_Line(text, seen))
            previous = row
        return lines

    def _label(self, grid: Grid, cell: Cell | None) -> str:
        if cell is None:
            return ""
        if grid.style == "thumbnail":
            return "  "
        partly = _PARTLY if min(cell.used) < 1 else ""
        return _plain(f"{cell.label}{partly}")

    def _cell(self, cell: Cell | None, label: str, width: int, *, always: bool = False) -> str:
        if cell is None:
            return " " * width
        if cell.fill == colours.PADDING:
            return _PADDING * width if self._depth == "none" else self._painted(cell.fill, _PADDING * width)
        if self._depth == "none":
            if cell.fill == colours.BLANK and not always and not cell.is_marked:
                return "·".rjust(width)
            return (f"[{label}]" if cell.is_marked and len(label) + 2 <= width else label).rjust(width)
        return self._painted(cell.fill, label.rjust(width), is_bold=cell.is_marked)

    def _strip(self, strip: Strip) -> list[_Line]:
        left = max([len(row.head) for row in strip.rows if row.head] + [0])
        width = max([len(cell.cell.label) for row in strip.rows for cell in row.cells] + [2])
        lines = [self._title(strip.title)]
        if strip.rows and strip.rows[0].cells:
            in_bits = strip.rows[0].cells[0].bits < 32
            heads = [
                (str(cell.bit) if in_bits else f"+{cell.bit // 8}").ljust(width + 1) for cell in strip.rows[0].cells
            ]
            lines.append(self._faint(f"{('bit' if in_bits else 'byte').rjust(left)}  {''.join(heads).rstrip()}"))
        for row in strip.rows:
            if row.head is None:
                lines.append(_Line("⋮".rjust(left)))
                continue
            cells: list[str] = []
            for cell in row.cells:
                is_whole = cell.bit % 8 == 0
                cells.append(
                    ("│" if is_whole else " ") + self._cell(cell.cell, _plain(cell.cell.label), width, always=True)
                )
            lines.append(_Line(f"{row.head.rjust(left)} {''.join(cells)}│", left + 2 + (width + 1) * len(cells)))
        if strip.caption:
            lines.append(self._faint(strip.caption))
        return lines

    def _listing(self, listing: Listing) -> list[_Line]:
        lines = [self._title(listing.title)]
        left = max([len(row.path) for row in listing.rows] + [0])
        for row in listing.rows:
            facts = f"  {'; '.join(row.facts)}" if row.facts else ""
            lines.append(_Line(_plain(f"{row.path.ljust(left)}  {row.text}{facts}")))
        if listing.caption:
            lines.append(_Line(listing.caption))
        return lines

    def _legend(self, legend: Legend) -> str:
        if self._depth == "none":
            return (
                f"{_PADDING} padding"
                if legend.fills == (colours.PADDING,)
                else ("· not read" if legend.fills == (colours.BLANK,) else "")
            )
        if legend.fills == (colours.PADDING,):
            swatch = self._painted(colours.PADDING, _PADDING * 3)
        else:
            swatch = "".join(self._painted(fill, "  ") for fill in legend.fills)
        return f"{swatch} {legend.text}"

    def _title(self, text: str) -> _Line:
        return _Line(self._bold(_plain(text)), len(text))

    def _bold(self, text: str) -> str:
        return text if self._depth == "none" else f"\x1b[1m{text}{_RESET}"

    def _faint(self, text: str) -> _Line:
        return _Line(text if self._depth == "none" else f"\x1b[2m{text}{_RESET}", len(text))

    def _painted(self, fill: int, text: str, *, is_bold: bool = False) -> str:
        r, g, b = colours.rgb_of(fill)
        weight = "1;4;" if is_bold else ""
        if self._depth == "full":
            return f"\x1b[{weight}38;2;0;0;0;48;2;{r};{g};{b}m{text}{_RESET}"
        return f"\x1b[{weight}38;5;16;48;5;{colours.INDEXED[fill]}m{text}{_RESET}"


def _differ(above: tuple[Cell | None, ...], below: tuple[Cell | None, ...]) -> bool:
    return any(a is not None and b is not None and a.block != b.block for a, b in zip(above, below, strict=True))


def _is_partly_padded(panel: Panel) -> bool:
    return isinstance(panel, Grid) and any(
        cell is not None and min(cell.used) < 1 for row in panel.cells for cell in row
    )
