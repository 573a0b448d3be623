"""RPCs over HTTP: Connect with JSON and proto, GET, streams, gRPC-Web, gRPC, pages of other origins, and callers that do it wrong."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import gzip
import http.client
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import grpc
import pytest
from google.protobuf import json_format
from google.rpc import error_details_pb2
from server_processes import ServerProcess, wait_until

from xlashape.errors import DeadlineExceededError, InvalidArgumentError, UnavailableError
from xlashape.proto import v1, xla
from xlashape_client import Client
from xlashape_server import Config, Server
from xlashape_server.auth import Credentials
from xlashape_server.callers import caller_at
from xlashape_server.guard import Guard

pytest.importorskip("connectrpc", reason="connectrpc needs Python 3.11")
pytest.importorskip("hypercorn", reason="hypercorn is not installed")

from connectrpc.errors import ConnectError

from xlashape_server.web.exchanges import Exchange

TILED = "f32[3,5]{1,0:T(2,2)}"
LINEAR = "/xlashape.v1.ShapeService/LinearIndex"
LINEAR_INDICES = "/xlashape.v1.ShapeService/LinearIndices"
BYTE_SIZE = "/xlashape.v1.ShapeService/ByteSize"
QUESTION = {"shape": {"text": TILED}, "indices": ["2", "3"]}
JSON = "application/json"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    config = Config(
        address="127.0.0.1:0",
        http="127.0.0.1:0",
        workers=1,
        http_origins="https://one.example, https://two.example",
        max_request_bytes=1 << 20,
        max_json_bytes=64 << 10,
        max_receive_seconds=1,
        max_send_seconds=1,
        keepalive_seconds=2,
        max_call_seconds=4,
        max_concurrent_calls=64,
        grace_seconds=2,
        log_level="error",
    )
    with Server(config) as running:
        yield running


class Answer:
    """What came back: status, headers in lower case, and the body."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers: dict[str, str] = {}
        for name, value in response.getheaders():
            before = self.headers.get(name.lower())
            self.headers[name.lower()] = value if before is None else f"{before}, {value}"
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[str, str]:
        return self.json["code"], self.json["message"]

    def envelopes(self) -> list[tuple[int, bytes]]:
        return list(envelopes(self.body))


def envelopes(body: bytes) -> Iterator[tuple[int, bytes]]:
    while body:
        flags, size = struct.unpack(">BI", body[:5])
        yield flags, body[5 : 5 + size]
        body = body[5 + size :]


def enveloped(*messages: bytes, flags: int = 0) -> bytes:
    return b"".join(struct.pack(">BI", flags, len(message)) + message for message in messages)


def ask(
    server: Server, path: str, body: Any = None, kind: str = JSON, *, method: str = "POST", **headers: str
) -> Answer:
    connection = http.client.HTTPConnection(server.http_address, timeout=20)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = json.dumps(body) if isinstance(body, dict) else body
        connection.request(method, path, data, ({"content-type": kind} if kind else {}) | named)
        return Answer(connection.getresponse())
    finally:
        connection.close()


def proto_question() -> v1.LinearIndexRequest:
    return v1.LinearIndexRequest(shape=v1.ShapeInput(text=TILED), indices=[2, 3])


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
        ('{"shape": {"text": 3}}', "text"),
        ('{"indices": [9223372036854775808]}', "out of range"),
        ("{", "not a xlashape.v1.LinearIndexRequest in JSON"),
        ("[]", "not a xlashape.v1.LinearIndexRequest in JSON"),
        ("17", "not a xlashape.v1.LinearIndexRequest in JSON"),
        ('{"indices":' + "[" * 20_000, "nested too deeply"),
        ('{"shape":' * 5_000, "not a xlashape.v1.LinearIndexRequest in JSON"),
        (b"\xff\xfe\x00{", "not a xlashape.v1.LinearIndexRequest in JSON"),
        (b'{"shape": {"text": "\xff"}}', "not a xlashape.v1.LinearIndexRequest in JSON"),
    ],
    ids=["unknown", "type", "range", "cut", "list", "number", "deep", "deep objects", "bytes", "not utf-8"],
)
def test_json_that_is_wrong_is_explained(server: Server, body: str | bytes, words: str) -> None:
    answer = ask(server, LINEAR, body)
    assert (answer.status, answer.error[0]) == (400, "invalid_argument")
    assert words in answer.error[1]
    assert len(answer.error[1]) < 500


