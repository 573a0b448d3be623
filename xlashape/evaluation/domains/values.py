"""PlainNumbers: floats are NumPy's numbers of 64 bits, complex numbers those of 128 bits."""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from xlashape.evaluation.domains.domain import Array, FloatDomain
from xlashape.shape import PrimitiveType


def _half_away(x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


_FUNCTIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cosh": np.cosh,
    "cosine": np.cos,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "exp2": np.exp2,
    "exponential-minus-one": np.expm1,
    "floor": np.floor,
    "log-plus-one": np.log1p,
    "log2": np.log2,
    "round-nearest-afz": _half_away,
    "round-nearest-even": np.round,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sine": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}
_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}


def compared(direction: str, a: Array, b: Array) -> Array:
    """FieldNumbers compared by EQ, NE, LT, LE, GT or GE."""
    return np.asarray(_COMPARISONS[direction](a, b))


def saturated(x: Array, dtype: np.dtype[Any]) -> Array:
    """Floats cut to integers: saturated, and 0 for a NaN."""
    if dtype.kind == "b":
        return np.asarray(x != 0)
    try:
        bounds: Any = np.iinfo(dtype)
    except ValueError:
        import ml_dtypes  # integers below 8 bits

        bounds = ml_dtypes.iinfo(dtype)
    whole = np.trunc(np.where(np.isnan(x), 0, x))
    low, high = int(bounds.min), int(bounds.max)
    inside = np.clip(whole, float(low), float(high))
    found = np.where(inside >= 2.0**63, 0, inside).astype(np.int64).astype(dtype)
    # The greatest integers of 64 bits are no floats.
    if high > 1 << 53:
        large = inside >= 2.0**63
        found = np.where(large, np.where(whole >= float(high), high, inside).astype(np.uint64).astype(dtype), found)
        found = np.where(whole >= float(high), np.asarray(high, dtype), found)
    return np.asarray(found, dtype)


def _method(function: Callable[..., Any]) -> Any:
    """A function of NumPy as a method."""
    return staticmethod(function)


class PlainNumbers(FloatDomain):
    """FieldNumbers of 64 bits; with `rounds`, each result is rounded to its declared type."""

    def __init__(self, *, rounds: bool = False) -> None:
        self._rounds = rounds

    def number(self, x: Any) -> Array:
        array = np.asarray(x)
        return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)

    def rounded(self, x: Array, element_type: PrimitiveType) -> Array:
        if self._rounds and x.dtype.kind in "fc" and (element_type.is_floating or element_type.is_complex):
            return x.astype(element_type.numpy_dtype()).astype(x.dtype)
        return x

    def converted(self, x: Array, source: PrimitiveType, target: PrimitiveType) -> Array:
        return x

    def reduced(self, x: Array, exponent_bits: int, mantissa_bits: int) -> Array:
        mantissa, exponent = np.frexp(x)
        bits = mantissa_bits + 1
        rounded = np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)
        bias, exponent = (1 << (exponent_bits - 1)) - 1, np.frexp(rounded)[1] - 1
        rounded = np.where(exponent > bias, np.copysign(np.inf, x), rounded)
        return np.where((rounded != 0) & (exponent < 1 - bias), np.copysign(0.0, x), rounded)

    def integer(self, x: Array, dtype: np.dtype[Any]) -> Array:
        return saturated(x, dtype)

    def bits(self, x: Array, dtype: np.dtype[Any]) -> Array:
        found: Array = np.ascontiguousarray(x.astype(dtype)).view(f"u{dtype.itemsize}").reshape(x.shape)
        return found

    def of_bits(self, bits: Array, dtype: np.dtype[Any]) -> Array:
        return self.number(np.ascontiguousarray(bits).view(dtype).reshape(bits.shape))

    def joined(self, arrays: Sequence[Any]) -> list[Array]:
        return [np.asarray(x) for x in arrays]

    def complex(self, first: Array, second: Array) -> Array:
        found: Array = np.empty(np.broadcast_shapes(first.shape, second.shape), np.complex128)
        found.real, found.imag = first, second
        return found

    real = _method(np.real)
    imag = _method(np.imag)
    add = _method(np.add)
    negate = _method(np.negative)
    multiply = _method(np.multiply)
    divide = _method(np.divide)
    remainder = _method(np.fmod)
    power = _method(np.power)

    def sum(self, x: Array, axes: tuple[int, ...]) -> Array:
        return np.asarray(x.sum(axes))

    def add_at(self, out: Array, places: tuple[Array, ...], values: Array) -> Array:
        np.add.at(out, places, values)
        return out

    matmul = _method(np.matmul)

    def compare(self, direction: str, a: Array, b: Array, *, total: bool = False) -> Array:
        return compared(direction, _total(a), _total(b)) if total else compared(direction, a, b)

    maximum = _method(np.maximum)
    minimum = _method(np.minimum)

    def greatest(self, x: Array, axes: tuple[int, ...]) -> Array:
        return np.asarray(x.max(axes, initial=-np.inf))

    abs = _method(np.abs)
    sign = _method(np.sign)
    is_finite = _method(np.isfinite)
    sqrt = _method(np.sqrt)
    exponential = _method(np.exp)
    log = _method(np.log)

    def function(self, name: str, x: Array) -> Array:
        return np.asarray(_FUNCTIONS[name](x))

    atan2 = _method(np.arctan2)

    def rsqrt(self, x: Array) -> Array:
        return self.function("rsqrt", x)

    exponential_minus_one = _method(np.expm1)
    log_plus_one = _method(np.log1p)
    tanh = _method(np.tanh)


def _total(x: Array) -> Array:
    """Integers in the total order of floats: −NaN, −∞, …, −0, 0, …, ∞, NaN."""
    bits = np.ascontiguousarray(x, np.float64).view(np.int64).reshape(np.shape(x))
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
