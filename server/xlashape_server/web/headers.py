"""What the headers of a request say: how long its caller waits, and how its answer may be compressed."""

from __future__ import annotations

import re
from collections.abc import Iterable

ENCODINGS = ("accept-encoding", "connect-accept-encoding", "grpc-accept-encoding")
UNARY_TYPES = ("application/json", "application/proto")
_TIMEOUT = re.compile(r"\d{1,10}")
_GRPC_TIMEOUT = re.compile(r"(\d{1,8})([HMSmun])")
_GRPC_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_NO_WEIGHT = re.compile(r"q\s*=\s*0(\.0{0,3})?")


def timeout_of(headers: dict[str, str]) -> tuple[float | None, tuple[str, ...]]:
    """How long the caller waits, and the headers that say so, which are done with. What cannot be read is left for connectrpc to refuse."""
    timeout = headers.get("connect-timeout-ms")
    if timeout is not None and timeout.isascii() and _TIMEOUT.fullmatch(timeout):
        return int(timeout) / 1000, ("connect-timeout-ms",)
    match = _GRPC_TIMEOUT.fullmatch(headers.get("grpc-timeout", ""))
    if match is not None and headers["grpc-timeout"].isascii():
        return int(match[1]) * _GRPC_UNITS[match[2]], ("grpc-timeout",)
    return None, ()


def mistake_of(headers: Iterable[tuple[bytes, bytes]], query: bytes) -> str:
    r"""What is wrong with the headers and the query of any request; empty if nothing is.

    A request with a length and an encoding of its body ends at different places for different readers, such as a proxy and this server.

    >>> mistake_of([(b"x-name", b"caf\xe9")], b"")
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
    return ""


def encodings_header(http_method: str, media_type: str) -> str:
    """The header that says how answers may be compressed: the whole of one, or each message by itself. Empty for gRPC, whose clients all accept
    gzip and none expects it.
    """
    if http_method == "GET" or media_type in UNARY_TYPES:
        return "accept-encoding"
    if media_type.startswith("application/grpc"):
        return "grpc-accept-encoding" if media_type.startswith("application/grpc-web") else ""
    return "connect-accept-encoding"


def accepts_gzip(header: str) -> bool:
    """Whether a header such as Accept-Encoding has gzip in it.

    >>> accepts_gzip("br, gzip;q=0.5"), accepts_gzip("gzip;q=0, br"), accepts_gzip("")
    (True, False, False)
    """
    for each in header.lower().split(","):
        name, _, weight = each.partition(";")
        if name.strip() == "gzip":
            return not _NO_WEIGHT.fullmatch(weight.strip())
    return False
