"""The cache that interns shapes stays bounded and keeps what is used."""

from __future__ import annotations

from xlashape.caches import BoundedCache
from xlashape.shape import Shape


def weight(cache: BoundedCache[str, int]) -> int:
    return sum(len(key) + 64 for held in (cache._young, cache._old) for key in held)


def test_bounded() -> None:
    cache: BoundedCache[str, int] = BoundedCache(10_000)
    for i in range(5_000):
        cache.put(f"key {i}", i)
        assert weight(cache) <= 20_000
    assert cache.get("key 4999") == 4999
    assert cache.get("key 0") is None


def test_what_is_used_stays() -> None:
    cache: BoundedCache[str, int] = BoundedCache(10_000)
    cache.put("used", 7)
    for i in range(5_000):
        cache.put(f"key {i}", i)
        assert cache.get("used") == 7


def test_long_keys_are_not_kept() -> None:
    cache: BoundedCache[str, int] = BoundedCache(10_000)
    cache.put("k" * 3_000, 1)
    assert cache.get("k" * 3_000) is None
    cache.put("k", 1)
    cache.clear()
    assert cache.get("k") is None


def test_a_text_too_long_to_keep_is_still_read() -> None:
    text = "(" + ", ".join([f"f32[{i},128]{{1,0}}" for i in range(5_000)]) + ")"
    assert Shape.parse(text) == Shape.parse(text)
    assert len(Shape.parse(text).tuple_shapes) == 5_000
