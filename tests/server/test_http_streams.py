"""Streams of answers over HTTP/1.1, compressed answers, and gRPC-Web."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest
from google.protobuf import json_format
from http_calls import BYTE_SIZE, JSON, LINEAR, QUESTION, TILED, ask, enveloped, http_server, proto_question, query

from xlashape.proto import v1, xla
from xlashape_client import Client
from xlashape_server import Config, Server
from xlashape_server.callers import caller_at
from xlashape_server.guard import Guard

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from xlashape_server.web.exchanges import Exchange
from xlashape_server.web.forms import Form

MAPS = "/xlashape.v1.IndexingService/IndexingMaps"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with http_server() as running:
        yield running


def test_a_stream_of_answers(server: Server, module: xla.HloModuleProto) -> None:
    with Client(server.address) as client:
        name = client.upload_module(module.SerializeToString()).name
        expected = [maps.instruction for maps in client.indexing_maps(name)]
    path = MAPS
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


def test_steps_of_a_stream_run_in_one_context_in_whichever_thread() -> None:
    """A budget may begin in one step of a stream and end in another step."""
    threads: set[int] = set()
    budget: ContextVar[int] = ContextVar("budget")

    def handler(data: bytes, deadline: float) -> Iterator[bytes]:
        del data, deadline
        for number in range(20):
            token = budget.set(number)
            threads.add(threading.get_ident())
            yield b"%d" % budget.get()
            budget.reset(token)

    async def answered() -> list[bytes]:
        sent: list[bytes] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": bool(await asyncio.sleep(60, True))}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message.get("body", b""))
            for _ in range(4):  # so that the next step runs in another thread
                pool.submit(time.sleep, 0.001)

        guard = Guard(Config())
        exchange = Exchange("A/B", guard, pool, Form("application/connect+proto"), [], receive, send, lambda: None)

        async def answer() -> None:
            caller = caller_at("ipv4:192.0.2.7:1")
            exchange.begin(guard.begin("A/B", lambda: caller, None, exchange.cut_off), None)
            await exchange.answer_many(handler, b"", None, bytes)

        await exchange.run(answer, "")
        return sent

    with ThreadPoolExecutor(4) as pool:
        found = asyncio.run(answered())
    assert found[1:] == [*(b"%d" % number for number in range(20)), Form.envelope(b"{}", 2)]
    assert len(threads) > 1


def test_a_stream_ends_with_its_error(server: Server) -> None:
    path = MAPS
    answer = ask(server, path, enveloped(b'{"module": {"name": "modules/nothing"}}'), "application/connect+json")
    assert answer.status == 200
    [(flags, end)] = answer.envelopes()
    assert flags == 2
    assert json.loads(end)["error"]["code"] in ("not_found", "invalid_argument")
    assert json.loads(end)["error"]["details"][0]["debug"]


def test_a_stream_that_is_cut_or_no_stream_is_an_invalid_argument(server: Server) -> None:
    whole = enveloped(v1.IndexingMapsRequest(module=v1.ModuleInput(name="modules/x")).SerializeToString())
    for wrong in (
        b"",
        whole[:-1],
        whole[:3],
        whole * 2,
        b"\x01" + whole[1:],
        b"\xff" + whole[1:],
        b"garbage, no envelope",
    ):
        answer = ask(server, MAPS, wrong, "application/connect+proto")
        end = json.loads(answer.envelopes()[-1][1])
        assert end["error"]["code"] == "invalid_argument"
        trailers = ask(server, MAPS, wrong, "application/grpc-web").envelopes()[-1]
        assert (trailers[0], b"grpc-status: 3\r\n" in trailers[1]) == (128, True)


def test_a_message_of_a_stream_that_is_too_large_is_refused_by_name(server: Server) -> None:
    large = enveloped(b"\x00" * ((1 << 20) + 1))
    answer = ask(server, MAPS, large, "application/connect+proto")
    error = json.loads(answer.envelopes()[-1][1])["error"]
    assert (error["code"], error["message"]) == (
        "resource_exhausted",
        "a request message has more than 1048576 bytes, which are allowed",
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
    path, kind = MAPS, "application/connect+proto"
    request = v1.IndexingMapsRequest(module=v1.ModuleInput(serialized=module.SerializeToString())).SerializeToString()
    *plain, (_, end) = ask(server, path, enveloped(request), kind).envelopes()
    answer = ask(server, path, enveloped(request), kind, connect_accept_encoding="br, gzip")
    assert answer.headers["connect-content-encoding"] == "gzip"
    *packed, (flags, packed_end) = answer.envelopes()
    assert [flag for flag, _ in packed] == [int(len(data) >= 1024) for _, data in plain]
    assert [gzip.decompress(data) if flag else data for flag, data in packed] == [data for _, data in plain]
    assert (flags, packed_end) == (2, end)
    wrong = ask(server, path, enveloped(b""), kind, connect_accept_encoding="gzip")
    [(flags, end)] = wrong.envelopes()
    assert (flags, json.loads(end)["error"]["code"]) == (2, "invalid_argument")


# gRPC-Web


def test_grpc_web_is_answered(server: Server) -> None:
    answer = ask(server, LINEAR, enveloped(proto_question().SerializeToString()), "application/grpc-web+proto")
    (flags, message), (end_flags, trailers) = answer.envelopes()
    assert (answer.status, answer.headers["content-type"]) == (200, "application/grpc-web+proto")
    assert (flags, list(v1.LinearIndexResponse.FromString(message).positions)) == (0, [17])
    assert (end_flags, b"grpc-status: 0" in trailers.lower().replace(b"status:0", b"status: 0")) == (128, True)


def test_grpc_web_is_compressed_where_the_caller_takes_that(server: Server) -> None:
    request = enveloped(json_format.Parse(json.dumps(SHAPES), v1.ByteSizeRequest()).SerializeToString())
    plain = ask(server, BYTE_SIZE, request, "application/grpc-web+proto", grpc_accept_encoding="br")
    answer = ask(server, BYTE_SIZE, request, "application/grpc-web+proto", grpc_accept_encoding="gzip")
    assert answer.headers["grpc-encoding"] == "gzip"
    (flags, message), end = answer.envelopes()
    assert [(0, gzip.decompress(message)), end] == plain.envelopes()
    assert flags == 1
    sent = b"\x01" + enveloped(gzip.compress(request[5:]))[1:]
    packed = ask(server, BYTE_SIZE, sent, "application/grpc-web+proto", grpc_encoding="gzip")
    assert packed.envelopes() == plain.envelopes()


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
