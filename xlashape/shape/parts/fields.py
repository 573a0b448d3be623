"""The attributes of shapes, layouts and programs, for the text and proto codecs, which cannot import the classes.

`shape_bytes` and its neighbours estimate the memory of shapes, for the bounds of caches: upper bounds of what tracemalloc measures.
"""

from __future__ import annotations

from typing import Protocol

from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.tile import SplitConfig, Tile


class LayoutFields(Protocol):
    """The attributes of `xlashape.shape.Layout`, which describes them."""

    @property
    def minor_to_major(self) -> tuple[int, ...]: ...
    @property
    def tiles(self) -> tuple[Tile, ...]: ...
    @property
    def tail_padding_alignment_in_elements(self) -> int: ...
    @property
    def index_primitive_type(self) -> PrimitiveType: ...
    @property
    def pointer_primitive_type(self) -> PrimitiveType: ...
    @property
    def element_size_in_bits(self) -> int: ...
    @property
    def memory_space(self) -> int: ...
    @property
    def split_configs(self) -> tuple[SplitConfig, ...]: ...
    @property
    def physical_shape(self) -> ShapeFields | None: ...
    @property
    def dynamic_shape_metadata_prefix_bytes(self) -> int: ...
    @property
    def unknown_fields(self) -> bytes: ...


class ShapeFields(Protocol):
    """The attributes of `xlashape.shape.Shape`, which describes them."""

    @property
    def element_type(self) -> PrimitiveType: ...
    @property
    def dimensions(self) -> tuple[int, ...]: ...
    @property
    def dynamic_dimensions(self) -> tuple[bool, ...]: ...
    @property
    def layout(self) -> LayoutFields | None: ...
    @property
    def tuple_shapes(self) -> tuple[ShapeFields, ...]: ...
    @property
    def unknown_fields(self) -> bytes: ...
    @property
    def is_array(self) -> bool: ...


class ProgramShapeFields(Protocol):
    """The attributes of `xlashape.shape.ProgramShape`, which describes them."""

    @property
    def parameters(self) -> tuple[ShapeFields, ...]: ...
    @property
    def result(self) -> ShapeFields: ...
    @property
    def parameter_names(self) -> tuple[str, ...]: ...
    @property
    def unknown_fields(self) -> bytes: ...


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
