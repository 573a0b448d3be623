"""How a module is held in memory with little space: `Held` keeps its bytes and compact messages of them.

protobuf's message of an instruction takes 1.4 kB, most of it for fields that are not set; its bytes take a tenth of
that. The compact messages have the same wire format and fewer fields: of an instruction those that every view needs
(`InstructionFields`), with shape and metadata as bytes. All other fields stay unknown fields, from which
`HloInstruction.details` decodes them for one instruction.

A `Held` has one of two forms:

- compact: bytes, and compact messages that nobody changes;
- full: the message `xla.HloModuleProto`, which its owner may change.

A view replaces the compact form by the full one when its message is asked for, at most once.

Compact messages do not decode all fields. Broken bytes in the others are only found when those fields are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import EncodeError, Message

from xlashape.errors import DecodeError, InvalidModuleError
from xlashape.hlo.module_proto.schema_compat import Original, decode, original_bytes
from xlashape.proto import is_repeated, parse, xla
from xlashape.proto.wire import BYTES, fields

_Field = descriptor_pb2.FieldDescriptorProto


class InstructionFields(Protocol):
    """The fields that a compact instruction and an `xla.HloInstructionProto` have in common."""

    @property
    def name(self) -> str: ...
    @property
    def opcode(self) -> str: ...
    @property
    def id(self) -> int: ...
    @property
    def parameter_number(self) -> int: ...
    @property
    def tuple_index(self) -> int: ...
    @property
    def operand_ids(self) -> Sequence[int]: ...
    @property
    def control_predecessor_ids(self) -> Sequence[int]: ...
    @property
    def called_computation_ids(self) -> Sequence[int]: ...
    @property
    def dimensions(self) -> Sequence[int]: ...
    @property
    def output_operand_aliasing(self) -> Sequence[object]: ...
    @property
    def shape(self) -> bytes | xla.ShapeProto: ...
    @property
    def metadata(self) -> bytes | xla.OpMetadata: ...


class ComputationFields(Protocol):
    """The fields that a compact computation and an `xla.HloComputationProto` have in common."""

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> int: ...
    @property
    def root_id(self) -> int: ...
    @property
    def execution_thread(self) -> str: ...
    @property
    def instructions(self) -> Sequence[InstructionFields]: ...


class ModuleFields(Protocol):
    """The fields that a compact module and an `xla.HloModuleProto` have in common."""

    @property
    def name(self) -> str: ...
    @property
    def entry_computation_id(self) -> int: ...
    @property
    def computations(self) -> Sequence[ComputationFields]: ...


# -- the classes ---------------------------------------------------------------------------------


def add_message(
    file: descriptor_pb2.FileDescriptorProto,
    name: str,
    descriptor: Descriptor,
    only: Sequence[str] = (),
    parts: dict[str, str] | None = None,
) -> descriptor_pb2.DescriptorProto:
    """Adds to `file` a message type with the fields of `descriptor`, or only those in `only`.

    Fields that hold messages become bytes, and enums become int32. `parts` maps a field to the name of a message type
    of `file` that it keeps.
    """
    made = file.message_type.add(name=name)
    for field in descriptor.fields:
        if only and field.name not in only:
            continue
        repeated = is_repeated(field)
        copy = made.field.add(
            name=field.name,
            number=field.number,
            label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL,
        )
        if parts and field.name in parts:
            copy.type, copy.type_name = _Field.TYPE_MESSAGE, f".{file.package}.{parts[field.name]}"
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            copy.type = _Field.TYPE_BYTES
            if file.syntax == "proto3" and not repeated:  # an empty message differs from one that is not set
                copy.proto3_optional, copy.oneof_index = True, len(made.oneof_decl)
                made.oneof_decl.add(name=f"_{field.name}")
        elif field.type == FieldDescriptor.TYPE_ENUM:
            copy.type = _Field.TYPE_INT32
        else:
            copy.type = field.type  # pyright: ignore[reportAttributeAccessIssue] # the same numbers
    return made


def message_classes(file: descriptor_pb2.FileDescriptorProto, *names: str) -> list[Any]:
    """Python classes for the message types of `file` with these names, in a new descriptor pool."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{name}")) for name in names]


def _fields_of(protocol: type) -> list[str]:
    return [name for name in vars(protocol) if not name.startswith("_")]


def _make_class() -> type[Message]:
    # Errors about broken bytes show the names of package and messages, so they are those of XLA.
    file = descriptor_pb2.FileDescriptorProto(name="compact.proto", package="xla", syntax="proto3")
    parts = {"computations": "HloComputationProto", "instructions": "HloInstructionProto"}
    for message, protocol in (
        (xla.HloInstructionProto, InstructionFields),
        (xla.HloComputationProto, ComputationFields),
        (xla.HloModuleProto, ModuleFields),
    ):
        add_message(file, message.DESCRIPTOR.name, message.DESCRIPTOR, _fields_of(protocol), parts)
    return message_classes(file, "HloModuleProto")[0]


_Module: Final = _make_class()


# -- a module in memory ---------------------------------------------------------------------------

