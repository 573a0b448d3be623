"""Roundings: a hash stands for the result of each operation that rounds, so that two programs have the same results if
they round the same numbers in the same way.

Movement, negation, absolute values and comparisons are exact. A sum or product is the same for either order of its
operands, and so is a sum of several elements for any order of them: XLA leaves it open.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from xlashape.evaluation.domains.domain import Array
from xlashape.evaluation.domains.field import Field, lifted
from xlashape.evaluation.domains.modular import P, half, hashed, negated
from xlashape.evaluation.domains.numbers import FieldNumbers
from xlashape.shape import PrimitiveType


class Exact(FieldNumbers):
    """Each number is an element of its own."""

    def _element(self, v: float) -> int:
        return super()._element(v) if v in (0.0, 1.0, -1.0) or not np.isfinite(v) else self._of(v)

    def _of(self, v: float) -> int:
        bits = np.array([struct.unpack("<q", struct.pack("<d", abs(v)))[0]])
        found = int(hashed(bits, 5)[0])
        found = found * found % P
        return found if v > 0 else P - found


class Roundings(Field):
    """Hashes of roundings."""

    def __init__(self, key: int, numbers: FieldNumbers | None = None) -> None:
        super().__init__(key, numbers or Exact())

    def converted(self, x: Array, source: PrimitiveType, target: PrimitiveType) -> Array:
        """A wider type has the same numbers; in a narrower one they are rounded."""
        one, other = source.float_format, target.float_format
        if x.dtype.kind != "i" or one is None or other is None:
            return x
        if other.mantissa_bits >= one.mantissa_bits and other.overflow_exponent >= one.overflow_exponent:
            return x
        return self._odd(x, f"to {target.text}")

    def reduced(self, x: Array, exponent_bits: int, mantissa_bits: int) -> Array:
        return self._odd(x, f"to {exponent_bits} and {mantissa_bits} bits") if x.dtype.kind == "i" else x

    def _odd(self, x: Array, name: str) -> Array:
        size, is_negative = half(np.where(x < P, x, 0))
        found = np.where(size == 0, 0, hashed(size, self._key(name)))
        return np.where(x < P, np.where(is_negative, negated(found), found), x)

    def clamp(self, low: Array, x: Array, high: Array) -> Array:
        """Not the same as a maximum and a minimum: XLA leaves open what clamp makes of a NaN."""
        found = super().clamp(low, x, high)
        return self._odd(found, "clamp") if found.dtype.kind == "i" else found

    def _pair(self, a: Array, b: Array, name: str) -> Array:
        low, high = np.minimum(a, b), np.maximum(a, b)
        return hashed(low ^ hashed(high, self._key(name)), self._key(name))

    @lifted
    def add(self, a: Array, b: Array) -> Array:
        (x, minus_x), (y, minus_y) = half(np.where(a < P, a, 0)), half(np.where(b < P, b, 0))
        # −a − b is −(a + b): the hash is that of the sum in which the operand of the greater size is positive.
        turned = np.where(x >= y, minus_x, minus_y)
        found = self._pair(np.where(turned, negated(a), a), np.where(turned, negated(b), b), "add")
        found = np.where(turned, negated(found), found)
        found = np.where(a == 0, b, np.where(b == 0, a, np.where((x == y) & (minus_x != minus_y), 0, found)))
        return self.patched(found, np.add, a, b)

    @lifted
    def multiply(self, a: Array, b: Array) -> Array:
        (x, minus_x), (y, minus_y) = half(np.where(a < P, a, 0)), half(np.where(b < P, b, 0))
        found = np.where(x == 1, y, np.where(y == 1, x, self._pair(x, y, "multiply")))
        found = np.where((a == 0) | (b == 0), 0, np.where(minus_x != minus_y, negated(found), found))
        return self.patched(found, np.multiply, a, b)

    @lifted
    def divide(self, a: Array, b: Array) -> Array:
        (x, minus_x), (y, minus_y) = half(np.where(a < P, a, 0)), half(np.where(b < P, b, 0))
        found = np.where(y == 1, x, hashed(x ^ hashed(y, self._key("divisor")), self._key("divide")))
        found = np.where(a == 0, 0, np.where(minus_x != minus_y, negated(found), found))
        return self.patched(found, np.divide, a, b, by_zero=True)

    @lifted
    def sum(self, x: Array, axes: tuple[int, ...]) -> Array:
        count = int(np.prod([x.shape[d] for d in axes], dtype=np.int64))
        if count == 1:
            return x.reshape([n for d, n in enumerate(x.shape) if d not in axes])
        return self._odd(super().sum(self._odd(x, "summand"), axes), "sum")

    @lifted
    def matmul(self, a: Array, b: Array) -> Array:
        return self._odd(super().matmul(self._odd(a, "factor"), self._odd(b, "factor")), "products")

    def add_at(self, out: Array, places: tuple[Array, ...], values: Array) -> Array:
        out, values = self.joined([out, values])
        for row in range(len(values)):
            here = tuple([place[row] for place in places])
            out, found = self.joined([out, self.add(out[here], values[row])])
            out[here] = found
        return out

    @lifted
    def sqrt(self, x: Array) -> Array:
        size, is_negative = half(np.where(x < P, x, 0))
        found = hashed(size, self._key("sqrt"))
        found = np.where(size <= 1, size, found * found % P)
        return np.where(x < P, np.where(is_negative, negated(found), found), x)

    @lifted
    def log(self, x: Array) -> Array:
        return np.where(x < P, np.where(x == 1, 0, hashed(x, self._key("log"))), x)

    def power(self, a: Array, b: Array) -> Array:
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype.kind != "i" and b.dtype.kind != "i":
            return self.values.power(a, b)
        return hashed(self.lift(a) ^ hashed(self.lift(b), self._key("exponent")), self._key("power"))

    def _composed(self, name: str, x: Array, function: Callable[[Array], Any]) -> Array:
        return np.asarray(function(x)) if x.dtype.kind != "i" else self._odd(x, name)

    def logistic(self, x: Array) -> Array:
        return self._composed("logistic", x, super().logistic)

    def exponential_minus_one(self, x: Array) -> Array:
        return self._composed("expm1", x, self.values.exponential_minus_one)

    def log_plus_one(self, x: Array) -> Array:
        return self._composed("log1p", x, self.values.log_plus_one)

    def tanh(self, x: Array) -> Array:
        return self._composed("tanh", x, self.values.tanh)

    def rsqrt(self, x: Array) -> Array:
        return self._composed("rsqrt", x, self.values.rsqrt)
