"""Writes answers and errors, and takes messages out of requests, in the form of Connect's calls with one message each
way, over HTTP/1.1. The form of a call is the format of its messages (JSON or protobuf's own) and their compression.

A message is the whole body. An error is JSON with a status of HTTP.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf import any_pb2, json_format
from google.rpc import code_pb2, error_details_pb2, status_pb2

from xlashape.errors import DecodeError, InvalidArgumentError, UnsupportedError
from xlashape_server.web.messages import Headers, accepts_gzip, compressed

MEDIA_TYPES = ("application/json", "application/proto")

# Bytes of an answer from which it is compressed. To compress a smaller answer takes longer than it saves.
_COMPRESSED_BYTES = 1024
_GZIP = b"\x1f\x8b"
# Code of google.rpc → status of HTTP, by Connect's specification. All other codes have the status 500.
HTTP_STATUS = {
    "CANCELLED": 499,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "UNAUTHENTICATED": 401,
}


class Form:
    """The form of one call. It follows from the media type of the request, and from its headers, whose names are in
    lower case.
    """

    def __init__(self, media_type: str, headers: dict[str, str]) -> None:
        self.media_type = media_type
        self.is_json = media_type.endswith("json")
        self.encoding = headers.get("content-encoding", "identity").strip().lower()
        self.accepts_gzip = accepts_gzip(headers.get("accept-encoding", ""))
        self.is_packed = False
        """Whether the body that `written` made is compressed."""

    def check(self, headers: dict[str, str]) -> None:
        """Raises UnsupportedError for a compression other than gzip, InvalidArgumentError for another version of
        Connect.
        """
        if self.encoding not in ("identity", "gzip"):
            raise UnsupportedError(f"content-encoding: expected gzip or identity, found {self.encoding[:100]!r}")
        version = headers.get("connect-protocol-version", "1")
        if version != "1":
            raise InvalidArgumentError(f"connect-protocol-version: expected 1, found {version[:100]!r}")

    def message(self, body: bytes) -> bytes:
        """The message of a request. It may still be compressed. DecodeError if it is not in the format that it says."""
        if self.encoding == "gzip" and body and not body.startswith(_GZIP):
            raise DecodeError("a compressed request message cannot be unpacked: it is not in the format of gzip")
        return body

    def written(self, data: bytes) -> bytes:
        """A message of an answer in this form: compressed if it is not small and the caller accepts gzip."""
        self.is_packed = self.accepts_gzip and len(data) >= _COMPRESSED_BYTES
        return compressed(data) if self.is_packed else data

    def head(self) -> Headers:
        """The headers of an answer that `written` has made."""
        found = [(b"content-type", self.media_type.encode()), (b"vary", b"Accept-Encoding")]
        return [*found, (b"content-encoding", b"gzip")] if self.is_packed else found


def failure(status: status_pb2.Status) -> tuple[int, Headers, bytes]:
    """Status of HTTP, headers and body of an answer that is an error."""
    body = json.dumps(error_in_json(status), ensure_ascii=False).encode()
    code = HTTP_STATUS.get(code_pb2.Code.Name(status.code), 500)
    return code, [(b"content-type", b"application/json")], body


def error_in_json(status: status_pb2.Status) -> dict[str, Any]:
    """An error as Connect writes it in JSON. Each detail is there as bytes for clients and, under `debug`, in JSON for
    people.
    """
    code = code_pb2.Code.Name(status.code).lower().replace("cancelled", "canceled")
    found: dict[str, Any] = {"code": code, "message": status.message}
    if status.details:
        found["details"] = [_detail(each) for each in status.details]
    return found


def _detail(packed: any_pb2.Any) -> dict[str, Any]:
    name = packed.type_url.rpartition("/")[2]
    found = {"type": name, "value": base64.b64encode(packed.value).decode().rstrip("=")}
    kind = getattr(error_details_pb2, name.rpartition(".")[2], None) if name.startswith("google.rpc.") else None
    return found if kind is None else found | {"debug": json_format.MessageToDict(kind.FromString(packed.value))}
