"""Shapes as values: element types, tiles, layouts, shapes, their text and their protos, tiled indexing, and XLA's utilities.

Each file imports only from those below it in this list:

- `shape_util`, `layout_util`, `index_util`: the functions of XLA's ShapeUtil, LayoutUtil and IndexUtil
- `primitive_util`: what floating-point types can hold, and which conversions keep every value
- `tpu_layout`: the layouts that TPUs give to arrays
- `legacy`: layouts written before 2018
- `tiling`: where elements lie in the buffer of a tiled array
- `arguments`: checks of function arguments
- `value`: `Shape` and `Layout`, `ProgramShape`, `ShapeIndex`
- `text`, `proto_codec`: reading and writing them; `objects`: shapes of arrays of other libraries
- `parts`: what they are made of: `PrimitiveType`, `Tile`, `SplitConfig`; and `Target`, a kind of device

The modules of functions are imported on first use: `xlashape.shape.tiling`, or `from xlashape.shape import tiling`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.target import Target
from xlashape.shape.parts.tile import COMBINE, UNBOUNDED_SIZE, SplitConfig, Tile
from xlashape.shape.value.program_shape import ProgramShape
from xlashape.shape.value.shape import Layout, Shape
from xlashape.shape.value.shape_index import ShapeIndex

if TYPE_CHECKING:
    from xlashape.shape import index_util, layout_util, legacy, primitive_util, shape_util, tiling, tpu_layout

__all__ = [
    "COMBINE",
    "UNBOUNDED_SIZE",
    "Layout",
    "PrimitiveType",
    "ProgramShape",
    "Shape",
    "ShapeIndex",
    "SplitConfig",
    "Target",
    "Tile",
    "index_util",
    "layout_util",
    "legacy",
    "primitive_util",
    "shape_util",
    "tiling",
    "tpu_layout",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
