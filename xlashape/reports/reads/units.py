"""Counts the units of memory (segments, cache lines, tiles) that hold at least one of the elements that are read.

A box, an arithmetic progression of indices along each dimension, is counted by its runs of contiguous elements, or by
its tiles; other sets of elements are enumerated, up to `MOST_POINTS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import TYPE_CHECKING, Final, NamedTuple

from xlashape.base.caches import cached
from xlashape.base.math import ceil_div, product
from xlashape.indexing.answers.leaves import map_bytes
from xlashape.indexing.reports.counting import box_size, reached_elements
from xlashape.indexing.reports.physical import logical_to_physical
from xlashape.limits import INT64_MAX, spend
from xlashape.shape import Shape
from xlashape.shape.tiling.formula import geometry
from xlashape.shape.tiling.padding import stored_bits
from xlashape.symbolic import Constant, Expr, IndexingMap, Interval, Mul, Var, Variable, dim
from xlashape.symbolic.expr.expression import sum_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_POINTS: Final = 1 << 20
"""The most elements of a set that are enumerated."""
_MOST_RUNS: Final = 1 << 20


class IndexProgression(NamedTuple):
    """Indices along a dimension: start, start + step, …"""

    start: int
    step: int
    size: int
    """The number of indices."""

    def tiles(self, side: int) -> int:
        """How many tiles, of `side` indices each, the indices lie in."""
        if self.step <= side:  # no tile is left out
            return (self.start + self.step * (self.size - 1)) // side - self.start // side + 1
        return self.size  # no two lie in one tile


class _Runs(NamedTuple):
    """Runs of contiguous bits. A run begins at `offset` plus each sum of multiples of the strides."""

    offset: int
    """The first bit of the first run."""
    strides: tuple[tuple[int, int], ...]
    """(stride in bits, number of runs along it), from the most major dimension to the most minor."""
    length: int
    """The bits of each run."""


def units_of_all(shape: Shape, unit_bytes: int) -> int | None:
    """How many units of `unit_bytes` bytes hold the elements of an array; None where they are too many to enumerate."""
    array = geometry(shape)
    bits = stored_bits(shape)
    if 0 in array.dimensions:
        return 0
    tile = _tile(shape)
    if not tile:
        return ceil_div(product(array.dimensions) * bits, 8 * unit_bytes)
    box = [IndexProgression(0, 1, size) for size in array.dimensions]
    return _units_of_box(shape, box, unit_bytes)


def units_of(shape: Shape, maps: Sequence[IndexingMap], physical: Sequence[IndexingMap], unit_bytes: int) -> int | None:
    """How many units of `unit_bytes` bytes hold an element that some map names; None where these are too many to
    enumerate.

    `maps` lead to indices of the array; `physical` are maps of the same accesses to positions in its buffer. No map has
    runtime variables.
    """
    return _kept(shape, tuple(maps), tuple(physical), unit_bytes)[0]


@cached(max_bytes=4 << 20, weigh=lambda key, value: 400 + sum([map_bytes(each) for each in (*key[1], *key[2])]))
def _kept(
    shape: Shape, maps: tuple[IndexingMap, ...], physical: tuple[IndexingMap, ...], unit_bytes: int
) -> tuple[int | None]:
    """The result of `units_of`, cached. It is in a tuple, because cached results must not be None."""
    boxes = [box_of(each) for each in dict.fromkeys(maps)]
    if len(boxes) == 1 and boxes[0] is not None:
        return (_units_of_box(shape, boxes[0], unit_bytes),)
    return (_enumerated(shape, tuple(dict.fromkeys(physical)), unit_bytes),)


def box_of(indexing_map: IndexingMap) -> list[IndexProgression] | None:
    """The indices that a map names, if they are those of a box; else None.

    >>> box_of(
    ...     IndexingMap.parse("(d0, d1)[s0] -> (d0 * 2 + s0, 7 - d1), domain: d0 in [0, 9], d1 in [0, 3], s0 in [0, 1]")
    ... )
    [IndexProgression(start=0, step=1, size=20), IndexProgression(start=4, step=1, size=4)]
    """
    if indexing_map.constraints or indexing_map.is_known_empty:
        return None
    groups = indexing_map.variable_expressions()
    variables = dict(zip([each for group in groups for each in group], indexing_map.variables, strict=True))
    used: set[Variable] = set()
    box: list[IndexProgression] = []
    for result in indexing_map.results:
        found = _progression(result, variables, used)
        if found is None:
            return None
        box.append(found)
    return box


def _progression(result: Expr, variables: dict[Variable, Var], used: set[Variable]) -> IndexProgression | None:
    """The values of a sum of multiples of variables, if they are evenly spaced and no other result uses the variables.
    `used` has the variables of the results before; those of this one are added to it."""
    start = 0
    factors: list[tuple[int, int]] = []
    for term in sum_terms(result):
        if isinstance(term, Constant):
            start += term.value
            continue
        variable, factor = (term.lhs, term.rhs) if isinstance(term, Mul) else (term, Constant(1))
        if not isinstance(variable, Variable) or not isinstance(factor, Constant) or variable in used:
            return None
        used.add(variable)
        bounds = variables[variable].bounds
        start += factor.value * (bounds.lower if factor.value > 0 else bounds.upper)
        if bounds.size > 1 and factor.value:
            factors.append((abs(factor.value), bounds.size))
    step, count = 1, 1
    for factor, size in sorted(factors):
        if count == 1:
            step, count = factor, size
        elif factor % step == 0 and factor <= step * count:
            count += factor // step * (size - 1)
        else:
            return None
    return IndexProgression(start, step, count)


def _tile(shape: Shape) -> tuple[int, ...]:
    """The dimensions of the first tile of an array's layout; empty without one."""
    array = shape.buffer_shape if shape.is_buffer else shape
    tiles = array.layout.tiles if array.layout is not None else ()
    return tuple(tiles[0].dimensions) if tiles else ()


