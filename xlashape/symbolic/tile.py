"""Tiles pushed through maps symbolically: which box of the operand an output tile of any size reads. Matches `xla::SymbolicTile`.

An output tile has size d0 × d1 × … and stands at the origin with strides 1. A result of the map reads, for all of the tile, the numbers
offset + stride × [0, size), where that is so: offset, size and stride are expressions in the tile's sizes, and `alternatives` says for which sizes.

A result is a sum of digits: dimensions, d / c, d mod c and range variables, each times a stride. Digits add up to one arithmetic sequence if, from the
smallest stride on, digits of size 1 come first, then digits that are whole and meet the next one's stride, then one of any size, then digits of size 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as choices
from typing import NamedTuple

from xlashape.errors import InvalidArgumentError
from xlashape.limits import spend
from xlashape.symbolic.expr import Constant, Expr, FloorDiv, Mod, Variable, VariableKind, const
from xlashape.symbolic.indexing_map import IndexingMap
from xlashape.symbolic.interval import Interval
from xlashape.symbolic.map_parts import Var
from xlashape.symbolic.simplify import Simplifier

__all__ = ["SymbolicTile", "symbolic_tile"]

_MOST_ALTERNATIVES = 256

Condition = tuple[tuple[Expr, Interval], ...]


class SymbolicTile(NamedTuple):
    """What an output tile reads. Variables d are the tile's sizes, from 1 to the size of the dimension; rt are the map's runtime variables.

    The answer holds where all constraints of one of `alternatives` do; `((),)` is everywhere.
    """

    sizes_of_tile: tuple[Var, ...]
    runtime: tuple[Var, ...]
    offsets: tuple[Expr, ...]
    sizes: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    alternatives: tuple[Condition, ...]

    def evaluate(
        self, tile: Sequence[int], runtime: Sequence[int] = ()
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
        """Offsets, sizes and strides for a tile of given sizes; None where the elements read are no such box.

        InvalidArgumentError for a tile of another rank or beyond the dimensions.

        >>> tile = symbolic_tile(IndexingMap.parse("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]"))
        >>> tile.evaluate([16]), tile.evaluate([4]), tile.evaluate([12])
        (((0, 0), (2, 8), (1, 1)), ((0, 0), (1, 4), (1, 1)), None)
        """
        point = (*tile, *runtime)
        if len(tile) != len(self.sizes_of_tile) or len(runtime) != len(self.runtime):
            raise InvalidArgumentError(
                f"the map has {len(self.sizes_of_tile)} dimensions and {len(self.runtime)} runtime variables, "
                f"the tile {len(tile)} and {len(runtime)}"
            )
        for i, (size, var) in enumerate(zip(tile, self.sizes_of_tile, strict=True)):
            if size not in var.bounds:
                raise InvalidArgumentError(
                    f"the tile has size {size} along dimension {i}, which has {var.bounds.upper} elements"
                )
        if any(value not in var.bounds for value, var in zip(runtime, self.runtime, strict=True)):
            raise InvalidArgumentError("a runtime variable is outside of its bounds")
        if not any(self._evaluated(point, (), condition) is not None for condition in self.alternatives):
            return None
        values = self._evaluated(point, (*self.offsets, *self.sizes, *self.strides), ())
        assert values is not None
        n = len(self.offsets)
        return values[:n], values[n : 2 * n], values[2 * n :]

    def _evaluated(self, point: Sequence[int], exprs: tuple[Expr, ...], condition: Condition) -> tuple[int, ...] | None:
        return IndexingMap(self.sizes_of_tile, (), self.runtime, exprs, condition).evaluate(point)


class _Digit(NamedTuple):
    size: Expr
    whole: int  # its greatest size
    stride: int
    conditions: tuple[Condition, ...]  # alternatives under which the digit runs through [0, size)


def symbolic_tile(found: IndexingMap) -> SymbolicTile | None:
    """The operand's tile for an output tile; None where no such form is seen: a constrained domain, or results that are no digits.

    Dimensions that do not begin at 0 have none either.

    >>> tile = symbolic_tile(IndexingMap.parse("(d0, d1)[s0] -> (d1 * 2 + 3, s0), domain: d0 in [0, 9], d1 in [0, 19], s0 in [0, 4]"))
    >>> tile.offsets, tile.sizes, tile.strides, tile.alternatives
    ((3, 0), (d1, 5), (2, 1), ((),))
    """
    if found.is_undefined or found.is_known_empty:
        return None
    simple = found.simplify()
    if simple.is_known_empty or simple.constraints or any(var.bounds.lower != 0 for var in found.dims):
        return None
    sizes_of_tile = tuple([Var(Interval(1, var.bounds.upper + 1)) for var in found.dims])
    bounds: dict[Variable, tuple[int, int]] = {}
    for variables, group in zip(
        simple.variable_expressions(), (simple.dims, simple.ranges, simple.runtime), strict=True
    ):
        bounds.update({variable: var.bounds for variable, var in zip(variables, group, strict=True)})
    reader = Simplifier(bounds)
    offsets: list[Expr] = []
    sizes: list[Expr] = []
    strides: list[Expr] = []
    alternatives: list[Condition] = [()]
    for result in simple.results:
        read = _digits(reader, result, bounds)
        if read is None:
            return None
        offset, digits = read
        joined = _joined(digits)
        if len(joined) * len(alternatives) > _MOST_ALTERNATIVES:
            return None
        spend(len(joined) * len(alternatives))
        alternatives = list(dict.fromkeys([(*a, *b) for a, b in choices(alternatives, joined)]))
        offsets.append(offset)
        size: Expr = const(1)
        for digit in digits:
            size = size * digit.size
        sizes.append(size)
        strides.append(_stride(digits))
    return SymbolicTile(sizes_of_tile, found.runtime, tuple(offsets), tuple(sizes), tuple(strides), tuple(alternatives))


def _digits(
    reader: Simplifier, result: Expr, bounds: dict[Variable, tuple[int, int]]
) -> tuple[Expr, list[_Digit]] | None:
    """The offset of a result and its digits by increasing stride."""
    terms, constant = reader.form_of(result)
    offset: Expr = const(constant)
    digits: list[_Digit] = []
    used: set[Variable] = set()
    for atom, stride in terms.items():
        inner = atom.lhs if isinstance(atom, FloorDiv | Mod) else atom
        if not isinstance(inner, Variable) or inner in used:
            return None
        used.add(inner)
        low, high = bounds[inner]
        if inner.kind is VariableKind.RUNTIME and inner is atom:
            offset = offset + atom * stride
        elif inner.kind is VariableKind.RANGE and inner is atom:
            offset = offset + low * stride
            digits.append(_Digit(const(high - low + 1), high - low + 1, stride, ((),)))
        elif inner.kind is VariableKind.DIM:
            digits.append(_digit_of_dim(atom, inner, high + 1, stride))
        else:
            return None
    if len(digits) > 1 and any(digit.stride < 0 for digit in digits):
        return None
    digits.sort(key=lambda digit: digit.stride)
    return offset, digits


def _digit_of_dim(atom: Expr, size: Variable, whole: int, stride: int) -> _Digit:
    """d, d / c or d mod c, for d from 0 to below `size`; the tile's size has the name of its dimension."""
    if isinstance(atom, FloorDiv) and isinstance(atom.rhs, Constant):
        divisor = atom.rhs.value
        return _Digit((size + (divisor - 1)) // divisor, -(-whole // divisor), stride, ((),))
    if isinstance(atom, Mod) and isinstance(atom.rhs, Constant):
        modulus = atom.rhs.value
        # Below the modulus all of [0, size); a multiple of it all of [0, modulus). Other sizes wrap around.
        below: Condition = ((size, Interval(1, modulus)),)
        multiple: Condition = ((size % modulus, Interval(0, 0)),)
        return _Digit(size - (size - 1) // modulus * modulus, min(whole, modulus), stride, (below, multiple))
    return _Digit(size, whole, stride, ((),))


def _joined(digits: list[_Digit]) -> list[Condition]:
    """When the digits add up to one sequence."""
    ways: list[Condition] = [()] if not digits else []
    for first in range(len(digits)):
        for last in range(first, len(digits)):
            if last > first and digits[last].stride != digits[last - 1].stride * digits[last - 1].whole:
                break
            wanted = [(digit.size, 1) for digit in (*digits[:first], *digits[last + 1 :])]
            wanted += [(digit.size, digit.whole) for digit in digits[first:last]]
            if any(isinstance(size, Constant) and size.value != value for size, value in wanted):
                continue
            ways.append(
                tuple([(size, Interval(value, value)) for size, value in wanted if not isinstance(size, Constant)])
            )
    whole: list[Condition] = []
    for way, *own in choices(ways, *(digit.conditions for digit in digits)):
        whole.append(tuple(dict.fromkeys([*way, *(constraint for condition in own for constraint in condition)])))
    return list(dict.fromkeys(whole))


def _stride(digits: list[_Digit]) -> Expr:
    """The stride of the first digit that is not of size 1; of the last one if all are; 0 without digits."""
    if not digits:
        return const(0)
    stride: Expr = const(digits[-1].stride)
    for digit in reversed(digits[:-1]):
        # (whole + 1 - size) / whole is 1 for a size of 1 and 0 for others up to the whole.
        is_one: Expr = const(1) if digit.whole == 1 else (digit.whole + 1 - digit.size) // digit.whole
        stride = is_one * stride + (1 - is_one) * digit.stride
    return stride
