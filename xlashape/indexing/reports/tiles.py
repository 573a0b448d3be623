"""Tiles: which tile of an operand a tile of the output reads, which is what a tiled kernel has to load.

    for read in operand_tiles(dot, [16, 32]):
        read.tile, read.symbolic        # offsets, sizes, strides: in numbers, and as expressions in any tile's sizes

A tile is a box with strides: along each dimension `size` indices from `offset` on, `stride` apart.

- `push_tile` computes the tile for given numbers, exactly: there is a tile if and only if the elements reached form
  one. It enumerates the elements where there are few, or where no symbolic tile gives the answer.
- `symbolic_tile` computes the tile for all sizes at once (`xlashape.symbolic.tile`, which matches `xla::SymbolicTile`):
  expressions in the tile's sizes, and the constraints under which they hold. Its `evaluate` gives the box of any tile
  without enumerating elements. That box is the one that `push_tile` gives, except that strides may be negative, which
  `push_tile` reverses, and except for the stride of a size of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from xlashape.errors import InvalidArgumentError, InvalidIndexError
from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.leaves import is_unbounded
from xlashape.indexing.answers.operand_indexing import OperandIndexing
from xlashape.indexing.queries import errors_name_instruction, output_to_input
from xlashape.indexing.reports.counting import MAX_POINTS, box_size, reached_elements
from xlashape.limits import check
from xlashape.shape.parts.checks import integer
from xlashape.symbolic import (
    Expr,
    IndexingMap,
    Interval,
    SymbolicTile,
    TileBox,
    Var,
    Variable,
    VariableKind,
    const,
    dim,
    symbolic_tile,
)
from xlashape.symbolic.expr.expression import substitute_in_map
from xlashape.symbolic.map.indexing_map import checked_map

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


FEW_POINTS = 1 << 12
"""The most elements for which enumeration takes less time than making a symbolic tile."""


def push_tile(indexing_map: IndexingMap, tile: TileBox | Sequence[int]) -> TileBox | None:
    """The elements that a map reaches from a tile of its dimensions, if they form a tile; None if they do not, or there
    are none.

    `tile` may be sizes alone: a tile at the origin with strides 1. Range variables take all their values, runtime
    variables their lower bound. A tile that extends beyond the map's bounds is cut off there. InvalidArgumentError for
    a tile of another rank, or an undefined map; LimitExceededError for a tile of too many elements to enumerate that
    has no symbolic tile.

    >>> rows = IndexingMap.parse("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]")
    >>> push_tile(rows, [16]), push_tile(rows, [12])
    (TileBox(offsets=(0, 0), sizes=(2, 8), strides=(1, 1)), None)
    """
    checked_map(indexing_map)
    if indexing_map.is_undefined:
        raise InvalidArgumentError("nothing can be pushed through an undefined map")
    box = _checked(tile)
    if not len(box.offsets) == len(box.sizes) == len(box.strides) == len(indexing_map.dims):
        raise InvalidArgumentError(
            f"a tile of rank {len(box.sizes)} for a map of {len(indexing_map.dims)} dimensions", field="tile"
        )
    if indexing_map.is_known_empty:
        return None
    replaced: dict[Variable, Expr] = {}
    counted: list[Var] = []
    for d, (offset, size, stride) in enumerate(zip(*box, strict=True)):
        if size < 1:
            raise InvalidArgumentError(f"the tile has size {size} along dimension {d}", field="tile")
        replaced[Variable(VariableKind.DIM, d)] = dim(d) * stride + offset
        if stride > 0:
            size = min(size, (indexing_map.dims[d].bounds.upper - offset) // stride + 1)
            if size < 1:
                return None
        counted.append(Var(Interval(0, size - 1)))
    for k, var in enumerate(indexing_map.runtime):
        replaced[Variable(VariableKind.RUNTIME, k)] = const(var.bounds.lower)
    results, constraints = substitute_in_map(indexing_map.results, indexing_map.constraints, replaced)
    # A tile that extends beyond the end is cut off there, as tiles at the edge of an array are.
    edges = [(replaced[Variable(VariableKind.DIM, d)], var.bounds) for d, var in enumerate(indexing_map.dims)]
    pushed = IndexingMap(counted, indexing_map.ranges, (), results, [*constraints, *edges])
    points = box_size(pushed)
    if points > FEW_POINTS:
        evaluated = _by_symbolic_tile(indexing_map, box, pushed)
        if evaluated is not None:
            return evaluated if 0 not in evaluated.sizes else None
    check("tile elements", points, MAX_POINTS, field="tile")
    return _box(reached_elements(pushed))


def _checked(tile: TileBox | Sequence[int]) -> TileBox:
    """`tile` as a TileBox of ints: sizes alone become a tile at the origin with strides 1. InvalidArgumentError for
    anything else.
    """
    try:
        if isinstance(tile, (str, bytes)):
            raise TypeError
        given = tile if isinstance(tile, TileBox) else TileBox((0,) * len(tile), tuple(tile), (1,) * len(tile))
        return TileBox(*[tuple([integer(value, "tile") for value in part]) for part in given])
    except TypeError:
        raise InvalidArgumentError(f"tile takes sizes or a TileBox, not {type(tile).__name__}", field="tile") from None


def _check_place(tile: TileBox, indexing_map: IndexingMap) -> None:
    """Raises an error unless a tile of an output begins within the output, and its strides lead forward and are not
    longer than the output. The tile may reach over the edge: XLA's tiles do where they do not divide an array, and
    Triton's sizes are powers of two.
    """
    # `push_tile` compares the ranks.
    for d, (offset, size, stride, var) in enumerate(zip(*tile, indexing_map.dims, strict=False)):
        last = var.bounds.upper
        if offset < 0 or offset > max(0, last):
            message = f"the tile begins at {offset} along dimension {d}, whose indices are 0 to {last}"
            raise InvalidIndexError(message, field="tile")
        if stride < 1 and size > 1:
            message = f"the tile has stride {stride} along dimension {d}: expected 1 or more"
            raise InvalidArgumentError(message, field="tile")
        if stride > max(1, last) and size > 1:
            message = (
                f"the tile has stride {stride} along dimension {d}, whose indices are 0 to {last}: the first "
                "step leaves them"
            )
            raise InvalidArgumentError(message, field="tile")


def _by_symbolic_tile(indexing_map: IndexingMap, tile: TileBox, pushed: IndexingMap) -> TileBox | None:
    """The tile that `indexing_map` reaches from a tile, by the symbolic tile of `indexing_map` or of `pushed`; None
    where neither gives it.

    `pushed` is `indexing_map` with the indices within the tile as its dimensions. Strides of the result are not
    negative.
    """
    if all(stride == 1 for stride in tile.strides):
        symbolic = symbolic_tile(indexing_map)
        runtime = [var.bounds.lower for var in indexing_map.runtime]
        sizes = [
            min(size, max(1, var.bounds.upper + 1)) for size, var in zip(tile.sizes, indexing_map.dims, strict=True)
        ]
        box = None if symbolic is None else symbolic.evaluate(sizes, runtime, tile.offsets)
    else:
        symbolic = symbolic_tile(pushed)
        box = None if symbolic is None else symbolic.evaluate([var.bounds.upper + 1 for var in pushed.dims])
    if box is None:
        return None
    forward = [
        (offset if stride >= 0 else offset + (size - 1) * stride, size, abs(stride) if size > 1 else 0)
        for offset, size, stride in zip(*box, strict=True)
    ]
    return TileBox(*[tuple([part[k] for part in forward]) for k in range(3)])


def _box(rows: NDArray[np.int64]) -> TileBox | None:
    """The tile that the elements form; None if they form none. Each row is the index of an element."""
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


# -- of operands -------------------------------------------------------------------------------


class OperandTile(NamedTuple):
    """The tile that a tile of one output reads of one leaf of an operand (an array within it), in one way."""

    operand: int
    indexing: OperandIndexing
    """The simplified map that the tile was pushed through, and its runtime variables."""
    symbolic: SymbolicTile | None
    """The operand's tile for an output tile of any size; None where no such form is found."""
    tile: TileBox | None
    """The operand's tile for the given output tile, with runtime variables at their lower bounds; None if the elements
    that are read do not form a tile, or are not known.
    """


