"""What a called computation of two values does, such as that of a reduction, if it is one simple operation."""

from __future__ import annotations

from typing import Final

from xlashape.hlo import HloComputation, HloInstruction, Opcode

COMBINE: Final = (Opcode.ADD, Opcode.MULTIPLY, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.AND, Opcode.OR)


def simple_of(computation: HloComputation) -> tuple[str, str] | None:
    """(operation, type): the operation is one of `COMBINE` on both parameters, or `second` where the result is the
    second parameter. None for anything else. Conversions of floats, which rounding excepted change nothing, are
    skipped."""
    if len(computation.parameters) != 2:
        return None
    root = _skipped(computation.root)
    if root.opcode is Opcode.PARAMETER:
        return ("second", "") if root.number == 1 else None
    if root.opcode not in COMBINE:
        return None
    operands = [_skipped(operand) for operand in root.operands]
    if {(o.opcode, o.number) for o in operands} != {(Opcode.PARAMETER, 0), (Opcode.PARAMETER, 1)}:
        return None
    return str(root.opcode), root.shape.element_type.text


def _skipped(instruction: HloInstruction) -> HloInstruction:
    while instruction.opcode is Opcode.COPY or (
        instruction.opcode is Opcode.CONVERT and _is_float(instruction) and _is_float(instruction.operands[0])
    ):
        instruction = instruction.operands[0]
    return instruction


def _is_float(instruction: HloInstruction) -> bool:
    return instruction.shape.is_array and instruction.shape.element_type.is_floating