def test_garbage_instead_of_a_message_is_an_invalid_argument(server: Server) -> None:
    answer = ask(server, LINEAR, b"\xff" * 100, "application/proto")
    assert (answer.status, answer.error[0]) == (400, "invalid_argument")


def test_an_empty_body_is_an_empty_message(server: Server) -> None:
    assert ask(server, BYTE_SIZE, "").json == {}
    assert ask(server, BYTE_SIZE, b"", "application/proto").body == b""


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/connect+json", "application/grpc"]
)
def test_other_content_types_are_refused(server: Server, kind: str) -> None:
    # Pages of other origins may send the first three without a preflight.
    answer = ask(server, LINEAR, json.dumps(QUESTION), kind)
    assert answer.status == 415
    assert answer.headers["accept-post"].startswith("application/json, application/proto")
    assert f"found {kind or 'none'}" in answer.error[1]


@pytest.mark.parametrize(
    "path", ["/", "/xlashape.v1.ShapeService/Nothing", "/xlashape.v1.ShapeService", "/%00", "/../etc"]
)
def test_other_paths_are_not_found(server: Server, path: str) -> None:
    answer = ask(server, path, {})
    assert (answer.status, answer.error[0]) == (404, "unimplemented")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "BREW"])
def test_other_methods_are_refused(server: Server, method: str) -> None:
    answer = ask(server, LINEAR, {}, method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, POST")


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
    """The body of a request that is refused by its headers is read all the same, or the end of the connection is told."""
    connection = http.client.HTTPConnection(server.http_address, timeout=10)
    for _ in range(5):
        connection.request(method, path, b"x" * size, {"content-type": kind})
        assert 400 <= Answer(connection.getresponse()).status < 500
        connection.request("POST", LINEAR, json.dumps(QUESTION), {"content-type": JSON})
        assert Answer(connection.getresponse()).json == {"positions": ["17"]}
    connection.close()


def test_the_end_of_a_connection_is_told_where_the_body_does_not_come(server: Server) -> None:
    host, _, port = server.http_address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
        received = b""
        while piece := connection.recv(4096):
            received += piece
    assert received.startswith(b"HTTP/1.1 404")
    assert b"connection: close" in received.lower()


# GET


def query(message: str, **more: str) -> str:
    pairs = {"connect": "v1", "encoding": "json", "message": message} | more
    return "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs.items())


def test_a_pure_question_is_asked_with_get_and_may_be_cached(server: Server) -> None:
    answer = ask(server, LINEAR + query(json.dumps(QUESTION)), method="GET", kind="")
    assert (answer.status, answer.json) == (200, {"positions": ["17"]})
    assert answer.headers["cache-control"] == "public, max-age=3600"


def test_get_takes_protobuf_in_base64(server: Server) -> None:
    data = proto_question().SerializeToString()
    plain = base64.urlsafe_b64encode(data).decode().rstrip("=")
    packed = base64.urlsafe_b64encode(gzip.compress(data)).decode()
    for text, more in ((plain, {}), (packed, {"compression": "gzip"})):
        answer = ask(server, LINEAR + query(text, encoding="proto", base64="1", **more), method="GET", kind="")
        assert list(v1.LinearIndexResponse.FromString(answer.body).positions) == [17]


def test_a_mistake_asked_with_get_is_not_cached(server: Server) -> None:
    for path in (LINEAR + query('{"shape": {"text": "f32["}}'), LINEAR, LINEAR + query("{}", encoding="xml")):
        answer = ask(server, path, method="GET", kind="")
        assert 400 <= answer.status < 500
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("kind", ["application/grpc", "application/grpc-web+json", "application/connect+proto", "x"])
def test_the_content_type_of_a_question_without_content_does_not_matter(server: Server, kind: str) -> None:
    answer = ask(server, LINEAR + query(json.dumps(QUESTION)), method="GET", kind=kind)
    assert (answer.status, answer.json) == (200, {"positions": ["17"]})


def test_get_changes_nothing(server: Server) -> None:
    for rpc in ("PutModule", "DeleteModule", "UploadModule"):
        answer = ask(server, f"/xlashape.v1.HloService/{rpc}" + query("{}"), method="GET", kind="")
        assert (answer.status, answer.headers["allow"]) == (405, "POST")


# Limits


def test_a_body_that_is_too_large_is_refused_by_name(server: Server) -> None:
    answer = ask(server, LINEAR, b"\x00" * (3 << 20), "application/proto")
    assert (answer.status, answer.error[0]) == (429, "resource_exhausted")
    assert answer.error[1] == "a request message has more than 1048576 bytes, which are allowed"
    assert "google.rpc.QuotaFailure" in [each["type"] for each in answer.json["details"]]


def test_json_that_is_too_large_is_refused_by_name(server: Server) -> None:
    answer = ask(server, LINEAR, '{"indices": [' + "1," * 40_000 + "1]}")
    assert answer.error == (
        "resource_exhausted",
        "a request message in JSON has 80016 bytes, of 65536 allowed; protobuf's own format (proto) may be larger",
    )


def test_an_answer_that_is_too_large_for_json_is_refused_by_name(server: Server) -> None:
    shapes = [v1.ShapeInput(text="f32[2]")] * 30_000
    data = v1.ByteSizeRequest(shapes=shapes).SerializeToString()
    assert ask(server, BYTE_SIZE, data, "application/proto").status == 200
    answer = ask(server, BYTE_SIZE, {"shapes": [{"text": "f32[2]"}] * 2600})
    assert answer.status == 200
    described = ask(server, "/xlashape.v1.ShapeService/DescribeShape", {"shapes": [{"text": "f32[2]"}] * 2600})
    assert described.error[0] == "resource_exhausted"
    assert "are written as JSON" in described.error[1]


def test_a_compressed_body_is_unpacked_within_the_limits(server: Server) -> None:
    small = gzip.compress(proto_question().SerializeToString())
    answer = ask(server, LINEAR, small, "application/proto", content_encoding="gzip")
    assert list(v1.LinearIndexResponse.FromString(answer.body).positions) == [17]
    in_json = ask(server, LINEAR, gzip.compress(json.dumps(QUESTION).encode()), content_encoding="gzip")
    assert in_json.json == {"positions": ["17"]}
    bomb = ask(
        server, LINEAR, gzip.compress(b"\x00" * (500 << 20), 1)[: 1 << 20], "application/proto", content_encoding="gzip"
    )
    assert bomb.error[0] == "resource_exhausted"
    cut = ask(server, LINEAR, small[:-9], "application/proto", content_encoding="gzip")
    assert cut.error == ("invalid_argument", "a compressed request message is truncated")
    wrong = ask(server, LINEAR, b"nothing", "application/proto", content_encoding="gzip")
    assert wrong.error[0] == "invalid_argument"
    assert ask(server, LINEAR, small, "application/proto", content_encoding="br").error[0] == "unimplemented"


def test_a_deadline_that_has_passed_ends_the_call(server: Server) -> None:
    answer = ask(server, LINEAR, QUESTION, connect_timeout_ms="0")
    assert (answer.status, answer.error[0]) == (504, "deadline_exceeded")
    for wrong in ("-1", "x", "12345678901", "1e3"):
        assert ask(server, LINEAR, QUESTION, connect_timeout_ms=wrong).error[0] == "invalid_argument"


def slow(server: Server, start: bytes, seconds: float = 10) -> bytes:
    """What the server sends to a caller that sends `start` and nothing more, until it ends the connection."""
    host, _, port = server.http_address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(start)
        received = b""
        while part := connection.recv(65536):
            received += part
        return received


def test_the_error_of_a_call_without_time_is_sent_while_its_body_still_comes(server: Server) -> None:
    """The watch cuts off calls whose deadline has passed; this one is refused already, and its connection is of use after that."""
    host, _, port = server.http_address.rpartition(":")
    request = proto_question().SerializeToString()
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        for _ in range(3):
            connection.sendall(head(LINEAR, "application/proto", len(request), "connect-timeout-ms: 0"))
            time.sleep(0.3)
            connection.sendall(request)
            response = http.client.HTTPResponse(connection)
            response.begin()
            assert json.loads(response.read())["code"] == "deadline_exceeded"


def test_a_body_that_does_not_come_is_waited_for_so_long(server: Server) -> None:
    head = f"POST {LINEAR} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n"
    began = time.monotonic()
    answer = slow(server, head.encode() + b'{"shape"')
    assert 0.9 < time.monotonic() - began < 5
    assert answer.startswith(b"HTTP/1.1 429")
    assert b"the request did not come within 1 seconds" in answer
    assert ask(server, LINEAR, QUESTION).status == 200


def test_what_is_no_http_ends_its_connection_only(server: Server) -> None:
    for start in (
        b"\x16\x03\x01\x00\xa5" + b"\x00" * 200,
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100,
    ):
        slow(server, start)
    assert ask(server, LINEAR, QUESTION).status == 200


def test_headers_have_a_limit(server: Server) -> None:
    with pytest.raises((http.client.HTTPException, OSError)) as caught:
        answer = ask(server, LINEAR, QUESTION, x_long="y" * 200_000)
        assert answer.status == 431
        raise http.client.HTTPException
    assert caught.value is not None
    assert ask(server, LINEAR, QUESTION).status == 200


def test_callers_that_do_not_read_are_cut_off(server: Server) -> None:
    host, _, port = server.http_address.rpartition(":")
    shape = v1.ShapeInput(text="f32[1000000]")
    first = v1.LinearIndicesRequest(shape=shape, indices=range(100_000)).SerializeToString()
    more = v1.LinearIndicesRequest(indices=range(100_000)).SerializeToString()
    body = enveloped(first, *[more] * 20)
    kind = "application/connect+proto"
    head = f"POST {LINEAR_INDICES} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect((host, int(port)))
        with pytest.raises(ConnectionError):
            connection.sendall(head.encode() + body)
            while True:
                connection.sendall(b"x")
                time.sleep(0.1)
    assert ask(server, LINEAR, QUESTION).status == 200


def test_a_caller_that_goes_away_frees_its_place(server: Server) -> None:
    """Ten times as many as there are places."""
    head = f"POST {LINEAR} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n"
    host, _, port = server.http_address.rpartition(":")
    for _ in range(640):
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(head.encode())
    wait_until(lambda: ask(server, LINEAR, QUESTION).status == 200, 10)


def test_an_error_after_a_call_was_cut_off_is_nobodys() -> None:
    """The event loop would log it as an error of the server: "Future exception was never retrieved"."""
    unexpected: list[dict[str, Any]] = []

    def fail() -> None:
        time.sleep(0.3)
        raise UnavailableError("too late for anybody")

    async def nothing(*_: object) -> Any:
        raise AssertionError("nothing is read or sent")

    async def one() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unexpected.append(context))
        with ThreadPoolExecutor(1) as threads:
            exchange = Exchange("A/B", Guard(Config()), threads, nothing, nothing, lambda: None)
            exchange.begin(caller_at("ipv4:192.0.2.7:1"), 10, None, Credentials(None), {}, "connect_rpc")
            call = exchange.check()
            call.received()
            late = DeadlineExceededError("the deadline passed")
            asyncio.get_running_loop().call_later(0.1, exchange.cut_off, call, late)
            with contextlib.suppress(ConnectError):  # its traceback would keep the future
                await exchange.work(fail)
                raise AssertionError("it was not cut off")
        await asyncio.sleep(0.1)
        del exchange, call
        gc.collect()

    asyncio.run(one())
    assert unexpected == []


