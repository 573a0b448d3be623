"""The marks of a picture and their cells: a scene of grids, strips and lists, the options that say what is drawn, and
the label, the fill and the hover text of each cell.

Marks have text and fills, and no sizes: each writer decides how large they are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import NamedTuple, TypeAlias

from xlashape.drawing.geometry.axes import ArrayAxes
from xlashape.drawing.geometry.grids import GridWindow, Spot, window_of
from xlashape.drawing.marks import colours
from xlashape.errors import InvalidArgumentError
from xlashape.shape.parts.checks import integer

COLORS = ("memory", "tile", "row", "bank", "segment")
"""The values of the option `color`: what the fills of cells show."""

LABELS = ("position", "index", "byte", "tile", "bank", "segment")
"""The values of the option `label`: what is written in cells."""


class Options(NamedTuple):
    """The options of a picture as `draw` describes them, checked by `options_of`."""

    at: tuple[int, ...] | None = None
    rows: GridWindow | None = None
    columns: GridWindow | None = None
    color: str = "memory"
    label: str = "position"
    path: bool = True
    segment_bytes: int = 128
    banks: int = 32
    bank_bytes: int = 4


class PictureSpace(NamedTuple):
    """How much a picture can show: the most rows and columns of elements in a grid, of tiles in a grid, and so on."""

    rows: int
    columns: int
    characters: int
    """The most characters of all labels in a row together."""
    tile_rows: int
    tile_columns: int
    slices: int
    """The most slices (planes of an array of more than two axes). Gaps count too, so 5 are the first and the last
    slice, another one between them, and two gaps. Below 3, one slice is shown if there are more."""
    memory_rows: int
    leaves: int
    """The most arrays of a tuple."""

    def columns_for(self, label_length: int) -> int:
        """The number of columns that fit with labels of this length; at least four."""
        return max(4, min(self.columns, self.characters // (label_length + 2)))


SCREEN = PictureSpace(
    rows=18, columns=16, characters=120, tile_rows=7, tile_columns=7, slices=5, memory_rows=10, leaves=40
)
"""The space of a picture on a screen."""


def options_of(
    at: Sequence[int] | None = None,
    rows: object = None,
    columns: object = None,
    color: str = "memory",
    label: str = "position",
    path: bool = True,
    segment_bytes: int = 128,
    banks: int = 32,
    bank_bytes: int = 4,
) -> Options:
    """Checked options. InvalidArgumentError, with the name of the option as its field, for a value that an option does
    not take.

    >>> options_of(color="memroy")
    Traceback (most recent call last):
    xlashape.errors.InvalidArgumentError: color: expected memory, tile, row, bank or segment, found 'memroy': did you mean 'memory'?
    """  # noqa: E501 - an error is one line
    return Options(
        None if at is None else _index(at),
        window_of(rows, "rows"),
        window_of(columns, "columns"),
        _one_of(color, COLORS, "color"),
        _one_of(label, LABELS, "label"),
        bool(path),
        _positive(segment_bytes, "segment_bytes"),
        _positive(banks, "banks"),
        _positive(bank_bytes, "bank_bytes"),
    )


def _index(at: Sequence[int]) -> tuple[int, ...]:
    try:
        if isinstance(at, (str, bytes)):
            raise TypeError
        return tuple([integer(number, "at") for number in at])
    except TypeError:
        raise InvalidArgumentError(f"at takes an index such as (2, 3), found {at!r:.60}", field="at") from None


def _one_of(value: object, known: tuple[str, ...], what: str) -> str:
    if isinstance(value, str) and value in known:
        return value
    close = get_close_matches(value[:40], known, 1) if isinstance(value, str) else []
    hint = f": did you mean {close[0]!r}?" if close else ""
    raise InvalidArgumentError(
        f"{what}: expected {', '.join(known[:-1])} or {known[-1]}, found {str(value)[:40]!r}{hint}", field=what
    )


def _positive(value: object, what: str) -> int:
    number = integer(value, what)
    if not 1 <= number < 1 << 31:
        raise InvalidArgumentError(
            f"{what}: expected a number from 1 to 2147483647, found {str(value)[:40]}", field=what
        )
    return number


# -- scenes ------------------------------------------------------------------------------------


def shortened(text: str, limit: int) -> str:
    """A text of at most `limit` characters; a longer text is shortened to its beginning and its end.

    >>> shortened("0,0,0,0,0,0,0,1", 9)
    '0,0,…,0,1'
    """
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


class Cell(NamedTuple):
    """A rectangle with a label: an element, padding, or a tile."""

    label: str
    fill: int
    """A fill of `xlashape.drawing.marks.colours`."""
    tip: str = ""
    """The hover text."""
    key: int | None = None
    """Cells of one scene with the same key are the same element, or the same padding."""
    block: int = 0
    """The number of its tile. A thick line is drawn between neighbours of different blocks."""
    group: int = 0
    """The number of its group, which is a last tile such as (2,1) in T(8,128)(2,1). A thin line is drawn between
    neighbours of different groups."""
    order: int | None = None
    """The position of its element in memory. The path, which is a line through the grid, follows these positions."""
    used: tuple[float, float] = (1.0, 1.0)
    """The fractions of its height and width that hold elements; the rest is hatched as padding."""
    note: str = ""
    """A second line below the label."""
    is_marked: bool = False
    """Whether the cell has a frame."""
    element: tuple[int, ...] | None = None
    """The index of its element, or of a tile's first element; None for padding."""


