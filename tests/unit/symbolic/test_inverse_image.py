"""Inverse, image, domain size, equality as functions, rescaled and converted variables."""

from __future__ import annotations

import pytest

from xlashape.errors import InvalidMapError, LimitExceededError, UnsupportedError
from xlashape.symbolic import (
    IndexingMap,
    Interval,
    domain_blocks,
    domain_size,
    image_bounds,
    image_size,
    inverse,
    ranges_to_dims,
    rescale_symbols,
    same_function,
    select_results,
)

PARSE = IndexingMap.parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "(d0, d1) -> (d1, d0), domain: d0 in [0, 3], d1 in [0, 7]",
            "(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]",
        ),
        (
            "(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]",
            "(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]",
        ),
        (
            "(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]",
            "(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]",
        ),
        (
            "(d0, d1, d2) -> (d0 * 2 + d1 / 2, (d1 mod 2) * 4 + d2), domain: d0 in [0, 1], d1 in [0, 3], d2 in [0, 3]",
            "(d0, d1) -> (d0 / 2, (d0 mod 2) * 2 + d1 / 4, d1 mod 4), domain: d0 in [0, 3], d1 in [0, 7]",
        ),
        ("(d0) -> (-d0 + 16), domain: d0 in [0, 16]", "(d0) -> (-d0 + 16), domain: d0 in [0, 16]"),
        (
            "(d0) -> (d0 * 2 + 1), domain: d0 in [0, 3]",
            "(d0) -> ((d0 - 1) / 2), domain: d0 in [1, 7], (d0 + 1) mod 2 in [0, 0]",
        ),
        ("(d0) -> (d0 + 5), domain: d0 in [3, 9]", "(d0) -> (d0 - 5), domain: d0 in [8, 14]"),
        ("() -> ()", "() -> ()"),
        ("(d0, d1) -> (d1), domain: d0 in [4, 4], d1 in [0, 2]", "(d0) -> (4, d0), domain: d0 in [0, 2]"),
    ],
)
def test_inverses(text, expected):
    forward = PARSE(text)
    back = inverse(forward)
    assert same_function(back, PARSE(expected)), back
    for point in forward.domain_points():
        assert back.evaluate(forward.evaluate(point)) == point
    assert domain_size(back) == domain_size(forward)


def test_tiled_layout_inverts():
    layout = PARSE(
        "(d0, d1) -> ((d0 / 2) * 12 + (d1 / 2) * 4 + (d0 mod 2) * 2 + d1 mod 2), domain: d0 in [0, 2], d1 in [0, 4]"
    )
    back = inverse(layout)
    seen = {layout.evaluate(point): point for point in layout.domain_points()}
    assert len(seen) == 15
    for position in range(30):
        assert back.evaluate((position,)) == seen.get((position,))


@pytest.mark.parametrize(
    "text",
    [
        "(d0) -> (d0 mod 4), domain: d0 in [0, 7]",
        "(d0, d1) -> (d0 + d1), domain: d0 in [0, 3], d1 in [0, 3]",
        "(d0) -> (), domain: d0 in [0, 3]",
        "(d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 1]",
        "UNDEFINED",
    ],
)
def test_what_has_no_inverse(text):
    with pytest.raises(UnsupportedError):
        inverse(PARSE(text))


def test_sizes():
    m = PARSE("(d0, d1)[s0] -> ((d0 + d1) / 2), domain: d0 in [0, 9], d1 in [0, 99], s0 in [0, 4], d0 mod 3 in [0, 0]")
    assert domain_size(m) == 4 * 100 * 5
    assert image_size(m) == 55
    assert image_bounds(m) == (Interval(0, 54),)
    assert domain_size(IndexingMap.identity([10**9, 10**9])) == 10**18
    assert domain_size(IndexingMap.empty()) == image_size(IndexingMap.empty()) == 0
    assert image_size(PARSE("(d0) -> (), domain: d0 in [0, 3]")) == 1
    assert image_bounds(IndexingMap.from_sizes([0], results=[3]))[0].is_empty
    with pytest.raises(LimitExceededError, match="points of a box"):
        image_size(IndexingMap.identity([10**9]))
    with pytest.raises(InvalidMapError, match="undefined"):
        domain_size(IndexingMap.undefined())


