"""Maps of tens of thousands of terms: reading and evaluating them takes little memory, and can be ended at any time."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tests.support.ended_work import looks as looks
from xlashape.errors import DeadlineExceededError
from xlashape.limits import budget, set_checkpoint
from xlashape.symbolic import IndexingMap
from xlashape.symbolic.expr.expression import Add, Expr, Mul, const, dim, substitute

MIB = 1 << 20


def sum_of_mods(terms: int) -> str:
    """All terms are computed before the first two of them are added."""
    return f"(d0) -> ({' + '.join(f'(d0 + {i}) mod {i + 2}' for i in range(terms))}), domain: d0 in [0, 1000000]"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"(d0) -> ({' + '.join(['d0'] * 5000)}), domain: d0 in [0, 9]", id="terms"),
        pytest.param(f"(d0) -> ({', '.join(['d0'] * 5000)}), domain: d0 in [0, 9]", id="results"),
        pytest.param(f"(d0) -> ({'(' * 5000}d0{')' * 5000}), domain: d0 in [0, 9]", id="parentheses"),
    ],
)
def test_reading_a_long_map_can_be_ended(looks: list[int], text: str) -> None:
    with pytest.raises(DeadlineExceededError, match="the caller has gone"), budget():
        IndexingMap.parse(text)
    assert len(looks) == 3


def test_multiplying_a_sum_of_shared_parts_can_be_ended(looks: list[int]) -> None:
    """Each of 15 sums adds the one before to itself: -1 is multiplied into 32,768 terms."""
    total: Expr = dim(0)
    for _ in range(15):
        total = Add(total, total)
    with pytest.raises(DeadlineExceededError, match="the caller has gone"), budget():
        substitute((Mul(total, const(-1)),), {dim(0): dim(1)})
    assert len(looks) == 3


def test_evaluating_a_long_map_can_be_ended(looks: list[int]) -> None:
    """At points that are all in one block."""
    given = IndexingMap.parse(sum_of_mods(1000))
    given.evaluate_batch([[0]])  # compiles it
    with pytest.raises(DeadlineExceededError, match="the caller has gone"), budget():
        given.evaluate_batch(np.zeros((10_000, 1), np.int64))
    assert len(looks) == 3


def test_evaluating_a_wide_map_takes_little_memory() -> None:
    """A column of 16,384 points for each of 3,000 terms would be 375 MiB."""
    given = IndexingMap.parse(sum_of_mods(3000))
    points = np.arange(20_000).reshape(-1, 1)
    tracemalloc.start()
    try:
        results, inside = given.evaluate_batch(points)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50 * MIB
    assert inside.all()
    for point in (0, 1, 699, 700, 16_383, 16_384, 19_999):
        assert given.evaluate((point,)) == tuple(results[point])


def test_operators_that_are_applied_together_count_steps() -> None:
    """Signs wait until their operand has come, and are then applied without a further token."""
    looks: list[None] = []
    set_checkpoint(lambda: looks.append(None))
    try:
        with budget():
            IndexingMap.parse(f"(d0) -> ({'-' * 20_000}d0), domain: d0 in [0, 3]")
    finally:
        set_checkpoint(None)
    # A step for each to make tokens, two to read them, and two to apply them.
    assert len(looks) > 4.5 * 20_000 / 256
