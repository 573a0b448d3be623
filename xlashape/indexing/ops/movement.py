"""The rules of operations that only move elements: broadcast, transpose, reverse, concatenate, pad.

The docstring of a rule says what an element of an output reads (`…_output_to_input`), or which elements of the outputs
an element of an operand takes part in (`…_input_to_output`).
"""

from __future__ import annotations

from xlashape.base.math import ceil_div
from xlashape.hlo import Opcode
from xlashape.hlo.values.plain import DIMENSIONS
from xlashape.hlo.values.window import PADDING, PaddingConfig, PaddingDimension
from xlashape.indexing.answers.leaves import WITHOUT_BOUND, dims_of
from xlashape.indexing.ops.op import Access, Malformed, Op, Rows, require, require_dims
from xlashape.indexing.ops.register import input_to_output, output_to_input, unknown, without_bounds
from xlashape.indexing.ops.rows import aligned, everything, make_map, to_scalar
from xlashape.limits import spend
from xlashape.symbolic import Expr, IndexingMap, Interval, dim

# The steps of a budget that making the map of one operand takes: tens of microseconds.
_OPERAND_STEPS = 8

unknown(Opcode.SHUFFLE, "XLA has no maps of it, which would say in which direction it rotates")
without_bounds(Opcode.BROADCAST, Opcode.TRANSPOSE, Opcode.REVERSE, Opcode.CONCATENATE, Opcode.PAD)


@output_to_input(Opcode.BROADCAST, attributes=DIMENSIONS)
def broadcast_output_to_input(op: Op, output: int) -> Rows:
    """An output element reads the operand's element with its index along the dimensions that the operand has."""
    dims, out = _broadcast(op), op.output_dims(output)
    return ((Access(aligned(out, range(len(out)), op.operand_dims(0), dims)),),)


@input_to_output(Opcode.BROADCAST, attributes=DIMENSIONS)
def broadcast_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """An element goes to the same index along the operand's dimensions, and to every index along the new ones."""
    dims, out = _broadcast(op), op.output_dims(0)
    return ((Access(aligned(op.operand_dims(operand, leaf), dims, out, range(len(out)))),),)


def _broadcast(op: Op) -> tuple[int, ...]:
    op.require_operands(1)
    dims: tuple[int, ...] = op.attributes
    out, source = op.output_dims(0), op.operand_dims(0)
    require_dims("dimensions", dims, len(out))
    require(
        tuple(out[d] for d in dims) == source,
        lambda: f"cannot broadcast {list(source)} to {list(out)} along {list(dims)}",
    )
    return dims


@output_to_input(Opcode.TRANSPOSE, attributes=DIMENSIONS)
def transpose_output_to_input(op: Op, output: int) -> Rows:
    """Output dimension i is the operand's dimension permutation[i]."""
    permutation, source = _transpose(op), op.operand_dims(0)
    return ((Access(aligned(op.output_dims(output), permutation, source, range(len(source)))),),)


@input_to_output(Opcode.TRANSPOSE, attributes=DIMENSIONS)
def transpose_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """Output dimension i is the operand's dimension permutation[i]."""
    permutation, source = _transpose(op), op.operand_dims(operand, leaf)
    return ((Access(aligned(source, range(len(source)), op.output_dims(0), permutation)),),)


def _transpose(op: Op) -> tuple[int, ...]:
    op.require_operands(1)
    permutation: tuple[int, ...] = op.attributes
    out, source = op.output_dims(0), op.operand_dims(0)
    require_dims("dimensions", permutation, len(source))
    require(
        tuple(source[d] for d in permutation) == out,
        lambda: f"cannot transpose {list(source)} to {list(out)} by {list(permutation)}",
    )
    return permutation


@output_to_input(Opcode.REVERSE, attributes=DIMENSIONS)
def reverse_output_to_input(op: Op, output: int) -> Rows:
    """An element's index is counted from the other end along the reversed dimensions."""
    return ((Access(_reversed(op, op.output_dims(output))),),)


@input_to_output(Opcode.REVERSE, attributes=DIMENSIONS)
def reverse_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """An element's index is counted from the other end along the reversed dimensions."""
    return ((Access(_reversed(op, op.operand_dims(operand, leaf))),),)


def _reversed(op: Op, dims: tuple[int, ...]) -> IndexingMap:
    op.require_operands(1)
    require(op.operand_dims(0) == op.output_dims(0), "changes the shape")
    reversed_dims: tuple[int, ...] = op.attributes
    require_dims("dimensions", reversed_dims, len(dims))
    require(all(dims[d] != WITHOUT_BOUND for d in reversed_dims), "reverses a dimension without a bound")
    return make_map(dims, [-dim(i) + (size - 1) if i in reversed_dims else dim(i) for i, size in enumerate(dims)])


