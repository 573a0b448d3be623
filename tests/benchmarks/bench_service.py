"""Small and bulk calls over gRPC, as ratios to an echo of the same bytes from the same kind of server, in one run.

    python tests/benchmarks/bench_service.py [seconds per measurement, default 2]

The echo server is a worker like ours (the same grpc options, threads and core), whose handler returns as many bytes as the
answer has. The two are asked in turns, round by round, so that what else the machine does meets both. Raw bytes go in and out:
what a client does with messages of its own is left aside.

| asked for | allowed |
|---|---|
| ByteSize, LinearIndex of one small shape, p50, 1 and 16 clients | 1.3 × echo |
| 1,000,000 rank-4 indices through LinearIndex | 2 × echo |
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import Pool
from typing import Any

import grpc
import numpy as np

from xlashape.proto import v1
from xlashape.proto.packed import join
from xlashape_server import Config, Server

ROUNDS = 7
PROCESSES = 4  # of clients
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
SHAPE = v1.ShapeInput(text="bf16[20,300]{1,0:T(8,128)(2,1)}")


def requests() -> dict[str, tuple[str, bytes]]:
    """Name → RPC and request."""
    rows = np.random.default_rng(7).integers(0, [16, 24, 100, 300], (1_000_000, 4)).astype("<i8")
    plain = v1.LinearIndexRequest(shape=v1.ShapeInput(text="f32[16,24,100,300]"))
    tiled = v1.LinearIndexRequest(shape=v1.ShapeInput(text="bf16[16,24,100,300]{3,2,1,0:T(8,128)(2,1)}"))
    bulk = memoryview(rows).cast("B")
    return {
        "ByteSize": ("ShapeService/ByteSize", v1.ByteSizeRequest(shapes=[SHAPE]).SerializeToString()),
        "LinearIndex": (
            "ShapeService/LinearIndex",
            v1.LinearIndexRequest(shape=SHAPE, indices=[17, 123]).SerializeToString(),
        ),
        "1,000,000 indices, no tiles": ("ShapeService/LinearIndex", join(plain, indices=bulk)),
        "1,000,000 indices, T(8,128)(2,1)": ("ShapeService/LinearIndex", join(tiled, indices=bulk)),
    }


def echo(sizes: list[int]) -> None:
    """The process of the echo server: method N answers `sizes[N]` bytes."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    config = Config()
    options = [
        ("grpc.so_reuseport", 1),
        ("grpc.max_receive_message_length", 2 * config.max_request_bytes),
        ("grpc.max_send_message_length", -1),
    ]
    server = grpc.server(
        ThreadPoolExecutor(config.threads), options=options, maximum_concurrent_rpcs=config.max_concurrent_calls
    )

    def answering(size: int) -> Any:
        answer = bytes(size)

        def handler(request: bytes, context: Any) -> bytes:
            # A copy for bulk answers, as an echo of the request's own bytes would need none and a real answer is made anew.
            return answer if size < 1000 else bytes(memoryview(answer))

        return grpc.unary_unary_rpc_method_handler(handler)

    handlers = {str(number): answering(size) for number, size in enumerate(sizes)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo.Echo", handlers),))
    if hasattr(server, "add_registered_method_handlers"):
        server.add_registered_method_handlers("echo.Echo", handlers)
    print(json.dumps({"port": server.add_insecure_port("127.0.0.1:0")}), flush=True)
    server.start()
    sys.stdin.read()


def latencies(address: str, path: str, request: bytes, seconds: float, clients: int) -> list[float]:
    """Seconds of every call that so many clients, each with a connection and a thread, get done in `seconds`; at least three each."""
    found: list[list[float]] = [[] for _ in range(clients)]

    def ask(mine: list[float]) -> None:
        with grpc.insecure_channel(address, [*UNLIMITED, ("grpc.use_local_subchannel_pool", 1)]) as channel:
            call = channel.unary_unary(path)
            call(request)
            end = time.perf_counter() + seconds
            while (begun := time.perf_counter()) < end or len(mine) < 3:
                call(request)
                mine.append(time.perf_counter() - begun)

    threads = [threading.Thread(target=ask, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [value for mine in found for value in mine]


def answer_size(address: str, path: str, request: bytes) -> int:
    with grpc.insecure_channel(address, UNLIMITED) as channel:
        return len(channel.unary_unary(path)(request))


def p50(pool: Pool, address: str, path: str, request: bytes, seconds: float, clients: int) -> float:
    """The median seconds of a call over all clients, who are spread over processes: their own interpreter lock is not what is measured."""
    if clients == 1:
        return statistics.median(pool.apply(latencies, (address, path, request, seconds, 1)))
    parts = pool.starmap(latencies, [(address, path, request, seconds, clients // PROCESSES)] * PROCESSES)
    return statistics.median(value for part in parts for value in part)


def main(seconds: float) -> bool:
    asked = requests()
    good = True
    # Spawned: grpc does not like to be forked once it was used.
    with (
        Server(Config(address="127.0.0.1:0", workers=1)) as server,
        multiprocessing.get_context("spawn").Pool(PROCESSES) as pool,
    ):
        sizes = [
            pool.apply(answer_size, (server.address, f"/xlashape.v1.{rpc}", request)) for rpc, request in asked.values()
        ]
        command = [sys.executable, __file__, "--echo", json.dumps(sizes)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
            assert peer.stdout is not None
            assert peer.stdin is not None
            echo_address = f"127.0.0.1:{json.loads(peer.stdout.readline())['port']}"
            print(f"{'':36}{'clients':>8}{'echo ms':>10}{'ours ms':>10}{'ratio':>8}{'allowed':>9}")
            for number, (name, (rpc, request)) in enumerate(asked.items()):
                bulk = len(request) > 1000
                for clients in (1,) if bulk else (1, 16):
                    rounds = [
                        [
                            p50(pool, address, path, request, seconds / ROUNDS, clients)
                            for address, path in (
                                (echo_address, f"/echo.Echo/{number}"),
                                (server.address, f"/xlashape.v1.{rpc}"),
                            )
                        ]
                        for _ in range(ROUNDS)
                    ]
                    theirs, ours = (statistics.median(each) for each in zip(*rounds, strict=True))
                    allowed = 2.0 if bulk else 1.3
                    good = good and ours <= allowed * theirs
                    print(
                        f"{name:36}{clients:>8}{theirs * 1e3:>10.3f}{ours * 1e3:>10.3f}{ours / theirs:>8.2f}{allowed:>9.1f}"
                    )
            peer.stdin.close()
    return good


if __name__ == "__main__":
    if sys.argv[1:2] == ["--echo"]:
        echo(json.loads(sys.argv[2]))
    else:
        sys.exit(0 if main(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0) else 1)
