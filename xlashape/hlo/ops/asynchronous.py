"""Table rows (`Operation`) and rules of asynchronous operations: async-start, async-update and async-done, which run
any computation asynchronously, and asynchronous copies.

Collectives whose asynchronous forms have opcodes of their own, such as all-gather-start, are in `collective`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlashape.hlo.ops import verification
from xlashape.hlo.ops.attributes import optional
from xlashape.hlo.ops.calls import CALLS, OPTIONAL_CALLS
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep, Movement, Operation, Result, ResultSource, Same, at_least, exactly
from xlashape.hlo.values.aliasing import OUTPUT_TO_OPERAND_ALIASING
from xlashape.hlo.values.attribute import Attribute, Context, scalar_value
from xlashape.hlo.values.plain import CROSS_PROGRAM_PREFETCH_INDEX
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.value.shape import compatible_shapes


def _write_thread(message: xla.HloInstructionProto, _context: Context) -> str:
    thread = message.async_execution_thread
    return f', async_execution_thread="{thread}"' if thread and thread != "main" else ""


# None: the reader parses the value itself, since it sets more than one field of the instruction.
ASYNC_EXECUTION_THREAD = Attribute(
    "async_execution_thread", None, _write_thread, scalar_value("async_execution_thread", "text")
)


# -- the state that a step passes to the next ----------------------------------------------
# Its shape is ((operands…), result, contexts…). A start may have fewer operands than its computation takes. Updates
# then add the missing operands, and elements of the result. An empty tuple stands for anything that a later step adds:
# ((), (), u32[]) has neither operands nor a result yet.


def is_state(shape: Shape) -> bool:
    """Whether a shape may be that of an async-start or async-update: a tuple of the operands, the result, and any
    number of contexts."""
    return len(shape.tuple_shapes) > 1 and shape.tuple_shapes[0].is_tuple


def is_begun(part: Shape, whole: Shape) -> bool:
    """Whether later steps can complete `part` to `whole`: they may turn an empty tuple into anything, and append
    elements to any other tuple.
    """
    if not part.is_tuple or not whole.is_tuple:
        return (part.is_tuple and not part.tuple_shapes) or compatible_shapes(part, whole)
    parts, wholes = part.tuple_shapes, whole.tuple_shapes
    return len(parts) <= len(wholes) and all(map(is_begun, parts, wholes))


def check_state(state: Shape, parameters: Sequence[Shape], returned: Shape) -> str | None:
    """Checks the state of an async-start or async-update whose computation has these parameters and returns
    `returned`.
    """
    operands, result = state.tuple_shapes[:2]
    whole = Shape.tuple(parameters)
    if not is_begun(operands, whole):
        return f"its shape must begin with operands of its computation, {whole}, found {operands}"
    if not is_begun(result, returned):
        return f"its computation gives {returned}, its shape has {result}"
    return None


def check_end(state: Shape, result: Shape, parameters: Sequence[Shape], returned: Shape) -> str | None:
    """Checks an async-done with the shape `result`, whose operand is `state`. The computation has these parameters and
    returns `returned`.
    """
    operands, whole = state.tuple_shapes[0], Shape.tuple(parameters)
    if not compatible_shapes(operands, whole):
        return f"its start and updates must bring all operands of its computation, {whole}, found {operands}"
    return verification.check_result(result, returned)


def _check_operands(brought: Sequence[Shape], operands: Sequence[Shape], first: int) -> str | None:
    """Checks that a step has an operand for each that its state adds, `brought`. `first` is the number of the first of
    `operands`, for the message.
    """
    if len(brought) != len(operands):
        return f"its shape adds {len(brought)} operands, found {len(operands)}"
    for number, (part, operand) in enumerate(zip(brought, operands, strict=True), first):
        if not compatible_shapes(part, operand):
            return f"operand {number} is {operand}, its shape has {part}"
    return None


def _verify_wrapped(result: Result) -> str | None:
    """Checks an async-start."""
    called = result.parameters
    problem = verification.check_one_call(called)
    if problem:
        return problem
    if not is_state(result.shape):
        return f"its shape must be a tuple of its operands, its result and more, found {result.shape}"
    return (
        check_state(result.shape, called[0], result.results[0])
        or _check_operands(result.shape.tuple_shapes[0].tuple_shapes, result.operands, 0)
        or _check_start_aliases(result)
    )


def _check_start_aliases(result: Result) -> str | None:
    """Checks the aliases of an async-start. They may name operands and elements of the result that only an update
    adds.
    """
    whole = Shape.tuple([Shape.tuple(result.parameters[0]), result.results[0], *result.shape.tuple_shapes[2:]])
    for each in result.message.output_operand_aliasing:
        if not each.output_shape_index:
            return "output_to_operand_aliasing of an async-start must name an element of its result, found {}"
    return verification.aliasing_problem(result.message, whole, result.parameters[0])


def _verify_update(result: Result) -> str | None:
    """Checks an async-update on its own. `check_update` compares it with the step before it."""
    if not is_state(result.shape):
        return f"its shape must be a tuple of its operands, its result and more, found {result.shape}"
    return _check_update_aliases(result)


def check_update(before: Shape, shape: Shape, operands: Sequence[Shape]) -> str | None:
    """Checks an async-update of the shape `shape` against the shape of the step before it. `operands` are its operands
    after the state.
    """
    for part, whole in zip(before.tuple_shapes[:2], shape.tuple_shapes[:2], strict=True):
        if not is_begun(part, whole):
            return f"its shape has {whole} where the step before it has {part}"
    brought = len(before.tuple_shapes[0].tuple_shapes)
    return _check_operands(shape.tuple_shapes[0].tuple_shapes[brought:], operands, 1)


def _check_update_aliases(result: Result) -> str | None:
    """Checks the aliases of an async-update. They may only alias the context, the third element of the state, with the
    context of operand 0.
    """
    for each in result.message.output_operand_aliasing:
        indices = [*each.output_shape_index[:1], *each.operand_shape_index[:1]]
        if each.operand_index or indices != [2, 2]:
            return (
                "output_to_operand_aliasing of an async-update must join element {2} of its result with element "
                "{2} of operand 0"
            )
    return verification.check_aliasing(result)


def _verify_copy_start(result: Result) -> str | None:
    return verification.check_shape(
        result.shape, Shape.tuple([result.operands[0], result.operands[0], Shape.array("u32", ())])
    )


def _verify_copy_done(result: Result) -> str | None:
    parts = result.operands[0].tuple_shapes
    if not parts:
        return f"its operand must be the result of a copy-start, found {result.operands[0]}"
    return verification.check_shape(result.shape, parts[0])


OPERATIONS: Final = (
    Operation(
        Opcode.ASYNC_START,
        operands=at_least(0),
        attributes=(optional(ASYNC_EXECUTION_THREAD), optional(OUTPUT_TO_OPERAND_ALIASING)),
        calls=CALLS,
        verify=verification.any_shape,
        verify_calls=_verify_wrapped,
        async_step=AsyncStep.START,
        repeated_operand=0,
        begins_asynchronously=True,
        runs_called_instructions=True,
        text_depends_on_operands=True,
    ),
    Operation(
        Opcode.ASYNC_UPDATE,
        operands=at_least(1),
        attributes=(optional(ASYNC_EXECUTION_THREAD), optional(OUTPUT_TO_OPERAND_ALIASING)),
        calls=OPTIONAL_CALLS,
        verify=_verify_update,
        async_step=AsyncStep.UPDATE,
        source=ResultSource.OPERAND,
        runs_called_instructions=True,
        text_depends_on_operands=True,
    ),
    Operation(
        Opcode.ASYNC_DONE,
        operands=at_least(1),
        attributes=(optional(ASYNC_EXECUTION_THREAD),),
        calls=OPTIONAL_CALLS,
        verify=verification.any_shape,
        async_step=AsyncStep.DONE,
        source=ResultSource.OPERAND,
        same=Same((), (1,)),
        ends_a_start=True,
        runs_called_instructions=True,
        text_depends_on_operands=True,
    ),
    Operation(
        Opcode.COPY_START,
        operands=exactly(1),
        attributes=(optional(CROSS_PROGRAM_PREFETCH_INDEX),),
        verify=_verify_copy_start,
        repeated_operand=1,
        begins_asynchronously=True,
        movement=Movement.TRANSFER,
    ),
    Operation(
        Opcode.COPY_DONE,
        operands=exactly(1),
        verify=_verify_copy_done,
        source=ResultSource.OPERAND,
        same=Same((), (0,)),
        ends_a_start=True,
    ),
)
