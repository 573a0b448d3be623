r"""The attributes after an instruction's operands: `, name=value`, each name at most once, and those that an opcode needs.

A regular expression finds a name with its value where the value is plain enough to tell where it ends; attributes that were read before
are found by that text. Values that name computations or instructions are read here, all others by the attribute's own `read`.

A `Form` is what text may have for an opcode. `negate-start(p)` is an async-start of a negate: it takes the operands and attributes of a negate, and
those of an async-start that a negate does not have. `negate-update(s, …)` and `negate-done(s)` take the started operation, and the attributes that any
instruction may have. The update also takes operands that the start does not have, and may have output_to_operand_aliasing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from xlashape.errors import ParseError
from xlashape.hlo.ops.calls import CALLED, LISTS
from xlashape.hlo.ops.common import COMMON, CONTROL_PREDECESSORS, METADATA
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode
from xlashape.hlo.ops.operation import AsyncStep, Count, Operation, at_least
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.text.reader.state import MAX_DEPTH, Body, ParsedAttribute, ParsedComputation
from xlashape.hlo.tokens.hlo_cursor import NAME, HloCursor
from xlashape.hlo.values.attribute import Attribute
from xlashape.hlo.values.metadata import parse_metadata
from xlashape.proto import xla
from xlashape.proto.wire import Fields, sized

_STEPS = {
    step.value: (step, opcode)
    for step, opcode in (
        (AsyncStep.START, Opcode.ASYNC_START),
        (AsyncStep.UPDATE, Opcode.ASYNC_UPDATE),
        (AsyncStep.DONE, Opcode.ASYNC_DONE),
    )
}


class WrappedForm(NamedTuple):
    """What text may have for an asynchronous operation that is written as the operation it wraps."""

    opcode: Opcode | UnknownOpcode
    operands: Count
    required: tuple[str, ...]
    readable: Mapping[str, Attribute]


Form = Operation | WrappedForm


def _has_steps_of_its_own(opcode: str) -> bool:
    """Whether an operation such as copy or send has opcodes of its own for its asynchronous steps."""
    return opcode + AsyncStep.START.value in OPERATIONS or opcode + AsyncStep.DONE.value in OPERATIONS


def form_of(opcode: str) -> tuple[Operation, Form, str] | None:
    """The row of the instruction that text writes with `opcode`, what text may have for it, and the opcode that it wraps, if any.

    None for an opcode that is not known.
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
        # Operands that are missing here are those of an update.
        form = WrappedForm(outer, at_least(0), inner.required, {**own, **inner.readable})
    else:
        form = WrappedForm(outer, at_least(1), (), {**COMMON, **own})
    return row, form, wrapped


_METADATA_TAG = Fields(xla.HloInstructionProto).tag("metadata")
_SPACE = r"[ \t\r\n]*"
_STRING = r'"[^"\\]*(?:\\.[^"\\]*){0,100}"'


def _braces(depth: int) -> str:
    """The regular expression of braces with their contents: strings, and further braces up to a depth."""
    inner = rf"{_STRING}|{_braces(depth - 1)}" if depth else _STRING
    return rf"\{{[^{{}}\"]*(?:(?:{inner})[^{{}}\"]*){{0,100}}\}}"


_VALUE = rf"{_STRING}|{_braces(2)}|\[[0-9,]+\]<=\[[0-9,]+\](?:T\([0-9,]+\))?|%?[A-Za-z0-9_.\->?]+"
_ATTRIBUTE = re.compile(rf"{_SPACE},{_SPACE}(({NAME})=[ \t]*(?:{_VALUE})?)", re.DOTALL)


def parse_attributes(body: Body, form: Form, wrapped: str, *, nested: bool) -> dict[str, ParsedAttribute]:
    """Reads attributes, each after a comma, and checks their names. An operand that is an operation itself (`nested`) has none."""
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
            # A computation that is written where it is called is a new one each time.
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
                f"{wrapped or form.opcode} needs the attribute {name}",
                at=at,
                expected=f"{name}=",
                found=cursor.found(),
            )
    return attributes


def _parse_rest(body: Body, form: Form, attributes: dict[str, ParsedAttribute]) -> None:
    """Reads what the regular expression does not match, such as a comment before a name. The comma is consumed."""
    cursor = body.cursor
    while True:
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_attribute_name()
        attributes[name] = _parse_value(body, _checked(cursor, name, form, attributes, at), at)
        if not cursor.accept(","):
            return


def _checked(cursor: HloCursor, name: str, form: Form, attributes: dict[str, ParsedAttribute], at: int) -> Attribute:
    """The attribute of a name, which the operation must have and text must not have given yet."""
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
    """Reads the value of an attribute, whose name is at `at` in the text."""
    cursor, name = body.cursor, attribute.name
    try:
        if attribute.read is not None:
            return ParsedAttribute(attribute, attribute.read(cursor))
        if attribute is METADATA:
            data, frame, payload = parse_metadata(cursor)
            return ParsedAttribute(attribute, _METADATA_TAG + sized(data), frame=frame, payload=payload)
        if name in CALLED:
            return ParsedAttribute(attribute, b"", calls=_parse_called(body, name))
        if attribute is CONTROL_PREDECESSORS:
            return ParsedAttribute(attribute, b"", calls=_parse_predecessors(body))
        return ParsedAttribute(attribute, b"", thread=cursor.parse_text(name))
    except ParseError:
        # Reading goes on after the attribute's name at least.
        cursor.at = max(cursor.at, at)
        raise


def _parse_called(body: Body, name: str) -> tuple[int, ...]:
    """The indices of the computations that an attribute names."""
    cursor = body.cursor

    def parse_name() -> int:
        cursor.skip_space()
        at = cursor.at
        return body.state.computation(cursor.parse_name("the name of a computation"), at)

    def parse_one() -> int:
        return _parse_inline(body) if cursor.accept("{") else parse_name()

    return tuple(cursor.parse_list(parse_one)) if name in LISTS else (parse_one(),)


def _parse_inline(body: Body) -> int:
    """Reads a computation that is written where it is called, its '{' consumed."""
    state = body.state
    if state.depth >= MAX_DEPTH:
        raise body.cursor.error(f"computations nest deeper than {MAX_DEPTH} levels")
    computation = ParsedComputation("_")
    state.depth += 1
    try:
        body.parse_body(state, computation)
    finally:
        state.depth -= 1
    state.computations.append(computation)
    return len(state.computations) - 1


def _parse_predecessors(body: Body) -> tuple[int, ...]:
    """The indices of the instructions that control-predecessors names, without those that could not be read."""
    cursor = body.cursor

    def parse_name() -> int:
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_name("the name of an instruction")
        index = body.names.get(name)
        if index is None:
            raise cursor.error(
                f"no instruction {name!r} is defined before this", at=at, expected="an instruction", found=name
            )
        return index

    if cursor.looking_at("{"):
        start = cursor.at
        cursor.expect("{")
        if cursor.looking_at("}"):
            cursor.fail("the name of an instruction")
        cursor.at = start
    return tuple(dict.fromkeys(index for index in cursor.parse_list(parse_name) if index >= 0))
