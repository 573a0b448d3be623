"""Maps between positions, judged by execution: a position in an operand's buffer is overwritten, and the maps must name
the positions that change.

Buffers are laid out and read by `pack` and `unpack`; padding between the elements is overwritten too, and must not
matter.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from evaluated import run
from execution.case import Case, integers, sizes, text
from execution.predicted import matrix
from hlo_builder import Builder

from xlashape import indexing
from xlashape.shape import Shape, tiling


def laid_out(r: random.Random, dims: list[int]) -> str:
    """An array with a random layout: an order of dimensions, and sometimes tiles."""
    layout = ",".join(map(str, r.sample(range(len(dims)), len(dims))))
    if dims and r.random() < 0.6:
        tiles = "".join(f"({','.join(str(r.randint(1, 3)) for _ in range(min(len(dims), 2)))})" for _ in range(1))
        if len(dims) > 1 and r.random() < 0.4:
            tiles += "(2,1)"
        layout += f":T{tiles}"
    return f"{text('s64', dims)}{{{layout}}}"


def transpose(r: random.Random, b: Builder) -> None:
    dims = sizes(r, 1, 3)
    order = r.sample(range(len(dims)), len(dims))
    b.op("transpose", laid_out(r, [dims[d] for d in order]), [b.parameter(laid_out(r, dims))], dimensions=order)


def reshape(r: random.Random, b: Builder) -> None:
    dims, out = r.choice([([4, 6], [3, 8]), ([2, 3, 4], [6, 4]), ([12], [2, 6]), ([5, 4], [2, 10])])
    b.op("reshape", laid_out(r, out), [b.parameter(laid_out(r, dims))])


def broadcast(r: random.Random, b: Builder) -> None:
    out = sizes(r, 1, 3, 3)
    keep = sorted(r.sample(range(len(out)), r.randint(0, len(out))))
    b.op("broadcast", laid_out(r, out), [b.parameter(laid_out(r, [out[d] for d in keep]))], dimensions=keep)


def slice_(r: random.Random, b: Builder) -> None:
    dims = sizes(r, 1, 2, 6)
    parts = [{"start": n // 3, "limit": n, "stride": r.randint(1, 2)} for n in dims]
    out = [-(-(p["limit"] - p["start"]) // p["stride"]) for p in parts]
    b.op("slice", laid_out(r, out), [b.parameter(laid_out(r, dims))], slice_dimensions=parts)


def reduce(r: random.Random, b: Builder) -> None:
    dims = sizes(r, 1, 3)
    axis = r.randrange(len(dims))
    out = [n for d, n in enumerate(dims) if d != axis]
    b.op("reduce", laid_out(r, out), [b.parameter(laid_out(r, dims)), b.parameter("s64[]")], dimensions=[axis])


def concatenate(r: random.Random, b: Builder) -> None:
    dims = sizes(r, 1, 2)
    axis = r.randrange(len(dims))
    parts = [[r.randint(1, 3) if d == axis else n for d, n in enumerate(dims)] for _ in range(2)]
    out = [sum(p[axis] for p in parts) if d == axis else n for d, n in enumerate(dims)]
    b.op("concatenate", laid_out(r, out), [b.parameter(laid_out(r, p)) for p in parts], dimensions=[axis])


def dot(r: random.Random, b: Builder) -> None:
    m, k, n = (r.randint(1, 4) for _ in range(3))
    numbers = {"lhs_contracting_dimensions": [1], "rhs_contracting_dimensions": [0]}
    sides = [b.parameter(laid_out(r, dims)) for dims in ([m, k], [k, n])]
    b.op("dot", laid_out(r, [m, n]), sides, dot_dimension_numbers=numbers)


def dynamic_slice(r: random.Random, b: Builder) -> None:
    dims = sizes(r, 1, 2, 5)
    out = [r.randint(1, n) for n in dims]
    source = b.parameter(laid_out(r, dims))
    offsets = [b.parameter("s32[]") for _ in dims]
    b.op("dynamic-slice", laid_out(r, out), [source, *offsets], dynamic_slice_sizes=out)


def bitcast(r: random.Random, b: Builder) -> None:
    dims, out = r.choice([([4, 6], [3, 8]), ([2, 3, 4], [6, 4]), ([12], [2, 6])])
    layouts = [",".join(map(str, r.sample(range(len(one)), len(one)))) for one in (dims, out)]
    b.op("bitcast", f"{text('s64', out)}{{{layouts[1]}}}", [b.parameter(f"{text('s64', dims)}{{{layouts[0]}}}")])


OPERATIONS = [transpose, reshape, broadcast, slice_, reduce, concatenate, dot, dynamic_slice, bitcast]


def buffer(shape: Shape, array: Any) -> np.ndarray:
    return tiling.pack(shape, np.asarray(array, dtype=np.int64)).view(np.int64)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_maps_between_positions_say_what_an_overwritten_place_does(
    operation: Callable[[random.Random, Builder], None],
) -> None:
    for seed in range(12):
        builder = Builder()
        operation(random.Random(f"{operation.__name__}/{seed}"), builder)
        case = Case(builder, {number: integers(-1, 4) for number in range(1, 4) if operation is dynamic_slice})
        root, rng = case.root, np.random.default_rng(seed)
        values = [arrays[0] for arrays in case.drawn(rng)]
        every = run(root.computation, list(values))
        before = buffer(root.shape, every[root])
        for number, read in enumerate(indexing.output_to_input_physical(root)):
            shape = root.operands[number].shape
            if shape.element_type.text != "s64":
                continue
            held = buffer(shape, values[number])
            assert len(held) == tiling.physical_elements(shape)
            seen = np.zeros((len(before), len(held)), dtype=bool)
            for position in range(len(held)):
                overwritten = np.array(held)
                overwritten[position] += 1 + 2 * position
                changed = list(values)
                changed[number] = np.asarray(tiling.unpack(shape, overwritten.view(np.uint8)))
                seen[:, position] = buffer(root.shape, run(root.computation, changed)[root]) != before
            named, outside = matrix(read, (len(before),), (len(held),), every)
            assert not outside
            assert np.array_equal(named, seen), f"{root.shape} of {shape}: {read}"
