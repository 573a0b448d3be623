"""What XLA adds to an instruction that text leaves unsaid: defaults, calls in their order, the computation an asynchronous operation wraps.

Some defaults hang on the operands: a comparison's type on their element type, a precision on their number.
"""

from __future__ import annotations

from collections.abc import Callable

from xlashape.errors import ParseError
from xlashape.hlo.attributes import OPERATIONS
from xlashape.hlo.encode import Fields
from xlashape.hlo.infer import infer_shape
from xlashape.hlo.parse_state import Attribute, Computation, Instruction, KnownShape, State
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape

__all__ = ["instruction", "parameter"]

_FIELDS = Fields(xla.HloInstructionProto)
_COMMON_ATTRIBUTES = frozenset(
    "backend_config control-predecessors frontend_attributes metadata origin parameter_replication sharding statistics".split()
)
# Fields that XLA writes for every instruction, empty or not.
_ALWAYS = b"".join(_FIELDS.message(name, b"") for name in ("metadata", "frontend_attributes", "statistics_viz"))
_BASE = {opcode: _FIELDS.string("opcode", opcode) + _ALWAYS for opcode in OPERATIONS}

_COLLECTIVE = "all-gather all-gather-start all-reduce all-reduce-start reduce-scatter all-to-all ragged-all-to-all collective-broadcast".split()
_ONES = _FIELDS.integer("feature_group_count", 1), _FIELDS.integer("batch_group_count", 1)
_ONE_DIMENSION = frozenset(
    "all-gather all-gather-start reduce-scatter all-to-all ragged-all-to-all get-dimension-size set-dimension-size".split()
)
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

Attributes = dict[str, Attribute]


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
    pieces = [_BASE[opcode], data]
    for attribute in attributes.values():
        pieces.append(attribute.data)
    finish = _FINISH.get(opcode)
    if finish is not None:
        pieces.append(finish(state, shape, known, attributes, at))
    if opcode in _ONE_DIMENSION and "dimensions" in attributes and len(attributes["dimensions"].data) > 3:
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
    if opcode in ("call", "conditional"):
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
        given = known if opcode == "call" else known[number + 1 : number + 2]
        taken = [called.instructions[called.parameters[one]].shape.bare for one in range(len(called.parameters))]
        if [one.shape.bare for one in given] != taken:
            shown = ", ".join(map(str, taken))
            raise _error(state, at, f"computation {called.name!r} takes ({shown})")


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


# -- defaults by opcode ---------------------------------------------------------------------


def _precision(known: list[Instruction], attributes: Attributes, count: int | None = None) -> bytes:
    if "operand_precision" in attributes:
        return b""
    values = [xla.PrecisionConfig.DEFAULT] * (len(known) if count is None else count)
    return _FIELDS.message("precision_config", xla.PrecisionConfig(operand_precision=values))


def _groups(attributes: Attributes) -> bytes:
    pieces = b""
    if "feature_group_count" not in attributes:
        pieces += _ONES[0]
    if "batch_group_count" not in attributes:
        pieces += _ONES[1]
    return pieces


def _convolution(
    _: State, _shape: KnownShape | None, known: list[Instruction], attributes: Attributes, _at: int
) -> bytes:
    window = b"" if "window" in attributes else _FIELDS.message("window", b"")
    return _precision(known, attributes) + _groups(attributes) + window + _FIELDS.message("sparsity_config", b"")


def _custom_call(
    state: State, _shape: KnownShape | None, known: list[Instruction], attributes: Attributes, at: int
) -> bytes:
    constraints = attributes.get("operand_layout_constraints")
    if constraints is not None:
        count = len(xla.HloInstructionProto.FromString(constraints.data).operand_shapes_with_layout)
        if count != len(known):
            raise _error(state, at, f"expected {len(known)} operand layout constraints, found {count}")
    version = (
        b"" if "api_version" in attributes else _FIELDS.integer("custom_call_api_version", xla.API_VERSION_ORIGINAL)
    )
    return _precision(known, attributes) + _groups(attributes) + version


