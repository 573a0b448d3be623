"""XLA's data model as a small library: shapes, layouts, tiled indexing, HLO modules and indexing maps, without XLA.

>>> import xlashape as xs
>>> shape = xs.Shape.parse("f32[3,5]{1,0:T(2,2)}")
>>> xs.tiling.linear_index(shape, (2, 3))
17

The names of this module are imported on first use, so that `import xlashape` takes almost no time.

- `shape`, `symbolic`, `hlo`, `indexing`: shapes; expressions and maps; HLO modules; the indexing analysis.
- `reports`: answers about whole programs as tables: why buffers are as large as they are, …
- `evaluation`: the value of every instruction, as numbers or as elements of a finite field.
- `scan`: many dumps as tables, in Parquet or in a data engine such as Spark.
- `agents`: the reports and pictures as tools for coding agents. `recognition`: what a text or a file is.
- `drawing`: pictures of layouts, reads, memory and time. `page`: the page about anything as one file.
- `cli`: the command line. `pytest_plugin`: tests that a program has not become worse.
- `proto`: the compiled schema and the wire format. `v1`: the messages of the service as protoc generates them.
  `data`: an example module.
- `errors`, `limits`: what every floor raises and is bounded by. `base`: small parts that the packages share.
"""

from __future__ import annotations

from importlib import import_module

# Not from typing, whose import would take most of the time of `import xlashape`. Type checkers recognise the constant
# by its name.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from xlashape import drawing as drawing
    from xlashape import errors as errors
    from xlashape import evaluation as evaluation
    from xlashape import hlo as hlo
    from xlashape import indexing as indexing
    from xlashape import limits as limits
    from xlashape import proto as proto
    from xlashape import reports as reports
    from xlashape import scan as scan
    from xlashape import shape as shape
    from xlashape import symbolic as symbolic
    from xlashape.base import caches as caches
    from xlashape.base.version import __version__ as __version__
    from xlashape.drawing import draw as draw
    from xlashape.errors import XlashapeError as XlashapeError
    from xlashape.evaluation import evaluate as evaluate
    from xlashape.hlo import HloComputation as HloComputation
    from xlashape.hlo import HloInstruction as HloInstruction
    from xlashape.hlo import HloModule as HloModule
    from xlashape.indexing import sharding as sharding
    from xlashape.page import open as open  # noqa: A004 - as xs.open(x)
    from xlashape.reports.collectives import collectives as collectives
    from xlashape.reports.copies import copies as copies
    from xlashape.reports.cost import cost as cost
    from xlashape.reports.diff import diff as diff
    from xlashape.reports.equivalent import equivalent as equivalent
    from xlashape.reports.memory import memory as memory
    from xlashape.reports.profile import profile as profile
    from xlashape.reports.reads import reads as reads
    from xlashape.reports.summary import summary as summary
    from xlashape.reports.why import why as why
    from xlashape.shape import Layout as Layout
    from xlashape.shape import PrimitiveType as PrimitiveType
    from xlashape.shape import ProgramShape as ProgramShape
    from xlashape.shape import Shape as Shape
    from xlashape.shape import ShapeIndex as ShapeIndex
    from xlashape.shape import Tile as Tile
    from xlashape.shape import index_util as index_util
    from xlashape.shape import layout_util as layout_util
    from xlashape.shape import shape_util as shape_util
    from xlashape.shape import tiling as tiling
    from xlashape.symbolic import IndexingMap as IndexingMap

# public name → (module, name in it); for a module itself, the second part is empty
_HOMES: dict[str, tuple[str, str]] = {
    "HloComputation": ("xlashape.hlo", "HloComputation"),
    "HloInstruction": ("xlashape.hlo", "HloInstruction"),
    "HloModule": ("xlashape.hlo", "HloModule"),
    "IndexingMap": ("xlashape.symbolic", "IndexingMap"),
    "Layout": ("xlashape.shape", "Layout"),
    "PrimitiveType": ("xlashape.shape", "PrimitiveType"),
    "ProgramShape": ("xlashape.shape", "ProgramShape"),
    "Shape": ("xlashape.shape", "Shape"),
    "ShapeIndex": ("xlashape.shape", "ShapeIndex"),
    "Tile": ("xlashape.shape", "Tile"),
    "XlashapeError": ("xlashape.errors", "XlashapeError"),
    "__version__": ("xlashape.base.version", "__version__"),
    "caches": ("xlashape.base.caches", ""),
    "collectives": ("xlashape.reports.collectives", "collectives"),
    "copies": ("xlashape.reports.copies", "copies"),
    "cost": ("xlashape.reports.cost", "cost"),
    "diff": ("xlashape.reports.diff", "diff"),
    "draw": ("xlashape.drawing", "draw"),
    "drawing": ("xlashape.drawing", ""),
    "equivalent": ("xlashape.reports.equivalent", "equivalent"),
    "errors": ("xlashape.errors", ""),
    "evaluate": ("xlashape.evaluation", "evaluate"),
    "evaluation": ("xlashape.evaluation", ""),
    "hlo": ("xlashape.hlo", ""),
    "index_util": ("xlashape.shape.xla_util.index_util", ""),
    "indexing": ("xlashape.indexing", ""),
    "layout_util": ("xlashape.shape.xla_util.layout_util", ""),
    "limits": ("xlashape.limits", ""),
    "memory": ("xlashape.reports.memory", "memory"),
    "open": ("xlashape.page", "open"),
    "profile": ("xlashape.reports.profile", "profile"),
    "proto": ("xlashape.proto", ""),
    "reads": ("xlashape.reports.reads", "reads"),
    "reports": ("xlashape.reports", ""),
    "scan": ("xlashape.scan", ""),
    "shape": ("xlashape.shape", ""),
    "sharding": ("xlashape.indexing.sharding", ""),
    "shape_util": ("xlashape.shape.xla_util.shape_util", ""),
    "symbolic": ("xlashape.symbolic", ""),
    "tiling": ("xlashape.shape.tiling", ""),
    "summary": ("xlashape.reports.summary", "summary"),
    "why": ("xlashape.reports.why", "why"),
}

# `from xlashape import *` leaves the builtin `open` as it is.
__all__ = [name for name in _HOMES if name not in ("open", "__version__")]  # pyright: ignore[reportUnsupportedDunderAll] - the table is above


def __getattr__(name: str) -> Any:
    try:
        home, attribute = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'xlashape' has no attribute {name!r}") from None
    module = import_module(home)
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
