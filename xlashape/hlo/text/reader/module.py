r"""HLO text → HloModuleProto, without XLA. Reads what XLA's own parser reads and makes the proto that it makes.

    text        := header computation*  |  computation+  |  instruction        'HloModule' begins a header
    computation := 'ENTRY'? name ('(' (name ':'? shape (',' …)*)? ')' '->' shape)? '{' instruction+ '}' (',' attribute)*
    attribute   := 'execution_thread=' string

The entry computation is the one marked ENTRY, else the last. A text without header is a module named after its entry; a text of one
instruction is a computation `_` whose parameters are the operands, each written with its shape. A computation stands before those
that call it, an instruction before those that use it.

Where ours differs from XLA's on purpose is listed with reasons in the lists WE_ACCEPT and WE_REFUSE of tests/unit/hlo/test_parse.py.
"""

from __future__ import annotations

import re

from xlashape.errors import InvalidArgumentError, InvalidModuleError, ParseError
from xlashape.hlo.config import ModuleConfig
from xlashape.hlo.lex import KEYWORDS, NAME, RESERVED, SHAPE
from xlashape.hlo.text.reader.emit import emit_computations, program_shape
from xlashape.hlo.text.reader.header import Header, parse_header
from xlashape.hlo.text.reader.instruction import parse_body, parse_instruction_text
from xlashape.hlo.text.reader.state import Computation, KnownShape, State
from xlashape.proto import coerce, xla
from xlashape.proto.wire import Fields
from xlashape.shape import Shape
from xlashape.text import Source

__all__ = ["decode_text", "parse_module", "parse_text"]

_MODULE = Fields(xla.HloModuleProto)
_PARAMETER = re.compile(rf"{NAME}: ({SHAPE})")
_SIGNATURE = re.compile(
    rf"[ ]*\(((?:{NAME}: (?:{SHAPE})(?:, {NAME}: (?:{SHAPE})){{0,5000}})?)\)[ ]*->[ ]*({SHAPE})[ ]*\{{"
)


def decode_text(data: bytes, name: str | None = None) -> Source:
    """The text in the bytes of a file, UTF-8 with or without a byte order mark. Raises ParseError at the first bad byte."""
    try:
        return Source(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        start = max(0, error.start - 200)
        before = Source(data[start : error.start].decode("utf-8", "replace"), name)
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode("utf-8", "replace")) + 1
        failure = before.error(len(before.text), f"byte {data[error.start]:#04x} is not UTF-8", expected="UTF-8 text")
        failure.line, failure.column = line, column
        raise failure from None


def parse_module(text: str | Source) -> xla.HloModuleProto:
    """The module that a text says. Raises ParseError: the first mistake, the ones behind it in `others`.

    >>> proto = parse_module("ENTRY main { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }")
    >>> proto.name, [one.name for one in proto.computations[0].instructions]
    ('module_main', ['p', 'n'])
    """
    return parse_text(text)[0]


def parse_text(text: str | Source) -> tuple[xla.HloModuleProto, ModuleConfig]:
    """The module that a text says, and what it says beyond the proto. Raises ParseError as `parse_module` does."""
    return _parse(text if isinstance(text, Source) else Source(text), recovery=True)


def _parse(source: Source, *, recovery: bool) -> tuple[xla.HloModuleProto, ModuleConfig]:
    state = State(source)
    cursor = state.cursor
    cursor.skip_space()
    header: Header | None = None
    if _accept_keyword(state, "HloModule"):
        header = parse_header(state)
        entry = _computations(state)
    elif _begins_computation(state):
        entry = _computations(state)
    else:
        entry = _single(state)
    state.raise_errors()
    config = ModuleConfig() if header is None else ModuleConfig(**header.config)
    return _emit(state, header, entry, recovery=recovery), config


def _accept_keyword(state: State, word: str) -> bool:
    cursor = state.cursor
    at = cursor.at
    if cursor.parse_optional_word() == word:
        return True
    cursor.at = at
    return False


