"""Linear and multidimensional indices of arrays: XLA's `IndexUtil`.

These functions use `minor_to_major` alone and ignore tiles; `xlashape.shape.tiling` takes tiles into account.
An array without a layout has the default one, major to minor. A buffer counts as the array inside. A dynamic dimension
counts with its bound; a shape with an unbounded dimension has no linear order and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xlashape.base.math import product
from xlashape.errors import InvalidIndexError, InvalidShapeError
from xlashape.shape.arguments import array_of, checked_index, dimension_number, guard_all
from xlashape.shape.parts.checks import integer, shown
from xlashape.shape.parts.tile import UNBOUNDED_SIZE
from xlashape.shape.value.shape import Layout, Shape

__all__ = [
    "bump_indices",
    "compare_indices",
    "get_dimension_stride",
    "index_in_bounds",
    "linear_index_to_multidimensional_index",
    "multidimensional_index_to_linear_index",
]


def multidimensional_index_to_linear_index(
    shape: Shape, multi_index: Iterable[int], minor_to_major: Sequence[int] | None = None
) -> int:
    """The position of an element in the array's linear order, tiles ignored.

    `minor_to_major` is used instead of the layout's. InvalidIndexError for an index that is not one of this shape.

    >>> multidimensional_index_to_linear_index(Shape.parse("f32[2,3]{0,1}"), (1, 2))
    5
    """
    array = array_of(shape)
    order = _order(array, minor_to_major)
    sizes = array.dimensions
    entries = checked_index(array, sizes, multi_index)
    linear, stride = 0, 1
    for dimension in order:
        linear += entries[dimension] * stride
        stride *= sizes[dimension]
    return linear


def linear_index_to_multidimensional_index(shape: Shape, linear_index: int) -> tuple[int, ...]:
    """The element at a position of the array's linear order; the inverse of `multidimensional_index_to_linear_index`.

    InvalidIndexError if the position is negative or not below the number of elements.

    >>> linear_index_to_multidimensional_index(Shape.parse("f32[2,3]{0,1}"), 5)
    (1, 2)
    """
    array = array_of(shape)
    order = _order(array, None)
    sizes = array.dimensions
    rest = integer(linear_index, "linear_index")
    count = product(sizes)
    if not 0 <= rest < count:
        raise InvalidIndexError(
            f"position {shown(rest)} is outside {array}, which has {count} elements", field="linear_index"
        )
    entries = [0] * len(sizes)
    for dimension in order:
        rest, entries[dimension] = divmod(rest, sizes[dimension])
    return tuple(entries)


def bump_indices(shape: Shape, indices: Iterable[int]) -> tuple[int, ...] | None:
    """The index after `indices` when the last dimension varies fastest, in any layout; None after the last one.

    XLA's function changes its argument and returns whether there was a next index.

    >>> shape = Shape.parse("f32[2,3]")
    >>> bump_indices(shape, (0, 2)), bump_indices(shape, (1, 2))
    ((1, 0), None)
    """
    array = array_of(shape)
    entries = checked_index(array, array.dimensions, indices)
    for dimension in range(len(entries) - 1, -1, -1):
        if entries[dimension] + 1 < array.dimensions[dimension]:
            entries[dimension] += 1
            return tuple(entries)
        entries[dimension] = 0
    return None


def get_dimension_stride(shape: Shape, dimension: int) -> int:
    """The distance, in elements, between two neighbours along `dimension` in the linear order.

    >>> get_dimension_stride(Shape.parse("f32[2,3]{0,1}"), 1)
    2
    """
    array = array_of(shape)
    order = _order(array, None)
    number = dimension_number(array.rank, dimension)
    return product([array.dimensions[d] for d in order[: order.index(number)]])


def index_in_bounds(shape: Shape, index: Iterable[int]) -> bool:
    """Whether `index` has as many numbers as `shape` has dimensions, each inside its dimension.

    >>> index_in_bounds(Shape.parse("f32[2,3]"), (1, 2)), index_in_bounds(Shape.parse("f32[2,3]"), (1, 3))
    (True, False)
    """
    array = array_of(shape)
    entries = [integer(entry, ("index", i)) for i, entry in enumerate(index)]
    return len(entries) == array.rank and all(
        0 <= entry and (entry < size or size == UNBOUNDED_SIZE)
        for entry, size in zip(entries, array.dimensions, strict=True)
    )


def compare_indices(lhs: Sequence[int], rhs: Sequence[int]) -> int:
    """-1, 0 or 1 as `lhs` comes before, with or after `rhs` in the order where the last number varies fastest.

    Both have the same length; InvalidIndexError otherwise.

    >>> compare_indices((0, 2), (1, 0))
    -1
    """
    if len(lhs) != len(rhs):
        raise InvalidIndexError(f"an index of {len(lhs)} numbers cannot be compared with one of {len(rhs)}")
    a, b = tuple(lhs), tuple(rhs)
    return (a > b) - (a < b)


def _order(array: Shape, minor_to_major: Sequence[int] | None) -> Sequence[int]:
    if UNBOUNDED_SIZE in array.dimensions:
        raise InvalidShapeError(f"{array} has an unbounded dimension, so its elements have no order", field="shape")
    if minor_to_major is not None:
        order = Layout(minor_to_major).minor_to_major
        if len(order) != array.rank:
            raise InvalidShapeError(
                f"minor_to_major is of {len(order)} dimensions, {array} has {array.rank}", field="minor_to_major"
            )
        return order
    return range(array.rank - 1, -1, -1) if array.layout is None else array.layout.minor_to_major


guard_all(globals(), __all__)
