r"""Reads the instructions of a computation from HLO text. `parse_body` reads all of them, up to the closing brace.

    instruction := 'ROOT'? name '=' right
    right       := shape? opcode '(' operands ')' (',' attribute)*
    operands    := (operand? (',' operand?)*)?              operand := shape? (reference ('#' INT)*)? | right
    attribute   := name '=' value                           names: the opcode's row; values: xlashape.hlo.values

The parentheses of `parameter(INT)` and `constant(literal)` have a number and a literal instead of operands. The
operand `%x#1#0` is element 0 of element 1 of the tuple %x.

Three regular expressions match an instruction that is written as XLA writes it: its head, its operands, and each of its
attributes. Shapes and attributes are kept by their text, so that equal texts are read once. Everything else, such as
comments in unusual places and operations within operands, is read token by token with the cursor, which also finds out
what is wrong with the text.
"""

from __future__ import annotations

import re

from xlashape.errors import ParseError
from xlashape.hlo.literal import parse_literal
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep, Contents
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.text.reader.asynchronous import complete_step, complete_wrapped_start
from xlashape.hlo.text.reader.attributes import (
    Form,
    add_origin_of_element,
    complete_instruction,
    complete_parameter,
    complete_tuple_element,
    form_of,
    parse_attributes,
)
from xlashape.hlo.text.reader.state import MAX_DEPTH, Body, ParsedComputation, ParsedShape, State
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


_NO_NAME = RESERVED | KEYWORDS

_SPACE = r"[ \t\r\n]*"
_HEAD = re.compile(rf"{_SPACE}(?:(ROOT)[ \t\r\n]+)?(%?)({NAME})[ \t]+=[ \t]*({SHAPE})[ \t]*([a-z][a-z0-9\-]*)\(")
_OTHER_SHAPE = re.compile(rf"b{_SPACE}\(|unknown_-?[0-9]+{_SPACE}\[")
"""The beginning of the shape of a buffer, or of an array whose type has a number and no name."""
_SEPARATOR = r",[ \t\r\n]*(?:/\*[^*]*\*/[ \t\r\n]*)?"
_REFERENCE = rf"%?{NAME}(?:#[0-9]{{1,7}})*"
_OPERANDS = re.compile(rf"[ \t]*(?:({_REFERENCE}(?:{_SEPARATOR}{_REFERENCE}){{0,10000}})[ \t]*)?\)")
_ELEMENTS = re.compile(rf"({NAME})((?:#[0-9]+)*)")
_OPERAND = re.compile(rf"{_SPACE}(?:/\*[^*]*\*/{_SPACE})?(?:({SHAPE}){_SPACE})?(%?)({NAME}){_SPACE}([,)])")
_NAME = re.compile(NAME)
_COMMENT = re.compile(r"/\*[^*]*\*/")
_BEGIN = re.compile(rf"{_SPACE}(?:ROOT[ \t\r\n]+)?%?({NAME})")
_RESYNC = re.compile(rf"\n[ \t]*(?:(?:ROOT[ \t]+)?%?{NAME}[ \t]+=[ \t]|\}})")

_STEPS = 10
"""How many steps of the budget of `xlashape.limits` reading an instruction takes."""


def parse_body(state: State, computation: ParsedComputation) -> None:
    """Reads instructions into `computation`, and the '}' that ends it. The '{' before them has been consumed."""
    body = Body(state, computation, parse_body)
    cursor = state.cursor
    last: int | None = None
    match_head = _HEAD.match
    while True:
        spend(_STEPS)
        match = match_head(state.text, cursor.at)
        if match is None and cursor.accept("}"):
            if last is None:
                cursor.at -= 1
                cursor.fail("an instruction")
            break
        start = cursor.at
        try:
            last = _parse_instruction(body, match)
        except ParseError as error:
            if state.depth:
                # The computation is written within an instruction. Reading goes on after that instruction.
                raise
            state.note(error)
            # The name is defined, so that instructions that use it are not reported as further errors.
            begin = _BEGIN.match(state.text, start)
            body.names.setdefault(begin.group(1) if begin is not None else body.current, -1)
            last = -1
            # Reading goes on at the next line that begins an instruction or ends the computation. That may be the line
            # of the mistake itself, if the instruction began on a line before it.
            start = begin.start(1) if begin is not None else cursor.at
            newline = state.text.rfind("\n", start, cursor.at)
            match = _RESYNC.search(state.text, cursor.at if newline < 0 else newline)
            if match is None:
                state.raise_errors()
                return
            cursor.at = match.start() + 1
    if computation.root < 0:
        computation.root = last
    if state.errors:
        # The rest of the text is read for further mistakes, and may call this computation. Its parameters may have gaps
        # because of the errors, so they are numbered anew.
        computation.parameters = dict(
            enumerate([computation.parameters[each] for each in sorted(computation.parameters)])
        )
    else:
        body.check_parameters()


