"""The caches of shapes say no less than they hold: estimates are compared with what tracemalloc measures."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from xlashape.base import caches
from xlashape.shape import Shape, tiling
from xlashape.shape.text import parsed_bytes
from xlashape.shape.value.shape import shape_bytes

TEXTS: dict[str, Callable[[int], str]] = {
    "plain": lambda i: f"f32[{1000 + i},256]{{1,0}}",
    "no layout": lambda i: f"f32[{1000 + i},256]",
    "a layout of its own": lambda i: f"f32[{1000 + i},256]{{1,0:T(8,{i + 1})}}",
    "every part": lambda i: f"f32[{1000 + i},256]{{1,0:T(8,128)(2,1)L({i + 1})E(4)S(1)SC(0:1)M(8)}}",
    "many tiles": lambda i: f"f32[{1000 + i}]{{0:T{'(1)' * 50}L({i + 1})}}",
    "many dimensions": lambda i: f"f32[{1000 + i}{',1' * 500}]",
    "dynamic": lambda i: f"f32[<={1000 + i},?]{{0,1}}",
    "tuple": lambda i: f"(f32[{1000 + i},2]{{1,0}}, s32[{i + 7}]{{0}}, f32[])",
    "tuple of 100": lambda i: "(" + ", ".join([f"f32[{1000 + i},{j}]" for j in range(100)]) + ")",
    "nested": lambda i: "(" * 40 + f"f32[{1000 + i}]" + ")" * 40,
    "unknown type": lambda i: f"unknown_{1000 + i}[{i}]{{0}}",
}
COUNT = 200


def bytes_of(make: Callable[[], list[Any]]) -> int:
    caches.clear()
    gc.collect()
    tracemalloc.start()
    kept = make()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept
    return size


@pytest.mark.parametrize("name", TEXTS)
def test_estimates_are_upper_bounds_and_not_far_off(name: str) -> None:
    texts = [TEXTS[name](i) for i in range(COUNT)]
    str(Shape.parse(TEXTS[name](COUNT)))  # what is made once is not measured

    def parsed() -> list[Shape]:
        shapes = [Shape.parse(text) for text in texts]
        for shape in shapes:
            assert str(shape) and hash(shape) != 1
        return shapes

    measured = bytes_of(parsed)
    # An entry is also a place in a dict.
    entry = 150 * COUNT
    assert measured <= sum(map(parsed_bytes, texts)) + entry <= 4 * measured + entry
    assert measured <= sum(map(shape_bytes, map(Shape.parse, texts))) + entry + 60 * sum(map(len, texts))


@pytest.mark.parametrize("name", ["plain", "a layout of its own", "every part", "many tiles", "many dimensions"])
def test_caches_of_tiling(name: str) -> None:
    shapes = [Shape.parse(TEXTS[name](i)) for i in range(COUNT)]

    def asked() -> list[Any]:
        for shape in shapes:
            tiling.linear_index(shape, [0] * shape.rank)
            tiling.multi_index(shape, 0)
            tiling.padding_report(shape)
        return shapes

    asked()
    measured = bytes_of(asked)
    reported = sum([usage.bytes for usage in caches.report() if usage.owner.startswith("xlashape.shape")])
    assert 0 < measured <= reported
