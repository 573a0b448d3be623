"""Reads the attributes of an instruction, `, name=value`, and puts the instruction together, with what the text leaves
out. The row of the opcode in `xlashape.hlo.ops` says which attributes there are and what is filled in.

`form_of` gives the operands and attributes that text may have for an opcode. `negate-start(p)` is an async-start of a
negate: it takes the operands and attributes of a negate, and further attributes of an async-start. `negate-update(s)`
and `negate-done(s)` take the started operation, and the attributes that any instruction may have. The update may also
have operands that the start left out, and the attribute output_to_operand_aliasing.

`parse_attributes` reads the attributes; each name may occur once. If the value is simple, a regular expression finds
where it ends, and an attribute with the same text that was read before is used again. Values that name computations or
instructions are read here, all others by `Attribute.read`.

`complete_instruction` then makes the instruction. It adds the attributes that XLA fills in, puts the called
computations into the order of the proto, and infers the shape if the text leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xlashape.errors import ParseError
from xlashape.hlo.ir import HloComputation, HloInstruction
from xlashape.hlo.ops.attributes import COMMON, CONTROL_PREDECESSORS, METADATA, CannotComplete
from xlashape.hlo.ops.calls import CALLED, LISTS, Arguments
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode
from xlashape.hlo.ops.operation import AsyncStep, CannotInfer, Count, Given, Operation, at_least
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.ops.verification import check_reduction, reduction_problem
from xlashape.hlo.text.reader.state import MAX_DEPTH, Body, ParsedAttribute, ParsedShape, State, UnnumberedMetadata
from xlashape.hlo.tokens import NAME, HloCursor
from xlashape.hlo.values.attribute import FIELDS, Attribute
from xlashape.hlo.values.metadata import parse_metadata
from xlashape.proto import xla
from xlashape.shape import Shape

_STEPS = {
    step.value: (step, opcode)
    for step, opcode in (
        (AsyncStep.START, Opcode.ASYNC_START),
        (AsyncStep.UPDATE, Opcode.ASYNC_UPDATE),
        (AsyncStep.DONE, Opcode.ASYNC_DONE),
    )
}


class WrappedForm(NamedTuple):
    """The operands and attributes that text may have for a step of an asynchronous operation that is written as the
    wrapped operation: `negate-start`. `opcode` is that of the step, such as async-start."""

    opcode: Opcode | UnknownOpcode
    operands: Count
    required: tuple[str, ...]
    readable: Mapping[str, Attribute]


Form = Operation | WrappedForm


def _has_steps_of_its_own(opcode: str) -> bool:
    """Whether an operation such as copy or send has opcodes of its own for its asynchronous steps."""
    return opcode + AsyncStep.START.value in OPERATIONS or opcode + AsyncStep.DONE.value in OPERATIONS


def form_of(opcode: str) -> tuple[Operation, Form, str] | None:
    """For an opcode in text: the row of its instruction, the operands and attributes that text may have, and the opcode
    of the wrapped operation. The latter is "negate" for `negate-start`, and "" if no operation is wrapped.

    None for an unknown opcode.
    """
    row = OPERATIONS.get(opcode)
    if row is not None:
        return row, row, ""
    wrapped, dash, ending = opcode.rpartition("-")
    inner = OPERATIONS.get(wrapped)
    if inner is None or dash + ending not in _STEPS or _has_steps_of_its_own(wrapped):
        return None
    step, outer = _STEPS[dash + ending]
    row = OPERATIONS[outer]
    own = {use.attribute.name: use.attribute for use in row.attributes}
    if step is AsyncStep.START:
        # A start may lack operands, since an update may bring them.
        form = WrappedForm(outer, at_least(0), inner.required, {**own, **inner.readable})
    else:
        form = WrappedForm(outer, at_least(1), (), {**COMMON, **own})
    return row, form, wrapped


_SPACE = r"[ \t\r\n]*"
_STRING = r'"[^"\\]*(?:\\.[^"\\]*){0,100}"'


def _braces(depth: int) -> str:
    """The regular expression of braces with their content, in which further braces are nested up to `depth` levels."""
    inner = rf"{_STRING}|{_braces(depth - 1)}" if depth else _STRING
    return rf"\{{[^{{}}\"]*(?:(?:{inner})[^{{}}\"]*){{0,100}}\}}"


_VALUE = rf"{_STRING}|{_braces(2)}|\[[0-9,]+\]<=\[[0-9,]+\](?:T\([0-9,]+\))?|%?[A-Za-z0-9_.\->?]+"
_ATTRIBUTE = re.compile(rf"{_SPACE},{_SPACE}(({NAME})=[ \t]*(?:{_VALUE})?)", re.DOTALL)


def parse_attributes(body: Body, form: Form, wrapped: str, *, nested: bool) -> dict[str, ParsedAttribute]:
    """Reads the attributes of an instruction, each after a comma, and checks their names. An operation that is written
    as an operand of another (`nested`) has no attributes in text."""
    cursor, text, state = body.cursor, body.text, body.state
    cache, readable = state.attributes, form.readable
    attributes: dict[str, ParsedAttribute] = {}
    at = cursor.at
    while not nested:
        match = _ATTRIBUTE.match(text, at)
        if match is None:
            break
        key, name = match.groups()
        parsed = cache.get(key)
        if parsed is not None and parsed.attribute is readable.get(name) and name not in attributes:
            at = match.end()
        else:
            attribute = _checked(cursor, name, form, attributes, match.start(2))
            cursor.at = match.end(2) + 1
            parsed = _parse_value(body, attribute, match.start(2))
            at = cursor.at
            # An attribute is not kept by its text if the same text later means something else: a computation in braces
            # is a new one each time, and names of instructions belong to one computation.
            if at == match.end() and attribute is not CONTROL_PREDECESSORS and not (name in CALLED and "{" in key):
                state.keep_attribute(key, parsed)
        attributes[name] = parsed
    cursor.at = at
    if not nested and (text.startswith((",", " ", "/", "\t", "\r"), at) or at >= len(text)):
        cursor.skip_space()
        if text.startswith(",", cursor.at):
            cursor.at += 1
            _parse_rest(body, form, attributes)
    for name in form.required:
        if name not in attributes:
            raise cursor.error(
                f"{wrapped or form.opcode} needs the attribute {name}", at=at, expected=f"{name}=", found=cursor.found()
            )
    return attributes


def _parse_rest(body: Body, form: Form, attributes: dict[str, ParsedAttribute]) -> None:
    """Reads the remaining attributes token by token, from the first that the regular expression does not match. An
    example is an attribute with a comment before its name. The comma before it has been consumed."""
    cursor = body.cursor
    while True:
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_attribute_name()
        attributes[name] = _parse_value(body, _checked(cursor, name, form, attributes, at), at)
        if not cursor.accept(","):
            return


def _checked(cursor: HloCursor, name: str, form: Form, attributes: dict[str, ParsedAttribute], at: int) -> Attribute:
    """The Attribute called `name`. ParseError if the operation cannot have it or if it has been given already."""
    if name in attributes:
        raise cursor.error(f"attribute {name} is given twice", at=at, expected="each attribute once", found=name)
    attribute = form.readable.get(name)
    if attribute is None:
        known = ", ".join(sorted(form.readable))
        raise cursor.error(
            f"{form.opcode} has no attribute {name}; it may have {known}", at=at, expected="an attribute", found=name
        )
    return attribute


def _parse_value(body: Body, attribute: Attribute, at: int) -> ParsedAttribute:
    """Reads the value of an attribute. `at` is the offset of the attribute's name."""
    cursor, name = body.cursor, attribute.name
    try:
        if attribute.read is not None:
            return ParsedAttribute(attribute, attribute.read(cursor))
        if attribute is METADATA:
            return ParsedAttribute(attribute, metadata=UnnumberedMetadata(*parse_metadata(cursor)))
        if name in CALLED:
            return ParsedAttribute(attribute, calls=_parse_called(body, name))
        if attribute is CONTROL_PREDECESSORS:
            return ParsedAttribute(attribute, control=_parse_predecessors(body))
        return ParsedAttribute(attribute, thread=cursor.parse_text(name).decode())
    except ParseError:
        # Reading for further errors goes on at or after the attribute's name.
        cursor.at = max(cursor.at, at)
        raise


