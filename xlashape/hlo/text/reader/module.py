"""Reads the HLO text of a module and makes a serialized HloModuleProto of it (`parse_text`). It accepts the texts that
XLA's own parser accepts and makes the same protos.

    text        := header computation+  |  computation+  |  instruction        'HloModule' begins a header
    computation := 'ENTRY'? name ('(' (name ':'? shape (',' …)*)? ')' '->' shape)? '{' instruction+ '}' (',' attribute)?
    attribute   := 'execution_thread=' string

The entry computation is the one marked ENTRY; without this mark it is the last. A text without a header is a module
named after its entry. A text of one instruction is a computation named `_`, whose parameters are the operands of the
instruction, each written with its shape. A computation must be defined before those that call it, an instruction before
those that use it.

In the proto, the instructions of a computation are in XLA's post order (`xlashape.hlo.module_proto.structure`). The id
of an instruction is (index of the computation << 32) | index of the instruction in the text of the computation. A
scheduled module runs its instructions in the order of the text, which the schedule of the proto records.

If computations of one text use the same name twice, names are made unique in XLA's way. A name is a stem and, after its
last dot, a number within int64: `add.3` and `add.03` are number 3 of the stem `add`, and `add` alone is number 0. If
the number of a name is taken, the name gets the smallest free number of its stem.

The lists WE_ACCEPT and WE_REFUSE of tests/unit/hlo/test_parse.py and test_corpus.py name every deliberate difference
from XLA's parser and its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from google.protobuf.message import Message

from xlashape.errors import InvalidArgumentError, InvalidModuleError, ParseError
from xlashape.hlo.module_proto.module_config import ModuleConfig
from xlashape.hlo.module_proto.structure import post_order, roots
from xlashape.hlo.text.reader.header import Header, StackFrames, parse_header
from xlashape.hlo.text.reader.instruction import parse_body, parse_instruction_text
from xlashape.hlo.text.reader.state import MAIN_THREAD, ParsedComputation, ParsedInstruction, ParsedShape, State
from xlashape.hlo.tokens import KEYWORDS, NAME, RESERVED, SHAPE
from xlashape.hlo.values.attribute import FIELDS
from xlashape.limits import INT64_MAX, INT64_MIN, spend
from xlashape.proto import coerce, parse, xla
from xlashape.proto.wire import VARINT, Fields, fields, numbered_ids, sized, tag, varint
from xlashape.shape import Shape
from xlashape.text import Source

_SINGLE: set[int] = set()
"""The value in UniqueNames for a stem with one number, which most stems are: it saves them a set of their own."""


class UniqueNames:
    """The names that have been given to instructions, or to computations, so far.

    >>> names = UniqueNames()
    >>> [names.take(name) for name in ("p", "p", "p.1", "q.7", "q", "r.3", "r.3", "s.04")]
    ['p', 'p.1', 'p.2', 'q.7', 'q', 'r.3', 'r.0', 's.4']
    """

    __slots__ = ("_stems",)

    def __init__(self) -> None:
        # Stem → (the numbers taken, the smallest number that may be free). For a stem with one number: (_SINGLE, the
        # number).
        self._stems: dict[str, tuple[set[int], int]] = {}

    def take(self, name: str) -> str:
        """Takes `name`, or a similar name if it is not free, and returns the name taken."""
        stem, dot, digits = name.rpartition(".")
        unsigned = digits.removeprefix("-")
        if dot and unsigned.isdecimal() and len(digits) < 32 and INT64_MIN <= (number := int(digits)) <= INT64_MAX:
            numbered = True
        else:
            stem, number, numbered = name, 0, False
        known = self._stems.get(stem)
        if known is None:
            self._stems[stem] = (_SINGLE, number)
            return f"{stem}.{number}" if numbered and len(unsigned) > 1 else name
        taken, smallest = known
        if taken is _SINGLE:
            taken, smallest = {smallest}, 0
        if number in taken:
            while smallest in taken:
                smallest += 1
            number, numbered = smallest, True
        taken.add(number)
        self._stems[stem] = (taken, smallest)
        return f"{stem}.{number}" if numbered else name


_MODULE = Fields(xla.HloModuleProto)
_COMPUTATION = Fields(xla.HloComputationProto)
_METADATA = Fields(xla.OpMetadata)
_PROGRAM_SHAPE = Fields(xla.ProgramShapeProto)
_COMPUTATIONS = _MODULE.tag("computations")
_COMPUTATIONS_NUMBER = xla.HloModuleProto.COMPUTATIONS_FIELD_NUMBER
_INSTRUCTIONS = _COMPUTATION.tag("instructions")
_PARAMETER_NAMES = _PROGRAM_SHAPE.tag("parameter_names")
_NAME = FIELDS.tag("name")
_OPERAND_IDS = FIELDS.tag("operand_ids")
_ID = tag(xla.HloInstructionProto.DESCRIPTOR.fields_by_name["id"].number, VARINT)
_BLOCK = 1 << 16
"""About how many bytes of instructions `_normal` gets at once."""

_STEPS_PER_INSTRUCTION = 5
"""Emitting an instruction takes this many steps of the budget that `limits.spend` counts."""


class _Tables:
    """The tables that all computations of one module share while they are serialized."""

    __slots__ = ("computation_ids", "frames", "names", "payloads")

    def __init__(self, frames: StackFrames, computation_ids: Sequence[int]) -> None:
        self.frames = frames
        self.computation_ids = computation_ids
        """The id of each computation that was read, by its index."""
        self.names = UniqueNames()
        """The names of instructions."""
        self.payloads: dict[bytes, int] = {}
        """Serialized payload of metadata → its index in the module's table."""