@output_to_input(Opcode.CONCATENATE, attributes=DIMENSIONS)
def concatenate_output_to_input(op: Op, output: int) -> Rows:
    """An operand is read by the output elements in its own part of the concatenated dimension."""
    axis, starts = _concatenate(op)
    out = op.output_dims(output)
    rows: list[tuple[Access, ...]] = []
    for operand, start in enumerate(starts):
        spend(_OPERAND_STEPS)
        size = op.operand_dims(operand)[axis]
        end = min(start + size, out[axis])
        bounds = [Interval(start, end - 1) if d == axis else Interval(0, n - 1) for d, n in enumerate(out)]
        rows.append((Access(make_map(bounds, [dim(d) - start if d == axis else dim(d) for d in range(len(out))])),))
    return tuple(rows)


@input_to_output(Opcode.CONCATENATE, attributes=DIMENSIONS)
def concatenate_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """An element's index is moved by the sizes of the operands before its own."""
    axis, starts = _concatenate(op)
    dims = op.operand_dims(operand, leaf)
    own = [min(n, WITHOUT_BOUND - starts[operand]) if d == axis else n for d, n in enumerate(dims)]
    return ((Access(make_map(own, [dim(d) + starts[operand] if d == axis else dim(d) for d in range(len(dims))])),),)


def _concatenate(op: Op) -> tuple[int, list[int]]:
    op.require_operands(len(op.operands))
    out = op.output_dims(0)
    dimensions: tuple[int, ...] = op.attributes
    require(len(dimensions) == 1, f"needs exactly one dimension, not {len(dimensions)}")
    require_dims("dimensions", dimensions, len(out))
    axis, start = dimensions[0], 0
    starts: list[int] = []
    for (shape,) in op.operands:
        spend()
        dims = dims_of(shape)
        require(
            len(dims) == len(out) and all(a == b for d, (a, b) in enumerate(zip(dims, out, strict=True)) if d != axis),
            f"cannot put {list(dims)} into {list(out)} along {axis}",
        )
        require(start < WITHOUT_BOUND, "joins an array of unknown size and another")
        starts.append(start)
        start += dims[axis]
    start = min(start, WITHOUT_BOUND)
    require(start == out[axis], lambda: f"joins {start} elements along dimension {axis} of {out[axis]}")
    return axis, starts


@output_to_input(Opcode.PAD, attributes=PADDING)
def pad_output_to_input(op: Op, output: int) -> Rows:
    """An output element reads the operand's element that it holds, if any. The map of the padding value names its
    element everywhere: it does not exclude the part that holds the operand.
    """
    config, out, source = _pad(op, output), op.output_dims(output), op.operand_dims(0)
    bounds: list[Interval] = []
    results: list[Expr] = []
    constraints: list[tuple[Expr, Interval]] = []
    for d, (low, _, interior) in enumerate(config):
        inner = source[d] + max(0, source[d] - 1) * interior
        bounds.append(Interval(max(0, low), min(out[d], low + inner) - 1))
        results.append((dim(d) - low) // (interior + 1) if interior else dim(d) - low)
        if interior:
            constraints.append(((dim(d) - low) % (interior + 1), Interval(0, 0)))
    return (Access(make_map(bounds, results, constraints=constraints)),), to_scalar(out)


@input_to_output(Opcode.PAD, attributes=PADDING)
def pad_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """An element of the operand goes to the output unless negative padding cuts it off. The padding value goes to every
    element.
    """
    config, out = _pad(op, 0), op.output_dims(0)
    if operand == 1:
        return ((everything((), out),),)
    source = op.operand_dims(operand, leaf)
    bounds: list[Interval] = []
    results: list[Expr] = []
    for d, (low, _, interior) in enumerate(config):
        step = interior + 1
        bounds.append(Interval(max(0, ceil_div(-low, step)), min(source[d] - 1, (out[d] - 1 - low) // step)))
        results.append(dim(d) * step + low)
    return ((Access(make_map(bounds, results)),),)


def _pad(op: Op, output: int) -> tuple[PaddingDimension, ...]:
    op.require_operands(2)
    padding: PaddingConfig = op.attributes or PaddingConfig()
    out, source, config = op.output_dims(output), op.operand_dims(0), padding.dimensions
    require(
        len(out) == len(source) == len(config) and not op.operand_dims(1),
        "has a padding that does not fit the ranks of its operand and result, or a padding value that is not a scalar",
    )
    for n, size, (low, high, interior) in zip(source, out, config, strict=True):
        require(interior >= 0, "has negative interior padding")
        if n == WITHOUT_BOUND:
            # The index at which padding at the end would begin is not known.
            require(size == n and high == interior == 0, "pads the end of a dimension without a bound")
            continue
        inner = n + max(0, n - 1) * interior
        if size != max(0, low + inner + high):
            raise Malformed(f"pads {n} elements by {low}_{high}_{interior} to {size}")
    return config
