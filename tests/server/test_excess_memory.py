"""Memory that belongs to no call: a worker that has too much of it for some seconds is replaced."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

import pytest

from tests.support.http2_caller import Http2Caller
from tests.support.server_processes import ServerProcess, children, wait_until
from xlashape_client import Client
from xlashape_server import Config, calls
from xlashape_server.callers import Caller, Shares
from xlashape_server.calls import Call, Watch
from xlashape_server.memory import Memory
from xlashape_server.turns import Turns

MIB = 1 << 20
_ACCEPT_ENCODING = b"\x90"  # a header in HPACK's static table: one byte on the wire, some ninety in gRPC's memory


class Process:
    """A watch whose process has the memory that a test sets, each time that the watch looks."""

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
        """Whether the process ends itself while it has `mebibytes` of memory for `seconds`."""
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
    assert not process.has(1001, 9.5)
    with caplog.at_level(logging.ERROR):
        assert process.has(1001, 1)
    assert "too much memory for seconds" in caplog.text


def test_much_too_much_memory_ends_it_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    assert not process.has(1501, 1.5)
    assert process.has(1501, 1)


def test_seconds_begin_anew_when_there_was_enough_memory_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    for _ in range(4):
        assert not process.has(1001, 8)
        assert not process.has(1501, 1.5)
        assert not process.has(999, 0.2)


def test_seconds_in_which_the_process_did_not_run_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    for _ in range(4):
        assert not process.has(1501, 0.1)
        process.now += 30
    for _ in range(8):
        assert not process.has(1001, 0.1)
        process.now += 30


def test_a_process_that_needs_as_much_at_its_start_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Process(monkeypatch, maximum=128 * MIB, base=100 * MIB).has(260, 60)
    assert Process(monkeypatch, maximum=128 * MIB, base=100 * MIB).has(265, 11)


@pytest.mark.parametrize(("mebibytes", "count"), [(1100, 1), (1300, 8)])
def test_more_calls_are_refused_where_there_is_more_too_much(
    monkeypatch: pytest.MonkeyPatch, mebibytes: int, count: int
) -> None:
    process = Process(monkeypatch)
    refused: list[int] = []
    held: list[Call] = []
    for i in range(12):
        call = process.watch.admit(
            "A/B", lambda: Caller("a", "a:1"), 1000.0, lambda call, error, i=i: refused.append(i), ()
        )
        call.receives_first()
        call.lease.take((i + 1) * MIB)
        held.append(call)
    process.has(mebibytes, 0.05)
    assert refused == [*range(11, 11 - count, -1)]
    assert [call.refusal is not None for call in held] == [i > 11 - count for i in range(12)]


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read on Linux")
def test_a_worker_that_a_flood_of_headers_fills_is_replaced() -> None:
    """gRPC keeps the headers of a connection before a call begins: 90 bytes of memory for each received byte. Refusing
    calls does not free them."""
    config = Config(address="127.0.0.1:0", workers=1, max_worker_memory=256 * MIB, log_level="warning")
    with ServerProcess(config) as server:
        [first] = children(server.process.pid)
        with Http2Caller(server.address) as attacker, suppress(OSError):
            for _ in range(2000):
                attacker.call("/xlashape.v1.ShapeService/ByteSize", None, fields=_ACCEPT_ENCODING * 16000)
                if server.logged("too much memory for seconds"):
                    break
            wait_until(lambda: bool(server.logged("too much memory for seconds")), 30)
        wait_until(lambda: bool(server.logged("starting it again")))
        with Client(server.address) as client:
            client.wait_until_ready(30)
            assert client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3)) == 17
        assert first not in children(server.process.pid)
        assert server.stop() == 0
