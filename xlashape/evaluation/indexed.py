"""gather and scatter."""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from xlashape.evaluation.elementwise import is_real
from xlashape.evaluation.machine import Array, Machine, Value, evaluates
from xlashape.evaluation.regions import simple_of
from xlashape.hlo import HloInstruction


def _vectors(indices: Array, vector_dim: int) -> Array:
    """The index vectors, in the last dimension."""
    if vector_dim == indices.ndim:
        return indices[..., None]
    return np.moveaxis(indices, vector_dim, -1)


def _batch(sizes: Sequence[int], axis: int, rank: int) -> Array:
    return np.arange(sizes[axis]).reshape([-1 if d == axis else 1 for d in range(rank)])


@evaluates("gather")
def gather(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    details, x = instruction.details, np.asarray(args[0])
    n, dims = details.gather_dimension_numbers, instruction.shape.dimensions
    # Some elements alone may be there along dimensions that slices span.
    of_operand = zip(details.gather_slice_sizes, instruction.operands[0].shape.dimensions, x.shape, strict=True)
    slice_sizes = [held if size == whole else size for size, whole, held in of_operand]
    vectors = _vectors(np.asarray(args[1]), n.index_vector_dim)
    batch_sizes, batch_rank = vectors.shape[:-1], vectors.ndim - 1
    kept = [d for d in range(x.ndim) if d not in n.collapsed_slice_dims and d not in n.operand_batching_dims]
    rank = batch_rank + len(kept)
    index_dims = [d for d in range(np.ndim(args[1])) if d != n.index_vector_dim]
    index: list[Any] = [0] * x.ndim
    for k, d in enumerate(n.start_index_map):
        start = _clamped(vectors[..., k], x.shape[d] - slice_sizes[d])
        index[d] = start.reshape((*batch_sizes, *[1] * len(kept)))
    for d, i in zip(n.operand_batching_dims, n.start_indices_batching_dims, strict=True):
        index[d] = _batch(batch_sizes, index_dims.index(i), rank)
    for k, d in enumerate(kept):
        along = np.arange(slice_sizes[d])
        index[d] = index[d] + along.reshape([-1 if a == batch_rank + k else 1 for a in range(rank)])
    shape = (*batch_sizes, *[slice_sizes[d] for d in kept])
    found = x[tuple([np.broadcast_to(i, shape) for i in index])] if x.ndim else np.broadcast_to(x, shape)
    # The batch dimensions and then the offsets, in the places where the result has them.
    batches = [d for d in range(len(dims)) if d not in n.offset_dims]
    return np.transpose(found, np.argsort([*batches, *n.offset_dims], kind="stable"))


def _clamped(start: Array, most: int) -> Array:
    if start.dtype.kind == "u":
        return np.minimum(start, np.asarray(most, np.uint64)).astype(np.int64)
    return np.clip(start.astype(np.int64), 0, most)


@evaluates("scatter")
def scatter(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """Scatters the updates in their order. A window that does not fit into the operand is left out. Without a called
    computation, updates are added."""
    n, count = instruction.details.scatter_dimension_numbers, len(args) // 2
    pairs = [machine.domain.joined([args[i], args[count + 1 + i]]) for i in range(count)]
    outs, updates = [np.array(x) for x, _ in pairs], [u for _, u in pairs]
    vectors = _vectors(np.asarray(args[count]), n.index_vector_dim)
    dims, rank, batch_rank = outs[0].shape, updates[0].ndim, vectors.ndim - 1
    windows = list(n.update_window_dims)
    batches = [d for d in range(rank) if d not in windows]
    kept = [d for d in range(len(dims)) if d not in n.inserted_window_dims and d not in n.input_batching_dims]
    updates = [np.transpose(u, [*batches, *windows]) for u in updates]
    batch_sizes, sizes = updates[0].shape[:batch_rank], updates[0].shape[batch_rank:]
    index: list[Any] = [0] * len(dims)
    fits = np.ones(batch_sizes, bool)
    window = [1] * len(dims)
    for d, size in zip(kept, sizes, strict=True):
        window[d] = size
    for k, d in enumerate(n.scatter_dims_to_operand_dims):
        start = vectors[..., k]
        fits &= (start >= 0) & (start.astype(np.float64) <= dims[d] - window[d])
        index[d] = np.where(fits, start, 0).astype(np.int64).reshape((*batch_sizes, *[1] * len(sizes)))
    index_dims = [d for d in range(np.ndim(args[count])) if d != n.index_vector_dim]
    for d, i in zip(n.input_batching_dims, n.scatter_indices_batching_dims, strict=True):
        index[d] = _batch(batch_sizes, index_dims.index(i), rank)
    for k, d in enumerate(kept):
        along: Array = np.arange(sizes[k])
        index[d] = index[d] + along.reshape([-1 if a == batch_rank + k else 1 for a in range(rank)])
    flat = (int(fits.sum()), int(np.prod(sizes, dtype=np.int64)))
    places = [np.broadcast_to(i, updates[0].shape)[fits].reshape(flat) for i in index]
    values = [u[fits].reshape(flat) for u in updates]
    region = instruction.called_computations[0] if instruction.called_computations else None
    found = simple_of(region) if region is not None else ("add", "add")
    kind = instruction.operands[0].shape.element_type
    if count == 1 and found and found[0] == "second":
        _assign(outs[0], places, values[0])
    elif count == 1 and found and found[0] == "add" and (kind.is_integral or is_real(kind)):
        if is_real(kind):
            outs[0] = machine.domain.add_at(outs[0], tuple(places), values[0])
        else:
            np.add.at(outs[0], tuple(places), values[0])
    else:
        assert region is not None
        for row in range(flat[0]):
            here: Any = tuple([place[row] for place in places])
            result = machine.result(region, [*[o[here] for o in outs], *[v[row] for v in values]])
            results = cast("tuple[Value, ...]", result if isinstance(result, tuple) else (result,))
            for i, result in enumerate(results):
                outs[i], result = machine.domain.joined([outs[i], result])
                outs[i] = outs[i] if outs[i].flags.writeable else np.array(outs[i])
                outs[i][here] = result
    return tuple(outs) if instruction.shape.is_tuple else outs[0]


def _assign(out: Array, places: list[Array], values: Array) -> None:
    """Puts values into their places, the later ones over the earlier ones."""
    for row in range(len(values)) if _overlaps(out, places) else [slice(None)]:
        out[tuple([place[row] for place in places])] = values[row]


def _overlaps(out: Array, places: list[Array]) -> bool:
    if not places:
        return True
    flat = np.ravel_multi_index(tuple([p.ravel() for p in places]), out.shape)
    return len(np.unique(flat)) < flat.size
