"""The parts of a layout that say where elements lie beyond their order: XLA's `Tile` and `SplitConfig`."""

from __future__ import annotations

from collections.abc import Iterable

from xlashape.errors import InvalidShapeError
from xlashape.limits import INT64_MIN
from xlashape.shape.value.base import Value, bytes_of, int64, int64s

__all__ = ["COMBINE", "SplitConfig", "Tile"]

COMBINE = INT64_MIN
"""The tile size printed `*`: the dimension merges with the next more minor one before the tile applies."""


class Tile(Value):
    """One tile: sizes, most major first, for the last `len(dimensions)` physical dimensions.

    >>> str(Tile((8, 128))), str(Tile((COMBINE, 2)))
    ('(8,128)', '(*,2)')

    A size is 1 or more, or COMBINE; the last one is not COMBINE. InvalidShapeError otherwise.
    `unknown_fields` are the bytes of protobuf fields this version does not know; they travel along.
    """

    __slots__ = ("dimensions", "unknown_fields")
    __match_args__ = ("dimensions",)
    _fields = ("dimensions", "unknown_fields")
    dimensions: tuple[int, ...]
    unknown_fields: bytes

    def __init__(self, dimensions: Iterable[int], unknown_fields: bytes = b"") -> None:
        sizes = int64s(dimensions, "dimensions")
        for i, size in enumerate(sizes):
            if size <= 0 and size != COMBINE:
                raise InvalidShapeError(f"a tile size is 1 or more, not {size}", field=f"dimensions[{i}]")
        if sizes and sizes[-1] == COMBINE:
            raise InvalidShapeError(
                "the last size of a tile cannot be '*': there is no more minor dimension to combine with",
                field=f"dimensions[{len(sizes) - 1}]",
            )
        object.__setattr__(self, "dimensions", sizes)
        object.__setattr__(self, "unknown_fields", bytes_of(unknown_fields, "unknown_fields"))

    def __str__(self) -> str:
        return "(" + ",".join(["*" if size == COMBINE else str(size) for size in self.dimensions]) + ")"

    def __repr__(self) -> str:
        return f"Tile('{self}')"


class SplitConfig(Value):
    """Where one dimension is cut into parts that live in different memories: part i ends before `split_indices[i]`.

    `dimension` counts the physical dimensions from the most major one, 0: of f32[8,4]{0,1} it is dimension 1.

    >>> str(SplitConfig(1, (4, 8)))
    '(1:4,8)'

    The indices do not decrease and none is negative; InvalidShapeError otherwise. Whether they lie inside their dimension is
    not asked: XLA reads and prints shapes where they do not. `layout_util.validate_layout_for_shape` asks.
    """

    __slots__ = ("dimension", "split_indices", "unknown_fields")
    __match_args__ = ("dimension", "split_indices")
    _fields = ("dimension", "split_indices", "unknown_fields")
    dimension: int
    split_indices: tuple[int, ...]
    unknown_fields: bytes

    def __init__(self, dimension: int, split_indices: Iterable[int] = (), unknown_fields: bytes = b"") -> None:
        number = int64(dimension, "dimension")
        if number < 0:
            raise InvalidShapeError(f"a dimension number is 0 or more, not {number}", field="dimension")
        indices = int64s(split_indices, "split_indices")
        previous = 0
        for i, position in enumerate(indices):
            if position < previous:
                reason = "is negative" if position < 0 else f"comes after {previous}"
                raise InvalidShapeError(f"split indices grow from 0: {position} {reason}", field=f"split_indices[{i}]")
            previous = position
        object.__setattr__(self, "dimension", number)
        object.__setattr__(self, "split_indices", indices)
        object.__setattr__(self, "unknown_fields", bytes_of(unknown_fields, "unknown_fields"))

    def __str__(self) -> str:
        return f"({self.dimension}:{','.join(map(str, self.split_indices))})"

    def __repr__(self) -> str:
        return f"SplitConfig('{self}')"