def _parse_called(body: Body, name: str) -> tuple[HloComputation | None, ...]:
    """Reads an attribute that names computations, or has them in braces."""
    cursor = body.cursor

    def parse_name() -> HloComputation | None:
        cursor.skip_space()
        at = cursor.at
        return body.state.computation(cursor.parse_name("the name of a computation"), at)

    def parse_one() -> HloComputation | None:
        return _parse_inline(body) if cursor.accept("{") else parse_name()

    return tuple(cursor.parse_list(parse_one)) if name in LISTS else (parse_one(),)


def _parse_inline(body: Body) -> HloComputation:
    """Reads a computation that is written where it is called. Its '{' has been consumed."""
    state = body.state
    if state.depth >= MAX_DEPTH:
        raise body.cursor.error(f"computations nest deeper than {MAX_DEPTH} levels")
    computation = state.new_computation("_")
    state.depth += 1
    try:
        body.parse_body(state, computation)
    finally:
        state.depth -= 1
    state.add_computation(computation)
    return computation


def _parse_predecessors(body: Body) -> tuple[HloInstruction, ...]:
    """Reads the value of control-predecessors: the instructions, without those that could not be read."""
    cursor = body.cursor

    def parse_name() -> HloInstruction | None:
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_name("the name of an instruction")
        if name not in body.names:
            raise cursor.error(
                f"no instruction {name!r} is defined before this", at=at, expected="an instruction", found=name
            )
        return body.names[name]

    if cursor.looking_at("{"):
        start = cursor.at
        cursor.expect("{")
        if cursor.looking_at("}"):
            cursor.fail("the name of an instruction")
        cursor.at = start
    return tuple(dict.fromkeys(each for each in cursor.parse_list(parse_name) if each is not None))


