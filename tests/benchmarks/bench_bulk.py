"""Questions in bulk, as ratios to an echo of streams with the same bytes from the same kind of server, in one run.

    python tests/benchmarks/bench_bulk.py [millions of indices, default 4]

The echo server is a process of its own with grpc's options of ours; for each message it returns as many bytes as the
answer has. The two are asked in turns, and the best of some rounds counts. The time of the client is in both: the one
splits an array and puts it together, the other sends bytes.

| asked for | allowed |
|---|---|
| `Client.linear_indices`, rank 2, `T(8,128)(2,1)` | 2 × echo |
| `Client.multi_indices` of the positions | 2 × echo |
| `Client.evaluate_map_batch`, two results | 2 × echo |
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np

from xlashape_client import Client
from xlashape_server import Config, Server

ROUNDS = 5
PART = 1 << 20  # bytes of the larger one of request and answer, as the client's
SHAPE = "bf16[4096,4096]{1,0:T(8,128)(2,1)}"
MAP = (
    "(d0, d1) -> ((d0 * 4096 + d1) floordiv 1000, (d0 * 4096 + d1) mod 1000), domain: d0 in [0, 4095], d1 in [0, 4095]"
)
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def echo(connection: Any) -> None:
    """The process of the echo server: a message begins with the number of bytes of its answer."""
    server = grpc.server(ThreadPoolExecutor(4), options=OPTIONS)

    def handler(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        for request in requests:
            yield bytes(int.from_bytes(request[:8], "little"))

    methods = {"Bulk": grpc.stream_stream_rpc_method_handler(handler)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Echo", methods),))
    connection.send(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    connection.recv()
    server.stop(None)


def echoed(channel: grpc.Channel, items: int, item_bytes: int, answer_bytes: int) -> None:
    """Asks the echo for what a question of so many items sends and receives."""
    part = PART // max(item_bytes, answer_bytes)

    def requests() -> Iterator[bytes]:
        for start in range(0, items, part):
            count = min(part, items - start)
            yield (count * answer_bytes).to_bytes(8, "little") + bytes(count * item_bytes)

    call: Any = channel.stream_stream("/Echo/Bulk")
    received = np.empty(items * answer_bytes, np.uint8)
    at = 0
    for answer in call(requests()):
        received[at : at + len(answer)] = np.frombuffer(answer, np.uint8)
        at += len(answer)


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    count = int(float(sys.argv[1] if len(sys.argv) > 1 else 4) * 1e6)
    rows = np.stack([np.arange(count) // 4096 % 4096, np.arange(count) % 4096], axis=1)
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=echo, args=(theirs,))
    process.start()
    port = ours.recv()
    with (
        grpc.insecure_channel(f"127.0.0.1:{port}", OPTIONS) as channel,
        Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server,
        Client(server.address) as client,
    ):
        positions = client.linear_indices(SHAPE, rows)
        questions: dict[str, tuple[Callable[[], object], int, int]] = {
            "linear_indices": (lambda: client.linear_indices(SHAPE, rows), 16, 8),
            "multi_indices": (lambda: client.multi_indices(SHAPE, positions), 8, 17),
            "evaluate_map_batch": (lambda: client.evaluate_map_batch(MAP, rows), 16, 17),
        }
        print(f"{count:,} items       ms    echo   ratio")
        for name, (ask, item_bytes, answer_bytes) in questions.items():
            best, best_echo = float("inf"), float("inf")
            for _ in range(ROUNDS):
                best = min(best, seconds(ask))
                best_echo = min(best_echo, seconds(lambda n=item_bytes, m=answer_bytes: echoed(channel, count, n, m)))
            print(f"{name:18} {best * 1e3:7.1f} {best_echo * 1e3:7.1f} {best / best_echo:7.2f}")
    ours.send("stop")
    process.join()


if __name__ == "__main__":
    main()
