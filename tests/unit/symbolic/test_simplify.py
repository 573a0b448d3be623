"""The simplifier's passes, and its use of constraints: texts as XLA gives them, or shorter, and the same function at
every point.
"""

from __future__ import annotations

import random

import pytest

from xlashape.symbolic import Expr, IndexingMap, Interval, Var, Variable, dim, minimum, rng
from xlashape.symbolic.simplify import simplifier as simplifier_module
from xlashape.symbolic.simplify.constrained import ConstrainedSimplifier
from xlashape.symbolic.simplify.simplifier import Simplifier


def assert_simplifies(text: str, results: str) -> IndexingMap:
    """To these results; once simplified, for good; the same at every point of the source's box."""
    source = IndexingMap.parse(text)
    found = source.simplify()
    assert str(found).split(" -> ")[1].split(", domain")[0] == results
    assert found.simplify() is found
    assert str(IndexingMap.parse(str(found)).simplify()) == str(found)
    box = IndexingMap(source.dims, source.ranges, source.runtime)
    for point in box.domain_points():
        assert source.evaluate(point) == found.evaluate(point), point
    return found


@pytest.mark.parametrize(
    ("text", "results"),
    [
        pytest.param(
            "(d0, d1) -> ((d0 mod 3 + d0 * 2 + d1 * 16) / 2), domain: d0 in [0, 2], d1 in [0, 9]",
            "(d1 * 8 + (d0 * 3) / 2)",
            id="a mod that never wraps is added at once",
        ),
        pytest.param(
            "(d0) -> ((d0 mod 3 + d0 * 2) / 2), domain: d0 in [0, 2]",
            "(d0 / 2 + d0)",
            id="the canonical form takes a multiple out of two terms first",
        ),
        pytest.param(
            "(d0, d1) -> (((d0 * 4 + d1) / 4 + d0 * 4) mod 4), domain: d0 in [0, 2], d1 in [0, 7]",
            "((d0 * 5 + d1 / 4) mod 4)",
            id="so it does in a dividend of two terms",
        ),
        pytest.param(
            "(d0, d1, d2) -> (((d2 + d1 * 11 + d0 * 121 + 1) / 121 + d0 * 2 + d1 * 2) mod 2), "
            "domain: d0 in [0, 9], d1 in [0, 10], d2 in [0, 9]",
            "(d0 mod 2)",
            id="terms that a division produces are not added to multiples as written",
        ),
        pytest.param(
            "(d0, d1) -> ((d0 * 5 + d1) mod 20 mod 2), domain: d0 in [5, 8], d1 in [0, 4]",
            "((d0 * 5 + d1) mod 2)",
            id="a mod of a mod goes before the inner one is split",
        ),
        pytest.param(
            "(d0, d1) -> (((d0 * 5 + d1) mod 20 + d1 * 6) mod 2), domain: d0 in [5, 8], d1 in [0, 4]",
            "((d0 * 5 + d1) mod 2)",
            id="so it does beside multiples of the outer one",
        ),
        pytest.param(
            "(d0, d1) -> (((d0 * 100 + d1) mod 140) / 10 * 10 + (d0 * 100 + d1) mod 10), domain: d0 in [0, 6], d1 in "
            "[0, 99]",
            "((d0 * 100 + d1) mod 140)",
            id="two digits of a remainder",
        ),
        pytest.param(
            "(d0, d1, d2) -> ((d0 * 1000 + (d1 * 11 + d2) mod 44) / 400), domain: d0 in [0, 7], d1 in [0, 6], d2 in "
            "[0, 10]",
            "((d0 * 5) / 2)",
            id="a mod that is small before it is split",
        ),
        pytest.param(
            "(d0, d1) -> ((d0 * 100 + d1 mod 5) / 400), domain: d0 in [0, 7], d1 in [10, 14]",
            "((d0 * 100 + d1 + 390) / 400 - 1)",
            id="a small rest that does not count from 0",
        ),
    ],
)
def test_passes(text: str, results: str):
    assert_simplifies(text, results)


