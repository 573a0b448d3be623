"""Immutable objects: attributes of a `Frozen` cannot be set; a `FrozenValue` is also compared, hashed and pickled by
its fields.

Records whose constructor checks nothing are `NamedTuple`s instead. A few large ones are frozen dataclasses.

    class Tile(FrozenValue):
        __slots__ = ("dimensions",)
        _fields = ("dimensions",)               # the arguments of the constructor, in their order
        dimensions: tuple[int, ...]

        def __init__(self, dimensions: Iterable[int]) -> None:
            set_field(self, "dimensions", tuple(dimensions))
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, ClassVar, NoReturn, TypeVar

__all__ = ["Frozen", "FrozenValue", "set_field"]

_F = TypeVar("_F", bound="Frozen")
_V = TypeVar("_V", bound="FrozenValue")

set_field = object.__setattr__
"""Sets an attribute of a frozen object: in its constructor, or in a slot that keeps a value computed from the fields.
"""


class Frozen:
    """An object whose attributes cannot be set or deleted. A copy of it is the object itself."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        from dataclasses import FrozenInstanceError  # start-up time: it loads `inspect`, and only this error needs it

        raise FrozenInstanceError(f"{type(self).__name__} is frozen: cannot set {name}")

    def __delattr__(self, name: str) -> NoReturn:
        from dataclasses import FrozenInstanceError  # as above

        raise FrozenInstanceError(f"{type(self).__name__} is frozen: cannot delete {name}")

    def __copy__(self: _F) -> _F:
        return self

    def __deepcopy__(self: _F, memo: object) -> _F:
        return self


def _no_fields(_: object) -> tuple[Any, ...]:
    return ()


class FrozenValue(Frozen):
    """A frozen object that is equal to another of its class if all fields are. `_fields` names the constructor's
    arguments in order.

    Equality, hash, pickle and `replace` use these fields only. Other slots of a subclass hold values computed from the
    fields.
    """

    __slots__ = ("_hash",)
    _fields: ClassVar[tuple[str, ...]] = ()
    _hash: int
    # A function that gives the tuple of all fields, or the only field. One call takes a quarter of the time of a call
    # for each field, and values are keys of most caches.
    _get_fields: ClassVar[Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._get_fields = staticmethod(attrgetter(*cls._fields) if cls._fields else _no_fields)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not type(self):
            return NotImplemented
        get_fields = self._get_fields
        return get_fields(self) == get_fields(other)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            value = hash((type(self).__name__, self._get_fields(self)))
            set_field(self, "_hash", value)
            return value

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), tuple([getattr(self, name) for name in self._fields]))

    def replace(self: _V, **changes: Any) -> _V:
        """The value with some fields changed, checked like a new one. Raises TypeError for a name that is not a
        field.
        """
        unknown = changes.keys() - set(self._fields)
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {min(unknown)!r}")
        return type(self)(*[changes.get(name, getattr(self, name)) for name in self._fields])
