"""The parts of an explanation: causes that make a buffer larger than its elements, and changes that make it smaller."""

from __future__ import annotations

from typing import Any, NamedTuple

from xlashape.math import byte_text
from xlashape.shape import Shape, Tile

__all__ = ["Cause", "Suggestion", "factor_text", "share_of"]


class Cause(NamedTuple):
    """One reason why a buffer is larger than its elements.

    `kind` is one of

    - "tile": a tile pads a dimension, or several that are combined
    - "tail": the number of elements is rounded up
    - "element size": the layout's `E(n)` gives an element more bits than its type has
    - "packing": `E(n)` packs elements into bytes, or elements below 8 bits are not packed; `bytes` is 0, since the bytes of elements
      are counted as they are stored, and `saved_bytes` says what packing saves (below 0: what its absence costs)
    - "dynamic sizes", "metadata": the actual sizes of dynamic dimensions, behind or before the elements
    - "tuple table", "nested scalar": what a tuple adds on the target
    """

    kind: str
    text: str
    bytes: int
    """The bytes that this cause adds after the causes before it. Their sum over all causes is the overhead of the buffer."""
    share: float
    """The fraction of the overhead, 0.0 to 1.0."""
    dimensions: tuple[int, ...] = ()
    """The logical dimensions that are padded."""
    size: int | None = None
    padded: int | None = None
    """Of "tile" and "tail": the size with padding."""
    tile: Tile | None = None
    saved_bytes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The value as a dict for JSON."""
        return self._asdict() | {
            "dimensions": list(self.dimensions),
            "tile": None if self.tile is None else list(self.tile.dimensions),
        }

    def __str__(self) -> str:
        return f"{self.text} (+{byte_text(self.bytes)})" if self.bytes else self.text


class Suggestion(NamedTuple):
    """Something that makes the buffer smaller.

    `kind` is one of

    - "order": another order of the dimensions in memory; the array stays the same
    - "tiles": other tiles, those that a TPU would use
    - "merge", "split", "reshape": other dimensions with the same elements in the same order
    - "packing": elements below 8 bits share bytes, or need no more bits than their type has
    - "round": a dimension is reduced to a multiple of its tile; the array loses elements
    - "type": a narrower element type; the values must fit it
    """

    kind: str
    text: str
    shape: Shape
    """The array with this change."""
    buffer_bytes: int
    """The bytes of its buffer, computed as for the array that is explained."""
    saved_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """The value as a dict for JSON."""
        return self._asdict() | {"shape": str(self.shape)}

    def __str__(self) -> str:
        now = self.buffer_bytes + self.saved_bytes
        part = f", {self.buffer_bytes / now:.1%} of now" if now else ""
        return f"{self.text}: {byte_text(self.buffer_bytes)}{part}"


def share_of(part: int, whole: int) -> float:
    """The fraction part / whole; 0.0 if the whole is 0."""
    return part / whole if whole else 0.0


def factor_text(factor: float) -> str:
    """A factor with the digits that matter.

    >>> factor_text(32.0), factor_text(1.2345678), factor_text(2048.4)
    ('32 times', '1.235 times', '2,048 times')
    """
    return f"{factor:,.0f} times" if factor == int(factor) or factor >= 1000 else f"{factor:.4g} times"