def test_same_function():
    assert same_function(PARSE("(d0) -> (d0 mod 4), domain: d0 in [0, 3]"), PARSE("(x) -> (x), domain: x in [0, 3]"))
    assert not same_function(IndexingMap.identity([4]), IndexingMap.identity([5]))
    assert not same_function(IndexingMap.identity([4]), PARSE("(d0) -> (d0, d0), domain: d0 in [0, 3]"))
    assert not same_function(IndexingMap.identity([4]), PARSE("(d0) -> (3 - d0), domain: d0 in [0, 3]"))
    assert same_function(
        PARSE("(d0, d1) -> (min(d0, d1)), domain: d0 in [0, 3], d1 in [0, 3], d0 + d1 in [6, 9]"),
        PARSE("(d0, d1) -> (d0 * 0 + 3), domain: d0 in [0, 3], d1 in [0, 3], d0 + d1 in [6, 7]"),
    )
    assert same_function(IndexingMap.empty(), PARSE("(d0) -> (d0), domain: d0 in [0, 3], (d0 * d0) mod 4 in [2, 3]"))
    assert same_function(IndexingMap.undefined(), IndexingMap.undefined())
    assert not same_function(IndexingMap.undefined(), IndexingMap.empty())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "(d0)[s0] -> (d0 + s0), domain: d0 in [0, 3], s0 in [0, 30], s0 mod 2 in [0, 0], s0 mod 3 in [0, 0]",
            "(d0)[s0] -> (d0 + s0 * 6), domain: d0 in [0, 3], s0 in [0, 5]",
        ),
        (
            "(d0)[s0] -> (d0 + s0), domain: d0 in [0, 3], s0 in [0, 30], s0 mod 2 in [1, 1], s0 mod 3 in [0, 0]",
            "(d0)[s0] -> (d0 + s0 * 2 + 1), domain: d0 in [0, 3], s0 in [0, 14], (s0 * 2 + 1) mod 3 in [0, 0]",
        ),
        (
            "(d0)[s0, s1] -> (s0, d0 + s1), domain: d0 in [0, 3], s0 in [0, 6], s1 in [0, 9], s0 mod 6 in [0, 0]",
            "(d0)[s0, s1] -> (s0 * 6, d0 + s1), domain: d0 in [0, 3], s0 in [0, 1], s1 in [0, 9]",
        ),
        (
            "(d0)[s0] -> (s0 / 6 + d0), domain: d0 in [0, 3], s0 in [0, 26], s0 mod 6 in [3, 3], d0 + s0 in [0, 20]",
            "(d0)[s0] -> ((s0 * 6 + 3) / 6 + d0), domain: d0 in [0, 3], s0 in [0, 3], d0 + s0 * 6 + 3 in [0, 20]",
        ),
        (
            "(d0)[s0] -> (s0 + d0), domain: d0 in [0, 3], s0 in [0, 26], d0 mod 2 in [0, 0], s0 mod 6 in [3, 4]",
            "(d0)[s0] -> (s0 + d0), domain: d0 in [0, 3], s0 in [0, 26], d0 mod 2 in [0, 0], s0 mod 6 in [3, 4]",
        ),
    ],
)
def test_rescaling(text, expected):
    m = PARSE(text)
    rescaled = rescale_symbols(m)
    assert str(rescaled) == expected
    for d in range(4):
        before = {m.evaluate(p) for p in m.domain_points() if p[0] == d}
        assert before == {rescaled.evaluate(p) for p in rescaled.domain_points() if p[0] == d}


def test_ranges_become_dims():
    m = PARSE("(d0)[a, s1] -> (d0 + a * s1), domain: d0 in [0, 3], a in [0, 1], s1 in [0, 2], a + s1 in [0, 2]")
    assert str(ranges_to_dims(m)) == (
        "(d0, a, d2) -> (d0 + a * d2), domain: d0 in [0, 3], a in [0, 1], d2 in [0, 2], a + d2 in [0, 2]"
    )
    assert str(ranges_to_dims(m, [1])) == (
        "(d0, d1)[a] -> (d0 + a * d1), domain: d0 in [0, 3], d1 in [0, 2], a in [0, 1], a + d1 in [0, 2]"
    )
    with pytest.raises(InvalidMapError, match="expected indices below 2, found 2"):
        ranges_to_dims(m, [2])


def test_results_are_selected():
    m = IndexingMap.identity([2, 3, 4])
    assert str(select_results(m, [2, 0])).startswith("(d0, d1, d2) -> (d2, d0), ")
    with pytest.raises(InvalidMapError, match="expected indices below 3, found 3"):
        select_results(m, [3])


def test_what_is_known_to_be_empty_stays_so_whatever_becomes_of_its_variables():
    """No point satisfies the domain, though each variable's bounds alone would let some through."""
    empty = IndexingMap.parse("(d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 3], d0 * 4 in [5, 6]").simplify()
    assert empty.is_known_empty and empty.counts == (1, 1, 0)
    moved = ranges_to_dims(empty)
    assert moved.is_known_empty and moved.counts == (2, 0, 0) and moved.evaluate((1, 1)) is None
    chosen = select_results(empty, [1])
    assert chosen.is_known_empty and len(chosen.results) == 1 and chosen.evaluate((1, 1)) is None


def test_sums_that_are_divided_have_inverses():
    forward = PARSE("(d0, d1) -> ((d0 * 6 + d1) / 16, (d0 * 6 + d1) mod 16), domain: d0 in [0, 7], d1 in [0, 5]")
    back = inverse(forward)
    assert all(back.evaluate(forward.evaluate(point)) == point for point in forward.domain_points())


def test_maps_without_points():
    empty = PARSE("(d0) -> (d0), domain: d0 in [0, 3], d0 mod 8 in [19, 19]")
    assert inverse(empty).is_known_empty
    assert list(domain_blocks(IndexingMap.empty())) == []
    assert same_function(IndexingMap.empty(), IndexingMap.empty())


def test_an_inverse_that_is_not_proven_is_refused():
    with pytest.raises(UnsupportedError, match="no inverse was found"):
        inverse(PARSE("(d0) -> (d0 / 2, d0 mod 4), domain: d0 in [0, 7]"))
