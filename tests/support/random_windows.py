"""Modules of a reduce-window with a random window, and how much they calculate, by enumeration."""

from __future__ import annotations

import random
from math import prod
from typing import NamedTuple


class Dimension(NamedTuple):
    """A dimension of the operand, and the window in it."""

    length: int
    size: int = 1
    low: int = 0
    high: int = 0
    stride: int = 1
    dilation: int = 1
    base: int = 1
    is_reversed: bool = False

    @property
    def outputs(self) -> int:
        span = (self.length - 1) * self.base + 1 + self.low + self.high
        return (span - (self.size - 1) * self.dilation - 1) // self.stride + 1

    def read(self, output: int) -> set[int]:
        """The elements that the window of an output reads."""
        first = output * self.stride - self.low
        places = [first + place * self.dilation for place in range(self.size)]
        return {place // self.base for place in places if place % self.base == 0} & set(range(self.length))


def drawn(draw: random.Random) -> list[Dimension]:
    """The dimensions of a window, of which some cover the operand."""

    def one() -> Dimension:
        n, kind = draw.choice([1, 2, 3, 4, 5, 6, 8]), draw.randrange(4)
        if kind == 0:
            return Dimension(n)
        if kind == 1:
            return Dimension(n, 2 * n - 1, n - 1, n - 1)
        if kind == 2:
            wider = draw.randint(0, 3)
            low, high = [n - 1 + draw.randint(0, wider) for _ in range(2)]
            return Dimension(n, 2 * n - 1 + wider, low, high, is_reversed=draw.random() < 0.3)
        steps = [draw.choice([1, 1, 2, 3]) for _ in range(3)]
        return Dimension(n, draw.randint(1, 9), draw.randint(-1, 8), draw.randint(-1, 8), steps[0], steps[1], steps[2])

    while True:
        found = [one() for _ in range(draw.choice([1, 1, 2, 2, 3]))]
        if all(each.outputs > 0 for each in found):
            return found


def text_of(dimensions: list[Dimension]) -> str:
    """A module that adds up the elements in each window."""
    parts = {
        "size": [each.size for each in dimensions],
        "stride": [each.stride for each in dimensions],
        "pad": [f"{each.low}_{each.high}" for each in dimensions],
        "lhs_dilate": [each.base for each in dimensions],
        "rhs_dilate": [each.dilation for each in dimensions],
        "rhs_reversal": [int(each.is_reversed) for each in dimensions],
    }
    window = " ".join([f"{name}={'x'.join(map(str, values))}" for name, values in parts.items()])
    given, made = [",".join([str(getattr(each, name)) for each in dimensions]) for name in ("length", "outputs")]
    return f"""HloModule m
    add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
    ENTRY e {{ p = f32[{given}] parameter(0) z = f32[] constant(0)
      ROOT r = f32[{made}] reduce-window(p, z), window={{{window}}}, to_apply=add }}"""


def additions(dimensions: list[Dimension]) -> int:
    """How many additions there are, if windows that cover a dimension are added up once, and padding counts."""
    covered = [all(len(each.read(o)) == each.length for o in range(each.outputs)) for each in dimensions]
    pairs = list(zip(dimensions, covered, strict=True))
    results = prod([1 if is_covered else each.outputs for each, is_covered in pairs])
    return results * (prod([each.length if is_covered else each.size for each, is_covered in pairs]) - 1)