class Grid(NamedTuple):
    """Rows and columns of cells. None stands for cells that are left out."""

    title: str
    cells: tuple[tuple[Cell | None, ...], ...]
    row_heads: tuple[str | None, ...]
    """None for a gap."""
    column_heads: tuple[str | None, ...]
    row_name: str
    column_name: str
    style: str = "element"
    """`element`, `tile` or, for a small grid without labels, `thumbnail`."""
    has_path: bool = False
    """Whether a line through the cells shows the order of memory."""
    caption: str = ""
    array: int = 0
    """The number of the array, if the scene has several."""


class StripCell(NamedTuple):
    """A position of the buffer in a row of memory: an element or padding."""

    cell: Cell
    bit: int
    """The first bit of the position, counted from the start of the row."""
    bits: int


class StripRow(NamedTuple):
    """A row of memory."""

    head: str | None
    """The text before the row, such as `byte 16`; None for a gap."""
    cells: tuple[StripCell, ...]


class Strip(NamedTuple):
    """Part of a buffer, in rows; widths are proportional to bits."""

    title: str
    rows: tuple[StripRow, ...]
    row_bits: int
    caption: str = ""
    array: int = 0


class ListingRow(NamedTuple):
    """A leaf of a tuple, which is an array or another shape that is not a tuple."""

    path: str
    """The numbers that lead to the leaf from the outermost tuple on: `{1,0}`."""
    text: str
    facts: tuple[str, ...]
    thumbnail: Grid | None


class Listing(NamedTuple):
    """The leaves of a tuple."""

    title: str
    rows: tuple[ListingRow, ...]
    caption: str = ""


Panel: TypeAlias = "Grid | Strip | Listing"


class Legend(NamedTuple):
    """An entry of the legend."""

    fills: tuple[int, ...]
    """The fills that the text explains: one, or all of a scale or palette."""
    text: str


class Scene(NamedTuple):
    """The content of a picture. Facts stand below the title, notes at the end. Each band of panels begins on a new
    line; a writer may break a band that is too wide."""

    title: str
    facts: tuple[str, ...]
    bands: tuple[tuple[Panel, ...], ...]
    legends: tuple[Legend, ...] = ()
    notes: tuple[str, ...] = ()


# -- cells -------------------------------------------------------------------------------------


_LONGEST_LABEL = 36
_LONGEST_TIP = 120


def index_text(index: tuple[int, ...] | None) -> str:
    """An index as it is written in a cell; an empty text for padding.

    >>> index_text((2, 3)), index_text(()), index_text(None)
    ('2,3', '()', '')
    """
    return "" if index is None else shortened(",".join(map(str, index)), _LONGEST_LABEL) or "()"


def place_text(view: ArrayAxes, position: int) -> str:
    """The bytes of the buffer that an element takes: `bytes 68–71`, `byte 7`, `bits 4–7 of byte 8`."""
    first, last = position * view.bits, (position + 1) * view.bits - 1
    if first % 8 == 0 and view.bits % 8 == 0:
        return f"byte {first // 8:,}" if view.bits == 8 else f"bytes {first // 8:,}–{last // 8:,}"
    if first // 8 == last // 8:
        low, high = first % 8, last % 8
        return f"bit{'' if low == high else 's'} {low}{'' if low == high else f'–{high}'} of byte {first // 8:,}"
    return f"bit {first % 8} of byte {first // 8:,} to bit {last % 8} of byte {last // 8:,}"


