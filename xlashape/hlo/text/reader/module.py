"""Reads the HLO text of a module into the one form (`parse_text`). It accepts the texts that XLA's own parser accepts,
and the protos of the modules are the same.

    text        := header computation+  |  computation+  |  instruction        'HloModule' begins a header
    computation := 'ENTRY'? name ('(' (reference shape (',' …)*)? ')' '->' shape)? '{' instruction+ '}' (',' attribute)?
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
from collections.abc import Sequence
from functools import partial

from xlashape.base.text import Source
from xlashape.errors import InvalidArgumentError, InvalidModuleError, ParseError
from xlashape.hlo.ir import HloComputation, HloInstruction, ModuleData
from xlashape.hlo.kind import TextMetadata
from xlashape.hlo.module_proto.frame_tables import FrameTables
from xlashape.hlo.module_proto.module_config import ModuleConfig
from xlashape.hlo.serde import module_bytes
from xlashape.hlo.text.reader.body import parse_body, parse_instruction_text
from xlashape.hlo.text.reader.header import Header, parse_header
from xlashape.hlo.text.reader.state import MAIN_THREAD, ParsedShape, State, UnnumberedMetadata
from xlashape.hlo.tokens import KEYWORDS, NAME, RESERVED, SHAPE
from xlashape.hlo.values.metadata import OP_METADATA
from xlashape.limits import INT64_MAX, INT64_MIN, spend
from xlashape.proto import parse, xla
from xlashape.proto.wire import Fields
from xlashape.shape import Shape
from xlashape.shape.value.shape import part_of

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
_PROGRAM_SHAPE = Fields(xla.ProgramShapeProto)
_FROM_ZERO = re.compile(r"^(.*)\.(-?0[0-9]*)$", re.MULTILINE)
"""A name whose number is 0, or is not written as UniqueNames writes it."""


# -- the module ------------------------------------------------------------------------------


def finish(
    state: State,
    frames: FrameTables,
    payloads: dict[bytes, int],
    *,
    single: bool = False,
    more: Sequence[HloInstruction] = (),
) -> None:
    """Gives what was read its final names, ids and metadata. Payload of metadata → its index in the module's table:
    `payloads` has those that are there, and gets the new ones.

    `single` says that the text was one instruction: the computation of that instruction, the last, gets id 0 and is
    named before the computations that it calls. `more` are instructions that are in no computation yet.
    """
    computations = state.computations
    last = len(computations) - 1
    _name(computations, single=single)
    numbered: dict[TextMetadata, bytes | TextMetadata] = {}

    def number_metadata(instructions: Sequence[HloInstruction]) -> None:
        for each in instructions:
            said = each.said_metadata
            if isinstance(said, TextMetadata):
                if said not in numbered:
                    numbered[said] = _numbered(said, frames, payloads)
                each.said_metadata = numbered[said]

    for index, computation in enumerate(computations):
        computation.id = last - index if single else index
        base = computation.id << 32
        instructions = computation.instructions
        spend(5 * len(instructions))
        for number, each in enumerate(instructions):
            each.id = base | number
        number_metadata(instructions)
        if computation.execution_thread == MAIN_THREAD:
            computation.execution_thread = ""
    number_metadata(more)
    for start, thread in state.async_threads.items():
        if thread != MAIN_THREAD:
            start.kind = start.kind.changed(partial(_set_thread, thread))
    for each in state.fused:
        if each not in state.known:
            each.is_fused = True


def _set_thread(thread: str, message: xla.HloInstructionProto) -> None:
    message.async_execution_thread = thread


def _numbered(metadata: TextMetadata, frames: FrameTables, payloads: dict[bytes, int]) -> bytes | TextMetadata:
    """The metadata with the numbers that its stack frame and its payload have in the module. A frame gets its number
    on the first call: stack frames are numbered in the order of the instructions' ids."""
    frame = frames.number(metadata.frame) if metadata.frame else 0
    if not isinstance(metadata, UnnumberedMetadata):
        metadata.frame = frame
        return metadata
    data = metadata.data + OP_METADATA.integer("stack_frame_id", frame)
    if metadata.payload is not None:
        number = payloads.setdefault(metadata.payload, len(payloads))
        data += OP_METADATA.message("metadata_payload", xla.Payload(id=number))
    return parse(xla.OpMetadata, data).SerializeToString()


