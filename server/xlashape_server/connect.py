"""Writes answers and errors, and takes messages out of requests, in the form of Connect's calls with one message each
way, over HTTP/1.1. The form of a call is the format of its messages (JSON or protobuf's own) and their compression.

A message is the whole body. An error is JSON with a status of HTTP. Browsers keep answers from pages of other origins,
since this server allows none.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable
from typing import Any

from google.protobuf import any_pb2, json_format
from google.rpc import code_pb2, error_details_pb2, status_pb2

from xlashape.errors import DecodeError, InvalidArgumentError, UnsupportedError

Headers = list[tuple[bytes, bytes]]

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

    is_packed = False
    """Whether the body that `written` made is compressed."""

    def __init__(self, media_type: str, headers: dict[str, str]) -> None:
        self.media_type, self.headers = media_type, headers
        self.is_json = media_type.endswith("json")
        self._accepts_gzip = accepts_gzip(headers.get("accept-encoding", ""))

    def check(self, body: bytes) -> None:
        """Checks how a request was written, whose body may still be compressed. UnsupportedError for a compression
        other than gzip, InvalidArgumentError for another version of Connect, DecodeError if `body` is not gzip as the
        headers say.
        """
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            raise UnsupportedError(f"content-encoding: expected gzip or identity, found {encoding[:100]!r}")
        version = self.headers.get("connect-protocol-version", "1")
        if version != "1":
            raise InvalidArgumentError(f"connect-protocol-version: expected 1, found {version[:100]!r}")
        if encoding == "gzip" and body and not body.startswith(_GZIP):
            raise DecodeError("a compressed request message cannot be unpacked: it is not in the format of gzip")

    def written(self, data: bytes) -> bytes:
        """A message of an answer in this form: compressed if it is not small and the caller accepts gzip."""
        self.is_packed = self._accepts_gzip and len(data) >= _COMPRESSED_BYTES
        return gzip.compress(data, _LEVEL, mtime=0) if self.is_packed else data

    def head(self) -> Headers:
        """The headers of an answer that `written` has made."""
        found = [(b"content-type", self.media_type.encode()), (b"vary", b"Accept-Encoding")]
        return [*found, (b"content-encoding", b"gzip")] if self.is_packed else found


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
_NO_WEIGHT = re.compile(r"q\s*=\s*0(\.0{0,3})?")
# gzip's level: 1 MB of JSON about instructions becomes 9 times smaller in 4 ms. With level 6, 10 times in 7 ms.
_LEVEL = 1


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


def mistake_of(headers: Iterable[tuple[bytes, bytes]], query: bytes, version: str) -> str:
    r"""What is wrong with the headers and the query of a request of HTTP `version`; empty if nothing is.

    If a request has both content-length and transfer-encoding, two readers, such as a proxy and this server, may see
    its end at different places. The same holds for transfer-encoding in HTTP/1.0, which does not know it (RFC 9112,
    section 6.1).

    >>> mistake_of([(b"x-name", b"caf\xe9")], b"", "1.1")
    'header x-name: expected ASCII, found the byte 0xe9'
    """
    names: set[bytes] = set()
    for name, value in headers:
        names.add(name.lower())
        for part in (name, value):
            if not part.isascii():
                shown = name.decode("ascii", "replace")[:100]
                return f"header {shown}: expected ASCII, found the byte 0x{next(each for each in part if each > 127):x}"
    if not query.isascii():
        return "query: expected ASCII, with other characters as %XX"
    if {b"content-length", b"transfer-encoding"} <= names:
        return "content-length and transfer-encoding: expected one of them"
    if version == "1.0" and b"transfer-encoding" in names:
        return "transfer-encoding: not known in HTTP/1.0"
    return ""


def accepts_gzip(header: str) -> bool:
    """Whether a header such as Accept-Encoding allows gzip.

    >>> accepts_gzip("br, gzip;q=0.5"), accepts_gzip("gzip;q=0, br"), accepts_gzip("")
    (True, False, False)
    """
    for each in header.lower().split(","):
        name, _, weight = each.partition(";")
        if name.strip() == "gzip":
            return not _NO_WEIGHT.fullmatch(weight.strip())
    return False
