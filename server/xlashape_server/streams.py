"""Reads streams of requests until a deadline."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator, Iterator
from typing import TypeVar

from xlashape.errors import DeadlineExceededError

Q = TypeVar("Q")


def received(requests: Iterator[Q], deadline: float) -> Generator[Q]:
    """The requests of a stream. Each is read only when the caller of this generator asks for it. DeadlineExceededError
    if a request does not arrive before `deadline`, a time of time.monotonic().

    A thread reads the requests, since grpc's iterator waits for a message without a timeout. The thread ends with the
    call.
    """
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
                raise DeadlineExceededError("the deadline passed before the stream of requests ended") from None
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item[0]
    finally:
        wanted.put(False)
