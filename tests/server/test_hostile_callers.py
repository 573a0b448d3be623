"""Callers that do not read, do not send, or open very many calls at once: other callers are answered, and the hostile
caller is cut off."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.http2_caller import Http2Caller
from tests.support.server_processes import children
from xlashape.errors import DecodeError, LimitExceededError
from xlashape.proto import v1
from xlashape_client import Client
from xlashape_server import Config, Server
from xlashape_server.guard import content_of

SHAPE = "f32[3,5]{1,0:T(2,2)}"


@pytest.fixture(scope="module")
def patient() -> Iterator[Server]:
    """A server that waits two seconds for a caller that does not send or read."""
    config = Config(
        address="127.0.0.1:0",
        workers=1,
        max_receive_seconds=2,
        max_send_seconds=2,
        max_concurrent_calls=64,
        log_level="error",
    )
    with Server(config) as running:
        yield running


def health_of(address: str) -> int:
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as made:
        channel: Any = made
        health: Any = health_pb2_grpc.HealthStub(channel)
        return health.Check(health_pb2.HealthCheckRequest(), timeout=2).status


def others_are_answered(server: Server) -> None:
    """Asserts that health and a call, each on a new connection, are answered."""
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


@pytest.mark.parametrize(
    "begin", [b"", b"PRI * HTTP/2.0\r\n", b"\x16\x03\x01"], ids=["nothing", "half a preface", "TLS"]
)
def test_a_connection_that_says_nothing_is_closed(patient: Server, begin: bytes) -> None:
    host, _, port = patient.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(begin)
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(100):  # the server first sends its SETTINGS
                pass


def test_one_connection_cannot_take_all_places(patient: Server) -> None:
    with Http2Caller(patient.address) as caller:
        for _ in range(200):
            caller.call("/xlashape.v1.ShapeService/ByteSize", None)
        caller.read(0.3)
        others_are_answered(patient)


def test_gzip_is_understood_and_its_content_is_bounded(server: Server) -> None:
    with grpc.insecure_channel(server.address) as made:
        channel: Any = made
        ask = channel.unary_unary("/xlashape.v1.ShapeService/ByteSize", None, v1.ByteSizeResponse.FromString)
        good = v1.ByteSizeRequest(shapes=[v1.ShapeInput(text="f32[2]")] * 100).SerializeToString()
        assert len(ask(good, compression=grpc.Compression.Gzip, timeout=10).sizes) == 100
        begun = time.monotonic()
        with pytest.raises(grpc.RpcError) as caught:
            ask(bytes(100 << 20), compression=grpc.Compression.Gzip, timeout=20)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert time.monotonic() - begun < 20
        health: Any = health_pb2_grpc.HealthStub(channel)
        answer = health.Check(health_pb2.HealthCheckRequest(service=""), compression=grpc.Compression.Gzip, timeout=10)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
@pytest.mark.parametrize(
    "sources", [("127.0.0.2", "127.0.0.3"), ("127.0.0.1", "127.0.0.1")], ids=["others", "as the probe"]
)
def test_checks_of_health_that_do_not_go_on_do_not_keep_out_others(server: Server, sources: tuple[str, str]) -> None:
    """Two callers open 40 streams each that send nothing but headers, again and again."""
    with ExitStack() as stack:
        callers = [stack.enter_context(Http2Caller(server.address, source=source)) for source in sources]
        for _ in range(5):
            for caller in callers:
                for _ in range(40):
                    caller.call("/grpc.health.v1.Health/Check", None)
            for _ in range(5):
                assert health_of(server.address) == health_pb2.HealthCheckResponse.SERVING
        stream = callers[0].call("/grpc.health.v1.Health/Check", None)
        assert callers[0].ended(stream, 4.0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(b"content")[:-1], "is truncated"),
        (gzip.compress(b"content") + b"more", "4 bytes follow the end of a compressed request message"),
        (gzip.compress(b"content") + gzip.compress(b"more"), "bytes follow the end of a compressed request message"),
        (b"\x1f\x8bcontent", "cannot be unpacked"),
    ],
    ids=["truncated", "more bytes", "two members", "not compressed"],  # gzip writes the time of day into its bytes
)
def test_what_is_not_one_compressed_message_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        content_of(data, 100, lambda _: None)
    assert content_of(gzip.compress(b"content"), 100, lambda _: None) == b"content"


@pytest.mark.parametrize("content", [b"", b"x" * 5_000_000, random.Random(1).randbytes(3_000_000), b"xy" * (16 << 10)])
def test_room_for_a_message_is_held_before_it_is_decompressed(content: bytes) -> None:
    held: list[int] = []
    assert content_of(gzip.compress(content), 10_000_000, held.append) == content
    assert len(content) <= held[0] <= 10_000_000
    if content:
        with pytest.raises(LimitExceededError):
            content_of(gzip.compress(content), len(content) - 1, held.append)
        assert held[1] <= len(content) - 1
        with pytest.raises(ZeroDivisionError):
            content_of(gzip.compress(content), 10_000_000, lambda _: 1 // 0)


TERMS = " + ".join(f"((d0 * {i} + d1) mod {i + 7}) floordiv 3" for i in range(2, 302))


def heavy_request(number: int) -> bytes:
    """A request whose answer takes half a minute to compute."""
    text = f"(d0, d1) -> ({TERMS}), domain: d0 in [0, {{}}], d1 in [0, 999]"
    maps = [v1.MapInput(text=text.format(number * 1000 + i)) for i in range(200)]
    return v1.SimplifyMapRequest(maps=maps).SerializeToString()


def processor_seconds(pid: int) -> float:
    """The processor time of a process and of those that it has started."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    with contextlib.suppress(OSError):
        return own + sum(map(processor_seconds, children(pid)))
    return own


