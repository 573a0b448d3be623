r"""Reads one instruction of HLO text, token by token.

    instruction := 'ROOT'? name '=' right
    right       := shape? opcode '(' operands ')' (',' attribute)*
    operands    := (operand? (',' operand?)*)?              operand := shape? (reference ('#' INT)*)? | right
    attribute   := name '=' value                           names: the opcode's row; values: xlashape.hlo.values

The parentheses of `parameter(INT)` and `constant(literal)` have a number and a literal instead of operands. The
operand `%x#1#0` is element 0 of element 1 of the tuple %x.

Regular expressions match an instruction that is written as XLA writes it: its head, its operands, and each of its
attributes. Shapes and attributes are kept by their text, so that equal texts are read once. Everything else is read
with the cursor.
"""

from __future__ import annotations

import re

from xlashape.errors import ParseError
from xlashape.hlo.ir import HloInstruction
from xlashape.hlo.literal import parse_literal
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep, Contents
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.text.reader import attributes as attribute_reader
from xlashape.hlo.text.reader.asynchronous import complete_step, complete_wrapped_start
from xlashape.hlo.text.reader.attributes import Form
from xlashape.hlo.text.reader.state import MAX_DEPTH, Body, ParsedShape
from xlashape.hlo.tokens import KEYWORDS, NAME, RESERVED, SHAPE, HloCursor
from xlashape.hlo.values.attribute import FIELDS
from xlashape.limits import spend

MAX_PARAMETER = 1 << 24
"""The greatest number that a parameter, or an element of a tuple, may have."""

_NUMBER = re.compile(r"[ \t]*([0-9]{1,7})[ \t]*\)")
_SCALAR = re.compile(r"([^(){}\"/, \n]{1,64})\)")


def parse_parameter_number(body: Body) -> int:
    """Reads the number of a parameter and the ')' after it."""
    cursor = body.cursor
    match = _NUMBER.match(cursor.text, cursor.at)
    if match is not None:
        cursor.at = match.end()
        return int(match.group(1))
    number = cursor.parse_int_between(0, MAX_PARAMETER, "a parameter's number")
    cursor.expect(")")
    return number


def parse_constant(body: Body, shape: ParsedShape | None, at: int) -> bytes:
    """Reads the value of a constant and the ')' after it. Returns the serialized field `literal`; b"" for an elided
    constant that gets no values. `at` is the offset of the opcode."""
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


NO_NAME = RESERVED | KEYWORDS
"""Words that an instruction cannot have as its name."""

SPACE = r"[ \t\r\n]*"
HEAD = re.compile(rf"{SPACE}(?:(ROOT)[ \t\r\n]+)?(%?)({NAME})[ \t]+=[ \t]*({SHAPE})[ \t]*([a-z][a-z0-9\-]*)\(")
"""The head of an instruction as XLA writes it, up to the opening parenthesis."""
_OTHER_SHAPE = re.compile(rf"b{SPACE}\(|unknown_-?[0-9]+{SPACE}\[")
"""The beginning of the shape of a buffer, or of an array whose type has a number and no name."""
_SEPARATOR = r",[ \t\r\n]*(?:/\*[^*]*\*/[ \t\r\n]*)?"
_REFERENCE = rf"%?{NAME}(?:#[0-9]{{1,7}})*"
_OPERANDS = re.compile(rf"[ \t]*(?:({_REFERENCE}(?:{_SEPARATOR}{_REFERENCE}){{0,10000}})[ \t]*)?\)")
_ELEMENTS = re.compile(rf"({NAME})((?:#[0-9]+)*)")
_OPERAND = re.compile(rf"{SPACE}(?:/\*[^*]*\*/{SPACE})?(?:({SHAPE}){SPACE})?(%?)({NAME}){SPACE}([,)])")
_NAME = re.compile(NAME)
_COMMENT = re.compile(r"/\*[^*]*\*/")


