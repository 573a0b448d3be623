"""Puts an instruction together from what was read: what XLA fills in, its calls in their order, its shape where text leaves it out.

The row of an opcode says what is filled in, checked and inferred.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlashape.errors import ParseError
from xlashape.hlo.ops.attributes import CannotComplete
from xlashape.hlo.ops.calls import Arguments
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import FIELDS, CannotInfer, Given, Operation
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.ops.verification import check_reduction, reduction_problem
from xlashape.hlo.text.reader.state import ParsedAttribute, ParsedInstruction, ParsedShape, State
from xlashape.proto import xla
from xlashape.shape import Shape

Attributes = dict[str, ParsedAttribute]
"""The attributes of one instruction by name."""


def complete_parameter(name: str, shape: ParsedShape, number: int) -> ParsedInstruction:
    """A parameter that no line of the text makes."""
    row = OPERATIONS[Opcode.PARAMETER]
    data = row.base + shape.field + FIELDS.integer("parameter_number", number)
    return ParsedInstruction(name, row.opcode, shape, data, ())


def complete_tuple_element(
    state: State, instructions: Sequence[ParsedInstruction], tuple_index: int, number: int
) -> ParsedInstruction:
    """Element `number` of the tuple at `tuple_index` of `instructions`, which an operand names as `%x#0` instead of by a line of its own."""
    row = OPERATIONS[Opcode.GET_TUPLE_ELEMENT]
    of = instructions[tuple_index]
    shape = parsed_shape(state, of.shape.shape.tuple_shapes[number])
    data = row.base + FIELDS.integer("tuple_index", number) + _origin_of_element(instructions, of, number) + shape.field
    return ParsedInstruction(f"{of.name}_{number}", row.opcode, shape, data, (tuple_index,))


def _origin_of_element(instructions: Sequence[ParsedInstruction], of: ParsedInstruction, number: int) -> bytes:
    """The field `original_value` that a get-tuple-element has where text gives it none: that of the element, if `of` makes the tuple."""
    if of.opcode is not Opcode.TUPLE or not 0 <= number < len(of.operands):
        return b""
    element = xla.HloInstructionProto.FromString(instructions[of.operands[number]].data)
    return FIELDS.message("original_value", element.original_value) if element.HasField("original_value") else b""


def add_origin_of_element(
    parsed: ParsedInstruction, instructions: Sequence[ParsedInstruction], attributes: Attributes
) -> None:
    """Gives a get-tuple-element without an origin that of the element that it takes."""
    of = instructions[parsed.operands[0]]
    if of.opcode is Opcode.TUPLE and "origin" not in attributes and "index" in attributes:
        number = xla.HloInstructionProto.FromString(attributes["index"].data).tuple_index
        parsed.data += _origin_of_element(instructions, of, number)


def complete_instruction(
    state: State,
    name: str,
    shape: ParsedShape | None,
    row: Operation,
    data: bytes,
    operand_indices: tuple[int, ...],
    operands: list[ParsedInstruction],
    attributes: Attributes,
    at: int,
) -> ParsedInstruction:
    """The instruction, complete but for what is known only at the end of the module.

    `data` are the fields that its parentheses hold, `operands` the instructions of `operand_indices`. Raises ParseError, at the position `at`, for text
    that contradicts itself.
    """
    pieces = [row.base, data]
    fills = row.fills
    if fills or row.check is not None:
        written = _WrittenInstruction(state, row, shape, operands, attributes)
        try:
            for key, fill in fills.items():
                given = attributes.get(key)
                pieces.append(fill(written, None if given is None else given.data))
            if row.check is not None:
                row.check(written)
        except CannotComplete as error:
            raise _error(state, at, str(error)) from None
    for key, attribute in attributes.items():
        if key not in fills:
            pieces.append(attribute.data)
    if shape is None:
        shape = _infer(state, row, b"".join(pieces), operands, attributes, at)
    elif row.fixed_shape is not None:
        try:
            shape = parsed_shape(state, row.fixed_shape(shape.shape, [operand.shape.shape for operand in operands]))
        except CannotInfer as error:
            raise _error(state, at, str(error)) from None
    if "sharding" in attributes and shape.shape.is_tuple:
        data = attributes["sharding"].data
        pieces = [piece if piece is not data else sharding_of_tuple(data, shape) for piece in pieces]
    if "parameter_replication" in attributes:
        _check_replication(state, row, shape, attributes["parameter_replication"].data, at)
    pieces.append(shape.field)
    parsed = ParsedInstruction(name, row.opcode, shape, b"".join(pieces), operand_indices)
    if attributes:
        metadata = attributes.get("metadata")
        if metadata is not None:
            parsed.frame, parsed.payload = metadata.frame, metadata.payload
        parsed.calls = _called(row, attributes)
    if row.fuses_called_computation:
        for index in parsed.calls:
            state.computations[index].is_fusion = True
    return parsed


class _WrittenInstruction:
    """The text of an instruction, as completion asks for it. It is the Written of xlashape.hlo.ops.attributes."""

    __slots__ = ("_attributes", "_operands", "_shape", "_state", "opcode")

    def __init__(
        self,
        state: State,
        row: Operation,
        shape: ParsedShape | None,
        operands: list[ParsedInstruction],
        attributes: Attributes,
    ) -> None:
        self.opcode: str = row.opcode
        self._state = state
        self._shape = shape
        self._operands = operands
        self._attributes = attributes

    @property
    def shape(self) -> Shape | None:
        return None if self._shape is None else self._shape.shape

    @property
    def operands(self) -> list[Shape]:
        return [operand.shape.shape for operand in self._operands]

    def has(self, name: str) -> bool:
        return name in self._attributes

    def value(self, name: str) -> bytes:
        attribute = self._attributes.get(name)
        return b"" if attribute is None else attribute.data

    def called_parameters(self, name: str) -> Sequence[int]:
        attribute = self._attributes.get(name)
        if attribute is None:
            return ()
        computations = self._state.computations
        return [len(computations[index].parameters) if index >= 0 else -1 for index in attribute.calls]


def _error(state: State, at: int, message: str) -> ParseError:
    return state.cursor.error(message, at=at)


def _called(row: Operation, attributes: Attributes) -> tuple[int, ...]:
    """The computations that are called, in the order in which the proto lists them."""
    replacement = attributes.get(row.calls.replacement)
    if replacement is not None:
        return replacement.calls
    calls: tuple[int, ...] = ()
    for name in row.call_names:
        if name in attributes:
            calls += attributes[name].calls
    return calls


# -- shapes ---------------------------------------------------------------------------------


def _infer(
    state: State, row: Operation, data: bytes, operands: list[ParsedInstruction], attributes: Attributes, at: int
) -> ParsedShape:
    called = [state.computations[index] for index in _called(row, attributes) if index >= 0]
    if row.infer is not None:
        _check_arguments(state, row, operands, attributes, at)
    shapes = [operand.shape.shape for operand in operands]
    if row.verify_calls is check_reduction:
        parameters = [
            [each.instructions[each.parameters[i]].shape.shape for i in range(len(each.parameters))] for each in called
        ]
        problem = reduction_problem(shapes, parameters, [each.instructions[each.root].shape.shape for each in called])
        if problem:
            raise _error(state, at, f"{row.opcode}: {problem}")
    results = [computation.instructions[computation.root].shape.shape for computation in called]
    try:
        return parsed_shape(state, row.infer_shape(Given(xla.HloInstructionProto.FromString(data), shapes, results)))
    except CannotInfer as error:
        raise _error(state, at, str(error)) from None


def _check_arguments(
    state: State, row: Operation, operands: list[ParsedInstruction], attributes: Attributes, at: int
) -> None:
    """Checks that the called computations take the operands."""
    if row.calls.arguments is Arguments.ELEMENTS:
        return
    indices = [index for index in _called(row, attributes) if index >= 0]
    for branch, index in enumerate(indices):
        called = state.computations[index]
        is_branch = row.calls.arguments is Arguments.ONE_OPERAND_EACH
        given = operands[branch + 1 : branch + 2] if is_branch else operands
        taken = [called.instructions[called.parameters[number]].shape.bare for number in range(len(called.parameters))]
        if [operand.shape.bare for operand in given] != taken:
            shown = ", ".join(map(str, taken))
            raise _error(state, at, f"computation {called.name!r} takes ({shown})")


def parsed_shape(state: State, shape: Shape) -> ParsedShape:
    """The shape as the reader keeps it."""
    known = state.shapes.get(str(shape))
    return known if known is not None and known.shape == shape else ParsedShape(shape)


# -- attributes of any instruction ----------------------------------------------------------


def sharding_of_tuple(data: bytes, shape: ParsedShape) -> bytes:
    """The field `sharding` of a tuple. A sharding that is not a tuple of shardings is that of each element."""
    sharding = xla.HloInstructionProto.FromString(data).sharding
    if sharding.type == xla.OpSharding.TUPLE:
        return data
    # An empty tuple has one element's sharding, too.
    count = sum(1 for _ in shape.shape.leaves()) or 1
    each = xla.OpSharding(type=xla.OpSharding.TUPLE, tuple_shardings=[sharding] * count)
    return FIELDS.message("sharding", each)


def _check_replication(state: State, row: Operation, shape: ParsedShape, data: bytes, at: int) -> None:
    if row.opcode is not Opcode.PARAMETER:
        raise _error(state, at, f"{row.opcode} is not a parameter, so it has no parameter_replication")
    count = len(xla.HloInstructionProto.FromString(data).parameter_replication.replicated_at_leaf_buffers)
    leaves = sum(1 for _ in shape.shape.leaves())
    if count != leaves:
        raise _error(state, at, f"parameter_replication has {count} flags for {leaves} leaf buffers")
