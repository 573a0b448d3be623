"""Caches stay within their bounds, keep what is used, stand in one register, and can be emptied and shared by
threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from xlashape.base import caches
from xlashape.base.caches import BoundedCache, cached
from xlashape.shape import Shape


@pytest.fixture(autouse=True)
def own_register(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(caches, "_registered", list(caches._registered))


def by_key() -> BoundedCache[str, int]:
    return BoundedCache("test", 20_000, lambda key, _: len(key) + 64)


def test_bounded() -> None:
    cache = by_key()
    for i in range(5_000):
        cache.put(f"key {i}", i)
        usage = cache.usage()
        assert usage.bytes <= usage.max_bytes == 20_000
    assert cache.get("key 4999") == 4999
    assert cache.get("key 0") is None


def test_what_is_used_stays() -> None:
    cache = by_key()
    cache.put("used", 7)
    for i in range(5_000):
        cache.put(f"key {i}", i)
        assert cache.get("used") == 7


def test_heavy_entries_are_not_kept() -> None:
    cache = by_key()
    cache.put("k" * 3_000, 1)
    assert cache.get("k" * 3_000) is None
    cache.put("k", 1)
    cache.clear()
    assert cache.get("k") is None
    assert cache.usage()[1:3] == (0, 0)


def test_caches_of_one_owner_can_be_emptied_alone() -> None:
    first, second = (BoundedCache[str, int](owner, 20_000, lambda key, _: 64) for owner in ("a.first", "b.second"))
    for cache in (first, second):
        cache.put("k", 1)
    caches.clear("a.")
    assert (first.get("k"), second.get("k")) == (None, 1)
    caches.clear()
    assert second.get("k") is None


def test_the_same_entry_twice_weighs_once() -> None:
    cache = by_key()
    cache.put("k", 1)
    cache.put("k", 1)
    assert cache.usage()[1:3] == (1, 65)


@pytest.mark.parametrize("bound", [{"entry_bytes": 100}, {"weigh": lambda key, value: 100}])
def test_a_function_is_called_once_per_argument(bound: dict[str, object]) -> None:
    calls: list[int] = []

    @cached(max_bytes=10_000, owner="squares", **bound)  # pyright: ignore[reportArgumentType]
    def square(x: int) -> int:
        """x²."""
        calls.append(x)
        return x * x

    assert [square(3), square(3), square(4)] == [9, 9, 16]
    assert calls == [3, 4]
    assert square.__doc__ == "x²."
    for i in range(1_000):
        square(i)
    (usage,) = [usage for usage in caches.report() if usage.owner == "squares"]
    assert 0 < usage.bytes <= usage.max_bytes == 10_000
    calls.clear()
    caches.clear()
    assert square(999) == 998_001
    assert calls == [999]


def test_a_cached_function_needs_a_bound() -> None:
    with pytest.raises(TypeError, match="entry_bytes or weigh"):
        cached(max_bytes=1)(lambda: 0)


def test_threads_share_a_cache() -> None:
    @cached(max_bytes=2_000, weigh=lambda key, value: 50)
    def double(x: int) -> int:
        return 2 * x

    def ask(first: int) -> bool:
        return all(double(x % 90) == 2 * (x % 90) for x in range(first, first + 3_000))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(8)))
    assert caches.report()


def test_a_text_too_long_to_keep_is_still_read() -> None:
    text = "(" + ", ".join([f"f32[{i},128]{{1,0}}" for i in range(5_000)]) + ")"
    assert Shape.parse(text) == Shape.parse(text)
    assert len(Shape.parse(text).tuple_shapes) == 5_000
