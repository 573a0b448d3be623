"""The tile of an operand for a tile of the output, as `map --tiles` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlashape.symbolic import symbolic_tile
from xlashape.symbolic.expression_text import expression_text

if TYPE_CHECKING:
    from xlashape.symbolic import IndexingMap

__all__ = ["tile_json", "tile_lines"]


def tile_json(found: IndexingMap, style: str) -> dict[str, Any] | None:
    """Offsets, sizes and strides in the tile's sizes d0, d1, …, and when they hold; None where there is no such tile."""
    tile = symbolic_tile(found)
    if tile is None:
        return None
    parts = {"offsets": tile.offsets, "sizes": tile.sizes, "strides": tile.strides}
    texts = {name: [expression_text(expr, style=style) for expr in exprs] for name, exprs in parts.items()}
    return {**texts, "constraints": tile.constraints.to_text(style)}


def tile_lines(found: IndexingMap, style: str) -> list[str]:
    """The same for people."""
    told = tile_json(found, style)
    if told is None:
        return ["no tile"]
    lines = [f"tile {name} ({', '.join(told[name])})" for name in ("offsets", "sizes", "strides")]
    return lines if told["constraints"] == "always" else [*lines, f"     if {told['constraints']}"]
