"""The tile of each operand that a tile of the output reads: what a tiled kernel has to load.

for read in operand_tiles(dot, [16, 32]):
    read.tile, read.symbolic            # offsets, sizes and strides: as numbers, and as expressions in any tile's sizes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.leaves import is_unbounded
from xlashape.indexing.answers.operand_indexing import OperandIndexing
from xlashape.indexing.queries import errors_name_instruction, output_to_input
from xlashape.indexing.reports.tiles import TileBox, push_tile, symbolic_tile
from xlashape.symbolic import SymbolicTile

__all__ = ["OperandTile", "operand_tiles"]


class OperandTile(NamedTuple):
    """What a tile of one output reads of one leaf of an operand in one way."""

    operand: int
    indexing: OperandIndexing
    """The simplified map that the tile was pushed through, and its runtime variables."""
    symbolic: SymbolicTile | None
    """The operand's tile for an output tile of any size; None where no such form is found."""
    tile: TileBox | None
    """The operand's tile for the given output tile, with runtime variables at their lower bounds; None if the elements that are read do not form a tile, or are not known."""


def operand_tiles(
    instruction: HloInstruction, tile: TileBox | Sequence[int] | None = None, output: int = 0
) -> tuple[OperandTile, ...]:
    """The tiles that a tile of an output reads: one result for each way in which an operand is read.

    `tile` may be sizes alone: a tile at the origin with strides 1. Without a tile, the results have symbolic tiles alone. A tile that extends beyond
    the output is cut off there. InvalidArgumentError for a tile of another rank or with a size below 1, LimitExceededError for one
    of too many elements, else errors as for `output_to_input`.

    >>> from xlashape.hlo import HloModule
    >>> text = "HloModule m ENTRY e { p = f32[64,32] parameter(0) ROOT t = f32[32,64] transpose(p), dimensions={1,0} }"
    >>> (read,) = operand_tiles(HloModule.parse(text).entry.root, [4, 16])
    >>> read.tile
    TileBox(offsets=(0, 0), sizes=(16, 4), strides=(1, 1))
    """
    tiles: list[OperandTile] = []
    with errors_name_instruction(instruction):
        for operand, accesses in enumerate(output_to_input(instruction, output)):
            shapes = instruction.shape, instruction.operands[operand].shape
            has_no_bound = any(map(is_unbounded, shapes))
            for access in accesses.simplify():
                if has_no_bound or access.map.is_undefined:
                    tiles.append(OperandTile(operand, access, None, None))
                    continue
                pushed = None if tile is None else push_tile(access.map, tile)
                tiles.append(OperandTile(operand, access, symbolic_tile(access.map), pushed))
    return tuple(tiles)
