"""Operations that move elements: broadcast, transpose, slices, pad, reshape, bitcast, dynamic sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from numpy_interpreter.core import Value, dtype_of, interprets
from xlashape.hlo import HloInstruction
from xlashape.shape import Shape, tiling


@interprets("broadcast")
def broadcast(instruction: HloInstruction, args: list[Value]) -> Value:
    dims = instruction.shape.dimensions
    shape, order = [1] * len(dims), np.argsort(instruction.details.dimensions, kind="stable")
    x = np.transpose(args[0], order)
    for d, n in zip(sorted(instruction.details.dimensions), x.shape, strict=True):
        shape[d] = n
    return np.broadcast_to(x.reshape(shape), dims)


@interprets("transpose")
def transpose(instruction: HloInstruction, args: list[Value]) -> Value:
    return np.transpose(args[0], list(instruction.details.dimensions))


@interprets("reshape", "dynamic-reshape")
def reshape(instruction: HloInstruction, args: list[Value]) -> Value:
    return np.reshape(args[0], instruction.shape.dimensions)


@interprets("reverse")
def reverse(instruction: HloInstruction, args: list[Value]) -> Value:
    return np.flip(args[0], list(instruction.details.dimensions))


@interprets("concatenate")
def concatenate(instruction: HloInstruction, args: list[Value]) -> Value:
    return np.concatenate(args, instruction.details.dimensions[0])


@interprets("slice")
def slice_(instruction: HloInstruction, args: list[Value]) -> Value:
    return args[0][tuple(slice(d.start, d.limit, d.stride or 1) for d in instruction.details.slice_dimensions)]


@interprets("pad")
def pad(instruction: HloInstruction, args: list[Value]) -> Value:
    x, value = np.asarray(args[0]), args[1]
    for axis, c in enumerate(instruction.details.padding_config.dimensions):
        low, high, interior = c.edge_padding_low, c.edge_padding_high, c.interior_padding
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


def _starts(offsets: list[Value], whole: tuple[int, ...], part: tuple[int, ...]) -> list[int]:
    """The clamped offsets of a slice, from one scalar for each dimension or from one vector."""
    given = [int(v) for offset in offsets for v in np.asarray(offset).ravel()]
    return [min(max(s, 0), n - k) for s, n, k in zip(given, whole, part, strict=True)]


@interprets("dynamic-slice")
def dynamic_slice(instruction: HloInstruction, args: list[Value]) -> Value:
    dims = instruction.shape.dimensions
    starts = _starts(args[1:], args[0].shape, dims)
    return args[0][tuple(slice(s, s + k) for s, k in zip(starts, dims, strict=True))]


@interprets("dynamic-update-slice")
def dynamic_update_slice(instruction: HloInstruction, args: list[Value]) -> Value:
    starts = _starts(args[2:], args[0].shape, args[1].shape)
    out = np.array(args[0])
    out[tuple(slice(s, s + k) for s, k in zip(starts, args[1].shape, strict=True))] = args[1]
    return out


@interprets("bitcast")
def bitcast(instruction: HloInstruction, args: list[Value]) -> Value:
    source, target = instruction.operands[0].shape, instruction.shape
    if _is_tiled(source) or _is_tiled(target):
        return tiling.unpack(target, tiling.pack(source, np.asarray(args[0])))
    placed = np.ascontiguousarray(np.transpose(args[0], _major_to_minor(source))).ravel().view(dtype_of(target))
    order = _major_to_minor(target)
    return np.transpose(placed.reshape([target.dimensions[d] for d in order]), np.argsort(order))


def _is_tiled(shape: Shape) -> bool:
    return shape.layout is not None and bool(shape.layout.tiles)


def _major_to_minor(shape: Shape) -> list[int]:
    return list(range(shape.rank)) if shape.layout is None else list(reversed(shape.layout.minor_to_major))


@interprets("get-dimension-size")
def get_dimension_size(instruction: HloInstruction, args: list[Value]) -> Value:
    return np.array(np.asarray(args[0]).shape[instruction.details.dimensions[0]], dtype=np.int32)


@interprets("set-dimension-size")
def set_dimension_size(instruction: HloInstruction, args: list[Value]) -> Value:
    """Sets the elements beyond the dynamic size to 0."""
    axis: Any = instruction.details.dimensions[0]
    along = np.arange(args[0].shape[axis]).reshape([-1 if d == axis else 1 for d in range(args[0].ndim)])
    return np.where(along < args[1], args[0], 0)
