"""IndexingMap as a value: construction, composition, variables, protos, bounds of time and memory.
test_map_evaluation.py has its evaluation.
"""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from xlashape import limits
from xlashape.errors import (
    DeadlineExceededError,
    InvalidMapError,
    LimitExceededError,
)
from xlashape.symbolic import IndexingMap, Interval, Var, ceil_div, const, dim, maximum, minimum, rng, rt

PARSE = IndexingMap.parse


def test_constructors():
    assert str(IndexingMap.from_sizes([4, 8], [2], [dim(0) * 8 + rng(0), 3])) == (
        "(d0, d1)[s0] -> (d0 * 8 + s0, 3), domain: d0 in [0, 3], d1 in [0, 7], s0 in [0, 1]"
    )
    assert IndexingMap.identity([2, 3]).is_identity
    assert IndexingMap.identity([]).is_identity
    assert IndexingMap.from_sizes([4, 0], results=[dim(0)]).is_known_empty
    assert not IndexingMap.empty().is_identity
    assert str(IndexingMap.undefined()) == "UNDEFINED"
    assert IndexingMap([Var(Interval(0, 3), "d0")]) == IndexingMap([Var(Interval(0, 3))])


def test_constraints_settle_on_construction():
    m = IndexingMap(
        [Var(Interval(0, 9))],
        results=[dim(0)],
        constraints=[(dim(0), (2, 20)), (3, (0, 5)), (dim(0) % 4, (0, 2)), (dim(0) % 4, Interval(1, 3))],
    )
    assert str(m) == "(d0) -> (d0), domain: d0 in [2, 9], d0 mod 4 in [1, 2]"
    for constraints in ([(3, (4, 5))], [(dim(0), (10, 20))], [(dim(0) % 4, (0, 1)), (dim(0) % 4, (2, 3))]):
        empty = IndexingMap([Var(Interval(0, 9))], results=[dim(0)], constraints=constraints)
        assert empty.is_known_empty
        assert len(empty.dims) == len(empty.results) == 1
        assert empty.evaluate((3,)) is None


@pytest.mark.parametrize(
    "build",
    [
        lambda: IndexingMap(results=[dim(0)]),
        lambda: IndexingMap([Var(Interval(0, 3))], results=[rt(0)]),
        lambda: IndexingMap([Var(Interval(0, 3))], results=[1.5]),
        lambda: IndexingMap([Var(Interval(0, 1.5))]),
        lambda: IndexingMap([Var((0, 1, 2))]),
        lambda: IndexingMap([Var(Interval(0, 3), "a"), Var(Interval(0, 3), "a")]),
        lambda: IndexingMap([Var(Interval(0, 3), "d1"), Var(Interval(0, 3))]),
        lambda: IndexingMap([Var(Interval(0, 3), "min")]),
        lambda: IndexingMap([Var(Interval(0, 3), "a b")]),
    ],
)
def test_what_cannot_be_a_map(build):
    with pytest.raises(InvalidMapError):
        build()


def test_values():
    a, b = PARSE("(d0) -> (d0 * 2), domain: d0 in [0, 3]"), IndexingMap.from_sizes([4], results=[dim(0) * 2])
    assert a == b
    assert hash(a) == hash(b)
    assert len({a, b, IndexingMap.identity([4])}) == 2
    assert a != "(d0) -> (d0 * 2), domain: d0 in [0, 3]"
    with pytest.raises(AttributeError, match="frozen"):
        a.results = ()
    nowhere = IndexingMap(results=[1, 2], constraints=[(const(0), (1, 1))])  # no variables, and yet two results
    for m in (a, nowhere, IndexingMap.empty(), IndexingMap.undefined(), IndexingMap.from_sizes([0], results=[dim(0)])):
        assert copy.deepcopy(m) is m
        assert pickle.loads(pickle.dumps(m)) == m


def test_domain_points_are_lazy_and_ordered():
    m = PARSE("(d0, d1) -> (d0), domain: d0 in [0, 2], d1 in [5, 6], d0 + d1 in [6, 99]")
    assert list(m.domain_points()) == [(0, 6), (1, 5), (1, 6), (2, 5), (2, 6)]
    assert next(IndexingMap.identity([10**12]).domain_points()) == (0,)
    assert list(PARSE("() -> ()").domain_points()) == [()]
    assert list(IndexingMap.empty().domain_points()) == []


