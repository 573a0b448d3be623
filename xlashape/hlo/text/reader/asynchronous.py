"""The steps of asynchronous operations: what each takes, and which attributes it shares with the operation that it wraps."""

from __future__ import annotations

from typing import cast

from google.protobuf.message import Message

from xlashape.hlo.ops.common import COMMON
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.text.reader.complete import (
    Attributes,
    complete_instruction,
    complete_parameter,
    sharding_of_tuple,
)
from xlashape.hlo.text.reader.state import MAIN_THREAD, ParsedComputation, ParsedInstruction, ParsedShape, State
from xlashape.proto import xla

__all__ = ["complete_step", "complete_wrapped_start"]

_THREAD = "async_execution_thread"


def complete_step(
    state: State,
    parsed: ParsedInstruction,
    step: AsyncStep,
    operands: list[ParsedInstruction],
    attributes: Attributes,
    at: int,
    wrapped: str,
) -> None:
    """Checks an async-start, async-update or async-done, and notes in `parsed` what it runs.

    `wrapped` is the opcode that text writes it as, "" for `async-start` and so on themselves.
    """
    if step is AsyncStep.START:
        _complete_start(state, parsed, attributes, at)
        return
    thread = attributes.get(_THREAD)
    started = operands[0]
    row = OPERATIONS.get(started.opcode)
    if row is None or row.async_step not in (AsyncStep.START, AsyncStep.UPDATE):
        # The state of an operation that was started elsewhere, such as before a loop: what it runs is what `calls` says, if anything.
        if len(parsed.calls) == 1 and parsed.calls[0] >= 0:
            called = state.computations[parsed.calls[0]]
            parsed.async_opcode, parsed.async_computation = called.instructions[called.root].opcode, parsed.calls[0]
        return
    parsed.calls = ()
    if wrapped and started.async_opcode != wrapped:
        raise state.cursor.error(
            f"expected {started.async_opcode}, the operation that was started, found {wrapped}", at=at
        )
    if step is AsyncStep.UPDATE and parsed.shape.bare != started.shape.bare:
        raise state.cursor.error(f"an async-update must have the shape of its operand, {started.shape.bare}", at=at)
    parsed.async_opcode, parsed.async_computation = started.async_opcode, started.async_computation
    if parsed.async_computation >= 0:
        computation = state.computations[parsed.async_computation]
        if thread is not None and thread.thread != computation.thread:
            expected, found = computation.thread.decode(), thread.thread.decode()
            raise state.cursor.error(f"the started operation runs on the thread {expected!r}, not {found!r}", at=at)
        _pass_on(computation, attributes)


def _complete_start(state: State, parsed: ParsedInstruction, attributes: Attributes, at: int) -> None:
    _check_shape(state, parsed.shape, at)
    thread = attributes.get(_THREAD)
    if thread is not None:
        parsed.thread = thread.thread
    index = parsed.calls[0] if len(parsed.calls) == 1 else -1
    if index >= 0:
        called = state.computations[index]
        parsed.async_opcode = called.instructions[called.root].opcode
        parsed.async_computation = index
        _pass_on(called, attributes)
        _set_thread(state, index, parsed.thread)


def complete_wrapped_start(
    state: State,
    name: str,
    shape: ParsedShape | None,
    operand_indices: tuple[int, ...],
    operands: list[ParsedInstruction],
    attributes: Attributes,
    at: int,
    wrapped: str,
) -> ParsedInstruction:
    """`negate-start(p)`: a computation of its own that holds the operation, and an async-start that calls it."""
    if shape is None:
        raise state.cursor.error(f"the shape of {wrapped}-start must be written", at=at)
    _check_shape(state, shape, at)
    wrapped_row, row = OPERATIONS[wrapped], OPERATIONS[Opcode.ASYNC_START]
    # What both may have besides the common attributes, such as output_to_operand_aliasing, is the wrapped operation's.
    inner = {key: value for key, value in attributes.items() if key in wrapped_row.readable and key not in COMMON}
    outer = {key: value for key, value in attributes.items() if key not in inner}
    computation = ParsedComputation("async_wrapped")
    for number, operand in enumerate(operands):
        computation.parameters[number] = number
        computation.instructions.append(complete_parameter("async_param", operand.shape, number))
    root = complete_instruction(
        state,
        wrapped,
        ParsedShape(shape.shape.tuple_shapes[1]),
        wrapped_row,
        b"",
        tuple(range(len(operands))),
        list(computation.instructions),
        inner,
        at,
    )
    computation.root = len(operands)
    computation.instructions.append(root)
    thread = attributes.get(_THREAD)
    index = len(state.computations)
    state.computations.append(computation)
    _set_thread(state, index, MAIN_THREAD if thread is None else thread.thread)
    pieces = [row.base, shape.field]
    for key, attribute in outer.items():
        pieces.append(sharding_of_tuple(attribute.data, shape) if key == "sharding" else attribute.data)
    parsed = ParsedInstruction(name, row.opcode, shape, b"".join(pieces), operand_indices)
    parsed.calls = (index,)
    parsed.thread = computation.thread
    parsed.async_opcode, parsed.async_computation = wrapped, index
    _pass_on(computation, outer)
    metadata = outer.get("metadata")
    if metadata is not None:
        parsed.frame, parsed.payload = metadata.frame, metadata.payload
    return parsed


def _set_thread(state: State, index: int, thread: bytes) -> None:
    """Makes a computation and all that it calls run on the thread of the start, even where they name another."""
    seen: set[int] = set()
    left = [index]
    while left:
        index = left.pop()
        if index < 0 or index in seen:
            continue
        seen.add(index)
        computation = state.computations[index]
        computation.thread = thread
        for instruction in computation.instructions:
            left += instruction.calls
            if instruction.opcode is Opcode.ASYNC_START:
                instruction.thread = thread


def _check_shape(state: State, shape: ParsedShape, at: int) -> None:
    parts = shape.shape.tuple_shapes
    if not shape.shape.is_tuple or len(parts) < 2 or not parts[0].is_tuple:
        raise state.cursor.error(
            f"an async-start must have the shape ((operands…), result, …), found {shape.shape}", at=at
        )


# The wrapped operation has these attributes of its asynchronous steps, too: those of the last step that has them.
_PASSED_ON = {
    "backend_config": "backend_config",
    "frontend_attributes": "frontend_attributes",
    "metadata": "metadata",
    "origin": "original_value",
    "statistics": "statistics_viz",
}


def _pass_on(wrapped: ParsedComputation, attributes: Attributes) -> None:
    """Gives the attributes of an asynchronous instruction to the operation that it wraps."""
    root = wrapped.instructions[wrapped.root]
    for name, field in _PASSED_ON.items():
        attribute = attributes.get(name)
        if attribute is not None:
            message = cast("Message", xla.HloInstructionProto.FromString(root.data))
            message.ClearField(field)
            root.data = message.SerializeToString() + attribute.data
            if name == "metadata":
                root.frame, root.payload = attribute.frame, attribute.payload
