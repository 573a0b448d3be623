"""Streams of requests are read with a timeout for each message."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from xlashape.errors import DeadlineExceededError
from xlashape.proto import v1
from xlashape_server import Config, Server
from xlashape_server.grpc_calls import received

LATE = "the deadline passed before the stream of requests ended"


@contextmanager
def echo(seconds: float) -> Generator[Any]:
    """Yields a function that calls a gRPC server, which answers each message with the message itself. `seconds` is the
    server's timeout for a message."""

    def handler(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        try:
            with closing(received(requests, time.monotonic() + seconds)) as stream:
                yield from stream
        except DeadlineExceededError as error:
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, str(error))

    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        handlers: dict[str, Any] = {"Echo": grpc.stream_stream_rpc_method_handler(handler)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as made:
            channel: Any = made
            yield channel.stream_stream("/test.Echo/Echo")
        server.stop(0).wait()


def stalled(first: bytes, wait: threading.Event) -> Iterator[bytes]:
    """Yields one message, and then waits for `wait`."""
    yield first
    wait.wait(60)


def test_messages_of_grpc_come_in_order() -> None:
    with echo(60) as ask:
        messages = [bytes([number]) * number for number in range(100)]
        assert list(ask(iter(messages))) == messages
        assert list(ask(iter([]))) == []


def test_messages_of_another_iterator_are_read_too() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    later = time.monotonic() + 60
    assert list(received(iter([1, 2, 3]), later)) == [1, 2, 3]
    assert list(received(iter([]), later)) == []
    stream = received(broken(), later)
    assert next(stream) == 1
    with pytest.raises(ValueError, match="broken"):
        next(stream)


def test_a_message_of_another_iterator_that_does_not_come_is_not_waited_for() -> None:
    wait = threading.Event()
    with closing(received(stalled(b"first", wait), time.monotonic() + 0.2)) as stream:
        assert next(stream) == b"first"
        with pytest.raises(DeadlineExceededError, match=LATE):
            next(stream)
    wait.set()


def test_a_message_of_grpc_that_does_not_come_is_not_waited_for() -> None:
    wait = threading.Event()
    with echo(0.5) as ask:
        answers = ask(stalled(b"first", wait), timeout=60)
        assert next(answers) == b"first"
        with pytest.raises(grpc.RpcError) as caught:
            next(answers)
        wait.set()
    error: Any = caught.value
    assert (error.code(), error.details()) == (grpc.StatusCode.DEADLINE_EXCEEDED, LATE)


def test_a_stream_that_stalls_ends_with_the_servers_limit_and_its_details() -> None:
    wait = threading.Event()
    shape = v1.ShapeInput(text="f32[3,5]")
    first = v1.LinearIndicesRequest(shape=shape, indices=[1, 2]).SerializeToString()
    config = Config(address="127.0.0.1:0", workers=1, max_call_seconds=1)
    with Server(config) as server, grpc.insecure_channel(server.address) as made:
        channel: Any = made
        answers = channel.stream_stream("/xlashape.v1.ShapeService/LinearIndices")(stalled(first, wait), timeout=60)
        assert v1.LinearIndicesResponse.FromString(next(answers)).positions == [7]
        with pytest.raises(grpc.RpcError) as caught:
            next(answers)
        wait.set()
    error: Any = caught.value
    assert (error.code(), error.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "the call took more than 1 seconds")
    [data] = [value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin"]
    info = error_details_pb2.ErrorInfo()
    assert status_pb2.Status.FromString(data).details[0].Unpack(info)
    assert info.metadata["limit"] == "call_seconds"


def test_idle_streams_of_numbers_keep_no_small_call_waiting() -> None:
    config = Config(address="127.0.0.1:0", workers=1, log_level="error", grace_seconds=0)
    with Server(config) as server, grpc.insecure_channel(server.address) as made:
        channel: Any = made
        idle = threading.Event()
        request = v1.ByteSizeRequest(shapes=[v1.ShapeInput(text="f32[2]")]).SerializeToString()
        streams = [
            channel.stream_stream(f"/xlashape.v1.{rpc}")(iter(idle.wait, True), timeout=60)
            for rpc in ("ShapeService/LinearIndices", "ShapeService/MultiIndices", "IndexingService/EvaluateMapBatch")
            for _ in range(20)
        ]
        try:
            time.sleep(1)
            for _ in range(50):
                channel.unary_unary("/xlashape.v1.ShapeService/ByteSize")(request, timeout=10)
            assert not any(stream.done() for stream in streams)
        finally:
            idle.set()