def parse_instruction(body: Body, match: re.Match[str] | None) -> HloInstruction | None:
    """Reads one instruction. `match` is the match of its head; None if the head is not written as XLA writes it. The
    result is None for an instruction with an operand that could not be read."""
    cursor, text = body.cursor, body.text
    start = cursor.at
    if match is not None:
        root, percent, name, shape_text, opcode = match.groups()
        name_at = match.start(3)
        if name in NO_NAME and (not percent or name in RESERVED):
            raise cursor.error(f"{name!r} cannot be a name", at=name_at, expected="a name", found=name)
        if name in body.names:
            raise _twice(body, name, name_at)
        shape = body.state.shapes.get(shape_text)
        if shape is None:
            body.current = name
            shape = body.state.shape_of_text(shape_text, match.start(4))
        cursor.at = match.end()
        opcode_at = match.start(5)
    else:
        cursor.skip_space()
        root = _accept_root(cursor)
        cursor.skip_space()
        name_at = cursor.at
        name = cursor.parse_name("the name of an instruction")
        if name in RESERVED:
            raise cursor.error(f"{name!r} cannot be a name", at=name_at, expected="a name", found=name)
        if name in body.names:
            raise _twice(body, name, name_at)
        # `p=`, without a space, would be an attribute.
        has_mark = text.startswith("%", name_at) or text.startswith(":", cursor.at - 1)
        if (not has_mark and text.startswith("=", cursor.at)) or not cursor.accept("="):
            cursor.fail("' = '")
        body.current = name
        shape, opcode, opcode_at = shape_and_opcode(body)
        cursor.expect("(")
    body.current = name
    instruction = finish_right(body, name, shape, opcode, opcode_at, 0)
    body.names[name] = instruction
    if root:
        if body.root is not None:
            raise cursor.error("a computation has only one ROOT", at=start, expected="no second ROOT")
        body.root = instruction
    return instruction


def _twice(body: Body, name: str, at: int) -> ParseError:
    return body.cursor.error(
        f"instruction {name!r} is already defined in this computation", at=at, expected="another name", found=name
    )


def _accept_root(cursor: HloCursor) -> str | None:
    at = cursor.at
    match = _NAME.match(cursor.text, at)
    if match is not None and match.group() == "ROOT" and not cursor.text.startswith(":", match.end()):
        cursor.at = match.end()
        return "ROOT"
    return None


def shape_and_opcode(body: Body) -> tuple[ParsedShape | None, str, int]:
    """Reads `shape? opcode`. Returns the shape, None if the text leaves it out, the opcode, and the opcode's offset."""
    cursor = body.cursor
    cursor.skip_space()
    match = _NAME.match(cursor.text, cursor.at)
    word = match.group() if match is not None else ""
    shape = None
    if match is None or word in RESERVED or _OTHER_SHAPE.match(cursor.text, cursor.at):
        shape = body.state.parse_shape()
        cursor.skip_space()
    at = cursor.at
    if cursor.text.startswith("%", at):
        cursor.fail("an opcode")
    opcode = cursor.parse_name("an opcode")
    if cursor.text.startswith(":", cursor.at - 1):
        cursor.at = at
        cursor.fail("an opcode")
    return shape, opcode, at


def begins_instruction(cursor: HloCursor) -> bool:
    """Whether an instruction comes next that begins with its name and '='. Consumes nothing."""
    start = cursor.at
    try:
        _accept_root(cursor)
        cursor.parse_name()
        return cursor.accept("=")
    except ParseError:
        return False
    finally:
        cursor.at = start


def parse_right(body: Body, name: str) -> HloInstruction | None:
    """Reads `shape? opcode(operands), attributes` as the instruction `name`."""
    shape, opcode, at = shape_and_opcode(body)
    body.cursor.expect("(")
    body.current = name
    return finish_right(body, name, shape, opcode, at, 0)


# -- the right side -------------------------------------------------------------------------