def _units_of_box(shape: Shape, box: Sequence[IndexProgression], unit_bytes: int) -> int | None:
    """How many units hold an element of a box; None where they are too many to enumerate."""
    array = geometry(shape)
    bits, tile = stored_bits(shape), _tile(shape)
    ordered = [box[number] for number in array.major_to_minor]
    sizes = [array.dimensions[number] for number in array.major_to_minor]
    if tile:
        if product(tile) * bits != 8 * unit_bytes or len(tile) > len(ordered) or min(tile) < 1:
            return _enumerated(shape, (_map_of_box(shape, box),), unit_bytes)
        majors = ordered[: len(ordered) - len(tile)]
        minors = zip(ordered[len(majors) :], tile, strict=True)
        return product([each.size for each in majors]) * product([each.tiles(side) for each, side in minors])
    return _units_of_runs(_runs(ordered, sizes, bits), 8 * unit_bytes)


def _map_of_box(shape: Shape, box: Sequence[IndexProgression]) -> IndexingMap:
    """A map that names the positions of a box in the array's buffer."""
    whole = IndexingMap(
        [Var(Interval(0, each.size - 1)) for each in box], (), (),
        [dim(number) * each.step + each.start for number, each in enumerate(box)], (),
    )  # fmt: skip
    return whole.compose(logical_to_physical(shape))


def _runs(ordered: Sequence[IndexProgression], sizes: Sequence[int], bits: int) -> _Runs:
    """The runs of a box of an array without tiles, whose elements have `bits` bits. `ordered` and `sizes` are the box
    and the array, from the most major dimension to the most minor."""
    stride, offset, length = 1, 0, 1
    outer: list[tuple[int, int]] = []
    is_whole = True
    for each, size in zip(reversed(ordered), reversed(sizes), strict=True):
        offset += each.start * stride
        if each.size > 1:
            if is_whole and each.step == 1:
                length *= each.size
            else:
                outer.append((each.step * stride * bits, each.size))
                is_whole = False
        is_whole = is_whole and each.size == size
        stride *= size
    return _Runs(offset * bits, tuple(reversed(outer)), length * bits)


def _units_of_runs(runs: _Runs, unit: int) -> int | None:
    """How many units of `unit` bits hold a bit of a run; None where there are too many runs."""
    import numpy as np

    strides = list(runs.strides)
    times = 1
    while strides:
        (stride, count), *inner = strides
        span = sum([step * (many - 1) for step, many in inner]) + runs.length
        if stride % unit or (runs.offset % unit + span - 1) // unit >= stride // unit:
            break
        times, strides = times * count, inner
    count = product([many for _, many in strides])
    end = runs.offset % unit + sum([step * (many - 1) for step, many in strides]) + runs.length
    if count > _MOST_RUNS or end > INT64_MAX:
        return None
    spend(count // 64 + 1)
    starts = np.array([runs.offset % unit], np.int64)
    for stride, many in strides:
        starts = (starts[:, None] + stride * np.arange(many, dtype=np.int64)).ravel()
    first, last = starts // unit, (starts + runs.length - 1) // unit
    return times * _spanned(first, last)


def _spanned(first: NDArray[np.int64], last: NDArray[np.int64]) -> int:
    """How many units lie in at least one of these spans, which come in ascending order of their starts."""
    import numpy as np

    before = np.concatenate([[-1], np.maximum.accumulate(last)[:-1]])
    return int(np.maximum(0, last - np.maximum(first, before + 1) + 1).sum())


def _enumerated(shape: Shape, physical: Sequence[IndexingMap], unit_bytes: int) -> int | None:
    """How many units hold a position that some map names, by enumeration; None for more than `MOST_POINTS` points."""
    import numpy as np

    if sum([box_size(each) for each in physical]) > MOST_POINTS:
        return None
    common = gcd(stored_bits(shape), 8 * unit_bytes)  # without it, bits of large arrays are more than int64 can hold
    bits, unit = stored_bits(shape) // common, 8 * unit_bytes // common
    found = [reached_elements(each)[:, 0] for each in physical]
    positions = np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)
    return _spanned(positions * bits // unit, (positions * bits + bits - 1) // unit) if len(positions) else 0
