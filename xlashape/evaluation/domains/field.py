"""Field: floats are elements of the field with p = 2³¹ − 1 elements. Sums, products and quotients are those of the
field, so that reassociation, distribution and precision change nothing. Two programs that differ agree on a random
element with a chance of at most d/p, where d is the degree of the polynomial that they differ by.

An array is one of two: of int64, whose numbers are elements of the field, or ∞, −∞ and NaN (`numbers`); or of float64,
as long as it depends on constants and integers alone, which are computed as numbers and become elements where they
meet an element. Complex numbers are two elements in one number of int64.

- **Order.** The sign of an element is 1 for squares, so that |ab| = |a||b| and |x²| = x² hold. The key by which
  elements are ordered is the sign times a hash of |a|. −∞, 0 and ∞ are where they are among numbers.
- **Functions** are hashes, which obey the identities that compilers use: exp is an odd hash in the exponent of a
  generator. What exp returned is remembered, so that log finds its argument, and a product of two is exp of the sum.
- **Bits** of a float are its sign and a rank of 30 bits. Patterns that no element was given stand for numbers.
"""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar
from zlib import crc32

import numpy as np

from xlashape.errors import UnsupportedError
from xlashape.evaluation.domains import modular
from xlashape.evaluation.domains.domain import Array, FloatDomain
from xlashape.evaluation.domains.modular import P, compacted, half, hashed, mixed, negated
from xlashape.evaluation.domains.numbers import INFINITY, NAN, NEGATIVE, FieldNumbers
from xlashape.evaluation.domains.values import PlainNumbers, compared
from xlashape.shape import PrimitiveType

_F = TypeVar("_F", bound=Callable[..., Any])
_BEYOND: Final = 1 << 40
"""The key of ∞."""
_SMALL: Final = 1 << 20
_ODD: Final = ("sine", "asin", "asinh", "atanh", "erf", "cbrt", "tan")
_EVEN: Final = ("cosine",)
_WHOLE: Final = ("ceil", "floor", "round-nearest-afz", "round-nearest-even")
_INFINITIES: Final = {"bfloat16": 0x7F80, "float16": 0x7C00, "float32": 0x7F800000, "float64": 0x7FF0000000000000}
"""The bits of ∞."""
_FILTER: Final = 1 << 20
"""Lower bits of results of exp, by which most other elements are passed over."""
_LOW: Final = (1 << 30) - 1


def lifted(method: _F) -> _F:
    """A method on elements. Where all arrays are numbers, the result is that of PlainNumbers."""

    @functools.wraps(method)
    def apply(self: Field, *args: Any, **kwargs: Any) -> Any:
        arrays: list[Any] = [np.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in args]
        if all(getattr(x, "dtype", np.dtype(bool)).kind != "i" for x in arrays):
            return getattr(self.values, method.__name__)(*arrays, **kwargs)
        return method(self, *[self.lift(x) if isinstance(x, np.ndarray) else x for x in arrays], **kwargs)

    return apply  # pyright: ignore[reportReturnType]  # the same signature


