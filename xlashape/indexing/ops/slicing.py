"""Slices: static slices, and dynamic slices, whose offsets are known at run time only."""

from __future__ import annotations

from xlashape.hlo import Opcode
from xlashape.hlo.values.slices import DYNAMIC_SLICE_SIZES, SLICE, SliceDimension
from xlashape.indexing.ops.build import Malformed, everything, identity, make_map, require, require_operands, to_scalar
from xlashape.indexing.ops.op import Access, Op, Rows, Runtime, operand_dims, output_dims
from xlashape.indexing.ops.registry import input_to_output, output_to_input, without_bounds
from xlashape.math import ceil_div
from xlashape.symbolic import Expr, Interval, const, dim, rt

without_bounds(Opcode.SLICE, Opcode.DYNAMIC_SLICE, Opcode.DYNAMIC_UPDATE_SLICE)


@output_to_input(Opcode.SLICE, attributes=SLICE)
def slice_output_to_input(op: Op, output: int) -> Rows:
    """The index start + index · stride."""
    parts = _slice(op)
    return (
        (
            Access(
                make_map(
                    output_dims(op, output), [dim(d) * stride + start for d, (start, _, stride) in enumerate(parts)]
                )
            ),
        ),
    )


@input_to_output(Opcode.SLICE, attributes=SLICE)
def slice_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """From every stride-th element between the first and the last element that are taken."""
    out = output_dims(op, 0)
    bounds: list[Interval] = []
    results: list[Expr] = []
    constraints: list[tuple[Expr, Interval]] = []
    for d, (start, _, stride) in enumerate(_slice(op)):
        bounds.append(Interval(start, start + (out[d] - 1) * stride))
        results.append((dim(d) - start) // stride if stride > 1 else dim(d) - start)
        if stride > 1:
            constraints.append(((dim(d) - start) % stride, Interval(0, 0)))
    return ((Access(make_map(bounds, results, constraints=constraints)),),)


def _slice(op: Op) -> tuple[SliceDimension, ...]:
    require_operands(op, 1)
    out, source, parts = output_dims(op, 0), operand_dims(op, 0), op.attributes
    require(len(out) == len(source) == len(parts), "slices another rank than the operand's")
    for n, size, (start, limit, stride) in zip(source, out, parts, strict=True):
        fits = 0 <= start <= limit <= n and stride >= 1 and size == ceil_div(limit - start, stride)
        if not fits:
            raise Malformed(f"takes [{start}:{limit}:{stride}] of {n} elements into {size}")
    return parts


def _offsets(op: Op, dims: tuple[int, ...], first: int, rank: int) -> tuple[Runtime, ...]:
    """The producers of the offsets: a scalar operand for each dimension, or in an older form one vector of all offsets.

    `first` is the number of the first such operand.
    """
    given = len(op.operands) - first
    if given == 1 and rank != 1 and len(op.operands[first]) == 1 and len(operand_dims(op, first)) == 1:
        require(operand_dims(op, first) == (rank,), lambda: f"has {operand_dims(op, first)[0]} offsets for rank {rank}")
        return tuple(Runtime(first, make_map(dims, [const(d)])) for d in range(rank))
    if given == 1 and rank == 1 and operand_dims(op, first) == (1,):
        return (Runtime(first, make_map(dims, [const(0)])),)
    require(given == rank, lambda: f"has {given} offsets for rank {rank}")
    require(
        all(len(op.operands[i]) == 1 and not operand_dims(op, i) for i in range(first, first + rank)),
        "has an offset that is not a scalar",
    )
    scalar = make_map(dims, ())
    return tuple(Runtime(first + d, scalar) for d in range(rank))


@output_to_input(Opcode.DYNAMIC_SLICE, attributes=DYNAMIC_SLICE_SIZES)
def dynamic_slice_output_to_input(op: Op, output: int) -> Rows:
    """The index offset + index. Offsets are clamped so that the whole slice stays inside the operand."""
    out, source, offset_bounds = _dynamic_slice(op)
    runtime = _offsets(op, out, 1, len(source))
    read = make_map(out, [dim(d) + rt(d) for d in range(len(out))], runtime=offset_bounds)
    return (Access(read, 0, runtime),), *_offset_rows(op, out, 1)


@input_to_output(Opcode.DYNAMIC_SLICE, attributes=DYNAMIC_SLICE_SIZES)
def dynamic_slice_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The index index - offset where that lies in the slice; an offset takes part in every element."""
    out, source, offset_bounds = _dynamic_slice(op)
    if operand:
        return ((everything(operand_dims(op, operand, leaf), out),),)
    results = [dim(d) - rt(d) for d in range(len(out))]
    inside = [(result, Interval(0, n - 1)) for result, n in zip(results, out, strict=True)]
    return (
        (
            Access(
                make_map(source, results, runtime=offset_bounds, constraints=inside),
                0,
                _offsets(op, source, 1, len(source)),
            ),
        ),
    )


def _dynamic_slice(op: Op) -> tuple[tuple[int, ...], tuple[int, ...], list[Interval]]:
    require(len(op.operands) >= 1 and len(op.operands[0]) == 1, "slices one array")
    out, source = output_dims(op, 0), operand_dims(op, 0)
    sizes = op.attributes or out
    require(
        len(source) == len(out) == len(sizes) and sizes == out,
        lambda: f"takes slices of {list(sizes)} into {list(out)}",
    )
    return out, source, _offset_bounds(source, out)


def _offset_bounds(whole: tuple[int, ...], part: tuple[int, ...]) -> list[Interval]:
    """The bounds of the offsets of a part that stays inside the whole."""
    require(
        all(a >= b for a, b in zip(whole, part, strict=True)), lambda: f"cannot fit {list(part)} into {list(whole)}"
    )
    return [Interval(0, a - b) for a, b in zip(whole, part, strict=True)]


def _offset_rows(op: Op, dims: tuple[int, ...], first: int) -> list[tuple[Access, ...]]:
    """The rows of the offsets, which every element reads."""
    rows: list[tuple[Access, ...]] = []
    for operand in range(first, len(op.operands)):
        own = operand_dims(op, operand)
        rows.append((everything(dims, own),) if own else to_scalar(dims))
    return rows


@output_to_input(Opcode.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice_output_to_input(op: Op, output: int) -> Rows:
    """The operand at the same index, the update at index - offset. An index outside the update means that it is not read, as in XLA's maps."""
    out, update, offset_bounds = _dynamic_update_slice(op)
    written = make_map(out, [dim(d) - rt(d) for d in range(len(out))], runtime=offset_bounds)
    return identity(out), (Access(written, 0, _offsets(op, out, 2, len(update))),), *_offset_rows(op, out, 2)


@input_to_output(Opcode.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The operand at the same index, the update at index + offset; an offset takes part in every element."""
    out, update, offset_bounds = _dynamic_update_slice(op)
    if operand == 0:
        return (identity(out),)
    if operand > 1:
        return ((everything(operand_dims(op, operand, leaf), out),),)
    moved = make_map(update, [dim(d) + rt(d) for d in range(len(out))], runtime=offset_bounds)
    return ((Access(moved, 0, _offsets(op, update, 2, len(update))),),)


def _dynamic_update_slice(op: Op) -> tuple[tuple[int, ...], tuple[int, ...], list[Interval]]:
    require(len(op.operands) >= 2 and len(op.operands[0]) == len(op.operands[1]) == 1, "writes one array into another")
    out, source, update = output_dims(op, 0), operand_dims(op, 0), operand_dims(op, 1)
    require(
        out == source and len(update) == len(out),
        lambda: f"writes {list(update)} into {list(source)} giving {list(out)}",
    )
    return out, update, _offset_bounds(out, update)
