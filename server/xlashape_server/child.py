"""Compute children: processes that answer calls about modules, one at a time each, and that can be killed; and the
zygote of a front, from which they are forked.

A front starts the zygote (`main`) with the descriptor of a socket. The zygote has imported what calls need, has one
thread and no grpc, so a fork takes 3 to 10 ms and 8 MB where a new process would take 300 ms and 37 MB. For each
socket that it gets over its own, it forks a child. Zygote and children end when the front has gone. They leave SIGTERM
to the front, whose calls in progress need them.

A front and a child talk over a pair of sockets, by the connections of `multiprocessing`:

    from the child    its process id, when it waits for calls
    from the front    the `Ask`, and the request as bytes; perhaps the descriptor of a file; None if the caller has gone
    from the child    the `Outcome`, and the answer as bytes
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import select
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import IO, Any, NamedTuple

from xlashape.base import caches
from xlashape.errors import DeadlineExceededError, DecodeError, XlashapeError
from xlashape.limits import at_most, set_checkpoint
from xlashape.proto import v1
from xlashape_server.config import Config
from xlashape_server.conversions import status_of
from xlashape_server.handlers import rpcs
from xlashape_server.modules import Modules
from xlashape_server.process import configure, memory_of
from xlashape_server.store import Store

_SIZE = struct.Struct("<I")


class Ask(NamedTuple):
    """What comes before a request: the number of the RPC, how long the call may take, and whether the messages of the
    request are in a file, whose descriptor follows.
    """

    number: int
    seconds: float
    has_file: bool


class Outcome(Enum):
    """How a call has ended. The payload that follows is the answer, the google.rpc.Status of an error of the library,
    nothing where the memory of the child does not suffice, or the trace of a defect.
    """

    ANSWER = 0
    ERROR = 1
    MEMORY = 2
    DEFECT = 3


# -- streams of requests: a front takes the messages of a slow caller into a file, and a child reads them when all are
# there. Each is its size in four bytes, then its content.


def add_message(file: IO[bytes], message: bytes) -> None:
    """Writes the next message."""
    file.write(_SIZE.pack(len(message)))
    file.write(message)


def messages_of(descriptor: int) -> Iterator[bytes]:
    """The messages in a file, which this closes at their end."""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        while head := file.read(_SIZE.size):
            yield file.read(*_SIZE.unpack(head))


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
    control = Connection(int(sys.argv[1]))
    config, facts = control.recv()
    # Children log faults alone, which all levels show.
    configure("error", **facts)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)  # ended children need no farewell
    _warm(config)
    gc.collect()
    gc.freeze()
    try:
        control.send("ready")
        while True:
            descriptor = recv_handle(control)
            if os.fork() == 0:
                control.close()
                _run(Connection(descriptor), config)
            os.close(descriptor)
    except (EOFError, ConnectionError):
        os._exit(0)


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


def _run(front: Connection, config: Config) -> None:
    """Runs a child until its front has gone, and ends the process."""
    try:
        _serve(front, config)
    except (EOFError, ConnectionError):
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def _serve(front: Connection, config: Config) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    os.nice(_NICE)
    most = _limited(config.worker_memory())
    gc.set_threshold(*_COLLECTIONS)
    modules = Modules(config, Store.of(config))
    answered = rpcs(config, modules)
    handlers: list[Handler] = [rpc.handler for rpc in answered]
    handlers += [rpc.in_json for rpc in answered]
    sent = select.poll()
    sent.register(front, select.POLLIN)

    def check() -> None:
        if sent.poll(0):
            raise DeadlineExceededError("the caller has gone")

    set_checkpoint(check)
    front.send(os.getpid())
    while True:
        ask: Ask | None = front.recv()
        if ask is None:
            continue  # the caller went away when its call had ended
        request = front.recv_bytes()
        signal.setitimer(signal.ITIMER_REAL, ask.seconds + _MARGIN_SECONDS)
        messages = messages_of(recv_handle(front)) if ask.has_file else request
        outcome, answer = _outcome(partial(handlers[ask.number], messages), ask.seconds, config.max_body_bytes)
        signal.setitimer(signal.ITIMER_REAL, 0)
        front.send(outcome)
        front.send_bytes(answer)
        del request, messages, answer
        if outcome is Outcome.MEMORY or memory_of("self")[0] > _FULL * most:
            modules.forget()
            caches.clear()
            gc.collect()


def _outcome(handler: Callable[[float], bytes], seconds: float, most: int) -> tuple[Outcome, bytes]:
    """How a call ends."""
    try:
        answer = handler(time.monotonic() + seconds)
        at_most(most, len(answer), "response_bytes", "the answer would have {} bytes")
        return Outcome.ANSWER, answer
    except MemoryError:
        return Outcome.MEMORY, b""
    except XlashapeError as error:
        if isinstance(error, DecodeError) and "alloc failed" in str(error):  # so protobuf says that memory ran out
            return Outcome.MEMORY, b""
        return Outcome.ERROR, status_of(error).SerializeToString()
    except Exception:
        return Outcome.DEFECT, traceback.format_exc().encode()[-(32 << 10) :]


def _limited(most: int) -> int:
    """Bounds the memory of this process to `most` bytes more than it has, and returns what it may have then."""
    used, _, _ = memory_of("self")
    if used:
        resource.setrlimit(resource.RLIMIT_AS, (used + most, used + most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return used + most