# Streams


def bulk(*positions: int, shape: str | None = None) -> bytes:
    """A message of MultiIndices; the first one of a stream names the shape."""
    named = v1.ShapeInput(text=shape) if shape else None
    return v1.MultiIndicesRequest(shape=named, positions=positions).SerializeToString()


def test_a_stream_of_answers(server: Server, module: xla.HloModuleProto) -> None:
    with Client(server.address) as client:
        name = client.upload_module(module.SerializeToString()).name
        expected = [maps.instruction for maps in client.indexing_maps(name)]
    path = "/xlashape.v1.IndexingService/IndexingMaps"
    proto = v1.IndexingMapsRequest(module=v1.ModuleInput(name=name)).SerializeToString()
    answer = ask(server, path, enveloped(proto), "application/connect+proto")
    *messages, (flags, end) = answer.envelopes()
    assert answer.headers["content-type"] == "application/connect+proto"
    found = [v1.IndexingMapsResponse.FromString(data) for _, data in messages]
    assert [each.instruction for each in found] == expected
    assert (flags, json.loads(end)) == (2, {})
    in_json = ask(server, path, enveloped(json.dumps({"module": {"name": name}}).encode()), "application/connect+json")
    *messages, (flags, _) = in_json.envelopes()
    assert [json_format.Parse(data, v1.IndexingMapsResponse()) for _, data in messages] == found


