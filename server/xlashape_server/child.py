"""Compute children: processes that answer calls about modules, one at a time each, and that can be killed; and the
zygote of a front, from which they are forked.

A front starts the zygote (`main`) with the descriptor of a socket. The zygote has imported what calls need, has one
thread and no grpc, so a fork takes 3 to 10 ms and 8 MB where a new process would take 300 ms and 37 MB. For each
message on its socket, which brings the descriptors of a `Channel`, it forks a child. Zygote and children end when the
front has gone. They leave SIGTERM to the front, whose calls in progress need them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf.message_factory import GetMessageClass

from xlashape.base import caches
from xlashape.errors import DeadlineExceededError, DecodeError, XlashapeError
from xlashape.limits import at_most, set_checkpoint
from xlashape.proto import v1
from xlashape_server.channel import Channel, ChannelFrame, ChannelKind, mapped, messages_of
from xlashape_server.config import Config
from xlashape_server.handlers import Rpc, rpcs
from xlashape_server.json_messages import json_to_proto, proto_to_json
from xlashape_server.modules import Modules
from xlashape_server.process import configure
from xlashape_server.status import status_of
from xlashape_server.store import Store

_MARGIN_SECONDS = 5.0  # seconds after its deadline when a child ends itself: its front, which kills it before, has gone
_FULL = 0.6  # with this part of its memory in use after a call, a child forgets what it keeps
_NICE = 5  # children leave the processor to fronts, whose calls are small
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
# The thresholds of gc.set_threshold: a child makes objects by the hundred thousand, few of which are in cycles.
_COLLECTIONS = (5000, 20, 20)
_TEXT = "HloModule warm\n\nENTRY e {\n  p = f32[8,4]{1,0} parameter(0)\n  ROOT n = f32[8,4]{1,0} negate(p)\n}\n"

Handler = Callable[[Any, float], Any]


def main() -> None:
    """Runs the zygote until its front has gone."""
    control = socket.socket(fileno=int(sys.argv[1]))
    start = json.loads(control.recv(1 << 16))
    config = Config.from_json(json.dumps(start["config"]))
    # Children log faults alone, which all levels show.
    configure("error", os.fdopen(os.dup(start["log"]), "w", encoding="utf-8"), **start["facts"])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)  # ended children need no farewell
    _warm(config)
    gc.collect()
    gc.freeze()
    with contextlib.suppress(ConnectionError):  # the front has gone
        control.send(b"ready")
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 16, 2)
        if not data:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            _run(Channel(socket.socket(fileno=descriptors[0]), mapped(descriptors[1])), config)
        for descriptor in descriptors:
            os.close(descriptor)


def _warm(config: Config) -> None:
    """Asks every RPC about a small module, so that children need not import what that imports."""
    handlers = rpcs(config, Modules(config, Store.of(config)))
    requests: dict[str, Any] = {"module": v1.ModuleInput(text=_TEXT), "instruction": "n", "a": None, "b": None}
    requests["a"] = requests["b"] = requests["module"]
    for rpc in handlers:
        if rpc.method.client_streaming:
            continue
        fields = rpc.method.input_type.fields_by_name
        request = getattr(v1, rpc.method.input_type.name)(**{k: v for k, v in requests.items() if k in fields})
        try:
            rpc.handler(request.SerializeToString(), time.monotonic() + 60)
        except XlashapeError:
            continue
    caches.clear()


def _run(channel: Channel, config: Config) -> None:
    """Runs a child until its front has gone, and ends the process."""
    try:
        _serve(channel, config)
    except (EOFError, ConnectionError):
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def _serve(channel: Channel, config: Config) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    os.nice(_NICE)
    most = _limited(config.worker_memory())
    gc.set_threshold(*_COLLECTIONS)
    store = Store.of(config, config.store)
    modules = Modules(config, store)
    answered = rpcs(config, modules)
    handlers: list[Handler] = [rpc.handler for rpc in answered]
    handlers += [partial(_in_json, rpc) for rpc in answered]

    def check() -> None:
        if channel.is_cancelled:
            raise DeadlineExceededError("the caller has gone")

    set_checkpoint(check)
    channel.send(ChannelKind.READY, b"%d" % os.getpid())
    while True:
        frame = channel.receive()
        signal.setitimer(signal.ITIMER_REAL, frame.seconds + _MARGIN_SECONDS)
        kind, answer = _outcome(channel, frame, handlers[frame.number])
        signal.setitimer(signal.ITIMER_REAL, 0)
        channel.counts = store.evicted["age"], store.evicted["space"], store.damaged
        channel.send(kind, answer)
        del frame, answer
        if kind is ChannelKind.MEMORY or _used_bytes() > _FULL * most:
            modules.forget()
            caches.clear()
            gc.collect()


def _in_json(rpc: Rpc, data: bytes, deadline: float) -> bytes:
    """The answer in JSON to a request in JSON."""
    request, response = GetMessageClass(rpc.method.input_type), GetMessageClass(rpc.method.output_type)
    return proto_to_json(rpc.handler(json_to_proto(data, request), deadline), response)


def _outcome(channel: Channel, frame: ChannelFrame, handler: Handler) -> tuple[ChannelKind, bytes]:
    """How a call ends."""
    deadline = time.monotonic() + frame.seconds
    request = frame.payload if frame.file < 0 else messages_of(frame.file)
    try:
        answer = handler(request, deadline)
        at_most(channel.most, len(answer), "response_bytes", "the answer would have {} bytes")
        return ChannelKind.DONE, answer
    except MemoryError:
        return ChannelKind.MEMORY, b""
    except XlashapeError as error:
        if isinstance(error, DecodeError) and "alloc failed" in str(error):  # so protobuf says that memory ran out
            return ChannelKind.MEMORY, b""
        return ChannelKind.ERROR, status_of(error).SerializeToString()
    except Exception:
        return ChannelKind.FAILED, traceback.format_exc().encode()[-(32 << 10) :]


def _limited(most: int) -> int:
    """Bounds the memory of this process to `most` bytes more than it has, and returns what it may have then."""
    used = _used_bytes()
    if used:
        resource.setrlimit(resource.RLIMIT_AS, (used + most, used + most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return used + most


def _used_bytes() -> int:
    """The address space of this process, which its limit bounds; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
    except OSError:
        return 0
