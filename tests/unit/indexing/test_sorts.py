"""Sorts of several arrays, run in NumPy: an array depends on itself and on those that the comparator reads."""

from __future__ import annotations

import numpy as np
import pytest
from dependence import compare, observed
from hlo_builder import Builder

from xlashape import indexing
from xlashape.errors import InvalidModuleError
from xlashape.hlo import HloInstruction


def comparator(count: int, reads: list[int]) -> Builder:
    """A comparator of the sums of some of the arrays."""
    body = Builder("less")
    pairs = [(body.parameter("f32[]"), body.parameter("f32[]")) for _ in range(count)]
    left, right = pairs[reads[0]]
    for number in reads[1:]:
        left = body.op("add", "f32[]", [left, pairs[number][0]])
        right = body.op("add", "f32[]", [right, pairs[number][1]])
    body.op("compare", "pred[]", [left, right], comparison_direction="LT")
    return body


def sort(count: int, calls: list[Builder]) -> HloInstruction:
    builder = Builder()
    operands = [builder.parameter("f32[2,3]") for _ in range(count)]
    shape = "f32[2,3]" if count == 1 else f"({', '.join(['f32[2,3]'] * count)})"
    builder.op("sort", shape, operands, calls=calls, dimensions=[1])
    return builder.root()


@pytest.mark.parametrize(("count", "reads"), [(1, [0]), (2, [0]), (2, [1]), (2, [0, 1]), (3, [2, 0])])
def test_what_the_comparator_reads_decides(count: int, reads: list[int]) -> None:
    root = sort(count, [comparator(count, reads)])

    def run(*arrays: np.ndarray) -> list[np.ndarray]:
        order = np.argsort(sum(arrays[i] for i in reads), axis=1, kind="stable")
        return [np.take_along_axis(array, order, 1) for array in arrays]

    rng = np.random.default_rng(0)
    draws = [[rng.random((2, 3)) for _ in range(count)] for _ in range(60)]
    compare(root, observed(run, draws, lambda _, old: [old + 0.7, old - 0.7]))
    for output in range(count):
        named = {i for i, one in enumerate(indexing.output_to_input(root, output)) if len(one)}
        assert named == {output, *reads}


def test_without_a_comparator_any_array_may_decide() -> None:
    root = sort(2, [])
    assert [[len(one) for one in indexing.output_to_input(root, i)] for i in range(2)] == [[1, 1], [1, 1]]
    assert [len(one) for one in indexing.input_to_output(root, 1)] == [1, 1]


def test_a_comparator_that_does_not_fit() -> None:
    two = comparator(1, [0])
    two.name = "more"
    pairs = Builder("pairs")
    for shape in ("(f32[], f32[])", "f32[]", "f32[]", "f32[]"):
        pairs.parameter(shape)
    pairs.op("compare", "pred[]", [1, 1], comparison_direction="LT")
    for calls in ([comparator(1, [0])], [comparator(3, [0])], [comparator(2, [0]), two], [pairs]):
        root = sort(2, calls)
        for ask in (indexing.output_to_input, indexing.input_to_output):
            with pytest.raises(InvalidModuleError, match=root.name):
                ask(root)
