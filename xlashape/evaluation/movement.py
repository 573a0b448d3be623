"""Operations that move elements: broadcast, transpose, slices, pad, reshape, bitcast, dynamic sizes.

A computation of scalars, such as a comparator, runs on whole arrays. So an operation from scalar to scalar is one on
the elements of an array.
"""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlashape.evaluation.elementwise import reinterpreted
from xlashape.evaluation.machine import Array, Machine, Value, evaluates
from xlashape.hlo import HloInstruction
from xlashape.shape import Layout, Shape, tiling


@evaluates("broadcast")
def broadcast(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    dims, kept = instruction.shape.dimensions, list(instruction.details.dimensions)
    if not dims:
        return args[0]
    x = np.transpose(args[0], np.argsort(kept, kind="stable"))
    sizes = [1] * len(dims)
    for d, n in zip(sorted(kept), x.shape, strict=True):
        sizes[d] = n
    return np.broadcast_to(x.reshape(sizes), dims)


@evaluates("transpose")
def transpose(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    order = list(instruction.details.dimensions)
    return np.transpose(args[0], order) if order else args[0]


@evaluates("reshape", "dynamic-reshape")
def reshape(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    if not instruction.shape.rank and not instruction.operands[0].shape.rank:
        return args[0]
    return np.reshape(args[0], instruction.shape.dimensions)


@evaluates("reverse")
def reverse(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return np.flip(args[0], tuple(instruction.details.dimensions))


@evaluates("concatenate")
def concatenate(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return np.concatenate(machine.domain.joined(args), instruction.details.dimensions[0])


@evaluates("slice")
def slice_(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return args[0][tuple([slice(d.start, d.limit, d.stride or 1) for d in instruction.details.slice_dimensions])]


@evaluates("pad")
def pad(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    x, value = machine.domain.joined(args)
    out = np.full(instruction.shape.dimensions, value, dtype=x.dtype)
    targets: list[slice] = []
    sources: list[slice] = []
    for n, size, c in zip(x.shape, out.shape, instruction.details.padding_config.dimensions, strict=True):
        step = c.interior_padding + 1
        # Element i lies at low + i * step. Those from `first` to `last` are inside.
        first = max(0, -(c.edge_padding_low // step))
        last = min(n - 1, (size - 1 - c.edge_padding_low) // step)
        if first > last:
            return out
        start = c.edge_padding_low + first * step
        sources.append(slice(first, last + 1))
        targets.append(slice(start, start + (last - first) * step + 1, step))
    out[tuple(targets)] = x[tuple(sources)]
    return out


def starts(offsets: Sequence[Value], whole: Sequence[int], part: Sequence[int]) -> list[int]:
    """The clamped offsets of a slice, from one scalar for each dimension or from one vector."""
    given = [int(v) for offset in offsets for v in np.asarray(offset).ravel()]
    return [min(max(s, 0), n - k) for s, n, k in zip(given, whole, part, strict=True)]


@evaluates("dynamic-slice")
def dynamic_slice(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    x = args[0]
    # Some elements alone may be there along dimensions that the slice spans.
    sizes = zip(instruction.shape.dimensions, instruction.operands[0].shape.dimensions, x.shape, strict=True)
    dims = [held if size == whole else size for size, whole, held in sizes]
    return x[tuple([slice(s, s + k) for s, k in zip(starts(args[1:], x.shape, dims), dims, strict=True)])]


@evaluates("dynamic-update-slice")
def dynamic_update_slice(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    x, update = machine.domain.joined(args[:2])
    out = np.array(x)
    offsets = starts(args[2:], x.shape, update.shape)
    out[tuple([slice(s, s + k) for s, k in zip(offsets, update.shape, strict=True)])] = update
    return out


@evaluates("bitcast")
def bitcast(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    source, target = instruction.operands[0].shape, instruction.shape
    x = args[0]
    if not source.rank and not target.rank:
        return reinterpreted(machine.domain, x, source.element_type, target.element_type, np.shape(x))
    if is_tiled(source) or is_tiled(target):
        return _tiled_bitcast(machine, np.asarray(x), source, target)
    placed = np.ascontiguousarray(np.transpose(x, major_to_minor(source)))
    order = major_to_minor(target)
    dims = tuple([target.dimensions[d] for d in order])
    if source.element_type is not target.element_type:
        placed = reinterpreted(machine.domain, placed, source.element_type, target.element_type, dims)
    return np.transpose(placed.reshape(dims), np.argsort(order))


def _tiled_bitcast(machine: Machine, x: Array, source: Shape, target: Shape) -> Array:
    """Values are moved as they are held here, which need not be as wide as the type that they have in the program.
    Padding is zeros."""
    stored = _as_stored(source, x.dtype)
    placed: Array = tiling.pack(stored, np.asarray(x, order="C").view(stored.element_type.numpy_dtype())).view(x.dtype)
    if source.element_type is not target.element_type:
        bits = [shape.element_type.bit_width for shape in (source, target)]
        dims = (placed.size * bits[0] // bits[1],)
        grouped = placed.reshape(-1, bits[1] // bits[0]) if bits[0] < bits[1] else placed
        placed = reinterpreted(machine.domain, grouped, source.element_type, target.element_type, dims)
    stored = _as_stored(target, placed.dtype)
    buffer = np.zeros(tiling.physical_bytes(stored), np.uint8)
    given = placed.view(np.uint8)[: buffer.size]
    buffer[: given.size] = given
    return tiling.unpack(stored, buffer).view(placed.dtype)


def _as_stored(shape: Shape, dtype: np.dtype[Any]) -> Shape:
    """An array whose elements lie in the same order, and are as wide as those of `dtype`."""
    layout = shape.layout
    order = None if layout is None else Layout(layout.minor_to_major, tiles=layout.tiles)
    return Shape.array("c128" if dtype.itemsize == 16 else f"u{8 * dtype.itemsize}", shape.dimensions, order)


def is_tiled(shape: Shape) -> bool:
    """Whether the layout has tiles."""
    return shape.layout is not None and bool(shape.layout.tiles)


def major_to_minor(shape: Shape) -> list[int]:
    """The dimensions in the order of memory."""
    return list(range(shape.rank)) if shape.layout is None else list(reversed(shape.layout.minor_to_major))


@evaluates("get-dimension-size")
def get_dimension_size(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return np.array(np.shape(args[0])[instruction.details.dimensions[0]], dtype=np.int32)


@evaluates("set-dimension-size")
def set_dimension_size(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """Sets the elements beyond the dynamic size to 0."""
    x: Array = np.asarray(args[0])
    axis = instruction.details.dimensions[0]
    along: Array = np.arange(x.shape[axis]).reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    zero: Any = np.zeros((), x.dtype)
    return np.where(along < args[1], x, zero)
