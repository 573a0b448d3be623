"""How shapes, layouts and maps show themselves in a notebook: their text, their sizes, and a small picture of the layout.

The HTML is small, escapes what it shows, and brings its colours for light and dark pages.
"""

from __future__ import annotations

from html import escape
from typing import Final

from xlashape.drawing.marks.options import options_of
from xlashape.drawing.marks.scene import Scene
from xlashape.drawing.marks.tuples import thumbnail
from xlashape.drawing.subjects import example_of
from xlashape.drawing.writers.style import FONT
from xlashape.drawing.writers.svg import svg_text
from xlashape.errors import XlashapeError
from xlashape.math import byte_text, ceil_div, product
from xlashape.shape import Layout, Shape, tiling
from xlashape.symbolic import IndexingMap

__all__ = ["html"]

_MAX_TEXT: Final = 600
_MAX_LEAVES: Final = 12


def html(value: object) -> str | None:
    """The HTML of a shape, a layout or a map; None for anything else.

    >>> html(Shape.parse("f32[2,3]")).startswith("<div")
    True
    """
    if isinstance(value, Shape):
        return _shape(value)
    if isinstance(value, Layout):
        return _layout(value)
    if isinstance(value, IndexingMap):
        return _map(value)
    return None


def _shape(shape: Shape) -> str:
    if shape.is_array or shape.is_buffer:
        array = shape.buffer_shape if shape.is_buffer else shape
        return _card(str(shape), _size_lines(array), _picture(array))
    leaves = list(shape.leaves()) if shape.is_tuple else []
    lines = [f"{len(leaves):,} {'leaf' if len(leaves) == 1 else 'leaves'}"] if shape.is_tuple else []
    lines += [_leaf_line(leaf) for leaf in leaves[:_MAX_LEAVES]]
    if len(leaves) > _MAX_LEAVES:
        lines.append(f"… and {len(leaves) - _MAX_LEAVES:,} more")
    return _card(str(shape), lines, "")


def _leaf_line(leaf: Shape) -> str:
    array = leaf.buffer_shape if leaf.is_buffer else leaf
    lines = _size_lines(array) if array.is_array else []
    return f"{_cut(str(leaf), 120)}{': ' if lines else ''}{'; '.join(lines)}"


def _size_lines(array: Shape) -> list[str]:
    try:
        buffer, bits = tiling.physical_bytes(array), tiling.stored_bits(array)
    except XlashapeError as error:
        return [error.message]
    elements = ceil_div(product(array.dimensions) * bits, 8)
    if buffer > elements:
        share = 100 * (buffer - elements) / buffer
        return [f"elements {byte_text(elements)}", f"buffer {byte_text(buffer)}, {share:.1f} % of it padding"]
    return [byte_text(buffer)]


def _layout(layout: Layout) -> str:
    order = ", ".join(f"d{d}" for d in layout.major_to_minor)
    lines = [f"from major to minor: {order}"] if layout.rank else []
    if layout.tiles:
        lines.append("tiles " + ", then ".join(map(str, layout.tiles)))
    if layout.element_size_in_bits:
        lines.append(f"{layout.element_size_in_bits} bits for each element")
    if layout.tail_padding_alignment_in_elements > 1:
        lines.append(f"a multiple of {layout.tail_padding_alignment_in_elements:,} elements")
    if layout.memory_space:
        lines.append(f"memory space {layout.memory_space}")
    try:
        example = example_of(layout)
    except XlashapeError:
        return _card(str(layout), lines, "")
    picture = _picture(example)
    if picture:
        lines.append(f"drawn: {_cut(str(example), 100)}")
    return _card(str(layout), lines, picture)


def _map(indexing_map: IndexingMap) -> str:
    try:
        text = str(indexing_map)
    except XlashapeError as error:
        return _card("an indexing map", [error.message], "")
    head, comma, domain = text.partition(", domain: ")
    return _card(head, [f"domain: {domain}"] if comma else [], "")


def _picture(shape: Shape) -> str:
    grid = thumbnail(shape, options_of())
    if grid is None:
        return ""
    # Without a title of its own: the card has it.
    return svg_text(Scene("", (), ((grid,),)), standalone=False, tips="title", bare=True)


def _card(title: str, lines: list[str], picture: str) -> str:
    # The colours are those of the page: notebooks have themes of their own.
    text = "".join(f'<div style="opacity:.75">{escape(_cut(line, _MAX_TEXT))}</div>' for line in lines)
    return (
        f'<div style="display:flex;gap:1em;align-items:flex-start;font:13px {escape(FONT)};line-height:1.45">'
        f"{picture}<div><b>{escape(_cut(title, _MAX_TEXT))}</b>{text}</div></div>"
    )


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
