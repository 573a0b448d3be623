"""The marks of a picture. They have text and fills. Each writer decides how large they are."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


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
    """A cell with a label."""

    label: str
    fill: int
    """A fill of `xlashape.drawing.marks.colours`."""
    tip: str = ""
    """The hover text."""
    key: int | None = None
    """Cells of one scene with the same key are the same element, or the same padding."""
    block: int = 0
    """A thick line is drawn between neighbours of different blocks."""
    group: int = 0
    """A thin line is drawn between neighbours of different groups."""
    order: int | None = None
    """The index of the cell in the path through the grid."""
    used: tuple[float, float] = (1.0, 1.0)
    """The fractions of its height and width that hold elements; the rest is hatched as padding."""
    note: str = ""
    """A second line below the label."""
    is_marked: bool = False
    """Whether the cell has a frame."""


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
    """`element`, `tile` or `thumbnail`."""
    has_path: bool = False
    caption: str = ""


class StripCell(NamedTuple):
    """An element in memory."""

    cell: Cell
    bit: int
    """The first bit of the element, counted from the start of the row."""
    bits: int


class StripRow(NamedTuple):
    """A row of memory."""

    head: str | None
    """None for a gap."""
    cells: tuple[StripCell, ...]


class Strip(NamedTuple):
    """Part of a buffer, in rows; widths are proportional to bits."""

    title: str
    rows: tuple[StripRow, ...]
    row_bits: int
    caption: str = ""


class ListingRow(NamedTuple):
    """An array of a tuple."""

    path: str
    text: str
    facts: tuple[str, ...]
    thumbnail: Grid | None


class Listing(NamedTuple):
    """The arrays of a tuple."""

    title: str
    rows: tuple[ListingRow, ...]
    caption: str = ""


Panel: TypeAlias = "Grid | Strip | Listing"


class Legend(NamedTuple):
    """An entry of the legend."""

    fills: tuple[int, ...]
    """The fills; several fills form a scale."""
    text: str


class Scene(NamedTuple):
    """A picture. Each band of panels begins on a new line; a writer may break a band that is too wide."""

    title: str
    facts: tuple[str, ...]
    bands: tuple[tuple[Panel, ...], ...]
    legends: tuple[Legend, ...] = ()
    notes: tuple[str, ...] = ()