def finish_right(
    body: Body, name: str, shape: ParsedShape | None, opcode: str, opcode_at: int, depth: int
) -> HloInstruction | None:
    """Reads operands and attributes, and adds the instruction. The '(' has been consumed. None if an operand could not
    be read, so that the instruction cannot be checked."""
    cursor, state = body.cursor, body.state
    wrapped = ""
    form = row = OPERATIONS.get(opcode)
    if form is None or row is None:
        found = attribute_reader.form_of(opcode)
        if found is None:
            raise cursor.error(f"unknown opcode {opcode!r}", at=opcode_at, expected="an opcode", found=opcode)
        row, form, wrapped = found
    given: tuple[HloInstruction | None, ...] = ()
    data = b""
    number = -1
    if row.contents is Contents.OPERANDS:
        given = _operands(body, depth)
    elif row.contents is Contents.LITERAL:
        data = parse_constant(body, shape, opcode_at)
        if shape is not None and not shape.is_plain:
            shape = shape.of_literal()
    else:
        number = parse_parameter_number(body)
    # An operation within operands has no attributes: a comma after it separates operands.
    attributes = attribute_reader.parse_attributes(body, form, wrapped, nested=depth > 0)
    operands = tuple([each for each in given if each is not None])
    if len(operands) < len(given):
        return None
    if not form.operands.least <= len(operands) <= form.operands.most:
        raise _count_error(cursor, form, len(operands), opcode_at)
    if row.async_step is AsyncStep.DONE:
        operands = operands[:1]  # XLA drops further operands of an async-done
    computation = body.computation
    if wrapped and row.async_step is AsyncStep.START:
        made = complete_wrapped_start(state, computation, name, shape, operands, attributes, opcode_at, wrapped)
    else:
        if opcode == Opcode.GET_TUPLE_ELEMENT and operands[0].opcode is Opcode.TUPLE and "origin" not in attributes:
            data = attribute_reader.origin_of_element(operands[0], attributes)
        made = attribute_reader.complete_instruction(
            state, computation, name, shape, row, data, operands, attributes, opcode_at
        )
        if row.async_step is not None:
            complete_step(state, made, row.async_step, attributes, opcode_at, wrapped)
    if number >= 0:
        made.number = number
        if body.parameters.setdefault(number, made) is not made:
            raise cursor.error(f"parameter {number} is already defined in this computation", at=opcode_at)
    if "channel_id" in attributes and not attributes["channel_id"].data:
        state.channels_0.append(name)
    if "control-predecessors" in attributes:
        made.control_predecessors = attributes["control-predecessors"].control
    return body.add(made)


def _count_error(cursor: HloCursor, form: Form, count: int, at: int) -> ParseError:
    bound = str(form.operands)
    return cursor.error(
        f"{form.opcode} takes {bound} operand{'' if form.operands.least == 1 else 's'}, found {count}",
        at=at,
        expected=f"{bound} operands",
        found=str(count),
    )


def _operands(body: Body, depth: int) -> tuple[HloInstruction | None, ...]:
    """Reads operands and the ')' after them. None stands for one that could not be read."""
    cursor, text = body.cursor, body.text
    match = _OPERANDS.match(text, cursor.at)
    names = body.names
    if match is not None:
        inside = match.group(1)
        if not inside:
            cursor.at = match.end()
            return ()
        if "/" in inside:
            inside = _COMMENT.sub("", inside)
        try:
            if "#" in inside:
                found = tuple([_element(body, names[name], path) for name, path in _ELEMENTS.findall(inside)])
            else:
                found = tuple([names[name] for name in _NAME.findall(inside)])
        except KeyError:
            pass
        else:
            cursor.at = match.end()
            return found
    operands: list[HloInstruction | None] = []
    state = body.state
    while True:
        if len(operands) & 255 == 255:
            spend(256)
        match = _OPERAND.match(text, cursor.at)
        if match is not None:
            shape_text, _, name, closing = match.groups()
            if name in names:
                operand = names[name]
                if shape_text is not None and operand is not None:
                    shape = state.shapes.get(shape_text) or state.shape_of_text(shape_text, match.start(1))
                    check_written(body, shape, operand, match.start(1))
                operands.append(operand)
                cursor.at = match.end()
                if closing == ")":
                    return tuple(operands)
                continue
        if cursor.accept(")"):
            return tuple(operands)
        if cursor.accept(","):
            continue
        operands += _operand(body, depth)
        if cursor.accept(")"):
            return tuple(operands)
        if not cursor.accept(","):
            cursor.fail("',' or ')' after an operand")