_HLO_MODULE: Final = 1  # the number of HloProto's field hlo_module
_COMPUTATIONS: Final = 3  # the number of HloModuleProto's field computations


class Held:
    """A module in memory, with the HloProto around it if there is one. Make it with `of_bytes` or `of_message`."""

    __slots__ = ("_compact", "_data", "_head", "_is_program", "_message", "_original", "_program", "is_consistent")

    is_consistent: bool
    """Whether the ids are known to refer to existing instructions and computations. False in the full form, in which
    the owner may change the message.
    """

    def __init__(self) -> None:
        self.is_consistent = False
        self._data = b""
        self._is_program = False
        self._compact: Message | None = None
        self._head: xla.HloModuleProto | None = None
        self._message: xla.HloModuleProto | None = None
        self._program: xla.HloProto | None = None
        self._original: Original | None = None

    @classmethod
    def of_bytes(cls, data: bytes, *, is_program: bool = False, is_consistent: bool = False) -> Held:
        """The module in a serialized HloModuleProto or, if `is_program`, HloProto. Raises DecodeError for other
        bytes."""
        held = cls()
        held.is_consistent = is_consistent
        held._data, held._is_program = data, is_program
        held._compact = parse(_Module, held.module_bytes())
        return held

    @classmethod
    def of_message(cls, module: xla.HloModuleProto, program: xla.HloProto | None = None) -> Held:
        """Holds the message `module` itself, not a copy, and `program`, the HloProto that contains it."""
        held = cls()
        held._message, held._program = module, program
        return held

    @property
    def is_compact(self) -> bool:
        """Whether the module is in compact form."""
        return self._message is None

    @property
    def fields(self) -> ModuleFields:
        """The compact message, or in full form the full one."""
        return cast("Any", self._compact) if self._message is None else self._message

    @property
    def head(self) -> xla.HloModuleProto:
        """A message with the module's fields other than its computations. It must not be changed. In full form it is
        the full message, computations included.
        """
        if self._message is not None:
            return self._message
        if self._head is None:
            data = self.module_bytes()
            rest = [data[start:end] for number, _, start, _, end in fields(data) if number != _COMPUTATIONS]
            self._head = decode(xla.HloModuleProto, b"".join(rest))[0]
        return self._head

    def module_bytes(self) -> bytes:
        """The serialized module. Raises InvalidModuleError for a message that cannot be serialized (beyond 2 GiB)."""
        if self._message is not None:
            return serialized(self._message)
        return b"".join(self._modules()) if self._is_program else self._data

    def _modules(self) -> Iterator[bytes]:
        """The contents of the field hlo_module in an HloProto. The field may occur several times; then they are
        merged.
        """
        for number, wire_type, _, content, end in fields(self._data):
            if number == _HLO_MODULE:
                if wire_type != BYTES:
                    raise DecodeError("not a xla.HloProto: its module is no message")
                yield self._data[content:end]

    def to_bytes(self) -> bytes:
        """The bytes that the module was read from, or the serialized message: an HloProto if the module came in one."""
        if self._message is None:
            return self._data
        message = self._message if self._program is None else self._program
        data = original_bytes(message, self._original)
        return message.SerializeToString() if data is None else data

    def decoded(self) -> Held:
        """The module in full form: this `Held` if it is in that form already, else a new one that shares nothing with
        it. Raises DecodeError.
        """
        if self._message is not None:
            return self
        held = Held()
        if self._is_program:
            held._program, held._original = decode(xla.HloProto, self._data)
            held._message = held._program.hlo_module
        else:
            held._message, held._original = decode(xla.HloModuleProto, self._data)
        return held

    @property
    def message(self) -> xla.HloModuleProto:
        """The full message. In compact form it is decoded anew at each access, and not kept."""
        message = self.decoded()._message
        assert message is not None
        return message

    @property
    def program(self) -> xla.HloProto | None:
        """The HloProto that contains the module, decoded as `message` is. None if the module came without one."""
        return self.decoded()._program if self.is_program else None

    @property
    def original(self) -> Original | None:
        """The bytes that the module was read from, if an older XLA wrote them and protobuf cannot read them unchanged;
        else None.
        """
        return self.decoded()._original

    @property
    def is_program(self) -> bool:
        """Whether the module came in an HloProto."""
        return self._is_program if self._message is None else self._program is not None

    @property
    def beside(self) -> xla.HloProto:
        """An HloProto with its fields other than the module, such as the buffer assignment. Empty if the module came
        without an HloProto. It must not be changed.
        """
        if self._message is not None:
            rest = xla.HloProto()
            if self._program is not None:
                rest.CopyFrom(self._program)
                rest.ClearField("hlo_module")
            return rest
        data = self._data if self._is_program else b""
        return parse(
            xla.HloProto,
            b"".join([data[start:end] for number, _, start, _, end in fields(data) if number != _HLO_MODULE]),
        )


def serialized(message: Message) -> bytes:
    """The bytes of a message. Raises InvalidModuleError if it cannot be serialized."""
    try:
        return message.SerializePartialToString()
    except (EncodeError, ValueError) as error:
        raise InvalidModuleError(f"the module cannot be serialized: {error}") from error