def operand_tiles(
    instruction: HloInstruction, tile: TileBox | Sequence[int] | None = None, output: int = 0
) -> tuple[OperandTile, ...]:
    """The tiles that a tile of an output reads: one result for each way in which an operand is read.

    `tile` may be sizes alone: a tile at the origin with strides 1. Without `tile`, the results have symbolic tiles
    alone. A tile that extends beyond the output is cut off there, as tiles at the edge of an array are.
    InvalidIndexError for a tile that begins outside the output, InvalidArgumentError for one of another rank, with a
    size below 1 or with several indices and a stride below 1 or beyond the output, LimitExceededError for one of too
    many elements, else errors as for `output_to_input`.

    >>> from xlashape.hlo import HloModule
    >>> text = "HloModule m ENTRY e { p = f32[64,32] parameter(0) ROOT t = f32[32,64] transpose(p), dimensions={1,0} }"
    >>> (read,) = operand_tiles(HloModule.parse(text).entry.root, [4, 16])
    >>> read.tile
    TileBox(offsets=(0, 0), sizes=(16, 4), strides=(1, 1))
    """
    tiles: list[OperandTile] = []
    box = None if tile is None else _checked(tile)
    with errors_name_instruction(instruction):
        for operand, accesses in enumerate(output_to_input(instruction, output)):
            shapes = instruction.shape, instruction.operands[operand].shape
            has_no_bound = any(map(is_unbounded, shapes))
            for access in accesses.simplify():
                if has_no_bound or access.map.is_undefined:
                    tiles.append(OperandTile(operand, access, None, None))
                    continue
                if box is not None:
                    _check_place(box, access.map)
                pushed = None if box is None else push_tile(access.map, box)
                tiles.append(OperandTile(operand, access, symbolic_tile(access.map), pushed))
    return tuple(tiles)