def test_composition_is_substitution():
    first = PARSE("(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 7], s0 in [0, 3]")
    second = PARSE("(d0)[s0] -> (d0 floordiv 4 + s0, d0 mod 4), domain: d0 in [0, 20], s0 in [0, 1], d0 + s0 in [0, 9]")
    both = first.compose_unsimplified(second)
    assert both.counts == (1, 2, 0)
    for point in both.domain_points():
        (between,) = first.evaluate((point[0], point[2]))
        assert both.evaluate(point) == second.evaluate((between, point[1]))
    assert str(first.compose(second)) == (
        "(d0)[s0, s1] -> (d0 + s0, s1), domain: d0 in [0, 7], s0 in [0, 1], s1 in [0, 3], d0 * 4 + s0 + s1 in [0, 9], "
        "d0 * 4 + s1 in [0, 20]"
    )


def test_composition_of_maps_without_points():
    identity = IndexingMap.identity([4])
    assert identity.compose(IndexingMap.undefined()).is_undefined
    assert IndexingMap.undefined().compose(IndexingMap.empty()).is_undefined
    assert IndexingMap.from_sizes([0], results=[dim(0)]).compose(identity).is_known_empty
    with pytest.raises(InvalidMapError, match="the first map has 1 results, the second 2 dimensions"):
        identity.compose(IndexingMap.identity([4, 4]))


def test_names_stay_distinct_through_composition():
    first = PARSE("(a)[k] -> (a + k), domain: a in [0, 3], k in [0, 1]")
    second = PARSE("(b)[k] -> (b + k), domain: b in [0, 9], k in [0, 2]")
    assert str(first.compose(second)) == "(a)[k, s1] -> (a + k + s1), domain: a in [0, 3], k in [0, 2], s1 in [0, 1]"


def test_unused_variables_go():
    m = PARSE(
        "(d0, d1)[s0, s1, s2]{rt0, rt1} -> (d1 + s2), domain: d0 in [0, 3], d1 in [0, 4], s0 in [0, 1], s1 in [0, 2], "
        "s2 in [0, 5], rt0 in [0, 6], rt1 in [0, 7], s1 + rt1 in [0, 4]"
    )
    without, ranges, runtime = m.remove_unused_symbols()
    assert str(without) == "(d0, d1)[s0] -> (d1 + s0), domain: d0 in [0, 3], d1 in [0, 4], s0 in [0, 5]"
    assert (ranges, runtime) == ((False, False, True), (False, False))
    without, dims, flags = m.remove_unused_vars()
    assert str(without) == "(d0)[s0] -> (d0 + s0), domain: d0 in [0, 4], s0 in [0, 5]"
    assert dims == (False, True) and flags.kept_runtime == (False, False)


_BOUNDS = "d0 in [0, 9], s0 in [0, 9], s1 in [0, 9]"


@pytest.mark.parametrize(
    ("result", "constraints", "expected"),
    [
        ("d0 + s1", "s0 mod 2 in [0, 0]", "(d0)[s0] -> (d0 + s0), domain: d0 in [0, 9], s0 in [0, 9]"),
        (
            "d0 + s1",
            "s0 mod 2 in [0, 0], s0 mod 3 in [1, 1]",
            "(d0)[s0] -> (d0 + s0), domain: d0 in [0, 9], s0 in [0, 9]",
        ),
        ("d0", "s0 + s1 in [3, 8], s0 mod 2 in [0, 0]", "(d0) -> (d0), domain: d0 in [0, 9]"),
        (
            "d0 + s1",
            "s0 + s1 in [3, 8], s0 mod 2 in [0, 0]",
            "(d0)[s0, s1] -> (d0 + s1), domain: d0 in [0, 9], s0 in [0, 9], s1 in [0, 9], s0 + s1 in [3, 8], s0 mod 2 "
            "in [0, 0]",
        ),
        (
            "s1",
            "d0 + s0 in [3, 8]",
            "(d0)[s0, s1] -> (s1), domain: d0 in [0, 9], s0 in [0, 9], s1 in [0, 9], d0 + s0 in [3, 8]",
        ),
    ],
)
def test_variables_go_that_only_their_own_constraints_mention(result, constraints, expected):
    """The text of jaxlib 0.12.0.1, for maps that are simplified."""
    assert (
        str(PARSE(f"(d0)[s0, s1] -> ({result}), domain: {_BOUNDS}, {constraints}").remove_unused_symbols().map)
        == expected
    )


