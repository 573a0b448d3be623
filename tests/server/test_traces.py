"""Spans of calls, as an OTLP collector receives them from a real server. The span of a call is a child of the caller's
span, and has child spans for work that takes long."""

from __future__ import annotations

import asyncio
import http.client
import http.server
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.support.server_processes import ServerProcess, wait_until
from xlashape.errors import InvalidIndexError, LimitExceededError, NotFoundError, UnavailableError
from xlashape.proto import v1
from xlashape_client import AsyncClient, Client
from xlashape_server import Config, Server
from xlashape_server.callers import Caller
from xlashape_server.guard import Guard
from xlashape_server.telemetry import spans
from xlashape_server.telemetry.tracing import Tracing

SHAPE = "f32[3,5]{1,0:T(2,2)}"
NAME, RPC = "ShapeService/ByteSize", "xlashape.v1.ShapeService/ByteSize"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector:
    """A server that accepts spans as OTLP over HTTP. `spans` has the spans that it has received."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[Any] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.path == "/v1/traces"
                for each in ExportTraceServiceRequest.FromString(data).resource_spans:
                    outer.resources.append(each.resource)
                    for scope in each.scope_spans:
                        outer.spans.extend(scope.spans)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.fixture(scope="module")
def traced(collector: Collector) -> Iterator[ServerProcess]:
    environment = {
        **os.environ,
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }
    config = Config(
        address="127.0.0.1:0",
        http="127.0.0.1:0",
        workers=1,
        traces=True,
        max_indices=100,
    )
    with ServerProcess(config, env=environment) as server:
        yield server
        assert server.stop() == 0


def ask(server: ServerProcess, traceparent: str | None) -> None:
    metadata = (("traceparent", traceparent),) if traceparent is not None else None
    request = v1.ByteSizeRequest(shapes=[v1.ShapeInput(text=SHAPE)]).SerializeToString()
    with grpc.insecure_channel(server.address) as channel:
        channel.unary_unary(f"/{RPC}")(request, timeout=20, metadata=metadata)


def below(collector: Collector, trace_id: str) -> list[Any]:
    return [span for span in collector.spans if span.trace_id.hex() == trace_id]


def test_a_call_is_a_span_below_that_of_its_caller(traced: ServerProcess, collector: Collector) -> None:
    ask(traced, f"00-{TRACE}-{PARENT}-01")
    wait_until(lambda: bool(below(collector, TRACE)))
    [span] = below(collector, TRACE)
    assert (span.name, span.parent_span_id.hex(), span.kind) == (RPC, PARENT, span.SPAN_KIND_SERVER)
    found = attributes(span)
    assert found.pop("network.peer.address").startswith("ipv4:127.0.0.1:")
    assert found == {
        "rpc.system": "grpc",
        "rpc.service": "xlashape.v1.ShapeService",
        "rpc.method": "ByteSize",
        "rpc.grpc.status_code": 0,
    }
    assert span.status.code == span.status.STATUS_CODE_UNSET
    assert [event.name for event in span.events] == ["request", "answer"]
    assert 0 < span.end_time_unix_nano - span.start_time_unix_nano < 20e9
    resource = {each.key: each.value for each in collector.resources[0].attributes}
    assert resource["service.name"].string_value == "xlashape"
    assert resource["deployment.environment.name"].string_value == "test"


def test_what_takes_long_is_below_the_call(
    traced: ServerProcess, collector: Collector, wide: Callable[[int], bytes]
) -> None:
    provider = TracerProvider()
    tracer = provider.get_tracer("test")
    with Client(traced.address, timeout=20) as client, tracer.start_as_current_span("program") as program:
        client.upload_module(wide(50))
    trace_id = f"{program.get_span_context().trace_id:032x}"
    upload = "xlashape.v1.HloService/PutModule"
    wait_until(lambda: any(span.name == upload for span in below(collector, trace_id)))
    [call] = [span for span in below(collector, trace_id) if span.name == upload]
    assert call.parent_span_id.hex() == f"{program.get_span_context().span_id:016x}"
    [decoding] = [span for span in below(collector, trace_id) if span.name == "decode module"]
    assert decoding.parent_span_id == call.span_id
    assert attributes(decoding) == {"xlashape.bytes": len(wide(50))}
    assert call.start_time_unix_nano <= decoding.start_time_unix_nano <= decoding.end_time_unix_nano
    assert decoding.end_time_unix_nano <= call.end_time_unix_nano


def test_the_client_for_asyncio_names_the_span_too(traced: ServerProcess, collector: Collector) -> None:
    tracer = TracerProvider().get_tracer("test")

    async def ask_within_a_span() -> str:
        async with AsyncClient(traced.address, timeout=20) as client:
            with tracer.start_as_current_span("program") as program:
                await client.linear_index(SHAPE, (2, 3))
                return f"{program.get_span_context().trace_id:032x}"

    trace_id = asyncio.run(ask_within_a_span())
    wait_until(lambda: bool(below(collector, trace_id)))
    assert [span.name for span in below(collector, trace_id)] == ["xlashape.v1.ShapeService/LinearIndex"]


def test_a_client_outside_of_any_span_tells_none(traced: ServerProcess, collector: Collector) -> None:
    with Client(traced.address, timeout=20) as client:
        before = len(collector.named("xlashape.v1.ShapeService/MultiIndex"))
        client.multi_index(SHAPE, 3)
    wait_until(lambda: len(collector.named("xlashape.v1.ShapeService/MultiIndex")) > before)
    assert collector.named("xlashape.v1.ShapeService/MultiIndex")[-1].parent_span_id == b""


def test_codes_of_refused_calls_are_attributes(traced: ServerProcess, collector: Collector) -> None:
    with Client(traced.address, timeout=20) as client:
        with pytest.raises(InvalidIndexError):
            client.linear_index(SHAPE, (3, 0))
        with pytest.raises(NotFoundError):
            client.get_module("modules/" + "0" * 64)
        with pytest.raises(LimitExceededError):
            client.linear_indices(SHAPE, [(0, 0)] * 101)

    def codes() -> set[tuple[str, int]]:
        return {
            (span.name.rpartition("/")[2], attributes(span)["rpc.grpc.status_code"])
            for span in collector.spans
            if "/" in span.name
        }

    wait_until(lambda: {("LinearIndex", 3), ("GetModule", 5), ("LinearIndex", 8)} <= codes())
    # The caller's mistakes are not errors of the server.
    assert {span.status.code for span in collector.spans} == {0}


@pytest.mark.parametrize(("kind", "system"), [("application/json", "connect_rpc"), ("application/grpc-web", "grpc")])
def test_a_call_over_http_is_a_span_too(traced: ServerProcess, collector: Collector, kind: str, system: str) -> None:
    trace_id = f"{len(collector.spans) + 1:031x}{len(kind) % 10}"
    request = v1.ByteSizeRequest(shapes=[v1.ShapeInput(text=SHAPE)])
    body = json.dumps({"shapes": [{"text": SHAPE}]}).encode()
    if "web" in kind:
        data = request.SerializeToString()
        body = b"\0" + len(data).to_bytes(4, "big") + data
    connection = http.client.HTTPConnection(traced.event["http"], timeout=20)
    connection.request("POST", f"/{RPC}", body, {"Content-Type": kind, "Traceparent": f"00-{trace_id}-{PARENT}-01"})
    assert connection.getresponse().status == 200
    connection.close()
    wait_until(lambda: bool(below(collector, trace_id)))
    [span] = below(collector, trace_id)
    assert (span.name, span.parent_span_id.hex()) == (RPC, PARENT)
    assert attributes(span)["rpc.system"] == system


def test_a_call_that_is_not_sampled_has_no_span(traced: ServerProcess, collector: Collector) -> None:
    unsampled, later = "1" * 32, "2" * 32
    ask(traced, f"00-{unsampled}-{PARENT}-00")
    ask(traced, f"00-{later}-{PARENT}-01")
    wait_until(lambda: bool(below(collector, later)))
    assert below(collector, unsampled) == []


@pytest.mark.parametrize(
    "traceparent", ["", "00", "nonsense", f"00-{'0' * 32}-{PARENT}-01", f"ff-{TRACE}-{PARENT}-01", "0" * 4000]
)
def test_a_header_that_is_wrong_begins_a_trace(traced: ServerProcess, collector: Collector, traceparent: str) -> None:
    before = len(collector.named(RPC))
    ask(traced, traceparent)
    wait_until(lambda: len(collector.named(RPC)) > before)
    assert collector.named(RPC)[-1].parent_span_id == b""


def test_health_and_the_schema_are_not_traced(traced: ServerProcess, collector: Collector) -> None:
    with Client(traced.address, timeout=20) as client:
        client.wait_until_ready(20)
        client.byte_size(SHAPE)
    ask(traced, f"00-{'3' * 32}-{PARENT}-01")
    wait_until(lambda: bool(below(collector, "3" * 32)))
    assert [span.name for span in collector.spans if "Health" in span.name or "Reflection" in span.name] == []


def test_what_is_not_sent_yet_is_sent_when_the_server_stops(collector: Collector) -> None:
    environment = {
        **os.environ,
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/v1/traces",
        "OTEL_SERVICE_NAME": "another",
    }
    with ServerProcess(Config(address="127.0.0.1:0", workers=1, traces=True), env=environment) as server:
        ask(server, f"00-{'4' * 32}-{PARENT}-01")
        assert server.stop() == 0
    assert len(below(collector, "4" * 32)) == 1
    assert "another" in {
        each.value.string_value
        for resource in collector.resources
        for each in resource.attributes
        if each.key == "service.name"
    }


def test_a_collector_that_is_not_there_does_no_harm() -> None:
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY": "50"}
    config = Config(address="127.0.0.1:0", workers=1, traces=True, grace_seconds=1)
    with ServerProcess(config, env=environment) as server:
        for _ in range(5):
            ask(server, None)
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 15


def test_an_exporter_that_is_not_there_is_an_error_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(UnavailableError, match="worker 0 cannot start: .*there is no exporter 'zipkin'"):
        Server(Config(address="127.0.0.1:0", workers=1, traces=True, log_level="error")).start()


def test_nothing_is_loaded_where_telemetry_is_off() -> None:
    program = (
        "import sys, xlashape_server.worker, xlashape_server.app, xlashape_client; "
        "xlashape_client.Client('127.0.0.1:1')\n"
        "assert not [name for name in sys.modules if name.startswith(('opentelemetry', 'prometheus_client'))]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def nothing(_: bytes, __: float) -> bytes:
    return b""


class Scene:
    """A guard without a server, whose spans stay in memory."""

    def __init__(self, config: Config | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.guard = Guard(config or Config())
        self.guard.traces = Tracing({NAME: RPC}, provider)

    def call(self, handler: Callable[[bytes, float], bytes], seconds: float | None = None) -> int:
        """Makes a call as a transport does, and returns the code with which it ends."""
        call = None
        try:
            call = self.guard.begin(NAME, lambda: Caller("a", "a"), seconds, lambda *_: None, headers=lambda: ())
            call.answered(len(self.guard.answer(call, handler, b"")))
        except Exception as error:
            return self.guard.refusal(NAME, call, error).code
        finally:
            if call is not None:
                call.work_ended()
                call.transport_ended()
        return code_pb2.OK

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}


@pytest.fixture(autouse=True)
def no_maker() -> Iterator[None]:
    yield
    spans.set_maker(None)


def test_an_error_that_should_not_be_is_recorded() -> None:
    def fails(_: bytes, __: float) -> bytes:
        raise KeyError("nobody expects this")

    scene = Scene()
    assert scene.call(fails) == code_pb2.INTERNAL
    span = scene.spans[RPC]
    assert span.kind is SpanKind.SERVER
    assert span.status.status_code is StatusCode.ERROR
    [event] = span.events
    assert event.name == "exception"
    assert (event.attributes or {})["exception.type"] == "KeyError"


def test_a_deadline_that_passed_is_an_error_of_the_span() -> None:
    def sleeps(_: bytes, __: float) -> bytes:
        from xlashape.errors import DeadlineExceededError

        raise DeadlineExceededError("too late")

    scene = Scene()
    assert scene.call(sleeps, 5.0) == code_pb2.DEADLINE_EXCEEDED
    assert scene.spans[RPC].status.description == "too late"


def test_a_call_that_is_not_admitted_is_a_span() -> None:
    scene = Scene(Config(max_concurrent_calls=1, caller_share=1, connection_share=1))

    def asks_again(_: bytes, __: float) -> bytes:
        assert scene.call(nothing) == code_pb2.RESOURCE_EXHAUSTED
        return b""

    assert scene.call(asks_again) == code_pb2.OK
    codes = [(span.attributes or {})["rpc.grpc.status_code"] for span in scene.exporter.get_finished_spans()]
    assert codes == [code_pb2.RESOURCE_EXHAUSTED, code_pb2.OK]


def test_waiting_for_a_turn_is_a_span() -> None:
    scene = Scene(Config(threads=1))
    holds, done = threading.Event(), threading.Event()

    def computes(_: bytes, __: float) -> bytes:
        holds.set()
        assert done.wait(20)
        return b""

    first = threading.Thread(target=scene.call, args=(computes,))
    first.start()
    assert holds.wait(20)
    second = threading.Thread(target=scene.call, args=(nothing,))
    second.start()
    time.sleep(0.05)
    done.set()
    first.join(20)
    second.join(20)
    waiting = scene.spans["wait for a turn"]
    calls = [span for span in scene.exporter.get_finished_spans() if span.name == RPC]
    assert waiting.parent is not None
    assert waiting.parent.span_id in {(span.context or trace.INVALID_SPAN_CONTEXT).span_id for span in calls}
    assert (waiting.end_time or 0) - (waiting.start_time or 0) > 20e6


def test_spans_of_handlers_are_below_the_call() -> None:
    scene = Scene()

    def handler(_: bytes, __: float) -> bytes:
        with spans.child("inner", {"xlashape.bytes": 5}):
            return b""

    assert scene.call(handler) == code_pb2.OK
    inner, outer = scene.spans["inner"], scene.spans[RPC]
    assert inner.parent is not None
    assert outer.context is not None
    assert inner.parent.span_id == outer.context.span_id
    assert not trace.get_current_span().is_recording()
    with spans.child("of no call", {}):
        pass
    assert "of no call" not in scene.spans


@pytest.mark.parametrize(
    ("opted", "names"),
    [
        ("rpc", {"rpc.system.name": "grpc", "rpc.method": RPC, "rpc.response.status_code": "OK"}),
        (
            "http,rpc/dup",
            {
                "rpc.system.name": "grpc",
                "rpc.method": RPC,
                "rpc.response.status_code": "OK",
                "rpc.system": "grpc",
                "rpc.service": "xlashape.v1.ShapeService",
                "rpc.grpc.status_code": 0,
            },
        ),
    ],
)
def test_the_next_conventions_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, opted: str, names: dict[str, Any]
) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", opted)
    scene = Scene()
    assert scene.call(nothing) == code_pb2.OK
    assert dict(scene.spans[RPC].attributes or {}) == {**names, "network.peer.address": "a"}
