"""sort and topk."""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any, Final

import numpy as np

from xlashape.evaluation.elementwise import is_real
from xlashape.evaluation.machine import Array, Machine, Value, evaluates
from xlashape.evaluation.reduction import returned
from xlashape.hlo import HloInstruction

_ALL_PAIRS: Final = 64
"""Elements. So many are sorted by comparing all pairs at once; more by a network of comparisons."""


@evaluates("sort")
def sort(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """Sorts stably by the comparator; without a comparator by the first operand."""
    axis = instruction.details.dimensions[0]
    moved = [np.moveaxis(np.asarray(x), axis, -1) for x in args]

    def less(a: Array, b: Array) -> Array:
        """Whether the elements at indices a go before those at b."""
        chosen = [np.take_along_axis(x, i, -1) for x in moved for i in (a, b)]
        if not instruction.called_computations:
            if not is_real(instruction.operands[0].shape.element_type):
                return chosen[0] < chosen[1]
            return machine.domain.compare("LT", chosen[0], chosen[1], total=True)
        found = machine.result(instruction.called_computations[0], chosen)
        return np.broadcast_to(np.asarray(found, bool), a.shape)

    order = _by_pairs(less, moved[0].shape) if moved[0].shape[-1] <= _ALL_PAIRS else _by_network(less, moved[0].shape)
    outs = [np.moveaxis(np.take_along_axis(x, order, -1), -1, axis) for x in moved]
    return returned(instruction, outs)


def _by_pairs(less: Any, shape: tuple[int, ...]) -> Array:
    n = shape[-1]
    if n < 2:
        return np.broadcast_to(np.arange(n), shape)
    first, second = (i.ravel() for i in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    pairs = (*shape[:-1], n * n)
    # The later of two elements goes first only if it is less.
    later_first = less(
        np.broadcast_to(np.maximum(first, second), pairs), np.broadcast_to(np.minimum(first, second), pairs)
    )
    goes_first: Array = np.where(first > second, later_first, ~later_first) & (first != second)
    rank: Array = goes_first.reshape((*shape[:-1], n, n)).sum(-2)
    return np.argsort(rank, axis=-1, kind="stable")


def _by_network(less: Any, shape: tuple[int, ...]) -> Array:
    """Batcher's odd-even merge sort of indices. Padding has the greatest indices, and stays behind."""
    n = shape[-1]
    size = 1 << (n - 1).bit_length()
    order = np.array(np.broadcast_to(np.arange(size), (*shape[:-1], size)))
    p = 1
    while p < size:
        k = p
        while k >= 1:
            low = np.concatenate(
                [np.arange(j, min(j + k, size - k)) for j in range(k % p, size - k, 2 * k)] or [np.arange(0)]
            )
            low = low[low // (2 * p) == (low + k) // (2 * p)]
            a, b = order[..., low], order[..., low + k]
            inside = (a < n) & (b < n)
            safe_a, safe_b = np.where(inside, a, 0), np.where(inside, b, 0)
            later, earlier = np.maximum(safe_a, safe_b), np.minimum(safe_a, safe_b)
            later_first = less(later, earlier)
            swap = np.where(inside, np.where(a > b, ~later_first, later_first), a > b)
            order[..., low], order[..., low + k] = np.where(swap, b, a), np.where(swap, a, b)
            k //= 2
        p *= 2
    return order[..., :n]


def top(machine: Machine, x: Array, k: int, *, largest: bool = True, real: bool = True) -> tuple[Array, Array]:
    """The k greatest elements of the last dimension, or least, in order, and their indices."""

    def less(a: Array, b: Array) -> Array:
        one, other = np.take_along_axis(x, a, -1), np.take_along_axis(x, b, -1)
        direction = "GT" if largest else "LT"
        if real:
            return machine.domain.compare(direction, one, other, total=True)
        return one > other if largest else one < other

    sort_indices = _by_pairs if x.shape[-1] <= _ALL_PAIRS else _by_network
    order: Array = sort_indices(less, x.shape)[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


@evaluates("topk")
def topk(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    details = instruction.details
    real = is_real(instruction.operands[0].shape.element_type)
    return top(machine, np.asarray(args[0]), details.k, largest=details.largest, real=real)
