"""Sums of floor divisions, the compiled form of the tiling formula of one shape: index → position in the buffer, and
back. A cache keeps the compiled formulas of the shapes used last.

Every digit that tiling makes of a number v is a difference of two floors, ⌊v/q⌋ - n·⌊v/(q·n)⌋, and tiling only ever
adds and splits such digits. So a position is Σ c·⌊v/q⌋ with few terms: T(8,128)(2,1) on two dimensions takes three
divisions and no mod. `trace` finds that form by calling the formula with numbers that record the operations on them.
`FloorSums` holds the form. It evaluates ints itself, and `batches` evaluates it on arrays.

Indexing maps have a compiled form of their own, `xlashape.symbolic.expr.evaluate`, because they need more operations:
mod, maximum, minimum, constraints, integers beyond int64. Evaluating the formula of `T(8,128)(2,1)` there takes 2.4 µs
for one index instead of 0.5 µs, 39 µs for 1,000 indices instead of 20 µs, and 0.42 ms for 100,000 indices instead of
0.35 ms. Also, `strided_copy` reads strides out of the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import Any, NamedTuple

from xlashape.base.caches import BoundedCache
from xlashape.limits import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN
from xlashape.shape.tiling.formula import Geometry, geometry, logical_index, physical_position
from xlashape.shape.value.shape import Shape, shape_bytes

Terms = tuple[tuple[int, int], ...]
"""A sum of products, as pairs (register, coefficient)."""


class FloorSums(NamedTuple):
    """Arithmetic over registers, each of which is written once.

    The first `inputs` registers hold the inputs. Each of `steps` appends one register: the sum of its terms,
    floor-divided by its divisor. The `outputs` are sums of terms. For inputs inside their bounds every register and
    every output fits int64. Partial sums may not; arithmetic modulo 2^64 still gives the right result. If `fits_int32`
    is set, the same holds for int32 and 2^32, and the divisors fit int32, too. If `give_int16` is set, all outputs are
    in [0, 2^15).
    """

    inputs: int
    steps: tuple[tuple[Terms, int], ...]
    outputs: tuple[Terms, ...]
    fits_int32: bool = False
    give_int16: bool = False

    def evaluate(self, inputs: Sequence[int]) -> list[int]:
        """The outputs for ints.

        >>> FloorSums(2, ((((1, 1),), 2),), (((0, 3), (2, 1)),)).evaluate((5, 9))
        [19]
        """
        registers = list(inputs)
        for terms, divisor in self.steps:
            total = 0
            for register, coefficient in terms:
                total += coefficient * registers[register]
            registers.append(total // divisor)
        results: list[int] = []
        for terms in self.outputs:
            total = 0
            for register, coefficient in terms:
                total += coefficient * registers[register]
            results.append(total)
        return results


class SumRecorder:
    """A number that records the operations on it: a sum Σ c·register, with 0 <= sum <= `upper`.

    It has the operators that the formula uses. The right operands of `*`, `//` and `%` are ints above 0.
    """

    __slots__ = ("_tape", "terms", "upper")

    def __init__(self, tape: _Tape, terms: dict[int, int], upper: int) -> None:
        self._tape = tape
        self.terms = terms
        self.upper = upper

    def __add__(self, other: SumRecorder) -> SumRecorder:
        return SumRecorder(self._tape, _sum(self.terms, other.terms), self.upper + other.upper)

    def __mul__(self, factor: int) -> SumRecorder:
        return SumRecorder(
            self._tape, {register: c * factor for register, c in self.terms.items()}, self.upper * factor
        )

    def __floordiv__(self, divisor: int) -> SumRecorder:
        if self.upper < divisor:
            return SumRecorder(self._tape, {}, 0)
        return SumRecorder(self._tape, self._tape.divide(self.terms, divisor), self.upper // divisor)

    def __mod__(self, divisor: int) -> SumRecorder:
        if self.upper < divisor:
            return self
        quotient = self._tape.divide(self.terms, divisor)
        return SumRecorder(self._tape, _sum(self.terms, quotient, -divisor), divisor - 1)


def _sum(terms: dict[int, int], others: dict[int, int], factor: int = 1) -> dict[int, int]:
    """terms + factor · others, without terms whose coefficient is 0."""
    total = dict(terms)
    for register, c in others.items():
        coefficient = total.get(register, 0) + c * factor
        if coefficient:
            total[register] = coefficient
        else:
            del total[register]
    return total


class _Tape:
    """The registers while a formula is traced: the step that computes each, and its range."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.inputs = len(sizes)
        self.ranges: list[tuple[int, int]] = [(0, size - 1) for size in sizes]
        self.steps: list[tuple[Terms, int]] = []
        self._known: dict[tuple[Terms, int], int] = {}

    def divide(self, terms: dict[int, int], divisor: int) -> dict[int, int]:
        """⌊terms / divisor⌋ as terms.

        Laws, for d > 0: ⌊(d·a + b)/d⌋ = a + ⌊b/d⌋. With 0 <= b < g and g dividing d: ⌊(g·a + b)/d⌋ = ⌊a/(d/g)⌋.
        ⌊⌊v/q⌋/d⌋ = ⌊v/(q·d)⌋.
        """
        whole: dict[int, int] = {}
        rest: dict[int, int] = {}
        for register, c in terms.items():
            quotient, remainder = divmod(c, divisor)
            if remainder:
                rest[register] = c
            else:
                whole[register] = quotient
        low, high = self.range_of(rest)
        if not (INT64_MIN <= low and high <= INT64_MAX):
            whole, rest = {}, terms
            low, high = self.range_of(rest)
        if low >= 0 and high < divisor:
            return whole
        for g in sorted({gcd(c, divisor) for c in rest.values()}, reverse=True):
            small = {register: c for register, c in rest.items() if c % g}
            least, most = self.range_of(small)
            if g > 1 and least >= 0 and most < g:
                large = {register: c // g for register, c in rest.items() if c % g == 0}
                floor = self.divide(large, divisor // g)
                break
        else:
            floor = self._floor(rest, divisor)
        return _sum(whole, floor)

    def range_of(self, terms: dict[int, int]) -> tuple[int, int]:
        low = high = 0
        for register, c in terms.items():
            least, most = self.ranges[register]
            low += c * (least if c > 0 else most)
            high += c * (most if c > 0 else least)
        return low, high

    def _floor(self, terms: dict[int, int], divisor: int) -> dict[int, int]:
        """⌊terms / divisor⌋ as one register: an existing one if it has this value, else a new one."""
        if divisor == 1:
            return terms
        key = tuple(sorted(terms.items()))
        if len(key) == 1 and key[0][1] == 1 and key[0][0] >= self.inputs:
            inner, inner_divisor = self.steps[key[0][0] - self.inputs]
            if inner_divisor * divisor <= INT64_MAX:
                key, divisor = inner, inner_divisor * divisor
        low, high = self.range_of(dict(key))
        if low // divisor == high // divisor == 0:
            return {}
        register = self._known.get((key, divisor))
        if register is None:
            register = self._known[key, divisor] = self.inputs + len(self.steps)
            self.steps.append((key, divisor))
            self.ranges.append((low // divisor, high // divisor))
        return {register: 1}

    def floor_sums(self, outputs: Sequence[dict[int, int]], upper: int) -> FloorSums:
        """The outputs, which are at most `upper`, with the steps that they need. Registers are renumbered."""
        needed: set[int] = set()
        waiting = [register for terms in outputs for register in terms]
        while waiting:
            register = waiting.pop()
            if register >= self.inputs and register not in needed:
                needed.add(register)
                waiting += [r for r, _ in self.steps[register - self.inputs][0]]
        number = {register: register for register in range(self.inputs)}
        for register in sorted(needed):
            number[register] = len(number)
        renamed = [
            (
                tuple([(number[r], c) for r, c in self.steps[register - self.inputs][0]]),
                self.steps[register - self.inputs][1],
            )
            for register in sorted(needed)
        ]
        return FloorSums(
            self.inputs,
            tuple(renamed),
            tuple([tuple(sorted([(number[r], c) for r, c in terms.items()])) for terms in outputs]),
            upper <= INT32_MAX and self._fits_int32(needed),
            upper < 1 << 15,
        )

    def _fits_int32(self, needed: set[int]) -> bool:
        if any(most > INT32_MAX for _, most in self.ranges[: self.inputs]):
            return False
        for register in needed:
            terms, divisor = self.steps[register - self.inputs]
            low, high = self.range_of(dict(terms))
            if low < INT32_MIN or high > INT32_MAX or divisor > INT32_MAX:
                return False
        return True


def trace(sizes: Sequence[int], formula: Callable[[list[SumRecorder]], Sequence[SumRecorder | int]]) -> FloorSums:
    """The compiled form of `formula` for inputs v with 0 <= v < size. An int among its results must be 0.

    >>> trace((256,), lambda v: [v[0] // 128 * 1024 + v[0] % 128])
    FloorSums(inputs=1, steps=((((0, 1),), 128),), outputs=(((0, 1), (1, 896)),), fits_int32=True, give_int16=True)
    """
    tape = _Tape(sizes)
    results = formula([SumRecorder(tape, {i: 1}, size - 1) for i, size in enumerate(sizes)])
    sums = [result for result in results if not isinstance(result, int)]
    return tape.floor_sums(
        [{} if isinstance(result, int) else result.terms for result in results],
        max((result.upper for result in sums), default=0),
    )


# -- the formula of a shape --------------------------------------------------------------------


_Conditions = tuple[tuple[int, int], ...]
_ToPosition = tuple[tuple[int, ...], FloorSums]
_ToIndex = tuple[Geometry, FloorSums, _Conditions]


def _weight(shape: Shape, compiled: _ToPosition | _ToIndex) -> int:
    sums = compiled[1]
    terms = 0
    for step, _ in sums.steps:
        terms += len(step)
    for output in sums.outputs:
        terms += len(output)
    return shape_bytes(shape) + 400 + 200 * (len(sums.steps) + len(sums.outputs)) + 150 * terms


_to_position: BoundedCache[Shape, _ToPosition] = BoundedCache("xlashape.shape: index to position", 8 << 20, _weight)
_to_index: BoundedCache[Shape, _ToIndex] = BoundedCache("xlashape.shape: position to index", 8 << 20, _weight)


@_to_position.results_by_argument
def position_sums(shape: Shape) -> _ToPosition:
    """The array's sizes, and the sums index → position."""
    array = geometry(shape)
    if not array.elements:
        return array.dimensions, FloorSums(len(array.dimensions), (), ((),))
    return array.dimensions, trace(array.dimensions, lambda index: [physical_position(shape, index)])


@_to_index.results_by_argument
def index_sums(shape: Shape) -> _ToIndex:
    """The array's geometry, the sums position → (index…, further values…), and conditions (output, size).

    There is an element at a position where each of these outputs is below its size.
    """
    sizes: list[int] = []

    def formula(position: Sequence[Any]) -> list[Any]:
        index, conditions = logical_index(shape, position[0])
        sizes.extend(condition.size for condition in conditions)
        return [*index, *[condition.value for condition in conditions]]

    array = geometry(shape)
    rank = len(array.dimensions)
    sums = trace((array.elements,), formula)
    # The value of a condition mostly is one of the index's outputs already.
    outputs = list(sums.outputs[:rank])
    conditions: list[tuple[int, int]] = []
    for terms, size in zip(sums.outputs[rank:], sizes, strict=True):
        if terms not in outputs:
            outputs.append(terms)
        condition = (outputs.index(terms), size)
        if condition not in conditions:
            conditions.append(condition)
    return array, sums._replace(outputs=tuple(outputs)), tuple(conditions)
