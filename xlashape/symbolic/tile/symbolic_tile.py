"""Tiles pushed through maps symbolically: which box of the operand an output tile of any size reads. Matches `xla::SymbolicTile`.

An output tile has sizes d0, d1, … and strides 1. A result of the map reads, for all of the tile, the numbers offset + stride × [0, size): offset,
size and stride are expressions in the tile's sizes, and `constraints` says for which sizes that is so.

The three expressions are those of a tile at index 0 of every dimension, as XLA gives them, before anything is cut off. `SymbolicTile.evaluate` gives
the box in numbers, for a tile anywhere: cut off where the map's domain ends, and exactly what is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from xlashape.errors import InvalidArgumentError
from xlashape.symbolic.expr.expression import Expr, Variable, VariableKind, const, dim
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.expr.ranges import Ranges
from xlashape.symbolic.expr.substitute import substitute, variables_of
from xlashape.symbolic.expr.text import expression_text
from xlashape.symbolic.map.indexing_map import IndexingMap, checked_map
from xlashape.symbolic.map.parts import Var
from xlashape.symbolic.simplify.simplifier import Simplifier
from xlashape.symbolic.tile.box import Progression, TileBox, clipped, integers, progression_of
from xlashape.symbolic.tile.constraints import Condition, InRange, TileConstraints
from xlashape.symbolic.tile.digits import Digit, TileSimplifier, runs_of
from xlashape.symbolic.tile.results import DigitSums, Rescaling, TileDomain, digit_sums_of
from xlashape.symbolic.tile.stages import stages_of

__all__ = ["SymbolicTile", "symbolic_tile"]


class _Numbers(NamedTuple):
    """What numbers are told by, if the domain has points: the bounds of its dimensions, their steps, and the results."""

    bounds: tuple[Interval, ...]
    steps: tuple[Rescaling, ...]
    reading: DigitSums


@dataclass(frozen=True)
class SymbolicTile:
    """What an output tile reads. Variables d are the tile's sizes, from 1 to the size of the dimension; rt are the map's runtime variables.

    `offsets`, `sizes` and `strides` have one expression a result; the answer holds where `constraints` does. Where the domain has every other
    index alone, or the like, they are of tiles with one in them. `str` is XLA's text.

    >>> tile = symbolic_tile(IndexingMap.parse("(d0){rt0} -> (d0 / 8, d0 mod 8, rt0), domain: d0 in [0, 31], rt0 in [0, 7]"))
    >>> print(tile)
    Symbolic tile with
      offset_map: (d0)[s0] -> (0, 0, s0)
      size_map: (d0) -> ((d0 + 7) / 8, d0 - ((d0 - 1) / 8) * 8, 1)
      stride_map: (d0) -> (1, 1, 0)
      rt_vars: s0 in [0, 7],
      constraints: 8 mod d0 in [0, 0] || d0 mod 8 in [0, 0]
    """

    sizes_of_tile: tuple[Var, ...]
    runtime: tuple[Var, ...]
    offsets: tuple[Expr, ...]
    sizes: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    constraints: TileConstraints
    _numbers: _Numbers | None = field(repr=False, hash=False)
    _stages: tuple[SymbolicTile, SymbolicTile] | None = field(default=None, repr=False, hash=False)

    @property
    def alternatives(self) -> tuple[tuple[Condition, ...], ...]:
        """The alternatives of `constraints`; `((),)` is always."""
        return self.constraints.alternatives

    @property
    def offset_map(self) -> IndexingMap:
        """From the tile's sizes and the runtime variables to the first index along each dimension of the operand, for a tile at index 0."""
        return IndexingMap(self._dims(), (), self.runtime, self.offsets)

    @property
    def size_map(self) -> IndexingMap:
        """From the tile's sizes to those of the operand's tile, for a tile at index 0, before anything is cut off."""
        return IndexingMap(self._dims(), (), (), self.sizes)

    @property
    def stride_map(self) -> IndexingMap:
        """From the tile's sizes to the strides of the operand's tile."""
        return IndexingMap(self._dims(), (), (), self.strides)

    def _dims(self) -> tuple[Var, ...]:
        """Beyond the dimensions' sizes in the domain nothing is read, and the expressions mean nothing."""
        if self._stages is not None:
            return self._stages[0]._dims()
        if self._numbers is None:
            return self.sizes_of_tile
        return tuple([Var(Interval(1, max(1, bounds.upper + 1))) for bounds in self._numbers.bounds])

    def evaluate(
        self, tile: Sequence[int], runtime: Sequence[int] = (), start: Sequence[int] | None = None
    ) -> TileBox | None:
        """The elements that a tile of these sizes reads, if it begins at index `start` of the map's dimensions: 0 unless given.

        Offsets, sizes and strides of exactly the elements read: nothing outside of the domain is. None where the constraints fail, or where
        what a tile at `start` reads, or what the domain leaves of it, is seen to be no such box: d0 / 8 and d0 mod 8 are one for 4, …, 7, but none for 6, …, 9. A tile that
        reads nothing has a size of 0; of a map without results, which has no sizes, None. InvalidArgumentError for a tile of another rank or larger than the dimensions.

        >>> tile = symbolic_tile(IndexingMap.parse("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]"))
        >>> tuple(tile.evaluate([16])), tuple(tile.evaluate([4])), tile.evaluate([12])
        (((0, 0), (2, 8), (1, 1)), ((0, 0), (1, 4), (1, 1)), None)
        >>> tuple(tile.evaluate([4], start=[12])), tile.evaluate([4], start=[6])
        (((1, 4), (1, 4), (1, 1)), None)
        """
        tile, runtime = integers(tile, "tile sizes"), integers(runtime, "runtime values")
        start = None if start is None else integers(start, "tile starts")
        self._check(tile, runtime, start)
        if self._stages is not None:
            return self._staged_box(tile, runtime, start)
        if self._numbers is None:
            return _empty_box(len(self.offsets))
        bounds, steps, reading = self._numbers
        cut = [min(size, max(1, upper + 1)) for size, (_, upper) in zip(tile, bounds, strict=True)]
        if not self._constraints_hold(cut, runtime):
            return None
        offsets = tuple([part.constant for part in reading.parts])
        if self.runtime:
            moved = self._values([part.fixed for part in reading.parts], cut, runtime)
            offsets = tuple([offset + more for offset, more in zip(offsets, moved, strict=True)])
        digits: dict[int, list[Digit]] = {}
        for part in reading.parts:
            for digit, _ in part.terms:
                if digit not in reading.runs:
                    digits.setdefault(digit.variable.index, []).append(digit)
        runs = dict(reading.runs)
        for d, (size, (lower, upper), step) in enumerate(zip(tile, bounds, steps, strict=True)):
            first = start[d] if start is not None else 0
            begin, end = step.within(max(first, lower), min(first + size, upper + 1))
            if begin >= end:
                if not offsets:
                    return None
                return TileBox(offsets, (0,) * len(offsets), self._values(self.strides, cut, runtime))
            found = runs_of(digits.get(d, ()), begin, end)
            if found is None:
                return None
            runs |= found
        boxes: list[Progression] = []
        for part, offset, limit in zip(reading.parts, offsets, reading.limits, strict=True):
            one = progression_of(offset, [(runs[digit], factor) for digit, factor in part.terms])
            if one is None:
                return None
            boxes.append(one if limit is None else clipped(one, limit))
        return TileBox(
            tuple([one.offset for one in boxes]),
            tuple([one.size for one in boxes]),
            tuple([one.stride for one in boxes]),
        )

    def _staged_box(self, tile: Sequence[int], runtime: Sequence[int], start: Sequence[int] | None) -> TileBox | None:
        """What the second stage reads for what the first does, if that is a tile with strides 1."""
        assert self._stages is not None
        first, second = self._stages
        box = first.evaluate(first._cut(tile), (), start)
        if box is None or any(size > 1 and stride != 1 for size, stride in zip(box.sizes, box.strides, strict=True)):
            return None
        if 0 in box.sizes:
            return _empty_box(len(self.offsets)) if self.offsets else None
        return second.evaluate(second._cut(box.sizes), runtime, box.offsets)

    def _cut(self, tile: Sequence[int]) -> list[int]:
        return [min(size, var.bounds.upper) for size, var in zip(tile, self.sizes_of_tile, strict=True)]

    def _check(self, tile: Sequence[int], runtime: Sequence[int], start: Sequence[int] | None) -> None:
        if len(tile) != len(self.sizes_of_tile) or len(runtime) != len(self.runtime):
            raise InvalidArgumentError(
                f"the map has {len(self.sizes_of_tile)} dimensions and {len(self.runtime)} runtime variables, "
                f"the tile {len(tile)} and {len(runtime)}"
            )
        if start is not None and len(start) != len(tile):
            raise InvalidArgumentError(f"the tile has {len(tile)} dimensions, its start {len(start)}", field="start")
        for i, (size, var) in enumerate(zip(tile, self.sizes_of_tile, strict=True)):
            if size not in var.bounds:
                raise InvalidArgumentError(
                    f"the tile has size {size} along dimension {i}, which has {var.bounds.upper} elements"
                )
        if any(value not in var.bounds for value, var in zip(runtime, self.runtime, strict=True)):
            raise InvalidArgumentError("a runtime variable is outside of its bounds")

    def _values(self, exprs: Sequence[Expr], tile: Sequence[int], runtime: Sequence[int]) -> tuple[int, ...]:
        values = _map_of(self.sizes_of_tile, self.runtime, tuple(exprs)).evaluate((*tile, *runtime))
        assert values is not None
        return values

    def _constraints_hold(self, tile: Sequence[int], runtime: Sequence[int]) -> bool:
        if self.constraints.is_always:
            return True
        exprs = self.constraints.expressions()
        values = dict(zip(exprs, self._values(exprs, tile, runtime), strict=True))
        return self.constraints.hold(values.__getitem__)

    def to_text(self, style: str = "xla") -> str:
        """XLA's text of a symbolic tile, a line each: maps without domains, runtime variables that offsets speak of as s0, s1, …, constraints if any.

        `style` is that of expressions, as in `IndexingMap.to_text`.
        """
        used = sorted([v.index for v in variables_of(self.offsets) if v.kind is VariableKind.RUNTIME])
        names = {Variable(VariableKind.RUNTIME, k): f"s{i}" for i, k in enumerate(used)}
        dims = ", ".join([f"d{i}" for i in range(len(self.sizes_of_tile))])
        symbols = f"[{', '.join(names.values())}]" if names else ""

        def line(head: str, results: Sequence[Expr]) -> str:
            return f"{head} -> ({', '.join([expression_text(result, names, style) for result in results])})"

        lines = [
            "Symbolic tile with",
            f"offset_map: {line(f'({dims}){symbols}', self.offsets)}",
            f"size_map: {line(f'({dims})', self.sizes)}",
            f"stride_map: {line(f'({dims})', self.strides)}",
        ]
        if used:
            lines.append("rt_vars: " + " ".join([f"s{i} in {self.runtime[k].bounds}," for i, k in enumerate(used)]))
        if not self.constraints.is_always:
            lines.append(f"constraints: {self.constraints.to_text(style)}")
        return "\n  ".join(lines)

    __str__ = to_text


