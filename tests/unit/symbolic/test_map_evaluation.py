"""Evaluation of maps: at points and at arrays of points, at the ends of int64 and beyond, and points that are none."""

from __future__ import annotations

import numpy as np
import pytest

from xlashape.errors import InvalidArgumentError, InvalidIndexError, InvalidMapError, SizeOverflowError
from xlashape.limits import budget
from xlashape.symbolic import IndexingMap, dim

PARSE = IndexingMap.parse


def test_evaluation():
    m = PARSE(
        "(d0)[s0]{rt0} -> (d0 - s0 * 3, (d0 + rt0) mod 4), domain: d0 in [0, 9], s0 in [0, 2], rt0 in [-5, 5], d0 + s0 "
        "in [0, 9]"
    )
    assert m.evaluate((1, 2, -5)) == (-5, 0)
    assert m.evaluate((np.int64(1), 2, -5)) == (-5, 0)
    assert m.evaluate((9, 1, 0)) is None
    assert m.evaluate((1, 2, 6)) is None
    with pytest.raises(InvalidIndexError, match="3 variables, the point 2 values"):
        m.evaluate((1, 2))
    with pytest.raises(InvalidMapError, match="integer"):
        m.evaluate((1.0, 2, 3))
    with pytest.raises(InvalidMapError, match="undefined"):
        IndexingMap.undefined().evaluate(())


def test_batches_agree_with_single_points():
    m = PARSE(
        "(d0, d1)[s0] -> ((d0 ceildiv 3) - d1 mod 7, ((d1 * 10 + s0) mod 4) / 3, min(d0, d1) * max(s0, d0), d0 * d1 / "
        "8, 5), "
        "domain: d0 in [-9, 9], d1 in [0, 30], s0 in [0, 4], d0 + d1 in [0, 20], d1 mod 3 in [0, 1]"
    )
    points = np.random.default_rng(0).integers((-12, -3, -2), (12, 33, 6), (40_000, 3))
    results, inside = m.evaluate_batch(points)
    assert results.dtype == np.int64 and results.shape == (40_000, 5)
    assert 100 < inside.sum() < 39_000
    for point, row, is_inside in list(zip(points.tolist(), results.tolist(), inside.tolist(), strict=True))[::37]:
        expected = m.evaluate(point)
        assert (tuple(row) if is_inside else None) == expected
        assert is_inside or row == [0] * 5


@pytest.mark.parametrize(
    ("instructions", "count", "steps"), [(0, 1, 1), (2, 0, 3), (2, 1, 5), (2, 1000, 9), (70, 1, 141)]
)
def test_a_batch_spends_a_step_for_each_instruction_and_256_points(instructions, count, steps):
    """And one for each instruction that is made ready, and one for the batch: little for a small map at few points."""
    expression = "d0" + "".join(f" mod {1000 - i}" for i in range(instructions))
    given = PARSE(f"(d0) -> ({expression}), domain: d0 in [0, 9999]")
    given.evaluate((0,))  # compiles it
    with budget() as spent:
        given.evaluate_batch(np.zeros((count, 1), np.int64))
    assert spent.steps == steps


