"""Operations that combine many elements into one."""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, Final, cast

import numpy as np

from xlashape.evaluation.elementwise import applied, is_real
from xlashape.evaluation.machine import Array, Machine, Value, evaluates
from xlashape.evaluation.regions import simple_of
from xlashape.hlo import HloComputation, HloInstruction

_INTEGERS: Final[dict[str, Any]] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def combination(
    machine: Machine, computation: HloComputation | None, kind: Any
) -> Callable[[list[Array], list[Array]], list[Array]]:
    """What combines totals with further elements. Without a computation they are added."""
    if computation is None:
        return lambda totals, more: [applied(machine.domain, "add", kind, *totals, *more)]

    def combine(totals: list[Array], more: list[Array]) -> list[Array]:
        found = machine.result(computation, [*totals, *more])
        parts = cast("tuple[Array, ...]", found if isinstance(found, tuple) else (found,))
        return [
            np.broadcast_to(part, np.broadcast_shapes(np.shape(t), np.shape(part)))
            for part, t in zip(parts, totals, strict=True)
        ]

    return combine


def returned(instruction: HloInstruction, found: list[Any]) -> Value:
    """One array, or a tuple of the arrays."""
    return tuple(found) if instruction.shape.is_tuple else found[0]


def _called(instruction: HloInstruction) -> HloComputation | None:
    return instruction.called_computations[0] if instruction.called_computations else None


