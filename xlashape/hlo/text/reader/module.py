r"""HLO text → HloModuleProto, without XLA. Accepts what XLA's own parser accepts and makes the proto that it makes.

    text        := header computation*  |  computation+  |  instruction        'HloModule' begins a header
    computation := 'ENTRY'? name ('(' (name ':'? shape (',' …)*)? ')' '->' shape)? '{' instruction+ '}' (',' attribute)*
    attribute   := 'execution_thread=' string

The entry computation is the one marked ENTRY, or else the last. A text without a header is a module named after its entry. A text of
one instruction is a computation `_` whose parameters are the operands, each written with its shape. A computation must be defined
before those that call it, an instruction before those that use it.

The lists WE_ACCEPT and WE_REFUSE of tests/unit/hlo/test_parse.py name every deliberate difference from XLA's parser and its reason.
"""

from __future__ import annotations

import re

from xlashape.errors import InvalidArgumentError, InvalidModuleError, ParseError
from xlashape.hlo.module_proto.module_config import ModuleConfig
from xlashape.hlo.text.reader.emit import emit_computations
from xlashape.hlo.text.reader.header import Header, parse_header
from xlashape.hlo.text.reader.instruction import parse_body, parse_instruction_text
from xlashape.hlo.text.reader.state import ParsedComputation, ParsedShape, State
from xlashape.hlo.tokens.hlo_cursor import KEYWORDS, NAME, RESERVED, SHAPE
from xlashape.proto import coerce, xla
from xlashape.proto.wire import Fields
from xlashape.shape import Shape
from xlashape.text import Source

_MODULE = Fields(xla.HloModuleProto)
_PARAMETER = re.compile(rf"{NAME}: ({SHAPE})")
_SIGNATURE = re.compile(
    rf"[ ]*\(((?:{NAME}: (?:{SHAPE})(?:, {NAME}: (?:{SHAPE})){{0,5000}})?)\)[ ]*->[ ]*({SHAPE})[ ]*\{{"
)


def decode_text(data: bytes, name: str | None = None) -> Source:
    """The text in the bytes of a file, UTF-8 with or without a byte order mark. Raises ParseError at the first byte that is not UTF-8."""
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
    """The module that a text describes. Raises ParseError for the first mistake, with the later ones in `others`.

    >>> proto = parse_module("ENTRY main { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }")
    >>> proto.name, [instruction.name for instruction in proto.computations[0].instructions]
    ('module_main', ['p', 'n'])
    """
    return parse_text(text)[0]


def parse_text(text: str | Source, *, elided_values: bool = True) -> tuple[xla.HloModuleProto, ModuleConfig]:
    """The module that a text describes, and what it says that the proto cannot hold. Raises ParseError as `parse_module` does.

    `elided_values` says whether elided constants get made-up values, as XLA gives them, or no literal.
    """
    source = text if isinstance(text, Source) else Source(text)
    return _parse(source, is_recovery_module=False, elided_values=elided_values)


def _parse(source: Source, *, is_recovery_module: bool, elided_values: bool) -> tuple[xla.HloModuleProto, ModuleConfig]:
    state = State(source, elided_values=elided_values)
    cursor = state.cursor
    cursor.skip_space()
    header: Header | None = None
    if _accept_keyword(state, "HloModule"):
        header = parse_header(state)
        entry = parse_computations(state)
    elif _begins_computation(state):
        entry = parse_computations(state)
    else:
        entry = _single(state)
    state.raise_errors()
    config = ModuleConfig(**({} if header is None else header.config), channels_0=tuple(state.channels_0))
    proto = _emit(state, header, entry)
    if header is not None and header.recoveries:
        if is_recovery_module and any(recovery.module for recovery in header.recoveries):
            at = next(recovery.at for recovery in header.recoveries if recovery.module)
            raise cursor.error("a recovery module has a recovery table of its own", at=at)
        _add_recoveries(state, header, proto)
    return proto, config


