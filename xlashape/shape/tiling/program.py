"""The tiling formula of one shape, boiled down to sums of floor divisions.

Every digit that tiling makes of a number v is a difference of two floors, ⌊v/q⌋ - n·⌊v/(q·n)⌋, and tiling only ever adds
and splits such digits. So a position is Σ c·⌊v/q⌋ with few terms: T(8,128)(2,1) on two dimensions takes three divisions and
no mod. `trace` finds that form by sending recording numbers through `tile_formula`; a `Program` is what they recorded, and
runs over ints here and over arrays in `tile_batches`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import NamedTuple

from xlashape.limits import INT64_MAX, INT64_MIN

__all__ = ["Program", "Recorder", "Terms", "trace"]

Terms = tuple[tuple[int, int], ...]
"""(register, coefficient) …: a sum of products."""


class Program(NamedTuple):
    """Straight-line arithmetic over registers, which never change once set.

    The first `inputs` registers hold the inputs. Each of `steps` appends one: the sum of its terms, floor-divided by its
    divisor. The `outputs` are sums of terms. No register leaves int64 for inputs inside their bounds; an output does not
    either, though partial sums may (they come back modulo 2^64).
    """

    inputs: int
    steps: tuple[tuple[Terms, int], ...]
    outputs: tuple[Terms, ...]

    def run(self, inputs: Sequence[int]) -> list[int]:
        """The outputs for ints.

        >>> Program(2, ((((1, 1),), 2),), (((0, 3), (2, 1)),)).run((5, 9))
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


class Recorder:
    """A sum Σ c·register with what is known of its range: 0 <= sum <= `upper`.

    It has the operators the formula uses, with int right operands above 0 for `*`, `//` and `%`.
    """

    __slots__ = ("_tape", "terms", "upper")

    def __init__(self, tape: _Tape, terms: dict[int, int], upper: int) -> None:
        self._tape = tape
        self.terms = {register: c for register, c in terms.items() if c}
        self.upper = upper

    def __add__(self, other: Recorder) -> Recorder:
        terms = dict(self.terms)
        for register, c in other.terms.items():
            terms[register] = terms.get(register, 0) + c
        return Recorder(self._tape, terms, self.upper + other.upper)

    def __mul__(self, factor: int) -> Recorder:
        return Recorder(self._tape, {register: c * factor for register, c in self.terms.items()}, self.upper * factor)

    def __floordiv__(self, divisor: int) -> Recorder:
        if self.upper < divisor:
            return Recorder(self._tape, {}, 0)
        return Recorder(self._tape, self._tape.divide(self.terms, divisor), self.upper // divisor)

    def __mod__(self, divisor: int) -> Recorder:
        if self.upper < divisor:
            return self
        terms = dict(self.terms)
        for register, c in self._tape.divide(self.terms, divisor).items():
            terms[register] = terms.get(register, 0) - c * divisor
        return Recorder(self._tape, terms, divisor - 1)


class _Tape:
    """The registers of a program in the making: how each came about, and its range."""

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
        whole = {register: c // divisor for register, c in terms.items() if c % divisor == 0}
        rest = {register: c for register, c in terms.items() if c % divisor}
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
                quotient = self.divide(large, divisor // g)
                break
        else:
            quotient = self._floor(rest, divisor)
        for register, c in quotient.items():
            whole[register] = whole.get(register, 0) + c
        return whole

    def range_of(self, terms: dict[int, int]) -> tuple[int, int]:
        low = high = 0
        for register, c in terms.items():
            least, most = self.ranges[register]
            low += c * (least if c > 0 else most)
            high += c * (most if c > 0 else least)
        return low, high

    def _floor(self, terms: dict[int, int], divisor: int) -> dict[int, int]:
        """⌊terms / divisor⌋ as one register, an old one where it can be."""
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

    def program(self, outputs: Sequence[dict[int, int]]) -> Program:
        """The steps that the outputs need, renumbered."""
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
        return Program(
            self.inputs,
            tuple(renamed),
            tuple([tuple(sorted([(number[r], c) for r, c in terms.items()])) for terms in outputs]),
        )


def trace(sizes: Sequence[int], formula: Callable[[list[Recorder]], Sequence[Recorder | int]]) -> Program:
    """The program that `formula` amounts to for inputs v with 0 <= v < size. An int among its results can only be 0.

    >>> trace((256,), lambda v: [v[0] // 128 * 1024 + v[0] % 128])
    Program(inputs=1, steps=((((0, 1),), 128),), outputs=(((0, 1), (1, 896)),))
    """
    tape = _Tape(sizes)
    results = formula([Recorder(tape, {i: 1}, size - 1) for i, size in enumerate(sizes)])
    return tape.program([{} if isinstance(result, int) else result.terms for result in results])
