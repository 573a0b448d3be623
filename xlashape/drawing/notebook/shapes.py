"""The HTML that notebooks show for shapes, layouts and maps: their text, their sizes, and a small picture of the layout
or of what the map reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlashape.base.math import byte_text, ceil_div, product
from xlashape.drawing.draw import example_of
from xlashape.drawing.notebook.card import card, cut, picture_of, short_size
from xlashape.errors import XlashapeError
from xlashape.shape import Layout, Shape, tiling
from xlashape.symbolic import IndexingMap

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
        first = size_first([array])
        return card(str(shape), size_lines(array), picture_of(array), first=first and (first[0], f"buffer{first[1]}"))
    leaves = list(shape.leaves()) if shape.is_tuple else []
    lines = [leaf_line(leaf) for leaf in leaves[:_MAX_LEAVES]]
    if len(leaves) > _MAX_LEAVES:
        lines.append(f"… and {len(leaves) - _MAX_LEAVES:,} more")
    first = size_first([leaf.buffer_shape if leaf.is_buffer else leaf for leaf in leaves]) if shape.is_tuple else None
    return card(
        str(shape),
        lines,
        first=first and (first[0], f"in {len(leaves):,} {'leaf' if len(leaves) == 1 else 'leaves'}{first[1]}"),
    )


def size_first(arrays: Sequence[Shape]) -> tuple[str, str] | None:
    """The `first` of a card: the bytes of all arrays together, and words that say how much of them is padding, if any
    is. None if a size is not known."""
    try:
        sizes = [(tiling.physical_bytes(each), _element_bytes(each)) for each in arrays if each.is_array]
    except XlashapeError:
        return None
    buffer, elements = sum(size for size, _ in sizes), sum(size for _, size in sizes)
    return short_size(buffer), f", {100 * (buffer - elements) / buffer:.1f} % padding" if buffer > elements else ""


def _element_bytes(array: Shape) -> int:
    return ceil_div(product(array.dimensions) * tiling.stored_bits(array), 8)


def leaf_line(leaf: Shape) -> str:
    """A line about a leaf of a tuple, with its sizes if it is an array."""
    array = leaf.buffer_shape if leaf.is_buffer else leaf
    lines = size_lines(array) if array.is_array else []
    return f"{cut(str(leaf), 120)}{': ' if lines else ''}{'; '.join(lines)}"


def size_lines(array: Shape) -> list[str]:
    """Lines about the bytes of an array and how much of them is padding, or the message of the error if they are not
    known."""
    try:
        buffer, elements = tiling.physical_bytes(array), _element_bytes(array)
    except XlashapeError as error:
        return [error.message]
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
        return card(str(layout), lines, "")
    picture = picture_of(example)
    if picture:
        lines.append(f"drawn: {cut(str(example), 100)}")
    return card(str(layout), lines, picture)


def _map(indexing_map: IndexingMap) -> str:
    try:
        text = str(indexing_map)
    except XlashapeError as error:
        return card("an indexing map", [error.message], "")
    # Deferred: the picture of reads loads the indexing analysis, which the HTML of shapes does not need.
    from xlashape.drawing.notebook.reading import picture_of_map

    head, comma, domain = text.partition(", domain: ")
    return card(head, [f"domain: {domain}"] if comma else [], picture_of_map(indexing_map))
