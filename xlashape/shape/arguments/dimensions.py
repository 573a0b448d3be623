"""Checks of arguments that name dimensions: numbers, lists of them, permutations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xlashape.errors import FieldPath, InvalidArgumentError, InvalidIndexError
from xlashape.shape.parts.checks import integer
from xlashape.shape.parts.error_text import shown

__all__ = ["dimension_number", "dimension_numbers", "permutation_of"]


def dimension_number(rank: int, dimension: Any, field: str | FieldPath = "dimension") -> int:
    """`dimension` counted from 0; negative numbers count from the end. InvalidIndexError if there is no such dimension."""
    number = integer(dimension, field)
    if not -rank <= number < rank:
        raise InvalidIndexError(f"there is no dimension {shown(number)} among {rank}", field=field)
    return number % rank


def dimension_numbers(rank: int, dimensions: Iterable[Any], field: str = "dimensions") -> list[int]:
    """Distinct dimension numbers counted from 0, in the order given."""
    numbers = [dimension_number(rank, dimension, (field, i)) for i, dimension in enumerate(dimensions)]
    for i, number in enumerate(numbers):
        if number in numbers[:i]:
            raise InvalidIndexError(f"dimension {number} is named twice", field=(field, i))
    return numbers


def permutation_of(rank: int, permutation: Iterable[Any], field: str = "permutation") -> list[int]:
    """`permutation` as a list, or InvalidArgumentError unless it names each of 0 … rank-1 once."""
    numbers = [integer(number, (field, i)) for i, number in enumerate(permutation)]
    if sorted(numbers) != list(range(rank)):
        listed = shown(tuple(numbers))
        raise InvalidArgumentError(f"{field} {listed} is not a permutation of the {rank} dimensions", field=field)
    return numbers
