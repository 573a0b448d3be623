"""Streams of requests: how many are taken at a time, and how long the next message of one is waited for.

A stream whose client sends nothing holds a thread. So a handler of streams is given few threads, and each stream a deadline.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TypeVar

from xlashape.errors import DeadlineExceededError, LimitExceededError

__all__ = ["admitted", "received"]

Q = TypeVar("Q")


@contextmanager
def admitted(free: threading.BoundedSemaphore, limit: str, maximum: int) -> Generator[None]:
    """Takes one of the `maximum` places that `free` counts. LimitExceededError `limit` if all are taken: waiting would hold a thread too."""
    if not free.acquire(blocking=False):
        raise LimitExceededError(
            f"{limit.replace('_', ' ')}: {maximum} are under way, and more are not taken; try again",
            limit=limit,
            maximum=maximum,
        )
    try:
        yield
    finally:
        free.release()


def received(requests: Iterator[Q], deadline: float) -> Generator[Q]:
    """The requests of a stream as they come, each read when it is asked for. DeadlineExceededError if one does not come in time.

    A thread reads them, since only the client can end the waiting for a message. The thread ends with the call.
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
