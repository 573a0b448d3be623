"""What HloService answers."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import NamedTuple

from xlashape.proto import v1
from xlashape.shape import Shape

__all__ = ["ByteTotals", "Instruction", "InstructionSize", "Module"]


class Module(NamedTuple):
    """A module that the server keeps. `name` is what requests call it by; `format` is "hlo_module_proto", "hlo_proto" or "text"."""

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
    def of(cls, one: v1.Module) -> Module:
        """From the message. Times are in UTC."""
        return cls(
            one.name,
            one.size_bytes,
            v1.ModuleFormat.Name(one.format).removeprefix("MODULE_FORMAT_").lower()
            if one.format in v1.ModuleFormat.values()
            else "",
            one.module_name,
            one.entry_computation,
            one.computation_count,
            one.instruction_count,
            one.create_time.ToDatetime(timezone.utc),
            one.expire_time.ToDatetime(timezone.utc),
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
    def of(cls, one: v1.Instruction) -> Instruction:
        """From the message."""
        return cls(
            one.name,
            one.id,
            one.opcode,
            Shape.parse(one.shape),
            one.computation,
            one.is_root,
            tuple(one.operands),
            tuple(one.called_computations),
            one.parameter_number if one.HasField("parameter_number") else None,
            one.op_name,
        )


class InstructionSize(NamedTuple):
    """The bytes of an instruction's result; None each where a dynamic dimension has no bound."""

    instruction: str
    id: int
    opcode: str
    computation: str
    shape: Shape
    logical_bytes: int | None
    physical_bytes: int | None
    padding_bytes: int | None

    @classmethod
    def of(cls, one: v1.InstructionSize) -> InstructionSize:
        """From the message."""
        known = one.HasField("physical_bytes")
        return cls(
            one.instruction,
            one.id,
            one.opcode,
            one.computation,
            Shape.parse(one.shape),
            one.logical_bytes if known else None,
            one.physical_bytes if known else None,
            one.padding_bytes if known else None,
        )


class ByteTotals(NamedTuple):
    """Sums over the instructions whose result is an array."""

    instruction_count: int
    logical_bytes: int
    physical_bytes: int
    padding_bytes: int

    @classmethod
    def of(cls, one: v1.ByteTotals) -> ByteTotals:
        """From the message."""
        return cls(one.instruction_count, one.logical_bytes, one.physical_bytes, one.padding_bytes)
