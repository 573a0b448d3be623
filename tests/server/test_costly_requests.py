"""Small requests that would take much memory or time: they are refused or answered, the memory of the worker stays
small, and other callers are answered meanwhile."""

from __future__ import annotations

import gzip
import http.client
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.http2_caller import Http2Caller
from xlashape.errors import LimitExceededError, SizeOverflowError
from xlashape.hlo import HloModule
from xlashape.proto import v1
from xlashape.proto.wire import BYTES, tag, varint
from xlashape.symbolic import IndexingMap
from xlashape_client import Client
from xlashape_server import Config, Server

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="reads the memory of another process from /proc, which only Linux has"
)

MIB = 1 << 20
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]


@pytest.fixture(scope="module")
def small() -> Iterator[Server]:
    """A server with one worker, which may take 1 GiB."""
    config = Config(
        address="127.0.0.1:0", workers=1, max_worker_memory=1024 * MIB, max_send_seconds=2, log_level="error"
    )
    with Server(config) as running:
        yield running


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


class Observer:
    """Measures within its `with` block: the largest memory of the worker, and whether health is always answered within
    `seconds`."""

    def __init__(self, server: Server, seconds: float = 5.0) -> None:
        self._server, self._seconds = server, seconds
        self._open = True
        self._threads = [threading.Thread(target=self._measure), threading.Thread(target=self._ask)]
        self.peak = 0
        self.answers = 0
        self.failures: list[grpc.StatusCode] = []

    def _measure(self) -> None:
        while self._open:
            self.peak = max(self.peak, *(resident(pid) for pid in self._server.worker_pids))
            time.sleep(0.005)

    def _ask(self) -> None:
        with grpc.insecure_channel(self._server.address, OWN_CONNECTION) as channel:
            check = health_pb2_grpc.HealthStub(channel).Check
            while self._open:
                try:
                    check(health_pb2.HealthCheckRequest(), timeout=self._seconds)
                    self.answers += 1
                except grpc.RpcError as error:
                    self.failures.append(error.code())
                time.sleep(0.01)

    def __enter__(self) -> Observer:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._open = False
        for thread in self._threads:
            thread.join()


def power(squarings: int) -> v1.IndexingMap:
    """A map to d0 to the power 2^squarings, whose expression shares its nodes."""
    made = v1.IndexingMap(results=[squarings])
    made.dimensions.add(bounds=v1.Interval(lower=-(2**62), upper=2**62))
    made.expressions.add(kind=v1.Expression.KIND_DIMENSION)
    for i in range(squarings):
        made.expressions.add(kind=v1.Expression.KIND_MULTIPLY, operands=(i, i))
    return made


def within(number: int, content: bytes) -> bytes:
    return tag(number, BYTES) + varint(len(content)) + content


def text(value: str) -> bytes:
    return v1.SimplifyMapRequest(maps=[v1.MapInput(text=value)]).SerializeToString()


def module_of(value: str) -> bytes:
    return v1.ListInstructionsRequest(module=v1.ModuleInput(text=value)).SerializeToString()


def repeating(name_bytes: int, uses: int) -> v1.ModuleInput:
    """A module with an instruction whose name has `name_bytes` bytes, and which `uses` other instructions use."""
    users = "\n".join(f" user.{i} = f32[4] negate(p)" for i in range(uses - 1))
    text = f"HloModule m\nENTRY e {{\n p = f32[4] parameter(0)\n{users}\n ROOT r = f32[4] negate(p)\n}}"
    module = HloModule.parse(text).proto
    module.computations[0].instructions[0].name = "p" * name_bytes
    return v1.ModuleInput(serialized=module.SerializeToString())


def operands(count: int) -> v1.ModuleInput:
    """A module with an instruction that has `count` operands."""
    module = HloModule.parse("HloModule m\nENTRY e {\n p = f32[4] parameter(0)\n ROOT r = f32[4] negate(p)\n}").proto
    last = module.computations[0].instructions[1]
    last.operand_ids[:] = [last.operand_ids[0]] * count
    return v1.ModuleInput(serialized=module.SerializeToString())


def layout(count: int) -> v1.ModuleInput:
    """A module with a layout of `count` dimensions."""
    module = HloModule.parse("HloModule m\nENTRY e {\n ROOT p = f32[4] parameter(0)\n}").proto
    module.computations[0].instructions[0].shape.layout.minor_to_major.extend([0] * count)
    return v1.ModuleInput(serialized=module.SerializeToString())