def instruction_order(instructions: Sequence[ParsedInstruction]) -> list[int]:
    """The indices of a computation's instructions in XLA's post order."""
    operands = [instruction.operands for instruction in instructions]
    predecessors = operands
    if any(instruction.control for instruction in instructions):
        predecessors = [(*reversed(instruction.control), *instruction.operands) for instruction in instructions]
    return post_order(predecessors, roots(operands))


def program_shape(
    instructions: Sequence[ParsedInstruction], computation: ParsedComputation, names: Sequence[str]
) -> bytes:
    """The serialized ProgramShapeProto of a computation: the shapes of its parameters and of its result, and the
    parameters' names."""
    pieces: list[bytes] = []
    for number in range(len(computation.parameters)):
        pieces.append(_PROGRAM_SHAPE.message("parameters", instructions[computation.parameters[number]].shape.data))
    pieces.append(_PROGRAM_SHAPE.message("result", instructions[computation.root].shape.data))
    pieces.extend(_PARAMETER_NAMES + sized(name.encode()) for name in names)
    return b"".join(pieces)


def _executed(computation: ParsedComputation) -> Iterable[int]:
    """The indices of a computation's instructions in the order in which they run, which is that of the text. There is
    one exception: in a computation that is made for an asynchronous operation, the root comes after the parameters that
    later steps of the operation have added."""
    count, root = len(computation.instructions), computation.root
    if max(computation.instructions[root].operands, default=-1) < root:
        return range(count)
    return (*range(root), *range(root + 1, count), root)


def emit_computations(
    computations: Sequence[ParsedComputation], frames: StackFrames | None, *, scheduled: bool, single: bool = False
) -> tuple[bytearray, bytes, list[str]]:
    """Serializes computations. Returns three things: the field `computations` of the module; the fields of its tables
    and, if it is `scheduled`, of its schedule; and the final names of the computations.

    To save memory it takes the instructions out of the computations. `single` says that the text was one instruction:
    the computation of that instruction, the last, gets id 0 and is named before the computations that it calls.
    """
    last = len(computations) - 1
    ids = [last - index for index in range(len(computations))] if single else range(len(computations))
    tables = _Tables(StackFrames() if frames is None else frames, ids)
    computation_names = UniqueNames()
    last_name = computation_names.take(computations[last].name) if single else ""
    written = bytearray()
    final_names: list[str] = []
    schedule = xla.HloScheduleProto()
    for index, computation in enumerate(computations):
        spend(_STEPS_PER_INSTRUCTION * len(computation.instructions))
        name = last_name if single and index == last else computation_names.take(computation.name)
        final_names.append(name)
        computation_id = ids[index]
        executed = _executed(computation)
        data = _computation_bytes(computation, name, computation_id, tables)
        written += _COMPUTATIONS
        written += varint(len(data))
        written += data
        if scheduled and not computation.is_fusion:
            first = computation_id << 32
            instruction_ids = [first + index for index in executed]
            schedule.sequences[computation_id].instruction_ids.extend(instruction_ids)
    rest = [_MODULE.message("payloads", payload) for payload in tables.payloads]
    if tables.frames.index.stack_frames:
        rest.append(_MODULE.message("stack_frame_index", tables.frames.index))
    if scheduled:
        rest.append(_MODULE.message("schedule", schedule))
    return written, b"".join(rest), final_names