def _dot(_: State, _shape: KnownShape | None, _known: list[Instruction], attributes: Attributes, _at: int) -> bytes:
    return _FIELDS.message("dot_dimension_numbers", b"") + _precision([], attributes, 2)


def _ragged_dot(
    _: State, _shape: KnownShape | None, _known: list[Instruction], attributes: Attributes, _at: int
) -> bytes:
    empty = xla.RaggedDotDimensionNumbers(dot_dimension_numbers=xla.DotDimensionNumbers())
    return _FIELDS.message("ragged_dot_dimension_numbers", empty) + _precision([], attributes, 2)


def _compare(_: State, _shape: KnownShape | None, known: list[Instruction], attributes: Attributes, _at: int) -> bytes:
    if "type" in attributes:
        return b""
    kind = known[0].shape.shape.element_type
    if kind.is_floating or kind.is_complex:
        word = "FLOAT"
    elif kind.is_signed:
        word = "SIGNED"
    else:
        word = "UNSIGNED"
    return _FIELDS.string("comparison_type", word)


def _collective(
    state: State, _shape: KnownShape | None, _known: list[Instruction], attributes: Attributes, at: int
) -> bytes:
    if (
        "use_global_device_ids" in attributes
        and attributes["use_global_device_ids"].data
        and "channel_id" not in attributes
    ):
        if "to_apply" in attributes:
            raise _error(state, at, "use_global_device_ids=true needs a channel_id")
    return b"" if "replica_groups" in attributes else _FIELDS.message("collective_device_list", b"")


def _permute(
    state: State, _shape: KnownShape | None, known: list[Instruction], attributes: Attributes, at: int
) -> bytes:
    if "slice_sizes" in attributes and len(known) != 4:
        raise _error(state, at, f"with slice_sizes it takes 4 operands, found {len(known)}")
    return b""


def _topk(_: State, _shape: KnownShape | None, _known: list[Instruction], attributes: Attributes, _at: int) -> bytes:
    return b"" if "largest" in attributes else _FIELDS.integer("largest", 1)


def _outfeed(_: State, _shape: KnownShape | None, known: list[Instruction], attributes: Attributes, _at: int) -> bytes:
    return b"" if "outfeed_shape" in attributes else _FIELDS.message("outfeed_shape", known[0].shape.data)


def _map(_: State, shape: KnownShape | None, known: list[Instruction], attributes: Attributes, _at: int) -> bytes:
    # All dimensions, whichever the text names; where its shape is inferred they must be right.
    if shape is None and "dimensions" in attributes:
        return b""
    of = known[0].shape if known else shape
    return b"" if of is None else _FIELDS.integers("dimensions", range(of.shape.rank))


def _even(state: State, _shape: KnownShape | None, known: list[Instruction], _attributes: Attributes, at: int) -> bytes:
    if len(known) % 2:
        raise _error(state, at, f"expected an even number of operands, found {len(known)}")
    return b""


def _reduce_window(
    state: State, shape: KnownShape | None, known: list[Instruction], attributes: Attributes, at: int
) -> bytes:
    _even(state, shape, known, attributes, at)
    return _window(state, shape, known, attributes, at)


def _window(_: State, _shape: KnownShape | None, _known: list[Instruction], attributes: Attributes, _at: int) -> bytes:
    return b"" if "window" in attributes else _FIELDS.message("window", b"")


def _scatter(
    state: State, _shape: KnownShape | None, known: list[Instruction], _attributes: Attributes, at: int
) -> bytes:
    if len(known) % 2 == 0:
        raise _error(state, at, f"expected an odd number of operands, found {len(known)}")
    return b""


def _scan(state: State, _shape: KnownShape | None, known: list[Instruction], attributes: Attributes, at: int) -> bytes:
    place = attributes["to_apply"].calls[0]
    if place >= 0 and len(state.computations[place].parameters) != len(known):
        count = len(state.computations[place].parameters)
        raise _error(state, at, f"to_apply has {count} parameters, found {len(known)} operands")
    carries = xla.HloInstructionProto.FromString(attributes["num_carries"].data).num_carries
    if len(known) < carries:
        raise _error(state, at, f"{carries} carries take as many operands, found {len(known)}")
    return b"" if "is_associative" in attributes else _FIELDS.integer("is_associative", xla.TRI_STATE_FALSE)


