"""Connections over HTTP: what those held that their callers close, and the turns of all of them at the event loop."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from http2_caller import PING, Http2Caller
from http_calls import JSON, LINEAR, QUESTION, ask, head
from server_processes import wait_until

from xlashape.proto import v1
from xlashape_server import Config, Server
from xlashape_server.callers import Caller

pytest.importorskip("connectrpc", reason="connectrpc needs Python 3.11")
pytest.importorskip("hypercorn", reason="hypercorn is not installed")

from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config as HypercornConfig

from xlashape_server.web.connections import Connection, Rotation

GET = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that is patient with callers: what ends early does not end because of a limit of time."""
    config = Config(
        address="127.0.0.1:0",
        http="127.0.0.1:0",
        workers=1,
        max_concurrent_calls=64,
        keepalive_seconds=600,
        log_level="error",
    )
    with Server(config) as running:
        yield running


reads_proc = pytest.mark.skipif(
    sys.platform != "linux", reason="reads the files of another process from /proc, which only Linux has"
)


def descriptors(server: Server) -> int:
    [pid] = server.worker_pids
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def connect(server: Server) -> socket.socket:
    """A connection that receives a few kB before the server has to wait until they are read."""
    host, _, port = server.http_address.rpartition(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
    made.settimeout(20)
    made.connect((host, int(port)))
    return made


@reads_proc
def test_a_connection_that_its_caller_closes_is_closed(server: Server) -> None:
    assert ask(server, LINEAR, QUESTION).status == 200
    before = descriptors(server)
    for _ in range(50):  # each on a connection of its own
        assert ask(server, LINEAR, QUESTION).status == 200
    wait_until(lambda: descriptors(server) < before + 10, 10)


@reads_proc
def test_a_connection_whose_caller_ends_its_sending_and_reads_nothing_is_closed(server: Server) -> None:
    question = v1.MultiIndexRequest(shape=v1.ShapeInput(text="f32[64,64]"), positions=[1] * 1_000_000)
    content = question.SerializeToString()
    assert ask(server, LINEAR, QUESTION).status == 200
    before = descriptors(server)
    callers = [connect(server) for _ in range(10)]
    try:
        for caller in callers:
            caller.sendall(head("/xlashape.v1.ShapeService/MultiIndex", "application/proto", len(content)) + content)
            caller.shutdown(socket.SHUT_WR)
        wait_until(lambda: descriptors(server) < before + 5, 20)
    finally:
        for caller in callers:
            caller.close()


@pytest.mark.parametrize("count", [1, 2])
def test_a_caller_that_ends_its_sending_is_answered(server: Server, count: int) -> None:
    """As `nc -N` does, and scripts that end their sending to say that the request is whole."""
    content = json.dumps(QUESTION).encode()
    with connect(server) as caller:
        caller.sendall((head(LINEAR, JSON, len(content)) + content) * count)
        caller.shutdown(socket.SHUT_WR)
        received = b""
        while part := caller.recv(65536):
            received += part
    assert received.count(b"HTTP/1.1 200") == received.count(b'{"positions":["17"]}') == count, received


Answering = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]


