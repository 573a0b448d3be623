"""RPCs over HTTP: Connect with JSON and proto, settings, and wrong requests."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from google.rpc import error_details_pb2
from http_calls import (
    BYTE_SIZE,
    JSON,
    LINEAR,
    LINEAR_INDICES,
    QUESTION,
    TILED,
    UPLOAD,
    Answer,
    ask,
    http_server,
    proto_question,
)

from xlashape.errors import InvalidArgumentError
from xlashape.proto import v1, xla
from xlashape_client import Client
from xlashape_server import Config, Server

pytest.importorskip("uvicorn", reason="uvicorn is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with http_server() as running:
        yield running


# Connect, one message


def test_json_is_asked_and_answered(server: Server) -> None:
    answer = ask(server, LINEAR, QUESTION)
    assert (answer.status, answer.headers["content-type"], answer.json) == (200, JSON, {"positions": ["17"]})
    assert answer.headers["content-length"] == str(len(answer.body))


def test_a_charset_is_allowed(server: Server) -> None:
    assert ask(server, LINEAR, QUESTION, "application/json; charset=utf-8").status == 200


def test_protobufs_own_format_is_asked_and_answered(server: Server) -> None:
    answer = ask(server, LINEAR, proto_question().SerializeToString(), "application/proto")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/proto")
    assert list(v1.LinearIndexResponse.FromString(answer.body).positions) == [17]


def test_http_answers_what_grpc_answers(server: Server, module: xla.HloModuleProto) -> None:
    with Client(server.address) as client:
        name = client.upload_module(module.SerializeToString()).name
    asked = v1.ListInstructionsRequest(module=v1.ModuleInput(name=name))
    with grpc.insecure_channel(server.address) as made:
        channel: Any = made
        call: Any = channel.unary_unary("/xlashape.v1.HloService/ListInstructions")
        expected = call(asked.SerializeToString())
    path = "/xlashape.v1.HloService/ListInstructions"
    assert ask(server, path, asked.SerializeToString(), "application/proto").body == expected
    in_json = ask(server, path, json_format.MessageToJson(asked))
    assert json_format.Parse(in_json.body, v1.ListInstructionsResponse()) == v1.ListInstructionsResponse.FromString(
        expected
    )


def test_a_mistake_has_details_that_any_client_of_connect_reads(server: Server) -> None:
    answer = ask(server, LINEAR, {"shape": {"text": TILED}, "indices": ["2", "9"]})
    assert answer.status == 400
    assert answer.error == (
        "invalid_argument",
        "indices[1]: index 9 is outside dimension 1 of f32[3,5]{1,0:T(2,2)}, which has size 5",
    )
    details = {each["type"]: base64.b64decode(each["value"] + "==") for each in answer.json["details"]}
    info = error_details_pb2.ErrorInfo.FromString(details["google.rpc.ErrorInfo"])
    assert (info.reason, info.domain, info.metadata["field"]) == ("INVALID_INDEX", "xlashape", "indices[1]")
    bad = error_details_pb2.BadRequest.FromString(details["google.rpc.BadRequest"])
    assert bad.field_violations[0].field == "indices[1]"


def test_details_say_what_they_hold_to_people(server: Server) -> None:
    answer = ask(server, LINEAR, {"shape": {"text": TILED}, "indices": ["2", "9"]})
    for detail in answer.json["details"]:
        kind = {
            "google.rpc.ErrorInfo": error_details_pb2.ErrorInfo,
            "google.rpc.BadRequest": error_details_pb2.BadRequest,
        }
        message = kind[detail["type"]].FromString(base64.b64decode(detail["value"] + "=="))
        assert json_format.ParseDict(detail["debug"], kind[detail["type"]]()) == message
    shown = {each["type"]: each["debug"] for each in answer.json["details"]}
    assert shown["google.rpc.ErrorInfo"]["reason"] == "INVALID_INDEX"
    assert shown["google.rpc.ErrorInfo"]["metadata"]["field"] == "indices[1]"
    assert shown["google.rpc.BadRequest"]["fieldViolations"][0]["field"] == "indices[1]"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"shap": {}}', 'no field named "shap"'),
        ('{"shape": {"text": 3}}', "in JSON: Failed to parse"),
        ('{"shape": 5}', "in JSON: Failed to parse"),
        (
            '{"shape": {"shape": {"elementType": []}}}',
            "in JSON: Failed to parse",
        ),
        ('{"indices": "2"}', "in JSON: Failed to parse indices field: repeated field"),
        ('{"indices": ["2", "x"]}', "in JSON: "),
        ('{"indices": [null]}', "in JSON: Failed to parse indices field: null is not allowed"),
        ('{"indices": [9223372036854775808]}', "out of range"),
        ("{", "not a xlashape.v1.LinearIndexRequest in JSON"),
        ("[]", "not a xlashape.v1.LinearIndexRequest in JSON"),
        ("17", "not a xlashape.v1.LinearIndexRequest in JSON"),
        ('{"indices":' + "[" * 20_000, "maximum recursion depth exceeded"),
        ('{"shape":' * 5_000, "not a xlashape.v1.LinearIndexRequest in JSON"),
        (b"\xff\xfe\x00{", "not a xlashape.v1.LinearIndexRequest in JSON"),
        (b'{"shape": {"text": "\xff"}}', "not a xlashape.v1.LinearIndexRequest in JSON"),
        (r'{"shape": {"\ud800": 1}}', "not a xlashape.v1.LinearIndexRequest in JSON"),
        (r'{"shape": {"text": "\ud800"}}', "Unpaired surrogate"),
    ],
    ids=[
        "unknown",
        "text",
        "object",
        "enum",
        "no list",
        "no number",
        "null",
        "range",
        "cut",
        "list",
        "number",
        "deep",
        "deep objects",
        "bytes",
        "not utf-8",
        "half of a pair as a name",
        "half of a pair as text",
    ],
)
def test_json_that_is_wrong_is_explained(server: Server, body: str | bytes, words: str) -> None:
    answer = ask(server, LINEAR, body)
    assert (answer.status, answer.error[0]) == (400, "invalid_argument")
    assert words in answer.error[1]
    assert len(answer.error[1]) < 500


def test_garbage_instead_of_a_message_is_an_invalid_argument(server: Server) -> None:
    answer = ask(server, LINEAR, b"\xff" * 100, "application/proto")
    assert (answer.status, answer.error[0]) == (400, "invalid_argument")


def test_a_module_in_json_is_stored_and_deleted(server: Server) -> None:
    text = "HloModule m\n\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n"
    put = ask(server, "/xlashape.v1.HloService/PutModule", {"data": base64.b64encode(text.encode()).decode()})
    assert (put.status, put.json["module"]["moduleName"]) == (200, "m")
    deleted = ask(server, "/xlashape.v1.HloService/DeleteModule", {"name": put.json["module"]["name"]})
    assert (deleted.status, deleted.json) == (200, {})


def test_an_empty_body_is_an_empty_message(server: Server) -> None:
    assert ask(server, BYTE_SIZE, "").json == {}
    assert ask(server, BYTE_SIZE, b"", "application/proto").body == b""


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/connect+json",
        "application/grpc",
        "application/grpc-web",
    ],
)
def test_other_content_types_are_refused(server: Server, kind: str) -> None:
    # Pages of other origins may send the first three without a preflight.
    answer = ask(server, LINEAR, json.dumps(QUESTION), kind)
    assert answer.status == 415
    assert answer.headers["accept-post"] == "application/json, application/proto"
    assert f"found {kind or 'none'}" in answer.error[1]


@pytest.mark.parametrize(
    "path",
    [
        LINEAR_INDICES,
        UPLOAD,
        "/nothing",
        "/xlashape.v1.ShapeService/Nothing",
        "/xlashape.v1.ShapeService",
        "/%00",
        "/../etc",
    ],
)
def test_other_paths_are_not_found(server: Server, path: str) -> None:
    answer = ask(server, path, {})
    assert (answer.status, answer.error[0]) == (404, "unimplemented")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "BREW"])
def test_other_methods_are_refused(server: Server, method: str) -> None:
    answer = ask(server, LINEAR, {}, method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("path", "method", "kind"),
    [
        (LINEAR, "POST", "text/plain"),
        ("/nothing", "POST", JSON),
        (LINEAR, "PUT", JSON),
        (LINEAR, "POST", "application/grpc"),
    ],
)
@pytest.mark.parametrize("size", [50, 100_000])
def test_a_connection_is_of_use_after_a_refusal(server: Server, path: str, method: str, kind: str, size: int) -> None:
    """A request may be refused because of its headers. Its body is then still read, or the answer says that the
    connection closes."""
    connection = http.client.HTTPConnection(server.http_address, timeout=10)
    for _ in range(5):
        connection.request(method, path, b"x" * size, {"content-type": kind})
        assert 400 <= Answer(connection.getresponse()).status < 500
        connection.request("POST", LINEAR, json.dumps(QUESTION), {"content-type": JSON})
        assert Answer(connection.getresponse()).json == {"positions": ["17"]}
    connection.close()


# Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"http": "nowhere"}, "http: expected HOST:PORT, found 'nowhere'"),
    ],
)
def test_settings_that_are_wrong_are_named(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Config(**settings)  # type: ignore[arg-type]


def test_the_page_is_at_the_root(server: Server) -> None:
    for verb in ("GET", "HEAD"):
        connection = http.client.HTTPConnection(server.http_address, timeout=10)
        connection.request(verb, "/", headers={"accept-encoding": "identity"})
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["content-security-policy"].startswith("default-src 'self';")
        assert int(answer.headers["content-length"]) > 100
        assert content.startswith(b"<!doctype html>" if verb == "GET" else b"")
        assert len(content) == (int(answer.headers["content-length"]) if verb == "GET" else 0)
        connection.request("GET", "/", headers={"if-none-match": answer.headers["etag"]})
        again = connection.getresponse()
        assert (again.status, again.read()) == (304, b"")
        connection.close()


def test_pages_of_other_origins_get_no_permission(server: Server) -> None:
    asked = ask(server, LINEAR, QUESTION, origin="https://evil.example")
    assert not [name for name in asked.headers if name.startswith("access-control")]
