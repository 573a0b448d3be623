"""Shapes as values: element types, tiles, layouts, shapes, their text and their protos, tiled indexing, and XLA's utilities.

The values stand here; tiled indexing and the functions of XLA's ShapeUtil, LayoutUtil and IndexUtil are modules of their
own: `from xlashape.shape import index_util, layout_util, shape_util, tiling`.
"""

from xlashape.shape.value.layout import Layout
from xlashape.shape.value.primitive_type import PrimitiveType
from xlashape.shape.value.program_shape import ProgramShape
from xlashape.shape.value.shape import UNBOUNDED_SIZE, Shape
from xlashape.shape.value.shape_index import ShapeIndex
from xlashape.shape.value.tile import COMBINE, SplitConfig, Tile

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
