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
            _sorted(np.concatenate(along), int(max(a[-1] for a in along if a.size)) + 1)
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
    moved = _moved(instruction)
    return None if moved is None else [_read(moved, grid, operands[0])]


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
    moved = _moved(instruction)
    assert moved is not None
    places = tuple([_places(along, at) for along, (at, _) in zip(held[0], _sources(moved, grid), strict=True)])
    sizes = [len(along) for along in grid]
    return [np.broadcast_to(np.asarray(x)[places], sizes) for x in operands[0]]
