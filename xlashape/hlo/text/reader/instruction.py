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
from xlashape.hlo.ir import HloComputation, HloInstruction, TextMetadata
from xlashape.hlo.literal import parse_literal
from xlashape.hlo.ops.calls import CALLED
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep, Contents, Operation
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.text.reader.asynchronous import complete_step, complete_wrapped_start
from xlashape.hlo.text.reader.attributes import (
    Form,
    complete_instruction,
    complete_parameter,
    complete_tuple_element,
    form_of,
    origin_of_element,
    parse_attributes,
)
from xlashape.hlo.text.reader.state import MAX_DEPTH, Body, ParsedShape, State
from xlashape.hlo.tokens import KEYWORDS, NAME, RESERVED, SHAPE, HloCursor
from xlashape.hlo.values.attribute import FIELDS
from xlashape.hlo.values.metadata import OP_METADATA, parse_metadata
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
_OPERANDS_INSIDE, _NUMBER_INSIDE = Contents.OPERANDS, Contents.PARAMETER_NUMBER

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
_INDEX_COMMENT = re.compile(r"(?<=, )/\*[^*]*\*/")
_BEGIN = re.compile(rf"{_SPACE}(?:ROOT[ \t\r\n]+)?%?({NAME})")
_RESYNC = re.compile(rf"\n[ \t]*(?:(?:ROOT[ \t]+)?%?{NAME}[ \t]+=[ \t]|\}})")

_STEPS = 10
"""How many steps of the budget of `xlashape.limits` reading an instruction takes."""


def parse_body(state: State, computation: HloComputation) -> None:
    """Reads instructions into `computation`, and the '}' that ends it. The '{' before them has been consumed."""
    body = Body(state, computation, parse_body)
    cursor = state.cursor
    last: HloInstruction | None = None
    while True:
        spend(_STEPS)
        body.start = cursor.at
        try:
            last = _read_lines(body, last)
            match = _HEAD.match(state.text, cursor.at)
            if match is None and cursor.accept("}"):
                break
            body.start = cursor.at
            last = _parse_instruction(body, match)
        except ParseError as error:
            start = body.start
            if state.depth:
                # The computation is written within an instruction. Reading goes on after that instruction.
                raise
            state.note(error)
            # The name is defined, so that instructions that use it are not reported as further errors.
            begin = _BEGIN.match(state.text, start)
            body.names.setdefault(begin.group(1) if begin is not None else body.current, None)
            last = None
            # Reading goes on at the next line that begins an instruction or ends the computation. That may be the line
            # of the mistake itself, if the instruction began on a line before it.
            start = begin.start(1) if begin is not None else cursor.at
            newline = state.text.rfind("\n", start, cursor.at)
            match = _RESYNC.search(state.text, cursor.at if newline < 0 else newline)
            if match is None:
                state.raise_errors()
                return
            cursor.at = match.start() + 1
    if not body.names:
        cursor.at -= 1
        cursor.fail("an instruction")
    if body.root is None:
        body.root = last
    body.finish()


# -- lines as XLA writes them ---------------------------------------------------------------

_PRINTED = r"[ !#-&(-\[\]-~]+"  # a text in quotes that is written as it is read
_NUMBER_FROM_1 = "[1-9][0-9]{0,8}"
_NEXT = r"(?: (?!\})|(?=\}))"
_METADATA_FIELDS = "".join(
    rf"(?:{name}={value}{_NEXT})?"
    for name, value in (
        ("op_type", f'"{_PRINTED}"'),
        ("op_name", f'"{_PRINTED}"'),
        ("source_file", f'"{_PRINTED}"'),
        ("source_line", _NUMBER_FROM_1),
        ("source_end_line", _NUMBER_FROM_1),
        ("source_column", _NUMBER_FROM_1),
        ("source_end_column", _NUMBER_FROM_1),
        ("deduplicated_name", f'"{_PRINTED}"'),
        ("scheduling_name", f'"{_PRINTED}"'),
    )
)
_METADATA = re.compile(
    rf", metadata=\{{(?=op_type|op_name|source_file)({_METADATA_FIELDS})(?:stack_frame_id=({_NUMBER_FROM_1}))?\}}"
)
"""Metadata that is written as XLA writes it, so that it is printed as it stands."""
_METADATA_BEGINS = ", metadata={"
_INSIDE = r"[^()\n\"]*(?:\([^()\n\"]*(?:\([^()\n\"]*\)[^()\n\"]*){0,100}\)[^()\n\"]*){0,1000}"
_LINE = re.compile(
    rf"{_SPACE}(ROOT )?%?({NAME}) = ({SHAPE}) ([a-z][a-z0-9\-]*)\(({_INSIDE})\)([^\n]*)(?=\n[ \t]*[%A-Za-z_}}])"
)
_SHAPED = re.compile(rf"({SHAPE}) %?({NAME})(?:, |\Z)")
_STRINGS = re.compile(r'[^"]*(?:"[^"\\]*(?:\\.[^"\\]*)*"[^"]*)*')
_CALLED_BY_NAME = re.compile(
    rf"(?<=[, ])({'|'.join(sorted(CALLED, key=len, reverse=True))})=(%?{NAME}|\{{%?{NAME}(?:, %?{NAME})*\}})"
)


