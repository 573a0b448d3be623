"""The threads in which grpc runs handlers.

A call whose caller has sent its headers and not yet its request holds a thread, and gives it up to any other call: when
no thread is free, the call that has waited longest for its request is ended.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grpc

_IDLE_SECONDS = 10.0  # seconds after which a thread without a call ends
_PATIENCE_SECONDS = 1.0  # seconds in which a request must come while no thread is free: a burst takes long to be read


class CallThreads(ThreadPoolExecutor):
    """At most `most` threads; while none is free, a request must come within `patience` seconds. grpc asks for this
    class; its own methods are not used, since Python 3.12 starts a thread
    for each call of a burst although others are free.
    """

    def __init__(self, most: int, name: str, patience: float | None = None) -> None:
        super().__init__(1)
        self._most, self._name = most, name
        self._patience = _PATIENCE_SECONDS if patience is None else patience
        self._tasks: queue.SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = queue.SimpleQueue()
        self._room = threading.Lock()
        self._queued = 0
        self._waiting: dict[int, tuple[float, Any]] = {}
        """Thread → since when its call waits for a request, and grpc's object for the call."""
        self.ended = 0
        """How many calls were ended because their request did not come."""
        self._start()
        self._count = self._free = 1

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Runs the function in a thread, once one is free."""
        del kwargs
        future: Future[Any] = Future()
        with self._room:
            if self._free:
                self._free -= 1
            elif self._count < self._most and self._start():
                self._count += 1
            else:
                self._queued += 1
        self._tasks.put((future, fn, args))
        if self._queued:
            self._end_longest(self._patience)
        return future

    def _start(self) -> bool:
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError:  # the system refuses a thread; the call waits for one that exists
            return False
        return True

    def _run(self) -> None:
        me = threading.get_ident()
        while True:
            try:
                future, function, arguments = self._tasks.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._room:
                    if self._free and self._count > 1:  # none of the free threads was chosen for a task
                        self._free -= 1
                        self._count -= 1
                        return
                continue
            call = next((found for each in arguments if (found := getattr(each, "call", None)) is not None), None)
            if call is not None:
                self._waiting[me] = time.monotonic(), call
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)
            self._waiting.pop(me, None)
            del future, function, arguments, call
            with self._room:
                if self._queued:
                    self._queued -= 1
                else:
                    self._free += 1

    def arrived(self) -> None:
        """Notes that the request of this thread's call has arrived."""
        self._waiting.pop(threading.get_ident(), None)

    @property
    def waiting(self) -> int:
        """How many calls wait for their request."""
        return len(self._waiting)

    def end_waiting(self, seconds: float) -> None:
        """Ends the calls whose request has not come for so many seconds, and others while no thread is free."""
        while self._end_longest(self._patience if self._queued else seconds):
            pass

    def _end_longest(self, seconds: float) -> bool:
        """Ends the call that has waited longest, if it has waited for so many seconds. Returns whether it has."""
        found = list(self._waiting.items())
        if not found:
            return False
        thread, (since, call) = min(found, key=lambda each: each[1][0])
        if time.monotonic() - since < seconds or self._waiting.pop(thread, None) is None:
            return False
        self.ended += 1
        text = f"the request did not come within {seconds:g} seconds"
        call.cancel(grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], text)
        return True
