"""XLA's `Tile` and `SplitConfig`, the parts of a layout that say where elements lie beyond the order of dimensions.
Also the sizes that have a special meaning.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlashape.base.frozen import FrozenValue, set_field
from xlashape.errors import InvalidShapeError
from xlashape.limits import INT64_MIN
from xlashape.shape.parts.checks import bytes_of, int64, int64s

COMBINE = INT64_MIN
"""The tile size printed `*`: the dimension merges with the next more minor one before the tile applies."""

WHOLE_DIMENSION = INT64_MIN + 1
"""The tile size printed `d`: as long as the dimension that it cuts. A `*` before it merges first."""

UNBOUNDED_SIZE = INT64_MIN
"""The size of an unbounded dynamic dimension, printed `?`."""

_LETTERS = {COMBINE: "*", WHOLE_DIMENSION: "d"}


class Tile(FrozenValue):
    """One tile: sizes, most major first, for the last `len(dimensions)` physical dimensions.

    >>> str(Tile((8, 128))), str(Tile((COMBINE, 2))), str(Tile((WHOLE_DIMENSION, 2)))
    ('(8,128)', '(*,2)', '(d,2)')

    A size is 1 or more, COMBINE or WHOLE_DIMENSION. InvalidShapeError otherwise. Where the last size is COMBINE, as XLA
    reads and prints it, the array has no size and its elements have no positions.
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
            if size <= 0 and size not in _LETTERS:
                raise InvalidShapeError(f"a tile size is 1 or more, not {size}", field=("dimensions", i))
        set_field(self, "dimensions", sizes)
        set_field(self, "unknown_fields", bytes_of(unknown_fields, "unknown_fields"))

    def __str__(self) -> str:
        return "(" + ",".join([_LETTERS.get(size) or str(size) for size in self.dimensions]) + ")"

    def __repr__(self) -> str:
        return f"Tile('{self}')"

    def groups(self) -> tuple[tuple[int, int], ...]:
        """For each size that is not COMBINE: how many dimensions it cuts, those that merge included, and the size.

        InvalidShapeError where the last size is COMBINE: there is no more minor dimension to combine with.

        >>> Tile((COMBINE, 2, 4)).groups()
        ((2, 2), (1, 4))
        """
        groups: list[tuple[int, int]] = []
        merged = 1
        for size in self.dimensions:
            if size != COMBINE:
                groups.append((merged, size))
            merged = merged + 1 if size == COMBINE else 1
        if merged > 1:
            raise InvalidShapeError(
                f"the tile {self} places no elements: its last size is '*', and there is no more minor dimension to "
                "combine with",
                field="shape",
            )
        return tuple(groups)


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
