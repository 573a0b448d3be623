"""Builds small HLO modules for tests, instruction by instruction, as protos.

>>> b = Builder()
>>> x = b.parameter("f32[4]")
>>> y = b.op("negate", "f32[4]", [x])
>>> b.module().entry.root.name
'main.negate.2'
"""

from __future__ import annotations

from typing import Any

from xlashape.hlo import HloInstruction, HloModule
from xlashape.proto import xla
from xlashape.shape import Shape


class Builder:
    """Builds a computation, with the builders of the computations that it calls. The builder of the entry computation
    gives all computations their ids.
    """

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.instructions: list[xla.HloInstructionProto] = []
        self.shapes: list[Shape] = []
        self.called: list[Builder] = []
        self.calls: list[list[Builder]] = []
        self.id = 0

    def op(
        self,
        opcode: str,
        shape: str,
        operands: list[int] | None = None,
        calls: list[Builder] | None = None,
        **fields: Any,
    ) -> int:
        number = len(self.instructions) + 1
        proto = xla.HloInstructionProto(
            name=fields.pop("name", f"{self.name}.{opcode}.{number}"),
            opcode=opcode,
            id=number,
            operand_ids=[o + 1 for o in operands or []],
            **fields,
        )
        parsed = Shape.parse(shape)
        proto.shape.CopyFrom(parsed.to_proto())
        self.instructions.append(proto)
        self.shapes.append(parsed)
        for other in calls or []:
            if other not in self.called:
                self.called.append(other)
            proto.called_computation_ids.append(0)
        self.calls.append(list(calls or []))
        return number - 1

    def parameter(self, shape: str) -> int:
        count = sum(1 for one in self.instructions if one.opcode == "parameter")
        return self.op("parameter", shape, parameter_number=count)

    def constant(self, shape: str, values: list[int]) -> int:
        parsed = Shape.parse(shape)
        kind = parsed.element_type.text
        given = bytes([each % 256 for each in values]) if kind in ("s8", "u8") else values
        literal = xla.LiteralProto(shape=parsed.to_proto(), **{f"{kind}s": given})
        return self.op("constant", shape, literal=literal)

    def text(self, number: int) -> str:
        return str(self.shapes[number])

    def module(self, root: int | None = None) -> HloModule:
        computations: list[xla.HloComputationProto] = []
        done: dict[int, int] = {}
        stack = [(self, iter(self.called))]
        while stack:
            builder, rest = stack[-1]
            following = next((one for one in rest if id(one) not in done), None)
            if following is not None:
                stack.append((following, iter(following.called)))
                continue
            stack.pop()
            if id(builder) in done:
                continue
            builder.id = done[id(builder)] = len(computations) + 1
            for proto, targets in zip(builder.instructions, builder.calls, strict=True):
                del proto.called_computation_ids[:]
                proto.called_computation_ids.extend(done[id(one)] for one in targets)
            last = len(builder.instructions) if builder is not self or root is None else root + 1
            computations.append(
                xla.HloComputationProto(
                    name=builder.name, id=builder.id, root_id=last, instructions=builder.instructions
                )
            )
        return HloModule.from_proto(
            xla.HloModuleProto(name="m", entry_computation_id=self.id, computations=computations)
        )

    def root(self, root: int | None = None) -> HloInstruction:
        module = self.module(root)
        self.kept = module
        return module.entry.root


def fused(inner: Builder, shape: str, operands: list[str], opcode: str = "fusion") -> Builder:
    """A module whose root calls `inner` with parameters."""
    builder = Builder()
    builder.op(opcode, shape, [builder.parameter(operand) for operand in operands], calls=[inner])
    return builder


def offsets(inner: Builder) -> Builder:
    """Dynamic slices of a dynamic slice: the offsets are known at run time, and the operand is read in two ways."""
    a, i, j = inner.parameter("f32[16]"), inner.parameter("s32[]"), inner.parameter("s32[]")
    half = inner.op("dynamic-slice", "f32[8]", [a, i], dynamic_slice_sizes=[8])
    p = inner.op("dynamic-slice", "f32[4]", [half, j], dynamic_slice_sizes=[4])
    q = inner.op("dynamic-slice", "f32[4]", [half, i], dynamic_slice_sizes=[4])
    inner.op("add", "f32[4]", [p, q])
    return inner


def one_op(opcode: str, shape: str, operands: list[str], **fields: Any) -> HloInstruction:
    """The root of a module that applies one operation to parameters."""
    builder = Builder()
    numbers = [builder.parameter(operand) for operand in operands]
    builder.op(opcode, shape, numbers, **fields)
    return builder.root()


def window(*dims: dict[str, int]) -> dict[str, Any]:
    """A window from {size, stride, low, high, window_dilation, base_dilation, reversal}; what is left out is 1 or 0."""
    return {
        "dimensions": [
            {
                "size": d["size"],
                "stride": d.get("stride", 1),
                "padding_low": d.get("low", 0),
                "padding_high": d.get("high", 0),
                "window_dilation": d.get("window_dilation", 1),
                "base_dilation": d.get("base_dilation", 1),
                "window_reversal": bool(d.get("reversal", 0)),
            }
            for d in dims
        ]
    }
