"""Waits for the signals that end a server, and notifies systemd.

`StopSignals` waits for SIGTERM and SIGINT without losing one. A Python signal handler runs between two
bytecodes of the main thread. It can therefore deadlock on a lock that the main thread holds (threading.Event.set during
Event.wait), and it does not run while the main thread sleeps in a system call that began just before. So the
interpreter's own handler writes the number of the signal to a pipe, and the main thread waits on the pipe.

`tell` notifies systemd of readiness, stopping and liveness by the protocol of sd_notify(3), if systemd has started the
server.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping
from types import FrameType, TracebackType

_NUMBERS = (signal.SIGTERM, signal.SIGINT)
_WAKE = 0  # written by `wake`; no signal has this number


class StopSignals:
    """Within the `with` block, SIGTERM and SIGINT only end `wait`. Only the main thread can enter the block.

    A signal that is ignored, such as SIGHUP under nohup, stays ignored. For each signal in `actions`, `wait` calls the
    action and goes on waiting.
    """

    def __init__(self, actions: Mapping[int, Callable[[], None]] | None = None) -> None:
        self._actions = actions or {}

    def __enter__(self) -> StopSignals:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._previous_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._previous = {
            number: signal.signal(number, _nothing)
            for number in (*_NUMBERS, *self._actions)
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_fd)
        os.close(self._read)
        os.close(self._write)

    def wait(self, seconds: float | None = None) -> bool:
        """Waits for a signal or a call of `wake`, at most `seconds`. Each signal and each call ends one wait. False
        after a timeout.
        """
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            ready, _, _ = select.select([self._read], [], [], left)
            if not ready:
                return False
            number = os.read(self._read, 1)[0]
            if number in (*_NUMBERS, _WAKE):
                return True
            if number in self._actions:
                self._actions[number]()

    def wake(self) -> None:
        """Ends `wait` from another thread."""
        os.write(self._write, bytes([_WAKE]))


def _nothing(number: int, frame: FrameType | None) -> None:
    """A signal handler that does nothing: the interpreter has written the signal to the pipe."""


# -- service manager ---------------------------------------------------------------------------


def tell(state: str) -> None:
    """Sends a state such as "READY=1" to the socket that the variable NOTIFY_SOCKET names. Does nothing if the variable
    is not set.
    """
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path[0] == "@" else path
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(state.encode(), address)
