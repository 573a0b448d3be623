"""Calls while the system can start no more threads."""

from __future__ import annotations

import threading
import time

import pytest

from xlashape_server.call_threads import CallThreads


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
    monkeypatch.setattr("xlashape_server.call_threads._IDLE_SECONDS", 0.2)
    before = threading.active_count()
    threads = CallThreads(8, "call")
    for _ in range(3):
        for each in [threads.submit(time.sleep, 0.001) for _ in range(500)]:
            each.result(10)
        assert threading.active_count() - before <= 8
    time.sleep(0.6)
    assert threading.active_count() - before == 1
    assert threads.submit(lambda: 7).result(10) == 7


class Waiting:
    """A call of grpc whose request does not come."""

    def __init__(self) -> None:
        self.call = self
        self.ended = threading.Event()

    def cancel(self, code: int, details: str) -> None:
        assert code == 8
        assert details == "the request did not come within 0.01 seconds"
        self.ended.set()


def test_calls_without_a_request_give_way_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xlashape_server.call_threads._PATIENCE_SECONDS", 0.01)
    threads = CallThreads(4, "call")
    waiting = [Waiting() for _ in range(4)]
    for each in waiting:
        threads.submit(lambda call: call.ended.wait(10), each)
    time.sleep(0.05)
    assert threads.submit(lambda: 7).result(5) == 7
    assert [each.ended.is_set() for each in waiting].count(True) == 1
    threads.end_waiting(0.01)
    assert all(each.ended.is_set() for each in waiting)