def _begins_computation(state: State) -> bool:
    """Whether a text without header is computations, not one instruction: after the name comes no '='."""
    cursor = state.cursor
    start = cursor.at
    if _accept_keyword(state, "ENTRY"):
        found = True
    else:
        try:
            name = cursor.parse_name()
            found = name not in RESERVED and name != "ROOT" and (cursor.looking_at("{") or cursor.looking_at("("))
        except ParseError:
            found = False
    cursor.at = start
    return found


def _computations(state: State) -> int:
    """Reads computations up to the end of the text; answers the place of the entry."""
    cursor = state.cursor
    entry: int | None = None
    while True:
        cursor.skip_space()
        at = cursor.at
        marked = _accept_keyword(state, "ENTRY")
        if marked and entry is not None:
            raise cursor.error("a module has only one ENTRY", at=at, expected="no second ENTRY")
        place = _computation(state)
        if marked:
            entry = place
        if cursor.at_end():
            return place if entry is None else entry


def _plain_signature(state: State) -> tuple[KnownShape, int] | None:
    """`(name: shape, …) -> shape {` as XLA prints it: the result and where it stands, the '{' consumed. None: not so plain."""
    cursor, shapes = state.cursor, state.shapes
    text, at = state.text, cursor.at
    match = _SIGNATURE.match(text, at)
    if match is None:
        return None
    for parameter in _PARAMETER.finditer(text, *match.span(1)):
        if parameter.group(1) not in shapes:
            state.shape_of_text(parameter.group(1), parameter.start(1))
    result_text, result_at = match.group(2), match.start(2)
    result = shapes.get(result_text) or state.shape_of_text(result_text, result_at)
    cursor.at = match.end()
    return result, result_at


def _computation(state: State) -> int:
    cursor = state.cursor
    cursor.skip_space()
    at = cursor.at
    percent = cursor.text.startswith("%", at)
    name = cursor.parse_name("the name of a computation")
    if name in RESERVED or (not percent and name in KEYWORDS):
        raise cursor.error(f"{name!r} cannot be a name", at=at, expected="a name", found=name)
    if name in state.places:
        raise cursor.error(f"computation {name!r} stands there already", at=at, expected="another name", found=name)
    computation = Computation(name)
    result: KnownShape | None = None
    result_at = cursor.at
    plain = _plain_signature(state)
    if plain is not None:
        result, result_at = plain
    elif cursor.accept("("):
        cursor.at -= 1
        cursor.parse_list(lambda: _signature_parameter(state), "(", ")")
        cursor.expect("->")
        cursor.skip_space()
        result_at = cursor.at
        result = state.parse_shape()
    if plain is None and not cursor.accept("{"):
        cursor.fail("'{' and instructions" if result is not None else "'(' or '{' behind the name of a computation")
    parse_body(state, computation)
    if cursor.accept(","):
        cursor.skip_space()
        here = cursor.at
        attribute = cursor.parse_attribute_name()
        if attribute != "execution_thread":
            raise cursor.error(
                f"a computation has no attribute {attribute}; it may have execution_thread",
                at=here,
                expected="execution_thread=",
                found=attribute,
            )
        computation.thread = cursor.parse_text("execution_thread")
        if cursor.looking_at(","):
            cursor.fail("no further attribute")
    if result is not None and not state.errors and computation.instructions:
        root = computation.instructions[computation.root]
        if root.shape.bare != result.bare:
            raise cursor.error(
                f"computation {name!r} promises {result.bare}, its root {root.name!r} is {root.shape.bare}",
                at=result_at,
                expected=str(root.shape.bare),
                found=str(result.bare),
            )
    place = len(state.computations)
    state.computations.append(computation)
    state.places[name] = place if computation.instructions else -1
    return place


def _signature_parameter(state: State) -> None:
    cursor = state.cursor
    cursor.skip_space()
    if cursor.text.startswith("%", cursor.at):
        cursor.fail("the name of a parameter, without '%'")
    cursor.parse_name("the name of a parameter")
    cursor.accept(":")
    state.parse_shape()


