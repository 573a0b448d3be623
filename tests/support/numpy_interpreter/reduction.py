"""Operations that combine many elements into one, or sort them."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import numpy as np

from numpy_interpreter.contraction import position
from numpy_interpreter.core import Value, interprets, result
from xlashape.hlo import HloInstruction


def _folded(instruction: HloInstruction, totals: list[Value], more: list[Value]) -> list[Value]:
    """The called computation applied to two arrays. Without one, the arrays are added."""
    if not instruction.called_computations:
        return [total + x for total, x in zip(totals, more, strict=True)]
    found = result(instruction.called_computations[0], [*totals, *more])
    return list(found) if isinstance(found, tuple) else [found]


def _returned(instruction: HloInstruction, found: list[Any]) -> Value:
    return tuple(found) if instruction.shape.is_tuple else found[0]


@interprets("reduce")
def reduce(instruction: HloInstruction, args: list[Value]) -> Value:
    count, axes = len(args) // 2, list(instruction.details.dimensions)
    kept = [d for d in range(args[0].ndim) if d not in axes]
    dims = tuple(args[0].shape[d] for d in kept)
    lines = [np.transpose(x, [*kept, *axes]).reshape((*dims, -1)) for x in args[:count]]
    totals: list[Any] = [np.full(dims, init, dtype=x.dtype) for x, init in zip(args, args[count:], strict=False)]
    for at in range(lines[0].shape[-1]):
        totals = _folded(instruction, totals, [line[..., at] for line in lines])
    return _returned(instruction, totals)


@interprets("reduce-window")
def reduce_window(instruction: HloInstruction, args: list[Value]) -> Value:
    """Combines the elements of windows: for each index within the window, those of all outputs at once."""
    count, windows = len(args) // 2, list(instruction.details.window.dimensions)
    dims = (instruction.shape.tuple_shapes[0] if instruction.shape.is_tuple else instruction.shape).dimensions
    totals: list[Any] = [np.full(dims, init, dtype=x.dtype) for x, init in zip(args, args[count:], strict=False)]
    for place in np.ndindex(*[w.size for w in windows]):
        at = [
            [position(w, o, i, n) for o in range(size)]
            for w, i, n, size in zip(windows, place, args[0].shape, dims, strict=True)
        ]
        outs = np.ix_(*[[o for o, p in enumerate(line) if p is not None] for line in at])
        sources = np.ix_(*[[p for p in line if p is not None] for line in at])
        if not windows:
            outs = sources = ()  # a scalar
        more = _folded(instruction, [total[outs] for total in totals], [x[sources] for x in args[:count]])
        for total, value in zip(totals, more, strict=True):
            total[outs] = value
    return _returned(instruction, totals)


@interprets("select-and-scatter")
def select_and_scatter(instruction: HloInstruction, args: list[Value]) -> Value:
    """Selects the largest element of each window, the first of equal ones. Values that are scattered to the same
    element are added.
    """
    x, source, init = args
    out = np.full(x.shape, init, dtype=x.dtype)
    windows = list(instruction.details.window.dimensions)
    places = list(np.ndindex(*[w.size for w in windows]))
    for o in np.ndindex(*source.shape):
        best = None
        for place in places:
            at: Any = tuple(position(w, a, b, n) for w, a, b, n in zip(windows, o, place, x.shape, strict=True))
            if None not in at and (best is None or x[at] > x[best]):
                best = at
        if best is not None:
            out[best] += source[o]
    return out


@interprets("sort")
def sort(instruction: HloInstruction, args: list[Value]) -> Value:
    """Sorts stably by the comparator; without a comparator by the first operand."""
    axis = instruction.details.dimensions[0]
    moved = [np.moveaxis(np.asarray(x), axis, -1) for x in args]
    outs = [np.array(x) for x in moved]

    def less(line: tuple[int, ...], a: int, b: int) -> bool:
        if not instruction.called_computations:
            return bool(moved[0][(*line, a)] < moved[0][(*line, b)])
        pairs = [x[(*line, i)] for x in moved for i in (a, b)]
        return bool(result(instruction.called_computations[0], pairs))

    for line in np.ndindex(*moved[0].shape[:-1]):
        order = sorted(
            range(moved[0].shape[-1]),
            key=cmp_to_key(lambda a, b, line=line: -1 if less(line, a, b) else 1 if less(line, b, a) else 0),
        )
        for out, x in zip(outs, moved, strict=True):
            out[line] = x[line][order]
    return _returned(instruction, [np.moveaxis(out, -1, axis) for out in outs])


@interprets("topk")
def topk(instruction: HloInstruction, args: list[Value]) -> Value:
    order = np.argsort(-args[0], axis=-1, kind="stable")[..., : instruction.details.k]
    return np.take_along_axis(args[0], order, -1), order.astype(np.int32)


def _feature(instruction: HloInstruction, x: np.ndarray) -> tuple[tuple[int, ...], list[int]]:
    """The dimensions that batch normalization sums over, and the shape with which one number for each feature is
    broadcast."""
    at = instruction.details.feature_index
    return tuple(d for d in range(x.ndim) if d != at), [-1 if d == at else 1 for d in range(x.ndim)]


@interprets("batch-norm-training")
def batch_norm_training(instruction: HloInstruction, args: list[Value]) -> Value:
    x, scale, offset = args
    axes, at = _feature(instruction, x)
    mean, variance = x.mean(axes), x.var(axes)
    normal = (x - mean.reshape(at)) / np.sqrt(variance.reshape(at) + instruction.details.epsilon)
    return (normal * scale.reshape(at) + offset.reshape(at), mean, variance)


@interprets("batch-norm-inference")
def batch_norm_inference(instruction: HloInstruction, args: list[Value]) -> Value:
    _, at = _feature(instruction, args[0])
    x, scale, offset, mean, variance = (args[0], *(a.reshape(at) for a in args[1:]))
    return (x - mean) / np.sqrt(variance + instruction.details.epsilon) * scale + offset


@interprets("batch-norm-grad")
def batch_norm_grad(instruction: HloInstruction, args: list[Value]) -> Value:
    axes, at = _feature(instruction, args[0])
    x, scale, mean, variance, grad = (args[0], *(a.reshape(at) for a in args[1:4]), args[4])
    count = x.size / scale.size
    inverse = 1 / np.sqrt(variance + instruction.details.epsilon)
    centred = x - mean
    along = (grad * centred).sum(axes, keepdims=True)
    total = grad.sum(axes, keepdims=True)
    by_operand = scale * inverse / count * (count * grad - total - centred * inverse * inverse * along)
    return (by_operand, (along * inverse).reshape(-1), total.reshape(-1))