def test_a_stream_ends_with_its_error(server: Server) -> None:
    path = "/xlashape.v1.IndexingService/IndexingMaps"
    answer = ask(server, path, enveloped(b'{"module": {"name": "modules/nothing"}}'), "application/connect+json")
    assert answer.status == 200
    [(flags, end)] = answer.envelopes()
    assert flags == 2
    assert json.loads(end)["error"]["code"] in ("not_found", "invalid_argument")
    assert json.loads(end)["error"]["details"][0]["debug"]


def test_a_stream_of_requests_uploads_a_module(server: Server, module: xla.HloModuleProto) -> None:
    data = module.SerializeToString()
    half = len(data) // 2
    parts = [v1.UploadModuleRequest(data=part).SerializeToString() for part in (data[:half], data[half:])]
    answer = ask(server, "/xlashape.v1.HloService/UploadModule", enveloped(*parts), "application/connect+proto")
    (_, message), (flags, end) = answer.envelopes()
    uploaded = v1.UploadModuleResponse.FromString(message).module
    assert (uploaded.module_name, flags, json.loads(end)) == ("example", 2, {})
    with Client(server.address) as client:
        assert client.get_module(uploaded.name).name == uploaded.name


def test_streams_both_ways_over_http_1_are_read_and_then_answered(server: Server) -> None:
    """Half duplex: a client of HTTP/1.1 sends everything before it reads."""
    requests = [bulk(17, 0, shape=TILED), bulk(1), bulk()]
    answer = ask(server, "/xlashape.v1.ShapeService/MultiIndices", enveloped(*requests), "application/connect+proto")
    *messages, (flags, end) = answer.envelopes()
    found = [list(v1.MultiIndicesResponse.FromString(data).indices) for _, data in messages]
    assert (found, flags, json.loads(end)) == ([[2, 3, 0, 0], [0, 1], []], 2, {})


