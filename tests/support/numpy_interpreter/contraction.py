"""dot, scaled-dot, convolution."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from numpy_interpreter.core import Value, interprets
from xlashape.hlo import HloInstruction


@interprets("dot")
def dot(instruction: HloInstruction, args: list[Value]) -> Value:
    return _dot(instruction, np.asarray(args[0]), np.asarray(args[1]))


@interprets("scaled-dot")
def scaled_dot(instruction: HloInstruction, args: list[Value]) -> Value:
    return _dot(instruction, _scaled(args[0], args[2]), _scaled(args[1], args[3]))


def _scaled(x: Any, scale: Any) -> np.ndarray:
    x, scale = np.asarray(x), np.asarray(scale)
    for axis in range(scale.ndim):
        if scale.shape[axis]:
            scale = np.repeat(scale, x.shape[axis] // scale.shape[axis], axis)
    return x * scale


def _dot(instruction: HloInstruction, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    n = instruction.details.dot_dimension_numbers
    names = itertools.count()
    left, right = [-1] * a.ndim, [-1] * b.ndim
    batch: list[int] = []
    for i, j in zip(n.lhs_batch_dimensions, n.rhs_batch_dimensions, strict=True):
        left[i] = right[j] = next(names)
        batch.append(left[i])
    for i, j in zip(n.lhs_contracting_dimensions, n.rhs_contracting_dimensions, strict=True):
        left[i] = right[j] = next(names)
    special = len(batch) + len(n.lhs_contracting_dimensions)
    left = [next(names) if v < 0 else v for v in left]
    right = [next(names) if v < 0 else v for v in right]
    out = [*batch, *[v for v in left if v >= special], *[v for v in right if v >= special]]
    return np.einsum(a, left, b, right, out).reshape(instruction.shape.dimensions)


def position(w: Any, out: int, place: int, n: int) -> int | None:
    """The index of the input element, along one dimension, at index `place` of the window of output `out`; None if that
    is padding."""
    at = out * (w.stride or 1) + place * (w.window_dilation or 1) - w.padding_low
    dilation = w.base_dilation or 1
    if at % dilation or not 0 <= at <= (n - 1) * dilation:
        return None
    return at // dilation


@interprets("convolution")
def convolution(instruction: HloInstruction, args: list[Value]) -> Value:
    p, x, k = instruction.details, np.asarray(args[0]), np.asarray(args[1])
    n, dims = p.convolution_dimension_numbers, instruction.shape.dimensions
    groups, batches = p.feature_group_count or 1, p.batch_group_count or 1
    windows = list(p.window.dimensions)
    out = np.zeros(dims, dtype=x.dtype)
    per_group = k.shape[n.kernel_input_feature_dimension]
    features = dims[n.output_feature_dimension]
    for o in np.ndindex(*dims):
        feature, batch = o[n.output_feature_dimension], o[n.output_batch_dimension]
        for place in np.ndindex(*[w.size for w in windows]):
            spatial = zip(windows, n.output_spatial_dimensions, n.input_spatial_dimensions, place, strict=True)
            at = [position(w, o[d], i, x.shape[s]) for w, d, s, i in spatial]
            if None in at:
                continue
            xi: list[Any] = [0] * x.ndim
            ki: list[Any] = [0] * k.ndim
            for i, w in enumerate(windows):
                xi[n.input_spatial_dimensions[i]] = at[i]
                ki[n.kernel_spatial_dimensions[i]] = w.size - 1 - place[i] if w.window_reversal else place[i]
            first = feature // (features // groups) * per_group
            xi[n.input_feature_dimension] = slice(first, first + per_group)
            xi[n.input_batch_dimension] = feature // (features // batches) * dims[n.output_batch_dimension] + batch
            ki[n.kernel_input_feature_dimension], ki[n.kernel_output_feature_dimension] = slice(None), feature
            out[o] += (x[tuple(xi)] * k[tuple(ki)]).sum()
    return out
