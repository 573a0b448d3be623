"""Transfers to and from the host and other devices: infeed, outfeed, send, recv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlashape.hlo.ops.attributes import Written, optional
from xlashape.hlo.ops.inference import token_shape
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import FIELDS, CannotInfer, Operation, exactly
from xlashape.hlo.ops.verification import any_shape
from xlashape.hlo.values.plain import CHANNEL_ID, INFEED_CONFIG, IS_HOST_TRANSFER, OUTFEED_CONFIG
from xlashape.hlo.values.shapes import OUTFEED_SHAPE
from xlashape.shape import Shape

__all__ = ["OPERATIONS"]


def _outfeed_shape(written: Written, value: bytes | None) -> bytes:
    return FIELDS.message("outfeed_shape", written.operands[0].to_proto()) if value is None else value


_CONTEXT = Shape.array("u32", ()).with_default_layout()


def _sent(_written: Shape, operands: Sequence[Shape]) -> Shape:
    return Shape.tuple([operands[0], _CONTEXT, Shape.token()])


def _of_data(opcode: Opcode, written: Shape) -> Shape:
    """What the first element of a written tuple is: the data that is received."""
    if not written.tuple_shapes:
        raise CannotInfer(f"the shape of {opcode} must be a tuple of the data and more, found {written}")
    return written.tuple_shapes[0]


def _being_received(written: Shape, _operands: Sequence[Shape]) -> Shape:
    return Shape.tuple([_of_data(Opcode.RECV, written), _CONTEXT, Shape.token()])


def _fed(written: Shape, _operands: Sequence[Shape]) -> Shape:
    return Shape.tuple([_of_data(Opcode.INFEED, written), Shape.token()])


def _received(_written: Shape, operands: Sequence[Shape]) -> Shape:
    parts = operands[0].tuple_shapes
    if not parts:
        raise CannotInfer(f"recv-done takes the result of a recv, found {operands[0]}")
    return Shape.tuple([parts[0], Shape.token()])


_CHANNEL = (optional(CHANNEL_ID), optional(IS_HOST_TRANSFER))

OPERATIONS: Final = (
    Operation(
        Opcode.INFEED,
        operands=exactly(1),
        attributes=(optional(INFEED_CONFIG),),
        fixed_shape=_fed,
        verify=any_shape,
    ),
    Operation(
        Opcode.OUTFEED,
        operands=exactly(2),
        attributes=(optional(OUTFEED_SHAPE, _outfeed_shape), optional(OUTFEED_CONFIG)),
        fixed_shape=token_shape,
    ),
    Operation(Opcode.SEND, operands=exactly(2), attributes=_CHANNEL, fixed_shape=_sent),
    Operation(Opcode.SEND_DONE, operands=exactly(1), attributes=_CHANNEL, fixed_shape=token_shape),
    Operation(Opcode.RECV, operands=exactly(1), attributes=_CHANNEL, fixed_shape=_being_received),
    Operation(Opcode.RECV_DONE, operands=exactly(1), attributes=_CHANNEL, fixed_shape=_received),
)
