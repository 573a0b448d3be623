"""Checks that numbers are an index of an array, or a position in its buffer.

Fields of errors are named as in the service's requests, where an index is `indices` and a position the first of `positions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index as as_int
from typing import Any

from xlashape.errors import FieldPath, InvalidIndexError
from xlashape.shape.value.shape import Shape

__all__ = ["brief", "checked_index", "checked_position", "integer", "outside_dimension"]


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
        raise InvalidIndexError(f"{brief(shape)} takes {count(len(dimensions))}, found {len(numbers)}", field="indices")
    for i, size in enumerate(dimensions):
        number = numbers[i]
        if type(number) is not int:
            number = numbers[i] = integer(number, f"index[{i}]", ("indices", i))
        if not 0 <= number < size:
            raise InvalidIndexError(outside_dimension(shape, i, size, number), field=("indices", i))
    return numbers


def checked_position(shape: Shape, elements: int, position: Any) -> int:
    """`position` as an int inside a buffer of `elements`. InvalidIndexError otherwise."""
    number = position if type(position) is int else integer(position, "position", ("positions", 0))
    if not 0 <= number < elements:
        raise InvalidIndexError(outside_buffer(shape, elements, number), field=("positions", 0))
    return number


def integer(value: Any, what: str, field: FieldPath | None = None) -> int:
    """`value` as an int (NumPy's integers too, bools not), or InvalidIndexError naming `what`, which is its field too unless given."""
    # NumPy's own truth value is called bool_ before NumPy 2, and until 2.3 passes for an integer.
    if type(value).__name__ not in ("bool", "bool_"):
        try:
            return int(as_int(value))
        except TypeError:
            pass
    raise InvalidIndexError(
        f"{what} takes an integer, found {shown(value)} of type {type(value).__name__}", field=field or what
    )


def outside_dimension(shape: Shape, dimension: int, size: int, number: int) -> str:
    """What an index outside its dimension is told."""
    return f"index {shown(number)} is outside dimension {dimension} of {brief(shape)}, which has size {size}"


def outside_buffer(shape: Shape, elements: int, number: int) -> str:
    """What a position outside the buffer is told."""
    return f"position {shown(number)} is outside the buffer of {brief(shape)}, which has {elements} elements, padding included"


def brief(shape: Shape) -> str:
    """The shape for a message, shortened."""
    text = str(shape)
    return text if len(text) <= 200 else text[:197] + "..."


def count(rank: int) -> str:
    """How many numbers an index has."""
    return "an index of 1 number" if rank == 1 else f"an index of {rank} numbers"


def shown(value: Any) -> str:
    """The value for a message, shortened. Ints too long to print in decimal are told by their sign."""
    if isinstance(value, int) and value.bit_length() > 512:
        return "far below 0" if value < 0 else "far above int64"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
