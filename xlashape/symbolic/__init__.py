"""Indexing maps: which elements of one tensor belong to one element of another, as integer expressions over bounded
variables.

A subpackage imports only those above it in this list:

- `expr`: expressions and intervals.
- `simplify`: the simplifier, which writes expressions as XLA does.
- `map`: indexing maps, their text, messages and algebra.
- `tile`: tiles pushed through maps.

All names for users are exported here.
"""

from xlashape.symbolic.expr.evaluate import evaluate
from xlashape.symbolic.expr.expression import (
    Add,
    Binary,
    CeilDiv,
    Constant,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Mul,
    Variable,
    VariableKind,
    ceil_div,
    const,
    dim,
    floor_div,
    maximum,
    minimum,
    modulo,
    replace,
    rng,
    rt,
)
from xlashape.symbolic.expr.ranges import Interval
from xlashape.symbolic.map.indexing_map import IndexingMap, WithoutUnused, parse_with_producers
from xlashape.symbolic.map.parts import MapParts, Producer, Var
from xlashape.symbolic.map.transforms import (
    domain_blocks,
    domain_size,
    image_bounds,
    image_size,
    inverse,
    join_digits,
    ranges_to_dims,
    rescale_symbols,
    same_function,
    select_results,
)
from xlashape.symbolic.tile.constraints import Divides, InRange, TileConstraints
from xlashape.symbolic.tile.symbolic_tile import SymbolicTile, TileBox, symbolic_tile

__all__ = [
    "Add", "Binary", "CeilDiv", "Constant", "Divides", "Expr", "FloorDiv", "InRange", "IndexingMap", "Interval",
    "MapParts", "Max", "Min", "Mod", "Mul", "Producer", "SymbolicTile", "TileBox", "TileConstraints", "Var", "Variable",
    "VariableKind", "WithoutUnused", "ceil_div", "const", "dim", "domain_blocks", "domain_size", "evaluate",
    "floor_div", "image_bounds", "image_size", "inverse", "join_digits", "maximum", "minimum", "modulo",
    "parse_with_producers", "ranges_to_dims", "replace", "rescale_symbols", "rng", "rt", "same_function",
    "select_results", "symbolic_tile",
]  # fmt: skip