@pytest.mark.parametrize(
    ("text", "results"),
    [
        pytest.param(
            "(d0, d1, d2) -> ((d0 + (d2 + d1 * 2) / 8) / 10), "
            "domain: d0 in [0, 3], d1 in [0, 30], d2 in [0, 30], (d1 * 2 + d2) / 8 in [0, 1]",
            "(0)",
            id="a part of a sum that a constraint bounds",
        ),
        pytest.param(
            "(d0) -> ((d0 / 10 + d0 - 6) / 50), domain: d0 in [0, 99], d0 / 10 + d0 in [6, 15]",
            "(0)",
            id="a sum that a constraint bounds, and a constant",
        ),
        pytest.param(
            "(d0, d1) -> (((-d1 + d0) * 3) mod 16), domain: d0 in [0, 7], d1 in [0, 2], -d1 + d0 in [0, 5]",
            "((d0 * 3 - d1 * 3) mod 16)",
            id="a constraint on a sum does not bound its multiple",
        ),
        pytest.param(
            "(d0, d1) -> ((d0 * -25 + d1 * 25) / 2 mod 160), domain: d0 in [0, 7], d1 in [0, 2], -d0 + d1 in [0, 5]",
            "((d0 * -25 + d1 * 25) / 2)",
            id="but a division of it knows",
        ),
        pytest.param(
            "(d0, d1, d2) -> (d0 mod 4), domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9], d1 mod 4 in [0, 1]",
            "(d0 mod 4)",
            id="a constraint on other variables",
        ),
    ],
)
def test_results_under_constraints(text: str, results: str):
    assert_simplifies(text, results)


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        pytest.param(
            "(d0, d1) -> (d0), domain: d0 in [0, 9], d1 in [8, 9], d0 * 2 + d1 in [0, 15]",
            "d0 in [0, 3], d1 in [8, 9]",
            id="a digit that counts from 8",
        ),
        pytest.param(
            "(d0, d1) -> (d0), domain: d0 in [-10, -8], d1 in [-8, -5], d0 * 4 + d1 in [0, 11]",
            "",
            id="no point",
        ),
        pytest.param(
            "(d0, d1) -> (d0), domain: d0 in [0, 9], d1 in [7, 9], d0 * 4 + d1 in [0, 15]",
            "d0 in [0, 9], d1 in [7, 9], d0 * 4 + d1 in [0, 15]",
            id="a digit that reaches the next multiple stays",
        ),
    ],
)
def test_low_digits_of_constraints(text: str, domain: str):
    source = IndexingMap.parse(text)
    found = source.simplify()
    assert str(found).partition("domain: ")[2] == domain
    for point in IndexingMap(source.dims).domain_points():
        assert source.evaluate(point) == found.evaluate(point), point


