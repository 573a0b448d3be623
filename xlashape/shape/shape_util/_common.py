"""What the parts of `shape_util` share: arrays inside buffers, changes to every leaf, arguments that are dimension numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xlashape.errors import InvalidArgumentError, InvalidIndexError, InvalidShapeError
from xlashape.shape.index_check import integer, shown
from xlashape.shape.layout import Layout
from xlashape.shape.shape import Shape
from xlashape.shape.tile_formula import array_of

__all__ = [
    "array_of",
    "dimension_number",
    "dimension_numbers",
    "map_leaves",
    "minor_to_major_of",
    "on_array",
    "permutation_of",
    "reordered",
    "require_tuple",
    "text_of",
]


def text_of(shape: Shape) -> str:
    """The shape for a message, shortened."""
    text = str(shape)
    return text if len(text) <= 200 else text[:197] + "..."


def on_array(shape: Shape, change: Callable[[Shape], Shape]) -> Shape:
    """`change` applied to an array, or to the array inside a buffer. InvalidShapeError for anything else."""
    array = array_of(shape)
    changed = change(array)
    return changed if array is shape else shape.replace(tuple_shapes=(changed,))


def map_leaves(shape: Shape, change: Callable[[Shape], Shape]) -> Shape:
    """`change` applied to every array of a shape, those inside tuples and buffers too; tokens and opaques stay."""
    if shape.is_array:
        return change(shape)
    if not shape.tuple_shapes:
        return shape
    return shape.replace(tuple_shapes=[map_leaves(inner, change) for inner in shape.tuple_shapes])


def require_tuple(shape: Shape) -> None:
    """InvalidShapeError unless it is a tuple."""
    if not shape.is_tuple:
        raise InvalidShapeError(f"expected a tuple, found {text_of(shape)}", field="shape")


def minor_to_major_of(array: Shape) -> Sequence[int]:
    """The order of an array's dimensions; the default one if it has no layout."""
    return range(array.rank - 1, -1, -1) if array.layout is None else array.layout.minor_to_major


def dimension_number(rank: int, dimension: Any, field: str = "dimension") -> int:
    """`dimension` counted from 0; negative numbers count from the end. InvalidIndexError if there is no such dimension."""
    number = integer(dimension, field)
    if not -rank <= number < rank:
        raise InvalidIndexError(f"there is no dimension {shown(number)} among {rank}", field=field)
    return number % rank


def dimension_numbers(rank: int, dimensions: Iterable[Any], field: str = "dimensions") -> list[int]:
    """Distinct dimension numbers counted from 0, in the order given."""
    numbers = [dimension_number(rank, dimension, f"{field}[{i}]") for i, dimension in enumerate(dimensions)]
    for i, number in enumerate(numbers):
        if number in numbers[:i]:
            raise InvalidIndexError(f"dimension {number} is named twice", field=f"{field}[{i}]")
    return numbers


def permutation_of(rank: int, permutation: Iterable[Any], field: str = "permutation") -> list[int]:
    """`permutation` as a list, or InvalidArgumentError unless it names each of 0 … rank-1 once."""
    numbers = [integer(number, f"{field}[{i}]") for i, number in enumerate(permutation)]
    if sorted(numbers) != list(range(rank)):
        listed = shown(tuple(numbers))
        raise InvalidArgumentError(f"{field} {listed} is no permutation of the {rank} dimensions", field=field)
    return numbers


def reordered(layout: Layout | None, minor_to_major: Sequence[int], physical: Mapping[int, int]) -> Layout | None:
    """A layout with another order; `physical` gives the new physical number of each old one, those it lacks are gone.

    Split configs count physical dimensions, most major first, and follow.
    """
    if layout is None:
        return None
    splits = [s.replace(dimension=physical[s.dimension]) for s in layout.split_configs if s.dimension in physical]
    return layout.replace(minor_to_major=minor_to_major, split_configs=splits)
