"""gather and scatter."""

from __future__ import annotations

import numpy as np

from numpy_interpreter.core import Value, interprets, result
from xlashape.hlo import HloInstruction


def _index_vector(indices: np.ndarray, vector_dim: int, batch: tuple[int, ...]) -> np.ndarray:
    if vector_dim == indices.ndim:
        return np.array([indices[batch]])
    return indices[(*batch[:vector_dim], slice(None), *batch[vector_dim:])]


@interprets("gather")
def gather(instruction: HloInstruction, args: list[Value]) -> Value:
    p, x, indices = instruction.details, np.asarray(args[0]), np.asarray(args[1])
    n, dims = p.gather_dimension_numbers, instruction.shape.dimensions
    out = np.zeros(dims, dtype=x.dtype)
    batch_dims = [d for d in range(len(dims)) if d not in n.offset_dims]
    kept = [d for d in range(x.ndim) if d not in n.collapsed_slice_dims and d not in n.operand_batching_dims]
    index_dims = [d for d in range(indices.ndim) if d != n.index_vector_dim]
    for o in np.ndindex(*dims):
        batch = tuple(o[d] for d in batch_dims)
        at = [0] * x.ndim
        for d, v in zip(n.start_index_map, _index_vector(indices, n.index_vector_dim, batch), strict=True):
            at[d] = int(min(max(v, 0), x.shape[d] - p.gather_slice_sizes[d]))
        for d, i in zip(n.operand_batching_dims, n.start_indices_batching_dims, strict=True):
            at[d] = batch[index_dims.index(i)]
        for d, w in zip(kept, n.offset_dims, strict=True):
            at[d] += o[w]
        out[o] = x[tuple(at)]
    return out


@interprets("scatter")
def scatter(instruction: HloInstruction, args: list[Value]) -> Value:
    """Scatters updates. An update that does not fit into the operand is left out. Without a called computation, updates
    are added."""
    n, count = instruction.details.scatter_dimension_numbers, len(args) // 2
    outs = [np.array(x) for x in args[:count]]
    indices, updates = np.asarray(args[count]), args[count + 1 :]
    dims, update_dims = outs[0].shape, updates[0].shape
    batch_dims = [d for d in range(len(update_dims)) if d not in n.update_window_dims]
    kept = [d for d in range(len(dims)) if d not in n.inserted_window_dims and d not in n.input_batching_dims]
    sizes = [1] * len(dims)
    for d, w in zip(kept, n.update_window_dims, strict=True):
        sizes[d] = update_dims[w]
    index_dims = [d for d in range(indices.ndim) if d != n.index_vector_dim]
    for u in np.ndindex(*update_dims):
        batch = tuple(u[d] for d in batch_dims)
        start = [0] * len(dims)
        vector = _index_vector(indices, n.index_vector_dim, batch)
        for d, v in zip(n.scatter_dims_to_operand_dims, vector, strict=True):
            start[d] = int(v)
        if any(not 0 <= s <= size - w for s, size, w in zip(start, dims, sizes, strict=True)):
            continue
        for d, i in zip(n.input_batching_dims, n.scatter_indices_batching_dims, strict=True):
            start[d] = batch[index_dims.index(i)]
        for d, w in zip(kept, n.update_window_dims, strict=True):
            start[d] += u[w]
        at = tuple(start)
        if not instruction.called_computations:
            outs[0][at] += updates[0][u]
            continue
        found = result(
            instruction.called_computations[0], [out[at] for out in outs] + [update[u] for update in updates]
        )
        for out, value in zip(outs, found if isinstance(found, tuple) else (found,), strict=True):
            out[at] = value
    return tuple(outs) if instruction.shape.is_tuple else outs[0]