def _accept_keyword(state: State, word: str) -> bool:
    cursor = state.cursor
    at = cursor.at
    if cursor.parse_optional_word() == word:
        return True
    cursor.at = at
    return False


def _begins_computation(state: State) -> bool:
    """Whether a text without a header consists of computations rather than of one instruction: after the name comes no '='."""
    cursor = state.cursor
    start = cursor.at
    if _accept_keyword(state, "ENTRY"):
        begins = True
    else:
        try:
            name = cursor.parse_name()
            begins = name not in RESERVED and name != "ROOT" and (cursor.looking_at("{") or cursor.looking_at("("))
        except ParseError:
            begins = False
    cursor.at = start
    return begins


def parse_computations(state: State) -> int:
    """Reads computations up to the end of the text. Returns the index of the entry."""
    cursor = state.cursor
    entry: int | None = None
    while True:
        cursor.skip_space()
        at = cursor.at
        is_entry = _accept_keyword(state, "ENTRY")
        if is_entry and entry is not None:
            raise cursor.error("a module has only one ENTRY", at=at, expected="no second ENTRY")
        index = _computation(state)
        if is_entry:
            entry = index
        if cursor.at_end():
            return index if entry is None else entry


def _plain_signature(state: State) -> tuple[ParsedShape, int] | None:
    """Reads `(name: shape, …) -> shape {` as XLA prints it. Returns the result and its offset; None, having read nothing, for other text."""
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
    name = cursor.parse_name("the name of a computation")
    has_mark = cursor.text.startswith("%", at) or cursor.text.startswith(":", cursor.at - 1)
    if name in RESERVED or (not has_mark and name in KEYWORDS):
        raise cursor.error(f"{name!r} cannot be a name", at=at, expected="a name", found=name)
    if name in state.computation_indices:
        raise cursor.error(f"computation {name!r} is already defined", at=at, expected="another name", found=name)
    computation = ParsedComputation(name)
    result: ParsedShape | None = None
    result_at = cursor.at
    plain_signature = _plain_signature(state)
    if plain_signature is not None:
        result, result_at = plain_signature
    elif cursor.accept("("):
        cursor.at -= 1
        cursor.parse_list(lambda: _signature_parameter(state), "(", ")")
        cursor.expect("->")
        cursor.skip_space()
        result_at = cursor.at
        result = state.parse_shape()
    if plain_signature is None and not cursor.accept("{"):
        cursor.fail("'{' and instructions" if result is not None else "'(' or '{' after the name of a computation")
    parse_body(state, computation)
    if cursor.accept(","):
        cursor.skip_space()
        attribute_at = cursor.at
        attribute = cursor.parse_attribute_name()
        if attribute != "execution_thread":
            raise cursor.error(
                f"a computation has no attribute {attribute}; it may have execution_thread",
                at=attribute_at,
                expected="execution_thread=",
                found=attribute,
            )
        computation.thread = cursor.parse_text("execution_thread")
        if cursor.looking_at(","):
            cursor.fail("no further attribute")
    if result is not None and not state.errors and computation.instructions:
        root = computation.instructions[computation.root]
        if not root.shape.is_like(result):
            raise cursor.error(
                f"computation {name!r} declares the result {result.bare}, its root {root.name!r} is {root.shape.bare}",
                at=result_at,
                expected=str(root.shape.bare),
                found=str(result.bare),
            )
    index = len(state.computations)
    state.computations.append(computation)
    state.computation_indices[name] = index if computation.instructions else -1
    return index


def _signature_parameter(state: State) -> None:
    cursor = state.cursor
    cursor.skip_space()
    if cursor.text.startswith("%", cursor.at):
        cursor.fail("the name of a parameter, without '%'")
    cursor.parse_name("the name of a parameter")
    cursor.accept(":")
    state.parse_shape()


def _single(state: State) -> int:
    """Reads a text of one instruction. Returns the index of its computation."""
    cursor = state.cursor
    computation = ParsedComputation("_")
    parse_instruction_text(state, computation)
    if not cursor.at_end():
        cursor.fail("the end of the text: without 'HloModule' or a computation it holds one instruction")
    state.computations.append(computation)
    return len(state.computations) - 1


