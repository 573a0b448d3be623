r"""Reads the instructions of a computation from HLO text. `parse_body` reads all of them, up to the closing brace.

A line that XLA could have written is taken apart by regular expressions: what it says beside name, operands, called
computations, parameter number, channel and metadata is looked up, and gives the kind that an equal line before it got.
The first line of a kind, and everything else, such as comments in unusual places and operations within operands, is
read token by token (`xlashape.hlo.text.reader.instruction`), which also finds out what is wrong with a text.
"""

from __future__ import annotations

import re

from xlashape.errors import ParseError
from xlashape.hlo.ir import HloComputation, HloInstruction
from xlashape.hlo.kind import TextMetadata
from xlashape.hlo.ops.calls import CALLED
from xlashape.hlo.ops.operation import Contents, Operation
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.text.reader import instruction
from xlashape.hlo.text.reader.instruction import HEAD, SPACE, parse_instruction
from xlashape.hlo.text.reader.state import Body, State
from xlashape.hlo.tokens import NAME, SHAPE, HloCursor
from xlashape.hlo.values.metadata import OP_METADATA, parse_metadata
from xlashape.limits import spend

_OPERANDS_INSIDE, _NUMBER_INSIDE = Contents.OPERANDS, Contents.PARAMETER_NUMBER
_INDEX_COMMENT = re.compile(r"(?<=, )/\*[^*]*\*/")
_LINE_END = re.compile(rf"{SPACE}[^\n]*")
_BEGIN = re.compile(rf"{SPACE}(?:ROOT[ \t\r\n]+)?%?({NAME})")
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
            match = HEAD.match(state.text, cursor.at)
            if match is None and cursor.accept("}"):
                break
            body.start = cursor.at
            last = parse_instruction(body, match)
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


def parse_instruction_text(state: State, computation: HloComputation) -> None:
    """Reads a text of one instruction, `(ROOT? name =)? shape opcode(operands), attributes`.

    An operand that no instruction defines becomes a parameter of `computation`, with the shape written before it.
    """
    body = Body(state, computation, parse_body)
    body.open = True
    cursor = state.cursor
    cursor.skip_space()
    if instruction.begins_instruction(cursor):
        parse_instruction(body, HEAD.match(cursor.text, cursor.at))
        body.root = body.instructions[-1]
        body.finish()
        return
    shape, opcode, at = instruction.shape_and_opcode(body)
    if shape is None:
        cursor.at = at
        cursor.fail("an instruction: its name and ' = ', or its shape")
    cursor.expect("(")
    body.root = instruction.finish_right(body, "_", shape, opcode, at, 0)
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
_METADATA_FIELD = re.compile(r'\b(\w+)=(?:"([^"]*)"|(\d+))')
_METADATA_BEGINS = ", metadata={"
_INSIDE = r"[^()\n\"]*(?:\([^()\n\"]*(?:\([^()\n\"]*\)[^()\n\"]*){0,100}\)[^()\n\"]*){0,1000}"
_LINE = re.compile(
    rf"{SPACE}(ROOT )?%?({NAME}) = ({SHAPE}) ([a-z][a-z0-9\-]*)\(({_INSIDE})\)([^\n]*)(?=\n[ \t]*[%A-Za-z_}}])"
)
_CHANNEL = re.compile(r'[^"]*?, channel_id=([1-9][0-9]{0,17})(?=,|\Z)')
_SHAPED = re.compile(rf"({SHAPE}) %?({NAME})(?:, |\Z)")
_STRINGS = re.compile(r'[^"]*(?:"[^"\\]*(?:\\.[^"\\]*)*"[^"]*)*')
_CALLED_BY_NAME = re.compile(
    rf"(?<=[, ])({'|'.join(sorted(CALLED, key=len, reverse=True))})=(%?{NAME}|\{{%?{NAME}(?:, %?{NAME})*\}})"
)


def _read_lines(body: Body, last: HloInstruction | None) -> HloInstruction | None:
    """Reads instructions as long as each is a line that XLA could have written. Returns the last that was read, or
    `last` if there was none.

    What a line says beside name, operands, called computations, parameter number, channel and metadata is the key of
    its kind.
    The first line with a key is read token by token; the kind that it gets is the kind of all further ones. So the text
    of such a line is looked at by these regular expressions alone.
    """
    state, text, cursor, computation = body.state, body.text, body.cursor, body.computation
    names, instructions, find = body.names, body.instructions, state.fast.get
    texts, has_origins = state.metadata, state.has_origins
    at, count = cursor.at, 0
    match = None
    while at >= state.by_tokens_until:
        match = _LINE.match(text, at)
        if match is None:
            break
        root, name, shape_text, opcode, inside, rest = match.groups()
        row = OPERATIONS.get(opcode)
        if row is None or row.async_step is not None or name in names or name in instruction.NO_NAME:
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
        number = channel = 0
        if rest:
            if "control-predecessors" in rest or "channel_id=0" in rest:
                break
            if "channel_id=" in rest:
                numbered = _CHANNEL.match(rest)
                if numbered is not None:
                    channel = int(numbered[1])
                    rest = f"{rest[: numbered.start(1)]}+{rest[numbered.end(1) :]}"
            if row.call_names:
                found = _called_by_name(state, row, rest)
                if found is None:
                    break
                called, rest = found
        operands: tuple[HloInstruction, ...] = ()
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
            last = parse_instruction(body, HEAD.match(text, at))
            at = cursor.at
            if at != match.end():
                break
            if (
                last is not None
                and last.operands == operands
                and last.called_computations == called
                and last.channel == channel
                and _is_like(last.said_metadata, said)
            ):
                state.fast[key] = last.kind
                last.said_metadata = said
            continue
        last = HloInstruction(computation, name, 0, kind, operands, said, number, channel)
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
    if at >= state.by_tokens_until:
        end = _LINE_END.match(text, at) if match is None else match
        state.by_tokens_until = len(text) if end is None else end.end()
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
    """The serialized OpMetadata of metadata that stands as text, as `_METADATA` has found it: without escapes."""
    fields = _METADATA_FIELD.findall(metadata.text)
    written = [
        OP_METADATA.integer(name, int(digits)) if digits else OP_METADATA.string(name, text)
        for name, text, digits in fields
    ]
    return b"".join(written) + OP_METADATA.integer("stack_frame_id", metadata.frame)


def _is_like(one: bytes | TextMetadata | None, other: bytes | TextMetadata) -> bool:
    """Whether the metadata that was read token by token, `one`, is what the regular expression has found."""
    if not isinstance(one, TextMetadata) or not isinstance(other, TextMetadata):
        return one == other
    return one.frame == other.frame and one.data == parse_metadata(HloCursor(f"{{{other.text}}}"))[0]
