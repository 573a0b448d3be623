"""Loads the compiled schema, `schema.binpb`, into a descriptor pool, and makes the message classes from it.

`coerce` and `parse` decode messages. `publish` fills the modules `xla`, `v1` and `well_known`.
"""

from __future__ import annotations

import copyreg
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import google.protobuf
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor, ServiceDescriptor
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import DecodeError as WireError
from google.protobuf.message import EncodeError, Message

from xlashape.errors import DecodeError, InvalidArgumentError, NotFoundError, UnavailableError
from xlashape.proto.wire import fields

M = TypeVar("M", bound=Message)

_MODULES = {
    "google.protobuf": "xlashape.proto.well_known",
    "xla": "xlashape.proto.xla",
    "xlashape.v1": "xlashape.proto.v1",
}

_OLDEST_PROTOBUF = (4, 25)


def _check_protobuf(version: str) -> None:
    """Raises UnavailableError for a version of protobuf that is too old: 4.22 and 4.23 end the process when a class of
    the schema is made.
    """
    if tuple(int(digits) for digits in re.findall(r"\d+", version)[:2]) < _OLDEST_PROTOBUF:
        raise UnavailableError(
            f"xlashape needs protobuf 4.25.8 or newer, and {version} is installed: pip install 'protobuf>=4.25.8'"
        )


_check_protobuf(google.protobuf.__version__)


def _split(descriptor_set: bytes) -> Iterator[bytes]:
    """The files of a serialized FileDescriptorSet, whose only field is `repeated FileDescriptorProto file = 1`.

    Parsing it as a message would import descriptor_pb2, which is slower than all the rest of this module.
    """
    for _, _, _, content, end in fields(descriptor_set):
        yield descriptor_set[content:end]


def _load() -> tuple[descriptor_pool.DescriptorPool, list[FileDescriptor]]:
    path = Path(__file__).with_name("schema.binpb")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ImportError(
            f"{path} is missing: installing the project makes it, and so does `python protos/schema_compiler.py`"
        ) from None
    descriptors = descriptor_pool.DescriptorPool()
    return descriptors, [descriptors.AddSerializedFile(file) for file in _split(content)]


pool, _files = _load()
"""The descriptor pool with every file of the schema, and with the well-known types that these import. It is not
protobuf's default pool.
"""


def message_class(full_name: str) -> type[Message]:
    """The class of a message by its full name, such as `xla.OpMetadata.ProfileInfo` or
    `xlashape.v1.DescribeShapeRequest`.

    Raises NotFoundError if the schema has no such message.
    """
    try:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(full_name))
    except KeyError:
        raise NotFoundError(f"the schema has no message {full_name!r}") from None


def service(full_name: str) -> ServiceDescriptor:
    """The descriptor of a service by its full name, such as `xlashape.v1.ShapeService`. Raises NotFoundError if the
    schema has no such service.
    """
    try:
        return pool.FindServiceByName(full_name)
    except KeyError:
        raise NotFoundError(f"the schema has no service {full_name!r}") from None


def services() -> tuple[ServiceDescriptor, ...]:
    """The descriptors of all services of the schema, in the order of their files."""
    return tuple(service for file in _files for service in file.services_by_name.values())


def is_repeated(field: FieldDescriptor) -> bool:
    """Whether a field is repeated or a map. Works with every version of protobuf.

    `FieldDescriptor.is_repeated` exists since 6.31, and `FieldDescriptor.label` no longer exists in 7.
    """
    known: bool | None = getattr(field, "is_repeated", None)
    if known is None:
        label: int = getattr(field, "label", 0)
        known = label == FieldDescriptor.LABEL_REPEATED
    return known


def coerce(message_class: type[M], value: object) -> M:
    r"""`value` as a message of `message_class`, one of this package's classes.

    `value` is serialized bytes (bytes, bytearray or memoryview); a message of the class itself, which is returned
    without a copy; or a message of another class with the same full name, such as TensorFlow's `xla.ShapeProto`, which
    is serialized and parsed.

    Raises DecodeError if the bytes are not such a message or if it nests deeper than protobuf's 100 levels,
    InvalidArgumentError for a value of another type.

    >>> from xlashape.proto import coerce, xla
    >>> coerce(xla.TileProto, b"\n\x02\x08\x01").dimensions
    [8, 1]
    >>> coerce(xla.TileProto, b"\n\x02\x08\x80")
    Traceback (most recent call last):
        ...
    xlashape.errors.DecodeError: not a xla.TileProto (4 bytes): the wire format is broken
    """
    if isinstance(value, message_class):
        return value
    full_name: str = message_class.DESCRIPTOR.full_name
    if isinstance(value, Message):
        if value.DESCRIPTOR.full_name != full_name:
            raise InvalidArgumentError(f"expected a {full_name} or its bytes, found a {value.DESCRIPTOR.full_name}")
        try:
            data = value.SerializePartialToString()
        except (EncodeError, RecursionError) as error:
            raise DecodeError(f"not a {full_name}: {_reason(error)}") from error
    elif isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(cast("bytes", value))
    else:
        raise InvalidArgumentError(f"expected a {full_name} or its bytes, found {type(value).__name__}")
    return parse(message_class, data)


def parse(message_class: type[M], data: bytes | memoryview) -> M:
    """The message in `data`. Raises DecodeError if the bytes are not such a message or if it nests deeper than
    protobuf's 100 levels.
    """
    try:
        return message_class.FromString(data)  # pyright: ignore[reportArgumentType] # it takes views too
    except (WireError, RecursionError, UnicodeDecodeError) as error:
        full_name: str = message_class.DESCRIPTOR.full_name
        raise DecodeError(f"not a {full_name} ({len(data)} bytes): {_reason(error)}") from error


def _reason(error: Exception) -> str:
    # Newer versions of protobuf give the reason, older ones do not.
    text = str(error).lower()
    if isinstance(error, RecursionError) or "depth" in text or "nesting" in text:
        return "messages nest deeper than protobuf's 100 levels"
    if ": wire format" in text or "truncated" in text:
        return "the wire format is broken"
    if "utf-8" in text:
        return "a string is not UTF-8"
    return "the wire format is broken, or messages nest deeper than protobuf's 100 levels"


def publish(package: str) -> None:
    """Fills the module of `package` with its messages, enums and enum values, as generated code would."""
    module = sys.modules[_MODULES[package]]
    names: dict[str, Any] = {}
    for file in _files:
        if file.package != package:
            continue
        for enum in file.enum_types_by_name.values():
            names[enum.name] = EnumTypeWrapper(enum)
            names.update((value.name, value.number) for value in enum.values)
        for message in file.message_types_by_name.values():
            names[message.name] = _adopt(message, module.__name__, message.name)
    vars(module).update(names, __all__=sorted(names))


def _adopt(descriptor: Descriptor, module: str, qualified_name: str) -> type[Message]:
    """The class of a message, with its module and name in this package set, and with support for pickle. Protobuf's own
    support for pickle looks names up in the default pool.
    """
    adopted = message_factory.GetMessageClass(descriptor)
    adopted.__module__ = module
    adopted.__qualname__ = qualified_name
    copyreg.pickle(adopted, _reduce)
    for nested in descriptor.nested_types:
        setattr(adopted, nested.name, _adopt(nested, module, f"{qualified_name}.{nested.name}"))
    return adopted


def _reduce(message: Message) -> tuple[Any, tuple[str, bytes]]:
    return _restore, (message.DESCRIPTOR.full_name, message.SerializePartialToString())


def _restore(full_name: str, data: bytes) -> Message:
    return message_class(full_name).FromString(data)