def _name(computations: Sequence[HloComputation], *, single: bool) -> None:
    """Makes the names of computations unique, and those of instructions."""
    unique = UniqueNames()
    if single:
        computations[-1].name = unique.take(computations[-1].name)
    for computation in computations[:-1] if single else computations:
        computation.name = unique.take(computation.name)
    names = [each.name for computation in computations for each in computation.instructions]
    different = set(names)
    if len(different) == len(names):
        from_zero = _FROM_ZERO.findall("\n".join(names))
        if all(number == "0" and stem not in different for stem, number in from_zero):
            return  # no two names have one stem and one number
    unique = UniqueNames()
    for computation in computations:
        for each in computation.instructions:
            each.name = unique.take(each.name)


def _order(computation: HloComputation) -> None:
    """Puts the instructions of a computation into XLA's post order."""
    order = computation.post_order()
    computation.fill(order, computation.root)
    computation.set_post_order()


def executed(computation: HloComputation) -> Sequence[HloInstruction]:
    """The instructions of a computation in the order in which they run, which is that of the text. There is one
    exception: in a computation that is made for an asynchronous operation, the root comes after the parameters that
    later steps of the operation have added."""
    instructions, root = computation.instructions, computation.root
    if max([each.index for each in root.operands], default=-1) < root.index:
        return instructions
    return (*instructions[: root.index], *instructions[root.index + 1 :], root)


# -- reading -----------------------------------------------------------------------------------


_PARAMETER = re.compile(rf"{NAME}: ({SHAPE})")
_SIGNATURE = re.compile(
    rf"[ ]*\(((?:{NAME}: (?:{SHAPE})(?:, {NAME}: (?:{SHAPE})){{0,5000}})?)\)[ ]*->[ ]*({SHAPE})[ ]*\{{(?![ ]*[-0-9:])"
)


def parse_text(text: str | Source, module: ModuleData, *, elided_values: bool = True) -> None:
    """Fills an empty module with the module that a text describes. Raises ParseError for the first mistake, with the
    later ones in `others`.

    `elided_values` says whether elided constants, `constant({...})`, get made-up values as in XLA, or no literal.
    """
    source = text if isinstance(text, Source) else Source(text)
    _parse(source, module, is_recovery_module=False, elided_values=elided_values)


def _parse(source: Source, module: ModuleData, *, is_recovery_module: bool, elided_values: bool) -> None:
    state = State(source, module, elided_values=elided_values)
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
    module.config = ModuleConfig(**({} if header is None else header.config), channels_0=tuple(state.channels_0))
    head = _head(state, header, entry)
    if header is not None and header.recoveries:
        if is_recovery_module and any(recovery.module for recovery in header.recoveries):
            at = next(recovery.at for recovery in header.recoveries if recovery.module)
            raise cursor.error("a recovery module has a recovery table of its own", at=at)
        _add_recoveries(state, header, head)
    module.fill(head, state.computations)


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


def parse_computations(state: State) -> HloComputation:
    """Reads computations up to the end of the text. Returns the entry computation."""
    cursor = state.cursor
    entry: HloComputation | None = None
    while True:
        cursor.skip_space()
        at = cursor.at
        is_entry = cursor.accept_word("ENTRY")
        if is_entry and entry is not None:
            raise cursor.error("a module has only one ENTRY", at=at, expected="no second ENTRY")
        computation = _computation(state)
        if is_entry:
            entry = computation
        if cursor.at_end():
            return computation if entry is None else entry


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


def _computation(state: State) -> HloComputation:
    cursor = state.cursor
    cursor.skip_space()
    at = cursor.at
    name = cursor.parse_name("the name of a computation")
    has_mark = cursor.text.startswith("%", at) or cursor.text.startswith(":", cursor.at - 1)
    if name in RESERVED or (not has_mark and name in KEYWORDS):
        raise cursor.error(f"{name!r} cannot be a name", at=at, expected="a name", found=name)
    if name in state.computation_by_name and state.computation_by_name[name] not in state.known:
        raise cursor.error(f"computation {name!r} is already defined", at=at, expected="another name", found=name)
    computation = state.new_computation(name)
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
        computation.execution_thread = cursor.parse_text("execution_thread").decode()
        if cursor.looking_at(","):
            cursor.fail("no further attribute")
    if result is not None and not state.errors:
        root = state.shape_of(computation.root)
        if not root.is_like(result):
            raise cursor.error(
                f"computation {name!r} declares the result {result.bare}, its root {computation.root.name!r} is "
                f"{root.bare}",
                at=result_at,
                expected=str(root.bare),
                found=str(result.bare),
            )
    state.add_computation(computation)
    state.computation_by_name[name] = computation if computation.is_filled else None
    return computation


