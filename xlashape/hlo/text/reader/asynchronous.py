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
from typing import Final, NamedTuple, cast

from google.protobuf.message import Message

from xlashape.errors import LimitExceededError
from xlashape.hlo.ops.async_chain import find_origin
from xlashape.hlo.ops.attributes import COMMON
from xlashape.hlo.ops.calls import Arguments
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.text.reader.attributes import (
    Attributes,
    complete_instruction,
    complete_parameter,
    parsed_shape,
    sharding_of_tuple,
)
from xlashape.hlo.text.reader.state import (
    MAIN_THREAD,
    ParsedComputation,
    ParsedInstruction,
    ParsedShape,
    State,
)
from xlashape.proto import xla
from xlashape.shape import Shape

_THREAD = "async_execution_thread"
_PARAMETER: Final = "async_param"
_NOT_KNOWN_YET: Final = Shape.array("f32", (1,))
"""The shape that XLA gives to a parameter of the operation until a later step brings the operand."""


# -- starts ---------------------------------------------------------------------------------


def complete_wrapped_start(
    state: State,
    name: str,
    shape: ParsedShape | None,
    operand_indices: tuple[int, ...],
    attributes: Attributes,
    at: int,
    wrapped: str,
) -> ParsedInstruction:
    """Completes a start that is written as the operation it wraps, such as `negate-start(p)`. Makes a computation that
    holds the operation, and returns an async-start that calls it. `wrapped` is the opcode of the operation."""
    if shape is None:
        raise state.cursor.error(f"the shape of {wrapped}-start must be written", at=at)
    _check_shape(state, shape, at)
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
    computation = ParsedComputation("async_wrapped")
    for part in (*given, *(_NOT_KNOWN_YET,) * (taken - len(given))):
        _add_parameter(computation, parsed_shape(state, part))
    root = complete_instruction(
        state,
        wrapped,
        ParsedShape(result),
        wrapped_row,
        b"",
        tuple(range(taken)),
        computation.instructions[:taken],
        inner,
        at,
    )
    computation.root = len(computation.instructions)
    computation.instructions.append(root)
    if wrapped_row.calls.arguments is Arguments.OPERANDS:
        _add_missing(state, computation, root)
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
    parsed.async_computation = index
    _pass_on(computation, outer)
    metadata = outer.get("metadata")
    if metadata is not None:
        parsed.frame, parsed.payload = metadata.frame, metadata.payload
    return parsed


def _complete_start(state: State, parsed: ParsedInstruction, attributes: Attributes, at: int) -> None:
    _check_shape(state, parsed.shape, at)
    thread = attributes.get(_THREAD)
    if thread is not None:
        parsed.thread = thread.thread
    index = parsed.calls[0] if len(parsed.calls) == 1 else -1
    if index >= 0:
        parsed.async_computation = index
        _pass_on(state.computations[index], attributes)
        _set_thread(state, index, parsed.thread)


def _add_missing(state: State, computation: ParsedComputation, root: ParsedInstruction) -> None:
    """Adds operands to `root`, a call or fusion that an asynchronous operation runs, until it has one for each
    parameter of the computation that it calls. Each added operand is a new parameter of `computation`."""
    if len(root.calls) != 1 or root.calls[0] < 0:
        return
    called = state.computations[root.calls[0]]
    missing = range(len(root.operands), len(called.parameters))
    shapes = [called.instructions[called.parameters[number]].shape for number in missing]
    root.operands += tuple([_add_parameter(computation, shape) for shape in shapes])


def _add_parameter(computation: ParsedComputation, shape: ParsedShape) -> int:
    """Adds a parameter to a computation. Returns the index of its instruction."""
    number, index = len(computation.parameters), len(computation.instructions)
    computation.parameters[number] = index
    computation.instructions.append(complete_parameter(_PARAMETER, shape, number))
    return index


# -- updates and ends -----------------------------------------------------------------------


