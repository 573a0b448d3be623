"""The HTML that notebooks show for modules, computations and instructions: a table of what they hold, and sizes."""

from __future__ import annotations

from collections import Counter
from typing import Final

from xlashape.base.math import counted
from xlashape.drawing.notebook.card import card, cut, picture_of, table_of
from xlashape.drawing.notebook.shapes import size_first, size_lines
from xlashape.errors import XlashapeError
from xlashape.hlo import HloComputation, HloInstruction, HloModule

_MAX_ROWS: Final = 12
_MAX_OPCODES: Final = 8


def html(value: object) -> str | None:
    """The HTML of a module, a computation or an instruction; None for anything else."""
    if isinstance(value, HloModule):
        return _module(value)
    if isinstance(value, HloComputation):
        return _computation(value)
    if isinstance(value, HloInstruction):
        return _instruction(value)
    return None


def _module(module: HloModule) -> str:
    count = sum([len(computation) for computation in module.computations])
    opcodes = Counter([each.opcode for computation in module.computations for each in computation.instructions])
    common = ", ".join([f"{number:,} {opcode}" for opcode, number in opcodes.most_common(_MAX_OPCODES)])
    lines = [
        common + (", …" if len(opcodes) > _MAX_OPCODES else ""),
        f"entry {module.entry.name}: {_shape_text(module.entry.root)}",
    ]
    parameters = [each for each in module.entry.instructions if each.opcode == "parameter"]
    table = table_of(
        ["parameter", "shape"], [(each.name, _shape_text(each)) for each in parameters[:_MAX_ROWS]], left=range(2)
    )
    if len(parameters) > _MAX_ROWS:
        lines.append(f"the first {_MAX_ROWS} of {len(parameters):,} parameters:")
    size, words = counted(count, "instruction").split(" ")
    first = size, f"{words} in {counted(len(module.computations), 'computation')}"
    return card(f"HloModule {module.name}", lines, table=table if parameters else "", first=first)


def _computation(computation: HloComputation) -> str:
    instructions = computation.instructions
    module = computation.module
    lines = [f"{'entry of' if computation is module.entry else 'in'} module {module.name}"]
    shown = instructions[:_MAX_ROWS]
    if len(instructions) > _MAX_ROWS:
        lines.append(f"the first {_MAX_ROWS - 1} and the root:")
        shown = (*[each for each in instructions[:_MAX_ROWS] if not each.is_root][: _MAX_ROWS - 1], computation.root)
    rows = [
        (
            f"{'ROOT ' if each.is_root else ''}{each.name}",
            str(each.opcode),
            ", ".join([operand.name for operand in each.operands]),
            _shape_text(each),
        )
        for each in shown
    ]
    size, words = counted(len(instructions), "instruction").split(" ")
    return card(
        f"computation {computation.name}",
        lines,
        table=table_of(["instruction", "opcode", "operands", "shape"], rows, left=range(4)),
        first=(size, words),
    )


def _instruction(instruction: HloInstruction) -> str:
    role = "the root of" if instruction.is_root else "in"
    lines = [f"{role} {instruction.computation.name}, module {instruction.computation.module.name}"]
    picture = ""
    first: tuple[str, str] | None = None
    try:
        lines.insert(0, instruction.to_text(print_metadata=False, print_backend_config=False))
        shape = instruction.shape
        if shape.is_array or shape.is_buffer:
            array = shape.buffer_shape if shape.is_buffer else shape
            lines += size_lines(array)
            picture = picture_of(shape)
            first = size_first([array])
        elif shape.is_tuple:
            first = size_first([leaf.buffer_shape if leaf.is_buffer else leaf for leaf in shape.leaves()])
    except XlashapeError as error:
        lines.append(error.message)
    metadata = instruction.metadata
    origin = ", ".join([each for each in (metadata.op_name, metadata.source) if each])
    if origin:
        lines.append(f"from {origin}")
    users = instruction.users
    if users:
        names = ", ".join([each.name for each in users[:_MAX_ROWS]])
        lines.append(f"used by {names}{', …' if len(users) > _MAX_ROWS else ''}")
    operands = instruction.operands
    rows = [(each.name, str(each.opcode), _shape_text(each)) for each in operands[:_MAX_ROWS]]
    if len(operands) > _MAX_ROWS:
        lines.append(f"the first {_MAX_ROWS} of {len(operands):,} operands:")
    table = table_of(["operand", "opcode", "shape"], rows, left=range(3)) if rows else ""
    first = first and (first[0], f"result{first[1]}")
    return card(f"{instruction.name} ({instruction.opcode})", lines, picture, table, first=first)


def _shape_text(instruction: HloInstruction) -> str:
    try:
        return cut(str(instruction.shape), 300)
    except XlashapeError as error:
        return error.message
