"""Random maps: simplification and composition keep the function, and are fixed points; text and protos round-trip."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xlashape.symbolic import (
    Expr,
    IndexingMap,
    Interval,
    Var,
    Variable,
    VariableKind,
    ceil_div,
    const,
    inverse,
    maximum,
    minimum,
    same_function,
)
from xlashape.symbolic.map.transforms import domain_blocks

BOUNDED = settings(max_examples=60, deadline=None, derandomize=True)
FACTORS = st.sampled_from([-11, -3, -1, 2, 3, 4, 6, 8, 10, 16])
DIVISORS = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12, 16])


def expressions(variables: list[Variable]) -> st.SearchStrategy[Expr]:
    leaves = (
        st.one_of(st.sampled_from(variables), st.integers(-20, 40).map(const))
        if variables
        else st.integers(-20, 40).map(const)
    )

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        pairs = st.tuples(inner, inner)
        return st.one_of(
            pairs.map(lambda p: p[0] + p[1]),
            pairs.map(lambda p: p[0] - p[1]),
            st.tuples(inner, FACTORS).map(lambda p: p[0] * p[1]),
            st.tuples(inner, DIVISORS).map(lambda p: p[0] // p[1]),
            st.tuples(inner, DIVISORS).map(lambda p: p[0] % p[1]),
            st.tuples(inner, DIVISORS).map(lambda p: ceil_div(p[0], p[1])),
            pairs.map(lambda p: minimum(*p)),
            pairs.map(lambda p: maximum(*p)),
            pairs.map(lambda p: p[0] * p[1]),
        )

    return st.recursive(leaves, grow, max_leaves=12)


@st.composite
def maps(draw: st.DrawFn, results: int | None = None, dims: int | None = None, constrained: bool = True) -> IndexingMap:
    counts = [draw(st.integers(1, 3)) if dims is None else dims, draw(st.integers(0, 1)), draw(st.integers(0, 1))]
    groups: list[list[Var]] = []
    for count in counts:
        lows = draw(st.lists(st.sampled_from([0, 0, 0, -4, 3]), min_size=count, max_size=count))
        groups.append([Var(Interval(low, low + draw(st.integers(0, 6)))) for low in lows])
    variables = [Variable(kind, i) for kind, group in zip(VariableKind, groups, strict=True) for i in range(len(group))]
    made = draw(st.lists(expressions(variables), min_size=results or 1, max_size=results or 2))
    constraints = []
    for _ in range(draw(st.integers(0, 2)) if constrained else 0):
        low = draw(st.integers(-6, 12))
        constraints.append((draw(expressions(variables)), Interval(low, low + draw(st.integers(0, 12)))))
    return IndexingMap(*groups, made, constraints)


@BOUNDED
@given(maps())
def test_simplified_is_the_same_function(m: IndexingMap):
    assert_same_everywhere(m, m.simplify())


def assert_same_everywhere(source: IndexingMap, simplified: IndexingMap) -> None:
    """On the whole box of the source, inside its domain and outside."""
    box = IndexingMap(source.dims, source.ranges, source.runtime) if not source.is_known_empty else None
    if box is None:
        assert simplified.is_known_empty
        return
    for points, _ in domain_blocks(box):
        expected, inside = source.evaluate_batch(points)
        if simplified.is_known_empty:
            assert not inside.any()
            continue
        results, kept = simplified.evaluate_batch(points)
        assert np.array_equal(inside, kept)
        assert np.array_equal(expected, results)


@BOUNDED
@given(maps())
def test_simplified_twice_is_simplified_once(m: IndexingMap):
    once = m.simplify()
    assert str(IndexingMap.parse(str(once)).simplify()) == str(once)


@BOUNDED
@given(maps(results=2, constrained=False), maps(dims=2))
def test_composition_is_one_after_the_other(first: IndexingMap, second: IndexingMap):
    both = first.compose_unsimplified(second)
    assert_same_everywhere(both, first.compose(second))
    ranges, runtime = len(second.ranges), len(second.runtime)
    d, r = len(first.dims), len(both.ranges)
    if both.is_known_empty:
        return
    for points, results in domain_blocks(both):
        for point, result in zip(points.tolist()[:50], results.tolist(), strict=False):
            own = point[:d] + point[d + ranges : d + r] + point[d + r + runtime :]
            between = first.evaluate(own)
            assert between is not None
            theirs = [*between, *point[d : d + ranges], *point[d + r : d + r + runtime]]
            assert second.evaluate(theirs) == tuple(result)


@BOUNDED
@given(maps())
def test_text_and_protos_round_trip(m: IndexingMap):
    if m.is_known_empty:
        return
    assert IndexingMap.from_proto(m.to_proto()) == m
    for style in ("xla", "affine"):
        read = IndexingMap.parse(m.to_text(style=style))
        assert str(read) == str(m)
        assert_same_everywhere(m, read)


@BOUNDED
@given(maps())
def test_batches_are_single_points(m: IndexingMap):
    points = [[draw % 9 - 4 + (draw // 9) % 5 for _ in m.variables] for draw in range(45)]
    results, inside = m.evaluate_batch(points)
    for point, row, is_inside in zip(points, results.tolist(), inside.tolist(), strict=True):
        assert (tuple(row) if is_inside else None) == m.evaluate(point)


@st.composite
def reshapes(draw: st.DrawFn) -> IndexingMap:
    """Mixed-radix numbers taken apart and put together: what reshapes, transposes and tiles are made of."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=3))
    order = draw(st.permutations(range(len(sizes))))
    line: Expr = const(0)
    scales = [1]
    for i in order:
        line = line + Variable(VariableKind.DIM, i) * scales[-1]
        scales.append(scales[-1] * sizes[i])
    # Cut between two digits, or inside one.
    cuts = set(draw(st.lists(st.sampled_from(scales), max_size=2))) | {1, scales[-1]}
    at = draw(st.integers(0, len(order) - 1))
    cuts |= {scales[at] * draw(st.sampled_from([f for f in (1, 2, 3) if sizes[order[at]] % f == 0]))}
    ordered = sorted(cuts)
    results = [line % large // small for small, large in pairwise(ordered)]
    return IndexingMap([Var(Interval.of_size(size)) for size in sizes], results=results)


@BOUNDED
@given(reshapes())
def test_inverses_undo(m: IndexingMap):
    back = inverse(m)
    assert all(m.compose(back).evaluate(point) == point for point in m.domain_points())
    assert all(m.evaluate(back.evaluate(point) or ()) == point for point in back.domain_points())
    assert same_function(inverse(back), m)
