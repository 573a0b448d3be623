"""The threads in which grpc runs handlers.

A call holds a thread once its request is there. By itself grpc gives a call its thread when its headers have come, and
waits there for the request, so callers that send headers alone would take all threads.
"""

from __future__ import annotations

import importlib
import inspect
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grpc
from grpc._cython import cygrpc

_IDLE_SECONDS = 10.0  # seconds after which a thread without a call ends
_MOST_WAITING = 8192  # calls that wait for their requests; of more, those that have waited longest are ended
_SMALL_BYTES = 16 << 10  # bytes of a request that is answered before long
_GRPC: Any = importlib.import_module("grpc._server")  # nothing public has a request received without a thread
_RECEIVES_WITHOUT_THREAD = (
    hasattr(_GRPC, "_RECEIVE_MESSAGE_TOKEN")
    and hasattr(_GRPC, "_receive_message")
    and [*inspect.signature(_GRPC._receive_message).parameters] == ["state", "call", "request_deserializer"]
)
"""Whether grpc is as known, as versions 1.71 to 1.85 are. With another one calls hold a thread while they wait."""
_Task = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...]]


class CallThreads(ThreadPoolExecutor):
    """At most `most` threads. grpc asks for this class; its own methods are not used, since Python 3.12 starts a thread
    for each call of a burst although others are free.
    """

    def __init__(self, most: int, name: str) -> None:
        super().__init__(1)
        self._most, self._name = most, name
        self._tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self._room = threading.Lock()
        self._queued = 0
        self._waiting: dict[int, tuple[float, Any]] = {}
        """The calls that wait for their requests, the first one first: since when, and grpc's object for the call."""
        self.large = self
        """The threads of calls whose requests are not small: those keep no small one waiting."""
        self.ended = 0
        """How many calls were ended because their request did not come."""
        self._start()
        self._count = self._free = 1

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Runs the function in a thread, once one is free, and once the request is there if grpc is to wait for it."""
        del kwargs
        future: Future[Any] = Future()
        at = next((at for at, each in enumerate(args) if hasattr(each, "call_details")), None)
        known = _RECEIVES_WITHOUT_THREAD and at is not None and len(args) >= at + 5
        if at is None or not known or getattr(args[at + 3], "__name__", "") != "unary_request":
            self._add((future, fn, args))
        else:
            event, state, _, request, read = args[at : at + 5]
            taken = (*args[: at + 3], lambda: _taken(state, request), *args[at + 4 :])
            self._receive(event.call, state, read, (future, fn, taken))
        return future

    def _receive(self, call: Any, state: Any, read: Any, task: _Task) -> None:
        """Has the request of a call received, and then the task run."""
        receive = _GRPC._receive_message(state, call, read)

        def received(event: Any) -> Any:
            try:
                return receive(event)
            finally:
                self._waiting.pop(id(state), None)
                (self if len(state.request or b"") <= _SMALL_BYTES else self.large)._add(task)

        self._waiting[id(state)] = time.monotonic(), call
        with state.condition:
            call.start_server_batch((cygrpc.ReceiveMessageOperation(0),), received)
            state.due.add(_GRPC._RECEIVE_MESSAGE_TOKEN)
        if len(self._waiting) > _MOST_WAITING:
            self.end_waiting(0, len(self._waiting) - _MOST_WAITING)

    def _add(self, task: _Task) -> None:
        with self._room:
            if self._free:
                self._free -= 1
            elif self._count < self._most and self._start():
                self._count += 1
            else:
                self._queued += 1
        self._tasks.put(task)

    def _start(self) -> bool:
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError:  # the system refuses a thread; the call waits for one that exists
            return False
        return True

    def _run(self) -> None:
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
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)
            del future, function, arguments
            with self._room:
                if self._queued:
                    self._queued -= 1
                else:
                    self._free += 1

    @property
    def waiting(self) -> int:
        """How many calls wait for their request."""
        return len(self._waiting)

    def end_waiting(self, seconds: float, most: int = 100) -> None:
        """Ends calls whose request has not come for so many seconds, at most this many."""
        now = time.monotonic()
        for key, (since, call) in list(self._waiting.items())[:most]:
            if now - since < seconds:
                return
            if self._waiting.pop(key, None) is not None:
                self.ended += 1
                text = f"the request did not come within {now - since:.0f} seconds"
                call.cancel(grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], text)


def _taken(state: Any, request: Callable[[], Any]) -> Any:
    """The request that was received; without one, grpc's own function says why."""
    with state.condition:
        found, state.request = state.request, None
    return request() if found is None else found