def named(name: str) -> v1.ModuleInput:
    module = HloModule.parse("HloModule m\nENTRY e {\n ROOT p = f32[4] parameter(0)\n}").proto
    module.name = name
    return v1.ModuleInput(serialized=module.SerializeToString())


def content_of(value: bytes) -> bytes:
    return v1.RecognizeRequest(content=value).SerializeToString()


SIMPLIFY, SIZE = "IndexingService/SimplifyMap", "ShapeService/ByteSize"
LIST = "HloService/ListInstructions"
REFUSED, INVALID = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT

COSTLY: dict[str, tuple[str, Callable[[], bytes], grpc.StatusCode]] = {
    "a power of 2^18 at a point": (
        "IndexingService/EvaluateMap",
        lambda: v1.EvaluateMapRequest(map=v1.MapInput(map=power(18)), points=[2**61]).SerializeToString(),
        INVALID,
    ),
    "15 MB of minus": (SIMPLIFY, lambda: text("-" * 15_000_000), REFUSED),
    "15 MB of parentheses": (SIMPLIFY, lambda: text("(" * 15_000_000), REFUSED),
    "2 MB of minus": (SIMPLIFY, lambda: text("() -> (" + "-" * 2_000_000), INVALID),
    "2 MB of parentheses": (SIMPLIFY, lambda: text("() -> (" + "(" * 2_000_000), INVALID),
    "15 MB of a shape": (
        SIZE,
        lambda: v1.ByteSizeRequest(shapes=[v1.ShapeInput(text="-" * 15_000_000)]).SerializeToString(),
        REFUSED,
    ),
    "5 million variables": (SIMPLIFY, lambda: within(1, within(1, b"\x12\x00" * 5_000_000)), REFUSED),
    "8 million shapes": (SIZE, lambda: b"\x0a\x00" * 8_000_000, REFUSED),
    "8 million chains": ("IndexingService/ComposeMaps", lambda: b"\x0a\x00" * 8_000_000, REFUSED),
    "a module of equals signs": (LIST, lambda: module_of("HloModule m\n" + "=" * 15_000_000), INVALID),
    "an array of 7 million dimensions": (
        LIST,
        lambda: module_of(f"HloModule m\nENTRY e {{\n ROOT p = f32[{'1,' * 7_000_000}1] parameter(0)\n}}"),
        INVALID,
    ),
    "a string of 7 million escapes": (
        LIST,
        lambda: module_of(
            'HloModule m\nENTRY e {\n ROOT p = f32[] parameter(0), metadata={op_name="' + "\\n" * 7_000_000 + '\\q"}\n}'
        ),
        INVALID,
    ),
    "a name of a megabyte in 1,500 lists": (
        LIST,
        lambda: v1.ListInstructionsRequest(module=repeating(1 << 20, 1_500)).SerializeToString(),
        REFUSED,
    ),
    "a name of a megabyte in 1,500 lines": (
        "ViewService/GetText",
        lambda: v1.GetTextRequest(module=repeating(1 << 20, 1_500)).SerializeToString(),
        REFUSED,
    ),
    "15 million operands": (
        LIST,
        lambda: v1.ListInstructionsRequest(module=operands(15_000_000)).SerializeToString(),
        REFUSED,
    ),
    "a layout of 15 million dimensions": (
        LIST,
        lambda: v1.ListInstructionsRequest(module=layout(15_000_000)).SerializeToString(),
        INVALID,
    ),
    "a module's name of 15 MB": (
        "ViewService/GetText",
        lambda: v1.GetTextRequest(module=named("(" * 15_000_000)).SerializeToString(),
        REFUSED,
    ),
    "content of 15 million groups": ("ViewService/Recognize", lambda: content_of(b"[" * 15_000_000), INVALID),
    "content of 15 million zeros": ("ViewService/Recognize", lambda: content_of(bytes(15_000_000)), INVALID),
}