def _parse_instruction(body: Body, match: re.Match[str] | None) -> int:
    """Reads one instruction and returns its index. `match` is the match of its head; None if the head is not written as
    XLA writes it."""
    cursor, text = body.cursor, body.text
    start = cursor.at
    if match is not None:
        root, percent, name, shape_text, opcode = match.groups()
        name_at = match.start(3)
        if name in _NO_NAME and (not percent or name in RESERVED):
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
        shape, opcode, opcode_at = _shape_and_opcode(body)
        cursor.expect("(")
    body.current = name
    index = _finish_right(body, name, shape, opcode, opcode_at, 0)
    body.names[name] = index
    if root:
        if body.computation.root >= 0:
            raise cursor.error("a computation has only one ROOT", at=start, expected="no second ROOT")
        body.computation.root = index
    return index


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


def _shape_and_opcode(body: Body) -> tuple[ParsedShape | None, str, int]:
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


def parse_instruction_text(state: State, computation: ParsedComputation) -> None:
    """Reads a text of one instruction, `(ROOT? name =)? shape opcode(operands), attributes`.

    An operand that no instruction defines becomes a parameter of `computation`, with the shape written before it.
    """
    body = Body(state, computation, parse_body)
    body.open = True
    cursor = state.cursor
    cursor.skip_space()
    if begins_instruction(cursor):
        _parse_instruction(body, _HEAD.match(cursor.text, cursor.at))
        computation.root = len(computation.instructions) - 1
        body.check_parameters()
        return
    shape, opcode, at = _shape_and_opcode(body)
    if shape is None:
        cursor.at = at
        cursor.fail("an instruction: its name and ' = ', or its shape")
    cursor.expect("(")
    computation.root = _finish_right(body, "_", shape, opcode, at, 0)
    body.check_parameters()


def parse_right(body: Body, name: str) -> int:
    """Reads `shape? opcode(operands), attributes` as the instruction `name`; returns its index."""
    shape, opcode, at = _shape_and_opcode(body)
    body.cursor.expect("(")
    body.current = name
    return _finish_right(body, name, shape, opcode, at, 0)


# -- the right side -------------------------------------------------------------------------


def _finish_right(body: Body, name: str, shape: ParsedShape | None, opcode: str, opcode_at: int, depth: int) -> int:
    """Reads operands and attributes, adds the instruction, and returns its index. The '(' has been consumed."""
    cursor = body.cursor
    wrapped = ""
    form = row = OPERATIONS.get(opcode)
    if form is None or row is None:
        found = form_of(opcode)
        if found is None:
            raise cursor.error(f"unknown opcode {opcode!r}", at=opcode_at, expected="an opcode", found=opcode)
        row, form, wrapped = found
    operand_indices: tuple[int, ...] = ()
    data = b""
    number = -1
    if row.contents is Contents.OPERANDS:
        operand_indices = _operands(body, depth)
    elif row.contents is Contents.LITERAL:
        data = parse_constant(body, shape, opcode_at)
        if shape is not None and not shape.is_plain:
            shape = shape.of_literal()
    else:
        number = parse_parameter_number(body)
        data = FIELDS.integer("parameter_number", number)
    # An operation within operands has no attributes: a comma after it separates operands.
    attributes = parse_attributes(body, form, wrapped, nested=depth > 0)
    if -1 in operand_indices:
        # An operand could not be read, so this instruction cannot be checked.
        return -1
    instructions = body.computation.instructions
    count = len(operand_indices)
    if not form.operands.least <= count <= form.operands.most:
        raise _count_error(cursor, form, count, opcode_at)
    if row.async_step is AsyncStep.DONE:
        operand_indices = operand_indices[:1]  # XLA drops further operands of an async-done
    operands = [instructions[i] for i in operand_indices]
    if wrapped and row.async_step is AsyncStep.START:
        parsed = complete_wrapped_start(body.state, name, shape, operand_indices, attributes, opcode_at, wrapped)
    else:
        parsed = complete_instruction(
            body.state, name, shape, row, data, operand_indices, operands, attributes, opcode_at
        )
        if opcode == Opcode.GET_TUPLE_ELEMENT:
            add_origin_of_element(parsed, instructions, attributes)
        if row.async_step is not None:
            complete_step(body.state, body.computation, parsed, row.async_step, attributes, opcode_at, wrapped)
    index = len(instructions)
    if number >= 0 and body.computation.parameters.setdefault(number, index) != index:
        raise cursor.error(f"parameter {number} is already defined in this computation", at=opcode_at)
    if "channel_id" in attributes and not attributes["channel_id"].data:
        body.state.channels_0.append(name)
    if "control-predecessors" in attributes:
        parsed.control = attributes["control-predecessors"].calls
    instructions.append(parsed)
    return index