# -- the message ----------------------------------------------------------------------------


def _emit(state: State, header: Header | None, entry: int) -> xla.HloModuleProto:
    """The message, apart from the recovery table."""
    main = state.computations[entry]
    single = header is None and main.name == "_"
    pieces: list[bytes] = []
    if header is not None and header.layout is not None:
        pieces.append(_host_shape(*header.layout))
        result = header.layout[1].shape
    else:
        parameters = [main.instructions[main.parameters[number]].shape for number in range(len(main.parameters))]
        root_shape = main.instructions[main.root].shape
        if single:
            parameters, root_shape = [shape.in_default_order() for shape in parameters], root_shape.in_default_order()
        pieces.append(_host_shape(parameters, root_shape))
        result = root_shape.shape
    pieces.append(_buffers(state, header, result))
    computations, names = emit_computations(
        state.computations,
        None if header is None else header.frames,
        scheduled=single or (header is not None and header.scheduled),
        single=single,
    )
    pieces.append(computations)
    name = header.name if header is not None else "_" if single else f"module_{names[entry]}"
    pieces.append(_MODULE.string("name", name))
    pieces.append(_MODULE.string("entry_computation_name", names[entry]))
    pieces.append(_MODULE.integer("entry_computation_id", 0 if single else entry))
    pieces.append(header.data if header is not None else _MODULE.message("frontend_attributes", b""))
    data = b"".join(pieces)
    pieces.clear()  # the bytes would otherwise be in memory twice while the message is made
    return coerce(xla.HloModuleProto, data)


def _host_shape(parameters: list[ParsedShape], result: ParsedShape) -> bytes:
    shape = xla.ProgramShapeProto(
        parameters=[parameter.proto() for parameter in parameters],
        result=result.proto(),
        parameter_names=[f"p{number}" for number in range(len(parameters))],
    )
    return _MODULE.message("host_program_shape", shape)


def _buffers(state: State, header: Header | None, result: Shape) -> bytes:
    """The fields input_output_alias and buffer_donor, sorted as XLA keeps them."""
    aliases, donors = xla.HloInputOutputAliasProto(), xla.HloBufferDonorProto()
    if header is not None:
        seen: set[tuple[int, ...]] = set()
        for alias in sorted(header.aliases, key=lambda alias: alias.output_index):
            part = result
            for index in alias.output_index:
                if not part.is_tuple or not 0 <= index < len(part.tuple_shapes):
                    raise state.cursor.error(
                        f"{list(alias.output_index)} is not an index into the result, {result}", at=alias.at
                    )
                part = part.tuple_shapes[index]
            if alias.output_index in seen:
                # Of several aliases of one output the first counts.
                continue
            seen.add(alias.output_index)
            aliases.entries.add(
                output_shape_index=alias.output_index,
                parameter_number=alias.parameter,
                parameter_shape_index=alias.parameter_index,
                kind=alias.kind,
            )
        for number, index in sorted(set(header.donors)):
            donors.entries.add(parameter_number=number, parameter_shape_index=index)
    return _MODULE.message("input_output_alias", aliases) + _MODULE.message("buffer_donor", donors)


def _add_recoveries(state: State, header: Header, proto: xla.HloModuleProto) -> None:
    """Fills the recovery table of `proto`. Raises ParseError for a mistake in the text of a recovery module."""
    for recovery in header.recoveries:
        entry = proto.original_value_recovery_table.entries.add(
            old_original_array=recovery.old_array, new_original_array=recovery.new_array
        )
        if not recovery.module:
            continue
        try:
            source = Source(recovery.module, state.source.name)
            entry.recovery_module.CopyFrom(
                _parse(source, is_recovery_module=True, elided_values=state.elided.is_filled)[0]
            )
        except (InvalidArgumentError, InvalidModuleError) as error:
            raise state.cursor.error(f"the recovery module: {error.message}", at=recovery.at) from error
