"""The cases of ../cases/*.jsonl, one JSON object a line.

    name        unique, `file/what/which`
    call        {"rpc": "ShapeService/ByteSize", "requests": [MESSAGE, …], "timeout_ms", "keep_open", "stop_after", "cancel_after_ms"}, as Call in
                testee.proto, and "token": "right" or "wrong"
    evaluation  {"map": TEXT, "form": "message" or "text", "points": [[…], …], "batch": true}
                or {"map": {…}}, a map as a message in JSON, for maps that text cannot express
    upload      {"content": "$attention"}, with "read_bytes" and "reader_fails" as Upload in testee.proto
    pages       {"rpc": …, "request": MESSAGE}
    bulk        {"rpc": …, "request": MESSAGE, "numbers": {"count": 1000000, "modulus": 4096}}: the numbers are
                i * 7919 mod modulus, or, with "moduli", rows of numbers, number j of row i being i * 7919 mod
                moduli[j]; with {"are": […]} in place of "count" they are these
    server      "none": nobody listens at the address that the testee connects to; "tls": the server uses TLS; "unix": it listens at a unix
                socket; "mtls/known", "mtls/stranger", "mtls/no_certificate": it asks for certificates, and the client
                has one of its authority, one of another, or none; "token/right", "token/wrong", "token/none",
                "token/changes": it asks for a token; "dead_and_alive", "two": two servers, of which the first does not
                listen, or each of which gets a part of the calls; "tls_names": two servers of other names, of which the
                first does not listen; "tls_two": two servers of other names, each of which gets a part of the calls;
                "unavailable_twice": it is unavailable for two calls of three; "answers_lost": it acts on the first call
                of each RPC, and is then unavailable; "slow": it answers after a minute; "silent": it accepts
                connections, and says nothing; "refusing": it closes each connection at once; "silent_and_alive",
                "refusing_and_alive": the ordinary server is the second one. Default: the ordinary server
    stored      names of modules that the server has before the case; the server has no others
    answers     the messages that come back; `digest` instead of it for long ones: the SHA-256 of `protocol.delimited` of them
    results     of an evaluation: for each point the values, or null outside the domain
    sent        of an upload: whether the content is sent
    progress    of an upload from a reader: the bytes of the whole, which the last call of progress tells
    failed      true if the error of the reader is what comes back
    error       the parts of the error that are compared: code (its name), reason, field, line, column, message, details
    within_ms   how long the testee may take: far more than a client needs, and far less than it would wait in vain
    ignore      fields of the answers that change from run to run

A MESSAGE is protobuf's JSON. In it, "$attention" in a field of bytes stands for the content of a module, and
"$name:attention" for its name.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from suite import modules
from suite.protocol import delimited, testee
from xlashape.proto import message_class, service, v1
from xlashape.symbolic import IndexingMap

__all__ = ["TOKENS", "Case", "load", "message_of", "method_of", "response_class_of"]

_TOKEN = "xlashape-conformance-token-of-one-caller"
TOKENS = {"right": _TOKEN, "wrong": _TOKEN[::-1], "none": ""}
"""The tokens of cases: the one that the server of "token/…" knows, and others."""

_FOLDER = Path(__file__).resolve().parents[1] / "cases"
_PART_BYTES = 1 << 20  # the most of a module that a client sends in one message of a stream
_ITEMS = {"HloService/ListInstructions": v1.Instruction, "ReportService/Size": v1.SizeRow}
_UNARY = {
    "ShapeService/LinearIndices": v1.LinearIndexResponse,
    "ShapeService/MultiIndices": v1.MultiIndexResponse,
    "IndexingService/EvaluateMapBatch": v1.EvaluateMapResponse,
}


class Case(NamedTuple):
    """One line of a file of cases."""

    name: str
    data: dict[str, Any]

    @property
    def kind(self) -> str:
        """The kind of the case: "call", "evaluation", "upload", "pages" or "bulk"."""
        return next(kind for kind in ("call", "evaluation", "upload", "pages", "bulk") if kind in self.data)

    @property
    def needs_grpc(self) -> bool:
        """Whether only gRPC does it: the RPC has a stream, or the server is one that only speaks gRPC."""
        server = self.data.get("server", "").partition("/")[0]
        if server not in ("", "none", "silent", "refusing", "refusing_and_alive", "dead_and_alive", "token"):
            return True
        return self.kind == "call" and method_of(self.data["call"]["rpc"]).client_streaming

    def request(self) -> Any:
        """The Request for the testee."""
        made = testee.Request(name=self.name)
        getattr(self, f"_{self.kind}")(self.data[self.kind], getattr(made, self.kind))
        return made

    def _call(self, given: dict[str, Any], call: Any) -> None:
        method = method_of(given["rpc"])
        kind = message_class(method.input_type.full_name)
        call.rpc = given["rpc"]
        call.requests.extend(message_of(kind, request).SerializeToString() for request in given["requests"])
        for name in ("timeout_ms", "keep_open", "stop_after", "cancel_after_ms"):
            if name in given:
                setattr(call, name, given[name])
        if "token" in given:
            call.token = TOKENS[given["token"]]

    def _evaluation(self, given: dict[str, Any], evaluation: Any) -> None:
        if not isinstance(given["map"], str):
            evaluation.message = json_format.ParseDict(given["map"], v1.IndexingMap()).SerializeToString()
        elif given.get("form") == "text":
            evaluation.text = given["map"]
        else:
            evaluation.message = IndexingMap.parse(given["map"]).to_proto().SerializeToString()
        evaluation.count = len(given["points"])
        evaluation.points.extend(number for point in given["points"] for number in point)
        evaluation.batch = given["batch"]

    def _upload(self, given: dict[str, Any], upload: Any) -> None:
        upload.content = modules.content(given["content"][1:])
        upload.read_bytes = given.get("read_bytes", 0)
        upload.reader_fails = given.get("reader_fails", False)

    def _pages(self, given: dict[str, Any], pages: Any) -> None:
        kind = message_class(method_of(given["rpc"]).input_type.full_name)
        pages.rpc = given["rpc"]
        pages.request = message_of(kind, given["request"]).SerializeToString()

    def _bulk(self, given: dict[str, Any], bulk: Any) -> None:
        kind = message_class(method_of(given["rpc"]).input_type.full_name)
        bulk.rpc = given["rpc"]
        bulk.request = message_of(kind, given["request"]).SerializeToString()
        bulk.numbers.extend(numbers_of(given["numbers"]).tolist())

    def problems(self, response: Any, transport: str) -> list[str]:
        """What is wrong with a response of the testee: nothing if the response is right."""
        if response.failure:
            return [f"the testee failed: {response.failure}"]
        if response.unsupported:
            return [f"unsupported: {response.unsupported}"]
        found = [*self._wrong_error(response), *self._wrong_reading(response, transport)]
        if "failed" in self.data:
            return found
        # A stream may have answers before its error; without an error, all answers must be there.
        if "error" not in self.data and not found:
            found += self._wrong_answers(response)
        if "sent" in self.data and response.sent != self.data["sent"] and not found:
            found.append(f"the content was {'' if response.sent else 'not '}sent")
        return found

    def _wrong_error(self, response: Any) -> Iterator[str]:
        expected = self.data.get("error")
        if expected is None:
            if response.HasField("error"):
                yield f"expected an answer, found the error {_text(response.error)}"
            return
        if not response.HasField("error"):
            yield f"expected the error {expected['code']}, found an answer"
            return
        for name, value in expected.items():
            found = getattr(response.error, name)
            if name == "code":
                found = _code_name(found)
            elif name == "details":
                found = dict(found)
            if found != value:
                yield f"error.{name}: expected {value!r}, found {found!r}"

    def _wrong_reading(self, response: Any, transport: str) -> Iterator[str]:
        if response.reader_failed != self.data.get("failed", False):
            yield f"the error of the reader came {'' if response.reader_failed else 'not '}back"
        if "progress" in self.data and not response.HasField("error"):
            told, size = list(response.progress), self.data["progress"]
            least = -(-size // _PART_BYTES) if transport == "grpc" else 1  # Connect sends one message
            if told != sorted(set(told)) or told[-1:] != [size] or len(told) < least:
                yield f"expected progress in at least {least} steps to {size}, found {told}"

    def _wrong_answers(self, response: Any) -> Iterator[str]:
        kind = response_class_of(self)
        answers: list[Any] = []
        for data in response.answers:
            try:
                answers.append(kind.FromString(data))
            except DecodeError:
                yield f"an answer is not a {kind.DESCRIPTOR.full_name}: {data[:40]!r}"
                return
            for path in self.data.get("ignore", ()):
                _clear(answers[-1], path.split("."))
        if "digest" in self.data:
            if hashlib.sha256(delimited(answers)).hexdigest() != self.data["digest"]:
                yield f"{len(answers)} answers of {sum(map(len, response.answers))} bytes differ from what is expected"
            return
        expected = self.expected()
        if len(answers) != len(expected):
            yield f"expected {len(expected)} answers, found {len(answers)}"
        for i, (found, wanted) in enumerate(zip(answers, expected, strict=False)):
            if found.SerializeToString(deterministic=True) != wanted.SerializeToString(deterministic=True):
                yield f"answer {i}: expected {_text(wanted)}, found {_text(found)}"

    def expected(self) -> list[Any]:
        """The answers as messages."""
        kind = response_class_of(self)
        if "results" in self.data:
            results = self.data["results"]
            width = self.data["width"]
            rows = [value for row in results for value in (row if row is not None else [0] * width)]
            return [kind(results=rows, in_domain=[row is not None for row in results])]
        return [message_of(kind, answer) for answer in self.data["answers"]]


def load(pattern: str = "") -> Iterator[Case]:
    """All cases whose names contain `pattern`, in the order of files and lines."""
    for path in sorted(_FOLDER.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            data = json.loads(line)
            if pattern in data["name"]:
                yield Case(data["name"], data)


def method_of(rpc: str) -> Any:
    """The descriptor of an RPC: "ShapeService/ByteSize"."""
    name, _, method = rpc.partition("/")
    return service(f"xlashape.v1.{name}").methods_by_name[method]


def response_class_of(case: Case) -> Any:
    """The class of a case's answers."""
    if case.kind == "evaluation":
        return v1.EvaluateMapResponse
    if case.kind == "upload":
        return v1.Module
    rpc = case.data[case.kind]["rpc"]
    if case.kind == "pages":
        return _ITEMS[rpc]
    if case.kind == "bulk":
        return _UNARY[rpc]
    return message_class(method_of(rpc).output_type.full_name)


