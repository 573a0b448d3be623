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

from google.protobuf import json_format
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

_MAX_ERROR_TEXT = 300  # characters


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
        text = " ".join(str(error).split()).removesuffix(".")
    shown = text if len(text) <= _MAX_ERROR_TEXT else text[:_MAX_ERROR_TEXT] + "…"
    raise DecodeError(f"not a {kind.DESCRIPTOR.full_name} in JSON: {shown}")


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
