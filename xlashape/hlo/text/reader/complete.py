"""An instruction made of what was read: its calls in their order, its shape where text leaves it out, what an asynchronous one wraps."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from google.protobuf.message import Message

from xlashape.errors import ParseError
from xlashape.hlo.ops.infer import infer_shape
from xlashape.hlo.ops.table import COMMON, OPERATIONS
from xlashape.hlo.text.reader.defaults import DEFAULTS, Attributes
from xlashape.hlo.text.reader.state import Computation, Instruction, KnownShape, State
from xlashape.proto import xla
from xlashape.proto.wire import Fields
from xlashape.shape import Shape

__all__ = ["instruction", "parameter"]

_FIELDS = Fields(xla.HloInstructionProto)
# Fields that XLA writes for every instruction, empty or not.
_ALWAYS = b"".join(_FIELDS.message(name, b"") for name in ("metadata", "frontend_attributes", "statistics_viz"))
_BASE = {opcode: _FIELDS.string("opcode", opcode) + _ALWAYS for opcode in OPERATIONS}

_ONE_DIMENSION = frozenset(
    "all-gather all-gather-start reduce-scatter all-to-all ragged-all-to-all get-dimension-size set-dimension-size".split()
)
_EXACTLY_ONE = frozenset(("concatenate", "sort", "all-to-all", "ragged-all-to-all"))
_DIMENSIONS = _EXACTLY_ONE | _ONE_DIMENSION
"""Opcodes whose attribute dimensions, where it is there, must name a dimension."""
_CALL_NAMES = (
    "to_apply",
    "calls",
    "body",
    "condition",
    "select",
    "scatter",
    "true_computation",
    "false_computation",
    "branch_computations",
    "called_computations",
)
"""In the order in which an operation's proto names what it calls."""


def parameter(name: str, shape: KnownShape, number: int) -> Instruction:
    """A parameter that no line of the text makes."""
    data = _BASE["parameter"] + shape.field + _FIELDS.integer("parameter_number", number)
    return Instruction(name, "parameter", shape, data, ())


def instruction(
    state: State,
    name: str,
    shape: KnownShape | None,
    opcode: str,
    data: bytes,
    operands: tuple[int, ...],
    known: list[Instruction],
    attributes: Attributes,
    at: int,
    wrapped: str,
) -> Instruction:
    """The instruction, complete but for what is known at the end of the module only.

    `data` are fields that its parentheses gave, `known` the operands themselves, `wrapped` the opcode that an
    asynchronous one names. Raises ParseError, placed at `at`, for what cannot be.
    """
    if wrapped and opcode == "async-start":
        if shape is None:
            raise _error(state, at, f"the shape of {wrapped}-start must be written")
        return _async_start(state, name, shape, operands, known, attributes, at, wrapped)
    if opcode in _DIMENSIONS and "dimensions" in attributes:
        _check_dimensions(state, opcode, attributes["dimensions"].data, at)
    pieces = [_BASE[opcode], data]
    for attribute in attributes.values():
        pieces.append(attribute.data)
    finish = DEFAULTS.get(opcode)
    if finish is not None:
        pieces.append(finish(state, shape, known, attributes, at))
    if opcode == "ragged-all-to-all" and "dimensions" in attributes:
        # XLA reads it and keeps nothing of it.
        given = attributes["dimensions"].data
        pieces = [piece for piece in pieces if piece is not given]
    elif opcode in _ONE_DIMENSION and "dimensions" in attributes and len(attributes["dimensions"].data) > 3:
        pieces[2:] = _first_dimension(b"".join(pieces[2:]))
    if opcode == "map" and "dimensions" in attributes and shape is not None:
        given = attributes["dimensions"].data
        pieces = [piece for piece in pieces if piece is not given]
    if opcode in _FIXED and (shape is not None or opcode in _UNWRITTEN):
        shape = _FIXED[opcode](state, known, at)
    elif shape is None:
        shape = _inferred(state, opcode, b"".join(pieces), known, attributes, at)
    if "sharding" in attributes and shape.shape.is_tuple:
        data = attributes["sharding"].data
        pieces = [piece if piece is not data else _tuple_sharding(data, shape) for piece in pieces]
    if "parameter_replication" in attributes:
        _check_replication(state, opcode, shape, attributes["parameter_replication"].data, at)
    pieces.append(shape.field)
    made = Instruction(name, opcode, shape, b"".join(pieces), operands)
    if attributes:
        metadata = attributes.get("metadata")
        if metadata is not None:
            made.frame, made.payload = metadata.frame, metadata.payload
        for call in _CALL_NAMES:
            if call in attributes:
                made.calls += attributes[call].calls
        if opcode == "custom-call" and "to_apply" in attributes:
            made.calls = attributes["to_apply"].calls
    if opcode == "fusion":
        for place in made.calls:
            state.computations[place].is_fusion = True
    elif opcode == "tuple":
        if shape.shape.is_tuple and len(shape.shape.tuple_shapes) != len(operands):
            raise _error(
                state,
                at,
                f"a tuple of {len(shape.shape.tuple_shapes)} elements takes as many operands, found {len(operands)}",
            )
    elif opcode.startswith("async-"):
        _async(state, made, known, attributes, at, wrapped)
    return made


