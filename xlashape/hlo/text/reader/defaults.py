"""What XLA fills in where text says nothing, opcode by opcode, and what it asks of the operands first.

Some defaults hang on the operands: a comparison's type on their element type, a precision on their number.
"""

from __future__ import annotations

from collections.abc import Callable

from xlashape.errors import ParseError
from xlashape.hlo.text.reader.state import Attribute, Instruction, KnownShape, State
from xlashape.proto import xla
from xlashape.proto.wire import Fields
from xlashape.shape import PrimitiveType, Shape

__all__ = ["DEFAULTS", "Attributes"]

Attributes = dict[str, Attribute]
"""The attributes of one instruction by name."""

Default = Callable[[State, KnownShape | None, list[Instruction], Attributes, int], bytes]

_FIELDS = Fields(xla.HloInstructionProto)
_COLLECTIVE = "all-gather all-gather-start all-reduce all-reduce-start reduce-scatter all-to-all ragged-all-to-all collective-broadcast".split()
_ONES = _FIELDS.integer("feature_group_count", 1), _FIELDS.integer("batch_group_count", 1)


def _error(state: State, at: int, message: str) -> ParseError:
    return state.cursor.error(message, at=at)


def _broadcast(
    state: State, _shape: KnownShape | None, known: list[Instruction], attributes: Attributes, at: int
) -> bytes:
    if "dimensions" not in attributes:
        operand = known[0].shape.shape
        if not (operand.is_array and operand.is_scalar):
            raise _error(state, at, f"broadcast of {operand} needs the attribute dimensions; that of a scalar does not")
    return b""


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
        shapes = xla.HloInstructionProto.FromString(constraints.data).operand_shapes_with_layout
        if len(shapes) != len(known):
            raise _error(state, at, f"expected {len(known)} operand layout constraints, found {len(shapes)}")
        for number, (operand, proto) in enumerate(zip(known, shapes, strict=True)):
            shape = Shape.from_proto(proto).without_layout()
            if shape != operand.shape.bare:
                raise _error(state, at, f"operand {number} is {operand.shape.bare}, its layout constraint {shape}")
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


DEFAULTS: dict[str, Default] = {
    **dict.fromkeys(_COLLECTIVE, _collective),
    "broadcast": _broadcast,
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
"""Fields of an instruction that its opcode adds: (state, written shape, operands, attributes, place in the text) → bytes."""
