"""Sums of digits for a tile of any size: the size and stride of the values of such a sum, and the tile sizes for which it has them.

A sum of digits, in the order of their factors, takes the values of one arithmetic progression in two cases:

- It has digits of size 1, then complete digits (which take all their values), each followed by a digit whose factor is the product of the complete
  digit's factor and size, then one digit of any size, then digits of size 1. The size of the progression is the product of all sizes, the stride is
  the factor of the first digit that does not have size 1. This is XLA's form.
- No factor is larger than the smaller digits can bridge, as with overlapping windows. The stride is the smallest factor. XLA has no tile here.

If there are factors of both signs, the digits with negative factors are counted from their last value down, so that all terms grow; the progression then
begins where those digits end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from xlashape.limits import check, spend
from xlashape.symbolic.expr.expression import Add, Constant, Expr, FloorDiv, Mul, const
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.tile.constraints import MOST_ALTERNATIVES, Condition, InRange, TileConstraints


class SizedDigit(NamedTuple):
    """A digit with a factor. It takes `size` values, an expression of the tile's sizes, and at most `most`."""

    size: Expr
    most: int
    factor: int


class SymbolicProgression(NamedTuple):
    """The values of a sum of digits: `size` of them from `start` + `constant`, with this stride, for tile sizes that satisfy `constraints`."""

    start: Expr
    constant: int
    size: Expr
    stride: Expr
    constraints: TileConstraints


def sum_of_digits(digits: Sequence[SizedDigit]) -> SymbolicProgression:
    """The values of a sum of digits, which are in XLA's order of terms. Without digits, the size is 1 and the stride 0.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> row, column = SizedDigit(dim(0), 4, 8), SizedDigit(dim(1), 8, 1)
    >>> progression = sum_of_digits([row, column])
    >>> progression.size, str(progression.constraints)
    (d0 * d1, 'd0 in [1, 1] || d1 in [1, 1] || d1 in [8, 8]')
    >>> window = sum_of_digits([SizedDigit(dim(0), 4, 2), SizedDigit(const(3), 3, 1)])
    >>> window.size, window.stride, str(window.constraints)
    (d0 * 2 + 1, 1, 'always')
    >>> dilated = sum_of_digits([SizedDigit(dim(0), 9, 1), SizedDigit(const(3), 3, 2)])
    >>> dilated.size, dilated.stride, str(dilated.constraints)
    (d0 + 4, 1, 'd0 in [2, 9]')
    """
    start: Expr = const(0)
    constant = 0
    if not digits:
        return SymbolicProgression(start, 0, const(1), const(0), TileConstraints.always())
    if len(digits) == 1:
        return SymbolicProgression(start, 0, digits[0].size, const(digits[0].factor), TileConstraints.always())
    if is_mixed([digit.factor for digit in digits]):
        start, constant = _weighted([(digit.size, digit.factor) for digit in digits if digit.factor < 0])
        digits = [digit._replace(factor=abs(digit.factor)) for digit in digits]
    # XLA treats the later one of two terms with equal factors as the smaller one.
    ascending = sorted(digits, key=lambda digit: -abs(digit.factor))[::-1]
    is_radix_number = all(high.factor == low.factor * low.most for low, high in pairwise(ascending))
    dense = TileConstraints.unsatisfiable() if is_radix_number else _dense(ascending)
    # A window reads all its elements for any tile. Requiring that windows do not overlap would leave only tiles of one index.
    windowed = any(isinstance(digit.size, Constant) and digit.size.value > 1 for digit in ascending[1:])
    if dense.is_always or (windowed and not dense.is_unsatisfiable):
        smallest = ascending[0].factor
        size, more = _weighted([(digit.size, digit.factor // smallest) for digit in digits])
        return SymbolicProgression(start, constant, size + (more + 1), const(smallest), dense)
    size = digits[0].size
    for digit in digits[1:]:
        size = size * digit.size
    return SymbolicProgression(
        start, constant, size, _stride(ascending), TileConstraints.any_of(_alternatives(ascending))
    )


def is_mixed(factors: Sequence[int]) -> bool:
    """Whether there are factors of both signs."""
    return any(factor < 0 for factor in factors) and any(factor > 0 for factor in factors)


def _weighted(terms: Sequence[tuple[Expr, int]]) -> tuple[Expr, int]:
    """Σ (size - 1) × factor as (expression, constant to add)."""
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
    """The conditions under which each digit has size 1 or a factor that the smaller digits bridge. Factors have one sign; the smallest must divide all."""
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
            alternatives: list[list[Condition]] = []
            if needed <= most:
                reach, constant = _weighted(below)
                alternatives.append([InRange(reach, Interval(needed - constant, most - constant))])
            if not isinstance(digit.size, Constant):
                alternatives.append([InRange(digit.size, Interval(1, 1))])
            constraints = constraints & TileConstraints.any_of(alternatives)
        least += factor * (digit.size.value - 1) if isinstance(digit.size, Constant) else 0
        most += factor * (digit.most - 1)
        below.append((digit.size, factor))
    return constraints


def _alternatives(ascending: Sequence[SizedDigit]) -> list[list[Condition]]:
    """The conditions of XLA's form for every choice of digits: those from `first` to `last` are complete, `last` has any size, the others size 1."""
    count = len(ascending) * (len(ascending) + 1) // 2
    check("tile alternatives", count, MOST_ALTERNATIVES)
    spend(count)
    alternatives: list[list[Condition]] = []
    for first in range(len(ascending)):
        for last in range(first, len(ascending)):
            if last > first:
                low, high = ascending[last - 1], ascending[last]
                if high.factor != low.factor * low.most:
                    break
            sizes = [(digit.size, 1) for digit in (*ascending[:first], *ascending[last + 1 :])]
            sizes += [(digit.size, digit.most) for digit in ascending[first:last]]
            if any(isinstance(size, Constant) and size.value != value for size, value in sizes):
                continue
            alternatives.append(
                [InRange(size, Interval(value, value)) for size, value in sizes if not isinstance(size, Constant)]
            )
    return alternatives


def _stride(ascending: Sequence[SizedDigit]) -> Expr:
    """The factor of the first digit that does not have size 1; 0 if all have. In the form in which XLA writes it."""
    stride: Expr = const(0)
    for digit in reversed(ascending):
        # (most + 1 - size) / most is 1 for size 1 and 0 for the other sizes up to `most`.
        is_one: Expr = -digit.size + (digit.most + 1)
        if digit.most != 1:
            is_one = is_one // digit.most
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
