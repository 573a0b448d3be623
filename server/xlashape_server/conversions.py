"""Converts what handlers take and raise: messages between JSON and protobuf's own format, in which handlers read and
write, and an error to the status of a call.

>>> from xlashape.proto import v1
>>> json_to_proto(b'{"indices": ["300"]}', v1.LinearIndexRequest) == v1.LinearIndexRequest(
...     indices=[300]
... ).SerializeToString()
True

The status is a google.rpc.Status with details that any gRPC client understands:

    error of the library      status               google.rpc detail, beside ErrorInfo
    InvalidArgumentError …    INVALID_ARGUMENT     BadRequest: the field, and a description of the mistake, with line
                                                   and column in a text
    NotFoundError             NOT_FOUND            ResourceInfo: kind and name
    LimitExceededError        RESOURCE_EXHAUSTED   QuotaFailure: the limit's name
    DeadlineExceededError     DEADLINE_EXCEEDED
    UnsupportedError          UNIMPLEMENTED
    UnavailableError          UNAVAILABLE
    UnauthenticatedError      UNAUTHENTICATED
    PermissionDeniedError     PERMISSION_DENIED
    any other XlashapeError   UNKNOWN

ErrorInfo is a detail of each of these statuses. It holds the error's code in capitals and its `details()`, from which
the clients of xlashape make the exception that was raised here.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, cast

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from xlashape.errors import (
    DeadlineExceededError,
    DecodeError,
    InvalidArgumentError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedError,
    XlashapeError,
    path_text,
)
from xlashape.proto import is_repeated

_MAX_ERROR_TEXT = 300  # characters


_NAMES: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}
_NUMBER = ((int, float, str), "a number")
_TYPES: dict[int, tuple[tuple[type, ...], str]] = {
    FieldDescriptor.CPPTYPE_INT32: _NUMBER,
    FieldDescriptor.CPPTYPE_INT64: _NUMBER,
    FieldDescriptor.CPPTYPE_UINT32: _NUMBER,
    FieldDescriptor.CPPTYPE_UINT64: _NUMBER,
    FieldDescriptor.CPPTYPE_DOUBLE: _NUMBER,
    FieldDescriptor.CPPTYPE_FLOAT: _NUMBER,
    FieldDescriptor.CPPTYPE_BOOL: ((bool,), "true or false"),
    FieldDescriptor.CPPTYPE_ENUM: ((str, int), "the name of a value"),
    FieldDescriptor.CPPTYPE_STRING: ((str,), "text"),
    FieldDescriptor.CPPTYPE_MESSAGE: ((dict,), "an object"),
}
"""C++ type of a field → Python's types of its value in JSON, and the words for them in errors. JSON has integers of 64
bits as texts.
"""


def json_to_proto(data: bytes, kind: type[Message]) -> bytes:
    """A message of `kind` in JSON, converted to protobuf's format. DecodeError if `data` is not such a message.
    Blank `data` is an empty message.

    Unknown fields are errors: a misspelled name would otherwise be a field that is not set.
    """
    if not data.strip():
        return b""
    try:
        if data.lstrip()[:1] != b"{":  # Parse takes an empty list for an empty message
            raise ValueError("expected an object in braces")
        return json_format.Parse(data, kind()).SerializeToString()
    except (json_format.ParseError, RecursionError, ValueError) as error:
        text = str(error)
    with suppress(RecursionError, ValueError):  # the data is no JSON
        text = _wrong_type(json.loads(data), cast("Descriptor", kind.DESCRIPTOR)) or text
    if "recursion" in text:
        text = "it is nested too deeply"
    if "SystemError" in text:  # raised by upb, protobuf's C library, when it looks the name up
        text = "the name of a field has half of a surrogate pair, which is not text"
    text = " ".join(text.split()).removesuffix(".")
    raise DecodeError(
        f"not a {kind.DESCRIPTOR.full_name} in JSON: "
        f"{text if len(text) <= _MAX_ERROR_TEXT else text[:_MAX_ERROR_TEXT] + '…'}"
    )


def _wrong_type(message: Any, kind: Descriptor, path: str = "") -> str:
    """An error text about the first value in a JSON message that does not have the type of its field; empty if all
    have. json_format's own errors name types of Python.
    """
    for name, value in cast("dict[str, Any]", message).items() if isinstance(message, dict) else ():
        if value is None or not name.isascii():  # looking up half of a surrogate pair fails in upb
            continue
        field = kind.fields_by_camelcase_name.get(name, kind.fields_by_name.get(name))
        if field is None:
            continue
        at, values = f"{path}{name}", {"": value}
        if is_repeated(field):
            if type(value) is not list:
                return f"{at}: expected a list, found {_named(value)}"
            values = {f"[{number}]": each for number, each in enumerate(cast("list[Any]", value))}
        for index, each in values.items():
            types, expected = _TYPES[field.cpp_type]
            if type(each) not in types or (expected == "a number" and not _is_number(each)):
                return f"{at}{index}: expected {expected}, found {_named(each)}"
            text = _wrong_type(each, field.message_type, f"{at}{index}.") if field.message_type is not None else ""
            if text:
                return text
    return ""


def _is_number(value: str | float) -> bool:
    try:
        float(value)
    except (ValueError, OverflowError) as error:
        return isinstance(error, OverflowError)  # json_format's error says that the number is out of range
    return True


def _named(value: object) -> str:
    return _NAMES.get(type(value), "null")


def proto_to_json(data: bytes, kind: type[Message]) -> bytes:
    """A serialized answer of `kind`, converted to JSON in one line."""
    found = json_format.MessageToDict(kind.FromString(data))
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


DOMAIN = "xlashape"
"""The domain of our google.rpc.ErrorInfo."""

# The status is sent in headers, and gRPC clients accept 8 KiB of headers. In them a non-ASCII byte of the message takes
# three characters, and the details are encoded in base64.
_MAX_TEXT_BYTES = 400  # bytes of one text
_MAX_INFO_BYTES = 2400  # bytes of the ErrorInfo

_CODES: tuple[tuple[type[XlashapeError], int], ...] = (
    (InvalidArgumentError, code_pb2.INVALID_ARGUMENT),
    (NotFoundError, code_pb2.NOT_FOUND),
    (LimitExceededError, code_pb2.RESOURCE_EXHAUSTED),
    (DeadlineExceededError, code_pb2.DEADLINE_EXCEEDED),
    (UnsupportedError, code_pb2.UNIMPLEMENTED),
    (UnavailableError, code_pb2.UNAVAILABLE),
    (UnauthenticatedError, code_pb2.UNAUTHENTICATED),
    (PermissionDeniedError, code_pb2.PERMISSION_DENIED),
)


def status_of(error: XlashapeError) -> status_pb2.Status:
    """The status of an error of the library, with its details."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), code_pb2.UNKNOWN)
    field = _shortened(error.field or "")
    description = str(error).splitlines()[0] if str(error) else ""
    head, colon, rest = description.partition(": ")
    if colon and head in [path_text(error.path[i:]) for i in range(len(error.path))]:
        description = rest  # the message begins with the end of the path, which is put before it anyway
    message = f"{field}: {description}" if field else description
    status = status_pb2.Status(code=code, message=_shortened(message))
    status.details.add().Pack(_error_info(error))
    if code == code_pb2.INVALID_ARGUMENT:
        violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=_shortened(description))
        status.details.add().Pack(error_details_pb2.BadRequest(field_violations=[violation]))
    elif isinstance(error, NotFoundError):
        status.details.add().Pack(
            error_details_pb2.ResourceInfo(
                resource_type=error.kind, resource_name=_shortened(error.name), description=_shortened(error.message)
            )
        )
    elif isinstance(error, LimitExceededError):
        violated = error_details_pb2.QuotaFailure.Violation(subject=error.limit, description=_shortened(error.message))
        status.details.add().Pack(error_details_pb2.QuotaFailure(violations=[violated]))
    return status


def _error_info(error: XlashapeError) -> error_details_pb2.ErrorInfo:
    """The ErrorInfo of an error. If it is too long, its longest details are left out, but not the message."""
    metadata = {key: _shortened(value) for key, value in error.details().items()}
    metadata["message"] = _shortened(error.message)
    info = error_details_pb2.ErrorInfo(reason=error.code.upper(), domain=DOMAIN, metadata=metadata)
    while info.ByteSize() > _MAX_INFO_BYTES and len(info.metadata) > 1:
        removable = [key for key in info.metadata if key != "message"]
        del info.metadata[max(removable, key=lambda key: len(info.metadata[key].encode()))]
    return info


def _shortened(text: str) -> str:
    data = text[: _MAX_TEXT_BYTES + 1].encode("utf-8", "replace")
    if len(data) <= _MAX_TEXT_BYTES:
        return data.decode()
    return data[: _MAX_TEXT_BYTES - 3].decode("utf-8", "ignore") + "…"