def complete_step(
    state: State,
    computation: ParsedComputation,
    parsed: ParsedInstruction,
    step: AsyncStep,
    attributes: Attributes,
    at: int,
    wrapped: str,
) -> None:
    """Checks `parsed`, an async-start, async-update or async-done of `computation`, and sets its
    `async_computation` and `async_origin`.

    `wrapped` is "negate" for a step that is written as `negate-update`, and "" for one written as `async-update`.
    """
    if step is AsyncStep.START:
        _complete_start(state, parsed, attributes, at)
        return
    started = computation.instructions[parsed.operands[0]]
    if started.opcode is Opcode.ASYNC_DONE:
        raise state.cursor.error(
            f"the operand of {parsed.opcode} cannot be an async-done, which ends its operation", at=at
        )
    if step is AsyncStep.UPDATE:
        _check_shape(state, parsed.shape, at)
    origin = _origin(state, computation, parsed.operands[0])
    if origin is not None:
        _check_origin(state, parsed, origin, attributes, at, wrapped)
        parsed.calls = ()
    # Without an origin, the operation was started where the reader cannot look, such as before a loop. The computation
    # that it runs is then the one that the attribute `calls` names, if there is one.
    parsed.async_origin = parsed if origin is None else origin
    parsed.async_computation = (
        origin.async_computation if origin is not None else parsed.calls[0] if parsed.calls else -1
    )
    if parsed.async_computation < 0:
        return
    called = state.computations[parsed.async_computation]
    if wrapped:
        if step is AsyncStep.UPDATE:
            parameters, result = _parts(parsed.shape)
        else:
            parameters, result = _parts(parsed.async_origin.shape)[0], parsed.shape.shape
        _set_shapes(state, called, parameters, result)
    _pass_on(called, attributes)


def _origin(state: State, computation: ParsedComputation, index: int) -> ParsedInstruction | None:
    """The origin of an asynchronous instruction whose operand is at `index`: the instruction that names the computation
    that runs. None if it is not found."""
    operand = computation.instructions[index]
    if operand.opcode is Opcode.ASYNC_START:
        return operand
    if operand.async_origin is not None:
        return operand.async_origin if operand.async_computation >= 0 else None
    found = find_origin(_ParsedInstructions(state), _ParsedNode(computation, index), state.async_origins)
    return None if found is None else found.instruction


def _check_origin(
    state: State, parsed: ParsedInstruction, origin: ParsedInstruction, attributes: Attributes, at: int, wrapped: str
) -> None:
    """Raises ParseError if an update or done names another operation, computation or thread than its origin."""
    if origin.async_computation < 0:
        return
    called = state.computations[origin.async_computation]
    opcode = called.instructions[called.root].opcode
    if wrapped and opcode != wrapped and origin.opcode is Opcode.ASYNC_START:
        raise state.cursor.error(f"expected {opcode}, the operation that was started, found {wrapped}", at=at)
    if parsed.calls and parsed.calls[0] not in (-1, origin.async_computation):
        other = state.computations[parsed.calls[0]].name
        raise state.cursor.error(f"the started operation runs {called.name!r}, not {other!r}", at=at)
    thread = attributes.get(_THREAD)
    if thread is not None and thread.thread != called.thread:
        expected, found = called.thread.decode(), thread.thread.decode()
        raise state.cursor.error(f"the started operation runs on the thread {expected!r}, not {found!r}", at=at)


def _parts(shape: ParsedShape) -> tuple[Sequence[Shape], Shape]:
    """The shapes of the operands and of the result in the shape of a start or update."""
    operands, result = shape.shape.tuple_shapes[:2]
    return operands.tuple_shapes, result


def _set_shapes(state: State, computation: ParsedComputation, parameters: Sequence[Shape], result: Shape) -> None:
    """Sets the shapes of the parameters and of the result of a computation to those that a later step declares. Missing
    parameters are added, and become operands of the root."""
    instructions = computation.instructions
    root = instructions[computation.root]
    added: list[int] = []
    for number, part in enumerate(parameters):
        shape = parsed_shape(state, part)
        if number >= len(computation.parameters):
            added.append(_add_parameter(computation, shape))
        elif not instructions[computation.parameters[number]].shape.is_like(shape):
            instructions[computation.parameters[number]].set_shape(shape)
    root.operands += tuple(added)
    shape = parsed_shape(state, result)
    if not root.shape.is_like(shape):
        root.set_shape(shape)