def _signature_parameter(state: State) -> None:
    """Reads `name: shape`, `name shape` or `%name shape`; the ':' belongs to the name, so no space stands before it."""
    cursor = state.cursor
    cursor.skip_space()
    at = cursor.at
    name = cursor.parse_name("the name of a parameter")
    if name in RESERVED and not (cursor.text.startswith("%", at) or cursor.text.startswith(":", cursor.at - 1)):
        raise cursor.error(f"{name!r} cannot be a name", at=at, expected="a name", found=name)
    state.parse_shape()


def _single(state: State) -> HloComputation:
    """Reads a text of one instruction. Returns its computation."""
    cursor = state.cursor
    computation = state.new_computation("_")
    parse_instruction_text(state, computation)
    if not cursor.at_end():
        cursor.fail("the end of the text: without 'HloModule' or a computation it holds one instruction")
    state.add_computation(computation)
    return computation


# -- the head --------------------------------------------------------------------------------


def _head(state: State, header: Header | None, entry: HloComputation) -> xla.HloModuleProto:
    """A message with all fields of the module except its computations and the recovery table. Gives the computations
    their final names, ids and order."""
    single = header is None and entry.name == "_"
    pieces: list[bytes] = []
    if header is not None and header.layout is not None:
        pieces.append(_host_shape(*header.layout))
        result = header.layout[1].shape
    else:
        parameters = [state.shape_of(parameter) for parameter in entry.parameters]
        root_shape = state.shape_of(entry.root)
        if single:
            parameters, root_shape = [shape.in_default_order() for shape in parameters], root_shape.in_default_order()
        pieces.append(_host_shape(parameters, root_shape))
        result = root_shape.shape
    pieces.append(_buffers(state, header, result))
    frames = FrameTables() if header is None else header.frames
    payloads: dict[bytes, int] = {}
    finish(state, frames, payloads, single=single)
    if single or (header is not None and header.scheduled):
        schedule = xla.HloScheduleProto()
        for computation in state.computations:
            if not computation.is_fused:
                ids = [each.id for each in executed(computation)]
                schedule.sequences[computation.id].instruction_ids.extend(ids)
        pieces.append(_MODULE.message("schedule", schedule))
    for computation in state.computations:
        _order(computation)
    name = header.name if header is not None else "_" if single else f"module_{entry.name}"
    pieces += [_MODULE.message("payloads", payload) for payload in payloads]
    if frames.frames:
        pieces.append(_MODULE.message("stack_frame_index", frames.to_proto()))
    pieces.append(_MODULE.string("name", name))
    pieces.append(_MODULE.string("entry_computation_name", entry.name))
    pieces.append(_MODULE.integer("entry_computation_id", entry.id))
    pieces.append(header.data if header is not None else _MODULE.message("frontend_attributes", b""))
    return parse(xla.HloModuleProto, b"".join(pieces))


def _host_shape(parameters: list[ParsedShape], result: ParsedShape) -> bytes:
    pieces = [_PROGRAM_SHAPE.message("parameters", parameter.data) for parameter in parameters]
    pieces.append(_PROGRAM_SHAPE.message("result", result.data))
    pieces += [_PROGRAM_SHAPE.string("parameter_names", f"p{number}") for number in range(len(parameters))]
    return _MODULE.message("host_program_shape", b"".join(pieces))


def _buffers(state: State, header: Header | None, result: Shape) -> bytes:
    """The serialized fields input_output_alias and buffer_donor, with their entries sorted as in XLA."""
    aliases, donors = xla.HloInputOutputAliasProto(), xla.HloBufferDonorProto()
    if header is not None:
        seen: set[tuple[int, ...]] = set()
        for alias in sorted(header.aliases, key=lambda alias: alias.output_index):
            if part_of(result, alias.output_index) is None:
                raise state.cursor.error(
                    f"{list(alias.output_index)} is not an index into the result, {result}", at=alias.at
                )
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
            inner = type(state.module)()
            _parse(source, inner, is_recovery_module=True, elided_values=state.elided.is_filled)
            entry.recovery_module.MergeFromString(module_bytes(inner))
        except (InvalidArgumentError, InvalidModuleError) as error:
            raise state.cursor.error(f"the recovery module: {error.message}", at=recovery.at) from error