@pytest.mark.skipif(
    sys.platform != "linux", reason="reads the time of another process from /proc, which only Linux has"
)
def test_cancelled_calls_stop_and_meanwhile_others_are_answered(patient: Server) -> None:
    [pid] = patient.worker_pids
    with grpc.insecure_channel(patient.address, [("grpc.use_local_subchannel_pool", 1)]) as made:
        channel: Any = made
        simplify = channel.unary_unary("/xlashape.v1.IndexingService/SimplifyMap")
        before = processor_seconds(pid)
        calls = [simplify.future(heavy_request(number), timeout=100) for number in range(20)]
        while processor_seconds(pid) < before + 1:
            time.sleep(0.05)
        with Client(patient.address, timeout=5) as client:
            for _ in range(50):
                assert client.linear_index(SHAPE, (2, 3)) == 17
        assert health_of(patient.address) == health_pb2.HealthCheckResponse.SERVING
        # The long call of another caller does not wait for all of these.
        with grpc.insecure_channel(patient.address, [("grpc.use_local_subchannel_pool", 1)]) as second:
            long = v1.SimplifyMapRequest(maps=v1.SimplifyMapRequest.FromString(heavy_request(77)).maps[:2])
            second.unary_unary("/xlashape.v1.IndexingService/SimplifyMap")(long.SerializeToString(), timeout=60)
        assert sum(call.done() for call in calls) < len(calls)
        for call in calls:
            call.cancel()
    time.sleep(0.5)
    before = processor_seconds(pid)
    time.sleep(2)
    assert processor_seconds(pid) - before < 1


def test_a_caller_that_is_cut_off_is_told_why(patient: Server) -> None:
    wait = threading.Event()

    def nothing() -> Iterator[bytes]:
        wait.wait(60)
        yield b""

    with grpc.insecure_channel(patient.address) as made:
        channel: Any = made
        for path in ("/xlashape.v1.ShapeService/ByteSize", "/grpc.health.v1.Health/Check"):
            with pytest.raises(grpc.RpcError) as caught:
                channel.stream_unary(path)(nothing(), timeout=30)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert caught.value.details() == "the request did not come within 2 seconds"
        wait.set()
        shape, positions = v1.ShapeInput(text="f32[1000,1000]"), [1] * 100_000
        first = v1.MultiIndicesRequest(shape=shape, positions=positions).SerializeToString()
        more = v1.MultiIndicesRequest(positions=positions).SerializeToString()
        ask = channel.stream_stream("/xlashape.v1.ShapeService/MultiIndices")
        answers = ask(iter([first, *[more] * 100]))
        next(answers)
        time.sleep(6)
        with pytest.raises(grpc.RpcError) as caught:
            for _ in answers:
                pass
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "the answer was not read within 2 seconds" in (caught.value.details() or "")


def test_calls_of_others_are_not_ended_when_thousands_begin_at_once() -> None:
    """gRPC holds a limited number of calls before the interpreter sees them. Of more calls, it would end random ones,
    with CANCELLED and without a reason."""
    codes: list[grpc.StatusCode] = []

    def ask(address: str, stop: threading.Event) -> None:
        request = v1.ByteSizeRequest(shapes=[v1.ShapeInput(text=SHAPE)]).SerializeToString()
        with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as made:
            channel: Any = made
            call = channel.unary_unary("/xlashape.v1.ShapeService/ByteSize")
            while not stop.is_set():
                try:
                    call(request, timeout=30)
                except grpc.RpcError as error:
                    failed: Any = error
                    codes.append(failed.code())

    config = Config(address="127.0.0.1:0", workers=1, max_receive_seconds=2, log_level="error")
    with Server(config) as running, ExitStack() as stack:
        stop = threading.Event()
        others = [threading.Thread(target=ask, args=(running.address, stop)) for _ in range(4)]
        for other in others:
            other.start()
        callers = [stack.enter_context(Http2Caller(running.address)) for _ in range(8)]
        for _ in range(1000):
            for caller in callers:
                caller.call("/xlashape.v1.ShapeService/ByteSize", None)
        time.sleep(1)
        stop.set()
        for other in others:
            other.join()
    # All callers of this test have one address, so they get a caller's share of the places, and no others.
    assert set(codes) <= {grpc.StatusCode.RESOURCE_EXHAUSTED}
