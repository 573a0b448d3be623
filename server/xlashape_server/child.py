"""Compute children: processes that answer calls about modules, one at a time each, and that can be killed; and the
zygote of a front, from which they are forked; and the `Channel` between a front and a child.

A front starts the zygote (`main`) with the descriptor of a socket. The zygote has imported what calls need, has one
thread and no grpc, so a fork takes 3 to 10 ms and 8 MB where a new process would take 300 ms and 37 MB. For each
message on its socket, which brings the descriptors of a `Channel`, it forks a child. Zygote and children end when the
front has gone. They leave SIGTERM to the front, whose calls in progress need them.

A channel is a pair of sockets, and memory that both processes share:

    frame     kind, whether the payload is in the shared memory, number, seconds, size of the payload; then the payload
    memory    a page, which says whether the call is cancelled; then the payload of a long frame

A child has one call at a time, so one place for a payload serves both directions. A frame of 500 bytes takes 9 µs by a
socket that keeps the bounds of messages (SOCK_SEQPACKET), and one of 8 MB 0.5 ms by the memory; pipes take 1.5 to 20.
Where a system lacks such sockets the frames go over a stream, and where it lacks anonymous files the memory is a
temporary file.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import json
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from google.protobuf.message_factory import GetMessageClass

from xlashape.base import caches
from xlashape.errors import DeadlineExceededError, DecodeError, XlashapeError
from xlashape.limits import at_most, set_checkpoint
from xlashape.proto import v1
from xlashape_server.config import Config
from xlashape_server.conversions import json_to_proto, proto_to_json, status_of
from xlashape_server.handlers import Rpc, rpcs
from xlashape_server.modules import Modules
from xlashape_server.process import configure
from xlashape_server.store import Store

_HEADER = struct.Struct("<B?HdQ")
_INLINE = 64 << 10  # bytes of a payload that goes over the socket
_PAGE = mmap.PAGESIZE
_DESCRIPTOR = array.array("i").itemsize
_CANCELLED, _CURRENT = b"\1", b"\0"
_SIZE = struct.Struct("<I")


class ChannelKind(IntEnum):
    """What a frame says."""

    ASK = 1
    """A request to the RPC of this number, which may take so many seconds."""
    READY = 2
    """The child waits for calls; the number of its process is the payload."""
    DONE = 3
    """The answer."""
    ERROR = 4
    """The call ends with the google.rpc.Status in the payload."""
    MEMORY = 5
    """The memory of the child does not suffice."""
    FAILED = 6
    """A defect: the payload is the trace."""


class ChannelFrame(NamedTuple):
    """A received frame. `file` is a descriptor that came with it, which the receiver closes; -1 for none."""

    kind: ChannelKind
    number: int
    seconds: float
    payload: bytes
    file: int = -1


class Channel:
    """One end of a channel. It belongs to one thread at a time, but for `cancel`."""

    def __init__(self, connection: socket.socket, memory: mmap.mmap) -> None:
        self._connection = connection
        self._memory = memory
        self._is_stream = connection.type == socket.SOCK_STREAM
        self.most = len(memory) - _PAGE
        """The most bytes of a payload."""

    def send(
        self, kind: ChannelKind, payload: bytes = b"", number: int = 0, seconds: float = 0.0, file: int = -1
    ) -> None:
        """Sends a frame. No other may be sent before the other end has answered: both ends share the memory.
        ConnectionError if the other end has gone, IndexError if the payload is too long.
        """
        size = len(payload)
        is_shared = size > _INLINE
        if is_shared:
            self._memory[_PAGE : _PAGE + size] = payload
        header = _HEADER.pack(kind, is_shared, number, seconds, size)
        attached = [] if file < 0 else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))]
        self._connection.settimeout(None)
        self._connection.sendmsg([header] if is_shared else [header, payload], attached)

    def receive(self, seconds: float | None = None) -> ChannelFrame:
        """The next frame. EOFError if the other end has gone, TimeoutError after so many seconds."""
        self._connection.settimeout(seconds)
        most = _HEADER.size if self._is_stream else _HEADER.size + _INLINE
        try:
            data, attached, _, _ = self._connection.recvmsg(most, socket.CMSG_SPACE(_DESCRIPTOR))
        except ConnectionError:
            raise EOFError from None
        if self._is_stream:
            data = data + self._exactly(_HEADER.size - len(data)) if data else data
        if not data:
            raise EOFError
        kind, is_shared, number, frame_seconds, size = _HEADER.unpack_from(data)
        file = array.array("i", attached[0][2])[0] if attached else -1
        if is_shared:
            payload = self._memory[_PAGE : _PAGE + size]
        elif self._is_stream:
            payload = self._exactly(size)
        else:
            payload = data[_HEADER.size :]
        return ChannelFrame(ChannelKind(kind), number, frame_seconds, payload, file)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._connection.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def begin(self) -> None:
        """Begins a call, which is not cancelled."""
        self._memory[:1] = _CURRENT

    def cancel(self) -> None:
        """Has `is_cancelled` be true at the other end until the next call begins."""
        self._memory[:1] = _CANCELLED

    @property
    def is_cancelled(self) -> bool:
        """Whether the call that is under way was cancelled."""
        return self._memory[:1] == _CANCELLED

    def close(self) -> None:
        """Closes this end."""
        self._connection.close()
        self._memory.close()


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """A pair of sockets that keeps the bounds of messages, if the system has them; else of streams."""
    if hasattr(socket, "SOCK_SEQPACKET"):
        try:
            return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            pass
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def shared_file(most: int) -> int:
    """The descriptor of a file without a name, for memory with a payload of `most` bytes. It takes memory as it is
    written.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("xlashape")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, _PAGE + most)
    return descriptor


def mapped(descriptor: int) -> mmap.mmap:
    """The memory of a shared file, whose descriptor this closes."""
    try:
        return mmap.mmap(descriptor, 0)
    finally:
        os.close(descriptor)


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
    control = socket.socket(fileno=int(sys.argv[1]))
    start = json.loads(control.recv(1 << 16))
    config = Config.from_json(json.dumps(start["config"]))
    # Children log faults alone, which all levels show.
    configure("error", **start["facts"])
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
    modules = Modules(config, Store.of(config))
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
