"""What the parentheses of a parameter and of a constant hold: a number, a literal."""

from __future__ import annotations

import re

from xlashape.hlo.literal import parse_literal
from xlashape.hlo.ops.operation import FIELDS
from xlashape.hlo.text.reader.state import Body, ParsedShape

__all__ = ["MAX_PARAMETER", "parse_constant", "parse_parameter_number"]

MAX_PARAMETER = 1 << 24
"""The greatest number of a parameter or of a tuple's element."""

_NUMBER = re.compile(r"[ \t]*([0-9]{1,7})[ \t]*\)")
_SCALAR = re.compile(r"([^(){}\"/, \n]{1,64})\)")


def parse_parameter_number(body: Body) -> int:
    """The number of a parameter, up to and with the ')'."""
    cursor = body.cursor
    match = _NUMBER.match(cursor.text, cursor.at)
    if match is not None:
        cursor.at = match.end()
        return int(match.group(1))
    number = cursor.parse_int_between(0, MAX_PARAMETER, "a parameter's number")
    cursor.expect(")")
    return number


def parse_constant(body: Body, shape: ParsedShape | None, at: int) -> bytes:
    """The field `literal` of a constant of a shape, up to and with the ')'; b"" for an elided one without values. `at` is where the opcode is."""
    cursor, state = body.cursor, body.state
    if shape is None:
        raise cursor.error("the shape of a constant must be written", at=at, expected="a shape")
    start = cursor.at
    match = _SCALAR.match(cursor.text, start)
    key = ""
    if match is not None and shape.shape.is_scalar and shape.shape.is_array:
        key = f"{shape.shape} {match.group(1)}"
        data = state.literals.get(key)
        if data is not None:
            cursor.at = match.end()
            return data
    left_out = state.elided.left_out
    literal, cursor.at = parse_literal(state.source, start, shape.proto(), state.elided)
    cursor.expect(")")
    if state.elided.left_out > left_out:
        return b""
    data = FIELDS.message("literal", literal)
    if key and match is not None and cursor.at == match.end():
        state.keep_literal(key, data)
    return data
