"""What shapes and modules take on a device: `size --target`. Answered by this process: sizes need nothing that only a server has."""

from __future__ import annotations

from collections.abc import Iterator

from xlashape.cli.output import one_line
from xlashape.cli.progress import progress
from xlashape.cli.rows import Row
from xlashape.errors import XlashapeError
from xlashape.hlo import HloInstruction, HloModule
from xlashape.hlo.buffers import executed_computations, instruction_buffers
from xlashape.math import checked_int64
from xlashape.memory.array_memory import ArrayMemory, array_bytes, element_bytes_of, on_target
from xlashape.memory.shape_memory import shape_memory
from xlashape.shape import Shape, Target
from xlashape_client.results import ByteTotals

__all__ = ["BufferOnTarget", "buffers_on_target", "module_on_target"]

BufferOnTarget = tuple[str, str, int]
"""The index of a buffer in the shape, the array with its layout, its bytes."""


def buffers_on_target(shape: Shape, target: Target) -> list[BufferOnTarget]:
    """The buffers of a shape on a device, tables of tuples included. Layouts without tiles are those that a TPU gives."""
    memory = shape_memory(shape, target)
    if isinstance(memory, ArrayMemory):
        return [("{}", str(memory.shape), memory.buffer_bytes)]
    return [
        (str(one.shape_index), str(one.shape if one.array is None else one.array.shape), one.buffer_bytes)
        for one in memory.elements
    ]


def module_on_target(module: HloModule, computation: str, target: Target) -> tuple[ByteTotals, list[Row]]:
    """The sums and a row for each instruction with memory of its own: what ByteSizes of the service answers, on a device."""
    executed = set(executed_computations(module))
    chosen = list(module.computation(computation).instructions if computation else module.instructions())
    known: dict[Shape, _Size] = {}
    rows: list[Row] = []
    counted = logical = physical = shared = fused = 0
    for number, instruction in enumerate(chosen):
        if not number % 64:
            progress("measuring instructions", number, len(chosen))
        if instruction.computation in executed:
            arrays = [each.shape for each in instruction_buffers(instruction)]
            shared += not arrays
        elif computation:
            arrays = [leaf for leaf in instruction.shape.leaves() if leaf.is_array or leaf.is_buffer]
        else:
            arrays = []
            fused += 1
        if arrays:
            row = _row(instruction, [_size(array, target, known) for array in arrays])
            rows.append(row)
            if row[5] is not None:
                counted, logical, physical = counted + 1, logical + row[4], physical + row[5]
    what = "the number of bytes of all instructions"
    totals = checked_int64(logical, what), checked_int64(physical, what)
    return ByteTotals(counted, *totals, totals[1] - totals[0], shared, fused), rows


_Size = tuple[Shape, int, int] | XlashapeError
"""The array with its layout, the bytes of its elements and of its buffer; or why they are not known."""


def _size(array: Shape, target: Target, known: dict[Shape, _Size]) -> _Size:
    if array not in known:
        try:
            placed = on_target(array, target)
            known[array] = placed, element_bytes_of(placed), array_bytes(placed, target)
        except XlashapeError as error:
            known[array] = error
    return known[array]


def _row(instruction: HloInstruction, sizes: list[_Size]) -> Row:
    who = (instruction.name, instruction.computation.name, str(instruction.opcode))
    sized = [size for size in sizes if not isinstance(size, XlashapeError)]
    if len(sized) < len(sizes):
        reason = next(one_line(size) for size in sizes if isinstance(size, XlashapeError))
        return (*who, str(instruction.shape), None, None, None, None, reason)
    logical, physical = sum([size[1] for size in sized]), sum([size[2] for size in sized])
    # Of a tuple the arrays that have memory, as they lie in it.
    shape = str(sized[0][0]) if len(sized) == 1 else f"({', '.join(_texts(sized))})"
    return (
        *who,
        shape,
        logical,
        physical,
        physical - logical,
        (physical - logical) / physical if physical else 0.0,
        None,
    )


def _texts(sized: list[tuple[Shape, int, int]]) -> Iterator[str]:
    for shape, _, _ in sized:
        yield str(shape)