@pytest.mark.parametrize(
    ("name", "compression"),
    [
        *((name, grpc.Compression.NoCompression) for name in COSTLY),
        ("15 MB of minus", grpc.Compression.Gzip),
        ("8 million shapes", grpc.Compression.Gzip),
    ],
)
def test_a_costly_request_leaves_memory_and_others_alone(
    small: Server, name: str, compression: grpc.Compression
) -> None:
    rpc, request, code = COSTLY[name]
    pids = small.worker_pids
    with (
        Observer(small) as observer,
        grpc.insecure_channel(small.address, OWN_CONNECTION) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        channel.unary_unary(f"/xlashape.v1.{rpc}")(request(), compression=compression, timeout=60)
    assert caught.value.code() is code, caught.value.details()
    assert small.worker_pids == pids
    assert not observer.failures
    assert observer.answers
    assert observer.peak < 1024 * MIB


@pytest.mark.parametrize("transport", ["gRPC", "HTTP"])
def test_many_compressed_requests_at_once_stay_within_the_budget(transport: str) -> None:
    """30 calls of 16 kB hold 500 MB when they are decompressed."""
    config = Config(
        address="127.0.0.1:0", http="127.0.0.1:0", workers=1, max_worker_memory=512 * MIB, log_level="error"
    )
    request = gzip.compress(bytes(16 * MIB), mtime=0)
    assert len(request) < 17_000
    with Server(config) as server, grpc.insecure_channel(server.address, OWN_CONNECTION) as channel:
        pids = server.worker_pids
        ask = channel.unary_unary("/xlashape.v1.ShapeService/ByteSize")

        def by_grpc() -> str:
            try:
                ask(request, timeout=60)  # the server recognises gzip by its first bytes
            except grpc.RpcError as error:
                return error.code().name
            return "OK"

        def by_http() -> str:
            host, _, port = server.http_address.rpartition(":")
            connection = http.client.HTTPConnection(host, int(port), timeout=60)
            headers = {"content-type": "application/proto", "content-encoding": "gzip"}
            connection.request("POST", "/xlashape.v1.ShapeService/ByteSize", request, headers)
            answer = json.loads(connection.getresponse().read())
            connection.close()
            return str(answer["code"]).upper()

        with Observer(server) as observer, ThreadPoolExecutor(30) as threads:
            asked = [threads.submit(by_grpc if transport == "gRPC" else by_http) for _ in range(30)]
            codes = {each.result() for each in asked}
        assert codes <= {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
        assert server.worker_pids == pids
        assert not observer.failures
        assert observer.peak < 600 * MIB


def test_answers_that_nobody_reads_do_not_take_more_than_the_budget(small: Server) -> None:
    """800 kB of request make 16 MB of answer."""
    shape = v1.ShapeInput(text=f"f32[{','.join('1' * 20)}]")
    request = v1.MultiIndexRequest(shape=shape, positions=[0] * 100_000).SerializeToString()
    pids = small.worker_pids
    callers = [Http2Caller(small.address, window=65_535) for _ in range(50)]
    try:
        with Observer(small) as observer:
            for caller in callers:
                caller.call("/xlashape.v1.ShapeService/MultiIndex", request)
            time.sleep(5)
            with Client(small.address, timeout=10) as client:
                assert client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3)) == 17
        assert small.worker_pids == pids
        assert not observer.failures
        assert observer.peak < 1100 * MIB
        end = time.monotonic() + 60
        while resident(pids[0]) > 300 * MIB and time.monotonic() < end:
            time.sleep(0.2)
        assert resident(pids[0]) < 300 * MIB
    finally:
        for caller in callers:
            caller.close()


def test_one_large_answer_is_given(small: Server) -> None:
    request = v1.MultiIndexRequest(shape=v1.ShapeInput(text="f32[1,1,1,1]"), positions=[0] * 1_000_000)
    with grpc.insecure_channel(small.address, [("grpc.max_receive_message_length", -1), *OWN_CONNECTION]) as channel:
        ask = channel.unary_unary("/xlashape.v1.ShapeService/MultiIndex")
        assert len(ask(request.SerializeToString(), timeout=30)) > 32_000_000


def test_indices_without_numbers_are_bounded(small: Server) -> None:
    """14 bytes of request would make 128 MB of answer."""
    request = v1.LinearIndexRequest(shape=v1.ShapeInput(text="f32[]"), count=16_000_000).SerializeToString()
    with grpc.insecure_channel(small.address) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/xlashape.v1.ShapeService/LinearIndex")(request, timeout=30)
    assert caught.value.code() is REFUSED


def test_values_of_a_map_are_bounded_in_the_library_too() -> None:
    given = IndexingMap.from_proto(power(18))
    with pytest.raises(SizeOverflowError, match="more than 128 bits"):
        given.evaluate((3**20,))
    with pytest.raises(SizeOverflowError, match="more than 128 bits"):
        given.evaluate_batch([(3**20,)])
    assert IndexingMap.from_proto(power(5)).evaluate((3,)) == (3**32,)
    with pytest.raises(LimitExceededError):
        IndexingMap.from_proto(power(40))
