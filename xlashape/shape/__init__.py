"""Shapes as values: element types, tiles, layouts, shapes, their text and their protos, tiled indexing, and XLA's utilities.

The values stand here; tiled indexing and the functions of XLA's ShapeUtil, LayoutUtil and IndexUtil are modules of their
own: `from xlashape.shape import index_util, layout_util, shape_util, tiling`.
"""

from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.tile import COMBINE, UNBOUNDED_SIZE, SplitConfig, Tile
from xlashape.shape.value.program_shape import ProgramShape
from xlashape.shape.value.shape import Layout, Shape
from xlashape.shape.value.shape_index import ShapeIndex

__all__ = [
    "COMBINE",
    "UNBOUNDED_SIZE",
    "Layout",
    "PrimitiveType",
    "ProgramShape",
    "Shape",
    "ShapeIndex",
    "SplitConfig",
    "Tile",
]
