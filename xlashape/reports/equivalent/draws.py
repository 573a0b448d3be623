"""The inputs with which two modules are compared.

A draw has the integers and predicates of the parameters as numbers, and a key from which floats are drawn: elements of
a field, or ordinary numbers that `xs.evaluate` takes. In some draws integers are at the corners: just outside of what
is indexed with them, next to constants, and extreme; and floats are equal to each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from xlashape.evaluation.domains.modular import P
from xlashape.evaluation.elementwise import is_real
from xlashape.evaluation.machine import Array, dtype_of
from xlashape.hlo import HloInstruction, HloModule, Opcode
from xlashape.hlo.literal import to_numpy
from xlashape.shape import Shape

_BASES: Final = 3
"""Draws with integers in range. All others have the floats of the first."""
_EQUAL: Final = 2
"""The draw with equal floats."""
_CORNERS: Final = 14
"""Draws with integers at corners."""
_MOST_SIZES: Final = 4
"""Constants beside whose sizes numbers are drawn."""
_SMALLEST: Final = 1e-18
"""Numbers of this size have squares that f32 has."""
_BRANCHES: Final = 8
"""The most branches of a conditional whose numbers are drawn as the integer that chooses one."""
_COMPARING: Final = (Opcode.COMPARE, Opcode.CLAMP, Opcode.MAXIMUM)


class Draw(NamedTuple):
    """One choice of all inputs."""

    number: int
    base: int
    """The draw that has the same floats."""
    seed: int
    range: int
    """Integers within the ranges are at most so large."""
    corners: tuple[int, ...]
    """Integers beside which programs may behave differently, the most likely first; empty for a draw in range."""
    is_wide: bool = False
    """Whether integers that are not corners may have any value, so that sums and products overflow."""
    scale: float = 1
    """What ordinary numbers are multiplied with. 0: half of them are zeros."""

    @property
    def words(self) -> str:
        """What kind of inputs they are."""
        if self.scale == 0:
            return "inputs of which half are 0"
        return "ordinary inputs" if abs(self.scale) == 1 else f"inputs of about {self.scale:.0e}"

    def _rng(self, parameter: int, purpose: int, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, number, parameter, purpose])

    def integers(self, parameter: int, shape: Shape) -> Array:
        """Integers or predicates."""
        rng, dtype, dims = self._rng(parameter, 0, self.number), dtype_of(shape), shape.dimensions
        if shape.element_type.text == "pred":
            return rng.random(dims) < 0.5
        low, high = _bounds(shape)
        least, most = (low, high) if self.is_wide else (0, min(self.range, high))
        found = rng.integers(least, most, dims, endpoint=True, dtype=np.int64 if low else np.uint64).astype(object)
        if self.corners:
            # Unsigned numbers wrap around: −1 is the greatest.
            pool = [c if low <= c <= high else c % (high - low + 1) + min(low, 0) for c in self.corners]
            if shape.rank:
                chosen = np.array(pool, object)[rng.integers(0, len(pool), dims)]
                found = np.where(rng.random(dims) < 0.6, chosen, found)
            else:
                # Each draw has another corner.
                found = np.asarray(pool[(self.number + 5 * parameter) % len(pool)], object)
        elif self.number == 1 and low == 0 and high >= (1 << 32) - 1:
            found = rng.integers(0, high, dims, endpoint=True, dtype=dtype)  # keys of random numbers
        return np.asarray(found).astype(dtype)

    def elements(self, parameter: int, shape: Shape) -> Array:
        """Elements of the field with 2³¹ − 1 elements."""
        rng = self._rng(parameter, 1, self.base)
        count = 2 if shape.element_type.is_complex else 1

        def drawn() -> Array:
            if self.base == _EQUAL:
                return np.array([0, 17, 1 << 29])[rng.integers(0, 3, shape.dimensions)]
            return rng.integers(1, P, shape.dimensions)

        parts = [np.asarray(drawn()) for _ in range(count)]
        return parts[0] if count == 1 else parts[0] << 32 | parts[1]

    def ordinary(self, parameter: int, shape: Shape) -> Array:
        """FieldNumbers of the declared type."""
        if shape.is_token:
            return np.zeros(())
        if not (is_real(shape.element_type) or shape.element_type.is_complex):
            return self.integers(parameter, shape)
        rng, dims = self._rng(parameter, 1, self.base), shape.dimensions

        def drawn() -> Any:
            if self.base == _EQUAL:
                return np.array([-0.75, 0.5, 1.25])[rng.integers(0, 3, dims)]
            if self.base % 2:
                return rng.uniform(0.25, 2, dims)
            return rng.normal(size=dims)

        found = drawn() + 1j * drawn() if shape.element_type.is_complex else drawn()
        found = found * (self.scale or rng.integers(0, 2, dims))
        return np.asarray(found).astype(dtype_of(shape))


def scaled(draw: Draw, constants: Iterable[Any]) -> list[Draw]:
    """Draws with numbers of other sizes: those at which constants matter, then small, large, negative and no numbers.
    They have the integers of `draw`."""
    sizes = {abs(float(c)) for c in constants if np.isrealobj(c) and np.isfinite(float(c)) and c}
    # A constant may be added to a square, to a number, or to a root.
    scales = [s for c in sorted(sizes)[:_MOST_SIZES] for s in (c**0.5, c, c**2)]
    near = [draw._replace(base=0, scale=s) for s in dict.fromkeys(scales) if _SMALLEST < s < 1 / _SMALLEST]
    others = [(0, 1e-3), (0, 1e3), (1, -1.0), (0, 0.0), (1, 1e-3)]
    return [*near, *[draw._replace(base=base, scale=scale) for base, scale in others]]


def _bounds(shape: Shape) -> tuple[int, int]:
    bits, signed = shape.element_type.bit_width, shape.element_type.is_signed_integral
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def draws_for(modules: Sequence[HloModule], seed: int) -> list[Draw]:
    """The draws with which modules are compared. None is at corners if no parameter is an integer."""
    parameters = [leaf for p in modules[0].entry.parameters for leaf in p.shape.leaves() if leaf.is_array]
    has_integers = any(leaf.element_type.is_integral for leaf in parameters)
    last = _indexed(modules)
    inside = sorted(n for n in last if n > 0) or [7]
    ranges = [inside[0], min(inside[-1], 64), inside[0]]
    found = [Draw(number, number, seed, ranges[number], ()) for number in range(_BASES)]
    if has_integers:
        corners = _corners(modules, last)
        # Unsigned integers are keys of random numbers more often than indices.
        count = _CORNERS if any(leaf.element_type.is_signed_integral for leaf in parameters) else 4
        step = max(1, len(corners) // count)
        loops = _has_loops(modules)
        for k in range(count):
            # For scalars, whose corner goes by the number of the draw, the list begins at another place.
            turned = (*corners[k * step :], *corners[: k * step]) if step > 1 else corners
            found.append(Draw(_BASES + k, 0, seed, ranges[0], turned, is_wide=k % 2 == 1 and not loops))
    return found


def _corners(modules: Sequence[HloModule], last: set[int]) -> tuple[int, ...]:
    compared, others = _constants(modules)
    near = [c + by for c in sorted(compared) for by in (0, 1, -1)]
    ends = [n + by for n in sorted(last) for by in (1, 0)]
    loops = _has_loops(modules)
    extreme = [] if loops else [(1 << 31) - 1, -(1 << 31)]
    rest = [c + by for c in sorted(others) for by in (0, 1, -1)]
    below = [-1, -(max(last, default=0) + 1)]
    found = dict.fromkeys([*near, *below, *ends, *extreme, *(c for c in rest if not loops or abs(c) < 1 << 10)])
    return tuple(found)


def _has_loops(modules: Sequence[HloModule]) -> bool:
    return any(each.opcode is Opcode.WHILE for each in _instructions(modules))


def _instructions(modules: Sequence[HloModule]) -> Iterable[HloInstruction]:
    return (each for m in modules for computation in m.computations for each in computation.instructions)


def _indexed(modules: Sequence[HloModule]) -> set[int]:
    """The last offsets within arrays that are indexed by data."""
    found: set[int] = set()
    for each in _instructions(modules):
        sizes: Iterable[int] = ()
        if each.opcode is Opcode.GATHER:
            sizes = each.details.gather_slice_sizes
        elif each.opcode is Opcode.DYNAMIC_SLICE:
            sizes = each.shape.dimensions
        elif each.opcode is Opcode.DYNAMIC_UPDATE_SLICE:
            sizes = each.operands[1].shape.dimensions
        elif each.opcode is Opcode.SCATTER:
            sizes = [1] * each.operands[0].shape.rank
        elif each.opcode is Opcode.CONDITIONAL:
            found.update(range(min(len(each.called_computations), _BRANCHES)))
        for n, size in zip(each.operands[0].shape.dimensions if sizes else (), sizes, strict=False):
            found.update((n - size, n - 1) if n > 1 else ())
    return found


def _constants(modules: Sequence[HloModule]) -> tuple[set[int], set[int]]:
    """The integers that scalars of the modules are: those that something is compared with, and the others."""
    compared: set[int] = set()
    others: set[int] = set()
    for each in _instructions(modules):
        if each.opcode is Opcode.CONSTANT and each.shape.is_array and each.shape.element_type.is_integral:
            if not each.shape.rank and each.details.HasField("literal"):
                value = int(to_numpy(each.details.literal))  # pyright: ignore[reportArgumentType]  # a scalar
                users = {user for one in (each, *each.users) for user in one.users}
                (compared if any(user.opcode in _COMPARING for user in users) else others).add(value)
    return {c for c in compared if abs(c) < 1 << 31}, {c for c in others - compared if abs(c) < 1 << 31}