def _element(body: Body, instruction: HloInstruction | None, path: str) -> HloInstruction | None:
    """The operand `%x#1#0`, where `instruction` is %x and `path` is "#1#0"."""
    for digits in path.split("#")[1:]:
        instruction = _tuple_element(body, instruction, int(digits))
    return instruction


def _tuple_element(body: Body, operand: HloInstruction | None, number: int) -> HloInstruction | None:
    """The get-tuple-element of element `number` of a tuple. The first call makes it."""
    if operand is None:
        return None
    element = body.elements.get((operand, number))
    if element is None:
        if not operand.shape.is_tuple or number >= len(operand.shape.tuple_shapes):
            raise body.cursor.error(
                f"{operand.name!r}, {operand.shape.without_layout()}, has no element {number}",
                expected="an element of a tuple",
                found=str(number),
            )
        made = attribute_reader.complete_tuple_element(body.state, operand, number)
        element = body.elements[operand, number] = body.add(made)
    return element


def check_written(body: Body, written: ParsedShape, operand: HloInstruction, at: int) -> None:
    """Raises ParseError unless `written`, the shape before an operand at offset `at`, is that of the operand."""
    shape = body.state.shape_of(operand)
    if not shape.is_like(written):
        raise body.cursor.error(
            f"operand {operand.name!r} has shape {shape.bare}, not {written.bare}",
            at=at,
            expected=str(shape.bare),
            found=str(written.bare),
        )


def _operand(body: Body, depth: int) -> list[HloInstruction | None]:
    """Reads one operand with the cursor, `shape? reference` or `shape? opcode '(' …`. The list is empty for a shape
    alone, which is not an operand; None stands for an operand that could not be read."""
    cursor, text = body.cursor, body.text
    cursor.skip_space()
    at = cursor.at
    match = _NAME.match(text, at)
    shape = None
    shape_at = at
    if match is None or match.group() in RESERVED or (match.group() == "b" and text.startswith("(", match.end())):
        if not text.startswith("%", at):
            if match is None and not text.startswith("(", at):
                cursor.fail("an operand")
            shape = body.state.parse_shape()
            cursor.skip_space()
            at = cursor.at
    percent = text.startswith("%", at)
    match = _NAME.match(text, at + percent)
    if match is None:
        if body.open and shape is not None:
            return [_outside(body, f"_{len(body.parameters)}", shape)]
        if shape is not None and (cursor.looking_at(",") or cursor.looking_at(")")):
            return []
        cursor.fail("an operand")
    name = match.group()
    cursor.at = match.end()
    if not percent and text.startswith(":", cursor.at):
        cursor.at += 1
    is_known = name in body.names
    if not is_known and body.open and shape is not None and not cursor.looking_at("("):
        return [_outside(body, name, shape)]
    if is_known and not cursor.looking_at("("):
        operand = body.names[name]
        while cursor.accept("#"):
            number = cursor.parse_int_between(0, MAX_PARAMETER, "the number of an element")
            operand = _tuple_element(body, operand, number)
        if shape is not None and operand is not None:
            check_written(body, shape, operand, shape_at)
        return [operand]
    if percent or not cursor.looking_at("("):
        raise cursor.error(
            f"no instruction {name!r} is defined before this",
            at=at,
            expected="an instruction defined before",
            found=name,
        )
    if depth >= MAX_DEPTH:
        raise cursor.error(f"operations nest deeper than {MAX_DEPTH} levels", at=at)
    cursor.expect("(")
    return [finish_right(body, f"{name}.anon", shape, name, at, depth + 1)]


def _outside(body: Body, name: str, shape: ParsedShape) -> HloInstruction:
    number = len(body.parameters)
    made = attribute_reader.complete_parameter(body.state, body.computation, name, shape, number)
    body.parameters[number] = made
    body.names[name] = made
    return body.add(made)
