"""The threads of a grpc server: a thread runs one call at a time, and the thread that became idle last runs the next
one.

`concurrent.futures.ThreadPoolExecutor` wakes its threads in turns, each with caches that are cold by then, and makes a
`Future` with a condition for each call, of which grpc uses only `add_done_callback`. With these threads a small call
takes 5 % less (10 µs of 200 µs of the server's processor time; paired differences of `tests/benchmarks/bench_service.py
--processor`).
"""

from __future__ import annotations

import _thread
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any

_log = logging.getLogger("xlashape_server.calls")


class CallThreads(Executor):
    """At most `maximum` threads. They are started when they are needed, and then kept. They do not keep the process
    alive.
    """

    def __init__(self, maximum: int, name: str) -> None:
        self._maximum = maximum
        self._name = name
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._started = 0
        self._idle: list[_Thread] = []
        self._waiting: deque[_Task] = deque()
        self._is_shut_down = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Runs the function in a thread, once one is free. The result has `add_done_callback`, the only method of a
        future that grpc calls.
        """
        task = _Task(partial(fn, **kwargs) if kwargs else fn, args)
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError("the threads were shut down")
            if self._idle:
                thread = self._idle.pop()
                thread.task = task
                thread.woken.release()
            elif self._started >= self._maximum or not self._start(task):
                self._waiting.append(task)
        return task

    def _start(self, task: _Task) -> bool:
        try:
            # Thread.start waits until the new thread has run, while the thread that takes calls from grpc is here:
            # beside two that compute, that was ten milliseconds for each new thread, and one without the waiting.
            _thread.start_new_thread(self._run, (_Thread(task), f"{self._name}_{self._started}"))
        except RuntimeError:  # the system gives no more threads: the task waits for one of those that there are
            if not self._started:
                raise
            return False
        self._started += 1
        return True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more tasks. Tasks that were submitted are still run, unless `cancel_futures`; `wait` waits for
        them.
        """
        with self._lock:
            self._is_shut_down = True
            if cancel_futures:
                self._waiting.clear()
            for thread in self._idle:
                thread.woken.release()
            self._started -= len(self._idle)
            self._idle.clear()
            if wait:
                self._ended.wait_for(lambda: not self._started)

    def _run(self, thread: _Thread, name: str) -> None:
        threading.current_thread().name = name
        while True:
            task = thread.task
            if task is None:
                return
            thread.task = None
            try:
                task.function(*task.arguments)
            except BaseException as error:  # the thread serves other calls, too
                _log.error("a call failed", exc_info=error)
            task.ended()
            del task
            with self._lock:
                if self._waiting:
                    thread.task = self._waiting.popleft()
                    continue
                if self._is_shut_down:
                    self._started -= 1
                    self._ended.notify_all()
                    return
                self._idle.append(thread)
            thread.woken.acquire()


class _Task:
    """A function to run, and who is told when it has ended."""

    __slots__ = ("_callbacks", "_has_ended", "arguments", "function")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function = function
        self.arguments = arguments
        self._callbacks: list[Callable[[Any], object]] = []
        self._has_ended = False

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Calls `callback` once when the task has ended, in its thread, or now if it has ended already."""
        self._callbacks.append(callback)
        if self._has_ended:
            self.ended()

    def ended(self) -> None:
        """The task has ended."""
        self._has_ended = True
        # Two threads may be here at once: each callback is taken out by one of them.
        while self._callbacks:
            try:
                callback = self._callbacks.pop()
            except IndexError:
                return
            callback(self)


class _Thread:
    """What a thread is to run next, and the lock that it waits for meanwhile."""

    __slots__ = ("task", "woken")

    def __init__(self, task: _Task) -> None:
        self.task: _Task | None = task
        self.woken = threading.Lock()
        self.woken.acquire()
