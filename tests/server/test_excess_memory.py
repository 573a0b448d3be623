"""Memory that no call accounts for: a worker that has too much of it for some time is replaced."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

import pytest

from tests.support.http2_caller import Http2Caller
from tests.support.server_processes import ServerProcess, children, wait_until
from xlashape_client import Client
from xlashape_server import Config, calls
from xlashape_server.callers import Shares
from xlashape_server.calls import Watch
from xlashape_server.memory import Memory
from xlashape_server.turns import Turns

MIB = 1 << 20
_ACCEPT_ENCODING = b"\x90"  # a header of HPACK's own table, in one byte; gRPC keeps some ninety for it


class Process:
    """A watch, and what the process has of memory at each of its looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, maximum: int = 1000 * MIB, base: int = 100 * MIB) -> None:
        memory = Memory(maximum)
        memory.base = base
        self.ends: list[float] = []
        self.resident = base
        self.now = 100.0
        self.watch = Watch(memory, Turns(1, Shares(1.0, 1.0)), receive_seconds=10, send_seconds=10)
        self.watch.end_process = lambda: self.ends.append(self.now)
        monkeypatch.setattr(calls, "resident_bytes", lambda: self.resident)
        monkeypatch.setattr(calls.time, "monotonic", lambda: self.now)

    def has(self, mebibytes: int, seconds: float) -> bool:
        """Whether the process ends itself while it has so much memory for so long."""
        self.resident = mebibytes * MIB
        end = self.now + seconds
        while self.now < end:
            self.watch._check_calls()
            self.now += 0.1
        return bool(self.ends)


def test_a_process_with_too_much_memory_for_some_seconds_ends_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    process = Process(monkeypatch)
    assert not process.has(1001, 4.5)
    with caplog.at_level(logging.ERROR):
        assert process.has(1001, 1)
    assert "more memory than max_worker_memory" in caplog.text


def test_much_too_much_memory_ends_it_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    assert not process.has(1300, 0.8)
    assert process.has(1300, 0.5)


def test_seconds_begin_anew_when_there_was_enough_memory_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    for _ in range(4):
        assert not process.has(1001, 4)
        assert not process.has(1300, 0.5)
        assert not process.has(999, 0.2)


def test_a_process_that_needs_as_much_at_its_start_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Process(monkeypatch, maximum=128 * MIB, base=100 * MIB).has(190, 60)
    assert Process(monkeypatch, maximum=128 * MIB, base=100 * MIB).has(201, 6)


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read on Linux")
def test_a_worker_that_a_flood_of_headers_fills_is_replaced() -> None:
    """gRPC itself keeps the headers of a connection, 90 bytes for each byte that comes, before any call begins: refusing calls frees nothing."""
    config = Config(address="127.0.0.1:0", workers=1, max_worker_memory=256 * MIB, log_level="warning")
    with ServerProcess(config) as server:
        [first] = children(server.process.pid)
        with Http2Caller(server.address) as attacker, suppress(OSError):
            for _ in range(2000):
                attacker.call("/xlashape.v1.ShapeService/ByteSize", None, fields=_ACCEPT_ENCODING * 16000)
                if server.logged("nothing left to refuse"):
                    break
            wait_until(lambda: bool(server.logged("nothing left to refuse")), 30)
        wait_until(lambda: bool(server.logged("starting it again")))
        with Client(server.address) as client:
            client.wait_until_ready(30)
            assert client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3)) == 17
        assert first not in children(server.process.pid)
        assert server.stop() == 0
