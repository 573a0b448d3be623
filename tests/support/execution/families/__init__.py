"""The families of random cases, in a file for each group of operations. Importing this package registers them all."""

from execution.families import (
    contraction,
    control,
    elementwise,
    indexed,
    linear_algebra,
    movement,
    programs,
    reduction,
    slicing,
    windows,
)

__all__ = [
    "contraction",
    "control",
    "elementwise",
    "indexed",
    "linear_algebra",
    "movement",
    "programs",
    "reduction",
    "slicing",
    "windows",
]