def _read_lines(body: Body, last: HloInstruction | None) -> HloInstruction | None:
    """Reads instructions as long as each is a line that XLA could have written. Returns the last that was read, or
    `last` if there was none.

    What a line says beside name, operands, called computations, parameter number and metadata is the key of its kind.
    The first line with a key is read token by token; the kind that it gets is the kind of all further ones. So the text
    of such a line is looked at by these regular expressions alone.
    """
    state, text, cursor, computation = body.state, body.text, body.cursor, body.computation
    names, instructions, find = body.names, body.instructions, state.fast.get
    texts, has_origins = state.metadata, state.has_origins
    at, count = cursor.at, 0
    while True:
        match = _LINE.match(text, at)
        if match is None:
            break
        root, name, shape_text, opcode, inside, rest = match.groups()
        row = OPERATIONS.get(opcode)
        if row is None or row.async_step is not None or name in names or name in _NO_NAME:
            break
        said: bytes | TextMetadata = b""
        begin = rest.find(_METADATA_BEGINS) if rest else -1
        if begin >= 0:
            end = rest.find("}", begin) + 1
            known = texts.get(rest[begin:end])
            if known is None:
                known, end = _metadata_text(state, rest, begin)
                if known is None:
                    break
            if '"' in rest[:begin] and _STRINGS.fullmatch(rest, 0, begin) is None:
                break
            said = known
            rest = rest[:begin] + rest[end:]
        called: tuple[HloComputation, ...] = ()
        if rest:
            if "control-predecessors" in rest or "channel_id=0" in rest:
                break
            if row.call_names:
                found = _called_by_name(state, row, rest)
                if found is None:
                    break
                called, rest = found
        operands: tuple[HloInstruction, ...] = ()
        number = 0
        key: object = (shape_text, opcode, rest)
        if row.contents is _OPERANDS_INSIDE:
            if inside:
                read = _operands_by_name(body, inside)
                if read is None:
                    break
                operands = read
            least, most = row.operands
            if not least <= len(operands) <= most or (has_origins and opcode == "get-tuple-element"):
                break
            if row.kind_depends_on_operands:
                key = (
                    key,
                    tuple([id(each.kind.shape) for each in operands]),
                    tuple([len(each.parameters) for each in called]),
                )
        elif row.contents is _NUMBER_INSIDE:
            if not inside.isdecimal() or len(inside) > 7 or int(inside) in body.parameters:
                break
            number = int(inside)
        elif "..." in inside and state.elided.is_filled:
            break  # each elided constant gets other values
        else:
            key = key, inside
        if root and body.root is not None:
            break
        kind = find(key)
        if kind is None:
            cursor.at = body.start = at
            last = _parse_instruction(body, _HEAD.match(text, at))
            at = cursor.at
            if (
                last is not None
                and at == match.end()
                and last.operands == operands
                and last.called_computations == called
                and _is_like(last.said_metadata, said)
            ):
                state.fast[key] = last.kind
                last.said_metadata = said
            continue
        last = HloInstruction(computation, name, 0, kind, operands, said, number)
        if called:
            last.called_computations = called
            if row.fuses_called_computation:
                state.fused += called
        last.index = len(instructions)
        instructions.append(last)
        names[name] = last
        if row.contents is _NUMBER_INSIDE:
            body.parameters[number] = last
        if root:
            body.root = last
        at = match.end()
        count += 1
        if count & 63 == 0:
            spend(64 * _STEPS)
    cursor.at = at
    return last


def _operands_by_name(body: Body, inside: str) -> tuple[HloInstruction, ...] | None:
    """The operands that a text names, `%a, %b`, `a, b` or `f32[4] %a, f32[] %b`; None for any other text."""
    names = body.names
    if "/" in inside:
        inside = _INDEX_COMMENT.sub("", inside)
    found: list[HloInstruction | None]
    try:
        if inside.startswith("%"):
            found = [names[name] for name in inside[1:].split(", %")]
        else:
            found = [names[name] for name in inside.split(", ")]
    except KeyError:
        found, at, state = [], 0, body.state
        while at < len(inside):
            match = _SHAPED.match(inside, at)
            if match is None:
                return None
            shape, operand = state.shapes.get(match[1]), names.get(match[2])
            if shape is None or operand is None:
                return None
            if shape.shape is not operand.kind.shape and not state.shape_of(operand).is_like(shape):
                return None
            found.append(operand)
            at = match.end()
    return None if None in found else tuple(found)  # pyright: ignore[reportReturnType] # none is None


