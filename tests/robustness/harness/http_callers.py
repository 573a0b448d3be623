"""Transports over HTTP/1.1 without a client library: Connect with proto, with JSON and with GET, and gRPC-Web. They
call RPCs of one request."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import struct
from collections.abc import Iterator
from typing import Any, Protocol
from urllib.parse import unquote, urlencode

from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from google.rpc import code_pb2

from harness.questions import Outcome
from xlashape.proto import message_class, services

__all__ = ["HTTP_TRANSPORTS", "HttpTransport", "outcome_of_http"]

# The deadline of a call.
_SECONDS = 10.0
_MAX_URL_BYTES = 30_000
# The flags of the last part of a stream, in Connect and in gRPC-Web.
_END, _TRAILERS = 2, 128


class HttpTransport(Protocol):
    """A way to make calls over HTTP."""

    name: str
    takes_streams: bool
    has_own_bytes: bool
    """Whether the bytes of answers may differ from those that the server's handlers make: answers in JSON are encoded
    as messages again here."""

    def ask(self, rpc: str, requests: tuple[bytes, ...]) -> Outcome:
        """Makes a call, and returns its outcome."""
        ...

    def close(self) -> None:
        """Ends the connection."""
        ...


class _Http:
    """A connection, which is replaced when the server ends it."""

    name = ""
    takes_streams = False
    has_own_bytes = False

    def __init__(self, address: str, root: bytes | None) -> None:
        host, _, port = address.rpartition(":")
        self._connection: http.client.HTTPConnection
        if root is None:
            self._connection = http.client.HTTPConnection(host, int(port), timeout=_SECONDS)
        else:
            context = ssl.create_default_context(cadata=root.decode())
            self._connection = http.client.HTTPSConnection(host, int(port), timeout=_SECONDS, context=context)
        self._methods: dict[str, MethodDescriptor] = {f"{s.name}/{m.name}": m for s in services() for m in s.methods}

    def _send(self, verb: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes] | Outcome:
        """The status and the body of the answer, or the outcome of the call if there is no answer."""
        try:
            self._connection.request(verb, path, body, headers)
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            code = "DEADLINE_EXCEEDED" if isinstance(error, TimeoutError) else "UNAVAILABLE"
            return Outcome(code, f"{type(error).__name__}: {error}", ())

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()


class ConnectTransport(_Http):
    """Connect with proto."""

    name = "connect"
    encoding = "proto"

    def ask(self, rpc: str, requests: tuple[bytes, ...]) -> Outcome:
        """Makes a call, and returns its outcome."""
        method = self._methods[rpc]
        body = self._encoded(method, requests[0])
        kind = f"application/{'connect+' if method.server_streaming else ''}{self.encoding}"
        headers = {"Content-Type": kind, **_CONNECT}
        if method.server_streaming:
            body = _envelope(body)
        told = self._send("POST", f"/xlashape.v1.{rpc}", body, headers)
        if isinstance(told, Outcome):
            return told
        return self._decoded(method, outcome_of_http(*told, is_stream=method.server_streaming))

    def _encoded(self, method: MethodDescriptor, request: bytes) -> bytes:
        return request

    def _decoded(self, method: MethodDescriptor, outcome: Outcome) -> Outcome:
        return outcome


class JsonTransport(ConnectTransport):
    """Connect with JSON, as curl asks."""

    name = "json"
    encoding = "json"
    has_own_bytes = True

    def _encoded(self, method: MethodDescriptor, request: bytes) -> bytes:
        message = message_class(method.input_type.full_name).FromString(request)
        return json_format.MessageToJson(message, indent=None).encode()

    def _decoded(self, method: MethodDescriptor, outcome: Outcome) -> Outcome:
        made = message_class(method.output_type.full_name)
        answers = (json_format.Parse(each, made()).SerializeToString(deterministic=True) for each in outcome.answers)
        return outcome._replace(answers=tuple(answers))


class GetTransport(ConnectTransport):
    """Connect with GET where the RPC allows it and the request fits a URL, otherwise with POST."""

    name = "get"

    def ask(self, rpc: str, requests: tuple[bytes, ...]) -> Outcome:
        """Makes a call, and returns its outcome."""
        method = self._methods[rpc]
        is_pure = method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS
        if method.server_streaming or not is_pure or len(requests[0]) > _MAX_URL_BYTES:
            return super().ask(rpc, requests)
        message = base64.urlsafe_b64encode(requests[0]).decode().rstrip("=")
        query = urlencode({"connect": "v1", "encoding": "proto", "base64": "1", "message": message})
        told = self._send("GET", f"/xlashape.v1.{rpc}?{query}", None, _CONNECT)
        return told if isinstance(told, Outcome) else outcome_of_http(*told, is_stream=False)


class WebTransport(_Http):
    """gRPC-Web, as browsers ask."""

    name = "grpc-web"

    def ask(self, rpc: str, requests: tuple[bytes, ...]) -> Outcome:
        """Makes a call, and returns its outcome."""
        headers = {"Content-Type": "application/grpc-web+proto", "Grpc-Timeout": f"{int(_SECONDS)}S", "X-Grpc-Web": "1"}
        told = self._send("POST", f"/xlashape.v1.{rpc}", _envelope(requests[0]), headers)
        if isinstance(told, Outcome):
            return told
        status, content = told
        if status != 200:
            return Outcome("UNAVAILABLE" if status in _PASSING else "UNKNOWN", f"status {status}", ())
        answers: list[bytes] = []
        for flags, message in _envelopes(content):
            if flags & _TRAILERS:
                pairs = (line.partition(":") for line in message.decode().splitlines())
                trailers = {name.strip().lower(): unquote(value.strip()) for name, _, value in pairs}
                code = code_pb2.Code.Name(int(trailers["grpc-status"]))
                return Outcome(code, trailers.get("grpc-message", ""), tuple(answers))
            answers.append(message)
        return Outcome("UNAVAILABLE", "the stream ended without trailers", tuple(answers))


HTTP_TRANSPORTS = (ConnectTransport, JsonTransport, GetTransport, WebTransport)

_CONNECT = {"Connect-Protocol-Version": "1", "Connect-Timeout-Ms": str(int(_SECONDS * 1e3))}
_PASSING = (429, 502, 503, 504)


def _envelope(message: bytes) -> bytes:
    return b"\0" + struct.pack(">I", len(message)) + message


def _envelopes(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 5 <= len(content):
        size = int.from_bytes(content[at + 1 : at + 5], "big")
        yield content[at], content[at + 5 : at + 5 + size]
        at += 5 + size


def outcome_of_http(status: int, content: bytes, *, is_stream: bool) -> Outcome:
    """The outcome that an answer of Connect stands for."""
    if status != 200:
        return _of_error(content, status, ())
    if not is_stream:
        return Outcome("OK", "", (content,))
    answers: list[bytes] = []
    for flags, message in _envelopes(content):
        if flags & _END:
            error: Any = json.loads(message or b"{}").get("error")
            told = tuple(answers)
            return _of_error(json.dumps(error).encode(), 200, told) if error else Outcome("OK", "", told)
        answers.append(message)
    return Outcome("UNAVAILABLE", "the stream was cut off", tuple(answers))


def _of_error(content: bytes, status: int, answers: tuple[bytes, ...]) -> Outcome:
    try:
        told = json.loads(content)
        return Outcome(str(told["code"]).upper().replace("CANCELED", "CANCELLED"), told.get("message", ""), answers)
    except (ValueError, KeyError, TypeError):
        return Outcome("UNAVAILABLE" if status in _PASSING else "UNKNOWN", f"status {status}", answers)
