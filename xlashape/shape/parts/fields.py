"""Protocols with the fields of shapes, layouts and program shapes. The files that read and write text and protos use
them, since they cannot import the classes.
"""

from __future__ import annotations

from typing import Protocol

from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.tile import SplitConfig, Tile


class LayoutFields(Protocol):
    """The attributes of `xlashape.shape.Layout`, which describes them."""

    minor_to_major: tuple[int, ...]
    tiles: tuple[Tile, ...]
    tail_padding_alignment_in_elements: int
    index_primitive_type: PrimitiveType
    pointer_primitive_type: PrimitiveType
    element_size_in_bits: int
    memory_space: int
    split_configs: tuple[SplitConfig, ...]

    @property
    def physical_shape(self) -> ShapeFields | None: ...

    dynamic_shape_metadata_prefix_bytes: int
    unknown_fields: bytes


class ShapeFields(Protocol):
    """The attributes of `xlashape.shape.Shape`, which describes them."""

    element_type: PrimitiveType
    dimensions: tuple[int, ...]
    dynamic_dimensions: tuple[bool, ...]

    @property
    def layout(self) -> LayoutFields | None: ...
    @property
    def tuple_shapes(self) -> tuple[ShapeFields, ...]: ...

    unknown_fields: bytes

    @property
    def is_array(self) -> bool: ...


class ProgramShapeFields(Protocol):
    """The attributes of `xlashape.shape.ProgramShape`, which describes them."""

    @property
    def parameters(self) -> tuple[ShapeFields, ...]: ...
    @property
    def result(self) -> ShapeFields: ...

    parameter_names: tuple[str, ...]
    unknown_fields: bytes
