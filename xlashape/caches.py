"""A bounded map for interning: the two younger generations of what was asked for."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["BoundedCache"]

_V = TypeVar("_V")
_K = TypeVar("_K", str, bytes)


class BoundedCache(Generic[_K, _V]):
    """Text or bytes → value.

    A key weighs its length and 64 more; `capacity` to 2·`capacity` of weight are held, and no key longer than a
    quarter of it. A key used since the last turn of generations survives the next one. Every step is one dict
    operation, so threads may share it; a lost race costs one recomputation.
    """

    __slots__ = ("_capacity", "_old", "_weight", "_young")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._young: dict[_K, _V] = {}
        self._old: dict[_K, _V] = {}
        self._weight = 0

    def get(self, key: _K) -> _V | None:
        """The value, or None."""
        found = self._young.get(key)
        if found is None and self._old:
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: _K, value: _V) -> None:
        """Keeps `value` unless its key is too long."""
        size = len(key) + 64
        if size > self._capacity >> 2:
            return
        if self._weight + size > self._capacity:
            self._old, self._young, self._weight = self._young, {}, 0
        self._young[key] = value
        self._weight += size

    def clear(self) -> None:
        """Forgets everything."""
        self._young, self._old, self._weight = {}, {}, 0
