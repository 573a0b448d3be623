"""Transports over HTTP/1.1 without a client library: Connect with proto and with JSON. They call
RPCs of one request and one answer."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Protocol

from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor

from harness.questions import Outcome
from xlashape.proto import message_class, services

__all__ = ["HTTP_TRANSPORTS", "HttpTransport", "outcome_of_http"]

# The deadline of a call.
_SECONDS = 10.0


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
        headers = {"Content-Type": f"application/{self.encoding}", **_CONNECT}
        told = self._send("POST", f"/xlashape.v1.{rpc}", body, headers)
        if isinstance(told, Outcome):
            return told
        return self._decoded(method, outcome_of_http(*told))

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


HTTP_TRANSPORTS = (ConnectTransport, JsonTransport)

_CONNECT = {"Connect-Protocol-Version": "1", "Connect-Timeout-Ms": str(int(_SECONDS * 1e3))}
_PASSING = (429, 502, 503, 504)


def outcome_of_http(status: int, content: bytes) -> Outcome:
    """The outcome that an answer of Connect stands for."""
    return Outcome("OK", "", (content,)) if status == 200 else _of_error(content, status)


def _of_error(content: bytes, status: int) -> Outcome:
    try:
        told = json.loads(content)
        return Outcome(str(told["code"]).upper().replace("CANCELED", "CANCELLED"), told.get("message", ""), ())
    except (ValueError, KeyError, TypeError):
        return Outcome("UNAVAILABLE" if status in _PASSING else "UNKNOWN", f"status {status}", ())
