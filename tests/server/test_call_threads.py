"""Calls while the system can start no more threads."""

from __future__ import annotations

import threading

import pytest

from xlashape_server.grpc_calls import CallThreads


def test_calls_wait_for_a_thread_where_the_system_has_none_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of `submit` would end the thread of grpc that accepts all calls."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    one = CallThreads(2, "call")
    go, found = threading.Event(), list[int]()
    one.submit(go.wait, 10)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        one.submit(found.append, 1).add_done_callback(print)
    go.set()
    one.shutdown()
    assert found == [1]
