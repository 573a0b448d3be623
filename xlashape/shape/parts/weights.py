"""Estimates of the bytes that shapes take in memory, for the bounds of caches. They are upper bounds of what tracemalloc measures."""

from __future__ import annotations

from xlashape.shape.parts.fields import LayoutFields, ShapeFields

__all__ = ["layout_bytes", "parsed_bytes", "shape_bytes"]


def parsed_bytes(text: str) -> int:
    """The bytes of a text and of the shape or layout that was parsed from it, with the text it prints.

    A number takes up to 60 bytes in its tuples, a shape, layout, tile or split 250; both follow from the punctuation.
    """
    parts = text.count("[") + text.count("(") + 2 * text.count("_")  # '_' is in the names of unknown types alone
    return 350 + 2 * len(text) + 60 * text.count(",") + 250 * parts


def shape_bytes(shape: ShapeFields) -> int:
    """The bytes of a shape with all that it holds, the text it prints included. Equal inner shapes that are one object count once."""
    size = 250 + 60 * len(shape.dimensions) + len(shape.unknown_fields)
    if shape.layout is not None:
        size += layout_bytes(shape.layout)
    if not shape.element_type.is_known:
        size += 500
    if shape.tuple_shapes:
        distinct = {id(inner): inner for inner in shape.tuple_shapes}
        size += 60 * len(shape.tuple_shapes) + sum([shape_bytes(inner) for inner in distinct.values()])
    return size


def layout_bytes(layout: LayoutFields) -> int:
    """The bytes of a layout with all that it holds, the text it prints included."""
    size = 350 + 50 * len(layout.minor_to_major) + len(layout.unknown_fields)
    for tile in layout.tiles:
        size += 200 + 50 * len(tile.dimensions) + len(tile.unknown_fields)
    for split in layout.split_configs:
        size += 250 + 50 * len(split.split_indices) + len(split.unknown_fields)
    if layout.physical_shape is not None:
        size += shape_bytes(layout.physical_shape)
    return size
