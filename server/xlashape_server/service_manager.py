"""Notifies systemd, if it started the server, of readiness, stopping and liveness by the protocol of sd_notify(3)."""

from __future__ import annotations

import contextlib
import os
import socket


def tell(state: str) -> None:
    """Sends a state such as "READY=1" to the socket that the variable NOTIFY_SOCKET names. Does nothing if the variable is not set."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path[0] == "@" else path
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(state.encode(), address)
