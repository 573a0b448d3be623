"""One result of a map for a tile of any size: the size and stride of what a sum of digits reads, and for which tile sizes that holds.

With n digits of sizes a, b, … and growing factors, a sum is one arithmetic sequence

- if digits of size 1 come first, then digits that are whole and meet the next one's factor, then one of any size, then digits of size 1: the size is
  the product, the stride that of the first digit that is not of size 1. XLA's form;
- if no factor is beyond the reach of the digits below it, as where windows overlap: the stride is the smallest factor. XLA knows no tile there.

Where factors of both signs meet, the digits with negative ones are counted from their end, so that all grow: the sequence then begins where they end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from xlashape.limits import check, spend
from xlashape.symbolic.expr.expression import Add, Constant, Expr, FloorDiv, Mul, const
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.tile.constraints import MOST_ALTERNATIVES, Condition, InRange, TileConstraints

__all__ = ["SizedDigit", "Sum", "is_mixed", "sum_of"]


class SizedDigit(NamedTuple):
    """A digit that runs through `size` numbers, an expression in the tile's sizes, at most `whole`; each of them counts `factor`."""

    size: Expr
    whole: int
    factor: int


class Sum(NamedTuple):
    """First number, size and stride of a sum of digits, and when it has them. The first number is `start` + `constant`."""

    start: Expr
    constant: int
    size: Expr
    stride: Expr
    constraints: TileConstraints


