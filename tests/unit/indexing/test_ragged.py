"""ragged-dot and ragged-all-to-all, run in NumPy over many group sizes: maps name the elements that some sizes lead
to."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from dependence import compare, observed
from hlo_builder import one_op

from xlashape import indexing
from xlashape.errors import InvalidModuleError
from xlashape.hlo import HloInstruction


def ragged_dot(
    out: str,
    operands: list[str],
    contracting: tuple[list[int], list[int]],
    batch: tuple[list[int], list[int]] = ([], []),
    ragged: Sequence[int] = (0,),
    group: Sequence[int] = (),
) -> HloInstruction:
    dot = {
        "lhs_contracting_dimensions": contracting[0],
        "rhs_contracting_dimensions": contracting[1],
        "lhs_batch_dimensions": batch[0],
        "rhs_batch_dimensions": batch[1],
    }
    numbers = {"dot_dimension_numbers": dot, "lhs_ragged_dimensions": ragged, "rhs_group_dimensions": group}
    return one_op("ragged-dot", out, operands, ragged_dot_dimension_numbers=numbers)


def splits(total: int, groups: int) -> Iterable[tuple[int, ...]]:
    """All group sizes that fit."""
    return (sizes for sizes in itertools.product(range(total + 1), repeat=groups) if sum(sizes) <= total)


def member(sizes: np.ndarray, group: int, index: int) -> bool:
    start = int(sizes[:group].sum())
    return start <= index < start + int(sizes[group])


def moved(sizes_at: int) -> Any:
    """A size moves to every other one."""
    return lambda number, old: [s for s in range(4) if s != old] if number == sizes_at else [old + 0.37]


def draws(shapes: list[tuple[int, ...]], sizes: Iterable[Any]) -> Iterable[list[np.ndarray]]:
    rng = np.random.default_rng(0)
    return ([*(rng.random(shape) + 1 for shape in shapes), np.array(one)] for one in sizes)


def test_ragged_rows() -> None:
    """[m,k] · [k,g,n]: every row by the matrix of its group."""

    def run(a: np.ndarray, b: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        out = np.zeros((a.shape[0], b.shape[2]))
        for m in range(a.shape[0]):
            for g in range(b.shape[1]):
                if member(sizes, g, m):
                    out[m] += a[m] @ b[:, g]
        return out

    root = ragged_dot("f32[3,2]", ["f32[3,2]", "f32[2,3,2]", "s64[3]"], ([1], [0]), group=[1])
    compare(root, observed(run, draws([(3, 2), (2, 3, 2)], splits(3, 3)), moved(2)))
    assert [one.knowledge for one in indexing.output_to_input(root)] == [indexing.Knowledge.EXACT] * 3


def test_ragged_rows_with_sizes_for_each_batch() -> None:
    """[n,b,k] · [g,k,b] with sizes [b,g]; free dimensions outside of the ragged one have sizes of their own too."""

    def run(a: np.ndarray, b: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        out = np.zeros((a.shape[1], a.shape[0]))
        for n, i, g in itertools.product(range(a.shape[0]), range(a.shape[1]), range(b.shape[0])):
            if member(sizes[i], g, n):
                out[i, n] += a[n, i] @ b[g, :, i]
        return out

    root = ragged_dot(
        "f32[2,3]", ["f32[3,2,2]", "f32[2,2,2]", "s64[2,2]"], ([2], [1]), ([1], [2]), ragged=[0], group=[0]
    )
    sizes = [[a, b] for a in splits(3, 2) for b in [(1, 2), (3, 0), (0, 3), (1, 1)]]
    compare(root, observed(run, draws([(3, 2, 2), (2, 2, 2)], sizes), moved(2)))

    def outer(a: np.ndarray, b: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        out = np.zeros(a.shape[:2])
        for x, m, g in itertools.product(range(a.shape[0]), range(a.shape[1]), range(b.shape[0])):
            if member(sizes[x], g, m):
                out[x, m] += a[x, m] @ b[g]
        return out

    root = ragged_dot("f32[2,3]", ["f32[2,3,2]", "f32[2,2]", "s64[2,2]"], ([2], [1]), ragged=[1], group=[0])
    compare(root, observed(outer, draws([(2, 3, 2), (2, 2)], sizes), moved(2)))


def test_ragged_sums() -> None:
    """[b,m,k] · [b,k,n] with k in groups: a product a group. A group depends on its own size and those before."""

    def run(a: np.ndarray, b: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        groups = sizes.shape[-1]
        every = np.broadcast_to(sizes, (a.shape[0], groups))
        out = np.zeros((groups, a.shape[0], a.shape[1], b.shape[2]))
        for g, i, k in itertools.product(range(groups), range(a.shape[0]), range(a.shape[2])):
            if member(every[i], g, k):
                out[g, i] += np.outer(a[i, :, k], b[i, k])
        return out

    shapes: list[tuple[int, ...]] = [(2, 1, 3), (2, 3, 2)]
    root = ragged_dot("f32[3,2,1,2]", ["f32[2,1,3]", "f32[2,3,2]", "s32[3]"], ([2], [1]), ([0], [0]), ragged=[2])
    compare(root, observed(run, draws(shapes, splits(3, 3)), moved(2)))
    assert str(indexing.output_to_input(root)[2].map).endswith("s0 in [0, 2], d0 - s0 in [0, 2]")
    root = ragged_dot("f32[2,2,1,2]", ["f32[2,1,3]", "f32[2,3,2]", "s32[2,2]"], ([2], [1]), ([0], [0]), ragged=[2])
    sizes = [[a, b] for a in splits(3, 2) for b in [(1, 2), (3, 0), (0, 3), (1, 1)]]
    compare(root, observed(run, draws(shapes, sizes), moved(2)))


def test_a_ragged_sum_over_two_dimensions() -> None:
    """Both k and l are summed, l in groups, with sizes for each k."""

    def run(a: np.ndarray, b: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        out = np.zeros(sizes.shape[-1])
        for g, k, j in itertools.product(range(sizes.shape[-1]), *map(range, a.shape)):
            if member(sizes[k], g, j):
                out[g] += a[k, j] * b[j, k]
        return out

    root = ragged_dot("f32[2]", ["f32[2,3]", "f32[3,2]", "s32[2,2]"], ([0, 1], [1, 0]), ragged=[1])
    sizes = [[a, b] for a in splits(3, 2) for b in [(1, 2), (3, 0), (0, 3), (1, 1)]]
    compare(root, observed(run, draws([(2, 3), (3, 2)], sizes), moved(2)))


def test_ragged_batch() -> None:
    """A dot. Whether elements beyond the groups are computed is not specified, so the sizes may matter."""

    def run(a: np.ndarray, b: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return np.array([x @ y if i < sizes.sum() else x @ y * 0 for i, (x, y) in enumerate(zip(a, b, strict=True))])

    root = ragged_dot("f32[3,2,1]", ["f32[3,2,2]", "f32[3,2,1]", "s32[2]"], ([2], [1]), ([0], [0]))
    compare(root, observed(run, draws([(3, 2, 2), (3, 2, 1)], splits(3, 2)), moved(2)))


@pytest.mark.parametrize(
    ("out", "operands", "fields"),
    [
        ("f32[3,2]", ["f32[3,2]", "f32[2,3,2]"], {}),
        ("f32[3,2]", ["f32[3,2]", "f32[2,3,2]", "s64[]"], {}),
        ("f32[3,2]", ["f32[3,2]", "f32[2,3,2]", "s64[4]"], {}),
        ("f32[3,2]", ["f32[3,2]", "f32[2,3,2]", "s64[3,3]"], {}),
        ("f32[2,2]", ["f32[3,2]", "f32[2,3,2]", "s64[3]"], {}),
        ("f32[3]", ["f32[3,2]", "f32[2,3,2]", "s64[3]"], {}),
        ("f32[3,2]", ["f32[3,2]", "f32[2,3,2]", "s64[3]"], {"ragged": []}),
        ("f32[3,2]", ["f32[3,2]", "f32[2,3,2]", "s64[3]"], {"ragged": [-1]}),
        ("f32[3,2]", ["f32[3,2]", "f32[2,3,2]", "s64[3]"], {"ragged": [0, 1]}),
        ("f32[3,2]", ["f32[3,2]", "f32[2,3,2]", "s64[3]"], {"group": []}),
        ("f32[3,2]", ["f32[3,2]", "f32[2,3,2]", "s64[3]"], {"group": [0]}),
        ("f32[3,2]", ["f32[3,2]", "f32[2,3,2]", "s64[3]"], {"group": [5]}),
        ("f32[3,2]", ["f32[3,2]", "f32[2,3,2]", "s64[3]"], {"contracting": ([1], [])}),
    ],
)
def test_a_ragged_dot_that_does_not_fit(out: str, operands: list[str], fields: dict[str, Any]) -> None:
    root = ragged_dot(out, operands, **({"contracting": ([1], [0]), "group": [1]} | fields))
    with pytest.raises(InvalidModuleError, match=root.name):
        indexing.output_to_input(root)
    with pytest.raises(InvalidModuleError, match=root.name):
        indexing.input_to_output(root)


# -- ragged-all-to-all
# ------------------------------------------------------------------------------------------------------------

GROUPS = [(2, 0), (1, 3)]


def exchange(
    operand: str = "f32[3,2]",
    output: str = "f32[4,2]",
    offsets: str = "s32[4]",
    result: str | None = None,
    **fields: Any,
) -> HloInstruction:
    groups = {"replica_groups": [{"replica_ids": list(group)} for group in GROUPS]}
    return one_op("ragged-all-to-all", result or output, [operand, output, *[offsets] * 4], **(groups | fields))


def send(values: list[list[np.ndarray]]) -> list[np.ndarray]:
    """The results of all replicas: each sends slices of its operand to each replica of its group, two slices to
    each."""
    results = [np.array(one[1]) for one in values]
    for group in GROUPS:
        for sender in group:
            operand, _, input_offsets, send_sizes, output_offsets, _ = values[sender]
            for place, receiver in enumerate(group):
                for k in range(2 * place, 2 * place + 2):
                    for row in range(int(send_sizes[k])):
                        source, target = int(input_offsets[k]) + row, int(output_offsets[k]) + row
                        if source < len(operand) and target < len(results[receiver]):
                            results[receiver][target] = operand[source]
    return results


def test_ragged_all_to_all() -> None:
    root = exchange()
    rng = np.random.default_rng(0)
    read, written = indexing.output_to_input(root), [indexing.input_to_output(root, i)[0] for i in range(6)]
    expected: dict[tuple[int, int, tuple[int, ...]], set[tuple[int, tuple[int, ...]]]] = {}
    for _ in range(200):
        values = [
            [rng.random((3, 2)), rng.random((4, 2)), *(rng.integers(0, high, 4) for high in (3, 3, 4, 3))]
            for _ in range(4)
        ]
        before = send(values)
        for replica, number in itertools.product(range(4), range(6)):
            for at in np.ndindex(*values[replica][number].shape):
                changed = [list(one) for one in values]
                changed[replica][number] = np.array(values[replica][number])
                changed[replica][number][at] += 1
                for other, (a, b) in enumerate(zip(before, send(changed), strict=True)):
                    for place in np.argwhere(a != b):
                        key = (number, other, tuple(map(int, place)))
                        expected.setdefault(key, set()).add((replica, at))
    for number in range(6):
        for replica, index in itertools.product(range(4), np.ndindex(4, 2)):
            seen = expected.get((number, replica, index), set())
            named = named_by(read[number], index, replica)
            assert seen <= named
            # The sizes that a replica receives repeat what the others send, so a run need not look at them.
            assert named == seen or number == 5, (number, replica, index, named - seen)
        for replica, at in itertools.product(range(4), np.ndindex(*root.operands[number].shape.dimensions)):
            reached = {key[1:] for key, sources in expected.items() if key[0] == number and (replica, at) in sources}
            named = named_by(written[number], at, replica)
            assert reached <= named
            assert named == reached or number == 5


def named_by(
    found: indexing.OperandIndexingSet, index: tuple[int, ...], replica: int
) -> set[tuple[int, tuple[int, ...]]]:
    """(replica, element) pairs."""
    group = next(group for group in GROUPS if replica in group)
    named: set[tuple[int, tuple[int, ...]]] = set()
    for one in found:
        position = [group.index(replica) for _ in one.runtime]
        holders = {replica}
        if one.replica is not None:
            partners = one.replica.partners(replica)
            assert partners is not None
            places = itertools.product(*[range(v.bounds.upper + 1) for v in one.replica.map.ranges])
            holders = {partners[(one.replica.map.evaluate((*index, *s)) or (0,))[0]] for s in places}
        for ranges in itertools.product(*[range(v.bounds.upper + 1) for v in one.map.ranges]):
            element = one.map.evaluate((*index, *ranges, *position))
            if element is not None:
                named |= {(holder, element) for holder in holders}
    return named


def test_ragged_all_to_all_of_an_unknown_number_of_replicas() -> None:
    root = exchange(replica_groups=[])
    offsets = indexing.output_to_input(root)[2]
    assert str(offsets.map).startswith("(d0, d1)[s0] -> (s0), ")
    assert offsets.replica is not None
    assert offsets.replica.map.is_undefined
    assert len(indexing.input_to_output(root, 3)) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"offsets": "s32[3]"},
        {"offsets": "s32[]"},
        {"operand": "f32[3,3]"},
        {"operand": "f32[3]"},
        {"result": "f32[3,2]"},
        {"operand": "f32[]", "output": "f32[]"},
    ],
)
def test_a_ragged_all_to_all_that_does_not_fit(fields: dict[str, Any]) -> None:
    root = exchange(**fields)
    with pytest.raises(InvalidModuleError, match=root.name):
        indexing.output_to_input(root)
    with pytest.raises(InvalidModuleError, match=root.name):
        indexing.input_to_output(root)
