"""Results of ShapeService."""

from __future__ import annotations

from typing import NamedTuple

from xlashape.proto import v1
from xlashape.shape import Shape

__all__ = ["ShapeDescription", "ShapeSize"]


class ShapeSize(NamedTuple):
    """The sizes of a shape. For a tuple they are sums over the arrays in it.

    `byte_size` is XLA's ShapeUtil::ByteSizeOf: it ignores tiles, and for a tuple it is the size of the table of pointers. `physical_*` include
    padding.
    """

    byte_size: int
    element_count: int
    logical_bytes: int
    physical_elements: int
    physical_bytes: int

    @property
    def padding_bytes(self) -> int:
        """The bytes of the buffers that hold no element."""
        return self.physical_bytes - self.logical_bytes

    @classmethod
    def of(cls, size: v1.ShapeSize) -> ShapeSize:
        """Converts the message."""
        return cls(size.byte_size, size.element_count, size.logical_bytes, size.physical_elements, size.physical_bytes)


class ShapeDescription(NamedTuple):
    """The description of a shape. `size` is None if a dynamic dimension has no bound."""

    shape: Shape
    text: str
    size: ShapeSize | None
    true_rank: int
    leaf_count: int
    is_static: bool
    is_major_to_minor: bool
    is_tiled: bool
    element_bits: int
    memory_space: int

    @classmethod
    def of(cls, message: v1.ShapeDescription) -> ShapeDescription:
        """Converts the message."""
        layout = message.layout
        return cls(
            shape=Shape.from_proto(message.shape.SerializeToString()),
            text=message.text,
            size=ShapeSize.of(message.size) if message.HasField("size") else None,
            true_rank=message.true_rank,
            leaf_count=message.leaf_count,
            is_static=message.is_static,
            is_major_to_minor=layout.is_major_to_minor,
            is_tiled=layout.is_tiled,
            element_bits=layout.element_bits,
            memory_space=layout.memory_space,
        )
