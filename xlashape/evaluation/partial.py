"""Values at some indices: what they are computed from, as the indexing maps say, and their evaluation from that alone.

A grid has the indices along each dimension, in ascending order: the elements of all combinations of them.
"""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np

from xlashape.evaluation.machine import Array, Machine, Spread
from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.ops.operation import ReadPattern
from xlashape.indexing import output_to_input
from xlashape.shape import Shape
from xlashape.symbolic import IndexingMap
from xlashape.symbolic.expr.expression import variables_of

Grid: TypeAlias = "tuple[Array, ...]"

_OF_PARTS: Final = (Opcode.CONCATENATE, Opcode.DOT, Opcode.REDUCE)
"""Their functions give the elements at a grid where the operands have those that these read."""


def every(shape: Shape) -> Grid:
    """The grid of all elements."""
    return tuple([np.arange(n) for n in shape.dimensions]) if shape.is_array else ()


def size(grid: Grid) -> int:
    """The elements at a grid."""
    return int(np.prod([len(along) for along in grid], dtype=np.int64))


def joined(grids: Sequence[Grid]) -> Grid:
    """The least grid that has all elements of grids."""
    return tuple(
        [
            along[0]
            if all(each is along[0] for each in along)
            else _sorted(np.concatenate(along), int(max(a[-1] for a in along if a.size)) + 1)
            for along in zip(*grids, strict=True)
        ]
    )


def _sorted(indices: Array, count: int) -> Array:
    """The indices, of which there are `count` in the dimension, once each."""
    held = np.zeros(count, bool)
    held[indices.ravel()] = True
    return np.flatnonzero(held)


def _places(held: Array, indices: Array) -> Array:
    """The places of indices among those that are held."""
    table = np.zeros(int(held[-1]) + 1 if held.size else 1, np.int64)
    table[held] = np.arange(len(held))
    return table[indices]


def taken(x: Array, held: Grid, grid: Grid) -> Array:
    """The elements at a grid of an array that has those of a larger one."""
    if all(len(one) == len(other) for one, other in zip(held, grid, strict=True)):
        return x
    return np.asarray(x)[np.ix_(*[_places(one, other) for one, other in zip(held, grid, strict=True)])]


def reads(instruction: HloInstruction, grid: Grid) -> list[Grid] | None:
    """For each operand the elements from which those at a grid of the result are computed. None if all are needed."""
    shape, operands = instruction.shape, [operand.shape for operand in instruction.operands]
    if not shape.is_array or not operands or not all(operand.is_array for operand in operands):
        return None
    if size(grid) == size(every(shape)):
        return None
    if instruction.kind.row.reads is ReadPattern.SAME:
        if any(operand.rank and operand.dimensions != shape.dimensions for operand in operands):
            return None
        return [grid if operand.rank else () for operand in operands]
    if instruction.opcode in _OF_PARTS:
        return [_read(m, grid, operand) for m, operand in zip(_maps(instruction), operands, strict=True)]
    along = _kept_along(instruction)
    if along is not None:
        return [
            tuple([grid[d] if d is not None else whole for d, whole in zip(dims, every(operand), strict=True)])
            for dims, operand in zip(along, operands, strict=True)
        ]
    moved = _moved(instruction)
    return None if moved is None else [_read(moved, grid, operands[0])]


def _kept_along(instruction: HloInstruction) -> list[Sequence[int | None]] | None:
    """For each operand and each of its dimensions the dimension of the result along which an index of one takes only
    the same index of the other, or None if there is none: dimensions that windows span, and batches. The result of None
    is that of other operations, and where there is no such dimension."""
    opcode, details, shape = instruction.opcode, instruction.details, instruction.shape
    found: list[Sequence[int | None]]
    sizes = [operand.shape.dimensions for operand in instruction.operands]
    if opcode is Opcode.DYNAMIC_SLICE:
        found = [[d if n == m else None for d, (n, m) in enumerate(zip(sizes[0], shape.dimensions, strict=True))]]
    elif opcode is Opcode.DYNAMIC_UPDATE_SLICE:
        found = [[d if n == m else None for d, (n, m) in enumerate(zip(*sizes[:2], strict=True))]] * 2
    elif opcode is Opcode.GATHER:
        n = details.gather_dimension_numbers
        batches = [d for d in range(shape.rank) if d not in n.offset_dims]
        windows = [d for d in range(len(sizes[0])) if d not in (*n.collapsed_slice_dims, *n.operand_batching_dims)]
        spanned = {
            d: o for d, o in zip(windows, n.offset_dims, strict=True) if details.gather_slice_sizes[d] == sizes[0][d]
        }
        of_indices = _of_indices(sizes[1], n.index_vector_dim, batches)
        pairs = zip(n.operand_batching_dims, n.start_indices_batching_dims, strict=True)
        spanned |= {d: b for d, i in pairs if (b := of_indices[i]) is not None}
        found = [[spanned.get(d) for d in range(len(sizes[0]))], of_indices]
    elif opcode is Opcode.SCATTER and len(sizes) == 3:
        n = details.scatter_dimension_numbers
        batches = [d for d in range(len(sizes[2])) if d not in n.update_window_dims]
        windows = [d for d in range(shape.rank) if d not in (*n.inserted_window_dims, *n.input_batching_dims)]
        pairs = zip(windows, n.update_window_dims, strict=True)
        of_updates = {u: d for d, u in pairs if sizes[0][d] == sizes[2][u]}
        of_indices: list[int | None] = [None] * len(sizes[1])
        places = _of_indices(sizes[1], n.index_vector_dim, batches)
        for d, i in zip(n.input_batching_dims, n.scatter_indices_batching_dims, strict=True):
            of_indices[i] = d
            of_updates |= {u: d for u in [places[i]] if u is not None}
        kept = set(of_updates.values())
        found = [
            [d if d in kept else None for d in range(shape.rank)],
            of_indices,
            [of_updates.get(u) for u in range(len(sizes[2]))],
        ]
    else:
        return None
    found += [[None] * len(dims) for dims in sizes[len(found) :]]
    return found if any(d is not None for dims in found for d in dims) else None