class Field(FloatDomain):
    """Elements of a finite field."""

    def __init__(self, key: int, numbers: FieldNumbers | None = None) -> None:
        """`key` chooses the hashes. Programs that are compared share `numbers`."""
        self.values = PlainNumbers(rounds=True)
        self.key = int(mixed(np.array([key]), 1)[0])
        self.numbers = numbers or FieldNumbers()
        self._multipliers = [(self.key >> s & _LOW) | 1 for s in (3, 33)]
        self._exps = Remembered()
        self._logs = Remembered()
        self._short = Remembered()
        self._patterns: Array = np.zeros(0, np.int64)

    def _key(self, name: str) -> int:
        return (self.key + crc32(name.encode()) * 0x9E3779B97F4A7C15) & 0x7FFFFFFFFFFFFFFF

    # -- from numbers and back ---------------------------------------------------------------------

    def number(self, x: Any) -> Array:
        return self.values.number(x)

    def lift(self, x: Array) -> Array:
        """FieldNumbers as elements."""
        if x.dtype.kind == "i":
            return x
        if x.dtype.kind == "c":
            return self.complex(self.numbers.lifted(x.real), self.numbers.lifted(x.imag))
        return self.numbers.lifted(x)

    def rounded(self, x: Array, element_type: PrimitiveType) -> Array:
        return self.values.rounded(x, element_type) if x.dtype.kind in "fc" else x

    def converted(self, x: Array, source: PrimitiveType, target: PrimitiveType) -> Array:
        return x

    @lifted
    def integer(self, x: Array, dtype: np.dtype[Any]) -> Array:
        """Small integers are themselves; anything else is a hash."""
        found = self._whole(np.where(x < P, x, 0), "integer", "integer")
        return self.values.integer(np.where(x < P, found.astype(np.float64), self._shadow(x)), dtype)

    def _whole(self, x: Array, up: str, down: str) -> Array:
        """Integers for finite elements: small ones are themselves. Of others three in four are in the range of what
        indexes small arrays, and those of negative elements are negative, by another hash."""
        size, is_upper = half(x)
        is_negative = self._sign(x) < 0
        drawn = np.where(is_negative, mixed(size, self._key(down)), mixed(size, self._key(up)))
        sizes = np.where(
            drawn & np.uint64(3) == 0, drawn >> np.uint64(8) & np.uint64(_SMALL - 1), drawn >> np.uint64(60)
        )
        found = np.where(is_negative, -1, 1) * sizes.astype(np.int64)
        return np.where(size < _SMALL, np.where(is_upper, -size, size), found)

    @lifted
    def bits(self, x: Array, dtype: np.dtype[Any]) -> Array:
        infinity = _INFINITIES.get(dtype.name)
        if infinity is None:
            raise UnsupportedError(f"the bits of {dtype.name} are too few to stand for the elements of a field")
        keys, top = self._keys(x), infinity
        if dtype.itemsize == 2:
            # The upper half of a rank: some elements have the same one.
            short = np.where(x < P, np.sign(keys) * (np.abs(keys) >> 16 | 1), keys)
            self._short.put(np.abs(short), np.abs(keys))
            keys = short
        size: Array = np.where(x < P, np.abs(keys), np.where(x == NAN, top + (top >> 9), top)).astype(np.uint64)
        self._patterns = np.union1d(self._patterns, np.abs(keys[np.asarray(x < P)]))
        sign = (keys < 0).astype(np.uint64) << np.uint64(8 * dtype.itemsize - 1)
        return (size | sign).astype(f"u{dtype.itemsize}")

    def of_bits(self, bits: Array, dtype: np.dtype[Any]) -> Array:
        plain = self.values.of_bits(bits, dtype)
        width = np.uint64(8 * dtype.itemsize - 1)
        wide = np.asarray(bits).astype(np.uint64)
        size = (wide & ((np.uint64(1) << width) - np.uint64(1))).astype(np.int64)
        known = np.isin(size, self._patterns)
        if not known.any():
            return plain
        rank = self._short.of(size)[0] if dtype.itemsize == 2 else size
        found = self._of_keys(np.where(wide >> width != 0, -1, 1) * np.where(known, rank, 0))
        return found if known.all() else np.where(known, found, self.lift(np.asarray(plain)))

    def joined(self, arrays: Sequence[Any]) -> list[Array]:
        found = [np.asarray(x) for x in arrays]
        kinds = {x.dtype.kind for x in found}
        return [self.lift(x) for x in found] if "i" in kinds and kinds & {"f", "c"} else found

    @lifted
    def complex(self, first: Array, second: Array) -> Array:
        return first << 32 | second

    @lifted
    def real(self, x: Array) -> Array:
        return x >> 32

    @lifted
    def imag(self, x: Array) -> Array:
        return x & 0xFFFFFFFF

    # -- arithmetic --------------------------------------------------------------------------------

    def _shadow(self, x: Array) -> Array:
        """FieldNumbers in the place of elements: ∞, −∞, NaN, 0, and 1 or −1 by the sign."""
        found = self._sign(np.where(x < P, x, 0)).astype(np.float64)
        return np.where(x < P, found, np.where(x == NAN, np.nan, np.where(x == INFINITY, np.inf, -np.inf)))

    def patched(self, found: Array, function: Callable[..., Any], *args: Array, by_zero: bool = False) -> Array:
        """The result, corrected where an argument is infinite or NaN, or, `by_zero`, where the last is 0."""
        special = functools.reduce(np.logical_or, [x >= P for x in args])
        if by_zero:
            special = special | (args[-1] == 0)
        if not special.any():
            return found
        with np.errstate(all="ignore"):
            shadow = np.asarray(function(*[self._shadow(x) for x in args]))
        told = np.where(np.isnan(shadow), NAN, np.where(shadow > 1, INFINITY, np.where(shadow < -1, NEGATIVE, 0)))
        return np.where(special, told, found)

    @lifted
    def add(self, a: Array, b: Array) -> Array:
        return self.patched((a + b) % P, np.add, a, b)

    @lifted
    def negate(self, x: Array) -> Array:
        return np.where(x < P, negated(x), np.where(x == NAN, NAN, INFINITY + NEGATIVE - x))

    @lifted
    def multiply(self, a: Array, b: Array) -> Array:
        found = np.asarray(self.patched(a * b % P, np.multiply, a, b))
        if self._exps:
            a, b = np.broadcast_arrays(a, b)
            hit: Any = self._exps.maybe(a) & self._exps.maybe(b)
            if hit.any():
                (x, is_x), (y, is_y) = self._exps.of(a[hit]), self._exps.of(b[hit])
                found[hit] = np.where(is_x & is_y, self._exp((x + y) % P), found[hit])
        return found

    @lifted
    def divide(self, a: Array, b: Array) -> Array:
        by = compacted(modular.inverse, np.where(b < P, b, 0) if (b >= P).any() else b)
        if self._exps:
            self._exps.put_inverse(b, by)
        return self.patched(self.multiply(np.where(a < P, a, 0), by), np.divide, a, b, by_zero=True)

    @lifted
    def remainder(self, a: Array, b: Array) -> Array:
        return self.patched(hashed(a ^ hashed(b, self._key("divisor")), self._key("remainder")), np.fmod, a, b)

    def power(self, a: Array, b: Array) -> Array:
        """By products and roots for small multiples of ½; else exp(b · log |a|)."""
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype.kind != "i" and b.dtype.kind != "i":
            return self.values.power(a, b)
        if b.dtype.kind != "i":
            exponents = np.unique(b)
            if exponents.size == 1 and abs(exponents[0]) <= 32 and float(2 * exponents[0]).is_integer():
                return self._small_power(np.broadcast_arrays(a, b)[0], float(exponents[0]))
        return self.exponential(self.multiply(b, self.log(self.abs(a))))

    def _small_power(self, a: Array, exponent: float) -> Array:
        found = self.one() if exponent % 1 == 0 else self.sqrt(a)
        for _ in range(int(abs(exponent) // 1)):
            found = self.multiply(found, a)
        found = np.broadcast_to(found, a.shape)
        return found if exponent >= 0 else self.divide(self.one(), found)

    @lifted
    def sum(self, x: Array, axes: tuple[int, ...]) -> Array:
        found = np.asarray(np.where(x < P, x, 0).sum(axes) % P)
        if not (x >= P).any():
            return found
        up, down, none = ((x == v).any(axes) for v in (INFINITY, NEGATIVE, NAN))
        return np.where(none | (up & down), NAN, np.where(up, INFINITY, np.where(down, NEGATIVE, found)))

    @lifted
    def matmul(self, a: Array, b: Array) -> Array:
        if not ((a >= P).any() or (b >= P).any()):
            return modular.matmul(a, b)
        found = modular.matmul(np.where(a < P, a, 0), np.where(b < P, b, 0))
        rows, columns = np.asarray((a >= P).any(-1)), np.asarray((b >= P).any(-2))
        return np.where(rows[..., :, None] | columns[..., None, :], NAN, found)

    def add_at(self, out: Array, places: tuple[Array, ...], values: Array) -> Array:
        if out.dtype.kind != "i":
            return self.values.add_at(out, places, values)
        if (out >= P).any() or (values >= P).any():
            raise UnsupportedError("infinite values cannot be scattered")
        np.add.at(out, places, values)
        return out % P

    # -- order -------------------------------------------------------------------------------------

    def _sign(self, x: Array) -> Array:
        return compacted(lambda v: modular.sign(v, modular.root(v)), x)

    def _keys(self, x: Array) -> Array:
        """Integers in the order of the elements. They are less than 2³⁰ but for ∞ and NaN."""

        def keys(v: Array) -> Array:
            finite = np.where(v < P, v, 0)
            found = modular.root(finite)
            # One of the two roots of |v| is less than 2³⁰. A bijection makes a rank of it.
            rank = half(found)[0]
            for multiplier in self._multipliers:
                rank = rank * multiplier & _LOW
                rank ^= rank >> 15
            rank *= modular.sign(finite, found)
            above = np.where(v == INFINITY, _BEYOND, np.where(v == NEGATIVE, -_BEYOND, 2 * _BEYOND))
            return np.where(v < P, rank, above)

        return compacted(keys, x)

    def _of_keys(self, keys: Array) -> Array:
        rank = np.abs(keys) & _LOW
        for multiplier in reversed(self._multipliers):
            rank ^= rank >> 15
            rank = rank * pow(multiplier, -1, 1 << 30) & _LOW
        size = rank * rank % P
        found = np.where(keys < 0, negated(size), size)
        beyond = np.where(keys == _BEYOND, INFINITY, np.where(keys == -_BEYOND, NEGATIVE, NAN))
        return np.where(np.abs(keys) < _BEYOND, found, beyond)

    @lifted
    def compare(self, direction: str, a: Array, b: Array, *, total: bool = False) -> Array:
        if direction in ("EQ", "NE"):
            found = compared(direction, a, b)
        else:
            found = compared(direction, self._keys(a), self._keys(b))
        none = (a == NAN) | (b == NAN)
        return found if total or not none.any() else np.where(none, direction == "NE", found)

    @lifted
    def maximum(self, a: Array, b: Array) -> Array:
        return np.where(self._keys(a) >= self._keys(b), a, b)

    @lifted
    def minimum(self, a: Array, b: Array) -> Array:
        x, y = self._keys(a), self._keys(b)
        none = (x > _BEYOND) | (y > _BEYOND)
        return np.where(none, NAN, np.where(x <= y, a, b))

    @lifted
    def greatest(self, x: Array, axes: tuple[int, ...]) -> Array:
        return self._of_keys(np.asarray(self._keys(x).max(axes)))

    def least(self, x: Array, axes: tuple[int, ...]) -> Array:
        return self.negate(self.greatest(self.negate(x), axes))

    @lifted
    def abs(self, x: Array) -> Array:
        def size(v: Array) -> Array:
            found = modular.root(np.where(v < P, v, 0))
            return np.where(v < P, found * found % P, np.where(v == NAN, NAN, INFINITY))

        return compacted(size, x)

    @lifted
    def sign(self, x: Array) -> Array:
        found = self._sign(np.where(x < P, x, 0)) % P
        return np.where(x < P, found, np.where(x == NEGATIVE, P - 1, np.where(x == NAN, NAN, 1)))

    @lifted
    def is_finite(self, x: Array) -> Array:
        return x < P

    # -- functions ---------------------------------------------------------------------------------

    @lifted
    def sqrt(self, x: Array) -> Array:
        """√|x|, times an element that belongs to negative x: in the reals x is never negative."""

        def found(v: Array) -> Array:
            finite = np.where(v < P, v, 0)
            positive = modular.root(finite)
            is_negative = modular.sign(finite, positive) < 0
            turned = positive * int(hashed(np.array([2]), self._key("sqrt"))[0]) % P
            return np.where(v < P, np.where(is_negative, turned, positive), np.where(v == INFINITY, INFINITY, NAN))

        return compacted(found, x)

    def _exp(self, x: Array) -> Array:
        """exp of finite elements: an odd hash, as the exponent of a generator."""
        size, is_negative = half(x)
        exponent = (mixed(size, self._key("exp")) % np.uint64(P - 1)).astype(np.int64)
        exponent = np.where(size == 0, 0, np.where(is_negative, (P - 1 - exponent) % (P - 1), exponent))
        found = modular.power_of_generator(exponent)
        self._exps.put(found, x)
        return found

    @lifted
    def exponential(self, x: Array) -> Array:
        def found(v: Array) -> Array:
            special = np.where(v == INFINITY, INFINITY, np.where(v == NEGATIVE, 0, NAN))
            return np.where(v < P, self._exp(np.where(v < P, v, 0)), special)

        return compacted(found, x)

    @lifted
    def log(self, x: Array) -> Array:
        known, is_known = self._exps.of(x)
        found = np.where(is_known, known, np.where(x == 1, 0, hashed(x, self._key("log"))))
        special = np.where(x == 0, NEGATIVE, np.where(x == INFINITY, INFINITY, NAN))
        return np.where((x < P) & (x != 0), found, special)

    def function(self, name: str, x: Array) -> Array:
        if x.dtype.kind != "i":
            return self.values.function(name, x)
        finite = np.where(x < P, x, 0)
        size, is_negative = half(finite)
        found = hashed(size, self._key(name))
        if name in _WHOLE:
            # ceil(−x) = −floor(x).
            names = {"ceil": ("ceil", "floor"), "floor": ("floor", "ceil")}.get(name, (name, name))
            return np.where(x < P, self._whole(finite, *names) % P, x)
        if name in _EVEN:
            found = np.where(size == 0, 1, found)
        elif name in _ODD:
            found = np.where(size == 0, 0, np.where(is_negative, P - found, found))
        else:
            found = hashed(finite, self._key(name))
        limit = np.where(x == INFINITY, 1, np.where(x == NEGATIVE, P - 1, NAN)) if name == "erf" else NAN
        return np.where(x < P, found, limit)

    @lifted
    def atan2(self, a: Array, b: Array) -> Array:
        return hashed(a ^ hashed(b, self._key("atan2 x")), self._key("atan2"))


class Remembered:
    """The arguments of a function by its results."""

    def __init__(self) -> None:
        self._new: list[tuple[Array, Array]] = []
        self._results: Array = np.zeros(0, np.int64)
        self._arguments: Array = np.zeros(0, np.int64)
        self._seen: Array | None = None

    def __bool__(self) -> bool:
        return self._seen is not None

    def put(self, results: Array, arguments: Array) -> None:
        """Remembers arguments and results."""
        if self._seen is None:
            self._seen = np.zeros(_FILTER, bool)
        self._seen[results.ravel() & (_FILTER - 1)] = True
        self._new.append((results.ravel(), arguments.ravel()))

    def put_inverse(self, results: Array, inverses: Array) -> None:
        """Remembers that 1/exp(x) is exp(−x)."""
        hit = self.maybe(results)
        if hit.any():
            x, is_x = self.of(results[hit])
            self.put(inverses[hit][is_x], negated(x[is_x]))

    def maybe(self, x: Array) -> Array:
        """Where x may be a result."""
        return np.zeros(x.shape, bool) if self._seen is None else self._seen[x & (_FILTER - 1)]

    def of(self, x: Array) -> tuple[Array, Array]:
        """(arguments, where x is a result)."""
        if self._new:
            results = np.concatenate([self._results, *[r for r, _ in self._new]])
            arguments = np.concatenate([self._arguments, *[a for _, a in self._new]])
            self._results, at = np.unique(results, return_index=True)
            self._arguments, self._new = arguments[at], []
        if not self._results.size:
            return np.zeros_like(x), np.zeros(x.shape, bool)
        at = np.minimum(np.searchsorted(self._results, x), self._results.size - 1)
        return self._arguments[at], self._results[at] == x
