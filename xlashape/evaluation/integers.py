"""Integers and predicates: concrete numbers of their own width, which wrap around."""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from xlashape.evaluation.machine import Array


def width(x: Array) -> int:
    """The bits of an element."""
    if x.dtype.kind in "biu":
        return x.dtype.itemsize * 8
    import ml_dtypes  # integers below 8 bits

    return int(ml_dtypes.iinfo(x.dtype).bits)


def is_signed(x: Array) -> bool:
    return x.dtype.kind == "i" or x.dtype.name.startswith("int")


def unsigned(x: Array) -> Array:
    """The bits of the elements, as unsigned integers of at least 8 bits."""
    if x.dtype.kind in "iu":
        return (
            x.view(f"u{x.dtype.itemsize}")
            if x.ndim
            else np.asarray(x).reshape(1).view(f"u{x.dtype.itemsize}")[0:1].reshape(())
        )
    return x.astype(np.int8).astype(np.uint8) & np.uint8((1 << width(x)) - 1)


def _of_bits(bits: Array, dtype: np.dtype[Any]) -> Array:
    return np.asarray(bits).astype(dtype)


def divide(a: Array, b: Array) -> Array:
    """The quotient, cut to an integer; all bits set for a divisor of 0."""
    safe = np.where(b == 0, np.ones_like(b), b)
    quotient = a // safe
    if is_signed(a):
        quotient = quotient + ((a % safe != 0) & ((a < 0) != (safe < 0))).astype(a.dtype)
    return np.asarray(np.where(b == 0, np.invert(np.zeros_like(a)), quotient), a.dtype)


def remainder(a: Array, b: Array) -> Array:
    """The remainder with the sign of the dividend, which is the result for a divisor of 0."""
    safe = np.where(b == 0, np.ones_like(b), b)
    return np.asarray(np.where(b == 0, a, a - divide(a, safe) * safe), a.dtype)


def power(a: Array, b: Array) -> Array:
    """a to the power of b; for a negative b 0, but for a of 1 and −1."""
    found: Array = np.ones_like(a)
    base: Array = a.copy()
    exponent: Array = np.maximum(b, 0).astype(np.int64)
    while exponent.any():
        found = np.where(exponent & 1, found * base, found)
        base, exponent = base * base, exponent >> 1
    if is_signed(a):
        inverse = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0))
        found = np.where(b < 0, inverse, found)
    return np.asarray(found, a.dtype)


def _left(a: Array, b: Array) -> Array:
    beyond = unsigned(b) >= width(a)
    return np.where(beyond, np.zeros_like(a), np.left_shift(a, np.where(beyond, np.zeros_like(b), b)))


def _logical(a: Array, b: Array) -> Array:
    beyond = unsigned(b) >= width(a)
    shifted = np.right_shift(unsigned(a), np.where(beyond, np.zeros_like(unsigned(b)), unsigned(b)))
    return _of_bits(np.where(beyond, np.zeros_like(shifted), shifted), a.dtype)


def _arithmetic(a: Array, b: Array) -> Array:
    most = np.asarray(width(a) - 1, b.dtype)
    return np.right_shift(a, np.where(unsigned(b) >= width(a), most, b))


def _high(a: Array, b: Array) -> Array:
    """The upper half of the product of 32-bit numbers."""
    wide = np.int64 if is_signed(a) else np.uint64
    return (a.astype(wide) * b.astype(wide) >> wide(32)).astype(a.dtype)


def _population(x: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(unsigned(x))[..., None].view(np.uint8), axis=-1)
    return bits.sum(-1).reshape(x.shape).astype(x.dtype)


def _leading(x: Array) -> Array:
    rest, count = unsigned(x).astype(np.uint64), np.full(x.shape, width(x))
    while rest.any():
        count, rest = count - (rest != 0), rest >> np.uint64(1)
    return count.astype(x.dtype)


UNARY: Final[dict[str, Callable[[Array], Any]]] = {
    "abs": np.abs,
    "negate": lambda x: np.zeros_like(x) - x,
    "not": np.invert,
    "popcnt": _population,
    "count-leading-zeros": _leading,
    "sign": lambda x: np.sign(x).astype(x.dtype),
}
BINARY: Final[dict[str, Callable[[Array, Array], Any]]] = {
    "add": np.add,
    "and": np.bitwise_and,
    "divide": divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mulhi": _high,
    "multiply": np.multiply,
    "or": np.bitwise_or,
    "power": power,
    "remainder": remainder,
    "shift-left": _left,
    "shift-right-arithmetic": _arithmetic,
    "shift-right-logical": _logical,
    "subtract": lambda a, b: np.bitwise_xor(a, b) if a.dtype.kind == "b" else np.subtract(a, b),
    "xor": np.bitwise_xor,
}
