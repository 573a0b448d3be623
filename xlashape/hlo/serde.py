"""Bytes and messages of a module: reads a serialized HloModuleProto or HloProto into the one form
(`xlashape.hlo.ir`), and writes the form as bytes.

Reading checks the ids of the whole module, one computation after another, with messages that have the ids and names
alone. A computation is then made of its bytes when it is first touched. A module that was not changed is written back
byte for byte; of one that was changed, the computations that nobody touched.

The message classes here have the wire format of the schema and fewer fields; all other fields stay unknown fields,
which protobuf keeps. Of an instruction, `OWN_FIELDS` are taken out of the message, and the bytes of the rest are the
key of its kind. Broken bytes in fields that are not read are found when those fields are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, TypeVar

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from xlashape.errors import DecodeError, XlashapeError
from xlashape.hlo.ir import HloComputation, HloInstruction, ModuleData
from xlashape.hlo.kind import OWN_FIELDS
from xlashape.hlo.module_proto.schema_compat import decode
from xlashape.hlo.module_proto.structure import LOCAL_ID, check_module, serialized
from xlashape.proto import is_repeated, parse, xla
from xlashape.proto.wire import BYTES, Fields, fields, tag

_ModuleT = TypeVar("_ModuleT", bound=ModuleData)
_Field = descriptor_pb2.FieldDescriptorProto
_HLO_MODULE: Final = xla.HloProto.HLO_MODULE_FIELD_NUMBER
_COMPUTATIONS: Final = xla.HloModuleProto.COMPUTATIONS_FIELD_NUMBER

_PROGRAM: Final = Fields(xla.HloProto)
_MODULE: Final = Fields(xla.HloModuleProto)
_COMPUTATION: Final = Fields(xla.HloComputationProto)
_INSTRUCTION: Final = Fields(xla.HloInstructionProto)


# -- message classes with fewer fields -------------------------------------------------------------


def _add_message(
    file: descriptor_pb2.FileDescriptorProto,
    name: str,
    descriptor: Descriptor,
    only: Sequence[str],
    parts: dict[str, str],
) -> None:
    """Adds to `file` a message type with the fields `only` of `descriptor`. Fields that hold messages become bytes;
    `parts` maps a field to the name of a message type of `file` that it keeps."""
    made = file.message_type.add(name=name)
    for field in descriptor.fields:
        if field.name not in only:
            continue
        repeated = is_repeated(field)
        label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
        copy = made.field.add(name=field.name, number=field.number, label=label)
        if field.name in parts:
            copy.type, copy.type_name = _Field.TYPE_MESSAGE, f".{file.package}.{parts[field.name]}"
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            copy.type = _Field.TYPE_BYTES
            if not repeated:  # an empty message differs from one that is not set
                copy.proto3_optional, copy.oneof_index = True, len(made.oneof_decl)
                made.oneof_decl.add(name=f"_{field.name}")
        else:
            copy.type = field.type  # pyright: ignore[reportAttributeAccessIssue] # the same numbers


def _message_class(
    name: str, module: Sequence[str], computation: Sequence[str], instruction: Sequence[str]
) -> type[Message]:
    """The class for the message `name` of a schema with these fields alone."""
    # Errors about broken bytes show the names of package and messages, so they are those of XLA.
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="xla", syntax="proto3")
    parts = {"computations": "HloComputationProto", "instructions": "HloInstructionProto"}
    _add_message(file, "HloInstructionProto", xla.HloInstructionProto.DESCRIPTOR, instruction, parts)
    _add_message(file, "HloComputationProto", xla.HloComputationProto.DESCRIPTOR, computation, parts)
    _add_message(file, "HloModuleProto", xla.HloModuleProto.DESCRIPTOR, module, parts)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"xla.{name}"))


_IDS: Final = ("name", "id", "operand_ids", "called_computation_ids", "control_predecessor_ids")
_COMPUTATION_FIELDS: Final = ("name", "id", "root_id", "execution_thread", "is_fusion_computation", "instructions")
_MODULE_FIELDS: Final = ("name", "entry_computation_id", "computations")
_Named: Final = _message_class("HloModuleProto", _MODULE_FIELDS, _COMPUTATION_FIELDS[:-1], ())
_Checked: Final = _message_class("HloModuleProto", _MODULE_FIELDS, _COMPUTATION_FIELDS, _IDS)
_Read: Final = _message_class(
    "HloComputationProto", (), _COMPUTATION_FIELDS, (*OWN_FIELDS, "channel_id", "opcode", "shape")
)
_own: Final = attrgetter(
    "name",
    "id",
    "operand_ids",
    "metadata",
    "called_computation_ids",
    "control_predecessor_ids",
    "parameter_number",
    "channel_id",
)


# -- reading ---------------------------------------------------------------------------------------


def read_module(module: ModuleData, data: bytes, *, is_program: bool) -> None:
    """Fills an empty module with the content of a serialized HloModuleProto or, if `is_program`, HloProto.

    Raises DecodeError for other bytes, and InvalidModuleError for inconsistent ids.
    """
    content = data
    if is_program:
        found, rest = list[bytes](), list[bytes]()
        for number, wire_type, start, at, end in fields(data):
            if number != _HLO_MODULE:
                rest.append(data[start:end])
            elif wire_type == BYTES:
                found.append(data[at:end])  # a field that occurs several times is merged
            else:
                raise DecodeError("not a xla.HloProto: its module is no message")
        content, module.beside = b"".join(found), b"".join(rest)
    try:
        computations = _computations(module, content)
    except XlashapeError:
        parse(_Checked, content)  # if the bytes are broken anywhere, the first broken ones are the reason
        raise
    module.fill(None, computations, data, content)


def _computations(module: ModuleData, content: bytes) -> list[HloComputation]:
    """The computations of a serialized HloModuleProto, whose ids are checked."""
    named: Any = parse(_Named, content)
    name, entry_id = named.name, named.entry_computation_id
    computations = [
        HloComputation(module, each.name, each.id, each.execution_thread, is_fused=each.is_fusion_computation)
        for each in named.computations
    ]
    del named  # it holds all bytes once more
    check_module(name, entry_id, computations, _messages(computations, content))
    return computations


def _messages(computations: Sequence[HloComputation], content: bytes) -> Iterator[Any]:
    """The ids and names of the instructions of each computation, as messages that are made one at a time. Each
    computation gets the bytes in `content` that it is made of.
    """
    view, left = memoryview(content), iter(computations)
    for number, kind, start, at, end in fields(content):
        # A field with the number of the computations that holds no message is one that the schema does not know.
        if number == _COMPUTATIONS and kind == BYTES:
            module: Any = parse(_Checked, view[start:end])
            message, computation = module.computations[0], next(left)
            computation.source, computation.count = view[at:end], len(message.instructions)
            yield message


def read_head(content: bytes) -> xla.HloModuleProto:
    """The fields of a serialized module other than its computations."""
    rest = [
        content[start:end]
        for number, kind, start, _, end in fields(content)
        if number != _COMPUTATIONS or kind != BYTES
    ]
    return decode(xla.HloModuleProto, b"".join(rest))[0]


def read_computation(computation: HloComputation) -> None:
    """Makes the instructions of a computation of its bytes, whose ids were checked."""
    module = computation.module
    assert computation.source is not None
    message: Any = parse(_Read, computation.source)
    kinds = module.kinds
    find = kinds.find
    by_id: dict[int, HloInstruction] = {}
    instructions: list[HloInstruction] = []
    later: list[tuple[HloInstruction, list[int]]] = []
    controlled: list[tuple[HloInstruction, list[int]]] = []
    for each in message.instructions:
        name, ident, repeated, metadata, called, control, number, channel = _own(each)
        clear = each.ClearField
        clear("name")
        clear("id")
        operand_ids = repeated[:]  # a list is iterated over in a quarter of the time of a repeated field
        operands: tuple[HloInstruction, ...] = ()
        is_later = False
        if operand_ids:
            clear("operand_ids")
            try:
                operands = tuple([by_id[i] for i in operand_ids])
            except KeyError:
                is_later = True
        if metadata or each.HasField("metadata"):
            clear("metadata")
        else:
            metadata = None
        if number:
            clear("parameter_number")
        if called:
            called = called[:]
            clear("called_computation_ids")
        if control:
            control = control[:]
            clear("control_predecessor_ids")
        if channel > 1:
            each.channel_id = 1
        data = each.SerializePartialToString()
        kind = find(data) or kinds.add(data, each.opcode, each.shape)
        instruction = HloInstruction(computation, name, ident, kind, operands, metadata, number, channel)
        if called:
            instruction.called_computations = module.resolve(called)
        if control:
            controlled.append((instruction, control))
        if is_later:
            later.append((instruction, operand_ids))
        by_id[ident] = instruction
        instructions.append(instruction)
    is_ordered = True
    if later or controlled:
        place = {each.id & LOCAL_ID: index for index, each in enumerate(instructions)}
        for instruction, ids in later:
            instruction.operands = tuple([instructions[place[i & LOCAL_ID]] for i in ids])
        for instruction, ids in controlled:
            instruction.control_predecessors = tuple([instructions[place[i & LOCAL_ID]] for i in ids])
        is_ordered = all(
            place[before.id & LOCAL_ID] < place[each.id & LOCAL_ID]
            for each in {*[one for one, _ in later], *[one for one, _ in controlled]}
            for before in (*each.operands, *each.control_predecessors)
        )
    root = by_id.get(message.root_id)
    if root is None:
        root = next(each for each in instructions if each.id & LOCAL_ID == message.root_id & LOCAL_ID)
    for field in _COMPUTATION_FIELDS:
        message.ClearField(field)
    computation.rest = message.SerializePartialToString()
    computation.fill(instructions, root, is_ordered=is_ordered)


def copied(module: ModuleData, copy: _ModuleT) -> _ModuleT:
    """Fills `copy`, an empty module, with a copy of `module`. Both share kinds, which never change, and the bytes of
    computations that were not touched."""
    copy.kinds, copy.beside, copy.config = module.kinds, module.beside, module.config
    computations: dict[HloComputation, HloComputation] = {}
    for each in module.computations:
        computation = HloComputation(copy, each.name, each.id, each.execution_thread)
        computation.source, computation.rest, computation.is_fused = each.source, each.rest, each.is_fused
        computation.count = each.count
        computations[each] = computation
    for each, computation in computations.items():
        if not each.is_filled:
            continue
        made = [
            HloInstruction(computation, i.name, i.id, i.kind, (), i.said_metadata, i.number, i.channel)
            for i in each.instructions
        ]
        for old, new in zip(each.instructions, made, strict=True):
            new.operands = tuple([made[operand.index] for operand in old.operands])
            if old.called_computations:
                new.called_computations = tuple([computations[called] for called in old.called_computations])
            if old.control_predecessors:
                new.control_predecessors = tuple([made[before.index] for before in old.control_predecessors])
        computation.fill(made, made[each.root.index], is_ordered=each.is_ordered)
    head = xla.HloModuleProto()
    head.CopyFrom(module.head)
    copy.fill(head, list(computations.values()), *module.source())
    return copy


# -- writing ---------------------------------------------------------------------------------------


def instruction_bytes(instruction: HloInstruction) -> bytes:
    """The serialized HloInstructionProto of an instruction."""
    parts = [_INSTRUCTION.string("name", instruction.name), _INSTRUCTION.integer("id", instruction.id)]
    parts.append(instruction.kind.data)
    if instruction.channel > 1:  # the kind says 1, and of a field that stands twice the last counts
        parts.append(_INSTRUCTION.integer("channel_id", instruction.channel))
    metadata = instruction.metadata_bytes
    if metadata is not None:
        parts.append(_INSTRUCTION.message("metadata", metadata))
    parts.append(_INSTRUCTION.integer("parameter_number", instruction.number))
    for field, values in (
        ("operand_ids", instruction.operands),
        ("control_predecessor_ids", instruction.control_predecessors),
        ("called_computation_ids", instruction.called_computations),
    ):
        if values:
            parts.append(_INSTRUCTION.integers(field, [each.id for each in values]))
    return b"".join(parts)


def computation_bytes(computation: HloComputation) -> bytes:
    """The serialized HloComputationProto of a computation: its own bytes, if nothing of it has changed."""
    if computation.source is not None:
        return bytes(computation.source)
    return _normal(b"".join(_computation_parts(computation)))


def _computation_parts(computation: HloComputation) -> list[bytes]:
    parts = [
        _COMPUTATION.string("name", computation.name),
        *[_COMPUTATION.message("instructions", instruction_bytes(each)) for each in computation.instructions],
        _COMPUTATION.integer("id", computation.id),
        _COMPUTATION.integer("root_id", computation.root.id),
        _COMPUTATION.string("execution_thread", computation.execution_thread),
        _COMPUTATION.integer("is_fusion_computation", computation.is_fused),
    ]
    rest = computation.rest
    parts.append(_COMPUTATION.message("program_shape", signature(computation)) if rest is None else rest)
    return parts


def signature(computation: HloComputation) -> xla.ProgramShapeProto:
    """The shapes of the parameters of a computation and of its result, and the parameters' names."""
    parameters = computation.parameters
    return xla.ProgramShapeProto(
        parameters=[each.kind.message.shape for each in parameters],
        result=computation.root.kind.message.shape,
        parameter_names=[each.name for each in parameters],
    )


