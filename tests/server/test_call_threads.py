"""The threads of the gRPC server."""

from __future__ import annotations

import _thread
import threading
import time
from collections import Counter

import pytest

from xlashape_server.call_threads import CallThreads


def test_tasks_run_in_threads_up_to_the_maximum_and_the_others_wait() -> None:
    threads = CallThreads(3, "call")
    running, done, most = [0], threading.Semaphore(0), [0]
    lock, go = threading.Lock(), threading.Event()

    def task() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        go.wait(10)
        with lock:
            running[0] -= 1
        done.release()

    for _ in range(20):
        threads.submit(task)
    go.set()
    for _ in range(20):
        assert done.acquire(timeout=10)
    assert 1 <= most[0] <= 3
    threads.shutdown()


def test_the_thread_that_became_idle_last_runs_the_next_task() -> None:
    threads = CallThreads(8, "call")
    all_run = threading.Barrier(9)
    for _ in range(8):
        threads.submit(all_run.wait, 10)
    all_run.wait(10)
    names: Counter[str] = Counter()
    for _ in range(100):
        ended = threading.Event()

        def task(ended: threading.Event = ended) -> None:
            names[threading.current_thread().name] += 1
            ended.set()

        threads.submit(task)
        assert ended.wait(10)
        time.sleep(0.001)  # the thread becomes idle
    assert max(names.values()) > 50  # in turns each would have 12 or 13
    threads.shutdown()


def test_arguments_are_passed_and_a_task_that_raises_ends_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    threads = CallThreads(1, "call")
    found: list[tuple[int, int]] = []

    def wrong() -> None:
        raise ValueError("wrong")

    def right(a: int, *, b: int) -> None:
        found.append((a, b))

    threads.submit(wrong)
    threads.submit(right, 1, b=2)
    threads.shutdown()
    assert found == [(1, 2)]
    assert "a call failed" in caplog.text


def test_callbacks_are_told_once_whether_they_come_early_or_late() -> None:
    threads = CallThreads(1, "call")
    told: list[str] = []
    go, after = threading.Event(), threading.Event()

    def early(_: object) -> None:
        told.append("early")
        after.set()

    def late(_: object) -> None:
        told.append("late")

    task = threads.submit(go.wait, 10)
    task.add_done_callback(early)
    go.set()
    assert after.wait(10)
    threads.shutdown()
    task.add_done_callback(late)
    assert told == ["early", "late"]


@pytest.mark.parametrize("drop", [False, True])
def test_after_shutdown_no_task_is_taken_and_those_that_waited_are_run_or_dropped(drop: bool) -> None:
    threads = CallThreads(1, "call")
    started, go = threading.Event(), threading.Event()
    found: list[int] = []

    def first() -> None:
        started.set()
        go.wait(10)

    threads.submit(first)
    threads.submit(found.append, 1)
    assert started.wait(10)
    threads.shutdown(wait=False, cancel_futures=drop)
    go.set()
    threads.shutdown()
    assert found == ([] if drop else [1])
    with pytest.raises(RuntimeError, match="shut down"):
        threads.submit(go.wait)


def test_a_system_without_threads_refuses_the_first_task_and_lets_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    none = CallThreads(2, "call")
    with monkeypatch.context() as patch:
        patch.setattr(_thread, "start_new_thread", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            none.submit(print)
    one = CallThreads(2, "call")
    go = threading.Event()
    found: list[int] = []
    one.submit(go.wait, 10)
    with monkeypatch.context() as patch:
        patch.setattr(_thread, "start_new_thread", refuse)
        one.submit(found.append, 1)
    go.set()
    one.shutdown()
    assert found == [1]
