"""What shapes, layouts and their parts have in common: frozen values, equal and hashed by their constructor arguments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import FrozenInstanceError
from operator import index
from typing import Any, ClassVar, TypeVar

from xlashape.errors import InvalidShapeError
from xlashape.limits import INT64_MAX, INT64_MIN

__all__ = ["Value", "bytes_of", "entries_of", "int64", "int64s"]

_V = TypeVar("_V", bound="Value")
_T = TypeVar("_T")


class Value:
    """A frozen value. `_fields` names the constructor's arguments in their order.

    Equality, hash, copy, pickle and `replace` go by those fields; whatever else a subclass keeps in slots is derived from
    them. Unknown protobuf fields count as a field: two values are equal when each can stand in for the other, bytes included.
    """

    __slots__ = ("_hash",)
    _fields: ClassVar[tuple[str, ...]] = ()
    _hash: int

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"{type(self).__name__} is frozen: use replace({name}=…)")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"{type(self).__name__} is frozen")

    def _key(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self._fields])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not type(self):
            return NotImplemented
        return hash(self) == hash(other) and self._key() == other._key()

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            value = hash((type(self).__name__, self._key()))
            object.__setattr__(self, "_hash", value)
            return value

    def __copy__(self: _V) -> _V:
        return self

    def __deepcopy__(self: _V, memo: object) -> _V:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self._key())

    def replace(self: _V, **changes: Any) -> _V:
        """The value with some fields changed, checked like a new one."""
        unknown = changes.keys() - set(self._fields)
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {min(unknown)!r}")
        return type(self)(*[changes.get(name, getattr(self, name)) for name in self._fields])


def int64(value: Any, field: str) -> int:
    """`value` as an int (NumPy's integers too, bools not), or InvalidShapeError naming `field`."""
    try:
        number = None if isinstance(value, bool) else int(index(value))
    except TypeError:
        number = None
    if number is None:
        raise InvalidShapeError(f"{field} takes an integer, not {type(value).__name__}", field=field)
    if not INT64_MIN <= number <= INT64_MAX:
        raise InvalidShapeError(f"{field} does not fit int64", field=field)
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
            return tuple([int64(entry, f"{field}[{i}]") for i, entry in enumerate(items)])
    return items


def entries_of(values: Iterable[_T], kind: type[_T], field: str) -> tuple[_T, ...]:
    """`values` as a tuple, each of which is a `kind`, or InvalidShapeError naming the entry of `field`."""
    try:
        items = tuple(values)
    except TypeError:
        raise InvalidShapeError(f"{field} takes a sequence, not {type(values).__name__}", field=field) from None
    for i, item in enumerate(items):
        if not isinstance(item, kind):
            wanted = f"{field}[{i}]"
            raise InvalidShapeError(f"{wanted} takes a {kind.__name__}, not {type(item).__name__}", field=wanted)
    return items


def bytes_of(value: bytes, field: str) -> bytes:
    """`value` if it is bytes, or InvalidShapeError naming `field`."""
    # The check is for callers without types.
    if not isinstance(value, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidShapeError(f"{field} takes bytes, not {type(value).__name__}", field=field)
    return value
