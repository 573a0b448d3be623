"""FloatDomain: the operations on floats that evaluators use. Their names are those of the opcodes.

A domain has the first group; the second follows from it by identities that hold in the reals, and a domain may have
better ones. Complex operations are pairs of real ones (`xlashape.evaluation.elementwise`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from xlashape.shape import PrimitiveType

Array: TypeAlias = "np.ndarray[Any, Any]"


class FloatDomain(Protocol):
    """The operations on floats."""

    # -- from numbers and back ---------------------------------------------------------------------

    def number(self, x: Any) -> Array:
        """Constants and inputs, which are arrays of any type of floats or complex numbers."""
        ...

    def rounded(self, x: Array, element_type: PrimitiveType) -> Array:
        """The result of an operation, rounded to its type if the domain rounds."""
        ...

    def converted(self, x: Array, source: PrimitiveType, target: PrimitiveType) -> Array:
        """Floats of one type as floats of another type."""
        ...

    def integer(self, x: Array, dtype: np.dtype[Any]) -> Array:
        """Floats cut to integers: saturated, and 0 for a NaN."""
        ...

    def bits(self, x: Array, dtype: np.dtype[Any]) -> Array:
        """The bits of floats of `dtype`, as unsigned integers."""
        ...

    def of_bits(self, bits: Array, dtype: np.dtype[Any]) -> Array:
        """The floats of `dtype` that have these bits."""
        ...

    def joined(self, arrays: Sequence[Any]) -> list[Array]:
        """Arrays in a form in which elements of one may stand beside those of another."""
        ...

    def complex(self, first: Array, second: Array) -> Array: ...

    def real(self, x: Array) -> Array: ...

    def imag(self, x: Array) -> Array: ...

    # -- arithmetic --------------------------------------------------------------------------------

    def add(self, a: Array, b: Array) -> Array: ...

    def negate(self, x: Array) -> Array: ...

    def multiply(self, a: Array, b: Array) -> Array: ...

    def divide(self, a: Array, b: Array) -> Array: ...

    def remainder(self, a: Array, b: Array) -> Array: ...

    def power(self, a: Array, b: Array) -> Array: ...

    def sum(self, x: Array, axes: tuple[int, ...]) -> Array:
        """The sums along axes."""
        ...

    def add_at(self, out: Array, places: tuple[Array, ...], values: Array) -> Array:
        """`out`, with values added at places. A place may occur several times."""
        ...

    def matmul(self, a: Array, b: Array) -> Array:
        """The products of matrices [batch, m, k] and [batch, k, n]."""
        ...

    # -- order -------------------------------------------------------------------------------------

    def compare(self, direction: str, a: Array, b: Array, *, total: bool = False) -> Array:
        """Compares by EQ, NE, LT, LE, GT or GE; `total`: NaN and signs of zeros take part."""
        ...

    def maximum(self, a: Array, b: Array) -> Array: ...

    def minimum(self, a: Array, b: Array) -> Array: ...

    def greatest(self, x: Array, axes: tuple[int, ...]) -> Array:
        """The maxima along axes."""
        ...

    def abs(self, x: Array) -> Array: ...

    def sign(self, x: Array) -> Array: ...

    def is_finite(self, x: Array) -> Array: ...

    # -- functions ---------------------------------------------------------------------------------

    def sqrt(self, x: Array) -> Array: ...

    def exponential(self, x: Array) -> Array: ...

    def log(self, x: Array) -> Array: ...

    def function(self, name: str, x: Array) -> Array:
        """The other functions of one number, by the names of their opcodes."""
        ...

    def atan2(self, a: Array, b: Array) -> Array: ...

    # -- what follows ------------------------------------------------------------------------------

    def reduced(self, x: Array, exponent_bits: int, mantissa_bits: int) -> Array:
        """Floats rounded to a smaller format."""
        return x

    def subtract(self, a: Array, b: Array) -> Array:
        return self.add(a, self.negate(b))

    def clamp(self, low: Array, x: Array, high: Array) -> Array:
        return self.minimum(self.maximum(low, x), high)

    def least(self, x: Array, axes: tuple[int, ...]) -> Array:
        """The minima along axes."""
        return self.negate(self.greatest(self.negate(x), axes))

    def one(self, factor: float = 1.0) -> Array:
        return self.number(np.float64(factor))

    def rsqrt(self, x: Array) -> Array:
        return self.divide(self.one(), self.sqrt(x))

    def exponential_minus_one(self, x: Array) -> Array:
        return self.subtract(self.exponential(x), self.one())

    def log_plus_one(self, x: Array) -> Array:
        return self.log(self.add(x, self.one()))

    def logistic(self, x: Array) -> Array:
        return self.divide(self.one(), self.add(self.one(), self.exponential(self.negate(x))))

    def tanh(self, x: Array) -> Array:
        twice = self.exponential(self.multiply(x, self.one(-2)))
        return self.divide(self.subtract(self.one(), twice), self.add(self.one(), twice))

    def exp2(self, x: Array) -> Array:
        return self.exponential(self.multiply(x, self.one(np.log(2))))

    def log2(self, x: Array) -> Array:
        return self.divide(self.log(x), self.one(np.log(2)))

    def sinh(self, x: Array) -> Array:
        return self.divide(self.subtract(self.exponential(x), self.exponential(self.negate(x))), self.one(2))

    def cosh(self, x: Array) -> Array:
        return self.divide(self.add(self.exponential(x), self.exponential(self.negate(x))), self.one(2))

    def tan(self, x: Array) -> Array:
        return self.divide(self.function("sine", x), self.function("cosine", x))
