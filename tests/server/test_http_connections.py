"""Connections over HTTP that their callers close: what they held is free at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from http2_caller import Http2Caller
from http_calls import LINEAR, QUESTION, ask
from server_processes import wait_until

from xlashape.proto import v1
from xlashape_server import Config, Server

pytest.importorskip("connectrpc", reason="connectrpc needs Python 3.11")
pytest.importorskip("hypercorn", reason="hypercorn is not installed")


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
