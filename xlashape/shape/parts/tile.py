"""XLA's `Tile` and `SplitConfig`, the parts of a layout that say where elements lie beyond the order of dimensions.
Also the two sizes that have a special meaning.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlashape.base.frozen import FrozenValue, set_field
from xlashape.errors import InvalidShapeError
from xlashape.limits import INT64_MIN
from xlashape.shape.parts.checks import bytes_of, int64, int64s

COMBINE = INT64_MIN
"""The tile size printed `*`: the dimension merges with the next more minor one before the tile applies."""

UNBOUNDED_SIZE = INT64_MIN
"""The size of an unbounded dynamic dimension, printed `?`."""


class Tile(FrozenValue):
    """One tile: sizes, most major first, for the last `len(dimensions)` physical dimensions.

    >>> str(Tile((8, 128))), str(Tile((COMBINE, 2)))
    ('(8,128)', '(*,2)')

    A size is 1 or more, or COMBINE. The last size is not COMBINE. InvalidShapeError otherwise.
    `unknown_fields` are the bytes of protobuf fields that this version does not know; `to_proto` writes them back.
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
                raise InvalidShapeError(f"a tile size is 1 or more, not {size}", field=("dimensions", i))
        if sizes and sizes[-1] == COMBINE:
            raise InvalidShapeError(
                "the last size of a tile cannot be '*': there is no more minor dimension to combine with",
                field=("dimensions", len(sizes) - 1),
            )
        set_field(self, "dimensions", sizes)
        set_field(self, "unknown_fields", bytes_of(unknown_fields, "unknown_fields"))

    def __str__(self) -> str:
        return "(" + ",".join(["*" if size == COMBINE else str(size) for size in self.dimensions]) + ")"

    def __repr__(self) -> str:
        return f"Tile('{self}')"


class SplitConfig(FrozenValue):
    """Where one dimension is cut into parts that live in different memories: part i ends before `split_indices[i]`.

    `dimension` counts the physical dimensions from the most major one, 0, which is dimension 1 of f32[8,4]{0,1}.

    >>> str(SplitConfig(1, (4, 8)))
    '(1:4,8)'

    The indices do not decrease and none is negative; InvalidShapeError otherwise. Indices beyond the size of the
    dimension are accepted, because XLA reads and prints such shapes; `layout_util.validate_layout_for_shape` refuses
    them.
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
                raise InvalidShapeError(f"split indices grow from 0: {position} {reason}", field=("split_indices", i))
            previous = position
        set_field(self, "dimension", number)
        set_field(self, "split_indices", indices)
        set_field(self, "unknown_fields", bytes_of(unknown_fields, "unknown_fields"))

    def __str__(self) -> str:
        return f"({self.dimension}:{','.join(map(str, self.split_indices))})"

    def __repr__(self) -> str:
        return f"SplitConfig('{self}')"
