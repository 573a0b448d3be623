"""Tiles: a tile of the output pushed through a map gives the tile of the operand.

A tile is a box with steps: along each dimension `size` indices from `offset`, `stride` apart. `push_tile` does it for given numbers, exactly: the
answer is a tile only if the elements reached are one. `symbolic_tile` does it for all sizes at once, where sizes and strides are sums and products of
those of the output's tile; it matches `xla::SymbolicTile` there, and gives none where XLA's tile holds for some sizes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from xlashape.errors import InvalidArgumentError, LimitExceededError
from xlashape.indexing.counting import MAX_POINTS, box_size, reached_elements
from xlashape.symbolic import Constant, Expr, IndexingMap, Interval, Mul, Var, Variable, VariableKind, const, dim
from xlashape.symbolic.expr import sum_terms
from xlashape.symbolic.substitute import substitute

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SymbolicTile", "TileBox", "push_tile", "symbolic_tile"]


class TileBox(NamedTuple):
    """Along each dimension the indices offset, offset + stride, …, `size` of them. A stride of 0 goes with a size of 1."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


def push_tile(found: IndexingMap, tile: TileBox | Sequence[int]) -> TileBox | None:
    """The elements that a map reaches from a tile of its dimensions, if they form a tile; None if they do not, or there are none.

    `tile` may be sizes alone: a tile at the origin with strides 1. Range variables take all their values. Runtime variables count with their
    lower bound; offsets move with them. InvalidArgumentError for a tile of another rank, outside of the map's bounds or of an undefined map;
    LimitExceededError for one of too many elements.

    >>> rows = IndexingMap.parse("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]")
    >>> push_tile(rows, [16]), push_tile(rows, [12])
    (TileBox(offsets=(0, 0), sizes=(2, 8), strides=(1, 1)), None)
    """
    if found.is_undefined:
        raise InvalidArgumentError("nothing can be pushed through an undefined map")
    box = tile if isinstance(tile, TileBox) else TileBox((0,) * len(tile), tuple(tile), (1,) * len(tile))
    if not len(box.offsets) == len(box.sizes) == len(box.strides) == len(found.dims):
        raise InvalidArgumentError(f"a tile of rank {len(box.sizes)} for a map of {len(found.dims)} dimensions")
    if found.is_known_empty:
        return None
    replaced: dict[Variable, Expr] = {}
    counted: list[Var] = []
    for d, (offset, size, stride) in enumerate(zip(*box, strict=True)):
        if size < 1:
            raise InvalidArgumentError(f"the tile has size {size} along dimension {d}")
        replaced[Variable(VariableKind.DIM, d)] = dim(d) * stride + offset
        counted.append(Var(Interval(0, size - 1)))
    for k, var in enumerate(found.runtime):
        replaced[Variable(VariableKind.RUNTIME, k)] = const(var.bounds.lower)
    exprs = substitute((*found.results, *(expr for expr, _ in found.constraints)), replaced)
    count = len(found.results)
    constraints = list(zip(exprs[count:], [interval for _, interval in found.constraints], strict=True))
    # A tile that sticks out at the end is cut off there, as tiles at the edge of an array are.
    constraints += [(replaced[Variable(VariableKind.DIM, d)], var.bounds) for d, var in enumerate(found.dims)]
    pushed = IndexingMap(counted, found.ranges, (), exprs[:count], constraints)
    if box_size(pushed) > MAX_POINTS:
        raise LimitExceededError(
            f"tile elements: {box_size(pushed)} is more than {MAX_POINTS}",
            limit="tile_elements",
            maximum=MAX_POINTS,
            value=box_size(pushed),
        )
    return _box(reached_elements(pushed))


class SymbolicTile(NamedTuple):
    """The tile that an output's tile at the origin, with strides 1, is pushed to.

    Each is a map from the sizes of the output's tile to one number for each dimension of the target. Offsets may depend on runtime variables.
    """

    offsets: IndexingMap
    sizes: IndexingMap
    strides: IndexingMap


def symbolic_tile(found: IndexingMap) -> SymbolicTile | None:
    """The tile of the target for every size of the output's tile; None where there is no such form (or it holds for some sizes only).

    >>> tile = symbolic_tile(IndexingMap.parse("(d0, d1)[s0] -> (d1 * 2 + 3, s0), domain: d0 in [0, 9], d1 in [0, 19], s0 in [0, 4]"))
    >>> tile.sizes.results, tile.strides.results, tile.offsets.results
    ((d1, 5), (2, 1), (3, 0))
    """
    found = found.simplify()
    if found.is_undefined or found.is_known_empty or found.constraints:
        return None
    offsets: list[Expr] = []
    sizes: list[Expr] = []
    strides: list[Expr] = []
    seen: set[Variable] = set()
    for result in found.results:
        along = _along(found, result, seen)
        if along is None:
            return None
        for kept, value in zip((offsets, sizes, strides), along, strict=True):
            kept.append(value)
    dims = [Var(Interval(1, var.bounds.size)) for var in found.dims]
    return SymbolicTile(
        IndexingMap(dims, (), found.runtime, offsets),
        IndexingMap(dims, (), (), sizes),
        IndexingMap(dims, (), (), strides),
    )


def _along(found: IndexingMap, result: Expr, seen: set[Variable]) -> tuple[Expr, Expr, Expr] | None:
    """(offset, size, stride) of one result: Σ factor · variable, each variable in no other result."""
    offset: Expr = const(0)
    steps: list[tuple[int, Expr]] = []
    for term in sum_terms(result):
        variable, factor = (term.lhs, term.rhs) if isinstance(term, Mul) else (term, const(1))
        if isinstance(term, Constant):
            offset = offset + term
        elif not isinstance(variable, Variable) or not isinstance(factor, Constant):
            return None
        elif variable.kind is VariableKind.RUNTIME:
            offset = offset + term
        elif variable in seen:
            return None
        else:
            seen.add(variable)
            if variable.kind is VariableKind.DIM:
                steps.append((factor.value, variable))
            else:
                bounds = found.ranges[variable.index].bounds
                offset = offset + factor.value * bounds.lower
                steps.append((factor.value, const(bounds.size)))
    if not steps:
        return offset, const(1), const(0)
    if len(steps) == 1:
        return offset, steps[0][1], const(steps[0][0])
    # The fastest first: each has to begin where the one before ends, so all but the slowest have a known size.
    steps.sort(key=lambda step: step[0])
    stride, size = steps[0]
    for factor, count in steps[1:]:
        if stride <= 0 or not isinstance(size, Constant) or factor != stride * size.value:
            return None
        size = count * size
    return offset, size, const(stride)


def _box(rows: NDArray[np.int64]) -> TileBox | None:
    import numpy as np

    distinct: NDArray[np.int64] = np.unique(rows, axis=0)
    if not len(distinct):
        return None
    offsets: list[int] = []
    sizes: list[int] = []
    strides: list[int] = []
    total = 1
    for d in range(distinct.shape[1]):
        values: NDArray[np.int64] = np.unique(distinct[:, d])
        steps: NDArray[np.int64] = np.unique(np.diff(values))
        if len(steps) > 1:
            return None
        offsets.append(int(values[0]))
        sizes.append(len(values))
        strides.append(int(steps[0]) if len(steps) else 0)
        total *= len(values)
    return TileBox(tuple(offsets), tuple(sizes), tuple(strides)) if total == len(distinct) else None
