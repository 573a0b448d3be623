"""A pause of Python's cycle collector while many objects are made that stay.

The collector walks all objects again and again while their number grows, which takes a fifth to a half of the time in
which a large module is read or compared, and finds nothing: what is left unused meanwhile is freed by counting its
references. Garbage in cycles waits until the pause ends.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

_LOCK = Lock()
_PAUSES: list[bool] = []
"""An entry for each pause that has not ended: whether the collector was on when it began."""


@contextmanager
def collector_paused() -> Generator[None]:
    """Pauses the collector, as a context or a decorator. Pauses of several threads, and pauses within others, end
    together with the last one; a collector that was off stays off.

    >>> with collector_paused():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    with _LOCK:
        _PAUSES.append(gc.isenabled())
        gc.disable()
    try:
        yield
    finally:
        with _LOCK:
            was_on = _PAUSES.pop()
            if _PAUSES:
                _PAUSES[0] |= was_on
            elif was_on:
                gc.enable()
