"""Reads the instructions that are steps of an asynchronous operation: a start, any number of updates, and a done.

The operation itself is in a computation that the start calls. `async-start(p), calls=f` names that computation.
`negate-start(p)` does not name one: the reader makes a computation with the negate in it. A start may have fewer
operands than the operation; updates then bring the missing ones:

    start = ((), f32[4], u32[]) add-start()
    update = ((f32[4], f32[4]), f32[4], u32[]) add-update(start, p0, p1)
    ROOT done = f32[4] add-done(update)

The shape of a start or update is ((operands…), result, …). Its first element, not the operands of the instruction, has
the shapes of the computation's parameters. Some attributes of a step, such as metadata, also go to the operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlashape.errors import LimitExceededError
from xlashape.hlo.async_start import async_start
from xlashape.hlo.ir import HloComputation, HloInstruction
from xlashape.hlo.ops.attributes import COMMON
from xlashape.hlo.ops.calls import Arguments
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.text.reader.attributes import Attributes, complete_instruction, complete_parameter, sharding_of_tuple
from xlashape.hlo.text.reader.state import MAIN_THREAD, ParsedShape, State
from xlashape.proto import xla
from xlashape.shape import Shape

_THREAD = "async_execution_thread"
_PARAMETER: Final = "async_param"
_NOT_KNOWN_YET: Final = Shape.array("f32", (1,))
"""The shape that XLA gives to a parameter of the operation until a later step brings the operand."""


# -- starts ---------------------------------------------------------------------------------


def complete_wrapped_start(
    state: State,
    computation: HloComputation,
    name: str,
    shape: ParsedShape | None,
    operands: tuple[HloInstruction, ...],
    attributes: Attributes,
    at: int,
    wrapped: str,
) -> HloInstruction:
    """Completes a start that is written as the operation it wraps, such as `negate-start(p)`. Makes a computation that
    holds the operation, and returns an async-start that calls it. `wrapped` is the opcode of the operation."""
    if shape is None:
        raise state.cursor.error(f"the shape of {wrapped}-start must be written", at=at)
    _check_shape(state, shape.shape, at)
    if "parameter_replication" in attributes:
        raise state.cursor.error(f"{wrapped}-start is not a parameter, so it has no parameter_replication", at=at)
    wrapped_row, row = OPERATIONS[wrapped], OPERATIONS[Opcode.ASYNC_START]
    # An attribute that both may have, other than the common ones, belongs to the wrapped operation. An example is
    # output_to_operand_aliasing.
    inner = {key: value for key, value in attributes.items() if key in wrapped_row.readable and key not in COMMON}
    outer = {key: value for key, value in attributes.items() if key not in inner}
    given, result = shape.shape.tuple_shapes[0].tuple_shapes, shape.shape.tuple_shapes[1]
    # An operation with a fixed number of operands takes that many, any other as many as the shape of the start has.
    taken = len(given) if wrapped_row.arity is None else wrapped_row.arity
    if taken < wrapped_row.operands.least:
        raise state.cursor.error(f"{wrapped} takes {wrapped_row.operands} operands, found {taken}", at=at)
    made = state.new_computation("async_wrapped")
    parts = (*given, *(_NOT_KNOWN_YET,) * (taken - len(given)))
    parameters = [
        complete_parameter(state, made, _PARAMETER, state.parsed_shape(part), number)
        for number, part in enumerate(parts)
    ]
    root = complete_instruction(
        state, made, wrapped, ParsedShape(result), wrapped_row, b"", tuple(parameters[:taken]), inner, at
    )
    made.fill([*parameters, root], root)
    made.set_parameters(parameters)
    if wrapped_row.calls.arguments is Arguments.OPERANDS:
        _add_missing(state, made)
    thread = attributes.get(_THREAD)
    state.add_computation(made)
    _set_thread(state, made, MAIN_THREAD if thread is None else thread.thread)
    pieces = [row.base]
    for key, attribute in outer.items():
        pieces.append(sharding_of_tuple(attribute.data, shape) if key == "sharding" else attribute.data)
    start = HloInstruction(computation, name, 0, state.kind_of(shape, pieces), operands, b"")
    start.called_computations = (made,)
    state.async_threads[start] = made.execution_thread
    state.async_steps[start] = made, None
    _pass_on(state, made, outer)
    if "metadata" in outer:
        start.said_metadata = outer["metadata"].metadata
    return start


def _complete_start(state: State, start: HloInstruction, attributes: Attributes, at: int) -> None:
    _check_shape(state, start.shape, at)
    thread = attributes.get(_THREAD)
    if thread is not None:
        state.async_threads[start] = thread.thread
    if len(start.called_computations) == 1:
        called = start.called_computations[0]
        state.async_steps[start] = called, None
        _pass_on(state, called, attributes)
        _set_thread(state, called, state.async_threads.get(start, MAIN_THREAD))


def _add_missing(state: State, computation: HloComputation) -> None:
    """Adds operands to the root, a call or fusion that an asynchronous operation runs, until it has one for each
    parameter of the computation that it calls. Each added operand is a new parameter of `computation`."""
    root = computation.root
    if len(root.called_computations) != 1:
        return
    parameters = root.called_computations[0].parameters[len(root.operands) :]
    root.operands += tuple([_add_parameter(state, computation, each.shape) for each in parameters])


def _add_parameter(state: State, computation: HloComputation, shape: Shape) -> HloInstruction:
    """Adds a parameter to a computation."""
    parameters = computation.parameters
    made = complete_parameter(state, computation, _PARAMETER, state.parsed_shape(shape), len(parameters))
    computation.fill([*computation.instructions, made], computation.root)
    computation.set_parameters([*parameters, made])
    return made


def _set_shape(state: State, instruction: HloInstruction, shape: Shape) -> None:
    """Gives an instruction another shape, unless it differs in layouts and dynamic dimensions alone."""
    parsed = state.parsed_shape(shape)
    if not state.shape_of(instruction).is_like(parsed):
        instruction.kind = instruction.kind.changed(lambda message: message.shape.CopyFrom(parsed.proto()))


# -- updates and ends -----------------------------------------------------------------------


def complete_step(
    state: State, step_of: HloInstruction, step: AsyncStep, attributes: Attributes, at: int, wrapped: str
) -> None:
    """Checks `step_of`, an async-start, async-update or async-done, and adds it to the steps of `state`.

    `wrapped` is "negate" for a step that is written as `negate-update`, and "" for one written as `async-update`.
    """
    if step is AsyncStep.START:
        _complete_start(state, step_of, attributes, at)
        return
    started = step_of.operands[0]
    if started.opcode is Opcode.ASYNC_DONE:
        raise state.cursor.error(
            f"the operand of {step_of.opcode} cannot be an async-done, which ends its operation", at=at
        )
    if step is AsyncStep.UPDATE:
        _check_shape(state, step_of.shape, at)
    origin = _origin(state, started)
    if origin is not None:
        _check_origin(state, step_of, origin, attributes, at, wrapped)
        step_of.called_computations = ()
        called = state.async_steps.get(origin, (None, None))[0]
    else:
        # Without an origin, the operation was started where the reader cannot look, such as before a loop. The
        # computation that it runs is then the one that the attribute `calls` names, if there is one.
        called = step_of.called_computations[0] if step_of.called_computations else None
    begun = step_of if origin is None else origin
    state.async_steps[step_of] = called, begun
    if called is None:
        return
    if wrapped:
        if step is AsyncStep.UPDATE:
            parameters, result = _parts(step_of.shape)
        else:
            parameters, result = _parts(begun.shape)[0], step_of.shape
        _set_shapes(state, called, parameters, result)
    _pass_on(state, called, attributes)


def _origin(state: State, operand: HloInstruction) -> HloInstruction | None:
    """The origin of an asynchronous step that takes `operand`: the instruction that names the computation that runs.
    None if it is not found."""
    if operand.opcode is Opcode.ASYNC_START:
        return operand
    called, origin = state.async_steps.get(operand, (None, None))
    if origin is not None:
        return origin if called is not None else None
    # A caller stands after the computation that it calls, so it has not been read yet.
    return async_start(operand, state.async_origins, callers=lambda _: ())


def _check_origin(
    state: State, step: HloInstruction, origin: HloInstruction, attributes: Attributes, at: int, wrapped: str
) -> None:
    """Raises ParseError if an update or done names another operation, computation or thread than its origin."""
    called = state.async_steps.get(origin, (None, None))[0]
    if called is None:
        return
    opcode = called.root.opcode
    if wrapped and opcode != wrapped and origin.opcode is Opcode.ASYNC_START:
        raise state.cursor.error(f"expected {opcode}, the operation that was started, found {wrapped}", at=at)
    if step.called_computations and step.called_computations[0] is not called:
        other = step.called_computations[0].name
        raise state.cursor.error(f"the started operation runs {called.name!r}, not {other!r}", at=at)
    thread = attributes.get(_THREAD)
    if thread is not None and thread.thread != called.execution_thread:
        expected, found = called.execution_thread, thread.thread
        raise state.cursor.error(f"the started operation runs on the thread {expected!r}, not {found!r}", at=at)


def _parts(shape: Shape) -> tuple[Sequence[Shape], Shape]:
    """The shapes of the operands and of the result in the shape of a start or update."""
    operands, result = shape.tuple_shapes[:2]
    return operands.tuple_shapes, result


def _set_shapes(state: State, computation: HloComputation, parameters: Sequence[Shape], result: Shape) -> None:
    """Sets the shapes of the parameters and of the result of a computation to those that a later step declares. Missing
    parameters are added, and become operands of the root."""
    if computation in state.known:
        return
    root, known = computation.root, computation.parameters
    added: list[HloInstruction] = []
    for number, shape in enumerate(parameters):
        if number >= len(known):
            added.append(_add_parameter(state, computation, shape))
        else:
            _set_shape(state, known[number], shape)
    root.operands += tuple(added)
    _set_shape(state, root, result)


# -- threads, and attributes of the wrapped operation ---------------------------------------


_MOST_THREAD_STEPS: Final = 2_000_000
"""The greatest number of times that computations of a module are put on a thread. So many take a second or two."""


def _set_thread(state: State, computation: HloComputation, thread: str) -> None:
    """Puts a computation, and all computations that it calls, on the thread of the start, even if they name another.

    Where starts are nested, the same computations would be put on a thread again and again. So a computation is skipped
    if it and all that it calls are on the thread already. LimitExceededError where nested starts alternate between
    threads so often that this does not help.
    """
    seen: set[HloComputation] = set()
    left = [computation]
    while left:
        each = left.pop()
        if each in seen or each in state.known or state.threads.get(each) == thread:
            continue
        seen.add(each)
        state.thread_steps += 1
        if state.thread_steps > _MOST_THREAD_STEPS:
            raise LimitExceededError("asynchronous operations within each other alternate between threads too often")
        if each in state.threads:
            # Computations that call this one are no longer on a single thread with all that they call.
            state.threads.clear()
        each.execution_thread = thread
        for instruction in each.instructions:
            left += instruction.called_computations
            if instruction.opcode is Opcode.ASYNC_START:
                state.async_threads[instruction] = thread
    state.threads.update(dict.fromkeys(seen, thread))


def _check_shape(state: State, shape: Shape, at: int) -> None:
    parts = shape.tuple_shapes
    if not shape.is_tuple or len(parts) < 2 or not parts[0].is_tuple:
        raise state.cursor.error(f"an async-start must have the shape ((operands…), result, …), found {shape}", at=at)


# Attribute → field. The wrapped operation gets these attributes from its asynchronous steps; the last step that has one
# counts. Metadata is passed on too.
_PASSED_ON = {
    "backend_config": "backend_config",
    "frontend_attributes": "frontend_attributes",
    "origin": "original_value",
    "statistics": "statistics_viz",
}


def _pass_on(state: State, wrapped: HloComputation, attributes: Attributes) -> None:
    """Gives the attributes in _PASSED_ON of an asynchronous instruction to the operation that `wrapped` holds."""
    if wrapped in state.known:
        return
    root = wrapped.root
    for name, field in _PASSED_ON.items():
        attribute = attributes.get(name)
        if attribute is not None:

            def change(message: xla.HloInstructionProto, field: str = field, data: bytes = attribute.data) -> None:
                message.ClearField(field)  # pyright: ignore[reportArgumentType] # each is the name of a field
                message.MergeFromString(data)

            root.kind = root.kind.changed(change)
    if "metadata" in attributes:
        root.said_metadata = attributes["metadata"].metadata
