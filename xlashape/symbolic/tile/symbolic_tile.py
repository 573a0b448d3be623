"""Symbolic tiles: which box of the operand an output tile of any size reads. Matches `xla::SymbolicTile`.

An output tile has sizes d0, d1, … and strides 1. For all of its elements, a result of the map takes the values offset +
stride × [0, size). Offset, size and stride are expressions of the tile's sizes, and `constraints` says for which sizes
they are right.

As in XLA, these expressions are for a tile at index 0 of every dimension, and do not consider where the map's domain
ends. `SymbolicTile.evaluate` gives the box in numbers, a `TileBox`, for a tile at any index: exactly the elements that
are read, with those outside of the domain left out. In numbers each result is an arithmetic progression.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from xlashape.base.caches import cached
from xlashape.base.frozen import FrozenValue, set_field
from xlashape.base.math import ceil_div
from xlashape.errors import InvalidArgumentError, InvalidMapError
from xlashape.symbolic.expr.expression import Expr, Variable, VariableKind, const, dim, substitute, variables_of
from xlashape.symbolic.expr.ranges import Interval, Ranges
from xlashape.symbolic.expr.text import expression_text
from xlashape.symbolic.map.indexing_map import IndexingMap, checked_map
from xlashape.symbolic.map.parts import Var
from xlashape.symbolic.simplify.simplifier import Simplifier
from xlashape.symbolic.tile.constraints import Condition, InRange, TileConstraints
from xlashape.symbolic.tile.digits import Digit, Run, TileSimplifier, is_mixed, runs_of, stages_of
from xlashape.symbolic.tile.results import DigitSums, Rescaling, TileDomain, digit_sums_of


def integers(values: Iterable[Any], field: str) -> list[int]:
    """Sizes, offsets or values as Python integers. Raises InvalidArgumentError if they are not integers."""
    try:
        return [value if value.__class__ is int else const(value).value for value in values]
    except (TypeError, InvalidMapError):
        raise InvalidArgumentError(f"{field} are integers, not {values!r:.60}", field=field) from None


class TileBox(NamedTuple):
    """Along each dimension the indices offset, offset + stride, …, `size` of them.

    The stride of a dimension with size 1 has no meaning. A box with a size of 0 has no elements.
    """

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class Progression(NamedTuple):
    """The numbers offset, offset + stride, …, `size` of them."""

    offset: int
    size: int
    stride: int


def progression_of(offset: int, terms: Sequence[tuple[Run, int]]) -> Progression | None:
    """The numbers offset + Σ factor × run as one progression; None if they are no progression. The stride is 0 if there
    are several terms, all of length 1.

    If there are factors of both signs, the stride is positive.

    >>> progression_of(5, [(Run(1, 3), 8), (Run(0, 8), 1)]), progression_of(0, [(Run(0, 3), 8), (Run(0, 7), 1)])
    (Progression(offset=13, size=24, stride=1), None)
    """
    offset += sum([run.start * factor for run, factor in terms])
    if is_mixed([factor for _, factor in terms]):
        offset += sum([(run.length - 1) * factor for run, factor in terms if factor < 0])
        terms = [(run, abs(factor)) for run, factor in terms]
    varying = sorted([(abs(factor), factor, run.length) for run, factor in terms if run.length > 1])
    if len(varying) < 2:
        size = varying[0][2] if varying else 1
        stride = terms[0][1] if len(terms) == 1 else varying[0][1] if varying else 0
        return Progression(offset, size, stride)
    smallest = varying[0][1]
    reach = 0
    for step, factor, count in varying:
        if factor % smallest or step > abs(smallest) + reach:
            return None
        reach += step * (count - 1)
    return Progression(offset, reach // abs(smallest) + 1, smallest)


def clipped(progression: Progression, limit: Interval) -> Progression:
    """The numbers of the progression that lie within the limit.

    >>> (
    ...     clipped(Progression(-3, 5, 2), Interval(0, 4)),
    ...     clipped(Progression(9, 5, -2), Interval(2, 7)),
    ...     clipped(Progression(0, 3, 1), Interval(5, 9)),
    ... )
    (Progression(offset=1, size=2, stride=2), Progression(offset=7, size=3, stride=-2), Progression(offset=0, size=0, stride=1))
    """  # noqa: E501 - an answer is one line
    offset, size, stride = progression
    low, high = limit
    if stride < 0:
        offset, stride, low, high = -offset, -stride, -high, -low
    if stride == 0:
        return progression if progression.offset in limit else progression._replace(size=0)
    first = max(0, ceil_div(low - offset, stride))
    last = min(size - 1, (high - offset) // stride)
    if first > last:
        return progression._replace(size=0)
    return Progression(progression.offset + first * progression.stride, last - first + 1, progression.stride)


# -- symbolic tiles ----------------------------------------------------------------------------


class _Digits(NamedTuple):
    """The data from which `SymbolicTile.evaluate` computes boxes: the bounds and rescalings of the map's dimensions,
    and the results of the map as sums of digits.
    """

    bounds: tuple[Interval, ...]
    rescalings: tuple[Rescaling, ...]
    results: DigitSums


class SymbolicTile(FrozenValue):
    """The box of the operand that an output tile reads. Variables d are the tile's sizes, from 1 to the size of the
    dimension; rt are the map's runtime variables.

    `offsets`, `sizes` and `strides` have one expression for each result. They are right for tiles that satisfy
    `constraints`. If the domain has only every k-th index of a dimension, the tile must also contain such an index.
    `str` is XLA's text.

    >>> tile = symbolic_tile(
    ...     IndexingMap.parse("(d0){rt0} -> (d0 / 8, d0 mod 8, rt0), domain: d0 in [0, 31], rt0 in [0, 7]")
    ... )
    >>> print(tile)
    Symbolic tile with
      offset_map: (d0)[s0] -> (0, 0, s0)
      size_map: (d0) -> ((d0 + 7) / 8, d0 - ((d0 - 1) / 8) * 8, 1)
      stride_map: (d0) -> (1, 1, 0)
      rt_vars: s0 in [0, 7],
      constraints: 8 mod d0 in [0, 0] || d0 mod 8 in [0, 0]
    """

    # Boxes are computed from `_digits`, or from the tiles of two maps that are applied one after the other. A map
    # without points has neither.
    __slots__ = ("_digits", "_stages", "constraints", "offsets", "runtime", "sizes", "sizes_of_tile", "strides")
    _fields = ("sizes_of_tile", "runtime", "offsets", "sizes", "strides", "constraints", "_digits", "_stages")

    sizes_of_tile: tuple[Var, ...]
    runtime: tuple[Var, ...]
    offsets: tuple[Expr, ...]
    sizes: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    constraints: TileConstraints
    _digits: _Digits | None
    _stages: tuple[SymbolicTile, SymbolicTile] | None

    def __init__(
        self,
        sizes_of_tile: tuple[Var, ...],
        runtime: tuple[Var, ...],
        offsets: tuple[Expr, ...],
        sizes: tuple[Expr, ...],
        strides: tuple[Expr, ...],
        constraints: TileConstraints,
        digits: _Digits | None = None,
        stages: tuple[SymbolicTile, SymbolicTile] | None = None,
    ) -> None:
        for name, value in zip(
            self._fields, (sizes_of_tile, runtime, offsets, sizes, strides, constraints, digits, stages), strict=True
        ):
            set_field(self, name, value)

    def __repr__(self) -> str:
        fields = [f"{name}={getattr(self, name)!r}" for name in self._fields if not name.startswith("_")]
        return f"SymbolicTile({', '.join(fields)})"

    @property
    def alternatives(self) -> tuple[tuple[Condition, ...], ...]:
        """The alternatives of `constraints`; `((),)` if they always hold."""
        return self.constraints.alternatives

    @property
    def offset_map(self) -> IndexingMap:
        """From the tile's sizes and the runtime variables to the first index in each dimension of the operand, for a
        tile at index 0.
        """
        return IndexingMap(self._dims(), (), self.runtime, self.offsets)

    @property
    def size_map(self) -> IndexingMap:
        """From the tile's sizes to the sizes of the operand's tile, for a tile at index 0, as if no domain ended."""
        return IndexingMap(self._dims(), (), (), self.sizes)

    @property
    def stride_map(self) -> IndexingMap:
        """From the tile's sizes to the strides of the operand's tile."""
        return IndexingMap(self._dims(), (), (), self.strides)

    def _dims(self) -> tuple[Var, ...]:
        """The tile's sizes, bounded by the sizes of the domain. The expressions have no meaning for larger tiles, which
        read no more elements.
        """
        if self._stages is not None:
            return self._stages[0]._dims()
        if self._digits is None:
            return self.sizes_of_tile
        return tuple([Var(Interval(1, max(1, bounds.upper + 1))) for bounds in self._digits.bounds])

    def evaluate(
        self, tile: Sequence[int], runtime: Sequence[int] = (), start: Sequence[int] | None = None
    ) -> TileBox | None:
        """The elements that a tile of these sizes reads if it begins at index `start` of the map's dimensions, by
        default 0.

        The box holds exactly the elements that are read. The answer is None if the sizes do not satisfy the
        constraints, or if the elements that a tile at `start` reads within the domain are not found to be a box: the
        values of (d0 / 8, d0 mod 8) are a box for d0 in 4, …, 7, but not for d0 in 6, …, 9. If nothing is read, the box
        has a size of 0; for a map without results, whose boxes have no sizes, the answer is None.

        Raises InvalidArgumentError for a tile of another rank, or larger than the dimensions.

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
            return self._box_of_stages(self._stages, tile, runtime, start)
        if self._digits is None:
            return _empty_box(len(self.offsets))
        bounds, rescalings, results = self._digits
        sizes = [min(size, max(1, upper + 1)) for size, (_, upper) in zip(tile, bounds, strict=True)]
        if not self._constraints_hold(sizes, runtime):
            return None
        offsets = tuple([digit_sum.constant for digit_sum in results.sums])
        if self.runtime:
            at_runtime = self._values([digit_sum.fixed for digit_sum in results.sums], sizes, runtime)
            offsets = tuple([offset + added for offset, added in zip(offsets, at_runtime, strict=True)])
        runs = dict(results.runs)
        digits_of_dims: dict[int, list[Digit]] = {}
        for digit_sum in results.sums:
            for digit, _ in digit_sum.terms:
                if digit not in runs:
                    digits_of_dims.setdefault(digit.variable.index, []).append(digit)
        for d, (size, (lower, upper), rescaling) in enumerate(zip(tile, bounds, rescalings, strict=True)):
            first = start[d] if start is not None else 0
            begin, end = rescaling.within(max(first, lower), min(first + size, upper + 1))
            if begin >= end:
                if not offsets:
                    return None
                return TileBox(offsets, (0,) * len(offsets), self._values(self.strides, sizes, runtime))
            runs_of_dim = runs_of(digits_of_dims.get(d, ()), begin, end)
            if runs_of_dim is None:
                return None
            runs |= runs_of_dim
        progressions: list[Progression] = []
        for digit_sum, offset, limit in zip(results.sums, offsets, results.limits, strict=True):
            progression = progression_of(offset, [(runs[digit], factor) for digit, factor in digit_sum.terms])
            if progression is None:
                return None
            progressions.append(progression if limit is None else clipped(progression, limit))
        return TileBox(
            tuple([progression.offset for progression in progressions]),
            tuple([progression.size for progression in progressions]),
            tuple([progression.stride for progression in progressions]),
        )

    def _box_of_stages(
        self,
        stages: tuple[SymbolicTile, SymbolicTile],
        tile: Sequence[int],
        runtime: Sequence[int],
        start: Sequence[int] | None,
    ) -> TileBox | None:
        """The box that the second stage reads for the box of the first. None if the first has a stride other than 1."""
        first, second = stages
        box = first.evaluate(first._cut(tile), (), start)
        if box is None or any(size > 1 and stride != 1 for size, stride in zip(box.sizes, box.strides, strict=True)):
            return None
        if 0 in box.sizes:
            return _empty_box(len(self.offsets)) if self.offsets else None
        return second.evaluate(second._cut(box.sizes), runtime, box.offsets)

    def _cut(self, tile: Sequence[int]) -> list[int]:
        """The sizes of a tile, none larger than the dimension."""
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
        """XLA's text of a symbolic tile: a line for each of its maps, without the domain, then a line for its runtime
        variables and a line for its constraints, if it has any.

        The runtime variables that the offsets use print as s0, s1, …. `style` is that of expressions, as in
        `IndexingMap.to_text`.
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
    zeros = (0,) * rank
    return TileBox(zeros, zeros, zeros)


def _bytes(arguments: tuple[tuple[Var, ...], tuple[Var, ...], tuple[Expr, ...]], result: IndexingMap) -> int:
    """An upper bound of the bytes of an entry of `_map_of`, measured as in `xlashape.symbolic.map.indexing_map`."""
    del result  # made of the arguments
    dims, runtime, exprs = arguments
    return 2000 + 300 * len(dims + runtime) + 500 * sum([expr.size for expr in exprs])


@cached(max_bytes=4 << 20, weigh=_bytes)
def _map_of(dims: tuple[Var, ...], runtime: tuple[Var, ...], exprs: tuple[Expr, ...]) -> IndexingMap:
    """The map to these expressions. The map keeps its compiled form, so that `SymbolicTile.evaluate` compiles the
    expressions once for many tiles.
    """
    return IndexingMap(dims, (), runtime, exprs)


def symbolic_tile(indexing_map: IndexingMap) -> SymbolicTile | None:
    """The operand's tile for an output tile. None if that form is not found: the results must be sums of digits of
    dimensions and range variables, and the domain may have constraints on results only.

    The tile is right for all sizes for which XLA's is. XLA's is wrong for two results of one dimension, such as (d0,
    d0), which it takes for a box. Unlike XLA this finds tiles for overlapping windows, for sums of any digits and their
    quotients, for domains that have every k-th index only, and for dimensions with one element.

    Raises LimitExceededError for constraints with more than 4,096 alternatives, and for expressions beyond the limits
    of expressions.

    >>> tile = symbolic_tile(
    ...     IndexingMap.parse("(d0, d1)[s0] -> (d1 * 2 + 3, s0), domain: d0 in [0, 9], d1 in [0, 19], s0 in [0, 4]")
    ... )
    >>> tile.offsets, tile.sizes, tile.strides, str(tile.constraints)
    ((3, 0), (d1, 5), (2, 1), 'always')
    """
    checked_map(indexing_map)
    if indexing_map.is_undefined:
        return None
    simple = indexing_map.simplify()
    if simple.is_known_empty:
        return _empty_tile(indexing_map)
    variables = [variable for group in simple.variable_expressions() for variable in group]
    bounds: dict[Variable, tuple[int, int]] = {
        variable: var.bounds for variable, var in zip(variables, simple.variables, strict=True)
    }
    domain = TileDomain.of(bounds, simple.constraints)
    if any(low > high for low, high in domain.bounds.values()):
        return _empty_tile(indexing_map)
    results = digit_sums_of(TileSimplifier(domain.bounds), domain, domain.replaced(indexing_map.results))
    if results is None or results.constraints.is_unsatisfiable:
        # XLA stops here. The simplified map, whose results use its bounds and constraints, can be a sum of digits even
        # if the original map is not.
        results = digit_sums_of(Simplifier(domain.bounds), domain, domain.replaced(simple.results))
    if results is None or results.constraints.is_unsatisfiable:
        return _tile_of_stages(indexing_map, simple)
    return _tile_of_digits(indexing_map, simple, domain, results)


def _tile_of_stages(indexing_map: IndexingMap, simple: IndexingMap) -> SymbolicTile | None:
    """The tile that the second stage reads for the tile of the first stage. Its constraints allow only sizes for which
    the tile of the first stage has strides 1.
    """
    stages = stages_of(simple)
    first = None if stages is None else symbolic_tile(stages.first)
    second = None if stages is None or first is None else symbolic_tile(stages.second)
    if first is None or second is None or any(offset is not const(0) for offset in first.offsets):
        return None
    sizes: dict[Variable, Expr] = {dim(k): size for k, size in enumerate(first.sizes)}
    alternatives = [conditions for conditions in first.constraints.alternatives if _has_strides_1(first, conditions)]
    constraints = TileConstraints.any_of(alternatives) & second.constraints.replaced(sizes)
    if constraints.is_unsatisfiable:
        return None
    second_offsets, second_sizes, second_strides = [
        substitute(exprs, sizes) for exprs in (second.offsets, second.sizes, second.strides)
    ]
    return SymbolicTile(
        _sizes_of_tile(indexing_map),
        second.runtime,
        second_offsets,
        second_sizes,
        second_strides,
        constraints,
        stages=(first, second),
    )


def _empty_tile(indexing_map: IndexingMap) -> SymbolicTile | None:
    """The tile of a map without points: all sizes are 0. None for a map without results, whose tile has no sizes."""
    if not indexing_map.results:
        return None
    zeros = (const(0),) * len(indexing_map.results)
    return SymbolicTile(
        _sizes_of_tile(indexing_map), indexing_map.runtime, zeros, zeros, zeros, TileConstraints.always()
    )


def _sizes_of_tile(indexing_map: IndexingMap) -> tuple[Var, ...]:
    return tuple([Var(Interval(1, max(1, var.bounds.upper + 1))) for var in indexing_map.dims])


def _has_strides_1(tile: SymbolicTile, conditions: Sequence[Condition]) -> bool:
    """Whether, for tile sizes that satisfy these conditions, each dimension has stride 0 or 1, or size 1."""
    bounds = {dim(i): var.bounds for i, var in enumerate(tile.sizes_of_tile)}
    for condition in conditions:
        if isinstance(condition, InRange) and isinstance(condition.expr, Variable):
            bounds[condition.expr] = bounds[condition.expr].intersect(condition.interval)
    known: dict[Variable, tuple[int, int]] = dict(bounds)
    simplifier, ranges = Simplifier(known), Ranges(known)
    for size, stride in zip(tile.sizes, tile.strides, strict=True):
        low, high = ranges.of(simplifier.simplify(stride))
        if (low < 0 or high > 1) and simplifier.simplify(size) is not const(1):
            return False
    return True


def _tile_of_digits(
    indexing_map: IndexingMap, simple: IndexingMap, domain: TileDomain, results: DigitSums
) -> SymbolicTile:
    dims = indexing_map.variable_expressions()[0]
    rescaled_sizes: dict[Variable, Expr] = {
        variable: rescaling.size(variable) for variable, rescaling in domain.rescalings.items() if variable in dims
    }
    offsets, sizes, strides = [
        substitute(tuple(exprs), rescaled_sizes)
        for exprs in (
            [progression.start + progression.constant for progression in results.progressions],
            [progression.size for progression in results.progressions],
            [progression.stride for progression in results.progressions],
        )
    ]
    rescalings = tuple([domain.rescalings.get(variable, Rescaling()) for variable in dims])
    return SymbolicTile(
        _sizes_of_tile(indexing_map),
        simple.runtime,
        offsets,
        sizes,
        strides,
        results.constraints.replaced(rescaled_sizes) if rescaled_sizes else results.constraints,
        _Digits(tuple([var.bounds for var in simple.dims]), rescalings, results),
    )
