"""The schema of a module as the printer reads it: the same wire format, with the sub-messages of an instruction left as bytes.

Most of an instruction's sub-messages repeat: shapes, metadata, shardings. As bytes they are keys of a dictionary, and a text is made
once for each. A sub-message that is not there reads as ABSENT, which no serialized message can be; one that is there but empty as b"".
Enums read as int32: a number without a name stays a number.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import EncodeError

from xlashape.errors import InvalidModuleError
from xlashape.proto import is_repeated, xla

__all__ = ["ABSENT", "twin_of"]

ABSENT: Final = b"?"
"""0x3f is a tag of wire type 7, which does not exist."""

_KEPT: Final = {"HloModuleProto.computations": "Computation", "HloComputationProto.instructions": "Instruction"}
_Field = descriptor_pb2.FieldDescriptorProto


def _message(name: str, descriptor: Descriptor) -> descriptor_pb2.DescriptorProto:
    made = descriptor_pb2.DescriptorProto(name=name)
    for field in descriptor.fields:
        repeated = is_repeated(field)
        copy = made.field.add(
            name=field.name,
            number=field.number,
            label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL,
        )
        kept = _KEPT.get(f"{descriptor.name}.{field.name}")
        if kept is not None:
            copy.type, copy.type_name = _Field.TYPE_MESSAGE, f".xlashape.twin.{kept}"
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            copy.type = _Field.TYPE_BYTES
            if not repeated:
                copy.default_value = ABSENT.decode()
        else:
            copy.type = _Field.TYPE_INT32 if field.type == FieldDescriptor.TYPE_ENUM else field.type  # pyright: ignore[reportAttributeAccessIssue]
    return made


@cache
def _module_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="xlashape/twin.proto", package="xlashape.twin", syntax="proto2")
    file.message_type.add().CopyFrom(_message("Instruction", xla.HloInstructionProto.DESCRIPTOR))
    file.message_type.add().CopyFrom(_message("Computation", xla.HloComputationProto.DESCRIPTOR))
    file.message_type.add().CopyFrom(_message("Module", xla.HloModuleProto.DESCRIPTOR))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("xlashape.twin.Module"))


def twin_of(module: xla.HloModuleProto) -> Any:
    """A snapshot of a module in the printer's schema; InvalidModuleError if it cannot be serialized (beyond 2 GiB)."""
    try:
        return _module_class().FromString(module.SerializePartialToString())
    except (EncodeError, ValueError) as error:
        raise InvalidModuleError(f"the module cannot be serialized: {error}") from error
