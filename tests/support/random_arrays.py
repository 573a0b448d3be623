"""Random array shapes of a few small dimensions in any order, and the positions of their elements in memory."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from xlashape.shape import (
    Layout,
    Shape,
)

__all__ = ["positions", "random_array", "random_sizes"]


def random_sizes(r: random.Random) -> list[int]:
    return [r.choice([1, 1, 2, 3, 4]) for _ in range(r.randint(0, 4))]


def random_array(r: random.Random, sizes: list[int]) -> Shape:
    order = list(range(len(sizes)))
    r.shuffle(order)
    return Shape.array("s32", sizes, Layout(order))


def positions(shape: Shape) -> np.ndarray[Any, Any]:
    """An array with the dimensions of `shape`: the position of each element in memory."""
    order = shape.layout.major_to_minor if shape.layout else range(shape.rank)
    physical = np.arange(math.prod(shape.dimensions)).reshape([shape.dimensions[d] for d in order])
    return physical.transpose(np.argsort(np.array(order, dtype=int)))