def message_of(kind: Any, value: Any) -> Any:
    """The message of a case's JSON."""
    return json_format.ParseDict(_filled(value), kind())


def numbers_of(given: dict[str, Any]) -> Any:
    """The numbers of a bulk call."""
    if "are" in given:
        return np.array(given["are"], np.int64)
    if "moduli" in given:
        steps = np.arange(given["count"], dtype=np.int64) * 7919
        return np.stack([steps % modulus for modulus in given["moduli"]], axis=1).ravel()
    return np.arange(given["count"], dtype=np.int64) * 7919 % given["modulus"]


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _filled(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part) for part in value]
    if isinstance(value, str) and value.startswith("$name:"):
        return modules.resource_name(value[len("$name:") :])
    if isinstance(value, str) and value.startswith("$"):
        return base64.b64encode(modules.content(value[1:])).decode()
    return value


def _clear(message: Any, path: list[str]) -> None:
    for name in path[:-1]:
        message = getattr(message, name)
    message.ClearField(path[-1])


def _code_name(number: int) -> str:
    return next((code.name for code in grpc.StatusCode if code.value[0] == number), str(number))


def _text(message: Any) -> str:
    text = " ".join(str(message).split())
    return f"{{{text}}}" if len(text) < 600 else f"{{{text[:600]}…}}"