@evaluates("reduce")
def reduce(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """Combines neighbours, then neighbours of these: a result is that of any order if the computation is
    associative."""
    count, axes = len(args) // 2, tuple(instruction.details.dimensions)
    pairs = [machine.domain.joined([args[i], args[count + i]]) for i in range(count)]
    kind = instruction.operands[0].shape.element_type
    combine = combination(machine, _called(instruction), kind)
    found = simple_of(instruction.called_computations[0]) if count == 1 and instruction.called_computations else None
    if found is not None and (simple := _reduced(machine, found[0], kind, pairs[0][0], axes)) is not None:
        return combine([pairs[0][1]], [simple])[0]
    kept = [d for d in range(np.ndim(args[0])) if d not in axes]
    dims = tuple([np.shape(args[0])[d] for d in kept])
    lines: list[Array] = [np.transpose(x, [*kept, *axes]).reshape((*dims, -1)) for x, _ in pairs]
    inits = [np.broadcast_to(init, dims) for _, init in pairs]
    if not np.size(lines[0], -1):
        return returned(instruction, inits)
    while (size := np.size(lines[0], -1)) > 1:
        even = size - size % 2
        joined = combine([x[..., 0:even:2] for x in lines], [x[..., 1:even:2] for x in lines])
        if size % 2:
            joined = [
                np.concatenate(machine.domain.joined([a, x[..., -1:]]), -1) for a, x in zip(joined, lines, strict=True)
            ]
        lines = joined
    return returned(instruction, combine(inits, [x[..., 0] for x in lines]))


def _reduced(machine: Machine, operation: str, kind: Any, x: Array, axes: tuple[int, ...]) -> Array | None:
    """The elements along axes combined by a simple operation; None where this takes a tree."""
    if not is_real(kind):
        if kind.is_complex:
            return None
        if not x.size and operation in ("maximum", "minimum"):
            return None
        return np.asarray(_INTEGERS[operation].reduce(x, axis=axes, dtype=x.dtype)) if axes else x
    if not x.size:
        return None
    domain = machine.domain
    table = {"add": domain.sum, "maximum": domain.greatest, "minimum": domain.least}
    return table[operation](x, axes) if operation in table else None


def position(w: Any, out: int, place: int, n: int) -> int | None:
    """The index of the input element, along one dimension, at index `place` of the window of output `out`; None if that
    is padding."""
    at = out * (w.stride or 1) + place * (w.window_dilation or 1) - w.padding_low
    dilation = w.base_dilation or 1
    if at % dilation or not 0 <= at <= (n - 1) * dilation:
        return None
    return at // dilation


def window_slices(
    windows: list[Any], place: tuple[int, ...], sizes: tuple[int, ...], outs: tuple[int, ...]
) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """(outputs, inputs): which elements of which outputs lie at `place` of the window; None if there are none."""
    targets: list[slice] = []
    sources: list[slice] = []
    for w, i, n, size in zip(windows, place, sizes, outs, strict=True):
        at = [(o, p) for o in range(size) if (p := position(w, o, i, n)) is not None]
        if not at:
            return None
        step = at[1][0] - at[0][0] if len(at) > 1 else 1
        stride = at[1][1] - at[0][1] if len(at) > 1 else 1
        targets.append(slice(at[0][0], at[-1][0] + 1, step))
        sources.append(slice(at[0][1], at[-1][1] + 1, stride))
    return tuple(targets), tuple(sources)


@evaluates("reduce-window")
def reduce_window(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """Combines the elements of windows: for each index within the window, those of all outputs at once."""
    count, windows = len(args) // 2, list(instruction.details.window.dimensions)
    dims = (instruction.shape.tuple_shapes[0] if instruction.shape.is_tuple else instruction.shape).dimensions
    kind = instruction.operands[0].shape.element_type
    combine = combination(machine, _called(instruction), kind)
    pairs = [machine.domain.joined([args[i], args[count + i]]) for i in range(count)]
    totals: list[Array] = [np.array(np.broadcast_to(init, dims)) for _, init in pairs]
    for place in product(*[range(w.size) for w in windows]):
        slices = window_slices(windows, place, np.shape(args[0]), dims)
        if slices is None:
            continue
        outs, sources = slices
        more = combine([total[outs] for total in totals], [x[sources] for x, _ in pairs])
        for i, value in enumerate(more):
            totals[i], value = machine.domain.joined([totals[i], value])
            totals[i][outs] = value
    return returned(instruction, totals)


@evaluates("select-and-scatter")
def select_and_scatter(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """Selects an element of each window by the first computation, and combines the values that are scattered to the
    same element by the second."""
    x, source, init = machine.domain.joined(args)
    windows = list(instruction.details.window.dimensions)
    select, scatter = instruction.called_computations
    outs = source.shape
    best = np.zeros(outs, x.dtype)
    chosen = np.full(outs, -1, np.int64)
    flat: Array = np.arange(x.size).reshape(x.shape)
    for place in product(*[range(w.size) for w in windows]):
        slices = window_slices(windows, place, x.shape, outs)
        if slices is None:
            continue
        at, sources = slices
        keeps = (chosen[at] >= 0) & np.asarray(machine.result(select, [best[at], x[sources]]), bool)
        best[at] = np.where(keeps, best[at], x[sources])
        chosen[at] = np.where(keeps, chosen[at], flat[sources])
    out = np.full(x.size, init, dtype=x.dtype)
    combine = combination(machine, scatter, instruction.shape.element_type)
    for o in product(*map(range, outs)):
        place = int(chosen[o])
        if place >= 0:
            out[place] = machine.domain.joined([out, combine([out[place]], [source[o]])[0]])[1]
    found: Array = out.reshape(x.shape)
    return found


def _feature(instruction: HloInstruction, x: Array) -> tuple[tuple[int, ...], list[int]]:
    """The dimensions that batch normalization sums over, and the shape with which one number for each feature is
    broadcast."""
    at = instruction.details.feature_index
    return tuple([d for d in range(x.ndim) if d != at]), [-1 if d == at else 1 for d in range(x.ndim)]


@evaluates("batch-norm-training")
def batch_norm_training(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    d, (x, scale, offset) = machine.domain, args
    axes, at = _feature(instruction, x)
    count = d.one(x.size / max(scale.size, 1))
    mean = d.divide(d.sum(x, axes), count)
    centred = d.subtract(x, mean.reshape(at))
    variance = d.divide(d.sum(d.multiply(centred, centred), axes), count)
    return (_normal(machine, instruction, centred, scale, offset, variance), mean, variance)


@evaluates("batch-norm-inference")
def batch_norm_inference(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    _, at = _feature(instruction, args[0])
    centred = machine.domain.subtract(args[0], args[3].reshape(at))
    return _normal(machine, instruction, centred, args[1], args[2], args[4])


def _inverse(machine: Machine, instruction: HloInstruction, variance: Array) -> Array:
    d = machine.domain
    return d.rsqrt(d.add(variance, d.one(instruction.details.epsilon)))


def _normal(
    machine: Machine, instruction: HloInstruction, centred: Array, scale: Array, offset: Array, variance: Array
) -> Array:
    d, (_, at) = machine.domain, _feature(instruction, centred)
    normal = d.multiply(centred, _inverse(machine, instruction, variance).reshape(at))
    return d.add(d.multiply(normal, scale.reshape(at)), offset.reshape(at))


@evaluates("batch-norm-grad")
def batch_norm_grad(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    d, x, grad = machine.domain, args[0], args[4]
    axes, at = _feature(instruction, x)
    scale, mean, variance = (a.reshape(at) for a in args[1:4])
    count = d.one(x.size / max(scale.size, 1))
    inverse, centred = _inverse(machine, instruction, variance), d.subtract(x, mean)
    along, total = d.sum(d.multiply(grad, centred), axes), d.sum(grad, axes)
    shift = d.multiply(d.multiply(centred, d.multiply(inverse, inverse)), along.reshape(at))
    inner = d.subtract(d.subtract(d.multiply(count, grad), total.reshape(at)), shift)
    by_operand = d.multiply(d.divide(d.multiply(scale, inverse), count), inner)
    return (by_operand, d.multiply(along, inverse.reshape(-1)), total)
