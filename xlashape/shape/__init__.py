"""Shapes and layouts as frozen values, with their text and protos, tiled indexing, and XLA's utilities for them.

Each file imports only from those below it in this list:

- `xla_util`: the functions of XLA's ShapeUtil, LayoutUtil and IndexUtil as `shape_util`, `layout_util` and
  `index_util`; `primitive_util`
- `tpu_layout`: the layouts that TPUs give to arrays
- `legacy`: layouts written before 2018
- `tiling`: where elements lie in the buffer of a tiled array
- `arguments`: checks of arguments that functions on shapes share
- `value`: `Shape` and `Layout`, `ProgramShape`, `ShapeIndex`
- `text`, `proto_codec`: shapes and layouts as text and as protos; `shape_of`: shapes of objects of other libraries
- `parts`: what shapes and layouts are made of: `PrimitiveType`, `Tile`, `SplitConfig`; and `Target`, a kind of device

The modules of functions are imported on first use: `xlashape.shape.tiling`, or `from xlashape.shape import tiling`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.target import Target
from xlashape.shape.parts.tile import COMBINE, UNBOUNDED_SIZE, WHOLE_DIMENSION, SplitConfig, Tile
from xlashape.shape.value.program_shape import ProgramShape
from xlashape.shape.value.shape import Layout, Shape
from xlashape.shape.value.shape_index import ShapeIndex

if TYPE_CHECKING:
    from xlashape.shape import legacy as legacy
    from xlashape.shape import tiling as tiling
    from xlashape.shape import tpu_layout as tpu_layout
    from xlashape.shape.xla_util import index_util as index_util
    from xlashape.shape.xla_util import layout_util as layout_util
    from xlashape.shape.xla_util import primitive_util as primitive_util
    from xlashape.shape.xla_util import shape_util as shape_util

# Modules that are imported on first use, to keep the start of the library short: public name → module.
_LAZY = {
    "index_util": "xlashape.shape.xla_util.index_util",
    "layout_util": "xlashape.shape.xla_util.layout_util",
    "legacy": "xlashape.shape.legacy",
    "primitive_util": "xlashape.shape.xla_util.primitive_util",
    "shape_util": "xlashape.shape.xla_util.shape_util",
    "tiling": "xlashape.shape.tiling",
    "tpu_layout": "xlashape.shape.tpu_layout",
}

__all__ = [
    *_LAZY,
    "COMBINE",
    "Layout",
    "PrimitiveType",
    "ProgramShape",
    "Shape",
    "ShapeIndex",
    "SplitConfig",
    "Target",
    "Tile",
    "UNBOUNDED_SIZE",
    "WHOLE_DIMENSION",
]  # pyright: ignore[reportUnsupportedDunderAll] - `__getattr__` imports the names in `_LAZY`


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = module = import_module(_LAZY[name])
    return module


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