# -- what the text leaves out ------------------------------------------------------------------


Attributes = dict[str, ParsedAttribute]
"""The attributes of one instruction by name."""


def complete_parameter(
    state: State, computation: HloComputation, name: str, shape: ParsedShape, number: int
) -> HloInstruction:
    """A parameter that the text has no line for."""
    row = OPERATIONS[Opcode.PARAMETER]
    kind = state.kind_of(shape, (row.base,))
    return HloInstruction(computation, name, 0, kind, said_metadata=b"", number=number)


def complete_tuple_element(state: State, operand: HloInstruction, number: int) -> HloInstruction:
    """A get-tuple-element of element `number` of the tuple `operand`. The text has no line for it: an operand names the
    element as `%x#0`."""
    row = OPERATIONS[Opcode.GET_TUPLE_ELEMENT]
    shape = state.parsed_shape(operand.shape.tuple_shapes[number])
    origin = _origin_of(operand, number) if operand.opcode is Opcode.TUPLE else b""
    kind = state.kind_of(shape, (row.base, FIELDS.integer("tuple_index", number), origin))
    return HloInstruction(operand.computation, f"{operand.name}_{number}", 0, kind, (operand,), b"")


def origin_of_element(operand: HloInstruction, attributes: Attributes) -> bytes:
    """The serialized field `original_value` that XLA gives to a get-tuple-element of `operand`, a `tuple` instruction,
    if the text has none: that of the element."""
    if "index" not in attributes:
        return b""
    return _origin_of(operand, xla.HloInstructionProto.FromString(attributes["index"].data).tuple_index)


def _origin_of(operand: HloInstruction, number: int) -> bytes:
    if not 0 <= number < len(operand.operands):
        return b""
    element = operand.operands[number].kind.message
    return FIELDS.message("original_value", element.original_value) if element.HasField("original_value") else b""


def complete_instruction(
    state: State,
    computation: HloComputation,
    name: str,
    shape: ParsedShape | None,
    row: Operation,
    data: bytes,
    operands: tuple[HloInstruction, ...],
    attributes: Attributes,
    at: int,
) -> HloInstruction:
    """The instruction with everything but what is known only at the end of the module.

    `data` has the serialized fields that the parentheses hold. Raises ParseError, at the offset `at`, for text that
    contradicts itself.
    """
    pieces = [row.base, data]
    fills = row.fills
    if fills or row.check is not None:
        written = _WrittenInstruction(row, shape, operands, attributes)
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
            shape = state.parsed_shape(row.fixed_shape(shape.shape, [operand.shape for operand in operands]))
        except CannotInfer as error:
            raise _error(state, at, str(error)) from None
    if "sharding" in attributes and shape.shape.is_tuple:
        data = attributes["sharding"].data
        pieces = [piece if piece is not data else sharding_of_tuple(data, shape) for piece in pieces]
    if "parameter_replication" in attributes:
        _check_replication(state, row, shape, attributes["parameter_replication"].data, at)
    made = HloInstruction(computation, name, 0, state.kind_of(shape, pieces), operands, b"")
    if attributes:
        if "channel_id" in attributes:
            made.channel = xla.HloInstructionProto.FromString(attributes["channel_id"].data).channel_id
        if "metadata" in attributes:
            made.said_metadata = attributes["metadata"].metadata
        called = _called(row, attributes)
        if called:
            made.called_computations = readable(called)
            if row.fuses_called_computation:
                state.fused += made.called_computations
    return made