def _empty_box(rank: int) -> TileBox:
    none = (0,) * rank
    return TileBox(none, none, none)


@lru_cache(256)
def _map_of(dims: tuple[Var, ...], runtime: tuple[Var, ...], exprs: tuple[Expr, ...]) -> IndexingMap:
    """The map to these expressions, whose program is kept with it."""
    return IndexingMap(dims, (), runtime, exprs)


def symbolic_tile(found: IndexingMap) -> SymbolicTile | None:
    """The operand's tile for an output tile; None where no such form is seen: results that are no sums of digits of dimensions and range
    variables, or a domain with constraints on anything but results.

    It holds where XLA's does, but for tiles of which XLA's is wrong: XLA takes two results with one dimension, such as (d0, d0), for a box.
    It also holds where windows overlap, for sums of any digits and their quotients, for domains that hold every so manieth index, and where a
    dimension has one element. LimitExceededError for constraints of
    more than 4,096 alternatives, or expressions beyond the limits of expressions.

    >>> tile = symbolic_tile(IndexingMap.parse("(d0, d1)[s0] -> (d1 * 2 + 3, s0), domain: d0 in [0, 9], d1 in [0, 19], s0 in [0, 4]"))
    >>> tile.offsets, tile.sizes, tile.strides, str(tile.constraints)
    ((3, 0), (d1, 5), (2, 1), 'always')
    """
    checked_map(found)
    if found.is_undefined:
        return None
    if found.is_known_empty:
        return _nothing(found)
    simple = found.simplify()
    if simple.is_known_empty:
        return _nothing(found)
    variables = [variable for group in simple.variable_expressions() for variable in group]
    bounds: dict[Variable, tuple[int, int]] = {
        variable: var.bounds for variable, var in zip(variables, simple.variables, strict=True)
    }
    domain = TileDomain.of(bounds, simple.constraints)
    if any(low > high for low, high in domain.bounds.values()):
        return _nothing(found)
    reading = digit_sums_of(TileSimplifier(domain.bounds), domain, domain.replaced(found.results))
    if reading is None or reading.constraints.is_unsatisfiable:
        # XLA looks no further. Bounds, and what the constraints promise, may tell more.
        reading = digit_sums_of(Simplifier(domain.bounds), domain, domain.replaced(simple.results))
    if reading is None or reading.constraints.is_unsatisfiable:
        return _staged(found, simple)
    return _tile(found, simple, domain, reading)


