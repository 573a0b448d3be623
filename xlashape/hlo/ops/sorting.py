"""sort and topk."""

from __future__ import annotations

from typing import Final

from xlashape.hlo.ops.attributes import optional, required
from xlashape.hlo.ops.calls import TO_APPLY, TO_APPLY_WRITTEN_ONLY
from xlashape.hlo.ops.inference import array, exactly_one_dimension
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import FIELDS, CannotInfer, Given, Operation, Result, at_least, exactly
from xlashape.hlo.ops.verification import check_one_call, check_parameters, check_predicate, check_shape
from xlashape.hlo.values.plain import DIMENSIONS, IS_STABLE, LARGEST, TOPK_IS_STABLE, K
from xlashape.shape import PrimitiveType, Shape


def _infer_sort(given: Given) -> Shape:
    operands = given.operands
    if not operands:
        raise CannotInfer("it needs operands")
    return operands[0] if len(operands) == 1 else Shape.tuple(operands)


def _verify_sort(result: Result) -> str | None:
    operands = result.operands
    expected = _infer_sort(result)
    for dim in result.message.dimensions:
        if not -operands[0].rank <= dim < operands[0].rank:
            return f"dimensions={{{dim}}} must be a dimension of its operand, {operands[0]}"
    return check_shape(result.shape, expected)


def _verify_comparator(result: Result) -> str | None:
    problem = check_one_call(result.parameters)
    if problem:
        return problem
    # Two elements of each operand are compared.
    scalars = [
        Shape.array(operand.element_type, ()) for operand in result.operands if operand.is_array for _side in range(2)
    ]
    return check_parameters(scalars, result.parameters[0], "element") or check_predicate(
        result.results[0], "comparator"
    )


def _infer_topk(given: Given) -> Shape:
    message = given.message
    shape = array(given.operands[0])
    if not shape.rank or not 0 <= message.k <= shape.dimensions[-1]:
        raise CannotInfer(f"k={message.k} does not fit the last dimension of {shape}")
    sizes = [*shape.dimensions[:-1], message.k]
    return Shape.tuple([Shape.array(element_type, sizes) for element_type in (shape.element_type, PrimitiveType.S32)])


OPERATIONS: Final = (
    Operation(
        Opcode.SORT,
        operands=at_least(0),
        attributes=(required(DIMENSIONS, exactly_one_dimension), optional(IS_STABLE)),
        calls=TO_APPLY,
        infer=_infer_sort,
        verify=_verify_sort,
        verify_calls=_verify_comparator,
    ),
    Operation(
        Opcode.TOPK,
        operands=exactly(1),
        attributes=(
            required(K),
            optional(LARGEST, default=FIELDS.integer("largest", 1)),
            optional(TOPK_IS_STABLE, default=FIELDS.integer("is_stable", 1)),
        ),
        calls=TO_APPLY_WRITTEN_ONLY,
        infer=_infer_topk,
    ),
)