async def one_connection(
    answer: Answering,
    started: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None],
    request: bytes = GET,
    secured: tuple[ssl.SSLContext, ssl.SSLContext] | tuple[None, None] = (None, None),
) -> None:
    """Serves one connection, whose caller sends `request` and reads nothing, until the server is done with it. `started` gets the server's end,
    `secured` has the settings of TLS of both ends."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        started(reader, writer)
        caller = Caller("a", "b")
        await Connection(answer, HypercornConfig(), WorkerContext(None), Rotation(), caller, 0.1, reader, writer)
        done.set_result(None)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=secured[0])
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=secured[1], limit=1 << 12)
    writer.write(request)
    try:
        await asyncio.wait_for(done, 20)
    finally:
        writer.transport.abort()
        server.close()


def test_a_call_is_cancelled_though_its_request_and_the_end_were_read_at_once() -> None:
    ends: list[str] = []

    async def answer(*_: object) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    def started(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        reader.feed_data(GET)
        reader.feed_eof()

    asyncio.run(one_connection(answer, started, b""))
    assert ends == ["cancelled"]


@pytest.mark.parametrize("is_secured", [False, True], ids=["plain", "TLS"])
def test_a_closed_connection_waits_for_its_reader_for_a_bounded_time(
    is_secured: bool, request: pytest.FixtureRequest
) -> None:
    secured: Any = (None, None)
    if is_secured:
        certificate, key = request.getfixturevalue("tls_pair")
        here, there = (
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
            ssl.create_default_context(cafile=certificate),
        )
        here.load_cert_chain(certificate, key)
        there.check_hostname = False
        secured = (here, there)
    sent: list[int] = []

    async def answer(_: object, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": bytes(64 << 20), "more_body": True})
        sent.append(64 << 20)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def started(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(1 << 30)  # the answer is taken whole

    asyncio.run(one_connection(answer, started, secured=secured))
    assert sent == [64 << 20]


def _work(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.mark.parametrize("is_own", [False, True], ids=["of others", "own"])
def test_pieces_become_smaller_by_the_work_of_their_own_connection(is_own: bool) -> None:
    sizes: list[int] = []

    class Reader:
        def at_eof(self) -> bool:
            return len(sizes) == 3

        async def read(self, size: int) -> bytes:
            sizes.append(size)
            return b"x"

    class Protocol:
        async def handle(self, _: object) -> None:
            if is_own:
                _work(0.02)
            others = asyncio.create_task(other())
            await asyncio.sleep(0)  # as where a call has not taken what was read before
            await others

    async def other() -> None:
        if not is_own:
            _work(0.02)

    async def answer(*_: object) -> None:
        pass

    async def run() -> None:
        streams: tuple[Any, Any] = (Reader(), None)
        settings, context = HypercornConfig(), WorkerContext(None)
        connection = Connection(answer, settings, context, Rotation(), Caller("a", "b"), 1, *streams)
        connection.protocol = Protocol()  # type: ignore[assignment]
        await connection._read_data()  # pyright: ignore[reportPrivateUsage]

    asyncio.run(run())
    assert (sizes[0] > sizes[1]) == is_own
    assert (sizes[0] < sizes[1]) != is_own


def test_answers_that_wait_for_a_caller_that_has_gone_hold_no_place(server: Server) -> None:
    """A caller that allows no byte of any answer, and closes its connections."""
    request = v1.ByteSizeRequest(shapes=[v1.ShapeInput(text="f32[4]")]).SerializeToString()
    with Http2Caller(server.http_address) as one, Http2Caller(server.http_address) as other:
        for caller in (one, other):
            for _ in range(64):
                caller.call("/xlashape.v1.ShapeService/ByteSize", request)
            caller.read(0.1)
        wait_until(lambda: ask(server, LINEAR, QUESTION).status == 429, 10)
    wait_until(lambda: ask(server, LINEAR, QUESTION).status == 200, 10)


def test_priorities_cost_nothing(server: Server) -> None:
    """hypercorn alone keeps a tree of the priorities of streams: with 1,000 streams, each PRIORITY frame takes it milliseconds, and there may be
    half a million of these frames in what is received of one connection."""
    frames = b"".join(b"\0\0\5\2\0" + struct.pack(">IIB", stream, 0, 1) for stream in range(1, 1980, 2))
    ping = b"\0\0\10\6\0" + bytes(12)
    with Http2Caller(server.http_address) as caller:
        caller.send(frames * 60 + ping)
        assert ask(server, LINEAR, QUESTION).status == 200

        def is_answered() -> bool:
            caller.read(0.1)
            return any(kind == PING for kind, _, _ in caller.seen)

        wait_until(is_answered, 20)


def test_connections_have_turns_in_rotation_among_callers() -> None:
    """However many connections a caller has, and however often they ask."""
    turns: list[str] = []

    async def one(rotation: Rotation, identity: str, count: int) -> None:
        for _ in range(count):
            await rotation.turn(Caller(identity, "any"))
            turns.append(identity)

    async def all_of_them() -> None:
        rotation = Rotation()
        many = [asyncio.create_task(one(rotation, "many", 10)) for _ in range(20)]
        await asyncio.sleep(0)
        await one(rotation, "one", 5)
        many[0].cancel()  # a connection that ends while it waits
        await asyncio.gather(*many, return_exceptions=True)
        await one(rotation, "one", 1)

    asyncio.run(all_of_them())
    assert turns.count("one") == 6
    assert turns[:12].count("one") == 5
    assert turns.count("many") >= 190


def test_a_turn_lasts_one_round_of_the_event_loop() -> None:
    """A connection that awaits something during its turn does not keep the turn from the next connection."""
    done: list[int] = []

    async def one(rotation: Rotation, number: int) -> None:
        await rotation.turn(Caller("a", str(number)))
        if number == 0:
            await asyncio.sleep(3600)
        done.append(number)

    async def all_of_them() -> None:
        rotation = Rotation()
        tasks = [asyncio.create_task(one(rotation, number)) for number in range(5)]
        for _ in range(20):
            await asyncio.sleep(0)
        tasks[0].cancel()

    asyncio.run(all_of_them())
    assert done == [1, 2, 3, 4]
