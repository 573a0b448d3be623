"""Arguments that name dimensions, and shapes in messages: what `shape_util`, `layout_util` and `index_util` share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xlashape.errors import InvalidArgumentError, InvalidIndexError
from xlashape.shape.tiling.index_check import integer, shown
from xlashape.shape.value.shape import Shape

__all__ = ["dimension_number", "dimension_numbers", "permutation_of", "text_of"]


def text_of(shape: Shape) -> str:
    """The shape for a message, shortened."""
    text = str(shape)
    return text if len(text) <= 200 else text[:197] + "..."


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
