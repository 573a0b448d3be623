"""The walk that orders instructions and computations."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from xlashape.hlo.module_proto.order import is_post_order, post_order, roots


@st.composite
def acyclic_graphs(draw: st.DrawFn) -> list[list[int]]:
    """Predecessors of each node, in the order of a random numbering."""
    count = draw(st.integers(1, 12))
    numbering = draw(st.permutations(range(count)))
    predecessors: list[list[int]] = [[] for _ in range(count)]
    for node in range(1, count):
        chosen = draw(st.lists(st.integers(0, node - 1), max_size=4))
        predecessors[numbering[node]] = [numbering[target] for target in chosen]
    return predecessors


def recursive_post_order(predecessors: Sequence[Sequence[int]], starts: Sequence[int]) -> list[int]:
    order: list[int] = []

    def visit(node: int) -> None:
        if node not in order:
            for predecessor in predecessors[node]:
                visit(predecessor)
            order.append(node)

    for start in starts:
        visit(start)
    return order


@settings(max_examples=300, deadline=None, derandomize=True)
@given(acyclic_graphs())
def test_the_walk_is_depth_first_and_puts_predecessors_first(predecessors: list[list[int]]) -> None:
    starts = roots(predecessors)
    assert starts == [node for node in range(len(predecessors)) if all(node not in row for row in predecessors)]
    order = post_order(predecessors, starts)
    assert order == recursive_post_order(predecessors, starts)
    assert sorted(order) == list(range(len(predecessors)))
    index = {node: position for position, node in enumerate(order)}
    assert all(index[before] < index[node] for node, row in enumerate(predecessors) for before in row)


@st.composite
def ordered_graphs(draw: st.DrawFn) -> list[list[int]]:
    """Predecessors of each node, each before it."""
    count = draw(st.integers(1, 9))
    return [draw(st.lists(st.integers(0, node - 1), max_size=3)) if node else [] for node in range(count)]


@settings(max_examples=1000, deadline=None, derandomize=True)
@given(ordered_graphs())
def test_an_order_that_is_taken_for_that_of_the_walk_is_it(predecessors: list[list[int]]) -> None:
    ids = list(range(len(predecessors)))
    if is_post_order(predecessors, ids):
        assert post_order(predecessors, roots(predecessors)) == ids


@settings(max_examples=1000, deadline=None, derandomize=True)
@given(ordered_graphs())
def test_the_order_of_the_walk_is_recognised_unless_an_operand_that_a_later_one_needs_is_taken_too(
    predecessors: list[list[int]],
) -> None:
    order = post_order(predecessors, roots(predecessors))
    index = {node: position for position, node in enumerate(order)}
    walked = [[index[before] for before in predecessors[node]] for node in order]
    needed: list[set[int]] = []
    for node, row in enumerate(walked):
        needed.append({node}.union(*[needed[before] for before in row]))
    if not any(one in needed[other] for row in walked for at, other in enumerate(row) for one in row[:at]):
        assert is_post_order(walked, order)  # a node's id is its old number


def test_only_what_the_roots_need_is_walked() -> None:
    assert post_order([[1], [], [0]], [0]) == [1, 0]


def test_a_cycle_ends_the_walk() -> None:
    assert roots([[1], [0]]) == []
    assert sorted(post_order([[1], [0], [0]], [2])) == [0, 1, 2]


def test_a_long_chain_needs_no_stack() -> None:
    count = 200_000
    chain = [[node + 1] for node in range(count - 1)] + [[]]
    assert post_order(chain, [0]) == list(range(count - 1, -1, -1))