def _of_indices(sizes: Sequence[int], vector_dim: int, batches: Sequence[int]) -> list[int | None]:
    """The batch dimension that each dimension of indices is."""
    found: list[int | None] = []
    left = iter(batches)
    for d in range(len(sizes)):
        found.append(None if d == vector_dim else next(left))
    return found


def _maps(instruction: HloInstruction) -> list[IndexingMap | None]:
    """The map of each operand, if one map says what is read."""
    found = output_to_input(instruction)
    return [each[0].map if len(each) == 1 and not each[0].map.is_undefined else None for each in found]


def _moved(instruction: HloInstruction) -> IndexingMap | None:
    """The map of an operation that moves the elements of its only operand to places that do not depend on data."""
    if len(instruction.operands) != 1 or instruction.kind.row.reads is ReadPattern.ANY:
        return None
    (found,) = _maps(instruction)
    return found if found is not None and not found.ranges and not found.runtime else None


def _sources(reading: IndexingMap, grid: Grid) -> list[tuple[Array, Array]]:
    """For each dimension of what is read the indices of elements, and where the map has any. A result that does not
    depend on a dimension has one index along it."""
    dims = reading.variable_expressions()[0]
    bound = variables_of([expr for expr, _ in reading.constraints])
    # A dimension of which only a part is in the domain.
    bound |= {
        d
        for d, var, n in zip(dims, reading.dims, grid, strict=True)
        if n.size and not (var.bounds.lower <= n[0] and n[-1] <= var.bounds.upper)
    }
    found: list[tuple[Array, Array]] = []
    for number, result in enumerate(reading.results):
        used = variables_of([result]) | bound
        some = [along if d in used else along[:1] for d, along in zip(dims, grid, strict=True)]
        sizes = [len(along) for along in some]
        points = np.stack(np.meshgrid(*some, indexing="ij"), -1).reshape(-1, len(some)) if some else np.zeros((1, 0))
        results, inside = reading.evaluate_batch(points.astype(np.int64))
        found.append((results[:, number].reshape(sizes), inside.reshape(sizes)))
    return found


def _read(reading: IndexingMap | None, grid: Grid, operand: Shape) -> Grid:
    whole = every(operand)
    if reading is None or reading.runtime:
        return whole
    dims, sources = reading.variable_expressions()[0], None
    found: list[Array] = []
    for number, result in enumerate(reading.results):
        if result in dims:
            along, var = grid[dims.index(result)], reading.dims[dims.index(result)]
            found.append(along[(along >= var.bounds.lower) & (along <= var.bounds.upper)])
        elif reading.ranges:
            found.append(whole[number])
        else:
            sources = sources or _sources(reading, grid)
            at, inside = sources[number]
            found.append(_sorted(at[inside], len(whole[number])))
    return tuple(found)


def apply_at(
    machine: Machine, instruction: HloInstruction, operands: list[Spread], held: list[Grid], grid: Grid
) -> Spread:
    """The elements of the result at a grid, from those of the operands at the grids `held`, which have those that
    `reads` gives."""
    if instruction.kind.row.reads is ReadPattern.SAME or instruction.opcode in _OF_PARTS:
        return machine.apply(instruction, operands)
    along = _kept_along(instruction)
    if along is not None:
        kept = {d for dims in along for d in dims}
        computed = tuple(
            [at if d in kept else n for d, (at, n) in enumerate(zip(grid, every(instruction.shape), strict=True))]
        )
        return [taken(np.asarray(x), computed, grid) for x in machine.apply(instruction, operands)]
    moved = _moved(instruction)
    assert moved is not None
    places = tuple([_places(along, at) for along, (at, _) in zip(held[0], _sources(moved, grid), strict=True)])
    sizes = [len(along) for along in grid]
    return [np.broadcast_to(np.asarray(x)[places], sizes) for x in operands[0]]
