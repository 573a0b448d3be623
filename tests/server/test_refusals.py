"""An error of the library becomes a status with details, and the client turns it back into the same error."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2, error_details_pb2, status_pb2

from xlashape import errors
from xlashape.errors import XlashapeError
from xlashape.proto import v1
from xlashape_client.status import exception_of
from xlashape_server.config import Config
from xlashape_server.conversions import DOMAIN, status_of
from xlashape_server.grpc_calls import CallThreads, GrpcCalls
from xlashape_server.guard import Call, Guard

EXAMPLES: list[tuple[XlashapeError, int]] = [
    (errors.InvalidArgumentError("no", field="a.b[3]"), code_pb2.INVALID_ARGUMENT),
    (
        errors.ParseError(
            "expected ')'",
            line=3,
            column=7,
            source_line="f32[2",
            caret=5,
            name="x.hlo",
            expected="')'",
            found="'2'",
            field="shape.text",
        ),
        code_pb2.INVALID_ARGUMENT,
    ),
    (errors.DecodeError("not it"), code_pb2.INVALID_ARGUMENT),
    (errors.InvalidShapeError("no shape"), code_pb2.INVALID_ARGUMENT),
    (errors.InvalidIndexError("no index"), code_pb2.INVALID_ARGUMENT),
    (errors.SizeOverflowError("too large"), code_pb2.INVALID_ARGUMENT),
    (errors.InvalidModuleError("no module"), code_pb2.INVALID_ARGUMENT),
    (errors.InvalidMapError("no map"), code_pb2.INVALID_ARGUMENT),
    (errors.LossyConversionError("would lose"), code_pb2.INVALID_ARGUMENT),
    (errors.NotFoundError("not there", kind="instruction", name="fusion.3", field="instruction"), code_pb2.NOT_FOUND),
    (
        errors.LimitExceededError("too many", limit="batch", maximum=3, value=4, field="shapes"),
        code_pb2.RESOURCE_EXHAUSTED,
    ),
    (errors.LimitExceededError("too many", limit="analysis_steps", maximum=3), code_pb2.RESOURCE_EXHAUSTED),
    (errors.DeadlineExceededError("too late"), code_pb2.DEADLINE_EXCEEDED),
    (errors.UnsupportedError("not yet"), code_pb2.UNIMPLEMENTED),
    (errors.UnavailableError("not here"), code_pb2.UNAVAILABLE),
    (errors.UnauthenticatedError("who is it"), code_pb2.UNAUTHENTICATED),
    (errors.PermissionDeniedError("not you"), code_pb2.PERMISSION_DENIED),
    (XlashapeError("something"), code_pb2.UNKNOWN),
]


class Failed(grpc.RpcError, grpc.Call):
    """The exception of gRPC that a client gets for a status."""

    def __init__(self, status: status_pb2.Status) -> None:
        self._status = status

    def code(self) -> grpc.StatusCode:
        return next(code for code in grpc.StatusCode if code.value[0] == self._status.code)

    def details(self) -> str:
        return self._status.message

    def trailing_metadata(self) -> Any:
        return (("something-else", "x"), ("grpc-status-details-bin", self._status.SerializeToString()))

    initial_metadata = is_active = time_remaining = cancel = add_callback = None


def detail(status: status_pb2.Status, kind: Any) -> Any:
    for packed in status.details:
        found = kind()
        if packed.Unpack(found):
            return found
    return None


@pytest.mark.parametrize(
    ("error", "code"), EXAMPLES, ids=lambda value: value.code if isinstance(value, XlashapeError) else ""
)
def test_the_client_raises_the_error_that_the_server_raised(error: XlashapeError, code: int) -> None:
    status = status_of(error)
    assert status.code == code
    info = detail(status, error_details_pb2.ErrorInfo)
    assert (info.domain, info.reason) == (DOMAIN, error.code.upper())
    arrived = exception_of(Failed(status), "server")
    assert type(arrived) is type(error)
    assert (arrived.message, arrived.details(), str(arrived)) == (error.message, error.details(), str(error))


def test_every_class_of_the_tree_has_an_example() -> None:
    def below(kind: type[XlashapeError]) -> set[type[XlashapeError]]:
        return {kind}.union(*(below(child) for child in kind.__subclasses__()))

    assert {type(error) for error, _ in EXAMPLES} == below(XlashapeError)


def test_details_that_any_client_understands() -> None:
    [violation] = detail(status_of(EXAMPLES[1][0]), error_details_pb2.BadRequest).field_violations
    assert (violation.field, violation.description) == ("shape.text", "x.hlo:3:7: expected ')'")
    assert status_of(EXAMPLES[1][0]).message == "shape.text: x.hlo:3:7: expected ')'"
    resource = detail(status_of(EXAMPLES[9][0]), error_details_pb2.ResourceInfo)
    assert (resource.resource_type, resource.resource_name) == ("instruction", "fusion.3")
    [quota] = detail(status_of(EXAMPLES[10][0]), error_details_pb2.QuotaFailure).violations
    assert (quota.subject, quota.description) == ("batch", "too many")


@pytest.mark.parametrize(
    "text",
    ["x" * 1_000_000, "ö€😀" * 100_000, "\ud800" * 5000, "\0" * 5000],
    ids=["long", "wide", "surrogates", "zeros"],
)
def test_details_stay_small_enough_for_headers(text: str) -> None:
    error = errors.ParseError(text, source_line=text, name=text, expected=text, found=text, field=text)
    status = status_of(error)
    assert 3 * len(status.message.encode()) + 4 * status.ByteSize() / 3 < 7500
    arrived = exception_of(Failed(status), "server")
    assert isinstance(arrived, errors.ParseError)
    assert (arrived.line, arrived.column) == (1, 1)


def test_a_huge_wrong_name_survives_the_wire(ask: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        ask("ShapeService/ByteSize", v1.ByteSizeRequest(shapes=[v1.ShapeInput(text="ß" * 300_000)]))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


class Context:
    """A stand-in for grpc.ServicerContext, with the methods that the guard calls."""

    def __init__(self, remaining: float | None = None) -> None:
        self.remaining = remaining
        self.status: Any = None
        self.callbacks: list[Callable[[], None]] = []

    def time_remaining(self) -> float | None:
        return self.remaining

    def abort_with_status(self, status: Any) -> None:
        self.status = status
        raise RuntimeError("aborted")

    def peer(self) -> str:
        return "test"

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def add_callback(self, callback: Callable[[], None]) -> bool:
        self.callbacks.append(callback)
        return True

    def cancel(self) -> None:
        raise AssertionError("nothing here takes that long")


def refused(guard: Guard, raises: BaseException, remaining: float | None = None) -> Any:
    def handler(call: Call, request: bytes) -> bytes:
        raise raises

    context = Context(remaining)
    with pytest.raises(RuntimeError, match="aborted"):
        GrpcCalls(guard, CallThreads(1, "call")).unary("Some/Rpc", handler).unary_unary(b"", context)
    return context.status


def test_an_unexpected_exception_is_logged_and_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    status = refused(Guard(Config()), KeyError("the secret"))
    assert status.code is grpc.StatusCode.INTERNAL
    assert "secret" not in status.details
    assert "the secret" in caplog.text
    assert not any("secret" in str(value) for _, value in status.trailing_metadata)


def test_running_out_of_memory_is_a_limit() -> None:
    assert refused(Guard(Config()), MemoryError()).code is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_deadline_is_the_callers_or_the_servers() -> None:
    guard = Guard(Config(max_call_seconds=5))
    late = errors.DeadlineExceededError("the deadline passed")
    assert refused(guard, late, remaining=0.0).code is grpc.StatusCode.DEADLINE_EXCEEDED
    status = refused(guard, errors.DeadlineExceededError("the deadline passed"), remaining=100.0)
    assert (status.code, status.details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "the call took more than 5 seconds")


def test_a_request_beyond_the_limit_is_refused_by_name() -> None:
    guard = Guard(Config(max_request_bytes=1024))
    calls, context = GrpcCalls(guard, CallThreads(1, "call")), Context()
    with pytest.raises(RuntimeError, match="aborted"):
        calls.unary("Some/Rpc", lambda _, data: data).unary_unary(bytes(1025), context)
    assert context.status.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert calls.unary("Some/Rpc", lambda _, data: data).unary_unary(bytes(1024), context) == bytes(1024)
    with pytest.raises(RuntimeError, match="aborted"):
        calls.client_stream("Some/Rpc", lambda _, requests: b"".join(requests)).stream_unary(
            iter([b"a", bytes(1025)]), context
        )


def test_a_compressed_request_is_unpacked_up_to_the_limit() -> None:
    calls = GrpcCalls(Guard(Config(max_request_bytes=1024)), CallThreads(1, "call"))
    echo = calls.unary("Some/Rpc", lambda _, data: data).unary_unary

    def status(request: bytes) -> Any:
        context = Context()
        with pytest.raises(RuntimeError, match="aborted"):
            echo(request, context)
        return context.status

    whole = gzip.compress(bytes(1024))
    assert echo(whole, Context()) == bytes(1024)
    assert status(gzip.compress(bytes(1025))).code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert status(gzip.compress(bytes(1 << 28))).code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert status(whole[:-9]).code is grpc.StatusCode.INVALID_ARGUMENT
    assert status(whole[:12] + b"nonsense").code is grpc.StatusCode.INVALID_ARGUMENT


def test_every_call_is_logged_at_level_debug(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard(Config(log_level="debug"))
    caplog.set_level("DEBUG", "xlashape_server")
    calls = GrpcCalls(guard, CallThreads(1, "call"))
    context: Any = Context()
    assert calls.unary("A/Quick", lambda _, data: data + b"!").unary_unary(b"abc", context) == b"abc!"
    assert calls.unary("A/Long", lambda _, data: data).unary_unary(b"abc", context) == b"abc"
    joined = calls.client_stream("A/In", lambda _, data: b"".join(data)).stream_unary
    assert joined(iter([b"a", b"b"]), context) == b"ab"
    echo = calls.both_streams("A/Out", lambda _, data: data).stream_stream
    assert list(echo(iter([b"a", b"b"]), context)) == [b"a", b"b"]
    for transport_ended in context.callbacks:
        transport_ended()
    refused(guard, errors.InvalidArgumentError("no"))
    # A server that another test has just closed may still log the calls that it cut off.
    facts = [record.facts for record in caplog.records if record.getMessage() == "call"]
    assert [(one["rpc"], one["code"]) for one in facts] == [
        ("A/Quick", "OK"),
        ("A/Long", "OK"),
        ("A/In", "OK"),
        ("A/Out", "OK"),
    ]
    assert facts[0]["peer"] == "test"
    [told] = [record.facts for record in caplog.records if record.getMessage() == "refused"]
    assert told == {"rpc": "Some/Rpc", "code": "INVALID_ARGUMENT", "error": "no"}


@pytest.mark.parametrize("field", ["dimensions[0]", "shapes[0].shape.dimensions[0]"])
def test_a_message_that_begins_with_the_field_does_not_repeat_it(field: str) -> None:
    status = status_of(errors.InvalidShapeError("dimensions[0]: a size is 0 or more: not -3", field=field))
    assert status.message == f"{field}: a size is 0 or more: not -3"
    other = status_of(errors.InvalidShapeError("dimensions[0]: no", field="shapes[0].other_dimensions[0]"))
    assert other.message == "shapes[0].other_dimensions[0]: dimensions[0]: no"
