"""A box with a title, lines of text, a table and a picture. All colours come from the page, since notebooks have themes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from html import escape
from typing import Final

from xlashape.drawing.marks.arrays import thumbnail
from xlashape.drawing.marks.cells import Scene, options_of
from xlashape.drawing.writers.panels import FONT
from xlashape.drawing.writers.svg import svg_text
from xlashape.errors import XlashapeError
from xlashape.shape import Shape

_MAX_TEXT: Final = 600
_MAX_CELL: Final = 90
_ROW: Final = "border-bottom:1px solid rgba(128,128,128,.35);background:none"


def card(title: str, lines: Sequence[str], picture: str = "", table: str = "") -> str:
    """The HTML. `picture` and `table` are HTML, everything else is text."""
    text = "".join([f'<div style="opacity:.75">{escape(cut(line, _MAX_TEXT))}</div>' for line in lines])
    return (
        f'<div style="display:flex;gap:1em;align-items:flex-start;font:13px {escape(FONT)};line-height:1.45">'
        f"{picture}<div style='min-width:0'><b>{escape(cut(title, _MAX_TEXT))}</b>{text}{table}</div></div>"
    )


def table_of(headings: Sequence[str], rows: Iterable[Sequence[object]], *, left: Container[int] = (0,)) -> str:
    """A table as HTML; the columns `left` are aligned to the left. Long cells are shortened, with the whole text as hover text."""

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
