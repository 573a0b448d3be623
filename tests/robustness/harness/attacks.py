"""A process that attacks a server until it is ended.

    python attacks.py KIND ADDRESS [FILE OF ROOT CERTIFICATES]

It writes a line before it begins. Attacks that write HTTP/2 frames themselves do not support TLS: see `PLAIN`.
"""

from __future__ import annotations

import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

import grpc
from http2_caller import Http2Caller

from harness.prober import connect
from xlashape.proto import v1, xla

__all__ = ["ATTACKS", "PLAIN"]

_TERMS = " + ".join(f"((d0 * {i} + d1) mod {i + 7}) floordiv 3" for i in range(2, 302))
_SHAPES = "/xlashape.v1.ShapeService/"
_INDEXING = "/xlashape.v1.IndexingService/"


def heavy() -> bytes:
    """A request whose answer takes half a minute to compute."""
    text = f"(d0, d1) -> ({_TERMS}), domain: d0 in [0, {{}}], d1 in [0, 999]"
    first = random.randrange(1 << 40)
    return v1.SimplifyMapRequest(
        maps=[v1.MapInput(text=text.format(first + i)) for i in range(200)]
    ).SerializeToString()


def wide(count: int) -> bytes:
    """An inline module with this many negations."""
    shape = xla.ShapeProto(element_type=xla.F32, dimensions=[4], is_dynamic_dimension=[False])
    shape.layout.minor_to_major.append(0)
    main = xla.HloComputationProto(name="main", id=1, root_id=count)
    main.instructions.add(name="x", opcode="parameter", id=1, shape=shape)
    for i in range(2, count + 1):
        main.instructions.add(name=f"n.{i}", opcode="negate", id=i, shape=shape, operand_ids=[i - 1])
    made = xla.HloModuleProto(name="wide", entry_computation_id=1, entry_computation_name="main", computations=[main])
    return made.SerializeToString()


def _unread(address: str, path: str, request: bytes | None, connections: int, streams: int) -> None:
    """Opens connections that make calls and read nothing. Those that the server ends are replaced."""
    while True:
        with suppress(OSError), ExitStack() as stack:
            callers = [stack.enter_context(Http2Caller(address)) for _ in range(connections)]
            for caller in callers:
                for _ in range(streams):
                    caller.call(path, request)
            end = time.monotonic() + 4
            while time.monotonic() < end:
                for caller in callers:
                    caller.read(0.2 / connections)


def slow_readers(address: str, root: str) -> None:
    """Long reports that the client does not read."""
    request = v1.IndexingMapsRequest(module=v1.ModuleInput(serialized=wide(2000)), page_size=2000).SerializeToString()
    _unread(address, _INDEXING + "IndexingMaps", request, 4, 16)


def dead_readers(address: str, root: str) -> None:
    """Large answers that the client does not read."""
    request = v1.MultiIndexRequest(shape=v1.ShapeInput(text="f32[64,64]"), positions=[1] * 200_000)
    _unread(address, _SHAPES + "MultiIndex", request.SerializeToString(), 4, 12)


def half_requests(address: str, root: str) -> None:
    """Calls whose request never comes."""
    _unread(address, _SHAPES + "ByteSize", None, 8, 300)


def garbage(address: str, root: str) -> None:
    """Connections that send something other than HTTP/2, or break off."""
    host, _, port = address.rpartition(":")
    while True:
        with suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), timeout=2) as connection:
            begin = random.choice(
                (b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01")
            )
            connection.sendall(begin + os.urandom(random.choice((1, 9, 100, 5000))))
            connection.settimeout(0.05)
            connection.recv(100)


def _in_threads(work: Callable[[], None], count: int) -> None:
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _again(address: str, root: str, calls: Callable[[grpc.Channel], Iterator[None]]) -> None:
    while True:
        with connect(address, root) as channel, suppress(grpc.RpcError):
            for _ in calls(channel):
                pass


def flood(address: str, root: str) -> None:
    """Hundreds of small calls at the same time on several connections."""
    request = v1.MultiIndexRequest(shape=v1.ShapeInput(text="f32[64,64]"), positions=range(500)).SerializeToString()

    def calls(channel: grpc.Channel) -> Iterator[None]:
        ask: Any = channel.unary_unary(_SHAPES + "MultiIndex")
        while True:
            under_way = [ask.future(request, timeout=20) for _ in range(200)]
            for each in under_way:
                with suppress(grpc.RpcError):
                    each.result()
            yield

    _in_threads(lambda: _again(address, root, calls), 3)


def long_calls(address: str, root: str) -> None:
    """Twenty calls at the same time, each of half a minute."""

    def calls(channel: grpc.Channel) -> Iterator[None]:
        ask: Any = channel.unary_unary(_INDEXING + "SimplifyMap")
        under_way = [ask.future(heavy(), timeout=100) for _ in range(10)]
        for each in under_way:
            with suppress(grpc.RpcError):
                each.result()
            yield

    _in_threads(lambda: _again(address, root, calls), 2)


def cancelled_calls(address: str, root: str) -> None:
    """Calls that take long, and are cancelled early."""

    def calls(channel: grpc.Channel) -> Iterator[None]:
        ask: Any = channel.unary_unary(_INDEXING + "SimplifyMap")
        under_way = [ask.future(heavy(), timeout=100) for _ in range(10)]
        time.sleep(random.random() * 0.3)
        for each in under_way:
            each.cancel()
        yield

    _in_threads(lambda: _again(address, root, calls), 2)


def bulk(address: str, root: str) -> None:
    """Requests of megabytes."""
    request = v1.LinearIndexRequest(shape=v1.ShapeInput(text="f32[64,64]"), indices=[7] * 1_000_000).SerializeToString()

    def calls(channel: grpc.Channel) -> Iterator[None]:
        while True:
            with suppress(grpc.RpcError):
                channel.unary_unary(_SHAPES + "LinearIndex")(request, timeout=20)
            yield

    _in_threads(lambda: _again(address, root, calls), 4)


ATTACKS = {
    each.__name__: each
    for each in (slow_readers, dead_readers, half_requests, garbage, flood, long_calls, cancelled_calls, bulk)
}
PLAIN = frozenset({"slow_readers", "dead_readers", "half_requests", "garbage"})


def _step_back() -> None:
    """Lowers the priority of this process. Real attackers use another machine, so this one must not take processor time
    from the server and its other callers."""
    with suppress(OSError, AttributeError):
        os.nice(19)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


if __name__ == "__main__":
    _step_back()
    print("ready", flush=True)
    ATTACKS[sys.argv[1]](sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "")
