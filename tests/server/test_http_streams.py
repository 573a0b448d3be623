"""Streams over HTTP/1.1 and HTTP/2, compressed answers, gRPC-Web and gRPC."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from http_calls import BYTE_SIZE, JSON, LINEAR, QUESTION, TILED, ask, enveloped, http_server, proto_question, query

from xlashape.errors import InvalidArgumentError
from xlashape.proto import v1, xla
from xlashape_client import Client
from xlashape_server import Server

pytest.importorskip("connectrpc", reason="connectrpc needs Python 3.11")
pytest.importorskip("hypercorn", reason="hypercorn is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with http_server() as running:
        yield running


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
    for wrong in (whole[:-1], whole[:3], b"\xff" + whole[1:], b"garbage, which is not an envelope"):
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
