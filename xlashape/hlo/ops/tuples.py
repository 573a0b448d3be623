"""Tuples and their elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlashape.hlo.ops.attributes import CannotComplete, Written, required
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Operation, at_least, exactly
from xlashape.hlo.values.plain import INDEX
from xlashape.proto import xla
from xlashape.shape import Shape

__all__ = ["OPERATIONS"]


def _check_tuple(written: Written) -> None:
    shape, count = written.shape, len(written.operands)
    if shape is not None and shape.is_tuple and len(shape.tuple_shapes) != count:
        raise CannotComplete(f"a tuple of {len(shape.tuple_shapes)} elements needs as many operands, found {count}")


def _infer_tuple(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    return Shape.tuple(operands)


def _infer_element(message: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    parts = operands[0].tuple_shapes
    if not operands[0].is_tuple or not 0 <= message.tuple_index < len(parts):
        raise CannotInfer(f"{operands[0]} has no element {message.tuple_index}")
    return parts[message.tuple_index]


OPERATIONS: Final = (
    Operation(Opcode.TUPLE, operands=at_least(0), check=_check_tuple, infer=_infer_tuple, moves_no_data=True),
    Operation(
        Opcode.GET_TUPLE_ELEMENT,
        operands=exactly(1),
        attributes=(required(INDEX),),
        infer=_infer_element,
        moves_no_data=True,
    ),
)
