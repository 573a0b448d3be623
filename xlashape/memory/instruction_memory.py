"""Explains the memory of the result of an instruction, and whether it has memory of its own."""

from __future__ import annotations

from typing import Any

from xlashape.frozen import set_field
from xlashape.hlo.buffers import executed_computations, instruction_buffers, taken_over
from xlashape.hlo.module import HloInstruction
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.registry import operation_of
from xlashape.memory.answer import MemoryAnswer
from xlashape.memory.array_memory import ArrayMemory
from xlashape.memory.buffer_table import BUFFER_COLUMNS
from xlashape.memory.parts import Cause, Suggestion
from xlashape.memory.shape_memory import TupleMemory, shape_memory
from xlashape.shape import Target
from xlashape.tables import Table

__all__ = ["InstructionMemory", "instruction_memory"]


class InstructionMemory(MemoryAnswer):
    """Why the result of an instruction takes as much memory as it does."""

    __slots__ = _fields = ("name", "opcode", "computation", "note", "result")

    name: str
    opcode: str
    computation: str
    note: str
    """The reason if the result has no memory of its own; else empty."""
    result: ArrayMemory | TupleMemory

    def __init__(self, name: str, opcode: str, computation: str, note: str, result: ArrayMemory | TupleMemory) -> None:
        set_field(self, "name", name)
        set_field(self, "opcode", opcode)
        set_field(self, "computation", computation)
        set_field(self, "note", note)
        set_field(self, "result", result)

    @property
    def element_bytes(self) -> int:
        """The bytes of the elements of the result."""
        return self.result.element_bytes

    @property
    def buffer_bytes(self) -> int:
        """The bytes of the buffers of the result."""
        return self.result.buffer_bytes

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes of the result's size."""
        return self.result.causes

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """Changes that would make the result smaller, if it is an array."""
        return self.result.suggestions if isinstance(self.result, ArrayMemory) else ()

    def to_dict(self) -> dict[str, Any]:
        """The explanation as a dict for JSON. Sizes are in bytes."""
        return {
            "kind": "instruction",
            "name": self.name,
            "opcode": self.opcode,
            "computation": self.computation,
            "note": self.note,
            "element_bytes": self.element_bytes,
            "buffer_bytes": self.buffer_bytes,
            "overhead_bytes": self.overhead_bytes,
            "factor": self.factor,
            "result": self.result.to_dict(),
        }

    def table(self) -> Table:
        """A row for each buffer of the result."""
        head = (self.name, self.computation, self.opcode)
        names = [column.name for column in BUFFER_COLUMNS]
        return Table(BUFFER_COLUMNS, [(*head, *[row[name] for name in names[3:]]) for row in self.result.table()])

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.opcode}, in {self.computation})"]
        lines += [f"  {self.note}"] if self.note else []
        return "\n".join([*lines, str(self.result)])


def instruction_memory(instruction: HloInstruction, target: Target | None = None) -> InstructionMemory:
    """Why the result of an instruction takes as much memory as it does. Errors as in `tiling.physical_bytes`.

    >>> from xlashape.hlo import HloModule
    >>> text = "HloModule m ENTRY e { p = f32[3,5]{1,0:T(2,2)} parameter(0) ROOT b = f32[15] bitcast(p) }"
    >>> module = HloModule.parse(text)
    >>> instruction_memory(module.instruction("p")).factor, instruction_memory(module.instruction("b")).note
    (1.6, 'its result has no memory of its own: the bitcast shares the buffer of its operand')
    """
    return InstructionMemory(
        instruction.name,
        str(instruction.opcode),
        instruction.computation.name,
        _note(instruction),
        shape_memory(instruction.shape, target),
    )


def _note(instruction: HloInstruction) -> str:
    if instruction.computation not in executed_computations(instruction.computation.module):
        return f"its result has no memory of its own: {instruction.computation.name} is fused or applied to elements"
    own = instruction_buffers(instruction)
    taken = taken_over(instruction.computation.module)
    names = [each.parameter_text for (by, _), each in taken.items() if by == instruction]
    if own and not names:
        return ""
    if names:
        what = f"{len(names)} of its {len(own) + len(names)} arrays are" if own else "it is"
        return f"{what} computed into the memory of {', '.join(names[:8])}{', …' if len(names) > 8 else ''}, which the caller may give away"
    leaves = instruction.shape.leaves() if instruction.shape.is_tuple else (instruction.shape,)
    if not any(leaf.is_array or leaf.is_buffer for leaf in leaves):
        return "its result has no memory of its own: it holds no array"
    opcode = instruction.opcode
    if opcode == Opcode.PARAMETER:
        return "its result has no memory of its own: it shares the caller's buffer"
    if operation_of(instruction.proto.opcode).runs_called_instructions:
        return f"its result has no memory of its own: the {opcode} shares buffers of what it calls"
    return f"its result has no memory of its own: the {opcode} shares the buffer of its operand"
