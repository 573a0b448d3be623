"""Operations that take no operands: parameters, constants, iota, and the number of the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlashape.hlo.ops.attributes import required, written_only
from xlashape.hlo.ops.inference import is_number
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import Contents, Operation, exactly, rows
from xlashape.hlo.ops.verification import any_shape, check_array
from xlashape.hlo.values.plain import IOTA_DIMENSION, PARAMETER_REPLICATION
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.value.equality import compatible_shapes

__all__ = ["OPERATIONS"]


def _infer_device_number(_: xla.HloInstructionProto, _operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    return Shape.array("u32", ())


def _verify_constant(message: xla.HloInstructionProto, shape: Shape, _: Sequence[Shape]) -> str | None:
    if not message.HasField("literal"):
        return "has no literal"
    literal = Shape.from_proto(message.literal.shape)
    return None if compatible_shapes(shape, literal) else f"its shape is {shape}, its literal's {literal}"


def _verify_iota(message: xla.HloInstructionProto, shape: Shape, _: Sequence[Shape]) -> str | None:
    problem = check_array(shape, "shape")
    if not problem and not is_number(shape.element_type):
        problem = f"its elements must be numbers, found {shape}"
    dimension = message.dimensions[0] if message.dimensions else 0
    if problem or 0 <= dimension < shape.rank:
        return problem
    return f"iota_dimension={dimension} is not a dimension of {shape}"


OPERATIONS: Final = (
    Operation(
        Opcode.PARAMETER,
        operands=exactly(0),
        contents=Contents.PARAMETER_NUMBER,
        # Text may have it for any instruction; only a parameter's is written.
        attributes=(written_only(PARAMETER_REPLICATION),),
        verify=any_shape,
    ),
    Operation(Opcode.CONSTANT, operands=exactly(0), contents=Contents.LITERAL, verify=_verify_constant),
    Operation(Opcode.IOTA, operands=exactly(0), attributes=(required(IOTA_DIMENSION),), verify=_verify_iota),
    *rows((Opcode.PARTITION_ID, Opcode.REPLICA_ID), operands=exactly(0), infer=_infer_device_number),
)
