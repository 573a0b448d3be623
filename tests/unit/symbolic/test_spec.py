"""The worked examples of simplification and composition, as text and as functions."""

from __future__ import annotations

import pytest

from xlashape.symbolic import IndexingMap, same_function


def box(*sizes: int) -> str:
    return ", ".join(f"d{i} in [0, {size - 1}]" for i, size in enumerate(sizes))


@pytest.mark.parametrize(
    ("sizes", "results", "simplified"),
    [
        ((7, 15), "d0 + d1 floordiv 16, d1 mod 16", "(d0, d1)"),
        (
            (10, 10, 10),
            "(100 * d0 + 10 * d1 + d2) floordiv 100, ((100 * d0 + 10 * d1 + d2) mod 100) floordiv 10, d2 mod 10",
            "(d0, d1, d2)",
        ),
        (
            (10, 10, 10),
            "(16 * d0 + 4 * d1 + d2) floordiv 8, (16 * d0 + 4 * d1 + d2) mod 8",
            "(d0 * 2 + (d1 * 4 + d2) / 8, (d1 * 4 + d2) mod 8)",
        ),
        ((10, 11), "-((-11 * d0 - d1 + 109) floordiv 11) + 9", "(d0)"),
    ],
)
def test_simplification(sizes, results, simplified):
    names = ", ".join(f"d{i}" for i in range(len(sizes)))
    source = IndexingMap.parse(f"({names}) -> ({results}), domain: {box(*sizes)}")
    assert str(source.simplify()) == f"({names}) -> {simplified}, domain: {box(*sizes)}"
    assert same_function(source, source.simplify())


@pytest.mark.parametrize(
    ("constraint", "domain"),
    [
        ("s0 + 5 in [7, 9]", "s0 in [2, 4]"),
        ("s0 + d0 + 5 in [7, 9]", "s0 in [0, 99], d0 + s0 in [2, 4]"),
        ("s0 * 3 in [7, 9]", "s0 in [3, 3]"),
        ("s0 * -3 in [-9, -5]", "s0 in [2, 3]"),
        ("s0 floordiv 4 in [1, 2]", "s0 in [4, 11]"),
        ("s0 floordiv 4 * 4 - 4 in [0, 7]", "s0 in [4, 11]"),
        ("s0 + d0 in [0, 200]", "s0 in [0, 99]"),
        ("s0 mod 2 in [0, 0], s0 mod 3 in [0, 0]", "s0 in [0, 96], s0 mod 6 in [0, 0]"),
        ("s0 mod 2 in [1, 1], s0 mod 3 in [1, 1]", "s0 in [1, 97], s0 mod 6 in [1, 1]"),
        ("s0 mod 8 in [3, 3], s0 in [0, 12]", "s0 in [3, 11], s0 mod 8 in [3, 3]"),
        ("s0 * 4 + d0 in [0, 18]", "s0 in [0, 99], s0 * 4 + d0 in [0, 18]"),
        ("s0 * 10 + d0 in [0, 19]", "s0 in [0, 1]"),
    ],
)
def test_constraints(constraint, domain):
    head, bounds = "(d0)[s0] -> (d0 * 100 + s0), domain: ", "d0 in [0, 9], "
    source = IndexingMap.parse(f"{head}{bounds}s0 in [0, 99], {constraint}")
    simplified = source.simplify()
    result = "(d0 * 100 + 3)" if domain == "s0 in [3, 3]" else "(d0 * 100 + s0)"
    assert str(simplified) == f"(d0)[s0] -> {result}, domain: {bounds}{domain}"
    assert same_function(source, simplified)


def test_empty_domains_are_found():
    for constraint in ("s0 in [200, 300]", "s0 * 4 in [1, 3]", "s0 mod 128 in [100, 100]", "5 in [6, 7]"):
        source = IndexingMap.parse(f"(d0)[s0] -> (s0), domain: d0 in [0, 9], s0 in [0, 99], {constraint}")
        assert source.simplify().is_known_empty, constraint


def test_two_reshapes_are_the_identity():
    forth = IndexingMap.parse(
        "(d0, d1) -> ((d0 * 20 + d1) floordiv 100, ((d0 * 20 + d1) floordiv 10) mod 10, (d0 * 20 + d1) mod 10), "
        "domain: d0 in [0, 49], d1 in [0, 19]"
    )
    back = IndexingMap.parse(
        "(d0, d1, d2) -> ((d0 * 100 + d1 * 10 + d2) floordiv 20, (d0 * 100 + d1 * 10 + d2) mod 20), "
        f"domain: {box(10, 10, 10)}"
    )
    assert back.compose(forth).is_identity
    assert forth.compose(back).is_identity


def test_point_variables_give_way():
    source = IndexingMap.parse(
        "(d0, d1)[s0]{rt0} -> (d0 + d1 * 7 + s0 + rt0 * 3), domain: d0 in [0, 9], d1 in [2, 2], s0 in [0, 0], rt0 in "
        "[1, 1]"
    )
    assert str(source.simplify()) == (
        "(d0, d1)[s0]{rt0} -> (d0 + 17), domain: d0 in [0, 9], d1 in [2, 2], s0 in [0, 0], rt0 in [1, 1]"
    )


def test_composition_keeps_the_variables_of_both_the_second_first():
    first = IndexingMap.parse("(d0)[s0]{rt0} -> (d0 + s0, rt0), domain: d0 in [0, 9], s0 in [0, 5], rt0 in [0, 3]")
    second = IndexingMap.parse(
        "(d0, d1)[s0]{rt0} -> (d0 + s0, rt0 + d1), domain: d0 in [0, 10], d1 in [0, 2], s0 in [0, 7], rt0 in [0, 8]"
    )
    both = first.compose(second)
    assert str(both) == (
        "(d0)[s0, s1]{rt0, rt1} -> (d0 + s0 + s1, rt0 + rt1), domain: d0 in [0, 9], s0 in [0, 7], s1 in [0, 5], "
        "rt0 in [0, 8], rt1 in [0, 2], d0 + s1 in [0, 10]"
    )