def test_stand_ins_stay_inside():
    """No answer has a stand-in, whichever expression was simplified before."""
    bounds: dict[Variable, tuple[int, int]] = {dim(i): (0, 30) for i in range(3)}
    simplifier = Simplifier(bounds)
    quotient = (dim(0) * 64 + dim(1) + dim(2) * 1024) // 256
    exprs = [quotient + dim(2) * 4096, (quotient + dim(2) * 4096) // 2, (quotient + dim(2) * 4096) // 2 % 32]
    for chosen in (simplifier, ConstrainedSimplifier(simplifier, [(dim(0) + dim(2), Interval(0, 40))])):
        for _ in range(2):
            for expr in exprs:
                found = chosen.simplify(expr)
                source = IndexingMap([Var(Interval(0, 30))] * 3, results=[expr])
                target = IndexingMap([Var(Interval(0, 30))] * 3, results=[found])
                for point in ((0, 0, 0), (30, 30, 10), (3, 29, 7), (17, 5, 23)):
                    assert source.evaluate(point) == target.evaluate(point)


def test_deep_and_shared():
    """As deep as expressions may be, in every kind of nesting, with constraints: no error, and the same function."""
    deep: list[Expr] = [dim(0)] * 4
    for i in range(95):
        deep[0] = (deep[0] + rng(0) * 3) % (1 << 60 >> i % 30)
        deep[1] = deep[1] % (3 ** (1 + i % 30) + 2)
        deep[2] = (deep[2] + dim(1)) // 2
        deep[3] = minimum(deep[3] + 1, dim(1)) + rng(0)
    source = IndexingMap(
        [Var(Interval(0, 1000)), Var(Interval(0, 50))],
        [Var(Interval(0, 9))],
        results=deep,
        constraints=[(dim(0) + dim(1) * 3, Interval(0, 99))],
    )
    found = source.simplify()
    points = [[a, b, c] for a in (0, 7, 50, 99) for b in (0, 11, 33) for c in (0, 4, 9)]
    expected, inside = source.evaluate_batch(points)
    results, kept = found.evaluate_batch(points)
    assert (expected == results).all() and (inside == kept).all()


def test_congruences_of_one_variable_against_enumeration():
    """Remainders that exclude each other, that their modulus cannot have, and remainders that agree at few values."""
    chosen = random.Random(3)
    for _ in range(300):
        congruences = [(chosen.randint(0, 12), chosen.randint(1, 12)) for _ in range(chosen.randint(1, 4))]
        low = chosen.randint(-40, 40)
        high = low + chosen.randint(0, 200)
        constraints = [(dim(0) % modulus, (value, value)) for value, modulus in congruences]
        found = IndexingMap([Var(Interval(low, high))], results=[dim(0)], constraints=constraints)
        simple = found.simplify()
        inside = [x for x in range(low, high + 1) if all(x % modulus == value for value, modulus in congruences)]
        assert [x for x in range(low, high + 1) if simple.evaluate((x,)) is not None] == inside, found
        if inside and not simple.is_known_empty:
            again = IndexingMap.parse(str(simple)).simplify()  # drops a congruence that has left one value
            assert IndexingMap.parse(str(again)).simplify() == again
            assert [x for x in range(low, high + 1) if again.evaluate((x,)) is not None] == inside, found


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("d0 mod 2 in [1, 1], d0 mod 4 in [2, 2]", "KNOWN EMPTY"),
        (
            "d0 mod 2147483648 in [1, 1], d0 mod 2147483647 in [2, 2]",
            "(d0) -> (d0), domain: d0 in [2147483649, 4611686018427387905], "
            "d0 mod 2147483647 in [2, 2], d0 mod 2147483648 in [1, 1]",
        ),
    ],
)
def test_congruences_that_meet_far_apart_are_found_at_once(text, simple):
    assert str(IndexingMap.parse(f"(d0) -> (d0), domain: d0 in [0, 9000000000000000000], {text}").simplify()) == simple


def test_congruences_whose_common_multiple_is_no_int64_stay_apart():
    primes = (4294967231, 4294967279, 4294967291)
    constraints = [((dim(0) - dim(1)) % prime, (1, 1)) for prime in primes]
    simple = IndexingMap.from_sizes([2**62, 2**62], results=[dim(0)])
    simple = IndexingMap(simple.dims, results=simple.results, constraints=constraints).simplify()
    assert IndexingMap.parse(str(simple)) == simple
    assert len(simple.constraints) == 3


def test_a_remainder_that_no_variable_has_leaves_nothing() -> None:
    assert (
        str(IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 10], d0 mod 8 in [19, 19]").simplify()) == "KNOWN EMPTY"
    )


@pytest.mark.parametrize("passes", [0, 1])
def test_too_many_passes_end_in_the_canonical_form(passes, monkeypatch):
    """An expression whose passes do not end is still the same function, without stand-ins."""
    monkeypatch.setattr(simplifier_module, "_PASSES", passes)
    expr = (dim(0) * 64 + dim(1) + dim(2) * 1024) // 256 + dim(2) * 4096
    simplifier = Simplifier({dim(i): (0, 30) for i in range(3)})
    simplifier.simplify((dim(0) * 2 + dim(1) % 3) % 7 // 2 + dim(1) % 5)
    for source in (expr, expr // 2, expr // 2 % 32):
        before = IndexingMap([Var(Interval(0, 30))] * 3, results=[source])
        after = IndexingMap([Var(Interval(0, 30))] * 3, results=[simplifier.simplify(source)])
        for point in ((0, 0, 0), (30, 30, 10), (3, 29, 7), (17, 5, 23)):
            assert before.evaluate(point) == after.evaluate(point)
