"""Sums of floor divisions against the arithmetic that they were recorded from, at every point of small domains."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from xlashape.shape.tiling.batches import _Chunk  # pyright: ignore[reportPrivateUsage]
from xlashape.shape.tiling.floor_sums import trace

Formula = Callable[[list[Any]], Any]


def leaf(number: int) -> Formula:
    return lambda inputs: inputs[number % len(inputs)]


def joined(first: Formula, second: Formula) -> Formula:
    return lambda inputs: first(inputs) + second(inputs)


def times(formula: Formula, factor: int) -> Formula:
    return lambda inputs: formula(inputs) * factor


def floor(formula: Formula, divisor: int) -> Formula:
    return lambda inputs: formula(inputs) // divisor


def rest(formula: Formula, divisor: int) -> Formula:
    return lambda inputs: formula(inputs) % divisor


NUMBERS = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12, 16, 24])
FORMULAS: st.SearchStrategy[Formula] = st.recursive(
    st.builds(leaf, st.integers(0, 2)),
    lambda inner: st.one_of(
        st.builds(joined, inner, inner),
        st.builds(times, inner, NUMBERS),
        st.builds(floor, inner, NUMBERS),
        st.builds(rest, inner, NUMBERS),
    ),
    max_leaves=12,
)


@settings(max_examples=500, derandomize=True, deadline=None)
@given(
    st.lists(FORMULAS, min_size=1, max_size=3),
    st.lists(st.sampled_from([1, 2, 3, 5, 8, 9, 17]), min_size=1, max_size=3),
)
def test_same_numbers(formulas: list[Formula], sizes: list[int]) -> None:
    sums = trace(sizes, lambda inputs: [formula(inputs) for formula in formulas])
    points = list(itertools.product(*[range(size) for size in sizes]))
    expected = [[formula(list(point)) for formula in formulas] for point in points]
    assert [sums.evaluate(point) for point in points] == expected

    for form in (sums, sums._replace(fits_int32=False)):
        chunk = _Chunk(form, len(points), len(formulas))
        assert chunk.take(np.array(points).T, tuple(sizes))
        chunk.run()
        for number, column in enumerate(np.array(expected).T):
            np.testing.assert_array_equal(chunk.output(number), column)


def divisions(sizes: list[int], formula: Formula) -> list[int]:
    """The divisors of the steps."""
    return sorted([divisor for _, divisor in trace(sizes, lambda inputs: [formula(inputs)]).steps])


def test_laws() -> None:
    assert divisions([1000], lambda v: v[0] // 8 // 2) == [16]
    assert divisions([1000], lambda v: v[0] // 8 // 2 + v[0] // 16) == [16]
    assert divisions([1000], lambda v: v[0] % 8 // 2) == [2, 8]
    assert divisions([1000], lambda v: v[0] // 8 * 8 + v[0] % 8) == []
    assert divisions([1000, 8], lambda v: (v[0] * 8 + v[1]) // 8) == []
    assert divisions([1000, 8], lambda v: (v[0] * 8 + v[1]) // 32) == [4]
    assert divisions([1000, 8], lambda v: (v[0] * 8 + v[1]) % 8) == []
    assert divisions([8], lambda v: v[0] // 8) == []
    assert divisions([8], lambda v: v[0] % 8) == []
    assert divisions([9], lambda v: v[0] // 8) == [8]
    assert divisions([1000], lambda v: v[0] // 8) == [8]


def test_sums_that_just_reach_a_divisor() -> None:
    """(f·a + b) // d and % d where b ends below, at and above f."""
    for size, factor, divisor in itertools.product(range(1, 9), (1, 2, 3, 4, 6, 8), (1, 2, 3, 4, 6, 8, 12)):
        sums = trace((5, size), lambda v, f=factor, d=divisor: [(v[0] * f + v[1]) // d, (v[0] * f + v[1]) % d])
        for a, b in itertools.product(range(5), range(size)):
            assert sums.evaluate((a, b)) == [*divmod(a * factor + b, divisor)]


LARGE = st.sampled_from([1, 2, 3, 7, 100, 4096, 46_341, 65_536, 1 << 30, (1 << 31) - 1, 1 << 31, 1 << 33])


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.lists(FORMULAS, min_size=1, max_size=3), st.lists(LARGE, min_size=3, max_size=3), st.randoms())
def test_same_numbers_where_int32_just_fits_and_does_not(
    formulas: list[Formula], sizes: list[int], random: random.Random
) -> None:
    sums = trace(sizes, lambda inputs: [formula(inputs) for formula in formulas])
    points = [[random.randrange(size) for size in sizes] for _ in range(20)] + [[size - 1 for size in sizes]]
    expected = [[formula(list(point)) for formula in formulas] for point in points]
    assume(max(map(max, expected)) < 1 << 63)
    chunk = _Chunk(sums, len(points), len(formulas))
    assert chunk.take(np.array(points).T, tuple(sizes))
    chunk.run()
    for number, column in enumerate(np.array(expected).T):
        np.testing.assert_array_equal(chunk.output(number), column)


def test_numbers_outside_their_sizes_are_refused_also_those_that_int32_would_wrap() -> None:
    sums = trace((100,), lambda v: [v[0] // 3])
    assert sums.fits_int32
    for wrong in (-1, 100, 1 << 31, (1 << 32) + 5, -(1 << 63), (1 << 63) - 1):
        assert not _Chunk(sums, 2, 1).take(np.array([[5, wrong]]), (100,)), wrong
    assert not _Chunk(sums, 2, 1).take(np.array([[5, (1 << 64) - 1]], np.uint64), (100,))
    assert not _Chunk(sums, 2, 1).take(np.array([[5, (1 << 32) + 5]], ">i8"), (100,))
    assert not _Chunk(sums, 2, 1).take(np.array([[5, -1]], np.int8), (100,))
    assert _Chunk(sums, 2, 1).take(np.array([[5, 99]], ">i8"), (100,))
