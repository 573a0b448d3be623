"""Writes answers and errors, and takes messages out of requests, in the forms of Connect and gRPC-Web over HTTP/1.1.
The form of a call is its protocol, the format of its messages (JSON or protobuf's own), and their compression.

Connect sends a single message as the whole body, and an error as JSON with a status of HTTP. In a stream, Connect puts
each message in an envelope: a byte of flags, four bytes of the message's length, the message. gRPC-Web does so in every
call. The last envelope says how the call ended.

>>> Form("application/proto").envelope(b"ab") == Form("application/connect+proto").envelope(b"ab")
True
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from typing import Any
from urllib.parse import parse_qs, quote

from google.protobuf import any_pb2, json_format
from google.rpc import code_pb2, error_details_pb2, status_pb2

from xlashape.errors import DecodeError, InvalidArgumentError, UnsupportedError
from xlashape_server.web.messages import Headers, accepts_gzip, compressed

UNARY_TYPES = ("application/json", "application/proto")
STREAM_TYPES = ("application/connect+json", "application/connect+proto")
GRPC_WEB_TYPES = ("application/grpc-web", "application/grpc-web+proto", "application/grpc-web+json")

# Bytes of an answer from which it is compressed. To compress a smaller answer takes longer than it saves.
_COMPRESSED_BYTES = 1024
_COMPRESSED, _END, _TRAILERS = 1, 2, 128  # flags of envelopes; _END marks Connect's last envelope, _TRAILERS gRPC-Web's
_GZIP = b"\x1f\x8b"
_HEAD = 5  # bytes of an envelope before its message
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

    def __init__(self, media_type: str, headers: dict[str, str] | None = None) -> None:
        headers = headers or {}
        self.media_type = media_type
        self.is_json = media_type.endswith("json")
        self.is_grpc_web = media_type in GRPC_WEB_TYPES
        self.has_envelopes = media_type not in UNARY_TYPES
        prefix = "grpc-" if self.is_grpc_web else "connect-" if self.has_envelopes else ""
        self._encoding_name = f"{prefix}{'' if self.is_grpc_web else 'content-'}encoding"
        self.encoding = headers.get(self._encoding_name, "identity").strip().lower()
        self.accepts_gzip = accepts_gzip(headers.get(f"{prefix}accept-encoding", ""))
        self.is_packed = False
        """Whether the body that `written` made is compressed as a whole."""
        self.more: Headers = []
        """Further headers for an answer that is not an error."""

    def check(self, headers: dict[str, str]) -> None:
        """Raises UnsupportedError for a compression other than gzip, InvalidArgumentError for another version of
        Connect.
        """
        if self.encoding not in ("identity", "gzip"):
            raise UnsupportedError(f"{self._encoding_name}: expected gzip or identity, found {self.encoding[:100]!r}")
        version = headers.get("connect-protocol-version", "1")
        if version != "1":
            raise InvalidArgumentError(f"connect-protocol-version: expected 1, found {version[:100]!r}")

    def message(self, body: bytes) -> bytes:
        """The only message of a request, taken out of its envelope. It may still be compressed. DecodeError if the body
        is not one message.
        """
        is_compressed = self.encoding == "gzip"
        if self.has_envelopes:
            if len(body) < _HEAD or len(body) != _HEAD + int.from_bytes(body[1:_HEAD], "big"):
                raise DecodeError("the body is not one whole message in an envelope")
            if body[0] not in (0, _COMPRESSED) or (body[0] and not is_compressed):
                raise DecodeError(f"the flags of a message in an envelope cannot be {body[0]} here")
            is_compressed, body = bool(body[0]), body[_HEAD:]
        if is_compressed and body and not body.startswith(_GZIP):
            raise DecodeError("a compressed request message cannot be unpacked: it is not in the format of gzip")
        return body

    def query(self, query: bytes) -> bytes:
        """The message in the query of a GET of Connect. The query also states the form, which this object then has.
        InvalidArgumentError or DecodeError if the query is not a message.
        """
        try:
            found = parse_qs(
                query.decode(), keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=9
            )
        except ValueError:
            found = {}
        values = {name: each[0] for name, each in found.items()}
        if values.get("encoding") not in ("json", "proto") or "message" not in values:
            raise InvalidArgumentError("the query is not a message: expected ?encoding=json&message=… (or proto)")
        if values.get("connect", "v1") != "v1":
            raise InvalidArgumentError(f"connect: expected v1, found {values['connect'][:100]!r}")
        self.media_type = f"application/{values['encoding']}"
        self.is_json = values["encoding"] == "json"
        self.encoding = values.get("compression", "identity")
        self.check({})
        text = values["message"]
        if values.get("base64") != "1":
            return self.message(text.encode())
        text = text.rstrip("=")
        try:
            return self.message(base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), b"-_", validate=True))
        except (UnicodeEncodeError, binascii.Error):
            raise DecodeError("message: expected base64 in the form for addresses") from None

    def written(self, data: bytes) -> bytes:
        """A message of an answer in this form: compressed if it is not small and the caller accepts gzip, and in an
        envelope if the form has envelopes.
        """
        packs = self.accepts_gzip and len(data) >= _COMPRESSED_BYTES
        data = compressed(data) if packs else data
        if not self.has_envelopes:
            self.is_packed = packs
            return data
        return self.envelope(data, _COMPRESSED if packs else 0)

    @staticmethod
    def envelope(data: bytes, flags: int = 0) -> bytes:
        """The data in an envelope."""
        return struct.pack(">BI", flags, len(data)) + data

    def head(self) -> Headers:
        """The headers of an answer. For a form without envelopes, call it after `written`, which decides whether the
        answer is compressed.
        """
        found = [(b"content-type", self.media_type.encode())]
        if self.is_packed or (self.has_envelopes and self.accepts_gzip):
            found.append((self._encoding_name.encode(), b"gzip"))
        if not self.has_envelopes:
            found.append((b"vary", b"Accept-Encoding"))
        return [*found, *self.more]

    def end(self, status: status_pb2.Status | None = None) -> bytes:
        """The last envelope, with the error of the call if there is one."""
        if not self.is_grpc_web:
            end = {} if status is None else {"error": error_in_json(status)}
            return self.envelope(json.dumps(end, ensure_ascii=False).encode(), _END)
        lines = [f"grpc-status: {0 if status is None else status.code}"]
        if status is not None:
            packed = base64.b64encode(status.SerializeToString()).decode().rstrip("=")
            text = quote(status.message, safe=" !#$&'()*+,/:;<=>?@[]^`{|}\"\\")
            lines += [f"grpc-message: {text}", f"grpc-status-details-bin: {packed}"]
        return self.envelope("".join(f"{line}\r\n" for line in lines).encode(), _TRAILERS)

    def failure(self, status: status_pb2.Status) -> tuple[int, Headers, bytes]:
        """Status of HTTP, headers and body of an answer that is an error."""
        if self.has_envelopes:
            return 200, [(b"content-type", self.media_type.encode())], self.end(status)
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
