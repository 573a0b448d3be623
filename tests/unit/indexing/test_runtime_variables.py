"""Runtime variables through computations: the right producers in the right order, judged with real offsets."""

from __future__ import annotations

import random

import numpy as np
import pytest
from evaluated import leaves, run
from hlo_builder import Builder, fused, offsets
from map_enumeration import elements

from xlashape import indexing


def test_producers_are_in_the_order_of_their_variables() -> None:
    root = fused(offsets(Builder("f")), "f32[4]", ["f32[16]", "s32[]", "s32[]"]).root()
    source, *_ = indexing.output_to_input(root)
    assert [str(one.map) for one in source] == [
        "(d0){rt0, rt1} -> (d0 + rt0 + rt1), domain: d0 in [0, 3], rt0 in [0, 8], rt1 in [0, 4]"
    ] * 2
    _, i, j = root.called_computations[0].parameters
    assert {tuple(producer.instruction for producer in one.runtime) for one in source} == {(i, j), (i, i)}
    # rt0 is the offset of the first slice taken, whose room is 8.
    assert all(one.runtime[0].instruction is i for one in source)


@pytest.mark.parametrize("seed", range(12))
def test_real_offsets_find_the_elements(seed: int) -> None:
    """Nested slices, updates and gathers, run with NumPy on distinct numbers."""
    r = random.Random(seed)
    builder = Builder()
    source = builder.parameter("f32[6,5]")
    offsets = [builder.parameter("s32[]") for _ in range(4)]
    indices = builder.parameter("s32[4,2]")
    zero = builder.constant("s32[]", [0])
    at, dims = source, [6, 5]
    for _ in range(r.randint(2, 4)):
        kind = r.choice(["slice", "gather", "transpose", "reverse", "iota"])
        text = ",".join(map(str, dims))
        if kind == "slice":
            sizes = [r.randint(1, n) for n in dims]
            starts = [r.choice([*offsets, zero]) for _ in dims]
            at = builder.op(
                "dynamic-slice", f"f32[{','.join(map(str, sizes))}]", [at, *starts], dynamic_slice_sizes=sizes
            )
            dims = sizes
        elif kind == "gather" and len(dims) == 2:
            sizes = [1, r.randint(1, dims[1])]
            out = [4, sizes[1]]
            numbers = {
                "offset_dims": [1],
                "collapsed_slice_dims": [0],
                "start_index_map": [0, 1],
                "index_vector_dim": 1,
            }
            shape = f"f32[{out[0]},{out[1]}]"
            at = builder.op("gather", shape, [at, indices], gather_dimension_numbers=numbers, gather_slice_sizes=sizes)
            dims = out
        elif kind == "iota" and len(dims) == 2:
            counted = builder.op("iota", "s32[3,1]", iota_dimension := [], dimensions=[0])
            del iota_dimension
            numbers = {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 1}
            at = builder.op(
                "gather",
                f"f32[3,{dims[1]}]",
                [at, counted],
                gather_dimension_numbers=numbers,
                gather_slice_sizes=[1, dims[1]],
            )
            dims = [3, dims[1]]
        elif kind == "transpose":
            at = builder.op("transpose", f"f32[{','.join(map(str, dims[::-1]))}]", [at], dimensions=[1, 0])
            dims = dims[::-1]
        else:
            at = builder.op("reverse", f"f32[{text}]", [at], dimensions=[0])
    root = builder.root()
    values = [
        np.arange(30.0).reshape(6, 5),
        *[np.array(r.randint(-1, 6)) for _ in offsets],
        np.array([[r.randint(-1, 5) for _ in range(2)] for _ in range(4)]),
    ]
    every = run(root.computation, values)
    found = indexing.output_to_ancestor(root, root.computation.parameters[0])
    result = leaves(every[root])[0]
    for index in np.ndindex(*result.shape):
        named = {element for one in found for element in elements(one, index, every)}
        assert named == {tuple(int(i) for i in np.argwhere(values[0] == result[index])[0])}, (str(found), index)


def test_a_reduction_over_a_gather_keeps_the_range_that_its_producer_needs() -> None:
    builder = Builder()
    source, indices = builder.parameter("f32[9]"), builder.parameter("s32[5,3]")
    numbers = {"offset_dims": [], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 2}
    rows = builder.op("gather", "f32[5,3]", [source, indices], gather_dimension_numbers=numbers, gather_slice_sizes=[1])
    builder.op("reduce", "f32[5]", [rows, builder.op("constant", "f32[]")], dimensions=[1])
    root = builder.root()
    one = indexing.output_to_ancestor(root, root.computation.parameters[0])
    assert str(one.map) == "(d0)[s0]{rt0} -> (rt0), domain: d0 in [0, 4], s0 in [0, 2], rt0 in [0, 8]"
    (producer,) = one.runtime
    assert str(producer.map) == "(d0)[s0] -> (d0, s0), domain: d0 in [0, 4], s0 in [0, 2]"
    assert one.simplify() == one
