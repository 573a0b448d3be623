"""Operations on the size of a dynamic dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlashape.hlo.ops.attributes import required
from xlashape.hlo.ops.completion import exactly_one_dimension
from xlashape.hlo.ops.inference import array
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Operation, exactly
from xlashape.hlo.values.plain import DIMENSIONS
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape

__all__ = ["OPERATIONS"]


def _dimension(message: xla.HloInstructionProto, shape: Shape) -> int:
    dim = message.dimensions[0] if message.dimensions else 0
    if not 0 <= dim < shape.rank:
        raise CannotInfer(f"{shape} has no dimension {dim}")
    return dim


def _infer_get(message: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    _dimension(message, array(operands[0]))
    return Shape.array("s32", ())


def _verify_get(message: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    _dimension(message, array(operands[0]))
    # XLA of 2019, which TensorFlow 1.15 has, gave u32.
    if shape.is_scalar and shape.element_type in (PrimitiveType.S32, PrimitiveType.U32):
        return None
    return f"its shape must be s32[], or u32[] as older versions of XLA had it, found {shape}"


def _infer_set(message: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    shape, size = array(operands[0]), array(operands[1])
    dim = _dimension(message, shape)
    if size.element_type != PrimitiveType.S32 or size.rank:
        raise CannotInfer(f"the size must be a scalar s32, found {size}")
    dynamic = [is_dynamic or index == dim for index, is_dynamic in enumerate(shape.dynamic_dimensions)]
    return Shape(shape.element_type, shape.dimensions, dynamic, shape.layout)


_ATTRIBUTES = (required(DIMENSIONS, exactly_one_dimension),)

OPERATIONS: Final = (
    Operation(
        Opcode.GET_DIMENSION_SIZE, operands=exactly(1), attributes=_ATTRIBUTES, infer=_infer_get, verify=_verify_get
    ),
    Operation(Opcode.SET_DIMENSION_SIZE, operands=exactly(2), attributes=_ATTRIBUTES, infer=_infer_set),
)