class _ParsedNode(NamedTuple):
    """An instruction that has been read: its computation and its index there."""

    computation: ParsedComputation
    number: int

    @property
    def instruction(self) -> ParsedInstruction:
        """The instruction at that index."""
        return self.computation.instructions[self.number]


class _ParsedInstructions:
    """The instructions that have been read, as the graph that `find_origin` searches."""

    def __init__(self, state: State) -> None:
        self._state = state

    def opcode(self, node: _ParsedNode, /) -> str:
        return node.instruction.opcode

    def operands(self, node: _ParsedNode, /) -> list[_ParsedNode]:
        return [_ParsedNode(node.computation, index) for index in node.instruction.operands]

    def tuple_index(self, node: _ParsedNode, /) -> int:
        return xla.HloInstructionProto.FromString(node.instruction.data).tuple_index

    def body_root(self, node: _ParsedNode, /) -> _ParsedNode | None:
        calls = node.instruction.calls
        if not calls or calls[0] < 0:
            return None
        body = self._state.computations[calls[0]]
        return _ParsedNode(body, body.root)

    def loop(self, node: _ParsedNode, /) -> _ParsedNode | None:
        del node  # a caller stands after the computation that it calls, so it has not been read yet
        return None

    def is_origin(self, node: _ParsedNode, /) -> bool:
        instruction = node.instruction
        if instruction.opcode is Opcode.ASYNC_START:
            return True
        return instruction.opcode is Opcode.ASYNC_UPDATE and bool(instruction.calls)


# -- threads, and attributes of the wrapped operation ---------------------------------------


_MOST_THREAD_STEPS: Final = 2_000_000
"""The greatest number of times that computations of a module are put on a thread. So many take a second or two."""


def _set_thread(state: State, index: int, thread: bytes) -> None:
    """Puts a computation, and all computations that it calls, on the thread of the start, even if they name another.

    Where starts are nested, the same computations would be put on a thread again and again. So a computation is skipped
    if it and all that it calls are on the thread already. LimitExceededError where nested starts alternate between
    threads so often that this does not help.
    """
    seen: set[int] = set()
    left = [index]
    while left:
        index = left.pop()
        if index < 0 or index in seen or state.threads.get(index) == thread:
            continue
        seen.add(index)
        state.thread_steps += 1
        if state.thread_steps > _MOST_THREAD_STEPS:
            raise LimitExceededError("asynchronous operations within each other alternate between threads too often")
        if index in state.threads:
            # Computations that call this one are no longer on a single thread with all that they call.
            state.threads.clear()
        computation = state.computations[index]
        computation.thread = thread
        for instruction in computation.instructions:
            left += instruction.calls
            if instruction.opcode is Opcode.ASYNC_START:
                instruction.thread = thread
    state.threads.update(dict.fromkeys(seen, thread))


def _check_shape(state: State, shape: ParsedShape, at: int) -> None:
    parts = shape.shape.tuple_shapes
    if not shape.shape.is_tuple or len(parts) < 2 or not parts[0].is_tuple:
        raise state.cursor.error(
            f"an async-start must have the shape ((operands…), result, …), found {shape.shape}", at=at
        )


# Attribute → field. The wrapped operation gets these attributes from its asynchronous steps; the last step that has one
# counts.
_PASSED_ON = {
    "backend_config": "backend_config",
    "frontend_attributes": "frontend_attributes",
    "metadata": "metadata",
    "origin": "original_value",
    "statistics": "statistics_viz",
}


def _pass_on(wrapped: ParsedComputation, attributes: Attributes) -> None:
    """Gives the attributes in _PASSED_ON of an asynchronous instruction to the operation that `wrapped` holds."""
    root = wrapped.instructions[wrapped.root]
    for name, field in _PASSED_ON.items():
        attribute = attributes.get(name)
        if attribute is not None:
            message = cast("Message", xla.HloInstructionProto.FromString(root.data))
            message.ClearField(field)
            root.data = message.SerializeToString() + attribute.data
            if name == "metadata":
                root.frame, root.payload = attribute.frame, attribute.payload