def _computation_bytes(computation: ParsedComputation, name: str, computation_id: int, tables: _Tables) -> bytearray:
    """A serialized HloComputationProto. Each instruction is freed once it is serialized, and protobuf gets the
    instructions in blocks, so that a large module is not in memory twice."""
    instructions, computation.instructions = computation.instructions, []
    first_id = computation_id << 32
    ids = numbered_ids(computation_id, len(instructions))
    take = tables.names.take
    names = [take(instruction.name) for instruction in instructions]
    parameters = [names[computation.parameters[number]] for number in range(len(computation.parameters))]
    signature = program_shape(instructions, computation, parameters)
    data = bytearray()
    block = bytearray(_COMPUTATION.string("name", name))
    for instruction in instructions:
        # `number` gives a frame its number on the first call: stack frames are numbered in the order of these calls,
        # which is that of the instructions' ids.
        if instruction.frame:
            tables.frames.number(instruction.frame)
    left: list[ParsedInstruction | None] = [*instructions]
    order = instruction_order(instructions)
    del instructions
    for index in order:
        instruction, left[index] = left[index], None
        assert instruction is not None
        encoded_name = names[index].encode()
        content = b"".join((_NAME, varint(len(encoded_name)), encoded_name, instruction.data, _ID, ids[index]))
        if instruction.operands:
            operand_ids = b"".join([ids[operand] for operand in instruction.operands])
            content = b"".join((content, _OPERAND_IDS, varint(len(operand_ids)), operand_ids))
        if instruction.is_linked:
            content += _references(instruction, first_id, tables)
        block += _INSTRUCTIONS
        block += varint(len(content))
        block += content
        if len(block) > _BLOCK:
            data += _normal(xla.HloComputationProto, block)
            block.clear()
    block += _COMPUTATION.message("program_shape", signature)
    block += _COMPUTATION.integer("id", computation_id)
    block += _COMPUTATION.integer("root_id", first_id | computation.root)
    block += _COMPUTATION.integer("is_fusion_computation", computation.is_fusion)
    if computation.thread != MAIN_THREAD:
        block += _COMPUTATION.string("execution_thread", computation.thread)
    data += _normal(xla.HloComputationProto, block)
    return data


def _normal(message: type[Message], data: bytearray) -> bytes:
    """The same fields as protobuf serializes them: in the order of their numbers, with the pieces of each submessage
    merged."""
    return parse(message, bytes(data)).SerializeToString()


def _references(instruction: ParsedInstruction, first_id: int, tables: _Tables) -> bytes:
    """The serialized fields of an instruction that refer to other parts of the module: called computations, control
    predecessors, the stack frame, the payload, the thread."""
    parts: list[bytes] = []
    if instruction.calls:
        called_ids = [tables.computation_ids[index] for index in instruction.calls]
        parts.append(FIELDS.integers("called_computation_ids", called_ids))
    if instruction.control:
        predecessor_ids = [first_id | index for index in instruction.control]
        parts.append(FIELDS.integers("control_predecessor_ids", predecessor_ids))
    if instruction.frame:
        frame = tables.frames.number(instruction.frame)
        parts.append(FIELDS.message("metadata", _METADATA.integer("stack_frame_id", frame)))
    if instruction.payload is not None:
        number = tables.payloads.setdefault(instruction.payload, len(tables.payloads))
        metadata = xla.OpMetadata(metadata_payload=xla.Payload(id=number))
        parts.append(FIELDS.message("metadata", metadata))
    if instruction.thread != MAIN_THREAD:
        parts.append(FIELDS.string("async_execution_thread", instruction.thread))
    return b"".join(parts)


# -- reading -----------------------------------------------------------------------------------


_PARAMETER = re.compile(rf"{NAME}: ({SHAPE})")
_SIGNATURE = re.compile(
    rf"[ ]*\(((?:{NAME}: (?:{SHAPE})(?:, {NAME}: (?:{SHAPE})){{0,5000}})?)\)[ ]*->[ ]*({SHAPE})[ ]*\{{"
)


def decode_text(data: bytes, name: str | None = None) -> Source:
    """The text in the bytes of a file, UTF-8 with or without a byte order mark. Raises ParseError at the first byte
    that is not UTF-8."""
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
    return coerce(xla.HloModuleProto, parse_text(text)[0])


def parse_text(text: str | Source, *, elided_values: bool = True) -> tuple[bytes, ModuleConfig]:
    """The module that a text describes: its serialized HloModuleProto, and the part of the text that the proto has no
    field for. Raises ParseError as `parse_module` does.

    `elided_values` says whether elided constants, `constant({...})`, get made-up values as in XLA, or no literal.
    """
    source = text if isinstance(text, Source) else Source(text)
    return _parse(source, is_recovery_module=False, elided_values=elided_values)