def test_constraints_that_never_hold_stay():
    """XLA drops them, so that an empty map has points again."""
    m = PARSE("(d0)[s0] -> (d0), domain: d0 in [0, 9], s0 in [0, 1], s0 * s0 + s0 in [1, 1]")
    assert m.remove_unused_symbols() == (m, (True,), ())
    assert m.remove_unused_vars()[0] is m


def test_unused_dimensions_go_with_their_constraints():
    m = PARSE("(d0, d1)[s0] -> (s0), domain: d0 in [0, 9], d1 in [0, 9], s0 in [0, 3], d0 + d1 in [3, 5]")
    without, dims, _ = m.remove_unused_vars()
    assert str(without) == "()[s0] -> (s0), domain: s0 in [0, 3]"
    assert dims == (False, False)


def test_a_composition_known_to_be_empty_keeps_its_variables_and_results():
    nowhere = IndexingMap.from_sizes([3, 0], [2], [dim(0)])
    composed = nowhere.compose(PARSE("(d0)[s0] -> (d0, s0, 7), domain: d0 in [0, 9], s0 in [0, 1]"))
    assert composed.is_known_empty and str(composed) == "KNOWN EMPTY"
    assert composed.counts == (2, 2, 0) and len(composed.results) == 3
    there = PARSE("(d0)[s0] -> (d0), domain: d0 in [0, 9], s0 in [0, 1]").compose(
        nowhere.keep_variables((False, True), (True,), ())
    )
    assert there.is_known_empty and there.counts == (1, 2, 0)


def test_used_names_survive_removal():
    m = PARSE("(d0)[a, s1, b] -> (d0 + b), domain: d0 in [0, 3], a in [0, 1], s1 in [0, 2], b in [0, 5]")
    assert str(m.remove_unused_symbols().map) == "(d0)[b] -> (d0 + b), domain: d0 in [0, 3], b in [0, 5]"


def test_protos_round_trip():
    for text in (
        "(d0, th)[s0]{rt0} -> (d0 ceildiv 3 + th mod 4, min(s0, 5) * max(rt0, d0), -7), "
        "domain: d0 in [-9, 9], th in [0, 30], s0 in [0, 4], rt0 in [0, 1], d0 + th in [0, 20]",
        "() -> ()",
        "UNDEFINED",
    ):
        m = PARSE(text)
        assert IndexingMap.from_proto(m.to_proto()) == m
        assert IndexingMap.from_proto(m.to_proto().SerializeToString()) == m
    assert IndexingMap.from_proto(IndexingMap.empty().to_proto()).is_known_empty


def test_equal_maps_are_simplified_once():
    text = "(d0) -> (d0 mod 4), domain: d0 in [0, 3]"
    assert PARSE(text).simplify() is PARSE(text).simplify()
    assert PARSE(text).simplify().simplify() is PARSE(text).simplify()


def test_budgets_and_deadlines_end_the_analysis():
    terms = " + ".join(f"(d0 * {i} + s0) mod {i + 7}" for i in range(1, 400))
    m = PARSE(f"(d0)[s0] -> ({terms}), domain: d0 in [0, 99], s0 in [0, 98]")
    with limits.budget(steps=500, subject="fusion.3"), pytest.raises(LimitExceededError, match="fusion.3"):
        m.simplify()
    with limits.budget(deadline=0.0), pytest.raises(DeadlineExceededError):
        m.simplify()
    with limits.budget(steps=500), pytest.raises(LimitExceededError):
        list(IndexingMap.identity([10**6]).domain_points())


def test_products_that_explode_are_stopped():
    factors = " * ".join(f"(d0 + d1 * {i} + {i})" for i in range(2, 26))
    m = PARSE(f"(d0, d1) -> ({factors}), domain: d0 in [0, 1], d1 in [0, 1]")
    simplified = m.simplify()
    for point in m.domain_points():
        assert m.evaluate(point) == simplified.evaluate(point)


