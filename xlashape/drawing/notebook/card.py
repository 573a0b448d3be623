"""A box with a title, a large number, lines of text, a table and a picture. The colours of the text come from the
notebook's page, since notebooks have themes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from html import escape
from typing import Final

from xlashape.base.math import byte_text
from xlashape.drawing.marks.arrays import thumbnail
from xlashape.drawing.marks.cells import Scene, options_of
from xlashape.drawing.writers.panels import FONT
from xlashape.drawing.writers.svg import svg_text
from xlashape.errors import XlashapeError
from xlashape.shape import Shape

_MAX_TEXT: Final = 600
_MAX_CELL: Final = 90
_SENTENCES: Final = "font-family:system-ui,sans-serif;font-size:13px;line-height:1.45"
_ROW: Final = "border-bottom:1px solid rgba(128,128,128,.35);background:none"


def card(
    title: str, lines: Sequence[str], picture: str = "", table: str = "", *, first: tuple[str, str] | None = None
) -> str:
    """The box as HTML. `picture` and `table` are HTML, everything else is text.

    `first` is the most important number, which is shown large, and the words behind it:
    `("4.00 MiB", "buffer, 96.9 % of it padding")`. The title, tables and lines with columns are in a monospace font,
    sentences in the system's font.
    """
    text = "".join([_line(line) for line in lines])
    large = ""
    if first is not None:
        number, words = first
        large = (
            f'<div style="margin:.15em 0 .25em"><span style="font-size:22px;font-weight:600">{escape(number)}</span> '
            f'<span style="opacity:.75">{escape(cut(words, _MAX_TEXT))}</span></div>'
        )
    return (
        f'<div style="display:flex;gap:1.2em;align-items:flex-start;{_SENTENCES}">'
        f"{picture}<div style='min-width:0'><div style=\"font:600 13px {escape(FONT)};overflow-wrap:anywhere\">"
        f"{escape(cut(title, _MAX_TEXT))}</div>{large}{text}{table}</div></div>"
    )


def _line(line: str) -> str:
    """A line of text as HTML. If it has columns, which are separated by two spaces or more, it keeps them."""
    columns = f"white-space:pre-wrap;font:12px {escape(FONT)};" if "  " in line.strip() else ""
    return f'<div style="{columns}opacity:.75">{escape(cut(line, _MAX_TEXT))}</div>'


def short_size(size: int) -> str:
    """A number of bytes, rounded to a larger unit from 1 KiB on: `4.00 MiB`."""
    exact, _, rounded = byte_text(size).partition(" (")
    return rounded.removesuffix(")") or exact


def table_of(headings: Sequence[str], rows: Iterable[Sequence[object]], *, left: Container[int] = (0,)) -> str:
    """A table as HTML. The columns whose numbers are in `left` are aligned to the left, the others to the right. Long
    cells are shortened, with up to 600 characters of the text as hover text."""

    def cell(tag: str, number: int, value: object) -> str:
        text = str(value)
        whole = f' title="{escape(cut(text, _MAX_TEXT))}"' if len(text) > _MAX_CELL else ""
        align = "left" if number in left else "right"
        style = f"text-align:{align};padding:1px .9em 1px 0"
        return f'<{tag} style="{style}"{whole}>{escape(cut(text, _MAX_CELL))}</{tag}>'

    made = [
        f'<tr style="{_ROW}">{"".join([cell(tag, number, value) for number, value in enumerate(row)])}</tr>'
        for tag, row in [("th", headings), *[("td", row) for row in rows]]
    ]
    style = f"border-collapse:collapse;margin:.4em 0;white-space:nowrap;font:12px {escape(FONT)}"
    return f'<div style="overflow-x:auto"><table style="{style}">{"".join(made)}</table></div>'


def picture_of(shape: Shape) -> str:
    """A small picture of the layout as SVG; empty if the shape cannot be drawn."""
    try:
        grid = thumbnail(shape.buffer_shape if shape.is_buffer else shape, options_of())
    except XlashapeError:  # dimensions without a bound, sizes beyond int64
        return ""
    if grid is None:
        return ""
    # The picture has no title, since the card has one.
    return svg_text(Scene("", (), ((grid,),)), standalone=False, tips="title", bare=True)


def cut(text: str, limit: int) -> str:
    """The text, or the beginning of a long text."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