def _error(state: State, at: int, message: str) -> ParseError:
    return state.cursor.error(message, at=at)


def _inferred(
    state: State, opcode: str, data: bytes, known: list[Instruction], attributes: Attributes, at: int
) -> KnownShape:
    results: list[Shape] = []
    for call in _CALL_NAMES:
        for place in attributes[call].calls if call in attributes else ():
            computation = state.computations[place] if place >= 0 else None
            if computation is not None:
                results.append(computation.instructions[computation.root].shape.shape)
    if opcode in ("call", "conditional", "while"):
        _check_arguments(state, opcode, known, attributes, at)
    message = xla.HloInstructionProto.FromString(data)
    if opcode == "map" and "dimensions" not in attributes:
        raise _error(state, at, "the shape of a map without dimensions must be written")
    shape = infer_shape(opcode, message, [one.shape.shape for one in known], results)
    if isinstance(shape, str):
        raise _error(state, at, shape)
    return _known_shape(state, shape)


def _check_arguments(state: State, opcode: str, known: list[Instruction], attributes: Attributes, at: int) -> None:
    """Whether the operands are what the computations called take."""
    places = [place for call in _CALL_NAMES if call in attributes for place in attributes[call].calls if place >= 0]
    for number, place in enumerate(places):
        called = state.computations[place]
        given = known[number + 1 : number + 2] if opcode == "conditional" else known
        taken = [called.instructions[called.parameters[one]].shape.bare for one in range(len(called.parameters))]
        if [one.shape.bare for one in given] != taken:
            shown = ", ".join(map(str, taken))
            raise _error(state, at, f"computation {called.name!r} takes ({shown})")


def _check_dimensions(state: State, opcode: str, data: bytes, at: int) -> None:
    # One small number is the field's tag, length and itself.
    if len(data) != 3:
        dimensions = xla.HloInstructionProto.FromString(data).dimensions
        if not dimensions or (opcode in _EXACTLY_ONE and len(dimensions) > 1):
            raise _error(state, at, f"{opcode} has one dimension, found {len(dimensions)}")


# The field of one small number is three bytes long: tag, length, number.
def _first_dimension(data: bytes) -> list[bytes]:
    message = xla.HloInstructionProto.FromString(data)
    del message.dimensions[1:]
    return [message.SerializeToString()]


def _tuple_sharding(data: bytes, shape: KnownShape) -> bytes:
    """A tuple's sharding: one that is no tuple of shardings is that of each element."""
    sharding = xla.HloInstructionProto.FromString(data).sharding
    if sharding.type == xla.OpSharding.TUPLE:
        return data
    # An empty tuple has one all the same.
    count = sum(1 for _ in shape.shape.leaves()) or 1
    each = xla.OpSharding(type=xla.OpSharding.TUPLE, tuple_shardings=[sharding] * count)
    return _FIELDS.message("sharding", each)


def _check_replication(state: State, opcode: str, shape: KnownShape, data: bytes, at: int) -> None:
    if opcode != "parameter":
        raise _error(state, at, f"{opcode} is no parameter, so it has no parameter_replication")
    count = len(xla.HloInstructionProto.FromString(data).parameter_replication.replicated_at_leaf_buffers)
    leaves = sum(1 for _ in shape.shape.leaves())
    if count != leaves:
        raise _error(state, at, f"parameter_replication says {count} of {leaves} leaf buffers")


def _known_shape(state: State, shape: Shape) -> KnownShape:
    found = state.shapes.get(str(shape))
    return found if found is not None and found.shape == shape else KnownShape(shape)


def _token(state: State, _known: list[Instruction], _at: int) -> KnownShape:
    return _known_shape(state, Shape.token())


def _sent(state: State, known: list[Instruction], _at: int) -> KnownShape:
    context = Shape.array("u32", ()).with_default_layout()
    return _known_shape(state, Shape.tuple([known[0].shape.shape, context, Shape.token()]))


def _received(state: State, known: list[Instruction], at: int) -> KnownShape:
    parts = known[0].shape.shape.tuple_shapes
    if not parts:
        raise _error(state, at, f"recv-done takes the result of a recv, found {known[0].shape.shape}")
    return _known_shape(state, Shape.tuple([parts[0], Shape.token()]))