def test_batches_at_the_ends_of_int64():
    ends = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1]
    m = PARSE(
        "(d0) -> (d0 floordiv 3, d0 ceildiv 3, d0 ceildiv 2, d0 mod 3, d0 mod 8), "
        "domain: d0 in [-9223372036854775808, 9223372036854775807]"
    )
    assert m.evaluate_batch([[n] for n in ends])[0].tolist() == [
        [n // 3, -(-n // 3), -(-n // 2), n % 3, n % 8] for n in ends
    ]


def test_batches_beyond_int64_are_exact():
    m = PARSE("(d0) -> ((d0 * 4611686018427387904) / 4611686018427387904), domain: d0 in [0, 99]")
    assert m.evaluate_batch([[0], [7], [99], [100]])[0].tolist() == [[0], [7], [99], [0]]
    with pytest.raises(SizeOverflowError, match="result 0 does not fit int64: 9223372036854775808") as caught:
        PARSE("(d0) -> (d0 * 4611686018427387904), domain: d0 in [0, 99]").evaluate_batch([[1], [2]])
    assert caught.value.path == ("points", 1)


@pytest.mark.parametrize(
    ("text", "point", "value"),
    [
        ("(d0, d1) -> ((d0 * d1 * 2) floordiv 9223372036854775807)", (2**62, -(2**62)), -(2**125) // (2**63 - 1)),
        # 2^63 * 2^63 * 2 = 2^127 is one too many, -2^127 is not.
        ("(d0, d1) -> ((d0 * d1 * 2) mod 7)", (-(2**63), -(2**63)), None),
        ("(d0, d1) -> ((d0 * d1 * -2) mod 7)", (-(2**63), -(2**63)), -(2**127) % 7),
        ("(d0, d1) -> ((d0 * d1 * -2 - 1) mod 7)", (-(2**63), -(2**63)), None),
        ("(d0, d1) -> ((d0 * d1 * -2 * -1) mod 7)", (-(2**63), -(2**63)), None),
        ("(d0, d1) -> ((d0 * d1 * -2) ceildiv 9223372036854775807)", (-(2**63), -(2**63)), None),  # does not fit int64
        ("(d0, d1) -> (min(d0 * d1 * d1 * 2, 5))", (3, 2**62), 5),
        ("(d0, d1) -> (min(d0 * d1 * d1 * 2, 5))", (5, 2**62), None),
    ],
)
def test_values_on_the_way_have_128_bits(text: str, point: tuple[int, int], value: int | None):
    bounds = "d0 in [-9223372036854775808, 9223372036854775807], d1 in [-9223372036854775808, 9223372036854775807]"
    m = PARSE(f"{text}, domain: {bounds}")
    if value is not None:
        assert m.evaluate(point) == (value,)
        assert m.evaluate_batch([point, (0, 0)])[0].tolist() == [[value], list(m.evaluate((0, 0)) or ())]
        return
    with pytest.raises(SizeOverflowError, match="more than 128 bits|does not fit int64") as caught:
        m.evaluate_batch([(0, 0), point])
    assert caught.value.path == ("points", 1)


def test_values_of_points_outside_the_domain_may_be_of_any_size():
    cube = "(d0) -> ((d0 * d0 * d0) mod 5), domain: d0 in [0, 9223372036854775807]"
    with pytest.raises(SizeOverflowError, match="an expression takes a value of more than 128 bits"):
        PARSE(cube).evaluate((2**62,))
    # Whichever part of the domain rules the point out, and in whichever order.
    assert PARSE(f"{cube}, d0 mod 2 in [1, 1]").evaluate((2**62,)) is None
    assert PARSE(f"{cube}, (d0 * d0 * d0) mod 2 in [0, 0], d0 mod 2 in [1, 1]").evaluate((2**62,)) is None
    assert PARSE(f"{cube}, d0 mod 2 in [1, 1]").evaluate_batch([[2**62], [3]])[1].tolist() == [False, True]
    with pytest.raises(SizeOverflowError):
        PARSE(f"(d0) -> (d0), domain: d0 in [0, {2**63 - 1}], (d0 * d0 * d0) mod 2 in [0, 0]").evaluate((2**62,))
    assert PARSE(f"{cube}, 0 * 3 in [1, 1]").evaluate((2**62,)) is None


def test_values_of_more_than_4096_bits_need_not_be_computed():
    text = "d0"
    for _ in range(14):
        text = f"max({text} * 4611686018427387904, d0)"
    m = PARSE(f"(d0) -> (min({text}, 3)), domain: d0 in [0, 4]")
    assert m.evaluate((0,)) == (0,)
    with pytest.raises(SizeOverflowError):
        m.evaluate((4,))


@pytest.mark.parametrize(
    "points",
    [[[1.5]], [["a"]], [1, 2], [[1, 2]], [[True]], [[2**64]], [[[1]]], np.array([[2**63]], dtype=np.uint64), None],
)
def test_what_is_no_array_of_points(points):
    with pytest.raises((InvalidArgumentError, InvalidIndexError)):
        IndexingMap.identity([4]).evaluate_batch(points)


def test_batches_of_nothing():
    results, inside = IndexingMap.identity([4, 5]).evaluate_batch(np.zeros((0, 2), dtype=np.int32))
    assert results.shape == (0, 2) and inside.shape == (0,)
    results, inside = PARSE("() -> (7)").evaluate_batch(np.zeros((3, 0), dtype=np.int64))
    assert results.tolist() == [[7], [7], [7]] and inside.all()
    assert not IndexingMap.from_sizes([0], results=[dim(0)]).evaluate_batch([[0]])[1].any()


@pytest.mark.parametrize("shape", [(3, 1), (1, 2)])
def test_evaluation_leaves_the_points_as_they_are(shape):
    """Coordinates outside the bounds are moved to the bounds in a copy, also where a column is contiguous already."""
    points = np.array([[9, -3, 2][: shape[0] * shape[1]]]).reshape(shape)
    before = points.copy()
    IndexingMap.identity([4] * shape[1]).evaluate_batch(points)
    assert (points == before).all()


def test_points_that_are_not_a_table():
    m = IndexingMap.identity([4])
    assert m.evaluate_batch([])[0].shape == (0, 1)
    with pytest.raises(InvalidArgumentError, match="points are an array of integers"):
        m.evaluate_batch([[1], [2, 3]])