@pytest.mark.parametrize("seed", range(6))
def test_expressions_as_deep_as_allowed(seed):
    """No part of the algebra takes the interpreter's stack: 190 levels of random operators, from a caller that is deep
    itself.
    """
    draw = random.Random(seed)
    steps = [
        lambda e: e // draw.choice([2, 3, 5]),
        lambda e: e % draw.choice([17, 64, 1000]),
        lambda e: e * draw.choice([-3, 2, 7]) + dim(0),
        lambda e: minimum(e, dim(1) + draw.randint(0, 9)),
        lambda e: maximum(dim(0) - 5, e),
        lambda e: ceil_div(e + rng(0), 4),
        lambda e: e - (e // 4) * 4,
    ]
    node = dim(0) * 100 + dim(1)
    while node.depth < limits.MAX_EXPRESSION_DEPTH - 10 and node.size < 10_000:
        node = draw.choice(steps)(node)

    def deep(level: int) -> IndexingMap:
        return deep(level - 1) if level else IndexingMap.from_sizes([50, 40], [6], [node]).simplify()

    simplified = deep(300)
    source = IndexingMap.from_sizes([50, 40], [6], [node])
    points = np.random.default_rng(0).integers(0, (50, 40, 6), (500, 3))
    assert (source.evaluate_batch(points)[0] == simplified.evaluate_batch(points)[0]).all()
    assert IndexingMap.from_proto(source.to_proto()) == source
    assert pickle.loads(pickle.dumps(source)) == source


def test_long_sums_take_time_in_proportion():
    """Each of 3,000 mods is looked at a bounded number of times: the steps that are counted grow with the sum, not with
    its square.
    """
    terms = " + ".join(f"(d0 * {i} + s0) mod {i + 7}" for i in range(1, 3000))
    m = PARSE(f"(d0)[s0] -> ({terms}), domain: d0 in [0, 99], s0 in [0, 98]")
    with limits.budget(steps=60_000):
        simplified = m.simplify()
    assert simplified.evaluate((57, 31)) == m.evaluate((57, 31))


def test_large_maps_leave_little_memory_behind():
    """The caches stay small when many different maps of hundreds of terms are simplified.

    The maps are built in a process of their own: a table that other tests have filled nearly to its next size would
    grow during the measurement.
    """
    script = textwrap.dedent("""
        import gc
        import tracemalloc

        from xlashape.symbolic import IndexingMap, const, dim

        def simplify_a_map(first_factor):
            terms = sum((dim(i) * (first_factor + i) for i in range(100)), const(0))
            IndexingMap.from_sizes([10] * 100, results=[terms]).simplify()

        simplify_a_map(1000)
        tracemalloc.start()
        for first_factor in range(2000, 22000, 1000):
            simplify_a_map(first_factor)
        gc.collect()
        print(tracemalloc.get_traced_memory()[0])
    """)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    left = int(result.stdout)
    assert left < 200_000  # each of the twenty maps has some hundred nodes, which would take more if they were kept


def test_caches_of_maps_hold_no_more_bytes_than_they_say():
    """The bytes that a full process allocates for cached maps stay below what the register of caches says they take."""
    script = textwrap.dedent("""
        import gc
        import tracemalloc

        from xlashape.base import caches
        from xlashape.symbolic import IndexingMap, dim

        def simplify_maps(first, last):
            for n in range(first, last):
                m = IndexingMap.from_sizes([n, 7, 5], results=[(dim(0) * n + dim(1)) // 3 + dim(2) % 4, dim(2) // n + dim(1)])
                m.evaluate((1, 1, 1))
                m.simplify().evaluate((1, 1, 1))

        simplify_maps(100, 110)
        gc.collect()
        before = {usage.owner: usage.bytes for usage in caches.report()}
        tracemalloc.start()
        simplify_maps(1000, 3000)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
        said = sum(usage.bytes - before[usage.owner] for usage in caches.report() if usage.owner.startswith("xlashape.symbolic.map"))
        print(taken, said)
    """)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    taken, said = map(int, result.stdout.split())
    assert taken < said < 4 * taken
