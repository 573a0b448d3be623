"""The rules, a family a file. Importing this package registers them all."""

from xlashape.indexing.ops import (
    collective,
    contraction,
    control,
    elementwise,
    gather,
    linear_algebra,
    movement,
    ragged,
    reduction,
    reshape,
    slicing,
)

__all__ = [
    "collective",
    "contraction",
    "control",
    "elementwise",
    "gather",
    "linear_algebra",
    "movement",
    "ragged",
    "reduction",
    "reshape",
    "slicing",
]
