"""Checks of arguments of constructors and functions. Each check returns the value in its plain type, or raises an error
that names the field. Also the shortened texts of values that error messages show.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any, TypeVar

from xlashape.errors import FieldPath, InvalidIndexError, InvalidShapeError, SizeOverflowError, is_a, path_of, path_text
from xlashape.limits import INT64_MAX, INT64_MIN


def brief(value: object) -> str:
    """The text of a shape or layout, at most 200 characters."""
    text = str(value)
    return text if len(text) <= 200 else text[:197] + "..."


def shown(value: Any) -> str:
    """The `repr` of a value, at most 60 characters. An int that is too long to print in decimal is described by its
    sign.
    """
    if isinstance(value, int) and value.bit_length() > 512:
        return "far below 0" if value < 0 else "far above int64"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def with_article(word: str) -> str:
    """The word with the article "a" or "an" before it.

    >>> with_article("token"), with_article("opaque")
    ('a token', 'an opaque')
    """
    return f"{'an' if word[0] in 'aeio' else 'a'} {word}"


_T = TypeVar("_T")


def integer(value: Any, field: str | FieldPath, name: str | None = None) -> int:
    """`value` as an int of any size (NumPy's integers too, bools not), or InvalidIndexError.

    `field` is the path of the error. The message calls the value `name`, by default the text of the path.
    """
    # NumPy's own truth value is called bool_ before NumPy 2, and until 2.3 passes for an integer.
    if type(value).__name__ not in ("bool", "bool_"):
        try:
            return int(index(value))
        except TypeError:
            pass
    name = name or path_text(path_of(field))
    raise InvalidIndexError(
        f"{name} takes an integer, found {shown(value)} of type {type(value).__name__}", field=field
    )


def int64(value: Any, field: str | FieldPath) -> int:
    """`value` as an int (NumPy's integers too, bools not), or InvalidShapeError with the path `field`."""
    try:
        number = None if isinstance(value, bool) else int(index(value))
    except TypeError:
        number = None
    if number is None:
        name = path_text(path_of(field))
        raise InvalidShapeError(f"{name} takes an integer, not {type(value).__name__}", field=field)
    if not INT64_MIN <= number <= INT64_MAX:
        raise InvalidShapeError(f"{path_text(path_of(field))} does not fit int64", field=field)
    return number


def int64s(values: Iterable[Any], field: str) -> tuple[int, ...]:
    """`values` as a tuple of ints, or InvalidShapeError naming the entry of `field`."""
    if isinstance(values, (str, bytes)):
        raise InvalidShapeError(f"{field} takes integers, not text", field=field)
    try:
        items = tuple(values)
    except TypeError:
        raise InvalidShapeError(
            f"{field} takes a sequence of integers, not {type(values).__name__}", field=field
        ) from None
    for item in items:
        if type(item) is not int or not INT64_MIN <= item <= INT64_MAX:
            return tuple([int64(entry, (field, i)) for i, entry in enumerate(items)])
    return items


def at_least(minimum: int, value: Any, field: str) -> int:
    """`value` as an int64 of `minimum` or more, or InvalidShapeError naming `field`."""
    number = int64(value, field)
    if number < minimum:
        raise InvalidShapeError(f"{field} is {minimum} or more, not {number}", field=field)
    return number


def entries_of(values: Iterable[_T], kind: type[_T], field: str) -> tuple[_T, ...]:
    """`values` as a tuple, each of which is a `kind`, or InvalidShapeError naming the entry of `field`."""
    try:
        items = tuple(values)
    except TypeError:
        raise InvalidShapeError(f"{field} takes a sequence, not {type(values).__name__}", field=field) from None
    for i, item in enumerate(items):
        if not isinstance(item, kind):
            message = f"{field}[{i}] takes a {kind.__name__}, not {type(item).__name__}"
            raise InvalidShapeError(message, field=(field, i))
    return items


def instance_of(value: _T, kind: type[_T], field: str) -> _T:
    """`value` if it is a `kind`, or InvalidShapeError naming `field`. Annotations promise the type, but not every
    caller checks types.
    """
    if not isinstance(value, kind):
        raise InvalidShapeError(f"{field} takes a {kind.__name__}, not {type(value).__name__}", field=field)
    return value


def bytes_of(value: bytes, field: str) -> bytes:
    """`value` if it is bytes, or InvalidShapeError naming `field`."""
    if not is_a(value, bytes):
        raise InvalidShapeError(f"{field} takes bytes, not {type(value).__name__}", field=field)
    return value


def flags(values: Iterable[bool], field: str) -> tuple[bool, ...]:
    """`values` as a tuple of bools, or InvalidShapeError naming `field`."""
    try:
        return tuple([bool(value) for value in values])
    except (TypeError, ValueError):
        raise InvalidShapeError(
            f"{field} takes a sequence of truth values, not {type(values).__name__}", field=field
        ) from None


def permutation(minor_to_major: Iterable[Any]) -> tuple[int, ...]:
    """`minor_to_major` as a tuple that has each of 0 … rank-1 once, or InvalidShapeError naming the entry."""
    order = int64s(minor_to_major, "minor_to_major")
    rank = len(order)
    seen = [False] * rank
    for i, dimension in enumerate(order):
        field = ("minor_to_major", i)
        if not 0 <= dimension < rank:
            numbers = "the number 0" if rank == 1 else f"each of 0 to {rank - 1} once"
            of = "1 dimension" if rank == 1 else f"{rank} dimensions"
            raise InvalidShapeError(f"minor_to_major of {of} has {numbers}, not {dimension}", field=field)
        if seen[dimension]:
            named = set(order)
            missing = next(d for d in range(rank) if d not in named)
            raise InvalidShapeError(f"minor_to_major has {dimension} twice and {missing} never", field=field)
        seen[dimension] = True
    return order


def check_element_count(sizes: tuple[int, ...]) -> None:
    """SizeOverflowError if the sizes multiply to more than int64 holds. Negative sizes, which mean "unbounded", are
    left out.
    """
    total, zero = 1, False
    for size in sizes:
        if size == 0:
            zero = True
        elif size > 0 and total <= INT64_MAX:
            total *= size
    if total > INT64_MAX and not zero:
        raise SizeOverflowError("the sizes multiply to more elements than int64 can count", field="dimensions")