def _staged(found: IndexingMap, simple: IndexingMap) -> SymbolicTile | None:
    """The tile of the second stage for the tile of the first, where that has strides 1."""
    stages = stages_of(simple)
    first = None if stages is None else symbolic_tile(stages.first)
    second = None if stages is None or first is None else symbolic_tile(stages.second)
    if first is None or second is None or any(offset is not const(0) for offset in first.offsets):
        return None
    sizes: dict[Variable, Expr] = {dim(k): size for k, size in enumerate(first.sizes)}
    alternatives = [way for way in first.constraints.alternatives if _steps_of_one(first, way)]
    constraints = TileConstraints.any_of(alternatives) & second.constraints.replaced(sizes)
    if constraints.is_unsatisfiable:
        return None
    offsets, lengths, steps = [substitute(part, sizes) for part in (second.offsets, second.sizes, second.strides)]
    return SymbolicTile(
        _sizes_of_tile(found), second.runtime, offsets, lengths, steps, constraints, None, (first, second)
    )


def _nothing(found: IndexingMap) -> SymbolicTile | None:
    """The tile of a domain without points: sizes 0, if there are results to have sizes."""
    if not found.results:
        return None
    none = (const(0),) * len(found.results)
    return SymbolicTile(_sizes_of_tile(found), found.runtime, none, none, none, TileConstraints.always(), None)


