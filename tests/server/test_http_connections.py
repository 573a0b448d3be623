"""Connections over HTTP: what those held that their callers close, and the turns of all of them at the event loop."""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from http2_caller import PING, Http2Caller
from http_calls import LINEAR, QUESTION, ask
from server_processes import wait_until

from xlashape.proto import v1
from xlashape_server import Config, Server
from xlashape_server.callers import Caller

pytest.importorskip("connectrpc", reason="connectrpc needs Python 3.11")
pytest.importorskip("hypercorn", reason="hypercorn is not installed")

from xlashape_server.web.connections import Rotation


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


@pytest.mark.skipif(
    sys.platform != "linux", reason="reads the files of another process from /proc, which only Linux has"
)
def test_a_connection_that_its_caller_closes_is_closed(server: Server) -> None:
    [pid] = server.worker_pids
    assert ask(server, LINEAR, QUESTION).status == 200

    def descriptors() -> int:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())

    before = descriptors()
    for _ in range(50):  # each on a connection of its own
        assert ask(server, LINEAR, QUESTION).status == 200
    wait_until(lambda: descriptors() < before + 10, 10)


def test_answers_that_wait_for_a_caller_that_has_gone_hold_no_place(server: Server) -> None:
    """A caller that allows no byte of any answer, and closes its connections."""
    request = v1.ByteSizeRequest(shapes=[v1.ShapeInput(text="f32[4]")]).SerializeToString()
    with Http2Caller(server.http_address) as one, Http2Caller(server.http_address) as other:
        for caller in (one, other):
            for _ in range(64):
                caller.call("/xlashape.v1.ShapeService/ByteSize", request)
            caller.read(0.5)
        assert ask(server, LINEAR, QUESTION).status == 429
    wait_until(lambda: ask(server, LINEAR, QUESTION).status == 200, 10)


def test_priorities_cost_nothing(server: Server) -> None:
    """hypercorn keeps a tree of them: a change among 1,000 streams took milliseconds, and a connection holds half a million of them."""
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
    """Where a connection waits while it has a turn, others go on."""
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
