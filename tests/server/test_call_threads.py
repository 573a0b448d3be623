"""The threads of calls: where the system can start no more, in bursts, and with callers that send no request."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.support.http2_caller import Http2Caller
from xlashape_client import Client
from xlashape_server import Config, Server
from xlashape_server.grpc_calls import CallThreads

SHAPE = "f32[4,4]"


def test_calls_wait_for_a_thread_where_the_system_has_none_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of `submit` would end the thread of grpc that accepts all calls."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    threads = CallThreads(2, "call")
    go, found = threading.Event(), list[int]()
    threads.submit(go.wait, 10)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        last = threads.submit(found.append, 1)
    go.set()
    last.result(10)
    assert found == [1]


def test_a_burst_starts_no_more_threads_than_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.12 loses count of the threads that are free, and starts one for each call of a second burst."""
    monkeypatch.setattr("xlashape_server.grpc_calls._IDLE_SECONDS", 0.2)
    before = threading.active_count()
    threads = CallThreads(8, "call")
    for _ in range(3):
        for each in [threads.submit(time.sleep, 0.001) for _ in range(500)]:
            each.result(10)
        assert threading.active_count() - before <= 8
    time.sleep(0.6)
    assert threading.active_count() - before == 1
    assert threads.submit(lambda: 7).result(10) == 7


def test_calls_without_a_request_hold_no_thread() -> None:
    config = Config(address="127.0.0.1:0", workers=1, log_level="error", max_receive_seconds=2)
    with Server(config) as server, Http2Caller(server.address) as caller, Client(server.address, timeout=20) as client:

        def threads() -> int:
            return len(list(Path(f"/proc/{server.worker_pids[0]}/task").iterdir()))

        assert client.byte_size(SHAPE).physical_bytes == 64
        before = threads()
        for method in ("ShapeService/ByteSize", "ReportService/Memory"):
            for _ in range(500):
                caller.call(f"/xlashape.v1.{method}", None)
        began = time.monotonic()
        for _ in range(20):
            assert client.byte_size(SHAPE).physical_bytes == 64
        assert time.monotonic() - began < 1
        assert threads() <= before + 2


def test_calls_with_many_numbers_keep_no_small_one_waiting() -> None:
    """More of them than there are threads for small calls, each of which computes for some ten milliseconds."""
    config = Config(address="127.0.0.1:0", workers=1, log_level="error")
    numbers = np.zeros((500_000, 2), np.int64)
    with Server(config) as server, Client(server.address, timeout=60) as client, ThreadPoolExecutor(40) as pool:

        def bulk() -> int:
            with Client(server.address, timeout=60) as other:
                return len(other.linear_indices(SHAPE, numbers))

        assert client.byte_size(SHAPE).physical_bytes == 64
        found = [pool.submit(bulk) for _ in range(40)]
        first, slowest = time.monotonic(), 0.0
        while not all(each.done() for each in found):
            began = time.monotonic()
            assert client.byte_size(SHAPE).physical_bytes == 64
            slowest = max(slowest, time.monotonic() - began)
        assert [each.result() for each in found] == [500_000] * 40
        assert slowest < max(1.0, (time.monotonic() - first) / 4)  # the machine may be busy
