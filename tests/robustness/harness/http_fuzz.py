"""Changed requests over HTTP: Connect with proto and with JSON, and wrong headers."""

from __future__ import annotations

import http.client
import random
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from harness.http_callers import outcome_of_http
from xlashape.proto import message_class, services

__all__ = ["HttpFuzzer", "mutated_json"]

_SECONDS = 40.0
_HEADERS = (
    ("Content-Type", "application/json; charset=utf-8"),
    ("Content-Type", "application/grpc"),
    ("Content-Type", "\xff"),
    ("Content-Encoding", "gzip"),
    ("Content-Encoding", "br"),
    ("Connect-Content-Encoding", "gzip"),
    ("Connect-Protocol-Version", "2"),
    ("Connect-Timeout-Ms", "-1"),
    ("Connect-Timeout-Ms", "0"),
    ("Connect-Timeout-Ms", "99999999999999999999"),
    ("Grpc-Timeout", "9H9"),
    ("Accept", "nothing/at-all"),
    ("Origin", "null"),
    ("Te", "x"),
    ("X-Long", "x" * 9000),
    ("Authorization", "Bearer \x01"),
    ("Cookie", "a=b"),
)
_PIECES = (
    '"',
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\\",
    "\\u0000",
    "\\ud800",
    "null",
    "true",
    "-1",
    "1e999",
    "NaN",
    "18446744073709551616",
    "[" * 2000,
    "\0",
    "\xe9",
)


class HttpFuzzer:
    """Sends changed requests over one connection, which is replaced when the server ends it."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=_SECONDS)
        self._methods = {f"{s.name}/{m.name}": m for s in services() for m in s.methods}

    def takes(self, rpc: str) -> bool:
        """Whether an RPC is asked over HTTP: one with one request and one answer."""
        method: Any = self._methods[rpc]
        return not (method.client_streaming or method.server_streaming)

    def send(self, rpc: str, sent: tuple[bytes, ...], r: random.Random) -> tuple[str, str]:
        """Sends the requests `sent` in a random form, changed or with wrong headers. Returns the code and the message
        of the answer; the code is "DROPPED" if there was none."""
        method: Any = self._methods[rpc]
        form = r.choice(("proto", "json"))
        headers = {"Connect-Protocol-Version": "1", "Connect-Timeout-Ms": "5000", "Content-Type": f"application/{form}"}
        body = sent[0] if sent else b""
        if form == "json":
            body = mutated_json(body, method.input_type.full_name, r)
        verb, path = r.choice(("POST",) * 9 + ("GET",)), f"/xlashape.v1.{rpc}"
        if r.random() < 0.1:
            name, value = r.choice(_HEADERS)
            headers[name] = value
        try:
            self._connection.request(verb, path, body if verb == "POST" else None, headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return "DROPPED", f"{verb} {path[:100]} {headers}: {type(error).__name__}: {error}"
        told = f"{verb} {path[:100]} {headers}: {answer.status} {content[:200]!r}"
        code = outcome_of_http(answer.status, content).code
        if code == "UNKNOWN" and answer.status in (400, 404, 405, 415, 431, 505):
            code = "INVALID_ARGUMENT"  # the HTTP server refused the request before the service saw it
        return code, told

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()


def mutated_json(data: bytes, kind: str, r: random.Random) -> bytes:
    """The message in JSON, changed in a few places."""
    try:
        text = json_format.MessageToJson(message_class(kind).FromString(data), indent=None)
    except (DecodeError, ValueError, RecursionError):
        text = "{}"
    for _ in range(r.choice((0, 1, 1, 2))):
        at = r.randrange(len(text) + 1)
        end = min(len(text), at + r.choice((0, 0, 1, 5)))
        text = text[:at] + r.choice(_PIECES) + text[end:]
    return text.encode("utf-8", "replace")
