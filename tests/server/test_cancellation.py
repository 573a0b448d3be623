"""Blocking calls that another thread cancels, tokens that change, waiting for a server, and interceptors, for both
clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from xlashape.errors import DeadlineExceededError, UnavailableError, XlashapeError
from xlashape_client import AsyncClient, Cancellation, Client
from xlashape_server import Server

SHAPE = "f32[3,5]{1,0:T(2,2)}"
SECONDS = 30


class Silent:
    """A server that answers no call. It records which calls have begun, with their metadata, and which calls the client
    has ended.
    """

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self.authorizations: list[Any] = []
        self._server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((_Handler(self._wait),))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _wait(self, request: Any, context: grpc.ServicerContext) -> Iterator[bytes]:
        over = threading.Event()
        if not context.add_callback(over.set):
            over.set()
        self.authorizations.append(dict(context.invocation_metadata()).get("authorization"))
        self.begun.release()
        over.wait(SECONDS)
        self.ended.release()
        yield from ()

    def stop(self) -> None:
        self._server.stop(None)


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, wait: Any) -> None:
        self._wait = wait

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        return grpc.stream_stream_rpc_method_handler(self._wait)


@pytest.fixture
def silent() -> Iterator[Silent]:
    made = Silent()
    yield made
    made.stop()


CALLS: dict[str, Callable[[Any], Any]] = {
    "one answer": lambda client: client.byte_size(SHAPE),
    "an upload in parts": lambda client: client.put_module(b"HloModule m" + b" " * (2 << 20)),
    "a report": lambda client: client.map(b"HloModule m"),
    "pages": lambda client: list(client.list_instructions(b"HloModule m")),
    "streams both ways": lambda client: client.multi_indices("f32[2000000]", range(1_000_000)),
    "the wait for the server": lambda client: client.wait_until_ready(SECONDS),
}


@pytest.mark.parametrize("name", CALLS)
def test_another_thread_ends_a_call_that_blocks(name: str, silent: Silent) -> None:
    cancellation = Cancellation()
    with Client(silent.address, timeout=SECONDS) as client, ThreadPoolExecutor(1) as thread:
        call = thread.submit(CALLS[name], client.with_cancellation(cancellation))
        assert silent.begun.acquire(timeout=SECONDS)
        cancellation.cancel()
        with pytest.raises(CancelledError, match="was cancelled"):
            call.result(SECONDS)
        assert silent.ended.acquire(timeout=SECONDS)  # on the server too


def test_one_cancellation_ends_many_calls_and_no_others(silent: Silent, server: Server) -> None:
    cancellation = Cancellation()
    with Client(silent.address, timeout=SECONDS) as waiting, Client(server.address) as client:
        stoppable = [client.with_cancellation(cancellation) for client in (waiting, client)]
        with ThreadPoolExecutor(4) as threads:
            calls = [threads.submit(stoppable[0].byte_size, SHAPE) for _ in range(4)]
            for _ in calls:
                assert silent.begun.acquire(timeout=SECONDS)
            assert not cancellation.is_cancelled
            cancellation.cancel()
            for call in calls:
                with pytest.raises(CancelledError):
                    call.result(SECONDS)
        assert cancellation.is_cancelled
        with pytest.raises(CancelledError):
            stoppable[1].byte_size(SHAPE)
        with pytest.raises(CancelledError):
            next(iter(stoppable[1].list_instructions(b"HloModule m\n\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n")))
        assert client.byte_size(SHAPE).physical_bytes == 96
        assert client.with_cancellation(Cancellation()).byte_size(SHAPE).physical_bytes == 96


MISTAKEN: dict[str, Callable[[Any], Any]] = {
    "a shape": lambda client: client.byte_size("f32[2,"),
    "a module": lambda client: client.map(b"HloModule"),
}


@pytest.mark.parametrize("name", MISTAKEN)
def test_errors_with_a_cancellation_are_those_without(name: str, client: Client) -> None:
    told: list[tuple[type[Exception], str]] = []
    for asked in (client, client.with_cancellation(Cancellation())):
        with pytest.raises(XlashapeError) as caught:
            MISTAKEN[name](asked)
        told.append((caught.type, str(caught.value)))
    assert told[0] == told[1]


def test_a_call_with_a_cancellation_ends_at_its_deadline(silent: Silent) -> None:
    with Client(silent.address, timeout=0.2) as client, pytest.raises(DeadlineExceededError):
        client.with_cancellation(Cancellation()).byte_size(SHAPE)


@pytest.mark.parametrize("name", CALLS)
def test_a_closed_client_says_so(name: str, server: Server) -> None:
    with Client(server.address) as client:
        stoppable = client.with_cancellation(Cancellation())
    for asked in (client, stoppable):
        with pytest.raises(UnavailableError, match="is closed"):
            CALLS[name](asked)


def test_each_call_asks_for_the_token(silent: Silent) -> None:
    tokens = iter(["first", "second", "third"])
    cancellation = Cancellation()
    with Client(silent.address, token=lambda: next(tokens), timeout=SECONDS) as client:
        stoppable = client.with_cancellation(cancellation)
        with ThreadPoolExecutor(1) as threads:
            call = threads.submit(stoppable.byte_size, SHAPE)
            assert silent.begun.acquire(timeout=SECONDS)
            answers = client.stream("EvaluateMapBatch", iter([b""]), None)
            assert silent.begun.acquire(timeout=SECONDS)
            cancellation.cancel()
            with pytest.raises(CancelledError):
                call.result(SECONDS)
            del answers
    assert silent.authorizations == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("awaits", [False, True])
def test_tasks_ask_for_the_token_too(awaits: bool, silent: Silent) -> None:
    tokens = iter(["first", "second"])

    async def given() -> str:
        await asyncio.sleep(0)
        return next(tokens)

    async def main() -> None:
        async with AsyncClient(silent.address, token=given if awaits else lambda: next(tokens)) as client:
            for _ in range(2):
                call = asyncio.create_task(client.byte_size(SHAPE))
                assert await asyncio.to_thread(silent.begun.acquire, timeout=SECONDS)
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call

    asyncio.run(main())
    assert silent.authorizations == ["Bearer first", "Bearer second"]


def test_the_error_of_a_token_function_is_that_of_the_call(server: Server) -> None:
    def token() -> str:
        raise PermissionError("the vault is closed")

    with Client(server.address, token=token) as client, pytest.raises(PermissionError, match="vault"):
        client.byte_size(SHAPE)


def test_the_wait_for_a_server(server: Server, silent: Silent) -> None:
    with Client(server.address) as client:
        client.wait_until_ready()
    with pytest.raises(UnavailableError, match="is closed"):
        client.wait_until_ready(1)
    with Client(silent.address) as client, pytest.raises(UnavailableError, match="does not serve"):
        client.wait_until_ready(0.3)


class _Counts(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        self.seen.append(client_call_details.method)
        return continuation(client_call_details, request)

    intercept_unary_stream = intercept_unary_unary


class _Generates(grpc.UnaryStreamClientInterceptor):
    """Turns a stream of answers into a generator, as OpenTelemetry's interceptor does."""

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        def answers() -> Iterator[bytes]:
            yield from continuation(client_call_details, request)

        return answers()


