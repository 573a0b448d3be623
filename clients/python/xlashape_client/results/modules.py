"""Results of HloService."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import NamedTuple

from xlashape.proto import v1
from xlashape.shape import Shape

__all__ = ["ByteTotals", "Instruction", "InstructionSize", "Module"]


class Module(NamedTuple):
    """A module that the server keeps. Requests refer to it by `name`; `format` is "hlo_module_proto", "hlo_proto" or "text"."""

    name: str
    size_bytes: int
    format: str
    module_name: str
    entry_computation: str
    computation_count: int
    instruction_count: int
    create_time: datetime
    expire_time: datetime

    @classmethod
    def of(cls, message: v1.Module) -> Module:
        """Converts the message. Times are in UTC."""
        return cls(
            message.name,
            message.size_bytes,
            v1.ModuleFormat.Name(message.format).removeprefix("MODULE_FORMAT_").lower()
            if message.format in v1.ModuleFormat.values()
            else "",
            message.module_name,
            message.entry_computation,
            message.computation_count,
            message.instruction_count,
            message.create_time.ToDatetime(timezone.utc),
            message.expire_time.ToDatetime(timezone.utc),
        )


class Instruction(NamedTuple):
    """An instruction, without the attributes of its opcode. `parameter_number` is None unless it is a parameter."""

    name: str
    id: int
    opcode: str
    shape: Shape
    computation: str
    is_root: bool
    operands: tuple[str, ...]
    called_computations: tuple[str, ...]
    parameter_number: int | None
    op_name: str

    @classmethod
    def of(cls, message: v1.Instruction) -> Instruction:
        """Converts the message."""
        return cls(
            message.name,
            message.id,
            message.opcode,
            Shape.parse(message.shape),
            message.computation,
            message.is_root,
            tuple(message.operands),
            tuple(message.called_computations),
            message.parameter_number if message.HasField("parameter_number") else None,
            message.op_name,
        )


class InstructionSize(NamedTuple):
    """The bytes of an instruction's result. They are None if a dynamic dimension has no bound."""

    instruction: str
    id: int
    opcode: str
    computation: str
    shape: Shape
    logical_bytes: int | None
    physical_bytes: int | None
    padding_bytes: int | None

    @classmethod
    def of(cls, message: v1.InstructionSize) -> InstructionSize:
        """Converts the message."""
        known = message.HasField("physical_bytes")
        return cls(
            message.instruction,
            message.id,
            message.opcode,
            message.computation,
            Shape.parse(message.shape),
            message.logical_bytes if known else None,
            message.physical_bytes if known else None,
            message.padding_bytes if known else None,
        )


class ByteTotals(NamedTuple):
    """Sums over the instructions whose result has memory of its own, and the numbers of other instructions."""

    instruction_count: int
    logical_bytes: int
    physical_bytes: int
    padding_bytes: int
    shared_instruction_count: int = 0
    """The number of instructions whose result shares buffers of others: tuples and their elements, bitcasts, loops, branches, calls, …"""
    fused_instruction_count: int = 0
    """The number of instructions that are fused or applied to elements."""

    @classmethod
    def of(cls, message: v1.ByteTotals) -> ByteTotals:
        """Converts the message."""
        return cls(
            message.instruction_count,
            message.logical_bytes,
            message.physical_bytes,
            message.padding_bytes,
            message.shared_instruction_count,
            message.fused_instruction_count,
        )