def test_a_stream_that_is_cut_or_no_stream_is_an_invalid_argument(server: Server) -> None:
    whole = enveloped(bulk(1, shape=TILED))
    for wrong in (whole[:-1], whole[:3], b"\xff" + whole[1:], b"garbage, which is no envelope"):
        answer = ask(server, "/xlashape.v1.ShapeService/MultiIndices", wrong, "application/connect+proto")
        end = json.loads(answer.envelopes()[-1][1])
        assert end["error"]["code"] in ("invalid_argument", "resource_exhausted")


def test_a_message_of_a_stream_that_is_too_large_is_refused_by_name(server: Server) -> None:
    large = enveloped(b"\x00" * ((1 << 20) + 1))
    answer = ask(server, "/xlashape.v1.HloService/UploadModule", large, "application/connect+proto")
    error = json.loads(answer.envelopes()[-1][1])["error"]
    assert (error["code"], error["message"]) == (
        "resource_exhausted",
        "a request message has 1048577 bytes, of 1048576 allowed",
    )


# Compression of answers


SHAPES = {"shapes": [{"text": f"bf16[{size},300]{{1,0:T(8,128)(2,1)}}"} for size in range(1, 200)]}


@pytest.mark.parametrize("kind", ["application/json", "application/proto"])
def test_an_answer_of_some_size_is_compressed_where_the_caller_takes_that(server: Server, kind: str) -> None:
    body = json.dumps(SHAPES)
    if kind != JSON:
        body = json_format.Parse(body, v1.ByteSizeRequest()).SerializeToString()
    plain = ask(server, BYTE_SIZE, body, kind)
    assert "content-encoding" not in plain.headers
    for accepted in ("gzip", "deflate, gzip;q=0.5, br", "GZIP"):
        answer = ask(server, BYTE_SIZE, body, kind, accept_encoding=accepted)
        assert (answer.status, answer.headers["content-encoding"]) == (200, "gzip")
        assert answer.headers["content-length"] == str(len(answer.body))
        assert len(answer.body) < len(plain.body) / 2
        assert gzip.decompress(answer.body) == plain.body
    for refused in ("", "br", "gzip;q=0", "gzip;q=0.000, identity", "gzipped"):
        assert ask(server, BYTE_SIZE, body, kind, accept_encoding=refused).body == plain.body


