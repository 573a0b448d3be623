"""Random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlashape.hlo.ops.attributes import required
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import Operation, at_least, exactly
from xlashape.hlo.values.enums import DISTRIBUTION, RNG_ALGORITHM
from xlashape.hlo.values.plain import DELTA
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape
from xlashape.shape.value.equality import compatible_shapes

__all__ = ["OPERATIONS"]


def _verify_rng(message: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    if len(operands) != 2:
        return f"rng takes 2 operands, found {len(operands)}"
    for operand in operands:
        if not operand.is_scalar or operand.element_type != shape.element_type:
            return f"its operands must be scalars of its element type, {shape.element_type}, found {operand}"
    if message.distribution == xla.RNG_NORMAL and not shape.element_type.is_floating:
        return f"normally distributed numbers must be floating, found {shape}"
    return None


def _verify_bit_generator(_: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    if not shape.is_tuple or len(shape.tuple_shapes) != 2:
        return None  # the bits alone
    state = shape.tuple_shapes[0]
    return None if compatible_shapes(state, operands[0]) else f"its state is {operands[0]}, its result has {state}"


def _verify_state(_: xla.HloInstructionProto, shape: Shape, _operands: Sequence[Shape]) -> str | None:
    # Modules of older versions of XLA have one number.
    if shape.is_array and shape.element_type == PrimitiveType.U64 and shape.dimensions in ((2,), (1,)):
        return None
    return f"its shape must be u64[2], found {shape}"


OPERATIONS: Final = (
    Operation(Opcode.RNG, operands=at_least(0), attributes=(required(DISTRIBUTION),), verify=_verify_rng),
    Operation(
        Opcode.RNG_BIT_GENERATOR,
        operands=exactly(1),
        attributes=(required(RNG_ALGORITHM),),
        verify=_verify_bit_generator,
    ),
    Operation(
        Opcode.RNG_GET_AND_UPDATE_STATE, operands=exactly(0), attributes=(required(DELTA),), verify=_verify_state
    ),
)
