"""Windows: reduce-window with all attributes, cumulative sums, select-and-scatter."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hlo_builder import window

from execution.case import Case, binary, comparison, family, make, mixing, sizes, text
from execution.families.reduction import INITIAL


def one_window(r: random.Random, n: int, dilate: bool = True) -> tuple[dict[str, int], int]:
    """A random window along a dimension of n elements, and the size of the output."""
    while True:
        w = {"size": r.randint(1, 3), "stride": r.randint(1, 3), "low": r.randint(-1, 2), "high": r.randint(-1, 2)}
        w |= {"window_dilation": 1, "base_dilation": 1, "reversal": 0}
        if dilate:
            w |= {"window_dilation": r.randint(1, 2), "base_dilation": r.randint(1, 2), "reversal": r.randint(0, 1)}
        span = (n - 1) * w["base_dilation"] + 1 + w["low"] + w["high"]
        reach = (w["size"] - 1) * w["window_dilation"] + 1
        if span >= reach:
            return w, (span - reach) // w["stride"] + 1


def _windows(r: random.Random, dims: list[int], dilate: bool = True) -> tuple[list[dict[str, int]], list[int]]:
    found = [one_window(r, n, dilate) for n in dims]
    return [w | {"reversal": 0} for w, _ in found], [n for _, n in found]


@family(seeds=24)
def reduce_window(r: random.Random, seed: int) -> Case:
    dims = sizes(r, 0, 2, most=5)
    windows, out = _windows(r, dims)
    operands = [text("s64", dims), "s64[]"]
    fields = {"window": window(*windows), "calls": [binary("add", "s64")]}
    return make("reduce-window", text("s64", out), operands, case={"optional": {1: INITIAL}}, **fields)


@family(seeds=10)
def reduce_window_of_several(r: random.Random, seed: int) -> Case:
    dims = sizes(r, 1, 2, most=4)
    windows, out = _windows(r, dims)
    one = text("s64", out)
    operands = [text("s64", dims)] * 2 + ["s64[]"] * 2
    unmixed = "where no element lies below a window, its initial values stay apart"
    case = {"loose": {2: unmixed, 3: unmixed}}
    return make("reduce-window", f"({one}, {one})", operands, case=case, window=window(*windows), calls=[mixing("s64")])


@family(seeds=10)
def cumulative(r: random.Random, seed: int) -> Case:
    """Cumulative sums and products, from the first element on or from the last one."""
    n, rows = r.randint(1, 6), r.randint(1, 2)
    low, high = r.choice([(n - 1, 0), (0, n - 1)])
    shape = f"s64[{n},{rows}]"
    case = {"optional": {1: INITIAL}}
    along = window({"size": n, "low": low, "high": high}, {"size": 1})
    return make("reduce-window", shape, [shape, "s64[]"], window=along, calls=[binary("add", "s64")], case=case)


def _fewest_below(w: dict[str, int], n: int, out: int) -> int:
    """The least number of elements that a window covers along one dimension."""
    starts = [o * w["stride"] - w["low"] for o in range(out)]
    return min((sum(1 for k in range(w["size"]) if 0 <= start + k < n) for start in starts), default=0)


@family(seeds=10)
def select_and_scatter(r: random.Random, seed: int) -> Case:
    dims = sizes(r, 1, 2, 4, 9)
    windows, out = _windows(r, dims, dilate=False)
    alone = int(np.prod([_fewest_below(w, n, o) for w, n, o in zip(windows, dims, out, strict=True)])) < 2
    loose: dict[int, str] = {0: "an element that is alone below a window is compared with itself"} if alone else {}
    fields: dict[str, Any] = {"window": window(*windows), "calls": [comparison("GE", "s64"), binary("add", "s64")]}
    case = {"union": frozenset({0, 1}), "loose": loose, "draws": 16}
    return make(
        "select-and-scatter", text("s64", dims), [text("s64", dims), text("s64", out), "s64[]"], case=case, **fields
    )
