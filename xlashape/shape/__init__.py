"""Shapes as values: element types, tiles, layouts, shapes, their text and their protos, tiled indexing, and XLA's utilities.

The values stand here; tiled indexing and the functions of XLA's ShapeUtil, LayoutUtil and IndexUtil are modules of their
own: `from xlashape.shape import index_util, layout_util, shape_util, tiling`.
"""

from xlashape.shape.layout import Layout
from xlashape.shape.primitive_type import PrimitiveType
from xlashape.shape.program_shape import ProgramShape
from xlashape.shape.shape import UNBOUNDED_SIZE, Shape
from xlashape.shape.shape_index import ShapeIndex
from xlashape.shape.tile import COMBINE, SplitConfig, Tile

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
