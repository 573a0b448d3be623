"""Maps to ancestors and of whole modules, and what does not fit."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hlo_builder import Builder, fused, offsets, one_op

from xlashape import indexing
from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.symbolic import IndexingMap


def test_ancestors() -> None:
    builder = Builder()
    p = builder.parameter("f32[4,8]")
    t = builder.op("transpose", "f32[8,4]", [p], dimensions=[1, 0])
    n = builder.op("negate", "f32[8,4]", [t])
    other = builder.op("reverse", "f32[8,4]", [t], dimensions=[0])
    builder.op("add", "f32[8,4]", [n, other])
    root = builder.root()
    p, t, n, other, root = root.computation.instructions
    found = indexing.output_to_ancestors(root)
    assert [one.name for one in found] == [one.name for one in (root, n, other, t, p)]
    assert len(found[t]) == len(found[p]) == 2
    assert indexing.output_to_ancestor(root, t) == found[t]
    assert indexing.output_to_ancestor(t, p) == indexing.output_to_input(t)[0]
    assert len(indexing.output_to_ancestor(n, other)) == 0
    assert indexing.output_to_ancestor(root, root).map == IndexingMap.identity([8, 4])
    with pytest.raises(InvalidArgumentError, match="different computations"):
        indexing.output_to_ancestor(root, one_op("negate", "f32[4]", ["f32[4]"]))


def test_a_module_at_once() -> None:
    builder = fused(offsets(Builder("f")), "f32[4]", ["f32[16]", "s32[]", "s32[]"])
    module = builder.module()
    found = list(indexing.module_indexing(module))
    assert [one.instruction for one in found] == [one for one in module.instructions() if one.operands]
    for instruction, output, operands in found:
        assert operands == indexing.output_to_input(instruction, output)


def test_operands_that_do_not_fit() -> None:
    bad = [
        one_op("broadcast", "f32[4]", ["f32[3]"], dimensions=[0]),
        one_op("broadcast", "f32[4]", ["f32[4]"], dimensions=[7]),
        one_op("broadcast", "f32[4]", ["f32[4]"], dimensions=[-1]),
        one_op("broadcast", "f32[4]", []),
        one_op("transpose", "f32[4,3]", ["f32[4,3]"], dimensions=[1, 0]),
        one_op("transpose", "f32[4,3]", ["f32[3,4]"], dimensions=[1, 1]),
        one_op("reshape", "f32[4]", ["f32[3]"]),
        one_op("reshape", "f32[0]", ["f32[3]"]),
        one_op("bitcast", "f32[4]", ["f32[3]"]),
        one_op("concatenate", "f32[4]", ["f32[3]"], dimensions=[0]),
        one_op("concatenate", "f32[4]", []),
        one_op("pad", "f32[4]", ["f32[4]", "f32[]"]),
        one_op("slice", "f32[4]", ["f32[4]"]),
        one_op("slice", "f32[4]", ["f32[4]"], slice_dimensions=[{"start": 0, "limit": 4, "stride": 0}]),
        one_op("dot", "f32[4]", ["f32[4]", "f32[4]"]),
        one_op("dot", "f32[4]", ["f32[4]"]),
        one_op("reduce", "f32[]", ["f32[4]"], dimensions=[0]),
        one_op("reduce", "f32[]", ["f32[4]", "f32[]"], dimensions=[1]),
        one_op("reduce-window", "f32[4]", ["f32[4]", "f32[]"]),
        one_op("convolution", "f32[4]", ["f32[4]", "f32[4]"]),
        one_op("gather", "f32[4]", ["f32[4]", "s32[4]"]),
        one_op("scatter", "f32[4]", ["f32[4]", "s32[4]", "f32[4]"]),
        one_op("dynamic-slice", "f32[5]", ["f32[4]", "s32[]"], dynamic_slice_sizes=[5]),
        one_op("dynamic-slice", "f32[3]", ["f32[4]"], dynamic_slice_sizes=[3]),
        one_op("dynamic-update-slice", "f32[3]", ["f32[3]"]),
        one_op("get-tuple-element", "f32[3]", ["(f32[3])"], tuple_index=1),
        one_op("get-tuple-element", "f32[3]", ["f32[3]"]),
        one_op("tuple", "(f32[3], f32[2])", ["f32[3]"]),
        one_op("add", "f32[3]", ["f32[3]", "f32[4]"]),
        one_op("add", "f32[3]", ["f32[3]", "(f32[3])"]),
        one_op("sort", "f32[3]", ["f32[3]"], dimensions=[1]),
        one_op("topk", "f32[3]", ["f32[3]"], k=7),
        one_op("fft", "c64[3]", ["c64[3]"], fft_length=[3, 3]),
        one_op("cholesky", "f32[3]", ["f32[3]"]),
        one_op("triangular-solve", "f32[3]", ["f32[3,3]", "f32[3]"]),
        one_op("batch-norm-training", "f32[3]", ["f32[3]"]),
        one_op("all-gather", "f32[3]", ["f32[2]"], dimensions=[0]),
        one_op("all-to-all", "f32[3]", ["f32[3]"], dimensions=[0], replica_groups=[{"replica_ids": [0, 1]}]),
        one_op("fusion", "f32[3]", ["f32[3]"]),
        one_op("while", "f32[3]", ["f32[3]"]),
        one_op("conditional", "f32[3]", ["pred[]", "f32[3]"]),
        one_op("async-start", "f32[3]", ["f32[3]"]),
        one_op("async-done", "f32[3]", ["f32[3]"]),
        one_op("copy-start", "f32[3]", ["f32[3]"]),
        one_op("select-and-scatter", "f32[3]", ["f32[3]", "f32[1]", "f32[]"]),
        one_op("bitcast-convert", "f32[3,4]", ["f32[4]"]),
        one_op("opt-barrier", "f32[3]", ["f32[4]"]),
        one_op("scaled-dot", "f32[]", ["f32[]", "f32[]", "f32[2]", "f32[]"]),
    ]  # fmt: skip
    for root in bad:
        with pytest.raises(InvalidModuleError, match=root.name):
            indexing.output_to_input(root)
        for operand in range(len(root.operands)):
            # The other direction looks at what it needs.
            with suppress(InvalidModuleError):
                indexing.input_to_output(root, operand)


def test_unbounded_sizes_are_unknown() -> None:
    root = one_op("reverse", "f32[?,3]", ["f32[?,3]"], dimensions=[0, 1])
    assert indexing.output_to_input(root)[0].map.is_undefined
    assert indexing.input_to_output(root)[0].map.is_undefined


def test_empty_arrays() -> None:
    for root in (
        one_op("transpose", "f32[8,0]", ["f32[0,8]"], dimensions=[1, 0]),
        one_op("reshape", "f32[2,0]", ["f32[0,8]"]),
        one_op("bitcast", "f32[2,0]", ["f32[0,8]"]),
        one_op("broadcast", "f32[2,0]", ["f32[2]"], dimensions=[0]),
    ):
        assert str(indexing.output_to_input(root)[0][0]) == "KNOWN EMPTY"
    read, start = indexing.output_to_input(one_op("reduce", "f32[8]", ["f32[0,8]", "f32[]"], dimensions=[0]))
    assert read.map.is_known_empty
    assert str(start.map) == "(d0) -> (), domain: d0 in [0, 7]"
