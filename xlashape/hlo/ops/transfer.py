"""Table rows (`Operation`) and rules of transfers to and from the host and other devices: infeed, outfeed, send and
recv. The functions `_sent`, `_being_received`, `_fed` and `_received` give the shapes of send, recv, infeed and
recv-done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlashape.hlo.ops.attributes import Written, optional
from xlashape.hlo.ops.exchange import RECV, SEND
from xlashape.hlo.ops.inference import token_shape
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Operation, Result, ResultSource, Same, exactly
from xlashape.hlo.ops.verification import check_shape, check_token
from xlashape.hlo.values.attribute import FIELDS
from xlashape.hlo.values.plain import CHANNEL_ID, INFEED_CONFIG, IS_HOST_TRANSFER, OUTFEED_CONFIG
from xlashape.hlo.values.shapes import OUTFEED_SHAPE
from xlashape.shape import Shape
from xlashape.shape.value.shape import compatible_shapes


def _outfeed_shape(written: Written, value: bytes | None) -> bytes:
    return FIELDS.message("outfeed_shape", written.operands[0].to_proto()) if value is None else value


_CONTEXT = Shape.array("u32", ()).with_default_layout()


def _sent(_written: Shape, operands: Sequence[Shape]) -> Shape:
    return Shape.tuple([operands[0], _CONTEXT, Shape.token()])


def _of_data(opcode: Opcode, written: Shape) -> Shape:
    """The shape of the received data: the first element of the shape that text has, a tuple."""
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


def _verify_infeed(result: Result) -> str | None:
    parts = result.shape.tuple_shapes
    if len(parts) != 2 or not parts[1].is_token:
        return f"its shape must be a tuple of the data and a token, found {result.shape}"
    return check_token(result.operands, 0)


def _verify_outfeed(result: Result) -> str | None:
    operands = result.operands
    problem = check_shape(result.shape, Shape.token()) or check_token(operands, 1)
    fed = Shape.from_proto(result.message.outfeed_shape)
    if problem or compatible_shapes(fed, operands[0]):
        return problem
    return f"its outfeed_shape is {fed}, its operand {operands[0]}"


def _verify_send(result: Result) -> str | None:
    # XLA does not check that the second operand is the token.
    return check_shape(result.shape, _sent(result.shape, result.operands))


def _verify_recv(result: Result) -> str | None:
    parts = result.shape.tuple_shapes
    if len(parts) != 3 or not parts[2].is_token or not parts[1].is_scalar:
        return f"its shape must be a tuple of the data, u32[] and a token, found {result.shape}"
    return None  # XLA does not check that its operand is a token


_CHANNEL = (optional(CHANNEL_ID), optional(IS_HOST_TRANSFER))

OPERATIONS: Final = (
    Operation(
        Opcode.INFEED,
        operands=exactly(1),
        attributes=(optional(INFEED_CONFIG),),
        fixed_shape=_fed,
        verify=_verify_infeed,
        has_effect=True,
    ),
    Operation(
        Opcode.OUTFEED,
        operands=exactly(2),
        attributes=(optional(OUTFEED_SHAPE, _outfeed_shape), optional(OUTFEED_CONFIG)),
        fixed_shape=token_shape,
        verify=_verify_outfeed,
        has_effect=True,
    ),
    Operation(
        Opcode.SEND,
        operands=exactly(2),
        attributes=_CHANNEL,
        fixed_shape=_sent,
        verify=_verify_send,
        repeated_operand=0,
        begins_asynchronously=True,
        has_effect=True,
        exchange=SEND,
    ),
    Operation(
        Opcode.SEND_DONE,
        operands=exactly(1),
        attributes=_CHANNEL,
        fixed_shape=token_shape,
        ends_a_start=True,
        has_effect=True,
    ),
    Operation(
        Opcode.RECV,
        operands=exactly(1),
        attributes=_CHANNEL,
        fixed_shape=_being_received,
        verify=_verify_recv,
        begins_asynchronously=True,
        has_effect=True,
        exchange=RECV,
    ),
    Operation(
        Opcode.RECV_DONE,
        operands=exactly(1),
        attributes=_CHANNEL,
        fixed_shape=_received,
        source=ResultSource.OPERAND,
        same=Same((0,), (0,)),
        ends_a_start=True,
        has_effect=True,
    ),
)
