"""Reads streams of requests with a timeout for each message."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator, Iterator
from typing import Any, TypeVar

from xlashape.errors import DeadlineExceededError

Q = TypeVar("Q")


def received(requests: Iterator[Q], deadline: float) -> Generator[Q]:
    """The requests of a stream, each read when it is asked for. DeadlineExceededError if a request does not arrive in
    time.

    grpc's iterator waits for a message without a timeout. What it waits for is a condition, on which this function
    waits with one. For an iterator of another kind, or of a version of grpc that has other names, a thread reads the
    messages, which takes longer.
    """
    waits = _waits_of(requests)
    if waits is None:
        yield from _read_by_a_thread(requests, deadline)
        return
    condition, start, look = waits
    try:
        while True:
            yield _awaited(condition, start, look, deadline)
    except StopIteration:
        return


def _waits_of(requests: Iterator[Any]) -> tuple[threading.Condition, Any, Any] | None:
    """Of an iterator of grpc: the condition on which it waits, and its functions that ask for a message and that take
    it if it is there.
    """
    condition: object = getattr(getattr(requests, "_state", None), "condition", None)
    start: object = getattr(requests, "_raise_or_start_receive_message", None)
    look: object = getattr(requests, "_look_for_request", None)
    if isinstance(condition, threading.Condition) and callable(start) and callable(look):
        return condition, start, look
    return None


def _awaited(condition: threading.Condition, start: Any, look: Any, deadline: float) -> Any:
    """The next message of an iterator of grpc. StopIteration after the last one."""
    with condition:
        start()
        while True:
            if not condition.wait(deadline - time.monotonic()):
                raise _late()
            message = look()
            if message is not None:
                return message


def _late() -> DeadlineExceededError:
    return DeadlineExceededError("the deadline passed before the stream of requests ended")


def _read_by_a_thread(requests: Iterator[Q], deadline: float) -> Generator[Q]:
    """The requests of any iterator, which a thread reads. The thread ends with the call."""
    wanted: queue.SimpleQueue[bool] = queue.SimpleQueue()
    arrived: queue.SimpleQueue[tuple[Q] | Exception | None] = queue.SimpleQueue()

    def read() -> None:
        try:
            while wanted.get():
                item = next(requests, None)
                arrived.put(None if item is None else (item,))
        except Exception as error:
            arrived.put(error)

    threading.Thread(target=read, name="requests", daemon=True).start()
    try:
        while True:
            wanted.put(True)
            try:
                item = arrived.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise _late() from None
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item[0]
    finally:
        wanted.put(False)