class _AwaitedCounts(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        self.seen.append(client_call_details.method)
        return await continuation(client_call_details, request)


def test_interceptors_see_calls(server: Server) -> None:
    counts = _Counts()
    with Client(server.address, interceptors=[counts]) as client:
        assert client.byte_size(SHAPE).physical_bytes == 96
        assert client.with_cancellation(Cancellation()).byte_size(SHAPE).physical_bytes == 96
        with pytest.raises(XlashapeError):
            client.map(b"HloModule")
    assert counts.seen == [
        *2 * ["/xlashape.v1.ShapeService/ByteSize"],
        "/xlashape.v1.IndexingService/IndexingMaps",
    ]


def test_streams_of_interceptors_are_read_left_and_ended(server: Server) -> None:
    module = b"HloModule m\n\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT n = f32[2] negate(p)\n}\n"
    cancellation = Cancellation()
    with Client(server.address, interceptors=[_Generates()]) as client:
        assert [found.name for found in client.list_instructions(module)] == ["p", "n"]
        found = client.with_cancellation(cancellation).list_instructions(module, page_size=1)
        assert next(found).name == "p"
        cancellation.cancel()
        with pytest.raises(CancelledError):
            next(found)
        left = client.list_instructions(module, page_size=1)
        assert next(left).name == "p"
        left.close()


def test_interceptors_of_asyncio_see_calls(server: Server) -> None:
    counts = _AwaitedCounts()

    async def main() -> None:
        async with AsyncClient(server.address, interceptors=[counts]) as client:
            assert (await client.byte_size(SHAPE)).physical_bytes == 96

    asyncio.run(main())
    assert counts.seen in (["/xlashape.v1.ShapeService/ByteSize"], [b"/xlashape.v1.ShapeService/ByteSize"])
