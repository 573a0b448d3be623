"""Asynchronous operations: the three steps of any operation run asynchronously, and asynchronous copies.

The asynchronous forms of collectives with opcodes of their own, such as all-gather-start, are in `collective`.
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.hlo.ops.attributes import optional
from xlashape.hlo.ops.calls import CALLS, OPTIONAL_CALLS
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep, Operation, Result, at_least, exactly
from xlashape.hlo.ops.verification import check_aliasing, check_one_call, check_parameters, check_shape
from xlashape.hlo.values.aliasing import OUTPUT_TO_OPERAND_ALIASING
from xlashape.hlo.values.attribute import Attribute, Context, scalar_value
from xlashape.hlo.values.plain import CROSS_PROGRAM_PREFETCH_INDEX
from xlashape.shape import Shape
from xlashape.shape.value.equality import compatible_shapes


def _write_thread(message: Any, _context: Context) -> str:
    thread = message.async_execution_thread
    return f', async_execution_thread="{thread}"' if thread and thread != "main" else ""


# The reader reads it without a codec: the value sets more than one field of the instruction.
ASYNC_EXECUTION_THREAD = Attribute(
    "async_execution_thread", None, _write_thread, scalar_value("async_execution_thread", "text")
)


def _verify_wrapped(result: Result) -> str | None:
    """The rule of async-start. Operands that are missing here are given to an update."""
    operands, called = result.operands, result.parameters
    problem = check_one_call(called)
    if problem:
        return problem
    if len(operands) != len(called[0]):
        return None if len(operands) < len(called[0]) else check_parameters(operands, called[0])
    parts = result.shape.tuple_shapes
    if len(parts) < 2 or not parts[0].is_tuple:
        return f"its shape must be a tuple of its operands, its result and more, found {result.shape}"
    if not compatible_shapes(parts[1], result.results[0]):
        return f"its computation gives {result.results[0]}, its shape has {parts[1]}"
    return check_parameters(operands, called[0]) or check_parameters(parts[0].tuple_shapes, called[0], "element")


def _verify_async_done(result: Result) -> str | None:
    parts = result.operands[0].tuple_shapes
    if len(parts) < 2:
        return f"its operand must be the result of an async-start or async-update, found {result.operands[0]}"
    return check_shape(result.shape, parts[1])


def _verify_copy_start(result: Result) -> str | None:
    return check_shape(result.shape, Shape.tuple([result.operands[0], result.operands[0], Shape.array("u32", ())]))


def _verify_copy_done(result: Result) -> str | None:
    parts = result.operands[0].tuple_shapes
    if not parts:
        return f"its operand must be the result of a copy-start, found {result.operands[0]}"
    return check_shape(result.shape, parts[0])


OPERATIONS: Final = (
    Operation(
        Opcode.ASYNC_START,
        operands=at_least(0),
        attributes=(optional(ASYNC_EXECUTION_THREAD), optional(OUTPUT_TO_OPERAND_ALIASING)),
        calls=CALLS,
        verify=check_aliasing,
        verify_calls=_verify_wrapped,
        async_step=AsyncStep.START,
        runs_called_instructions=True,
        text_depends_on_operands=True,
    ),
    Operation(
        Opcode.ASYNC_UPDATE,
        operands=at_least(1),
        attributes=(optional(ASYNC_EXECUTION_THREAD), optional(OUTPUT_TO_OPERAND_ALIASING)),
        calls=OPTIONAL_CALLS,
        verify=check_aliasing,
        async_step=AsyncStep.UPDATE,
        runs_called_instructions=True,
        text_depends_on_operands=True,
    ),
    Operation(
        Opcode.ASYNC_DONE,
        operands=at_least(1),
        attributes=(optional(ASYNC_EXECUTION_THREAD),),
        calls=OPTIONAL_CALLS,
        verify=_verify_async_done,
        async_step=AsyncStep.DONE,
        runs_called_instructions=True,
        text_depends_on_operands=True,
    ),
    Operation(
        Opcode.COPY_START,
        operands=exactly(1),
        attributes=(optional(CROSS_PROGRAM_PREFETCH_INDEX),),
        verify=_verify_copy_start,
    ),
    Operation(Opcode.COPY_DONE, operands=exactly(1), verify=_verify_copy_done),
)
