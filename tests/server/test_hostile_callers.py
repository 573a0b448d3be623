"""Callers that do not read, do not send, or ask for everything at once: the others are answered, and the hostile one is cut off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.http2_caller import Http2Caller
from xlashape.proto import v1
from xlashape_client import Client
from xlashape_server import Config, Server

SHAPE = "f32[3,5]{1,0:T(2,2)}"


@pytest.fixture(scope="module")
def patient() -> Iterator[Server]:
    """A server that waits two seconds for callers."""
    config = Config(
        address="127.0.0.1:0",
        workers=1,
        threads=2,
        max_receive_seconds=2,
        max_send_seconds=2,
        max_concurrent_calls=64,
        log_level="error",
    )
    with Server(config) as running:
        yield running


def health_of(address: str) -> int:
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        return health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=2).status


def others_are_answered(server: Server) -> None:
    """Health and a call on connections of their own."""
    assert health_of(server.address) == health_pb2.HealthCheckResponse.SERVING
    with Client(server.address, timeout=2) as client:
        assert client.linear_index(SHAPE, (2, 3)) == 17


def test_streams_that_are_not_read_hold_nothing_that_others_need(patient: Server, wide: Callable[[int], bytes]) -> None:
    with Client(patient.address) as client:
        name = client.upload_module(wide(5000)).name
    request = v1.IndexingMapsRequest(module=v1.ModuleInput(name=name)).SerializeToString()
    assert len(request) == 76
    with Http2Caller(patient.address) as caller:
        streams = [caller.call("/xlashape.v1.IndexingService/IndexingMaps", request) for _ in range(16)]
        caller.read(0.5)
        others_are_answered(patient)
        assert all(caller.ended(stream, 20) for stream in streams)
        others_are_answered(patient)


def test_an_answer_that_is_not_read_is_given_up(patient: Server) -> None:
    request = v1.MultiIndexRequest(shape=v1.ShapeInput(text="f32[2,2]"), positions=[1] * 100_000).SerializeToString()
    with Http2Caller(patient.address) as caller:
        stream = caller.call("/xlashape.v1.ShapeService/MultiIndex", request)
        assert caller.ended(stream, 20)


@pytest.mark.parametrize("path", ["/xlashape.v1.ShapeService/ByteSize", "/grpc.health.v1.Health/Check"])
def test_calls_whose_request_never_comes_are_cut_off(patient: Server, path: str) -> None:
    with Http2Caller(patient.address) as caller:
        nothing = [caller.call(path, None) for _ in range(20)]
        half = caller.call(path, b"half", announced=1000)
        caller.read(0.3)
        others_are_answered(patient)
        assert all(caller.ended(stream, 20) for stream in [*nothing, half])


def test_one_connection_cannot_take_all_places(patient: Server) -> None:
    with Http2Caller(patient.address) as caller:
        for _ in range(200):
            caller.call("/xlashape.v1.ShapeService/ByteSize", None)
        caller.read(0.3)
        others_are_answered(patient)


def test_gzip_is_understood_and_its_content_is_bounded(server: Server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        ask = channel.unary_unary("/xlashape.v1.ShapeService/ByteSize", None, v1.ByteSizeResponse.FromString)
        good = v1.ByteSizeRequest(shapes=[v1.ShapeInput(text="f32[2]")] * 100).SerializeToString()
        assert len(ask(good, compression=grpc.Compression.Gzip, timeout=10).sizes) == 100
        begun = time.monotonic()
        with pytest.raises(grpc.RpcError) as caught:
            ask(bytes(100 << 20), compression=grpc.Compression.Gzip, timeout=20)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert time.monotonic() - begun < 20
        health = health_pb2_grpc.HealthStub(channel)
        answer = health.Check(health_pb2.HealthCheckRequest(service=""), compression=grpc.Compression.Gzip, timeout=10)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
