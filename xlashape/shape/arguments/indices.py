"""Checks of indices of arrays and of positions in buffers, with the messages for wrong ones.

Fields of errors are named as in the service's requests, where an index is `indices` and a position the first of `positions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xlashape.errors import InvalidIndexError
from xlashape.shape.parts.checks import integer
from xlashape.shape.parts.error_text import brief, shown
from xlashape.shape.value.shape import Shape

__all__ = ["checked_index", "checked_position", "index_length", "outside_buffer", "outside_dimension"]


def checked_index(shape: Shape, dimensions: tuple[int, ...], index: Iterable[Any]) -> list[int]:
    """`index` as ints, each inside its dimension. InvalidIndexError otherwise."""
    if isinstance(index, (str, bytes)):
        raise InvalidIndexError(f"an index is a sequence of integers, not {type(index).__name__}", field="indices")
    try:
        numbers = list(index)
    except TypeError:
        raise InvalidIndexError(
            f"an index is a sequence of integers, not {type(index).__name__}", field="indices"
        ) from None
    if len(numbers) != len(dimensions):
        raise InvalidIndexError(
            f"{brief(shape)} takes {index_length(len(dimensions))}, found {len(numbers)}", field="indices"
        )
    for i, size in enumerate(dimensions):
        number = numbers[i]
        if type(number) is not int:
            number = numbers[i] = integer(number, ("indices", i), f"index[{i}]")
        if not 0 <= number < size:
            raise InvalidIndexError(outside_dimension(shape, i, size, number), field=("indices", i))
    return numbers


def checked_position(shape: Shape, elements: int, position: Any) -> int:
    """`position` as an int inside a buffer of `elements`. InvalidIndexError otherwise."""
    number = position if type(position) is int else integer(position, ("positions", 0), "position")
    if not 0 <= number < elements:
        raise InvalidIndexError(outside_buffer(shape, elements, number), field=("positions", 0))
    return number


def outside_dimension(shape: Shape, dimension: int, size: int, number: int) -> str:
    """The message for an index outside its dimension."""
    return f"index {shown(number)} is outside dimension {dimension} of {brief(shape)}, which has size {size}"


def outside_buffer(shape: Shape, elements: int, number: int) -> str:
    """The message for a position outside the buffer."""
    return f"position {shown(number)} is outside the buffer of {brief(shape)}, which has {elements} elements, padding included"


def index_length(rank: int) -> str:
    """How many numbers an index of an array of this rank has, in words."""
    return "an index of 1 number" if rank == 1 else f"an index of {rank} numbers"
