"""Expressions: interning, folding, limits, pickling."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest

from xlashape.base import caches
from xlashape.errors import InvalidArgumentError, InvalidMapError, LimitExceededError
from xlashape.symbolic import (
    Add,
    Constant,
    FloorDiv,
    Interval,
    Mod,
    Mul,
    Variable,
    VariableKind,
    ceil_div,
    const,
    dim,
    evaluate,
    floor_div,
    maximum,
    minimum,
    modulo,
    replace,
    rng,
    rt,
)
from xlashape.symbolic.expr import interning
from xlashape.symbolic.expr.expression import order_key, postorder, sum_terms


def test_equal_expressions_are_the_same_object():
    assert dim(0) * 4 + rng(1) is dim(0) * 4 + rng(1)
    assert dim(0) + rng(0) is not rng(0) + dim(0)
    assert dim(0) is not rng(0)
    assert Constant(7) is const(7)
    assert Variable(VariableKind.RUNTIME, 2) is rt(2)


def test_references_go_away_with_their_last_user():
    expr = dim(91) * 12345 + 67890
    before = len(interning.references)
    del expr
    gc.collect()
    assert len(interning.references) < before


def test_references_are_frozen():
    node = dim(0) + 1
    with pytest.raises(AttributeError, match="frozen"):
        node.lhs = dim(1)
    with pytest.raises(AttributeError, match="frozen"):
        del node.rhs


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (2 + dim(0), "d0 + 2"),
        (2 * dim(0), "d0 * 2"),
        (dim(0) * 3 * 4, "d0 * 12"),
        (dim(0) * 0, "0"),
        (dim(0) + 0, "d0"),
        (1 - dim(0), "-d0 + 1"),
        (-(dim(0) - 1), "-d0 + 1"),
        (dim(0) - dim(1) * 3, "d0 - d1 * 3"),
        (dim(0) // 8 % 4, "(d0 / 8) mod 4"),
        (dim(0) // 8 // 4, "d0 / 8 / 4"),
        (dim(0) // -3, "-d0 / 3"),
        (-(dim(0) // 3), "-(d0 / 3)"),
        (const(-7) // 2, "-4"),
        (const(-7) % 4, "1"),
        (ceil_div(const(-7), 2), "-3"),
        (ceil_div(dim(0), -2), "-d0 ceildiv 2"),
        (minimum(4, dim(0)) + 1, "min(d0, 4) + 1"),
        (maximum(const(3), 4), "4"),
        (dim(0) * (dim(1) + 2), "d0 * (d1 + 2)"),
        (dim(0) - maximum(dim(0), dim(1)), "d0 - max(d0, d1)"),
        (-(dim(0) * dim(1)), "-d0 * d1"),
        (-(dim(0) % 4) + rng(0), "-(d0 mod 4) + s0"),
        (dim(0) - (dim(1) % 4) * 3, "d0 - (d1 mod 4) * 3"),
        (modulo(5, 3), "2"),
        (dim(0) // 1, "d0"),
        (dim(0) // -1, "-d0"),
        (ceil_div(dim(0), 1), "d0"),
        (dim(0) % 1, "0"),
    ],
)
def test_operators_fold_and_print(expr, text):
    assert repr(expr) == text


@pytest.mark.parametrize(
    "build",
    [lambda: dim(0) // 0, lambda: dim(0) % 0, lambda: dim(0) % -3, lambda: dim(0) // dim(1), lambda: 5 % dim(0)],
)
def test_divisors_are_positive_constants(build):
    with pytest.raises(InvalidMapError, match="is a positive constant, not"):
        build()


@pytest.mark.parametrize(
    "build", [lambda: dim(0) + 1.5, lambda: const(True), lambda: dim(-1), lambda: Variable(7, 0), lambda: dim(0) + "a"]
)
def test_operands_are_integers(build):
    with pytest.raises(InvalidMapError):
        build()


def test_constants_stay_exact_and_bounded():
    assert (const(2**63) * 2**63).value == 2**126
    with pytest.raises(InvalidMapError, match="bits"):
        const(1 << 5000)


def test_depth_is_limited_but_sums_are_flat():
    node = dim(0)
    with pytest.raises(LimitExceededError, match="expression depth"):
        for _ in range(500):
            node = (node + 1) // 2
    total = dim(0)
    for i in range(5000):
        total = Add(total, dim(i % 7))
    assert total.depth == 1
    assert len(sum_terms(total)) == 5001


def test_doubling_is_stopped():
    node = dim(0)
    with pytest.raises(LimitExceededError, match="expression nodes"):
        for _ in range(100):
            node = Mul(node, node)


def test_copies_and_pickles():
    node = (dim(0) * 3 + rng(1)) % 7
    assert copy.copy(node) is node
    assert copy.deepcopy(node) is node
    assert pickle.loads(pickle.dumps(node)) is node
    long = dim(0)
    for i in range(20000):
        long = Add(long, dim(i % 3))
    assert pickle.loads(pickle.dumps(long)) is long


def test_order_is_kinds_then_operands():
    terms = [
        const(3),
        dim(0),
        rt(0),
        rng(0),
        dim(0) * 2,
        dim(1) % 3,
        dim(1) // 3,
        ceil_div(dim(0), 2),
        minimum(dim(0), 1),
        maximum(dim(0), 1),
        dim(0) + 1,
        dim(1),
        const(-3),
    ]
    ordered = sorted(terms, key=order_key)
    assert repr(ordered) == (
        "[d0 + 1, d0 * 2, d1 mod 3, d1 / 3, d0 ceildiv 2, max(d0, 1), min(d0, 1), d0, d1, s0, rt0, -3, 3]"
    )


def test_postorder_visits_shared_parts_once():
    shared = dim(0) % 4
    order = postorder((shared + shared * 2, floor_div(shared, 2)))
    assert order.count(shared) == 1
    assert order.index(shared) < order.index(FloorDiv(shared, 2))
    assert isinstance(shared, Mod)


def test_operators_with_a_number_on_the_left():
    assert 7 // const(2) is const(3)
    assert 7 % const(4) is const(3)
    assert +dim(0) is dim(0)


def test_the_table_of_nodes_is_in_the_register_of_caches():
    """It says what it holds, and clearing all caches takes no node from those who use it."""
    kept = dim(77) * 4 + 1
    (usage,) = [usage for usage in caches.report() if usage.owner == "xlashape.symbolic.expr.expression"]
    assert usage.entries == len(interning.references) and usage.bytes == usage.max_bytes > 100 * usage.entries
    caches.clear()
    assert dim(77) * 4 + 1 is kept


def test_intervals():
    assert Interval(0, 3).union(Interval(7, 9)) == Interval(0, 9)
    assert Interval(1, 0).union(Interval(2, 3)) == Interval(2, 3).union(Interval(1, 0)) == Interval(2, 3)


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (const(3), 3),
        (dim(0) // 4 + dim(0) % 4, -2 + 1),
        (ceil_div(dim(0), 4) * rng(0), -12),
        (minimum(dim(0), rng(0)) - maximum(dim(0), rt(0)), -7 - (1 << 80)),
    ],
)
def test_expressions_are_evaluated_without_a_map(expr, value):
    assert evaluate(expr, {dim(0): -7, rng(0): 12, rt(0): 1 << 80}) == value


@pytest.mark.parametrize("values", [{}, {dim(1): 3}, {dim(0): None}, {dim(0): 1.5}])
def test_evaluation_needs_an_integer_for_every_variable(values):
    with pytest.raises(InvalidArgumentError, match="d0"):
        evaluate(dim(0) + 1, values)


@pytest.mark.parametrize(
    ("expr", "replaced", "text"),
    [
        (dim(0) * 2 + dim(1), {dim(0): dim(1), dim(1): dim(0)}, "d1 * 2 + d0"),
        (dim(0) * 2 + dim(1), {dim(1): 3}, "d0 * 2 + 3"),
        ((dim(0) % 4) * 2 + dim(0) % 4, {dim(0) % 4: rng(0)}, "s0 * 2 + s0"),
        ((dim(0) % 4) // 8, {dim(0): 5, dim(0) % 4: dim(0)}, "d0 / 8"),
        (dim(0), {dim(0): dim(0) + 1}, "d0 + 1"),
        (dim(0) * 2, {}, "d0 * 2"),
    ],
)
def test_parts_of_expressions_are_replaced(expr, replaced, text):
    assert repr(replace(expr, replaced)) == text
