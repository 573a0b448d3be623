"""Makes a span for each call with OpenTelemetry. Its SDK, which the variables OTEL_… configure, sends the spans.

The span of a call begins with its admission and ends when its caller has the answer. It is below the span that the
caller names in the header traceparent. Below it are spans for what takes long: waiting for a turn to compute, reading
and decoding a module. Its attributes are those of the current semantic conventions for RPCs. The value rpc/dup of
OTEL_SEMCONV_STABILITY_OPT_IN adds the attributes of the next version, and rpc has them alone.

A call that is not sampled has no span. Health checks and reflection have none either.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from google.rpc import code_pb2
from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from xlashape.base.version import __version__
from xlashape.errors import InvalidArgumentError
from xlashape_server.telemetry.spans import Attributes, Headers, set_maker

_LEAST_WAIT_SECONDS = 0.001  # a shorter wait for a turn has no span
_STOP_SECONDS = 1.5  # seconds to send the spans that are left when the worker stops

# The codes that the semantic conventions make errors of a server's span. Other codes are mistakes of the caller.
_FAULTS = frozenset(
    (
        code_pb2.UNKNOWN,
        code_pb2.DEADLINE_EXCEEDED,
        code_pb2.UNIMPLEMENTED,
        code_pb2.INTERNAL,
        code_pb2.UNAVAILABLE,
        code_pb2.DATA_LOSS,
    )
)


class Tracing:
    """Makes the spans of calls. `names` maps the name of a call, such as "ShapeService/ByteSize", to its RPC,
    "xlashape.v1.ShapeService/ByteSize".

    InvalidArgumentError if the variables OTEL_… ask for an exporter that is not installed.
    """

    def __init__(self, names: Mapping[str, str], provider: TracerProvider | None = None) -> None:
        self._provider = provider or _provider()
        self._tracer = self._provider.get_tracer("xlashape_server", __version__)
        opted = {each.strip() for each in os.environ.get("OTEL_SEMCONV_STABILITY_OPT_IN", "").split(",")}
        self._has_new, self._has_old = bool(opted & {"rpc", "rpc/dup"}), "rpc" not in opted or "rpc/dup" in opted
        self._names = dict(names)
        self._known: dict[tuple[str, str], dict[str, str]] = {}
        """RPC and protocol → the attributes that all of their spans have."""
        self._fields = frozenset(propagate.get_global_textmap().fields)
        set_maker(self._child)

    def begin(
        self, name: str, headers: Callable[[], Headers | None], system: str, peer: Callable[[], str]
    ) -> _CallSpan | None:
        """Begins the span of a call: `Traces.begin`. None if the call is not sampled, or `names` does not have it."""
        rpc = self._names.get(name)
        if rpc is None:
            return None
        carrier = {key: value for key, value in headers() or () if key in self._fields and isinstance(value, str)}
        parent = propagate.extract(carrier) if carrier else contexts.Context()
        span = self._tracer.start_span(rpc, parent, SpanKind.SERVER, self._attributes(rpc, system))
        if not span.is_recording():
            return None
        span.set_attribute("network.peer.address", peer())
        return _CallSpan(span, self._tracer, system, has_old=self._has_old, has_new=self._has_new)

    def _attributes(self, rpc: str, system: str) -> dict[str, str]:
        found = self._known.get((rpc, system))
        if found is None:
            service, _, method = rpc.rpartition("/")
            old = {"rpc.system": system, "rpc.service": service, "rpc.method": method} if self._has_old else {}
            new = {"rpc.system.name": system, "rpc.method": rpc} if self._has_new else {}
            found = self._known[rpc, system] = {**old, **new}
        return found

    @contextmanager
    def _child(self, name: str, attributes: Attributes) -> Generator[None]:
        if not trace.get_current_span().is_recording():
            yield  # the current call is not traced
            return
        # Errors are recorded in the span of the call, and not here.
        with self._tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ):
            yield

    def stop(self) -> None:
        """Sends the spans that are left, within `_STOP_SECONDS`, and makes no more."""
        set_maker(None)
        sender = threading.Thread(target=self._provider.shutdown, name="spans", daemon=True)
        sender.start()
        sender.join(_STOP_SECONDS)


class _CallSpan:
    """The `CallSpan` of OpenTelemetry. `has_old` and `has_new` say which versions of the conventions it follows."""

    def __init__(self, span: Span, tracer: trace.Tracer, system: str, *, has_old: bool, has_new: bool) -> None:
        self._span = span
        self._tracer = tracer
        self._system = system
        self._has_old, self._has_new = has_old, has_new
        self._message = ""
        self._context = trace.set_span_in_context(span, contexts.Context())
        self._token: Any = None

    def works(self, since: float) -> None:
        self.waited(since)
        self._token = contexts.attach(self._context)

    def rests(self) -> None:
        if self._token is not None:
            contexts.detach(self._token)
            self._token = None

    def waited(self, since: float) -> None:
        seconds = time.monotonic() - since
        if seconds >= _LEAST_WAIT_SECONDS:
            now = time.time_ns()
            self._tracer.start_span("wait for a turn", self._context, start_time=now - int(seconds * 1e9)).end(now)

    def event(self, name: str, size: int) -> None:
        self._span.add_event(name, {"xlashape.bytes": size})

    def failed(self, message: str, error: Exception | None) -> None:
        self._message = message
        if error is not None:
            self._span.record_exception(error)

    def end(self, code: int) -> None:
        name = code_pb2.Code.Name(code)
        if self._has_old:
            if self._system == "grpc":
                self._span.set_attribute("rpc.grpc.status_code", code)
            elif code:
                self._span.set_attribute("rpc.connect_rpc.error_code", name.lower())
        if self._has_new:
            self._span.set_attribute("rpc.response.status_code", name if self._system == "grpc" else name.lower())
            if code in _FAULTS:
                self._span.set_attribute("error.type", name)
        if code in _FAULTS:
            self._span.set_status(Status(StatusCode.ERROR, self._message))
        self._span.end()


def _provider() -> TracerProvider:
    """The SDK. The variables OTEL_… configure its resource, sampler, limits, batches and exporters."""
    resource = Resource.create({"service.version": __version__, "process.pid": os.getpid()})
    if str(resource.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "xlashape"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        exporter = _exporter(name.strip())
        if exporter is not None:
            provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _exporter(name: str) -> SpanExporter | None:
    if name in ("none", ""):
        return None
    if name == "console":
        return ConsoleSpanExporter(out=sys.stderr)  # a worker's standard output goes to its parent
    if name == "otlp":
        variables = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
        protocol = next((os.environ[each] for each in variables if os.environ.get(each)), "http/protobuf")
        name = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}.get(protocol.strip(), protocol)
    found = [*entry_points(group="opentelemetry_traces_exporter", name=name)]
    if not found:
        raise InvalidArgumentError(
            f"OTEL_TRACES_EXPORTER: there is no exporter {name[:80]!r} here; none, console and otlp over http/protobuf "
            "come with xlashape[telemetry]",
            field="traces",
        )
    return found[0].load()()
