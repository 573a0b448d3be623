"""Reads headers of Connect's calls with one message each way, over HTTP/1.1, and writes errors.

A message is the whole body, in JSON or protobuf's own format. An error is JSON with a status of HTTP. Browsers keep
answers from pages of other origins, since this server allows none.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from typing import Any

from google.protobuf import any_pb2, json_format
from google.rpc import code_pb2, error_details_pb2, status_pb2

from xlashape.errors import DecodeError, InvalidArgumentError, UnsupportedError

Headers = list[tuple[bytes, bytes]]

MEDIA_TYPES = ("application/json", "application/proto")

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


def check(headers: dict[str, str], body: bytes) -> None:
    """Checks how a request was written, whose body may still be compressed. UnsupportedError for a compression other
    than gzip, InvalidArgumentError for another version of Connect, DecodeError if `body` is not gzip as the headers
    say.
    """
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise UnsupportedError(f"content-encoding: expected gzip or identity, found {encoding[:100]!r}")
    version = headers.get("connect-protocol-version", "1")
    if version != "1":
        raise InvalidArgumentError(f"connect-protocol-version: expected 1, found {version[:100]!r}")
    if encoding == "gzip" and body and not body.startswith(_GZIP):
        raise DecodeError("a compressed request message cannot be unpacked: it is not in the format of gzip")


def failure(status: status_pb2.Status) -> tuple[int, Headers, bytes]:
    """Status of HTTP, headers and body of an answer that is an error, as Connect writes it in JSON. Each detail is
    there as bytes for clients and, under `debug`, in JSON for people.
    """
    name = code_pb2.Code.Name(status.code)
    found: dict[str, Any] = {"code": name.lower().replace("cancelled", "canceled"), "message": status.message}
    if status.details:
        found["details"] = [_detail(each) for each in status.details]
    body = json.dumps(found, ensure_ascii=False).encode()
    return HTTP_STATUS.get(name, 500), [(b"content-type", b"application/json")], body


def _detail(packed: any_pb2.Any) -> dict[str, Any]:
    name = packed.type_url.rpartition("/")[2]
    found = {"type": name, "value": base64.b64encode(packed.value).decode().rstrip("=")}
    kind = getattr(error_details_pb2, name.rpartition(".")[2], None) if name.startswith("google.rpc.") else None
    return found if kind is None else found | {"debug": json_format.MessageToDict(kind.FromString(packed.value))}


# -- headers -----------------------------------------------------------------------------------


_TIMEOUT = re.compile(r"[0-9]{1,10}")


def timeout_of(headers: dict[str, str]) -> float | None:
    """The timeout of a call in seconds; None without one. InvalidArgumentError if it cannot be read.

    >>> timeout_of({"connect-timeout-ms": "1500"}), timeout_of({})
    (1.5, None)
    """
    text = headers.get("connect-timeout-ms")
    if text is None:
        return None
    if not _TIMEOUT.fullmatch(text):
        raise InvalidArgumentError(f"connect-timeout-ms: cannot read the timeout {text[:100]!r}")
    return int(text) / 1000


def has_two_ends(headers: Iterable[tuple[bytes, bytes]], version: str) -> bool:
    """Whether two readers, such as a proxy and this server, may see the end of a request of HTTP `version` at different
    places: it has both content-length and transfer-encoding, or the second of them in HTTP/1.0, which does not know it
    (RFC 9112, section 6.1).
    """
    names = {name.lower() for name, _ in headers}
    return b"transfer-encoding" in names and (b"content-length" in names or version == "1.0")