class Brush(NamedTuple):
    """Makes the cells of one array.

    `steps` are the positions that are shown, ascending. Each is one step of the colour scale, so that neighbours have
    different colours even if most of a large buffer is left out.
    """

    view: ArrayAxes
    options: Options
    steps: tuple[int, ...] = (0,)
    marked: int | None = None
    """The position of the element that the caller asked for."""
    origin: Brush | None = None
    """For an array in two layouts: the brush of the other layout, whose fills the cells of this layout have too, so
    that an element has one colour in both."""
    has_two_layouts: bool = False
    fill_at: Callable[[tuple[int, ...]], int] | None = None
    """The fill of each element by its index, if fills show something other than the position in memory."""

    def cell(self, spot: Spot) -> Cell:
        """The cell that shows a spot of the array."""
        position = spot.position
        fill = colours.PADDING if spot.element is None else self.fill(position, spot.coordinates, spot.block)
        return Cell(
            self.label(position, spot.element, spot.block),
            fill,
            self.tip(position, spot.element, spot.block),
            key=self.key(position, spot.element),
            block=spot.block if self.view.is_tiled else 0,
            group=position // self.view.group_elements if self.view.group_elements > 1 else 0,
            order=position,
            is_marked=position == self.marked,
            element=spot.element,
        )

    def memory_cell(self, position: int, index: tuple[int, ...] | None) -> Cell:
        """The cell of a position in a strip of memory, labelled with the index of its element; None is padding."""
        if index is None:
            fill, block = colours.PADDING, None
        else:
            coordinates = self.view.coordinates(index)
            block = self.view.block(coordinates)
            has_fill = self.origin is not None or self.fill_at is not None
            fill = self.fill(position, coordinates, block) if has_fill else self.fill_of(index)
        tip = self.tip(position, index, block)
        key = self.key(position, index)
        return Cell(index_text(index), fill, tip, key, order=position, is_marked=position == self.marked, element=index)

    def fill(self, position: int, coordinates: tuple[int, ...], block: int) -> int:
        """The fill of a cell that holds an element, or of a tile with its first position and coordinates."""
        if self.fill_at is not None:
            index = self.view.element(coordinates)
            return colours.BLANK if index is None else self.fill_at(index)
        if self.origin is not None:
            index = self.view.element(coordinates)
            assert index is not None
            return self.origin.fill_of(index)
        color = self.options.color
        if color == "memory":
            return colours.of_scale(bisect_right(self.steps, position) - 1, 0, len(self.steps) - 1)
        if color == "tile":
            return colours.of_number(self.tile(position, block) if self.view.is_tiled else 0)
        if color == "row":
            axis = self.view.row_axis
            return colours.of_number(0 if axis is None else coordinates[axis])
        if color == "bank":
            return colours.of_scale(self.bank(position), 0, self.options.banks - 1)
        return colours.of_number(self.segment(position))

    def fill_of(self, index: tuple[int, ...]) -> int:
        """The fill of the element at an index; `BLANK` if fills show the order in memory and the element lies before or
        behind the positions that are shown."""
        coordinates = self.view.coordinates(index)
        position = self.view.position(coordinates)
        if self.options.color == "memory" and not self.steps[0] <= position <= self.steps[-1]:
            return colours.BLANK
        return self.fill(position, coordinates, self.view.block(coordinates))

    def key(self, position: int, index: tuple[int, ...] | None) -> int | None:
        """A key that cells of the same element share: its position, or its row-major number if there are two
        layouts."""
        if not self.has_two_layouts:
            return position
        if index is None:
            return None
        number = 0
        for size, i in zip(self.view.shape.dimensions, index, strict=True):
            number = number * size + i
        return number

    def label(self, position: int, index: tuple[int, ...] | None, block: int) -> str:
        """The label of a cell. Padding has a label too, unless labels are indices, which padding does not have."""
        label = self.options.label
        if label == "position":
            return str(position)
        if label == "index":
            return index_text(index)
        if label == "byte":
            return str(position * self.view.bits // 8)
        if label == "tile":
            return str(self.tile(position, block))
        return str(self.bank(position) if label == "bank" else self.segment(position))

    def label_length(self) -> int:
        """The length of the longest label that a cell may have."""
        if self.options.label == "index":
            sizes = self.view.shape.dimensions
            return max(2, min(_LONGEST_LABEL, sum(len(str(max(0, size - 1))) + 1 for size in sizes) - 1))
        last = max(0, self.view.elements - 1)
        return len(self.label(last, None, max(0, self.view.block([axis.padded - 1 for axis in self.view.axes]))))

    def tip(self, position: int, index: tuple[int, ...] | None, block: int | None) -> str:
        """The hover text of a cell."""
        what = "padding" if index is None else f"index ({shortened(', '.join(map(str, index)), _LONGEST_TIP)})"
        parts = [f"{what} ↔ position {position:,}", place_text(self.view, position)]
        if self.view.is_tiled and block is not None:
            parts.append(f"tile {self.tile(position, block):,}")
        if self.options.color == "bank":
            parts.append(f"bank {self.bank(position)}")
        if self.options.color == "segment":
            parts.append(f"segment {self.segment(position):,}")
        return " · ".join(parts)

    def tile(self, position: int, block: int) -> int:
        """The number of a tile of the layout's first level: in the order of memory if these tiles are contiguous, else
        in the order of their coordinates, which is `block`."""
        return block if self.view.block_elements is None else position // self.view.block_elements

    def bank(self, position: int) -> int:
        """The memory bank that holds the first bit of the element."""
        return position * self.view.bits // 8 // self.options.bank_bytes % self.options.banks

    def segment(self, position: int) -> int:
        """The segment of memory that holds the first bit of the element."""
        return position * self.view.bits // 8 // self.options.segment_bytes

    def legends(self) -> tuple[Legend, ...]:
        """The legend of the fills."""
        options = self.options
        meaning = {
            "memory": Legend(colours.SCALE, f"order in memory: position {self.steps[0]:,} to {self.steps[-1]:,}"),
            "tile": Legend(colours.PALETTE, "the tile, by its number"),
            "row": Legend(colours.PALETTE, "the row"),
            "bank": Legend(colours.SCALE, f"the bank: 0 to {options.banks - 1}, {options.bank_bytes} bytes wide each"),
            "segment": Legend(colours.PALETTE, f"the segment of {options.segment_bytes} bytes"),
        }[options.color]
        return (meaning,)
