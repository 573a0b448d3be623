"""reduce, sort, topk, batch-norm."""

from __future__ import annotations

import random

from hlo_builder import Builder

from execution.case import Case, binary, comparison, family, make, mixing, sizes, text, uniform

INITIAL = "an initial value is meant to change nothing, so that folding it in may be left out"


@family(seeds=16)
def reduce(r: random.Random, seed: int) -> Case:
    dims = sizes(r, 0)
    over = r.sample(range(len(dims)), r.randint(0, len(dims)))
    out = text("s64", [n for d, n in enumerate(dims) if d not in over])
    fields = {"dimensions": over, "calls": [binary("add", "s64")]}
    return make("reduce", out, [text("s64", dims), "s64[]"], case={"optional": {1: INITIAL}}, **fields)


@family(seeds=12)
def reduce_of_several(r: random.Random, seed: int) -> Case:
    dims = sizes(r)
    over = r.sample(range(len(dims)), r.randint(1, len(dims)))
    out = text("s64", [n for d, n in enumerate(dims) if d not in over])
    operands = [text("s64", dims)] * 2 + ["s64[]"] * 2
    case = {"optional": {2: INITIAL, 3: INITIAL}}
    return make("reduce", f"({out}, {out})", operands, dimensions=over, calls=[mixing("s64")], case=case)


@family(seeds=10)
def reduce_to_the_largest(r: random.Random, seed: int) -> Case:
    """Reduces with the maximum. On which element the result depends varies with the values: any may be the largest."""
    dims = sizes(r, 1, 2, 3)
    over = r.sample(range(len(dims)), r.randint(0, len(dims)))
    out = text("s64", [n for d, n in enumerate(dims) if d not in over])
    case = {"union": frozenset({0, 1}), "draws": 40, "optional": {1: INITIAL}}
    operands = [text("s64", dims), "s64[]"]
    return make("reduce", out, operands, dimensions=over, calls=[binary("maximum", "s64")], case=case)


@family(seeds=12)
def sort(r: random.Random, seed: int) -> Case:
    dims = sizes(r, 1, 2)
    case = {"union": frozenset({0}), "draws": 24}
    fields = {"dimensions": [r.randrange(len(dims))], "calls": [comparison("LT", "s64")], "is_stable": True}
    return make("sort", text("s64", dims), [text("s64", dims)], case=case, **fields)


def _by_sums() -> Builder:
    inner = Builder("by_sums")
    a, b, c, d = (inner.parameter("s64[]") for _ in range(4))
    sums = [inner.op("add", "s64[]", [a, c]), inner.op("add", "s64[]", [b, d])]
    inner.op("compare", "pred[]", sums, comparison_direction="LT")
    return inner


@family(seeds=8)
def sort_of_several(r: random.Random, seed: int) -> Case:
    """Sorts two arrays by the sums of their elements, so that each array decides the order of the other."""
    dims = sizes(r, 1, 2, 3, 6)
    axis = r.randrange(len(dims))
    dims[axis] = max(2, dims[axis])
    one = text("s64", dims)
    case = {"union": frozenset({0, 1}), "draws": 30}
    fields = {"dimensions": [axis], "calls": [_by_sums()], "is_stable": True}
    return make("sort", f"({one}, {one})", [one, one], case=case, **fields)


@family(seeds=10)
def topk(r: random.Random, seed: int) -> Case:
    dims = sizes(r, 1, 2, 3)
    k = r.randint(1, dims[-1])
    shape = f"({text('f32', [*dims[:-1], k])}, {text('s32', [*dims[:-1], k])})"
    loose = {0: "the index of the only element is known"} if dims[-1] == 1 else {}
    case = {"union": frozenset({0}), "draws": 24, "loose": loose}
    return make("topk", shape, [text("f32", dims)], case=case, k=k, largest=True)


def _features(r: random.Random) -> tuple[list[int], int, str, str]:
    dims = [r.randint(2, 3) for _ in range(r.randint(2, 3))]
    feature = r.randrange(len(dims))
    return dims, feature, text("f64", dims), text("f64", [dims[feature]])


EPSILON = 0.125


@family(seeds=6)
def batch_norm_training(r: random.Random, seed: int) -> Case:
    _, feature, full, one = _features(r)
    fields = {"feature_index": feature, "epsilon": EPSILON}
    return make("batch-norm-training", f"({full}, {one}, {one})", [full, one, one], **fields)


@family(seeds=6)
def batch_norm_inference(r: random.Random, seed: int) -> Case:
    _, feature, full, one = _features(r)
    fields = {"feature_index": feature, "epsilon": EPSILON}
    return make("batch-norm-inference", full, [full, one, one, one, one], **fields)


@family(seeds=6)
def batch_norm_grad(r: random.Random, seed: int) -> Case:
    _, feature, full, one = _features(r)
    fields = {"feature_index": feature, "epsilon": EPSILON}
    # The mean is far from the elements, so that no factor in the gradient is close to 0.
    case = {"domains": {2: uniform(-3, -2)}}
    return make("batch-norm-grad", f"({full}, {one}, {one})", [full, one, one, one, full], case=case, **fields)
