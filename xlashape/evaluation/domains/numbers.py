"""Constants as elements of the field.

A constant stands for the simplest rational number within 2⁻²² of it: 0.333333343 is 1/3, so that folding 1/3 changes
nothing. A constant near √n or 1/√n for a small n is a root of n or 1/n, if there is one. The product of two constants
stands for that of theirs, since compilers multiply constants. Constants that differ by less than 2⁻²⁰ of their size are
the same element, whichever program has them.
"""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from bisect import bisect_left, insort
from typing import Final

import numpy as np

from xlashape.evaluation.domains.domain import Array
from xlashape.evaluation.domains.modular import P

INFINITY: Final = P
"""Stands for ∞, where elements of the field are below p; the two numbers after it for −∞ and NaN."""
NEGATIVE: Final = P + 1
NAN: Final = P + 2

_EXACT: Final = 1 << 20
_ROOTS: Final = 1 << 12
_FEW: Final = 1 << 8
"""Constants, at most, among which factors of another one are looked for."""
_FACTOR: Final = 1 << 4
"""The largest integer that may be one of two factors."""
_NEAR: Final = 2.0**-22
_SAME: Final = 2.0**-20


class FieldNumbers:
    """The elements that constants stand for, so far."""

    def __init__(self) -> None:
        self._elements: dict[float, int] = {}
        self._sizes: list[float] = []

    def lifted(self, x: Array) -> Array:
        """The elements of numbers."""
        if x.size > 64 and 0 not in x.strides:
            unique, back = np.unique(x, return_inverse=True)
            found: Array = self._each(unique)[back].reshape(x.shape)
            return found
        if 0 in x.strides and x.size:
            once = x[tuple([slice(0, 1) if stride == 0 else slice(None) for stride in x.strides])]
            return np.broadcast_to(self.lifted(np.array(once)), x.shape)
        flat: Array = self._each(x.ravel()).reshape(x.shape)
        return flat

    def _each(self, x: Array) -> Array:
        return np.array([self._element(v) for v in x.tolist()], np.int64)

    def _element(self, v: float) -> int:
        found = self._elements.get(v)
        if found is None:
            found = self._elements[v] = self._new(v)
        return found

    def _new(self, v: float) -> int:
        if not math.isfinite(v):
            return NAN if math.isnan(v) else INFINITY if v > 0 else NEGATIVE
        if v < 0:
            return -self._element(-v) % P
        if v == 0:
            return 0
        simple = whole_or_inverse(v, _EXACT)
        if simple is not None:
            return simple
        at = bisect_left(self._sizes, v * (1 - _SAME))
        if at < len(self._sizes) and self._sizes[at] <= v * (1 + _SAME):
            return self._elements[self._sizes[at]]
        square = whole_or_inverse(v * v, _ROOTS)
        found = None if square is None else pow(square, 1 << 29, P)
        if found is None or found * found % P != square:
            found = self._product(v)
        if found is None:
            mantissa, exponent = math.frexp(v)
            n, d = simplest(2 * mantissa * (1 - _NEAR), 2 * mantissa * (1 + _NEAR))
            found = n * pow(d, P - 2, P) * pow(2, (exponent - 1) % (P - 1), P) % P
        self._sizes.insert(at, v)
        if math.isfinite(1 / v):
            self._elements[1 / v] = pow(found, P - 2, P)
            insort(self._sizes, 1 / v)
        return found

    def _product(self, v: float) -> int | None:
        """The product of two known constants, or of one and a small integer or its inverse, if v is one."""
        for size in self._sizes if len(self._sizes) <= _FEW else ():
            rest = v / size
            factor = whole_or_inverse(rest, _FACTOR)
            if factor is None:
                at = bisect_left(self._sizes, rest * (1 - _NEAR))
                if at < len(self._sizes) and self._sizes[at] <= rest * (1 + _NEAR):
                    factor = self._elements[self._sizes[at]]
            if factor is not None:
                return self._elements[size] * factor % P
        return None


def whole_or_inverse(v: float, most: int) -> int | None:
    """The element of a positive number that is an integer of at most `most`, or the inverse of one."""
    for w, is_inverse in ((v, False), (1 / v, True)) if 2.0**-1000 < v < 2.0**1000 else ():
        whole = round(w)
        if 0 < whole <= most and abs(w - whole) <= _NEAR * w:
            return pow(whole, P - 2, P) if is_inverse else whole
    return None


def simplest(low: float, high: float) -> tuple[int, int]:
    """The fraction with the least denominator in an interval of positive numbers.

    >>> simplest(0.3333, 0.3334), simplest(3.14159, 3.1416)
    ((1, 3), (355, 113))
    """
    whole = math.floor(low)
    if whole == low:
        return whole, 1
    if whole + 1 <= high:
        return whole + 1, 1
    n, d = simplest(1 / (high - whole), 1 / (low - whole))
    return whole * n + d, n