def test_a_small_answer_and_an_error_are_not_compressed(server: Server) -> None:
    answer = ask(server, LINEAR, QUESTION, accept_encoding="gzip")
    assert ("content-encoding" in answer.headers, answer.json) == (False, {"positions": ["17"]})
    wrong = ask(server, BYTE_SIZE, {"shapes": [{"text": "f32[" + "1," * 2000}]}, accept_encoding="gzip")
    assert (wrong.status, wrong.error[0]) == (400, "invalid_argument")


def test_caches_are_told_that_answers_differ_by_encoding(server: Server) -> None:
    path = BYTE_SIZE + query(json.dumps(SHAPES))
    plain = ask(server, path, method="GET", kind="")
    packed = ask(server, path, method="GET", kind="", accept_encoding="gzip")
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding, Origin"
    assert gzip.decompress(packed.body) == plain.body


def test_messages_of_a_stream_are_compressed_each_by_itself(server: Server, module: xla.HloModuleProto) -> None:
    path, kind = "/xlashape.v1.IndexingService/IndexingMaps", "application/connect+proto"
    request = v1.IndexingMapsRequest(module=v1.ModuleInput(serialized=module.SerializeToString())).SerializeToString()
    *plain, (_, end) = ask(server, path, enveloped(request), kind).envelopes()
    answer = ask(server, path, enveloped(request), kind, connect_accept_encoding="br, gzip")
    assert answer.headers["connect-content-encoding"] == "gzip"
    *packed, (flags, packed_end) = answer.envelopes()
    assert {flag for flag, _ in packed} == {1}
    assert [gzip.decompress(data) for _, data in packed] == [data for _, data in plain]
    assert (flags, gzip.decompress(packed_end)) == (3, end)
    wrong = ask(server, path, enveloped(b""), kind, connect_accept_encoding="gzip")
    [(flags, end)] = wrong.envelopes()
    assert json.loads(gzip.decompress(end) if flags & 1 else end)["error"]["code"] == "invalid_argument"


def test_grpc_web_is_compressed_and_grpc_is_not(server: Server) -> None:
    request = enveloped(proto_question().SerializeToString())
    answer = ask(server, LINEAR, request, "application/grpc-web+proto", grpc_accept_encoding="gzip")
    assert answer.headers["grpc-encoding"] == "gzip"
    (flags, message), _ = answer.envelopes()
    assert flags == 1
    assert list(v1.LinearIndexResponse.FromString(gzip.decompress(message)).positions) == [17]
    plain = ask(server, LINEAR, request, "application/grpc-web+proto", grpc_accept_encoding="br")
    assert plain.envelopes()[0][0] == 0
    with grpc.insecure_channel(server.http_address) as made:  # its client accepts gzip in every call
        channel: Any = made
        call = channel.unary_unary(LINEAR)
        data, about = call.with_call(proto_question().SerializeToString(), timeout=20)
        assert list(v1.LinearIndexResponse.FromString(data).positions) == [17]
        assert dict(about.initial_metadata()).get("grpc-encoding", "identity") == "identity"


# HTTP/2, gRPC-Web and gRPC


