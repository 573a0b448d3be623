"""Statuses as connectrpc takes them, with details in JSON too.

Connect's protocol sends the bytes of a detail in base64, and beside them, under `debug`, what they say: for people who read an answer with curl or in a
browser's console. Clients read the bytes. connectrpc writes `debug` for messages whose type it knows, so that the types of google.rpc are told to it.
"""

from __future__ import annotations

from typing import Any, cast

from connectrpc.code import Code
from connectrpc.errors import ConnectError, ErrorDetail
from google.protobuf import any_pb2, descriptor_pb2
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.rpc import code_pb2, error_details_pb2, status_pb2
from protobuf import Registry
from protobuf.wkt import Any as AnyMessage
from protobuf.wkt import FileDescriptorSet

_CODES = {member.value.upper().replace("CANCELED", "CANCELLED"): member for member in Code}


def connect_error(status: status_pb2.Status) -> ConnectError:
    """Code, message and details of a status."""
    code = _CODES.get(code_pb2.Code.Name(status.code), Code.UNKNOWN)
    return ConnectError(code, status.message, [_detail(each) for each in status.details])


def _detail(packed: any_pb2.Any) -> ErrorDetail:
    kept = AnyMessage(type_url=packed.type_url, value=packed.value)
    kind = _REGISTRY.message(packed.type_url.rpartition("/")[2])
    message = None if kind is None else kept.unpack(kind)
    return ErrorDetail(kept if message is None else message)


def _registry() -> Registry:
    """The types of google.rpc's error details."""
    files = descriptor_pb2.FileDescriptorSet()

    def add(file: FileDescriptor) -> None:
        for dependency in file.dependencies:
            add(dependency)
        if file.name not in {known.name for known in files.file}:
            file.CopyToProto(files.file.add())
            for message in files.file[-1].message_type:
                _name_fields(message, file.message_types_by_name[message.name])

    add(error_details_pb2.DESCRIPTOR)
    kind: Any = cast("Any", FileDescriptorSet)  # its types are of newer Pythons than the oldest that this runs on
    return kind.from_binary(files.SerializeToString()).to_registry()


def _name_fields(message: descriptor_pb2.DescriptorProto, known: Descriptor) -> None:
    """Sets the names of fields in JSON, which Google's descriptors know and do not copy."""
    for field in message.field:
        field.json_name = known.fields_by_name[field.name].json_name
    for nested in message.nested_type:
        _name_fields(nested, known.nested_types_by_name[nested.name])


_REGISTRY = _registry()