def _sizes_of_tile(found: IndexingMap) -> tuple[Var, ...]:
    return tuple([Var(Interval(1, max(1, var.bounds.upper + 1))) for var in found.dims])


def _steps_of_one(tile: SymbolicTile, way: Sequence[Condition]) -> bool:
    """Whether all strides are 1, or 0, for tile sizes that fulfil these conditions."""
    bounds = {dim(i): var.bounds for i, var in enumerate(tile.sizes_of_tile)}
    for condition in way:
        if isinstance(condition, InRange) and isinstance(condition.expr, Variable):
            both = bounds[condition.expr].intersect(condition.interval)
            if both.is_empty:
                return False
            bounds[condition.expr] = both
    known: dict[Variable, tuple[int, int]] = dict(bounds)
    simplifier, ranges = Simplifier(known), Ranges(known)
    for size, stride in zip(tile.sizes, tile.strides, strict=True):
        low, high = ranges.of(simplifier.simplify(stride))
        if (low < 0 or high > 1) and simplifier.simplify(size) is not const(1):
            return False
    return True


def _tile(found: IndexingMap, simple: IndexingMap, domain: TileDomain, reading: DigitSums) -> SymbolicTile:
    dims = found.variable_expressions()[0]
    sizes = {variable: step.size(variable) for variable, step in domain.steps.items() if variable in dims}

    def of_tile(exprs: list[Expr]) -> tuple[Expr, ...]:
        return substitute(tuple(exprs), sizes) if sizes else tuple(exprs)

    return SymbolicTile(
        _sizes_of_tile(found),
        simple.runtime,
        of_tile([total.start + total.constant for total in reading.sums]),
        of_tile([total.size for total in reading.sums]),
        of_tile([total.stride for total in reading.sums]),
        reading.constraints.replaced(sizes) if sizes else reading.constraints,
        _Numbers(
            tuple([var.bounds for var in simple.dims]),
            tuple([domain.steps.get(variable, Rescaling()) for variable in dims]),
            reading,
        ),
    )