def sum_of(digits: Sequence[SizedDigit]) -> Sum:
    """The sum of digits in XLA's order of terms. Without digits: size 1, stride 0.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> row, column = SizedDigit(dim(0), 4, 8), SizedDigit(dim(1), 8, 1)
    >>> found = sum_of([row, column])
    >>> found.size, str(found.constraints)
    (d0 * d1, 'd0 in [1, 1] || d1 in [1, 1] || d1 in [8, 8]')
    >>> window = sum_of([SizedDigit(dim(0), 4, 2), SizedDigit(const(3), 3, 1)])
    >>> window.size, window.stride, str(window.constraints)
    (d0 * 2 + 1, 1, 'always')
    >>> dilated = sum_of([SizedDigit(dim(0), 9, 1), SizedDigit(const(3), 3, 2)])
    >>> dilated.size, dilated.stride, str(dilated.constraints)
    (d0 + 4, 1, 'd0 in [2, 9]')
    """
    start: Expr = const(0)
    constant = 0
    if not digits:
        return Sum(start, 0, const(1), const(0), TileConstraints.always())
    if len(digits) == 1:
        return Sum(start, 0, digits[0].size, const(digits[0].factor), TileConstraints.always())
    if is_mixed([digit.factor for digit in digits]):
        start, constant = _weighted([(digit.size, digit.factor) for digit in digits if digit.factor < 0])
        digits = [digit._replace(factor=abs(digit.factor)) for digit in digits]
    # Of equal factors, XLA takes the later term for the smaller one.
    ascending = sorted(digits, key=lambda digit: -abs(digit.factor))[::-1]
    meets = all(high.factor == low.factor * low.whole for low, high in pairwise(ascending))
    dense = TileConstraints.unsatisfiable() if meets else _dense(ascending)
    # A window has all its elements for any tile: without overlap, only tiles of one index would be left.
    windowed = any(isinstance(digit.size, Constant) and digit.size.value > 1 for digit in ascending[1:])
    if dense.is_always or (windowed and not dense.is_unsatisfiable):
        smallest = ascending[0].factor
        size, more = _weighted([(digit.size, digit.factor // smallest) for digit in digits])
        return Sum(start, constant, size + (more + 1), const(smallest), dense)
    size = digits[0].size
    for digit in digits[1:]:
        size = size * digit.size
    return Sum(start, constant, size, _stride(ascending), TileConstraints.any_of(_ways(ascending)))


def is_mixed(factors: Sequence[int]) -> bool:
    """Whether factors of both signs are there."""
    return any(factor < 0 for factor in factors) and any(factor > 0 for factor in factors)


def _weighted(terms: Sequence[tuple[Expr, int]]) -> tuple[Expr, int]:
    """Σ (size - 1) × factor as an expression and the constant to add."""
    total: Expr = const(0)
    constant = 0
    for size, factor in terms:
        constant -= factor
        if isinstance(size, Constant):
            constant += size.value * factor
        else:
            total = total + size * factor
    return total, constant


def _dense(ascending: Sequence[SizedDigit]) -> TileConstraints:
    """When no factor is beyond the reach of the digits below it, apart from digits of size 1; the smallest factor divides all, and all have one sign."""
    smallest = abs(ascending[0].factor)
    constraints = TileConstraints.always()
    least = most = 0
    below: list[tuple[Expr, int]] = []
    for digit in ascending:
        factor = abs(digit.factor)
        if factor % smallest:
            return TileConstraints.unsatisfiable()
        needed = factor - smallest
        if needed > least:
            ways: list[list[Condition]] = []
            if needed <= most:
                reach, constant = _weighted(below)
                ways.append([InRange(reach, Interval(needed - constant, most - constant))])
            if not isinstance(digit.size, Constant):
                ways.append([InRange(digit.size, Interval(1, 1))])
            constraints = constraints & TileConstraints.any_of(ways)
        least += factor * (digit.size.value - 1) if isinstance(digit.size, Constant) else 0
        most += factor * (digit.whole - 1)
        below.append((digit.size, factor))
    return constraints


def _ways(ascending: Sequence[SizedDigit]) -> list[list[Condition]]:
    """When the digits add up to one sequence: from `first` on they are whole, up to `last`, which has any size; the others have size 1."""
    count = len(ascending) * (len(ascending) + 1) // 2
    check("tile alternatives", count, MOST_ALTERNATIVES)
    spend(count)
    ways: list[list[Condition]] = []
    for first in range(len(ascending)):
        for last in range(first, len(ascending)):
            if last > first:
                low, high = ascending[last - 1], ascending[last]
                if high.factor != low.factor * low.whole:
                    break
            wanted = [(digit.size, 1) for digit in (*ascending[:first], *ascending[last + 1 :])]
            wanted += [(digit.size, digit.whole) for digit in ascending[first:last]]
            if any(isinstance(size, Constant) and size.value != value for size, value in wanted):
                continue
            ways.append(
                [InRange(size, Interval(value, value)) for size, value in wanted if not isinstance(size, Constant)]
            )
    return ways


def _stride(ascending: Sequence[SizedDigit]) -> Expr:
    """The factor of the first digit that is not of size 1; 0 if there is none. Written as XLA writes it."""
    stride: Expr = const(0)
    for digit in reversed(ascending):
        # (whole + 1 - size) / whole is 1 for a size of 1 and 0 for others up to the whole.
        is_one: Expr = -digit.size + (digit.whole + 1)
        if digit.whole != 1:
            is_one = is_one // digit.whole
        stride = _chosen(is_one, stride, digit.factor)
    return stride


def _chosen(is_one: Expr, above: Expr, factor: int) -> Expr:
    """is_one * above + (1 - is_one) * factor."""
    if isinstance(is_one, Constant):
        return above if is_one.value else const(factor)
    if isinstance(above, Constant):
        begin = is_one if above.value == 1 else const(0) if above.value == 0 else Mul(is_one, above)
    elif isinstance(above, Mul) and isinstance(above.rhs, Constant):
        begin = Mul(Mul(is_one, above.lhs), above.rhs)
    else:
        begin = Mul(is_one, above)
    not_one = -is_one + 1
    end = not_one if factor == 1 else Mul(not_one, factor)
    if begin == const(0):
        return end
    if factor < 0:
        end = Mul(is_one * factor - factor, -1)  # prints as "… - (is_one * -2 + 2)"
    elif factor == 1 and isinstance(is_one, FloorDiv):
        end = Mul(is_one - 1, -1)  # prints as "… - (is_one - 1)"
    return Add(begin, end)
