"""The table row (`Operation`) and the rules of custom-call, an operation that HLO itself does not define. Its attribute
`custom_call_target` names the function that implements it.
"""

from __future__ import annotations

from typing import Final

from xlashape.hlo.ops.attributes import CannotComplete, Written, optional, required, written_only
from xlashape.hlo.ops.calls import CALLED_COMPUTATIONS
from xlashape.hlo.ops.inference import DEFAULT_BATCH_GROUP_COUNT, DEFAULT_FEATURE_GROUP_COUNT, precision_of_each_operand
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import Operation, Result, at_least
from xlashape.hlo.ops.verification import check_aliasing, check_shape
from xlashape.hlo.values import plain
from xlashape.hlo.values.aliasing import OUTPUT_TO_OPERAND_ALIASING
from xlashape.hlo.values.attribute import FIELDS
from xlashape.hlo.values.dimension_numbers import DIM_LABELS_IF_ANY
from xlashape.hlo.values.enums import API_VERSION, CUSTOM_CALL_SCHEDULE, PADDING_TYPE
from xlashape.hlo.values.precision import DOT_ALGORITHM, OPERAND_PRECISION
from xlashape.hlo.values.shapes import LITERAL, OPERAND_LAYOUT_CONSTRAINTS
from xlashape.hlo.values.window import WINDOW_IF_ANY
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape


def _check_layout_constraints(written: Written) -> None:
    if not written.has("operand_layout_constraints"):
        return
    message = xla.HloInstructionProto.FromString(written.value("operand_layout_constraints"))
    operands, constraints = written.operands, message.operand_shapes_with_layout
    if len(constraints) != len(operands):
        raise CannotComplete(f"expected {len(operands)} operand layout constraints, found {len(constraints)}")
    for index, (operand, proto) in enumerate(zip(operands, constraints, strict=True)):
        constraint, bare = Shape.from_proto(proto).without_layout(), operand.without_layout()
        if constraint != bare:
            raise CannotComplete(f"operand {index} is {bare}, its layout constraint {constraint}")


_GET_SEED: Final = "GetRngSeed"
"""The target of a custom-call that returns the seed of the generator of random numbers."""


def _verify_custom_call(result: Result) -> str | None:
    if result.message.custom_call_target == _GET_SEED:
        if result.operands:
            return f"{_GET_SEED} takes no operand, found {len(result.operands)}"
        problem = check_shape(result.shape, Shape.array(PrimitiveType.U64, ()))
        if problem:
            return f"the result of {_GET_SEED} must be u64[], found {result.shape}"
    return check_aliasing(result)


OPERATIONS: Final = (
    Operation(
        Opcode.CUSTOM_CALL,
        restricts_layouts=True,
        operands=at_least(0),
        attributes=(
            optional(WINDOW_IF_ANY),
            optional(DIM_LABELS_IF_ANY),
            optional(plain.FEATURE_GROUP_COUNT, default=DEFAULT_FEATURE_GROUP_COUNT),
            optional(plain.BATCH_GROUP_COUNT, default=DEFAULT_BATCH_GROUP_COUNT),
            optional(OPERAND_PRECISION, precision_of_each_operand),
            written_only(DOT_ALGORITHM),
            optional(PADDING_TYPE),
            required(plain.CUSTOM_CALL_TARGET),
            optional(OPERAND_LAYOUT_CONSTRAINTS),
            optional(plain.CUSTOM_CALL_HAS_SIDE_EFFECT),
            optional(LITERAL),
            optional(OUTPUT_TO_OPERAND_ALIASING),
            optional(CUSTOM_CALL_SCHEDULE),
            optional(API_VERSION, default=FIELDS.integer("custom_call_api_version", xla.API_VERSION_ORIGINAL)),
        ),
        calls=CALLED_COMPUTATIONS,
        check=_check_layout_constraints,
        verify=_verify_custom_call,
        text_depends_on_operands=True,  # the text has a precision for each operand
    ),
)
