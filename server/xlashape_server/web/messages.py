"""Reads the headers of requests over HTTP.

Browsers keep answers from pages of other origins, since this server allows none.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable

from xlashape.errors import InvalidArgumentError

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


Headers = list[tuple[bytes, bytes]]


def compressed(data: bytes) -> bytes:
    """`data`, compressed with gzip."""
    return gzip.compress(data, _LEVEL, mtime=0)
