"""Linear and multidimensional indices of arrays: XLA's `IndexUtil`.

These functions work with `minor_to_major` alone and never look at tiles; `xlashape.shape.tiling` knows tiles too.
An array without a layout is taken major to minor. A dynamic dimension counts with its bound; a shape with an unbounded one
has no linear order and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index as as_int
from typing import Any

from xlashape.errors import InvalidIndexError, InvalidShapeError
from xlashape.math import product
from xlashape.shape.layout import Layout
from xlashape.shape.shape import UNBOUNDED_SIZE, Shape

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
    """The position of an element in the array's linear order, tiles left aside.

    `minor_to_major` takes the place of the layout's. InvalidIndexError for an index that is not one of this shape.

    >>> multidimensional_index_to_linear_index(Shape.parse("f32[2,3]{0,1}"), (1, 2))
    5
    """
    order = _order(shape, minor_to_major)
    sizes = shape.dimensions
    entries = _checked_index(shape, multi_index)
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
    order = _order(shape, None)
    sizes = shape.dimensions
    rest = _as_int(linear_index, "linear_index")
    count = product(sizes)
    if not 0 <= rest < count:
        raise InvalidIndexError(f"{_shown(rest)} is no position in {shape}, which has {count} elements", field="linear_index")
    entries = [0] * len(sizes)
    for dimension in order:
        rest, entries[dimension] = divmod(rest, sizes[dimension])
    return tuple(entries)


def bump_indices(shape: Shape, indices: Iterable[int]) -> tuple[int, ...] | None:
    """The index after `indices` when the last dimension varies fastest, whatever the layout; None after the last one.

    XLA's function changes its argument and answers whether there was a next one.

    >>> shape = Shape.parse("f32[2,3]")
    >>> bump_indices(shape, (0, 2)), bump_indices(shape, (1, 2))
    ((1, 0), None)
    """
    entries = list(_checked_index(shape, indices))
    for dimension in range(len(entries) - 1, -1, -1):
        if entries[dimension] + 1 < shape.dimensions[dimension]:
            entries[dimension] += 1
            return tuple(entries)
        entries[dimension] = 0
    return None


def get_dimension_stride(shape: Shape, dimension: int) -> int:
    """How far apart, in elements, two neighbours along `dimension` lie in the linear order.

    >>> get_dimension_stride(Shape.parse("f32[2,3]{0,1}"), 1)
    2
    """
    order = _order(shape, None)
    number = dimension_number(shape, dimension)
    return product([shape.dimensions[d] for d in order[: order.index(number)]])


def index_in_bounds(shape: Shape, index: Iterable[int]) -> bool:
    """Whether `index` has as many numbers as `shape` has dimensions and each is within its bounds.

    >>> index_in_bounds(Shape.parse("f32[2,3]"), (1, 3))
    False
    """
    _require_array(shape)
    entries = [_as_int(entry, f"index[{i}]") for i, entry in enumerate(index)]
    return len(entries) == shape.rank and all(
        0 <= entry < size or (size == UNBOUNDED_SIZE and entry >= 0) for entry, size in zip(entries, shape.dimensions, strict=True)
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


def dimension_number(shape: Shape, dimension: int) -> int:
    """`dimension` counted from 0; negative numbers count from the end. InvalidIndexError if there is no such dimension."""
    _require_array(shape)
    number = _as_int(dimension, "dimension")
    rank = shape.rank
    if not -rank <= number < rank:
        raise InvalidIndexError(f"{shape} has {rank} dimensions, and no dimension {_shown(number)}", field="dimension")
    return number % rank


def _require_array(shape: Shape) -> None:
    if not shape.is_array:
        raise InvalidShapeError(f"{_shown(shape)} is no array", field="shape")


def _order(shape: Shape, minor_to_major: Sequence[int] | None) -> Sequence[int]:
    _require_array(shape)
    if UNBOUNDED_SIZE in shape.dimensions:
        raise InvalidShapeError(f"{shape} has an unbounded dimension, so its elements have no linear order", field="shape")
    if minor_to_major is not None:
        order = Layout(minor_to_major).minor_to_major
        if len(order) != shape.rank:
            raise InvalidShapeError(
                f"minor_to_major is of {len(order)} dimensions, {shape} has {shape.rank}", field="minor_to_major"
            )
        return order
    return range(shape.rank - 1, -1, -1) if shape.layout is None else shape.layout.minor_to_major


def _checked_index(shape: Shape, index: Iterable[int]) -> tuple[int, ...]:
    _require_array(shape)
    try:
        entries = tuple([_as_int(entry, f"index[{i}]") for i, entry in enumerate(index)])
    except TypeError:
        raise InvalidIndexError(f"an index is a sequence of integers, not {type(index).__name__}", field="index") from None
    if len(entries) != shape.rank:
        raise InvalidIndexError(f"{shape} has {shape.rank} dimensions, the index {len(entries)} numbers", field="index")
    for dimension, (entry, size) in enumerate(zip(entries, shape.dimensions, strict=True)):
        if not 0 <= entry < size:
            raise InvalidIndexError(
                f"index {_shown(entry)} is out of bounds of dimension {dimension} of {shape}, whose size is {size}",
                field=f"index[{dimension}]",
            )
    return entries


def _as_int(value: Any, field: str) -> int:
    try:
        return int(as_int(value))
    except TypeError:
        raise InvalidIndexError(f"{field} is an integer, not {type(value).__name__}", field=field) from None


def _shown(value: object) -> str:
    # Python refuses to print integers of thousands of digits.
    if isinstance(value, int) and value.bit_length() > 200:
        return "a number beyond int64"
    text = str(value)
    return text if len(text) <= 200 else text[:197] + "..."
