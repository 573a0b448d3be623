"""Arithmetic modulo p = 2³¹ − 1 on NumPy arrays of int64, whose elements are in [0, p).

p is 3 modulo 4. So exactly one of a and −a is a square, and a to the power of 2²⁹ is a root of the square of the two,
which is a square itself.
"""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from xlashape.evaluation.domains.domain import Array

P: Final = (1 << 31) - 1
_HALF: Final = P >> 1
_GENERATOR: Final = 7


def _powers(base: int) -> Array:
    found = np.ones(1 << 16, np.int64)
    for i in range(16):
        found[1 << i : 2 << i] = found[: 1 << i] * pow(base, 1 << i, P) % P
    return found


_TABLES: list[Array] = []


def power_of_generator(exponents: Array) -> Array:
    """The square of a generator of all elements but 0, to powers in [0, p − 1)."""
    if not _TABLES:
        base = _GENERATOR * _GENERATOR
        _TABLES.extend((_powers(base), _powers(pow(base, 1 << 16, P))))
    low, high = _TABLES
    return low[exponents & 0xFFFF] * high[exponents >> 16] % P


def compacted(function: Callable[[Array], Array], x: Array) -> Array:
    """A function of each element, computed once for elements that a broadcast repeats."""
    if x.size < 64 or 0 not in x.strides:
        return function(x)
    once = x[tuple([slice(0, 1) if stride == 0 else slice(None) for stride in x.strides])]
    return np.broadcast_to(function(once), x.shape)


def _squared(x: Array, times: int) -> Array:
    for _ in range(times):
        x = x * x % P
    return x


def _each(x: Array, exponent: int) -> Array:
    found: Array = np.array([pow(int(v), exponent, P) for v in x.ravel()], np.int64).reshape(x.shape)
    return found


def inverse(x: Array) -> Array:
    """1 / x; 0 for 0."""
    if x.size <= 32:
        return _each(x, P - 2)
    # p − 2 is 29 bits of 1, then 01. Powers of 2ⁿ − 1 are made of shorter ones.
    ones = {1: x}
    for n, m in ((2, 1), (3, 1), (6, 3), (12, 6), (24, 12), (27, 3), (29, 2)):
        ones[n] = _squared(ones[n - m], m) * ones[m] % P
    return _squared(ones[29], 2) * x % P


def root(x: Array) -> Array:
    """The square root of x or of −x, whichever is a square. The root is a square."""
    if x.size <= 32:
        return _each(x, 1 << 29)
    return _squared(x, 29)


def sign(x: Array, found: Array) -> Array:
    """1 for squares, −1 for others, 0 for 0; `found` is the root of x."""
    return np.where(x == 0, 0, np.where(found * found % P == x, 1, -1))


def half(x: Array) -> tuple[Array, Array]:
    """(x or −x, whichever is at most p/2; whether it is −x)."""
    is_upper = x > _HALF
    return np.where(is_upper, P - x, x), is_upper


def negated(x: Array) -> Array:
    """−x."""
    return np.where(x == 0, 0, P - x)


def matmul(a: Array, b: Array) -> Array:
    """Products of matrices, by halves of 16 bits in floats of 64 bits, which are exact up to 2²⁰ summands."""
    most = 1 << 20
    if a.shape[-1] > most:
        rest = matmul(a[..., most:], b[..., most:, :])
        return (matmul(a[..., :most], b[..., :most, :]) + rest) % P
    # In one piece: NumPy has no fast product for others.
    halves = [[part.astype(np.float64, order="C") for part in (x >> 16, x & 0xFFFF)] for x in (a, b)]
    (a1, a0), (b1, b0) = halves
    high = np.matmul(a1, b1).astype(np.int64) % P
    middle = (np.matmul(a1, b0).astype(np.int64) + np.matmul(a0, b1).astype(np.int64)) % P
    low = np.matmul(a0, b0).astype(np.int64) % P
    return ((((high << 16) + middle) % P << 16) + low) % P


_M1: Final = np.uint64(0xFF51AFD7ED558CCD)
_M2: Final = np.uint64(0xC4CEB9FE1A85EC53)
_S: Final = np.uint64(33)


def mixed(x: Array, key: int) -> Array:
    """A hash of 64 bits of each element, which a key chooses."""
    u: Any = x.astype(np.uint64) + np.uint64(key)
    u = (u ^ (u >> _S)) * _M1
    u = (u ^ (u >> _S)) * _M2
    return u ^ (u >> _S)


def hashed(x: Array, key: int) -> Array:
    """A hash of each element, as an element other than 0."""
    return (mixed(x, key) % np.uint64(P - 1)).astype(np.int64) + 1