def _parse(source: Source, *, is_recovery_module: bool, elided_values: bool) -> tuple[bytes, ModuleConfig]:
    state = State(source, elided_values=elided_values)
    cursor = state.cursor
    cursor.skip_space()
    header: Header | None = None
    if cursor.accept_word("HloModule"):
        header = parse_header(state)
        entry = parse_computations(state)
    elif _begins_computation(state):
        entry = parse_computations(state)
    else:
        entry = _single(state)
    state.raise_errors()
    config = ModuleConfig(**({} if header is None else header.config), channels_0=tuple(state.channels_0))
    computations, head = _emit(state, header, entry)
    if header is not None and header.recoveries:
        if is_recovery_module and any(recovery.module for recovery in header.recoveries):
            at = next(recovery.at for recovery in header.recoveries if recovery.module)
            raise cursor.error("a recovery module has a recovery table of its own", at=at)
        _add_recoveries(state, header, head)
    # protobuf writes fields in the order of their numbers, so the computations go before the fields of greater numbers.
    data = head.SerializeToString()
    at = next((start for number, _, start, _, _ in fields(data) if number > _COMPUTATIONS_NUMBER), len(data))
    return b"".join((data[:at], computations, data[at:])), config


_BUFFERED = re.compile(rf"[ \t\r\n]*\([ \t\r\n]*{NAME}[ \t\r\n]*\[")
"""The text after the `b` of the shape of a buffer, such as `b(f32[4])`. After a computation named `b` the parentheses
have a parameter's name before its shape."""


def _begins_computation(state: State) -> bool:
    """Whether a text without a header consists of computations rather than of one instruction. It does if 'ENTRY' comes
    first, or a name with '{' or '(' after it."""
    cursor = state.cursor
    start = cursor.at
    if cursor.accept_word("ENTRY"):
        begins = True
    else:
        try:
            name = cursor.parse_name()
            is_shape = name in RESERVED or (name == "b" and _BUFFERED.match(cursor.text, cursor.at))
            begins = not is_shape and name != "ROOT" and (cursor.looking_at("{") or cursor.looking_at("("))
        except ParseError:
            begins = False
    cursor.at = start
    return begins


def parse_computations(state: State) -> int:
    """Reads computations up to the end of the text. Returns the index of the entry computation."""
    cursor = state.cursor
    entry: int | None = None
    while True:
        cursor.skip_space()
        at = cursor.at
        is_entry = cursor.accept_word("ENTRY")
        if is_entry and entry is not None:
            raise cursor.error("a module has only one ENTRY", at=at, expected="no second ENTRY")
        index = _computation(state)
        if is_entry:
            entry = index
        if cursor.at_end():
            return index if entry is None else entry


def _plain_signature(state: State) -> tuple[ParsedShape, int] | None:
    """Reads the signature `(name: shape, …) -> shape {` if it is written as XLA prints it. Returns the shape of the
    result and its offset. For other text, returns None and consumes nothing."""
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


def _emit(state: State, header: Header | None, entry: int) -> tuple[bytearray, xla.HloModuleProto]:
    """The serialized field `computations`, and a message with all other fields except the recovery table."""
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
    computations, tables, names = emit_computations(
        state.computations,
        None if header is None else header.frames,
        scheduled=single or (header is not None and header.scheduled),
        single=single,
    )
    name = header.name if header is not None else "_" if single else f"module_{names[entry]}"
    pieces.append(_MODULE.string("name", name))
    pieces.append(_MODULE.string("entry_computation_name", names[entry]))
    pieces.append(_MODULE.integer("entry_computation_id", 0 if single else entry))
    pieces.append(header.data if header is not None else _MODULE.message("frontend_attributes", b""))
    return computations, parse(xla.HloModuleProto, b"".join([*pieces, tables]))


def _host_shape(parameters: list[ParsedShape], result: ParsedShape) -> bytes:
    shape = xla.ProgramShapeProto(
        parameters=[parameter.proto() for parameter in parameters],
        result=result.proto(),
        parameter_names=[f"p{number}" for number in range(len(parameters))],
    )
    return _MODULE.message("host_program_shape", shape)


def _buffers(state: State, header: Header | None, result: Shape) -> bytes:
    """The serialized fields input_output_alias and buffer_donor, with their entries sorted as in XLA."""
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
                # If an output has several aliases, the first counts.
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
            data, _ = _parse(source, is_recovery_module=True, elided_values=state.elided.is_filled)
            entry.recovery_module.MergeFromString(data)
        except (InvalidArgumentError, InvalidModuleError) as error:
            raise state.cursor.error(f"the recovery module: {error.message}", at=recovery.at) from error
