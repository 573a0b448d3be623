"""Runs small HLO computations with NumPy, so that maps can be judged by what the operations do. Shares no code with the library's analysis."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from xlashape.hlo import HloComputation, HloInstruction

Value = Any  # an array, or a tuple of them


def run(computation: HloComputation, parameters: list[Value]) -> dict[HloInstruction, Value]:
    """The value of every instruction."""
    values: dict[HloInstruction, Value] = {}
    for instruction in computation.instructions:
        operands = [values[operand] for operand in instruction.operands]
        values[instruction] = (
            parameters[instruction.parameter_number]
            if instruction.opcode == "parameter"
            else apply(instruction, operands)
        )
    return values


def result(computation: HloComputation, parameters: list[Value]) -> Value:
    return run(computation, parameters)[computation.root]


def leaves(value: Value) -> list[np.ndarray]:
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [np.asarray(value)]


UNARY = {
    "negate": np.negative,
    "exponential": lambda x: x + 0.37 * x * x * x,
    "copy": np.array,
    "tanh": lambda x: 3 * x + 1,
    "convert": np.array,
}
BINARY = {"add": np.add, "multiply": np.multiply, "subtract": np.subtract}


def apply(one: HloInstruction, args: list[Value]) -> Value:
    """One operation."""
    p, opcode = one.proto, str(one.opcode)
    dims = one.shape.dimensions if one.shape.is_array else ()
    if opcode in UNARY:
        return UNARY[opcode](args[0])
    if opcode in BINARY:
        return BINARY[opcode](args[0], args[1])
    if opcode == "constant":
        field = {"s32": "s32s", "s64": "s64s", "f32": "f32s", "pred": "preds"}[one.shape.element_type.text]
        return np.array(getattr(p.literal, field), dtype=np.float64).reshape(dims)
    if opcode == "iota":
        return np.broadcast_to(
            np.arange(dims[p.dimensions[0]]).reshape([-1 if d == p.dimensions[0] else 1 for d in range(len(dims))]),
            dims,
        )
    if opcode == "broadcast":
        shape = [1] * len(dims)
        for d, n in zip(p.dimensions, args[0].shape, strict=True):
            shape[d] = n
        return np.broadcast_to(args[0].reshape(shape), dims)
    if opcode == "transpose":
        return np.transpose(args[0], list(p.dimensions))
    if opcode == "reshape":
        return args[0].reshape(dims)
    if opcode == "reverse":
        return np.flip(args[0], list(p.dimensions))
    if opcode == "concatenate":
        return np.concatenate(args, p.dimensions[0])
    if opcode == "slice":
        return args[0][tuple(slice(d.start, d.limit, d.stride) for d in p.slice_dimensions)]
    if opcode == "pad":
        return _pad(
            args[0],
            args[1],
            [(d.edge_padding_low, d.edge_padding_high, d.interior_padding) for d in p.padding_config.dimensions],
        )
    if opcode == "select":
        return np.where(args[0] > 0, args[1], args[2])
    if opcode == "clamp":
        return np.minimum(np.maximum(args[0], args[1]), args[2])
    if opcode == "reduce":
        return args[0].sum(axis=tuple(p.dimensions)) + args[1]
    if opcode == "dot":
        return _dot(p, args[0], args[1], dims)
    if opcode == "convolution":
        return _convolution(p, args[0], args[1], dims)
    if opcode == "reduce-window":
        return _reduce_window(p, args[0], args[1], dims)
    if opcode == "select-and-scatter":
        return _select_and_scatter(p, *args)
    if opcode == "dynamic-slice":
        starts = [int(np.clip(s, 0, n - k)) for s, n, k in zip(args[1:], args[0].shape, dims, strict=True)]
        return args[0][tuple(slice(s, s + k) for s, k in zip(starts, dims, strict=True))]
    if opcode == "dynamic-update-slice":
        starts = [int(np.clip(s, 0, n - k)) for s, n, k in zip(args[2:], args[0].shape, args[1].shape, strict=True)]
        out = np.array(args[0])
        out[tuple(slice(s, s + k) for s, k in zip(starts, args[1].shape, strict=True))] = args[1]
        return out
    if opcode == "gather":
        return _gather(p, args[0], args[1], dims)
    if opcode == "scatter":
        return _scatter(p, *args)
    if opcode == "sort":
        return np.sort(args[0], axis=p.dimensions[0])
    if opcode == "fft":
        axes = tuple(range(len(dims) - len(p.fft_length), len(dims)))
        return np.fft.fftn(args[0], axes=axes)
    if opcode == "cholesky":
        a = args[0] if p.cholesky_options.lower else np.swapaxes(args[0], -1, -2)
        low = np.tril(a) + np.swapaxes(np.tril(a, -1), -1, -2)
        factor = np.linalg.cholesky(low + 50 * np.eye(a.shape[-1]))
        return factor if p.cholesky_options.lower else np.swapaxes(factor, -1, -2)
    if opcode == "triangular-solve":
        return _triangular_solve(p.triangular_solve_options, args[0], args[1])
    if opcode == "batch-norm-training":
        axes = tuple(d for d in range(args[0].ndim) if d != p.feature_index)
        at = [-1 if d == p.feature_index else 1 for d in range(args[0].ndim)]
        mean, var = args[0].mean(axes), args[0].var(axes)
        normal = (args[0] - mean.reshape(at)) / np.sqrt(var.reshape(at) + 0.1)
        return (normal * args[1].reshape(at) + args[2].reshape(at), mean, var)
    if opcode == "batch-norm-inference":
        at = [-1 if d == p.feature_index else 1 for d in range(args[0].ndim)]
        x, scale, offset, mean, var = (args[0], *(a.reshape(at) for a in args[1:]))
        return (x - mean) / np.sqrt(var * var + 0.1) * scale + offset
    if opcode == "tuple":
        return tuple(args)
    if opcode == "get-tuple-element":
        return args[0][p.tuple_index]
    if opcode in ("opt-barrier",):
        return args[0]
    if opcode in ("fusion", "call"):
        return result(one.called_computations[0], args)
    if opcode == "conditional":
        branch = (
            (0 if args[0] > 0 else 1)
            if len(one.called_computations) == 2
            else int(np.clip(args[0], 0, len(one.called_computations) - 1))
        )
        return result(one.called_computations[branch], [args[branch + 1]])
    raise NotImplementedError(opcode)


def _pad(x: np.ndarray, value: Any, config: list[tuple[int, int, int]]) -> np.ndarray:
    for axis, (low, high, interior) in enumerate(config):
        n = x.shape[axis]
        shape = list(x.shape)
        shape[axis] = n + max(0, n - 1) * interior
        wide = np.full(shape, value, dtype=x.dtype)
        wide[(slice(None),) * axis + (slice(None, None, interior + 1),)] = x
        ends = [(max(0, low), max(0, high)) if d == axis else (0, 0) for d in range(x.ndim)]
        wide = np.pad(wide, ends, constant_values=value)
        kept = slice(max(0, -low), wide.shape[axis] - max(0, -high))
        x = wide[(slice(None),) * axis + (kept,)]
    return x


def _dot(p: Any, a: np.ndarray, b: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    n = p.dot_dimension_numbers
    names = itertools.count()
    left, right = [-1] * a.ndim, [-1] * b.ndim
    batch = []
    for i, j in zip(n.lhs_batch_dimensions, n.rhs_batch_dimensions, strict=True):
        left[i] = right[j] = next(names)
        batch.append(left[i])
    for i, j in zip(n.lhs_contracting_dimensions, n.rhs_contracting_dimensions, strict=True):
        left[i] = right[j] = next(names)
    special = len(batch) + len(n.lhs_contracting_dimensions)
    left = [next(names) if v < 0 else v for v in left]
    right = [next(names) if v < 0 else v for v in right]
    return np.einsum(
        a, left, b, right, [*batch, *[v for v in left if v >= special], *[v for v in right if v >= special]]
    ).reshape(dims)


def _positions(w: Any, out: int, place: int, n: int) -> int | None:
    at = out * w.stride + place * w.window_dilation - w.padding_low
    if at % w.base_dilation or not 0 <= at <= (n - 1) * w.base_dilation:
        return None
    return at // w.base_dilation


def _reduce_window(p: Any, x: np.ndarray, init: Any, dims: tuple[int, ...]) -> np.ndarray:
    out = np.full(dims, float(init))
    windows = list(p.window.dimensions)
    for o in np.ndindex(*dims):
        for k in np.ndindex(*[w.size for w in windows]):
            at = [_positions(w, a, b, n) for w, a, b, n in zip(windows, o, k, x.shape, strict=True)]
            if None not in at:
                out[o] += x[tuple(at)]  # type: ignore[arg-type]
    return out


def _select_and_scatter(p: Any, x: np.ndarray, source: np.ndarray, init: Any) -> np.ndarray:
    out = np.full(x.shape, float(init))
    windows = list(p.window.dimensions)
    for o in np.ndindex(*source.shape):
        best = None
        for k in np.ndindex(*[w.size for w in windows]):
            at = [_positions(w, a, b, n) for w, a, b, n in zip(windows, o, k, x.shape, strict=True)]
            if None not in at and (best is None or x[tuple(at)] > x[best]):  # type: ignore[arg-type]
                best = tuple(at)
        if best is not None:
            out[best] += source[o]  # type: ignore[index]
    return out


def _convolution(p: Any, x: np.ndarray, k: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    n = p.convolution_dimension_numbers
    groups, batches = p.feature_group_count or 1, p.batch_group_count or 1
    windows = list(p.window.dimensions)
    out = np.zeros(dims)
    per_group = k.shape[n.kernel_input_feature_dimension]
    features = dims[n.output_feature_dimension]
    for o in np.ndindex(*dims):
        feature, batch = o[n.output_feature_dimension], o[n.output_batch_dimension]
        for place in np.ndindex(*[w.size for w in windows]):
            at = [
                _positions(w, o[d], place[i], x.shape[s])
                for i, (w, d, s) in enumerate(
                    zip(windows, n.output_spatial_dimensions, n.input_spatial_dimensions, strict=True)
                )
            ]
            if None in at:
                continue
            for channel in range(per_group):
                xi, ki = [0] * x.ndim, [0] * k.ndim
                for i, w in enumerate(windows):
                    xi[n.input_spatial_dimensions[i]] = at[i]  # type: ignore[call-overload]
                    ki[n.kernel_spatial_dimensions[i]] = w.size - 1 - place[i] if w.window_reversal else place[i]
                xi[n.input_feature_dimension] = feature // (features // groups) * per_group + channel
                xi[n.input_batch_dimension] = feature // (features // batches) * dims[n.output_batch_dimension] + batch
                ki[n.kernel_input_feature_dimension], ki[n.kernel_output_feature_dimension] = channel, feature
                out[o] += x[tuple(xi)] * k[tuple(ki)]
    return out


def _index_vector(indices: np.ndarray, vector_dim: int, batch: tuple[int, ...]) -> np.ndarray:
    if vector_dim == indices.ndim:
        return np.array([indices[batch]])
    return indices[(*batch[:vector_dim], slice(None), *batch[vector_dim:])]


def _gather(p: Any, x: np.ndarray, indices: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    n = p.gather_dimension_numbers
    out = np.zeros(dims)
    batch_dims = [d for d in range(len(dims)) if d not in n.offset_dims]
    kept = [d for d in range(x.ndim) if d not in n.collapsed_slice_dims and d not in n.operand_batching_dims]
    index_dims = [d for d in range(indices.ndim) if d != n.index_vector_dim]
    for o in np.ndindex(*dims):
        batch = tuple(o[d] for d in batch_dims)
        vector = _index_vector(indices, n.index_vector_dim, batch)
        at = [0] * x.ndim
        for d, v in zip(n.start_index_map, vector, strict=True):
            at[d] = int(np.clip(v, 0, x.shape[d] - p.gather_slice_sizes[d]))
        for d, i in zip(n.operand_batching_dims, n.start_indices_batching_dims, strict=True):
            at[d] = batch[index_dims.index(i)]
        for d, w in zip(kept, n.offset_dims, strict=True):
            at[d] += o[w]
        out[o] = x[tuple(at)]
    return out


def _scatter(p: Any, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    n = p.scatter_dimension_numbers
    out = np.array(x)
    batch_dims = [d for d in range(updates.ndim) if d not in n.update_window_dims]
    kept = [d for d in range(x.ndim) if d not in n.inserted_window_dims and d not in n.input_batching_dims]
    sizes = [1] * x.ndim
    for d, w in zip(kept, n.update_window_dims, strict=True):
        sizes[d] = updates.shape[w]
    index_dims = [d for d in range(indices.ndim) if d != n.index_vector_dim]
    for u in np.ndindex(*updates.shape):
        batch = tuple(u[d] for d in batch_dims)
        vector = _index_vector(indices, n.index_vector_dim, batch)
        start = [0] * x.ndim
        for d, v in zip(n.scatter_dims_to_operand_dims, vector, strict=True):
            start[d] = int(v)
        if any(not 0 <= s <= size - w for s, size, w in zip(start, x.shape, sizes, strict=True)):
            continue
        for d, i in zip(n.input_batching_dims, n.scatter_indices_batching_dims, strict=True):
            start[d] = batch[index_dims.index(i)]
        for d, w in zip(kept, n.update_window_dims, strict=True):
            start[d] += u[w]
        out[tuple(start)] += updates[u]
    return out


def _triangular_solve(options: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    triangle = np.tril(a) if options.lower else np.triu(a)
    eye = np.eye(a.shape[-1])
    # Diagonally dominant, so that the solution is well conditioned.
    triangle = triangle * (1 - eye) + eye if options.unit_diagonal else triangle + 5 * eye
    if options.transpose_a in (2, 3):
        triangle = np.swapaxes(triangle, -1, -2)
    if options.left_side:
        return np.linalg.solve(triangle, b)
    return np.swapaxes(np.linalg.solve(np.swapaxes(triangle, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