def _single(state: State) -> int:
    """A text of one instruction."""
    cursor = state.cursor
    computation = Computation("_")
    parse_instruction_text(state, computation)
    if not cursor.at_end():
        cursor.fail("the end of the text: without 'HloModule' or a computation it holds one instruction")
    state.computations.append(computation)
    return len(state.computations) - 1


# -- the message ----------------------------------------------------------------------------


def _emit(state: State, header: Header | None, entry: int, *, recovery: bool) -> xla.HloModuleProto:
    main = state.computations[entry]
    pieces: list[bytes] = []
    host = Computation("")
    if header is not None and header.layout is not None:
        pieces.append(_host_shape(*header.layout))
        result = header.layout[1].shape
    else:
        host = main
        names = [f"p{number}" for number in range(len(main.parameters))]
        pieces.append(_MODULE.message("host_program_shape", program_shape(host, names)))
        result = main.instructions[main.root].shape.shape
    pieces.append(_buffers(state, header, result))
    frames = header.frames if header is not None else None
    single = header is None and main.name == "_"
    computations, names = emit_computations(
        state.computations, frames, scheduled=single or (header is not None and header.scheduled), single=single
    )
    pieces.append(computations)
    name = header.name if header is not None else "_" if single else f"module_{names[entry]}"
    pieces.append(_MODULE.string("name", name))
    pieces.append(_MODULE.string("entry_computation_name", names[entry]))
    pieces.append(_MODULE.integer("entry_computation_id", 0 if single else entry))
    pieces.append(header.data if header is not None else _MODULE.message("frontend_attributes", b""))
    data = b"".join(pieces)
    pieces.clear()
    proto = coerce(xla.HloModuleProto, data)
    if header is not None and header.recovery:
        _add_recovery(state, header, proto, recovery=recovery)
    return proto


def _host_shape(parameters: list[KnownShape], result: KnownShape) -> bytes:
    shape = xla.ProgramShapeProto(
        parameters=[one.proto() for one in parameters],
        result=result.proto(),
        parameter_names=[f"p{number}" for number in range(len(parameters))],
    )
    return _MODULE.message("host_program_shape", shape)


def _buffers(state: State, header: Header | None, result: Shape) -> bytes:
    """input_output_alias and buffer_donor, sorted as XLA keeps them."""
    alias, donor = xla.HloInputOutputAliasProto(), xla.HloBufferDonorProto()
    if header is not None:
        seen: set[tuple[int, ...]] = set()
        for one in sorted(header.alias, key=lambda one: one.output):
            part = result
            for index in one.output:
                if not part.is_tuple or not 0 <= index < len(part.tuple_shapes):
                    raise state.cursor.error(f"{list(one.output)} is no index into the result, {result}", at=one.at)
                part = part.tuple_shapes[index]
            if one.output in seen:
                # Of several about one output the first holds.
                continue
            seen.add(one.output)
            alias.entries.add(
                output_shape_index=one.output,
                parameter_number=one.parameter,
                parameter_shape_index=one.parameter_index,
                kind=one.kind,
            )
        for number, index in sorted(set(header.donor)):
            donor.entries.add(parameter_number=number, parameter_shape_index=index)
    return _MODULE.message("input_output_alias", alias) + _MODULE.message("buffer_donor", donor)


def _add_recovery(state: State, header: Header, proto: xla.HloModuleProto, *, recovery: bool) -> None:
    for old, new, text, at in header.recovery:
        entry = proto.original_value_recovery_table.entries.add(old_original_array=old, new_original_array=new)
        if not text:
            continue
        if not recovery:
            raise state.cursor.error("a recovery module has a recovery table of its own", at=at)
        try:
            entry.recovery_module.CopyFrom(_parse(Source(text, state.source.name), recovery=False)[0])
        except (InvalidArgumentError, InvalidModuleError) as error:
            message = error.message
            raise state.cursor.error(f"the recovery module: {message}", at=at) from error
