"""Truth by execution: operations are run with NumPy, and the maps must say which input elements each output element depends on.

Every element of an input is changed on its own; the outputs that change are those it takes part in. Where what is read depends on values (sort,
the largest below a window), the maps must name at least what was seen.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hlo_builder import Builder, window
from map_enumeration import elements
from numpy_interpreter import leaves, run

from xlashape import indexing
from xlashape.hlo import HloInstruction

Case = tuple[HloInstruction, dict[int, np.ndarray], set[int]]
"""The root, values of the integral operands by number, and the operands of which maps may name more than one run shows."""


def text(kind: str, dims: Any) -> str:
    return f"{kind}[{','.join(map(str, dims))}]"


def make(
    opcode: str, shape: str, operands: list[str], values: dict[int, Any] | None = None, loose: Any = (), **fields: Any
) -> Case:
    builder = Builder()
    numbers = [builder.parameter(operand) for operand in operands]
    builder.op(opcode, shape, numbers, **fields)
    root = builder.root()
    return root, {k: np.asarray(v) for k, v in (values or {}).items()}, set(loose)


def sizes(r: random.Random, low: int = 1, high: int = 3, most: int = 4) -> list[int]:
    return [r.randint(1, most) for _ in range(r.randint(low, high))]


def elementwise(r: random.Random) -> Case:
    dims = sizes(r, 0)
    if r.random() < 0.5:
        return make("add", text("f32", dims), [text("f32", dims)] * 2)
    scalar = text("pred", [])
    return make(
        "select",
        text("f32", dims),
        [scalar, text("f32", dims), text("f32", dims)],
        {0: r.choice([0, 1])},
        loose=[0, 1, 2],
    )


def broadcast(r: random.Random) -> Case:
    out = sizes(r)
    keep = sorted(r.sample(range(len(out)), r.randint(0, len(out))))
    return make("broadcast", text("f32", out), [text("f32", [out[d] for d in keep])], dimensions=keep)


def transpose(r: random.Random) -> Case:
    dims = sizes(r)
    order = r.sample(range(len(dims)), len(dims))
    return make("transpose", text("f32", [dims[d] for d in order]), [text("f32", dims)], dimensions=order)


def reshape(r: random.Random) -> Case:
    dims, out = r.choice(
        [
            ([4, 6], [3, 8]),
            ([2, 3, 4], [4, 6]),
            ([12], [2, 1, 6]),
            ([1, 1], []),
            ([6, 1, 2], [2, 2, 3]),
            ([5, 4], [5, 2, 2]),
        ]
    )
    return make("reshape", text("f32", out), [text("f32", dims)])


def reverse(r: random.Random) -> Case:
    dims = sizes(r)
    return make(
        "reverse",
        text("f32", dims),
        [text("f32", dims)],
        dimensions=r.sample(range(len(dims)), r.randint(0, len(dims))),
    )


def slice_(r: random.Random) -> Case:
    dims = sizes(r, most=7)
    parts = []
    for n in dims:
        start = r.randint(0, n)
        limit = r.randint(start, n)
        parts.append({"start": start, "limit": limit, "stride": r.randint(1, 3)})
    out = [-(-(p["limit"] - p["start"]) // p["stride"]) for p in parts]
    return make("slice", text("f32", out), [text("f32", dims)], slice_dimensions=parts)


def pad(r: random.Random) -> Case:
    dims = sizes(r, high=2)
    config, out = [], []
    for n in dims:
        interior = r.randint(0, 2)
        inner = n + (n - 1) * interior
        low = r.randint(-min(2, inner), 3)
        high = r.randint(max(-2, -inner - low), 3)
        config.append({"edge_padding_low": low, "edge_padding_high": high, "interior_padding": interior})
        out.append(inner + low + high)
    return make("pad", text("f32", out), [text("f32", dims), "f32[]"], loose=[1], padding_config={"dimensions": config})


def concatenate(r: random.Random) -> Case:
    dims = sizes(r)
    axis = r.randrange(len(dims))
    parts = [[r.randint(0, 3) if d == axis else n for d, n in enumerate(dims)] for _ in range(r.randint(1, 3))]
    out = [sum(p[axis] for p in parts) if d == axis else n for d, n in enumerate(dims)]
    return make("concatenate", text("f32", out), [text("f32", p) for p in parts], dimensions=[axis])


def reduce(r: random.Random) -> Case:
    dims = sizes(r)
    over = r.sample(range(len(dims)), r.randint(0, len(dims)))
    return make(
        "reduce",
        text("f32", [n for d, n in enumerate(dims) if d not in over]),
        [text("f32", dims), "f32[]"],
        dimensions=over,
    )


def dot(r: random.Random) -> Case:
    batch, contract = sizes(r, 0, 1, 3), sizes(r, 0, 2, 3)
    sides = []
    for _ in range(2):
        free = sizes(r, 0, 1, 3)
        items = (
            [("b", i, n) for i, n in enumerate(batch)]
            + [("c", i, n) for i, n in enumerate(contract)]
            + [("f", i, n) for i, n in enumerate(free)]
        )
        r.shuffle(items)
        at = {(k, i): p for p, (k, i, _) in enumerate(items)}
        sides.append(
            (
                [n for *_, n in items],
                [at["b", i] for i in range(len(batch))],
                [at["c", i] for i in range(len(contract))],
                [n for k, _, n in items if k == "f"],
            )
        )
    (a, ab, ac, af), (b, bb, bc, bf) = sides
    numbers = {
        "lhs_batch_dimensions": ab,
        "rhs_batch_dimensions": bb,
        "lhs_contracting_dimensions": ac,
        "rhs_contracting_dimensions": bc,
    }
    return make("dot", text("f32", batch + af + bf), [text("f32", a), text("f32", b)], dot_dimension_numbers=numbers)


def one_window(r: random.Random, n: int, dilate: bool = True) -> tuple[dict[str, int], int]:
    while True:
        w = {"size": r.randint(1, 3), "stride": r.randint(1, 3), "low": r.randint(-1, 2), "high": r.randint(-1, 2)}
        w |= (
            {"window_dilation": r.randint(1, 2), "base_dilation": r.randint(1, 2), "reversal": r.randint(0, 1)}
            if dilate
            else {}
        )
        span = (n - 1) * w.get("base_dilation", 1) + 1 + w["low"] + w["high"]
        reach = (w["size"] - 1) * w.get("window_dilation", 1) + 1
        if span >= reach:
            return w, (span - reach) // w["stride"] + 1


def reduce_window(r: random.Random) -> Case:
    dims = sizes(r, high=2, most=5)
    windows, out = zip(*[one_window(r, n) for n in dims], strict=True)
    for w in windows:
        w["reversal"] = 0
    return make("reduce-window", text("f32", out), [text("f32", dims), "f32[]"], window=window(*windows))


def cumulative_sum(r: random.Random) -> Case:
    n = r.randint(1, 6)
    return make(
        "reduce-window", f"f32[{n},2]", [f"f32[{n},2]", "f32[]"], window=window({"size": n, "low": n - 1}, {"size": 1})
    )


def select_and_scatter(r: random.Random) -> Case:
    dims = sizes(r, high=2, most=5)
    windows, out = zip(*[one_window(r, n, dilate=False) for n in dims], strict=True)
    return make(
        "select-and-scatter",
        text("f32", dims),
        [text("f32", dims), text("f32", out), "f32[]"],
        loose=[0, 1],
        window=window(*windows),
    )


def convolution(r: random.Random) -> Case:
    spatial = [r.randint(2, 5) for _ in range(r.randint(0, 1 if r.random() < 0.8 else 2))]
    windows, out = zip(*[one_window(r, n) for n in spatial], strict=True) if spatial else ((), ())
    groups, batches = r.choice([(1, 1), (1, 1), (2, 1), (1, 2)])
    channels, features, batch = r.randint(1, 2), r.randint(1, 2) * groups * batches, r.randint(1, 2)
    rank = len(spatial) + 2
    orders = [r.sample(range(rank), rank) for _ in range(3)]

    def placed(order: list[int], parts: list[int]) -> list[int]:
        dims = [0] * rank
        for at, n in zip(order, parts, strict=True):
            dims[at] = n
        return dims

    lhs = placed(orders[0], [batch * batches, channels * groups, *spatial])
    rhs = placed(orders[1], [channels, features, *[w["size"] for w in windows]])
    result = placed(orders[2], [batch, features, *out])
    numbers = {
        "input_batch_dimension": orders[0][0],
        "input_feature_dimension": orders[0][1],
        "input_spatial_dimensions": orders[0][2:],
        "kernel_input_feature_dimension": orders[1][0],
        "kernel_output_feature_dimension": orders[1][1],
        "kernel_spatial_dimensions": orders[1][2:],
        "output_batch_dimension": orders[2][0],
        "output_feature_dimension": orders[2][1],
        "output_spatial_dimensions": orders[2][2:],
    }
    return make(
        "convolution",
        text("f32", result),
        [text("f32", lhs), text("f32", rhs)],
        # XLA's map of the kernel, and so ours, does not say which of its elements meet padding alone.
        loose=[1],
        window=window(*windows),
        convolution_dimension_numbers=numbers,
        feature_group_count=groups,
        batch_group_count=batches,
    )


def dynamic_slice(r: random.Random) -> Case:
    dims = sizes(r, most=5)
    out = [r.randint(1, n) for n in dims]
    offsets = {i + 1: r.randint(-2, 6) for i in range(len(dims))}
    return make(
        "dynamic-slice", text("f32", out), [text("f32", dims), *["s32[]"] * len(dims)], offsets, dynamic_slice_sizes=out
    )


def dynamic_update_slice(r: random.Random) -> Case:
    dims = sizes(r, most=5)
    update = [r.randint(1, n) for n in dims]
    offsets = {i + 2: r.randint(-2, 6) for i in range(len(dims))}
    return make(
        "dynamic-update-slice",
        text("f32", dims),
        [text("f32", dims), text("f32", update), *["s32[]"] * len(dims)],
        offsets,
        loose=[0],
    )


def indexed(r: random.Random) -> dict[str, Any]:
    """A gather's or scatter's dimension numbers over random sizes."""
    operand = sizes(r, 1, 3, 4)
    rank = len(operand)
    batch_count = r.choice([0, 0, 1]) if rank > 1 else 0
    dims = r.sample(range(rank), rank)
    batching = dims[:batch_count]
    mapped = r.sample(dims[batch_count:], r.randint(0, rank - batch_count))
    collapsed = sorted(r.sample(mapped, r.randint(0, len(mapped))))
    sizes_ = [1 if d in collapsed or d in batching else r.randint(1, operand[d]) for d in range(rank)]
    free = [r.randint(1, 3) for _ in range(r.randint(0, 2))]
    index_dims = [*[operand[d] for d in batching], *free]
    order = r.sample(range(len(index_dims)), len(index_dims))
    index_dims = [index_dims[i] for i in order]
    index_batching = [order.index(i) for i in range(batch_count)]
    vector_dim = r.randint(0, len(index_dims))
    indices = [*index_dims[:vector_dim], len(mapped), *index_dims[vector_dim:]]
    index_batching = [i + (i >= vector_dim) for i in index_batching]
    if len(mapped) == 1 and r.random() < 0.3:
        indices, vector_dim = index_dims, len(index_dims)
        index_batching = [order.index(i) for i in range(batch_count)]
    kept = [sizes_[d] for d in range(rank) if d not in collapsed and d not in batching]
    out_rank = len(kept) + len(index_dims)
    window_dims = sorted(r.sample(range(out_rank), len(kept)))
    rest, inside = iter(index_dims), iter(kept)
    out = [next(inside) if d in window_dims else next(rest) for d in range(out_rank)]
    values = np.array([r.randint(-1, 4) for _ in range(int(np.prod(indices)))]).reshape(indices)
    return locals()


def gather(r: random.Random) -> Case:
    c = indexed(r)
    numbers = {
        "offset_dims": c["window_dims"],
        "collapsed_slice_dims": c["collapsed"],
        "start_index_map": c["mapped"],
        "index_vector_dim": c["vector_dim"],
        "operand_batching_dims": c["batching"],
        "start_indices_batching_dims": c["index_batching"],
    }
    return make(
        "gather",
        text("f32", c["out"]),
        [text("f32", c["operand"]), text("s32", c["indices"])],
        {1: c["values"]},
        gather_dimension_numbers=numbers,
        gather_slice_sizes=c["sizes_"],
    )


def scatter(r: random.Random) -> Case:
    c = indexed(r)
    numbers = {
        "update_window_dims": c["window_dims"],
        "inserted_window_dims": c["collapsed"],
        "scatter_dims_to_operand_dims": c["mapped"],
        "index_vector_dim": c["vector_dim"],
        "input_batching_dims": c["batching"],
        "scatter_indices_batching_dims": c["index_batching"],
    }
    operands = [text("f32", c["operand"]), text("s32", c["indices"]), text("f32", c["out"])]
    # An index that can only be 0 is taken to be 0: simplified maps do not mention it.
    for k, d in enumerate(c["mapped"]):
        if c["sizes_"][d] == c["operand"][d]:
            if c["vector_dim"] < len(c["indices"]):
                c["values"][(slice(None),) * c["vector_dim"] + (k,)] = 0
            else:
                c["values"][...] = 0
    return make("scatter", operands[0], operands, {1: c["values"]}, scatter_dimension_numbers=numbers)


def sort(r: random.Random) -> Case:
    dims = sizes(r)
    return make("sort", text("f32", dims), [text("f32", dims)], loose=[0], dimensions=[r.randrange(len(dims))])


def fft(r: random.Random) -> Case:
    dims = sizes(r, 1, 3, 3)
    count = r.randint(1, len(dims))
    return make("fft", text("c64", dims), [text("c64", dims)], fft_length=dims[-count:])


def cholesky(r: random.Random) -> Case:
    n = r.randint(1, 4)
    dims = [*sizes(r, 0, 1, 2), n, n]
    return make(
        "cholesky", text("f32", dims), [text("f32", dims)], loose=[0], cholesky_options={"lower": r.random() < 0.5}
    )


def triangular_solve(r: random.Random) -> Case:
    n, m, left = r.randint(1, 4), r.randint(1, 3), r.random() < 0.5
    batch = sizes(r, 0, 1, 2)
    options = {
        "left_side": left,
        "lower": r.random() < 0.5,
        "unit_diagonal": r.random() < 0.5,
        "transpose_a": r.choice([1, 2]),
    }
    b = text("f32", [*batch, n, m] if left else [*batch, m, n])
    return make("triangular-solve", b, [text("f32", [*batch, n, n]), b], triangular_solve_options=options)


def batch_norm_training(r: random.Random) -> Case:
    dims = [r.randint(2, 3) for _ in range(r.randint(2, 3))]
    feature = r.randrange(len(dims))
    one = text("f32", [dims[feature]])
    return make(
        "batch-norm-training",
        f"({text('f32', dims)}, {one}, {one})",
        [text("f32", dims), one, one],
        loose=[0],
        feature_index=feature,
    )


def batch_norm_inference(r: random.Random) -> Case:
    dims = sizes(r, 1, 3, 3)
    feature = r.randrange(len(dims))
    one = text("f32", [dims[feature]])
    return make("batch-norm-inference", text("f32", dims), [text("f32", dims), *[one] * 4], feature_index=feature)


def steps(builder: Builder, r: random.Random, at: int, dims: list[int], zero: int, count: int) -> tuple[int, list[int]]:
    """A chain of random operations, now and then with a second branch."""
    for _ in range(count):
        kind = r.choice(
            [
                "negate",
                "transpose",
                "reshape",
                "reverse",
                "slice",
                "broadcast",
                "pad",
                "reduce",
                "branch",
                "concatenate",
                "window",
            ]
        )
        if kind == "negate":
            at = builder.op("negate", text("f32", dims), [at])
        elif kind == "transpose":
            order = r.sample(range(len(dims)), len(dims))
            dims = [dims[d] for d in order]
            at = builder.op("transpose", text("f32", dims), [at], dimensions=order)
        elif kind == "reshape":
            total = int(np.prod(dims))
            first = r.choice([k for k in range(1, total + 1) if total % k == 0])
            dims = [first, total // first]
            at = builder.op("reshape", text("f32", dims), [at])
        elif kind == "reverse" and dims:
            at = builder.op("reverse", text("f32", dims), [at], dimensions=[r.randrange(len(dims))])
        elif kind == "slice":
            parts = []
            for n in dims:
                start = r.randint(0, n - 1)
                parts.append({"start": start, "limit": r.randint(start + 1, n), "stride": r.randint(1, 2)})
            dims = [-(-(p["limit"] - p["start"]) // p["stride"]) for p in parts]
            at = builder.op("slice", text("f32", dims), [at], slice_dimensions=parts)
        elif kind == "broadcast" and len(dims) < 3:
            place = r.randint(0, len(dims))
            keep = [d + (d >= place) for d in range(len(dims))]
            dims = [*dims[:place], 2, *dims[place:]]
            at = builder.op("broadcast", text("f32", dims), [at], dimensions=keep)
        elif kind == "pad" and dims:
            config = [
                {
                    "edge_padding_low": r.randint(-1, 1) if n > 2 else 1,
                    "edge_padding_high": r.randint(0, 1),
                    "interior_padding": r.randint(0, 1),
                }
                for n in dims
            ]
            dims = [
                n + (n - 1) * c["interior_padding"] + c["edge_padding_low"] + c["edge_padding_high"]
                for n, c in zip(dims, config, strict=True)
            ]
            at = builder.op("pad", text("f32", dims), [at, zero], padding_config={"dimensions": config})
        elif kind == "reduce" and dims:
            axis = r.randrange(len(dims))
            dims = [n for d, n in enumerate(dims) if d != axis]
            at = builder.op("reduce", text("f32", dims), [at, zero], dimensions=[axis])
        elif kind == "window" and len(dims) == 1:
            w, n = one_window(r, dims[0])
            dims = [n]
            at = builder.op("reduce-window", text("f32", dims), [at, zero], window=window(w | {"reversal": 0}))
        elif kind == "concatenate" and dims and dims[0] < 5:
            other = builder.op("reverse", text("f32", dims), [at], dimensions=[0])
            dims = [2 * dims[0], *dims[1:]]
            at = builder.op("concatenate", text("f32", dims), [at, other], dimensions=[0])
        elif kind == "branch":
            other = builder.op("exponential", text("f32", dims), [at])
            if dims and r.random() < 0.5:
                other = builder.op("reverse", text("f32", dims), [other], dimensions=[r.randrange(len(dims))])
            at = builder.op("add", text("f32", dims), [at, other])
    return at, dims


def fusion(r: random.Random) -> Case:
    dims = sizes(r, 1, 2, 4)
    inner = Builder("fused")
    at, out = steps(inner, r, inner.parameter(text("f32", dims)), list(dims), inner.parameter("f32[]"), r.randint(2, 6))
    inner.op("copy", text("f32", out), [at])
    builder = Builder()
    operands = [builder.parameter(text("f32", dims)), builder.parameter("f32[]")]
    # Initial and padding values count everywhere, and an element that padding cut off takes part in nothing.
    builder.op("fusion", text("f32", out), operands, calls=[inner])
    return builder.root(), {}, {1}


FAMILIES: dict[str, Callable[[random.Random], Case]] = {
    f.__name__.strip("_"): f
    for f in (
        elementwise, broadcast, transpose, reshape, reverse, slice_, pad, concatenate, reduce, dot, reduce_window, cumulative_sum, select_and_scatter,
        convolution, dynamic_slice, dynamic_update_slice, gather, scatter, sort, fft, cholesky, triangular_solve, batch_norm_training,
        batch_norm_inference, fusion,
    )
}  # fmt: skip


def values_of(root: HloInstruction, fixed: dict[int, np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
    values = []
    for number, parameter in enumerate(root.computation.parameters):
        dims = parameter.shape.dimensions
        if number in fixed:
            values.append(np.asarray(fixed[number]))
        else:
            values.append(
                np.asarray(rng.permutation(int(np.prod(dims))) + rng.random(int(np.prod(dims)))).reshape(dims) + 0.5
            )
    return values


def seen(
    root: HloInstruction, values: list[np.ndarray], number: int, rng: np.random.Generator
) -> list[dict[tuple[int, ...], set[tuple[int, ...]]]]:
    """For every output leaf: which elements of parameter `number` each output element was seen to depend on."""
    before = leaves(run(root.computation, values)[root])
    found: list[dict[tuple[int, ...], set[tuple[int, ...]]]] = [{} for _ in before]
    for at in np.ndindex(*values[number].shape):
        changed = list(values)
        changed[number] = np.array(values[number])
        changed[number][at] += 0.1 + rng.random()
        for leaf, (old, new) in enumerate(zip(before, leaves(run(root.computation, changed)[root]), strict=True)):
            for place in np.argwhere(~np.isclose(old, new, rtol=1e-9, atol=1e-9)):
                found[leaf].setdefault(tuple(int(i) for i in place), set()).add(at)
    return found


def check(case: Case, seed: int) -> None:
    root, fixed, loose = case
    rng = np.random.default_rng(seed)
    values = values_of(root, fixed, rng)
    every = run(root.computation, values)
    outputs = leaves(every[root])
    read = [indexing.output_to_input(root, leaf) for leaf in range(len(outputs))]
    for number, operand in enumerate(root.operands):
        dims = operand.shape.dimensions
        written = indexing.input_to_output(root, number)
        assert len(written) == len(outputs)
        if number in fixed:
            continue
        observed = seen(root, values, number, rng)
        for leaf, out in enumerate(outputs):
            backwards: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
            for index in np.ndindex(*out.shape):
                expected = observed[leaf].get(index, set())
                for form in (read[leaf][number], read[leaf][number].simplify()):
                    named = {e for one in form for e in elements(one, index, every)}
                    inside = {e for e in named if all(0 <= i < n for i, n in zip(e, dims, strict=True))}
                    # A dynamic-update-slice's map names no element of the update where it leads outside.
                    assert named == inside or root.opcode == "dynamic-update-slice", (str(form), index, named)
                    assert expected <= inside, (str(form), index, expected - inside)
                    assert number in loose or expected == inside, (str(form), index, inside - expected)
                for e in expected:
                    backwards.setdefault(e, set()).add(index)
            for index in np.ndindex(*dims):
                expected = backwards.get(index, set())
                for form in (written[leaf], written[leaf].simplify()):
                    named = {e for one in form for e in elements(one, index, every)}
                    assert all(0 <= i < n for e in named for i, n in zip(e, out.shape, strict=True)), (str(form), index)
                    assert expected <= named, (str(form), index, expected - named)
                    assert number in loose or expected == named, (str(form), index, named - expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_maps_say_what_execution_shows(family: str) -> None:
    for seed in range(40 if family == "fusion" else 14):
        check(FAMILIES[family](random.Random(f"{family}/{seed}")), seed)