def _count_error(cursor: HloCursor, form: Form, count: int, at: int) -> ParseError:
    bound = str(form.operands)
    return cursor.error(
        f"{form.opcode} takes {bound} operand{'' if form.operands.least == 1 else 's'}, found {count}",
        at=at,
        expected=f"{bound} operands",
        found=str(count),
    )


def _operands(body: Body, depth: int) -> tuple[int, ...]:
    """Reads operands and the ')' after them. Returns their indices."""
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
    indices: list[int] = []
    state = body.state
    while True:
        if len(indices) & 255 == 255:
            spend(256)
        match = _OPERAND.match(text, cursor.at)
        if match is not None:
            shape_text, _, name, closing = match.groups()
            index = names.get(name)
            if index is not None:
                if shape_text is not None and index >= 0:
                    shape = state.shapes.get(shape_text) or state.shape_of_text(shape_text, match.start(1))
                    _check_written(body, shape, index, match.start(1))
                indices.append(index)
                cursor.at = match.end()
                if closing == ")":
                    return tuple(indices)
                continue
        if cursor.accept(")"):
            return tuple(indices)
        if cursor.accept(","):
            continue
        index = _operand(body, depth)
        if index is not None:
            indices.append(index)
        if cursor.accept(")"):
            return tuple(indices)
        if not cursor.accept(","):
            cursor.fail("',' or ')' after an operand")


def _element(body: Body, index: int, path: str) -> int:
    """The index of the instruction for the operand `%x#1#0`, where `index` is that of %x and `path` is "#1#0"."""
    for digits in path.split("#")[1:]:
        index = _tuple_element(body, index, int(digits))
    return index


def _tuple_element(body: Body, index: int, number: int) -> int:
    """The index of the get-tuple-element of element `number` of the tuple at `index`. The first call makes it."""
    if index < 0:
        return index
    instructions = body.computation.instructions
    element = body.elements.get((index, number))
    if element is None:
        operand = instructions[index]
        if not operand.shape.shape.is_tuple or number >= len(operand.shape.shape.tuple_shapes):
            raise body.cursor.error(
                f"{operand.name!r}, {operand.shape.bare}, has no element {number}",
                expected="an element of a tuple",
                found=str(number),
            )
        element = body.elements[index, number] = len(instructions)
        instructions.append(complete_tuple_element(body.state, instructions, index, number))
    return element


def _check_written(body: Body, written: ParsedShape, index: int, at: int) -> None:
    parsed = body.computation.instructions[index]
    if not parsed.shape.is_like(written):
        raise body.cursor.error(
            f"operand {parsed.name!r} has shape {parsed.shape.bare}, not {written.bare}",
            at=at,
            expected=str(parsed.shape.bare),
            found=str(written.bare),
        )


def _operand(body: Body, depth: int) -> int | None:
    """Reads one operand with the cursor, `shape? reference` or `shape? opcode '(' …`, and returns its index. None for a
    shape alone, which is not an operand."""
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
            return _outside(body, f"_{len(body.computation.parameters)}", shape)
        if shape is not None and (cursor.looking_at(",") or cursor.looking_at(")")):
            return None
        cursor.fail("an operand")
    name = match.group()
    cursor.at = match.end()
    if not percent and text.startswith(":", cursor.at):
        cursor.at += 1
    index = body.names.get(name)
    if index is None and body.open and shape is not None and not cursor.looking_at("("):
        return _outside(body, name, shape)
    if index is not None and not cursor.looking_at("("):
        while cursor.accept("#"):
            index = _tuple_element(body, index, cursor.parse_int_between(0, MAX_PARAMETER, "the number of an element"))
        if shape is not None and index >= 0:
            _check_written(body, shape, index, shape_at)
        return index
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
    return _finish_right(body, f"{name}.anon", shape, name, at, depth + 1)


def _outside(body: Body, name: str, shape: ParsedShape) -> int:
    computation = body.computation
    index = len(computation.instructions)
    parsed = complete_parameter(name, shape, len(computation.parameters))
    computation.parameters[len(computation.parameters)] = index
    computation.instructions.append(parsed)
    body.names[name] = index
    return index