def _called_by_name(state: State, row: Operation, rest: str) -> tuple[tuple[HloComputation, ...], str] | None:
    """The computations that the attributes of a line name, in the order of the proto, and the attributes with `*` for
    each such name. None where a computation is not known, or is written in place."""
    quote = rest.find('"')
    area = rest if quote < 0 else rest[:quote]
    by_label: dict[str, list[HloComputation]] = {}
    for label, value in _CALLED_BY_NAME.findall(area):
        named: list[HloComputation] = []
        for name in value.strip("{}").replace("%", "").split(", "):
            computation = state.computation_by_name.get(name)
            if computation is None:
                return None
            named.append(computation)
        by_label[label] = named
    if not by_label:
        return (), rest
    called = tuple([each for label in row.call_names for each in by_label.pop(label, ())])
    if by_label:  # an attribute that replaces another
        return None
    return called, _CALLED_BY_NAME.sub(_without_names, area) + rest[len(area) :]


def _without_names(match: re.Match[str]) -> str:
    label, value = match.groups()
    return f"{label}={{{'*' * (value.count(',') + 1)}}}" if value[0] == "{" else f"{label}=*"


def _metadata_text(state: State, rest: str, begin: int) -> tuple[TextMetadata | None, int]:
    """The metadata at `begin`, and the offset after it. None for metadata that is written otherwise than XLA does."""
    match = _METADATA.match(rest, begin)
    if match is None:
        return None, begin
    metadata = state.metadata[match[0]] = TextMetadata(match[1].rstrip(" "), int(match[2] or 0), _read_metadata)
    return metadata, match.end()


def _read_metadata(metadata: TextMetadata) -> bytes:
    """The serialized OpMetadata of metadata that stands as text."""
    data, _, _ = parse_metadata(HloCursor(f"{{{metadata.text}}}"))
    return data + OP_METADATA.integer("stack_frame_id", metadata.frame)


def _is_like(one: bytes | TextMetadata | None, other: bytes | TextMetadata) -> bool:
    """Whether the metadata that was read token by token, `one`, is what the regular expression has found."""
    if not isinstance(one, TextMetadata) or not isinstance(other, TextMetadata):
        return one == other
    return one.frame == other.frame and one.data == parse_metadata(HloCursor(f"{{{other.text}}}"))[0]


# -- instructions token by token ------------------------------------------------------------


def _parse_instruction(body: Body, match: re.Match[str] | None) -> HloInstruction | None:
    """Reads one instruction. `match` is the match of its head; None if the head is not written as XLA writes it. The
    result is None for an instruction with an operand that could not be read."""
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
    instruction = _finish_right(body, name, shape, opcode, opcode_at, 0)
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


def parse_instruction_text(state: State, computation: HloComputation) -> None:
    """Reads a text of one instruction, `(ROOT? name =)? shape opcode(operands), attributes`.

    An operand that no instruction defines becomes a parameter of `computation`, with the shape written before it.
    """
    body = Body(state, computation, parse_body)
    body.open = True
    cursor = state.cursor
    cursor.skip_space()
    if begins_instruction(cursor):
        _parse_instruction(body, _HEAD.match(cursor.text, cursor.at))
        body.root = body.instructions[-1]
        body.finish()
        return
    shape, opcode, at = _shape_and_opcode(body)
    if shape is None:
        cursor.at = at
        cursor.fail("an instruction: its name and ' = ', or its shape")
    cursor.expect("(")
    body.root = _finish_right(body, "_", shape, opcode, at, 0)
    body.finish()


def parse_right(body: Body, name: str) -> HloInstruction | None:
    """Reads `shape? opcode(operands), attributes` as the instruction `name`."""
    shape, opcode, at = _shape_and_opcode(body)
    body.cursor.expect("(")
    body.current = name
    return _finish_right(body, name, shape, opcode, at, 0)


# -- the right side -------------------------------------------------------------------------


def _finish_right(
    body: Body, name: str, shape: ParsedShape | None, opcode: str, opcode_at: int, depth: int
) -> HloInstruction | None:
    """Reads operands and attributes, and adds the instruction. The '(' has been consumed. None if an operand could not
    be read, so that the instruction cannot be checked."""
    cursor, state = body.cursor, body.state
    wrapped = ""
    form = row = OPERATIONS.get(opcode)
    if form is None or row is None:
        found = form_of(opcode)
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
    attributes = parse_attributes(body, form, wrapped, nested=depth > 0)
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
            data = origin_of_element(operands[0], attributes)
        made = complete_instruction(state, computation, name, shape, row, data, operands, attributes, opcode_at)
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
        made = complete_tuple_element(body.state, operand, number)
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
    return [_finish_right(body, f"{name}.anon", shape, name, at, depth + 1)]


def _outside(body: Body, name: str, shape: ParsedShape) -> HloInstruction:
    number = len(body.parameters)
    made = complete_parameter(body.state, body.computation, name, shape, number)
    body.parameters[number] = made
    body.names[name] = made
    return body.add(made)
