"""Table rows (`Operation`) and rules of control flow (calls, fusions, loops, branches), of operations that only order
instructions (dependencies, barriers, domains), and of tuples.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from xlashape.hlo.ops import verification
from xlashape.hlo.ops.attributes import CannotComplete, Written, optional, required
from xlashape.hlo.ops.calls import BRANCHES, CALL_TO_APPLY, CALLS, CONDITION_AND_BODY
from xlashape.hlo.ops.inference import called_result, first_operand, token, token_shape
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Given, InPlace, Operation, Result, ResultSource, at_least, exactly
from xlashape.hlo.values.aliasing import OUTPUT_TO_OPERAND_ALIASING
from xlashape.hlo.values.plain import FUSION_KIND, INDEX, IS_COMPOSITE
from xlashape.hlo.values.sharding import DOMAIN
from xlashape.shape import PrimitiveType, Shape


def _verify_call(result: Result) -> str | None:
    return (
        verification.check_one_call(result.parameters)
        or verification.check_parameters(result.operands, result.parameters[0])
        or verification.check_result(result.shape, result.results[0])
    )


def _verify_fusion(result: Result) -> str | None:
    called = result.parameters
    problem = verification.check_one_call(called)
    if problem:
        return problem
    # XLA allows further operands, which the computation does not use.
    given = result.operands[: len(called[0])]
    return verification.check_parameters(given, called[0]) or verification.check_result(result.shape, result.results[0])


def _verify_while(result: Result) -> str | None:
    called = result.parameters
    if len(called) != 2:
        return f"calls {len(called)} computations, not a body and a condition"
    body, condition = called
    return (
        verification.check_parameters(result.operands, body)
        or verification.check_parameters(result.operands, condition)
        or verification.check_result(result.shape, result.results[0])
        or verification.check_predicate(result.results[1], "condition")
    )


# -- conditional ----------------------------------------------------------------------------

_TWO_BRANCHES = ("true_computation", "false_computation")
_BRANCH_LIST = ("branch_computations",)


def _check_conditional(written: Written) -> None:
    selector = written.operands[0]
    if not (selector.is_array and selector.is_scalar):
        raise CannotComplete(f"the first operand of a conditional must be a scalar, found {selector}")
    if selector.element_type not in (PrimitiveType.PRED, PrimitiveType.S32):
        raise CannotComplete(f"the first operand of a conditional must be pred[] or s32[], found {selector}")
    expected = _TWO_BRANCHES if selector.element_type == PrimitiveType.PRED else _BRANCH_LIST
    for name in (*_TWO_BRANCHES, *_BRANCH_LIST):
        if written.has(name) != (name in expected):
            raise CannotComplete(f"a conditional on a {selector.element_type} needs {' and '.join(expected)}")
    branches = sum(len(written.called_parameters(name)) for name in expected)
    count = len(written.operands)
    if count != branches + 1:
        raise CannotComplete(f"{branches} branches take {branches + 1} operands, found {count}")


def _verify_conditional(result: Result) -> str | None:
    operands, called = result.operands, result.parameters
    if not called:
        return "needs a branch"
    if len(operands) != len(called) + 1:
        return f"has {len(operands)} operands for {len(called)} branches"
    selector = operands[0]
    if not selector.is_scalar or selector.element_type not in (PrimitiveType.PRED, PrimitiveType.S32):
        return f"its first operand must be pred[] or s32[], found {selector}"
    for branch, (parameters, root) in enumerate(zip(called, result.results, strict=True)):
        operand = operands[branch + 1]
        problem = verification.check_parameters(
            [operand], parameters, "the operand of branch"
        ) or verification.check_result(result.shape, root)
        if problem:
            return f"branch {branch}: {problem}"
    return None


_VERSION: Final = re.compile(r"\+?[0-9]{1,30}")
_GREATEST_VERSION: Final = 2**63 - 1


def _verify_composite(result: Result) -> str | None:
    if not result.message.is_composite:
        return None
    given = result.message.frontend_attributes.map
    if not given:
        return "a composite call must have its name and version as frontend_attributes, found none"
    if not given.get("composite.name"):
        return "a composite call must have its name as composite.name in frontend_attributes, found none"
    if given.get("composite.attributes") == "":
        return "the composite.attributes of a composite call must not be empty"
    version = given.get("composite.version", "0")
    if not _VERSION.fullmatch(version.strip()) or int(version) > _GREATEST_VERSION:
        return f"the composite.version of a composite call must be an integer of 64 bits from 0 on, found {version!r}"
    return None


# -- order ----------------------------------------------------------------------------------


def _first_shape(_written: Shape, operands: Sequence[Shape]) -> Shape:
    return operands[0]


def _verify_same(result: Result) -> str | None:
    return verification.check_shape(result.shape, result.operands[0])


def _verify_add_dependency(result: Result) -> str | None:
    return verification.check_shape(result.shape, result.operands[0]) or verification.check_token(result.operands, 1)


def _check_tuple(written: Written) -> None:
    shape, count = written.shape, len(written.operands)
    if shape is not None and shape.is_tuple and len(shape.tuple_shapes) != count:
        raise CannotComplete(f"a tuple of {len(shape.tuple_shapes)} elements needs as many operands, found {count}")


def _infer_tuple(given: Given) -> Shape:
    return Shape.tuple(given.operands)


def _infer_element(given: Given) -> Shape:
    message, operands = given.message, given.operands
    parts = operands[0].tuple_shapes
    if not operands[0].is_tuple or not 0 <= message.tuple_index < len(parts):
        raise CannotInfer(f"{operands[0]} has no element {message.tuple_index}")
    return parts[message.tuple_index]


OPERATIONS: Final = (
    Operation(
        Opcode.CALL,
        operands=at_least(0),
        calls=CALL_TO_APPLY,
        attributes_after_calls=(optional(IS_COMPOSITE),),
        infer=called_result,
        verify=_verify_composite,
        verify_calls=_verify_call,
        source=ResultSource.CALLED,
        runs_called_instructions=True,
    ),
    Operation(
        Opcode.FUSION,
        operands=at_least(0),
        attributes=(required(FUSION_KIND), optional(OUTPUT_TO_OPERAND_ALIASING)),
        calls=CALLS,
        verify=verification.check_aliasing,
        verify_calls=_verify_fusion,
        in_place=InPlace.FUSED,
        fuses_called_computation=True,
    ),
    Operation(
        Opcode.WHILE,
        operands=exactly(1),
        calls=CONDITION_AND_BODY,
        infer=first_operand,
        verify=verification.any_shape,
        verify_calls=_verify_while,
        source=ResultSource.STATE,
        runs_called_instructions=True,
    ),
    Operation(
        Opcode.CONDITIONAL,
        operands=at_least(1),
        calls=BRANCHES,
        check=_check_conditional,
        infer=called_result,
        verify=verification.any_shape,
        verify_calls=_verify_conditional,
        source=ResultSource.BRANCH,
        runs_called_instructions=True,
        text_depends_on_operands=True,  # branches on a predicate are named true and false
    ),
    Operation(
        Opcode.AFTER_ALL,
        operands=at_least(0),
        fixed_shape=token_shape,
        infer=token,
        one_precision=True,
        moves_no_data=True,
    ),
    Operation(
        Opcode.ADD_DEPENDENCY,
        operands=exactly(2),
        fixed_shape=_first_shape,
        infer=first_operand,
        verify=_verify_add_dependency,
        one_precision=True,
        source=ResultSource.OPERAND,
        passes_first_operand_through=True,
        moves_no_data=True,
    ),
    Operation(
        Opcode.OPT_BARRIER,
        operands=exactly(1),
        verify=_verify_same,
        source=ResultSource.OPERAND,
        passes_first_operand_through=True,
        moves_no_data=True,
    ),
    Operation(
        Opcode.DOMAIN,
        operands=exactly(1),
        attributes=(required(DOMAIN),),
        infer=first_operand,
        verify=_verify_same,
        source=ResultSource.OPERAND,
        passes_first_operand_through=True,
        moves_no_data=True,
    ),
    Operation(
        Opcode.TUPLE,
        operands=at_least(0),
        check=_check_tuple,
        infer=_infer_tuple,
        source=ResultSource.OPERANDS,
        moves_no_data=True,
    ),
    Operation(
        Opcode.GET_TUPLE_ELEMENT,
        operands=exactly(1),
        attributes=(required(INDEX),),
        infer=_infer_element,
        source=ResultSource.ELEMENT,
        moves_no_data=True,
    ),
)