def _conditional(
    state: State, _shape: KnownShape | None, known: list[Instruction], attributes: Attributes, at: int
) -> bytes:
    selector = known[0].shape.shape
    if not (selector.is_array and selector.is_scalar):
        raise _error(state, at, f"the first operand of a conditional is a scalar, found {selector}")
    two = selector.element_type == PrimitiveType.PRED
    wanted = ("true_computation", "false_computation") if two else ("branch_computations",)
    for name in ("true_computation", "false_computation", "branch_computations"):
        if (name in attributes) != (name in wanted):
            raise _error(state, at, f"a conditional of a {selector.element_type} has {' and '.join(wanted)}")
    branches = sum(len(attributes[name].calls) for name in wanted)
    if len(known) != branches + 1:
        raise _error(state, at, f"{branches} branches take {branches + 1} operands, found {len(known)}")
    return b""


def _dynamic(count: Callable[[list[Instruction]], int]) -> Callable[..., bytes]:
    def finish(
        state: State, _shape: KnownShape | None, known: list[Instruction], _attributes: Attributes, at: int
    ) -> bytes:
        # The indices are a scalar a dimension, or in older text one vector.
        first = count(known)
        rest = known[first:]
        rank = known[0].shape.shape.rank
        if len(rest) != rank and not (
            len(rest) == 1 and rest[0].shape.shape.is_array and rest[0].shape.shape.rank == 1
        ):
            raise _error(state, at, f"expected {rank} start indices, found {len(rest)}")
        return b""

    return finish


def _empty(field: str) -> Callable[..., bytes]:
    data = _FIELDS.message(field, b"")
    return lambda *_: data


_FINISH: dict[str, Callable[[State, KnownShape | None, list[Instruction], Attributes, int], bytes]] = {
    **dict.fromkeys(_COLLECTIVE, _collective),
    "cholesky": _empty("cholesky_options"),
    "collective-permute": _permute,
    "collective-permute-start": _permute,
    "compare": _compare,
    "conditional": _conditional,
    "convolution": _convolution,
    "custom-call": _custom_call,
    "dot": _dot,
    "dynamic-slice": _dynamic(lambda _: 1),
    "dynamic-update-slice": _dynamic(lambda _: 2),
    "gather": _empty("gather_dimension_numbers"),
    "map": _map,
    "outfeed": _outfeed,
    "ragged-dot": _ragged_dot,
    "reduce": _even,
    "reduce-window": _reduce_window,
    "scaled-dot": _dot,
    "scan": _scan,
    "scatter": _scatter,
    "select-and-scatter": _window,
    "topk": _topk,
    "triangular-solve": _empty("triangular_solve_options"),
}


# -- asynchronous operations ----------------------------------------------------------------


def _async(
    state: State, made: Instruction, known: list[Instruction], attributes: Attributes, at: int, wrapped: str
) -> None:
    thread = attributes.get("async_execution_thread")
    if made.opcode == "async-start":
        if thread is not None:
            made.thread = thread.thread
        place = made.calls[0] if len(made.calls) == 1 else -1
        if place >= 0:
            called = state.computations[place]
            made.async_root = called.instructions[called.root].opcode
            called.thread = made.thread or called.thread
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
    made.async_root = operand.async_root


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
    parts = shape.shape.tuple_shapes
    if not shape.shape.is_tuple or len(parts) < 2:
        raise _error(
            state, at, f"the shape of {wrapped}-start is a tuple of operands, result and more, found {shape.shape}"
        )
    own = {key: value for key, value in attributes.items() if key in _COMMON_ATTRIBUTES}
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
    pieces = [_BASE["async-start"], shape.field, *(one.data for one in own.values())]
    made = Instruction(name, "async-start", shape, b"".join(pieces), operands)
    made.calls = (place,)
    made.thread = computation.thread
    made.async_root = wrapped
    metadata = own.get("metadata")
    if metadata is not None:
        made.frame, made.payload = metadata.frame, metadata.payload
    return made
