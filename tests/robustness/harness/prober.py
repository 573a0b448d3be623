"""A process that checks the health of a server and makes small calls without a pause, and prints the outcomes as lines
of JSON.

    python prober.py ADDRESS [FILE OF ROOT CERTIFICATES]

Each health check has a new connection; small calls share one connection. Times are of time.monotonic().
"""

from __future__ import annotations

import json
import sys
import threading
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2

from xlashape.proto import v1

_HEALTH_PAUSE_SECONDS = 0.15
_SMALL_PAUSE_SECONDS = 0.01
# The deadline of a call.
_SECONDS = 5.0
_lock = threading.Lock()


def connect(address: str, root: str) -> grpc.Channel:
    """A connection of its own."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 300)]
    if not root:
        return grpc.insecure_channel(address, options)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(Path(root).read_bytes()), options)


def ask(channel: Any, path: str, request: bytes, what: str, subject: str) -> None:
    """Makes a call, and prints its outcome. `got` is the answer in hex."""
    began, code, answer = time.monotonic(), "OK", b""
    try:
        answer = channel.unary_unary(path)(request, timeout=_SECONDS)
    except grpc.RpcError as error:
        failed: Any = error
        code = failed.code().name
    told = {
        "what": what,
        "subject": subject,
        "began": began,
        "ended": time.monotonic(),
        "code": code,
        "got": answer.hex(),
    }
    with _lock:
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def small(address: str, root: str) -> None:
    """Asks for the bytes of a shape repeatedly."""
    request = v1.ByteSizeRequest(shapes=[v1.ShapeInput(text="f32[3,5]{1,0:T(2,2)}")]).SerializeToString()
    with connect(address, root) as channel:
        while True:
            ask(channel, "/xlashape.v1.ShapeService/ByteSize", request, "small", "ByteSize")
            time.sleep(_SMALL_PAUSE_SECONDS)


def main(address: str, root: str = "") -> None:
    """Makes calls until the process is killed."""
    threading.Thread(target=small, args=(address, root), daemon=True).start()
    for service in cycle(("live", "")):
        with connect(address, root) as channel:
            request = health_pb2.HealthCheckRequest(service=service).SerializeToString()
            ask(channel, "/grpc.health.v1.Health/Check", request, "health", service)
        time.sleep(_HEALTH_PAUSE_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