def test_streams_both_ways_over_http_2_are_answered_message_by_message(server: Server) -> None:
    """gRPC's own client at the address of HTTP."""
    sent: list[int] = []
    with grpc.insecure_channel(server.http_address) as made:
        channel: Any = made
        call: Any = channel.stream_stream("/xlashape.v1.ShapeService/MultiIndices")

        def requests() -> Iterator[bytes]:
            for position in (17, 0, 1):
                sent.append(position)
                yield bulk(position, shape=None if len(sent) > 1 else TILED)

        answers = call(requests(), timeout=20)
        assert list(v1.MultiIndicesResponse.FromString(next(answers)).indices) == [2, 3]
        found = [list(v1.MultiIndicesResponse.FromString(data).indices) for data in answers]
        assert found == [[0, 0], [0, 1]]


def test_grpc_itself_is_answered_with_details(server: Server) -> None:
    with Client(server.http_address, timeout=20) as client:
        assert client.linear_index(TILED, (2, 3)) == 17
        with pytest.raises(InvalidArgumentError, match="index 9 is outside dimension 1") as caught:
            client.linear_index(TILED, (2, 9))
        assert caught.value.field == "indices[1]"


def test_grpc_web_is_answered(server: Server) -> None:
    answer = ask(server, LINEAR, enveloped(proto_question().SerializeToString()), "application/grpc-web+proto")
    (flags, message), (end_flags, trailers) = answer.envelopes()
    assert (answer.status, answer.headers["content-type"]) == (200, "application/grpc-web+proto")
    assert (flags, list(v1.LinearIndexResponse.FromString(message).positions)) == (0, [17])
    assert (end_flags, b"grpc-status: 0" in trailers.lower().replace(b"status:0", b"status: 0")) == (128, True)


def test_grpc_web_has_details_of_errors(server: Server) -> None:
    asked = v1.LinearIndexRequest(shape=v1.ShapeInput(text=TILED), indices=[2, 9]).SerializeToString()
    answer = ask(server, LINEAR, enveloped(asked), "application/grpc-web")
    told = answer.headers | dict(
        line.split(": ", 1) if ": " in line else line.split(":", 1)
        for _, data in answer.envelopes()
        for line in data.decode().lower().strip().splitlines()
    )
    assert told["grpc-status"] == "3"
    assert "grpc-status-details-bin" in told


# Pages of other origins


def preflight(server: Server, origin: str) -> Answer:
    wanted = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    connection = http.client.HTTPConnection(server.http_address, timeout=20)
    connection.request("OPTIONS", LINEAR, headers={"origin": origin} | wanted)
    answer = Answer(connection.getresponse())
    connection.close()
    return answer


def test_pages_of_allowed_origins_may_ask(server: Server) -> None:
    answer = preflight(server, "https://two.example")
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == "https://two.example"
    assert answer.headers["access-control-allow-methods"] == "GET, POST"
    for header in ("content-type", "authorization", "connect-protocol-version", "connect-timeout-ms", "x-grpc-web"):
        assert header in answer.headers["access-control-allow-headers"]
    asked = ask(server, LINEAR, QUESTION, origin="https://two.example")
    assert asked.headers["access-control-allow-origin"] == "https://two.example"
    assert asked.headers["vary"] == "Accept-Encoding, Origin"
    assert "grpc-status" in asked.headers["access-control-expose-headers"]


def test_pages_of_other_origins_may_not_ask(server: Server) -> None:
    for origin in ("https://evil.example", "https://two.example.evil.example", "null", "http://two.example"):
        answer = preflight(server, origin)
        assert "access-control-allow-origin" not in answer.headers
        assert "access-control-allow-methods" not in answer.headers
        assert "access-control-allow-origin" not in ask(server, LINEAR, QUESTION, origin=origin).headers


def test_an_error_can_be_read_by_an_allowed_page(server: Server) -> None:
    answer = ask(server, LINEAR, {"indices": ["1"]}, origin="https://one.example")
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (400, "https://one.example")


# Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"http": "nowhere"}, "http: expected HOST:PORT, found 'nowhere'"),
        (
            {"http_origins": "https://a.example, b.example"},
            "http_origins: expected origins such as .*, found 'b.example'",
        ),
        ({"http_origins": "https://a.example/page"}, "http_origins: expected origins"),
    ],
)
def test_settings_that_are_wrong_are_named(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Config(**settings)  # type: ignore[arg-type]


def test_an_address_of_http_that_all_machines_reach_is_warned_about() -> None:
    assert Config(address="127.0.0.1:0", http="0.0.0.0:8080").exposures()
    assert not Config(address="127.0.0.1:0", http="127.0.0.1:8080").exposures()


def test_http_speaks_tls_with_the_certificate_of_the_server(tls_pair: tuple[str, str]) -> None:
    certificate, key = tls_pair
    config = Config(
        address="127.0.0.1:0",
        http="127.0.0.1:0",
        workers=1,
        tls_certificate=certificate,
        tls_key=key,
        log_level="error",
    )
    with Server(config) as running:
        context = ssl.create_default_context(cafile=certificate)
        context.check_hostname = False
        host, _, port = running.http_address.rpartition(":")
        for protocol in ("http/1.1", "h2"):
            context.set_alpn_protocols([protocol])
            plain = socket.create_connection((host, int(port)), timeout=20)
            with context.wrap_socket(plain) as secured:
                assert secured.selected_alpn_protocol() == protocol
        context.set_alpn_protocols(["http/1.1"])
        connection = http.client.HTTPSConnection(running.http_address, context=context, timeout=20)
        connection.request("POST", LINEAR, json.dumps(QUESTION), {"content-type": JSON})
        assert Answer(connection.getresponse()).json == {"positions": ["17"]}
        connection.close()


def test_connections_that_end_badly_are_no_errors_of_the_server(tls_pair: tuple[str, str]) -> None:
    """A caller over TLS that goes on sending after it was told that the connection ends, and one that reads nothing and is cut off."""
    certificate, key = tls_pair
    config = Config(
        address="127.0.0.1:0",
        http="127.0.0.1:0",
        workers=1,
        tls_certificate=certificate,
        tls_key=key,
        max_send_seconds=1,
        log_level="info",
    )
    positions = v1.MultiIndexRequest(shape=v1.ShapeInput(text="f32[64,64]"), positions=[1] * 1_000_000)
    content = positions.SerializeToString()
    with ServerProcess(config) as running:
        host, _, port = running.event["http"].rpartition(":")
        context = ssl.create_default_context(cafile=certificate)
        context.check_hostname = False

        def connect(receive_bytes: int = 1 << 16) -> ssl.SSLSocket:
            plain = socket.socket()
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            plain.settimeout(20)
            plain.connect((host, int(port)))
            return context.wrap_socket(plain)

        for _ in range(5):
            with connect() as connection, contextlib.suppress(OSError):
                connection.sendall(head(BYTE_SIZE, "application/proto", 0, "connection: close"))
                while True:
                    connection.sendall(b"x" * 5000)
        with connect(1 << 12) as connection:
            connection.sendall(head("/xlashape.v1.ShapeService/MultiIndex", "application/proto", len(content)))
            connection.sendall(content)
            wait_until(lambda: bool(running.logged("cut off")), 30)
        with connect() as connection:
            connection.sendall(head(BYTE_SIZE, "application/proto", 0))
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert running.stop() == 0
        errors = [line for line in running.lines() if line["level"] == "error"]
        assert errors == [], errors


def head(path: str, kind: str, size: int, *more: str) -> bytes:
    """The first line and the headers of a request."""
    lines = (f"POST {path} HTTP/1.1", "host: here", f"content-type: {kind}", f"content-length: {size}", *more)
    return "\r\n".join((*lines, "", "")).encode()


def test_calls_under_way_are_answered_when_the_server_stops() -> None:
    config = Config(address="127.0.0.1:0", http="127.0.0.1:0", workers=1, grace_seconds=20, log_level="error")
    with Server(config) as running:
        body = json.dumps(QUESTION).encode()
        connection = http.client.HTTPConnection(running.http_address, timeout=20)
        connection.putrequest("POST", LINEAR)
        connection.putheader("content-type", JSON)
        connection.putheader("content-length", str(len(body)))
        connection.endheaders()
        time.sleep(0.3)
        stopping = threading.Thread(target=running.stop)
        stopping.start()
        time.sleep(0.5)
        connection.send(body)
        assert Answer(connection.getresponse()).json == {"positions": ["17"]}
        connection.close()
        stopping.join(20)
        assert not stopping.is_alive()
