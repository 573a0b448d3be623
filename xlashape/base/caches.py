"""The register of all caches: the owner of each, how many bytes it may hold, and how many it holds.

    @cached(max_bytes=1 << 20, entry_bytes=256)             # entries are known to be small: a count bounds the bytes
    def dimension_order(rank: int) -> tuple[int, ...]: ...

    @cached(max_bytes=8 << 20, weigh=lambda key, value: 64 * value.size)
    def simplified(map: IndexingMap) -> IndexingMap: ...

    parsed: BoundedCache[str, Shape] = BoundedCache("shapes by text", 1 << 20, lambda key, value: len(key) + 400)

    for usage in report(): print(usage.owner, usage.bytes, "of", usage.max_bytes)
    clear()                            # empties all caches: the next results take longer and are the same

Bytes are estimates by the weights that the owners give, not measurements. All caches may be used from several threads:
a race costs a computation done twice, never a wrong entry.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from threading import Lock
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

__all__ = ["BoundedCache", "Cache", "CacheUsage", "cached", "clear", "register", "report"]

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")
_F = TypeVar("_F", bound=Callable[..., Any])


class CacheUsage(NamedTuple):
    """How much one cache holds, and may hold."""

    owner: str
    entries: int
    bytes: int
    max_bytes: int


class Cache(Protocol):
    """The methods of a cache in the register."""

    def usage(self) -> CacheUsage:
        """How much the cache holds, and how much it may hold."""
        ...

    def clear(self) -> None:
        """Removes all entries."""
        ...


_registered: list[Cache] = []


def register(cache: Cache) -> None:
    """Adds a cache of another kind. A `BoundedCache` and a function with `cached` are registered already."""
    _registered.append(cache)


def report() -> tuple[CacheUsage, ...]:
    """What each cache holds, sorted by the names of the owners. Caches of modules that are not imported yet are
    missing.

    >>> all(usage.bytes <= usage.max_bytes for usage in report())
    True
    """
    return tuple(sorted([cache.usage() for cache in _registered]))


def clear(owner: str = "") -> None:
    """Empties every cache whose owner's name begins with `owner`. Answers stay the same; the next ones take longer."""
    for cache in _registered:
        if not owner or cache.usage().owner.startswith(owner):
            cache.clear()


class BoundedCache(Generic[_K, _V]):
    """Key → value, in two generations of half of `max_bytes` each. New entries go to the young generation. When it is
    full, it becomes the old one, and the entries of the former old one are dropped. An entry that is read in the old
    generation is also put into the young one.

    `weigh` estimates the bytes of an entry, key and value. An entry heavier than an eighth of `max_bytes` is not kept.
    """

    __slots__ = ("_half", "_lock", "_old", "_old_weight", "_owner", "_weigh", "_weight", "_young")

    def __init__(self, owner: str, max_bytes: int, weigh: Callable[[_K, _V], int]) -> None:
        self._owner = owner
        self._half = max_bytes // 2
        self._weigh = weigh
        self._lock = Lock()
        self._young: dict[_K, _V] = {}
        self._old: dict[_K, _V] = {}
        self._weight = 0
        self._old_weight = 0
        register(self)

    def get(self, key: _K) -> _V | None:
        """The value of `key`; None if the cache has none."""
        found = self._young.get(key)
        if found is None and self._old:
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: _K, value: _V) -> None:
        """Keeps `value`, unless the entry is too heavy or the young generation has a value of `key` already."""
        weight = self._weigh(key, value)
        if weight > self._half >> 2:
            return
        with self._lock:
            if self._weight + weight > self._half:
                self._old, self._old_weight = self._young, self._weight
                self._young, self._weight = {}, 0
            young = self._young
            count = len(young)
            young.setdefault(key, value)  # looks the key up once: its hash may be Python code
            if len(young) > count:
                self._weight += weight

    def results_of(self: BoundedCache[tuple[Any, ...], _V], function: Callable[..., _V]) -> Callable[..., _V]:
        """The function, with its results kept by the tuple of its positional arguments."""

        @wraps(function)
        def call(*key: Any) -> _V:
            # Most results are in the young generation, and a call of `get` would take 70 ns more.
            found = self._young.get(key)
            if found is None and self._old:
                found = self.get(key)
            if found is None:
                found = function(*key)
                self.put(key, found)
            return found

        return call

    def results_by_argument(self, function: Callable[[_K], _V]) -> Callable[[_K], _V]:
        """The function of one argument, with its results kept by the argument. A decorator."""

        @wraps(function)
        def call(argument: _K) -> _V:
            found = self._young.get(argument)
            if found is None:
                found = self.get(argument)
            if found is None:
                found = function(argument)
                self.put(argument, found)
            return found

        return call

    def clear(self) -> None:
        """Removes all entries."""
        with self._lock:
            self._young, self._old, self._weight, self._old_weight = {}, {}, 0, 0

    def usage(self) -> CacheUsage:
        """How much the cache holds, and how much it may hold."""
        with self._lock:
            entries = len(self._young) + len(self._old)
            return CacheUsage(self._owner, entries, self._weight + self._old_weight, 2 * self._half)


class _Counted:
    """The cache of a function whose entries are of bounded size: `functools.lru_cache`, which is safe under threads."""

    __slots__ = ("_entry_bytes", "_function", "_owner")

    def __init__(self, owner: str, function: Any, entry_bytes: int) -> None:
        self._owner = owner
        self._function = function
        self._entry_bytes = entry_bytes

    def clear(self) -> None:
        self._function.cache_clear()

    def usage(self) -> CacheUsage:
        info = self._function.cache_info()
        return CacheUsage(
            self._owner, info.currsize, info.currsize * self._entry_bytes, info.maxsize * self._entry_bytes
        )


def cached(
    *, max_bytes: int, entry_bytes: int | None = None, weigh: Callable[[Any, Any], int] | None = None, owner: str = ""
) -> Callable[[_F], _F]:
    """A decorator that keeps a function's results by its positional arguments. Results must be immutable and not None.

    Give `entry_bytes`, an upper bound of the bytes of an entry, where there is one: a lookup then takes 50 ns. Else
    give `weigh`, which estimates the bytes of (arguments as a tuple, result): a lookup then takes about 200 ns.
    Exceptions are not kept. The owner is the function's full name unless given.
    """

    def decorate(function: _F) -> _F:
        name = owner or f"{function.__module__}.{function.__qualname__}"
        if weigh is None:
            if entry_bytes is None:
                raise TypeError("cached takes entry_bytes or weigh")
            counted = lru_cache(maxsize=max(1, max_bytes // entry_bytes))(function)
            register(_Counted(name, counted, entry_bytes))
            return cast("_F", counted)
        kept: BoundedCache[tuple[Any, ...], Any] = BoundedCache(name, max_bytes, weigh)
        return cast("_F", kept.results_of(function))

    return decorate