def declared_signature(computation: HloComputation) -> xla.ProgramShapeProto | None:
    """The signature that the message of a computation declares; None for one without it, or made without a message."""
    computation.touched()
    if not computation.rest:
        return None
    message = parse(xla.HloComputationProto, computation.rest)
    return message.program_shape if message.HasField("program_shape") else None


def module_bytes(module: ModuleData) -> bytes:
    """The serialized HloModuleProto of a module that was changed, or that was made of text."""
    head = serialized(module.head)
    computations = [
        _MODULE.message("computations", _todays_form(computation_bytes(each))) for each in module.computations
    ]
    # protobuf writes fields in the order of their numbers, so the computations go before the fields of greater numbers.
    at = next((start for number, _, start, _, _ in fields(head) if number > _COMPUTATIONS), len(head))
    return b"".join((head[:at], *computations, head[at:]))


def program_bytes(beside: bytes, module: bytes) -> bytes:
    """A serialized HloProto of a module and of the fields beside it."""
    return _PROGRAM.message("hlo_module", module) + beside


def _normal(data: bytes) -> bytes:
    """A serialized computation as protobuf writes it, with its fields in the order of their numbers and in today's
    form. `data` itself if its bytes are broken."""
    try:
        return decode(xla.HloComputationProto, data)[0].SerializePartialToString()
    except XlashapeError:
        return data


_ORIGIN: Final = tag(xla.HloInstructionProto.ORIGINAL_VALUE_FIELD_NUMBER, BYTES)


def _todays_form(data: bytes) -> bytes:
    """A serialized computation without the origins that keep today's protobuf from reading it. Other bytes stay."""
    if _ORIGIN not in data:
        return data
    try:
        _ = parse(xla.HloComputationProto, data)
    except XlashapeError:
        return _normal(data)
    return data


def sequences(module: ModuleData) -> Iterator[tuple[HloComputation, Sequence[int]]]:
    """Each scheduled computation with the ids of its instructions in the order in which they run."""
    by_local_id = module.by_local_id()
    for ident, sequence in module.head.schedule.sequences.items():
        computation = by_local_id.get(ident & LOCAL_ID)
        if computation is not None:
            yield computation, sequence.instruction_ids