# Operations whose shape follows from their operands, whatever is written; but written it must be, save for these two.
_UNWRITTEN = frozenset(("add-dependency", "after-all"))
_FIXED: dict[str, Callable[[State, list[Instruction], int], KnownShape]] = {
    "add-dependency": lambda _state, known, _at: known[0].shape,
    "after-all": _token,
    "outfeed": _token,
    "recv-done": _received,
    "send": _sent,
    "send-done": _token,
}


# -- asynchronous operations ----------------------------------------------------------------


def _async(
    state: State, made: Instruction, known: list[Instruction], attributes: Attributes, at: int, wrapped: str
) -> None:
    thread = attributes.get("async_execution_thread")
    if made.opcode == "async-start":
        _check_start(state, made.shape, at)
        if thread is not None:
            made.thread = thread.thread
        place = made.calls[0] if len(made.calls) == 1 else -1
        if place >= 0:
            called = state.computations[place]
            made.async_root = called.instructions[called.root].opcode
            made.async_place = place
            _pass_on(called, attributes)
            # Whatever thread the computation names.
            called.thread = made.thread
        return
    made.calls = ()
    operand = known[0]
    if operand.opcode not in ("async-start", "async-update"):
        raise _error(
            state, at, f"{made.opcode} takes the result of an async-start or async-update, found {operand.opcode}"
        )
    if wrapped and operand.async_root != wrapped:
        raise _error(state, at, f"expected {operand.async_root}, the operation that was started, found {wrapped}")
    if made.opcode == "async-update" and made.shape.bare != operand.shape.bare:
        raise _error(state, at, f"an async-update has the shape of its operand, {operand.shape.bare}")
    made.async_root, made.async_place = operand.async_root, operand.async_place
    if made.async_place >= 0:
        runs_on = state.computations[made.async_place].thread
        if thread is not None and thread.thread != runs_on:
            raise _error(
                state, at, f"what was started runs on the thread {runs_on.decode()!r}, not {thread.thread.decode()!r}"
            )
        _pass_on(state.computations[made.async_place], attributes)


# What is said of an asynchronous instruction is said of the operation that it wraps as well; who comes last says it.
_PASSED_ON = {
    "backend_config": "backend_config",
    "frontend_attributes": "frontend_attributes",
    "metadata": "metadata",
    "origin": "original_value",
    "statistics": "statistics_viz",
}


def _pass_on(wrapped: Computation, attributes: Attributes) -> None:
    root = wrapped.instructions[wrapped.root]
    for name, field in _PASSED_ON.items():
        attribute = attributes.get(name)
        if attribute is not None:
            message = cast("Message", xla.HloInstructionProto.FromString(root.data))
            message.ClearField(field)
            root.data = message.SerializeToString() + attribute.data
            if name == "metadata":
                root.frame, root.payload = attribute.frame, attribute.payload


def _check_start(state: State, shape: KnownShape, at: int) -> None:
    parts = shape.shape.tuple_shapes
    if not shape.shape.is_tuple or len(parts) < 2 or not parts[0].is_tuple:
        raise _error(state, at, f"an async-start has the shape ((operands…), result, …), found {shape.shape}")


def _async_start(
    state: State,
    name: str,
    shape: KnownShape,
    operands: tuple[int, ...],
    known: list[Instruction],
    attributes: Attributes,
    at: int,
    wrapped: str,
) -> Instruction:
    """`negate-start(p)`: a computation of its own that holds the operation, and an async-start that calls it."""
    _check_start(state, shape, at)
    parts = shape.shape.tuple_shapes
    own = {key: value for key, value in attributes.items() if key in COMMON}
    inner = {key: value for key, value in attributes.items() if key not in own and key != "async_execution_thread"}
    computation = Computation("async_wrapped")
    for number, operand in enumerate(known):
        computation.parameters[number] = number
        computation.instructions.append(parameter("async_param", operand.shape, number))
    result = KnownShape(parts[1])
    root = instruction(
        state, wrapped, result, wrapped, b"", tuple(range(len(known))), list(computation.instructions), inner, at, ""
    )
    computation.root = len(known)
    computation.instructions.append(root)
    thread = attributes.get("async_execution_thread")
    if thread is not None:
        computation.thread = thread.thread
    state.computations.append(computation)
    place = len(state.computations) - 1
    pieces = [_BASE["async-start"], shape.field]
    for key, one in own.items():
        pieces.append(_tuple_sharding(one.data, shape) if key == "sharding" else one.data)
    made = Instruction(name, "async-start", shape, b"".join(pieces), operands)
    made.calls = (place,)
    made.thread = computation.thread
    made.async_root, made.async_place = wrapped, place
    _pass_on(computation, own)
    metadata = own.get("metadata")
    if metadata is not None:
        made.frame, made.payload = metadata.frame, metadata.payload
    return made