def readable(called: Sequence[HloComputation | None]) -> tuple[HloComputation, ...]:
    """The computations without those that could not be read."""
    return tuple([each for each in called if each is not None])


class _WrittenInstruction:
    """The operands and attributes that text gives an instruction, for the rows' functions that fill in and check
    attributes. It is the Written of xlashape.hlo.ops.attributes."""

    __slots__ = ("_attributes", "_operands", "_shape", "opcode")

    def __init__(
        self, row: Operation, shape: ParsedShape | None, operands: Sequence[HloInstruction], attributes: Attributes
    ) -> None:
        self.opcode: str = row.opcode
        self._shape = shape
        self._operands = operands
        self._attributes = attributes

    @property
    def shape(self) -> Shape | None:
        return None if self._shape is None else self._shape.shape

    @property
    def operands(self) -> list[Shape]:
        return [operand.shape for operand in self._operands]

    def has(self, name: str) -> bool:
        return name in self._attributes

    def value(self, name: str) -> bytes:
        attribute = self._attributes.get(name)
        return b"" if attribute is None else attribute.data

    def called_parameters(self, name: str) -> Sequence[int]:
        attribute = self._attributes.get(name)
        if attribute is None:
            return ()
        return [-1 if each is None else len(each.parameters) for each in attribute.calls]


def _error(state: State, at: int, message: str) -> ParseError:
    return state.cursor.error(message, at=at)


def _called(row: Operation, attributes: Attributes) -> tuple[HloComputation | None, ...]:
    """The called computations in the order in which the proto lists them; None for one that could not be read."""
    replacement = attributes.get(row.calls.replacement)
    if replacement is not None:
        return replacement.calls
    calls: tuple[HloComputation | None, ...] = ()
    for name in row.call_names:
        if name in attributes:
            calls += attributes[name].calls
    return calls


# -- shapes ---------------------------------------------------------------------------------


def _infer(
    state: State, row: Operation, data: bytes, operands: Sequence[HloInstruction], attributes: Attributes, at: int
) -> ParsedShape:
    called = readable(_called(row, attributes))
    if row.infer is not None:
        _check_arguments(state, row, operands, called, at)
    shapes = [operand.shape for operand in operands]
    results = [computation.root.shape for computation in called]
    if row.verify_calls is check_reduction:
        parameters = [[each.shape for each in computation.parameters] for computation in called]
        problem = reduction_problem(shapes, parameters, results)
        if problem:
            raise _error(state, at, f"{row.opcode}: {problem}")
    try:
        return state.parsed_shape(row.infer_shape(Given(xla.HloInstructionProto.FromString(data), shapes, results)))
    except CannotInfer as error:
        raise _error(state, at, str(error)) from None


def _check_arguments(
    state: State, row: Operation, operands: Sequence[HloInstruction], called: Sequence[HloComputation], at: int
) -> None:
    """Raises ParseError unless the parameters of the called computations have the shapes of the operands."""
    if row.calls.arguments is Arguments.ELEMENTS:
        return
    for branch, each in enumerate(called):
        is_branch = row.calls.arguments is Arguments.ONE_OPERAND_EACH
        given = operands[branch + 1 : branch + 2] if is_branch else operands
        taken = [state.shape_of(parameter).bare for parameter in each.parameters]
        if [state.shape_of(operand).bare for operand in given] != taken:
            shown = ", ".join(map(str, taken))
            raise _error(state, at, f"computation {each.name!r} takes ({shown})")


# -- attributes of any instruction ----------------------------------------------------------


def sharding_of_tuple(data: bytes, shape: ParsedShape) -> bytes:
    """The serialized field `sharding` of an instruction whose result is a tuple. If `data` has one sharding instead of
    one for each leaf, every leaf gets it."""
    sharding = xla.HloInstructionProto.FromString(data).sharding
    if sharding.type == xla.OpSharding.TUPLE:
        return data
    # An empty tuple has a list with one sharding.
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
