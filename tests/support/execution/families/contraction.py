"""dot, scaled-dot, convolution."""

from __future__ import annotations

import math
import random
from typing import Any

from hlo_builder import window

from execution.case import Case, family, make, sizes, text
from execution.families.windows import one_window


def _dot(r: random.Random, most: int = 3) -> tuple[list[list[int]], list[int], dict[str, Any]]:
    """Random sizes of the two operands of a dot, the sizes of its result, and its dimension numbers."""
    batch, contract = sizes(r, 0, 2, most), sizes(r, 0, 2, most)
    sides = []
    for _ in range(2):
        free = sizes(r, 0, 1 if len(batch) > 1 else 2, most)
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
    return [a, b], batch + af + bf, numbers


@family(seeds=18)
def dot(r: random.Random, seed: int) -> Case:
    sides, out, numbers = _dot(r)
    while max(map(math.prod, sides)) > 24:
        sides, out, numbers = _dot(r)
    return make("dot", text("s64", out), [text("s64", side) for side in sides], dot_dimension_numbers=numbers)


@family(seeds=12, not_by_xla="StableHLO, in which XLA takes modules, does not have it")
def scaled_dot(r: random.Random, seed: int) -> Case:
    sides, out, numbers = _dot(r, 2)
    scales: list[list[int]] = []
    for side, dims in enumerate(sides):
        blocks = [1] * len(dims)
        for d in range(len(dims)):
            # Along any dimension but a batch dimension, one scale may hold for all elements.
            if r.random() < 0.5 and d not in numbers[("lhs", "rhs")[side] + "_batch_dimensions"]:
                blocks[d] = dims[d]
        scales.append([n // b for n, b in zip(dims, blocks, strict=True)] if r.random() < 0.8 else [])
    operands = [text("f64", dims) for dims in (*sides, *scales)]
    return make("scaled-dot", text("f64", out), operands, dot_dimension_numbers=numbers)


@family(seeds=22)
def convolution(r: random.Random, seed: int) -> Case:
    """Convolutions with strides, padding of both signs, dilations, reversed windows, groups of features or of batches,
    and dimensions in any order.
    """
    spatial = sizes(r, 0, 2, 5, 12)
    windows, out = zip(*[one_window(r, n) for n in spatial], strict=True) if spatial else ((), ())
    groups, batches = r.choice([(1, 1), (1, 1), (2, 1), (3, 1), (1, 2), (1, 3)])
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
    padded = any(w["low"] or w["high"] or w["base_dilation"] > 1 for w in windows)
    loose = {1: "as in XLA, the kernel's map does not say which of its elements meet padding alone"} if padded else {}
    return make(
        "convolution",
        text("s64", result),
        [text("s64", lhs), text("s64", rhs)],
        case={"loose": loose},
        window=window(*windows),
        convolution_dimension_numbers=numbers,
        feature_group_count=groups,
        batch_group_count=batches,
    )
