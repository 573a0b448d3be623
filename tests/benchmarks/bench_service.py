"""Small and bulk calls over gRPC, as ratios to an echo of the same bytes from the same kind of server, in one run.

    python tests/benchmarks/bench_service.py [--seconds 2] [--auth] [--metrics]     # what callers wait: the median of a call
    python tests/benchmarks/bench_service.py --processor [--auth] [--metrics]       # time of the processor, for a machine that does other things too
    python tests/benchmarks/bench_service.py --processor --clients 8                # the same, of so many calls at a time

The echo server is a worker like ours (the same options and core), whose handler returns as many bytes as the answer
has, in a plain grpc.server with a ThreadPoolExecutor. Both are asked in turns, so that what else the machine does meets
both. Raw bytes go in and out: what a client does with messages of its own is left aside.

| asked for | allowed |
|---|---|
| ByteSize, LinearIndex, DescribeShape of one small shape, 1 and 16 clients | 1.2 × echo |
| 1,000,000 indices of rank 2 through LinearIndex, MultiIndex, LinearIndices and MultiIndices | 1.3 × echo |
| IndexingMaps of a fusion that was asked about before | 1.5 × echo |
| Size of a stored module of 103 instructions; PutModule of a text of 25,000, 1.3 MB | no bound: they compute |

`--processor` measures user and system time of the server's process and of the client's, in short blocks of calls. What
ours takes more is the median of the differences of blocks that follow each other: it hardly depends on the load of the
machine, which each time by itself does. The last column, calls a second that a core answers, is the inverse of the
echo's least time and what ours adds to it. `--auth`: the server asks for a token, which both are sent. `--metrics`: it
counts its calls for Prometheus.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np

from xlashape.proto import v1
from xlashape.proto.packed import join
from xlashape_server import Config, Server
from xlashape_server.grpc_calls import server_options
from xlashape_server.worker import connection_options

ROUNDS = 7
PROCESSES = 4  # of clients
BLOCK_CALLS = 40  # of small ones, between which `--processor` changes sides
BLOCKS = 150
OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
]
PART = 1 << 20  # bytes of a message of a stream
_ECHO_THREADS = 16
TOKEN = "a token of the benchmark"


class Case(NamedTuple):
    """What is asked for: requests that are sent in turns, each a list of messages."""

    name: str
    rpc: str
    requests: list[list[bytes]]
    allowed: float
    is_stream: bool = False
    service: str = "ShapeService"

    @property
    def is_bulk(self) -> bool:
        """Whether a request is large."""
        return sum(map(len, self.requests[0])) > PART


def module_text() -> bytes:
    """A module of 103 instructions, one of them a fusion of four."""
    array = "bf16[512,1024]{1,0}"
    lines = [f"  a.{i} = {array} add({f'a.{i - 1}' if i else 'p'}, p)" for i in range(97)]
    return "\n".join([
        "HloModule bench", "", "fused {", f"  q = {array} parameter(0)", f"  n = {array} negate(q)",
        "  t = bf16[1024,512]{1,0} transpose(n), dimensions={1,0}", "  ROOT r = bf16[16,64,512]{2,1,0} reshape(t)",
        "}", "", "ENTRY main {", f"  p = {array} parameter(0)", *lines,
        "  ROOT f = bf16[16,64,512]{2,1,0} fusion(a.96), kind=kLoop, calls=fused", "}", "",
    ]).encode()  # fmt: skip


def chain(name: str, count: int) -> bytes:
    """A module of so many additions, one after another."""
    array = "bf16[512,1024]{1,0}"
    lines = [f"  add.{i} = {array} add({f'add.{i - 1}' if i else 'p'}, p)" for i in range(count)]
    end = f"  ROOT r = {array} negate(add.{count - 1})"
    return "\n".join(
        [f"HloModule {name}", "", "ENTRY main {", f"  p = {array} parameter(0)", *lines, end, "}", ""]
    ).encode()


def cases() -> list[Case]:
    """Small ones vary from call to call, as calls do."""
    shapes = [v1.ShapeInput(text=f"bf16[{rows},300]{{1,0:T(8,128)(2,1)}}") for rows in range(20, 36)]
    random = np.random.default_rng(7)
    points = random.integers(0, [20, 300], (256, 2)).tolist()
    rows = random.integers(0, [384, 30_000], (1_000_000, 2)).astype("<i8")
    positions = random.integers(0, 384 * 30_000, 1_000_000).astype("<i8")
    plain = v1.ShapeInput(text="f32[384,30000]")
    tiled = v1.ShapeInput(text="bf16[384,30000]{1,0:T(8,128)(2,1)}")

    def parts(first: Any, name: str, numbers: Any, count: int) -> list[bytes]:
        cut = [memoryview(part).cast("B") for part in np.array_split(numbers, count)]
        return [join(first if not number else type(first)(), **{name: part}) for number, part in enumerate(cut)]

    module = v1.ModuleInput(name=f"modules/{hashlib.sha256(module_text()).hexdigest()}")
    maps = v1.IndexingMapsRequest(module=module, instruction="f", structured=True).SerializeToString()
    sizes = v1.SizeRequest(module=module).SerializeToString()
    # A module that is there already would not be read.
    uploads = [[v1.PutModuleRequest(data=chain(f"bench.{i}", 25_000)).SerializeToString()] for i in range(20)]
    return [
        Case("maps of a fusion", "IndexingMaps", [[maps]], 1.5, service="IndexingService"),
        Case("Size of a module", "Size", [[sizes]], float("inf"), service="ReportService"),
        Case("PutModule", "PutModule", uploads, float("inf"), service="HloService"),
        Case(
            "ByteSize", "ByteSize", [[v1.ByteSizeRequest(shapes=[shape]).SerializeToString()] for shape in shapes], 1.2
        ),
        Case(
            "LinearIndex",
            "LinearIndex",
            [
                [v1.LinearIndexRequest(shape=shape, indices=point).SerializeToString()]
                for shape, point in zip(shapes * 16, points, strict=True)
            ],
            1.2,
        ),
        Case(
            "DescribeShape",
            "DescribeShape",
            [[v1.DescribeShapeRequest(shapes=[shape]).SerializeToString()] for shape in shapes],
            1.2,
        ),
        *(
            case
            for kind, shape in (("no tiles", plain), ("T(8,128)(2,1)", tiled))
            for case in (
                Case(
                    f"LinearIndex 1e6, {kind}",
                    "LinearIndex",
                    [parts(v1.LinearIndexRequest(shape=shape), "indices", rows, 1)],
                    1.3,
                ),
                Case(
                    f"MultiIndex 1e6, {kind}",
                    "MultiIndex",
                    [parts(v1.MultiIndexRequest(shape=shape), "positions", positions, 1)],
                    1.3,
                ),
                Case(
                    f"LinearIndices 1e6, {kind}",
                    "LinearIndices",
                    [parts(v1.LinearIndicesRequest(shape=shape), "indices", rows, 32)],
                    1.3,
                    True,
                ),
                Case(
                    f"MultiIndices 1e6, {kind}",
                    "MultiIndices",
                    [parts(v1.MultiIndicesRequest(shape=shape), "positions", positions, 32)],
                    1.3,
                    True,
                ),
            )
        ),
    ]


def echo(sizes: list[list[int]]) -> None:
    """The process of the echo server: method N answers messages of the sizes of `sizes[N]`."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    config = Config()
    server = grpc.server(
        ThreadPoolExecutor(_ECHO_THREADS), options=[*connection_options(config), *server_options(config)]
    )

    def answering(answers: list[int]) -> Any:
        made = [bytes(memoryview(bytearray(size))) for size in answers]

        def unary(request: bytes, context: Any) -> bytes:
            # A copy for bulk answers, as an echo of the request's own bytes would need none and a real answer is made
            # anew.
            return made[0] if len(made[0]) < 1000 else bytes(memoryview(made[0]))

        def stream(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            for answer, _ in zip(made, requests, strict=True):
                yield bytes(memoryview(answer))

        if len(answers) > 1:
            return grpc.stream_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)

    handlers = {str(number): answering(answers) for number, answers in enumerate(sizes)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo.Echo", handlers),))
    if hasattr(server, "add_registered_method_handlers"):
        server.add_registered_method_handlers("echo.Echo", handlers)
    print(json.dumps({"port": server.add_insecure_port("127.0.0.1:0")}), flush=True)
    server.start()
    sys.stdin.read()


class Side(NamedTuple):
    """One of the two servers, or a case of it."""

    address: str
    pid: int
    path: str
    token: str = ""


def asking(channel: grpc.Channel, side: Side, case: Case) -> Callable[[], list[int]]:
    """A function that asks once, and gives the sizes of the answers."""
    headers = (("authorization", f"Bearer {side.token}"),) if side.token else None
    requests = itertools.cycle(case.requests)
    if case.is_stream:
        stream: Any = channel.stream_stream(side.path)
        return lambda: [len(answer) for answer in stream(iter(next(requests)), metadata=headers)]
    unary: Any = channel.unary_unary(side.path)
    return lambda: [len(unary(next(requests)[0], metadata=headers))]


def latencies(side: Side, case: Case, seconds: float, clients: int) -> list[float]:
    """Seconds of every call that so many clients, each with a connection and a thread, get done in `seconds`; at least
    three each."""
    found: list[list[float]] = [[] for _ in range(clients)]

    def ask(mine: list[float]) -> None:
        with grpc.insecure_channel(side.address, OPTIONS) as channel:
            call = asking(channel, side, case)
            call()
            end = time.perf_counter() + seconds
            while (begun := time.perf_counter()) < end or len(mine) < 3:
                call()
                mine.append(time.perf_counter() - begun)

    threads = [threading.Thread(target=ask, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [value for mine in found for value in mine]


def p50(pool: Pool, side: Side, case: Case, seconds: float, clients: int) -> float:
    """The median seconds of a call over all clients, who are spread over processes: their own interpreter lock is not
    what is measured."""
    if clients == 1:
        return statistics.median(pool.apply(latencies, (side, case, seconds, 1)))
    parts = pool.starmap(latencies, [(side, case, seconds, clients // PROCESSES)] * PROCESSES)
    return statistics.median(value for part in parts for value in part)


def waits(pool: Pool, case: Case, sides: tuple[Side, Side], seconds: float) -> bool:
    """Prints what callers of both sides wait."""
    good = True
    for clients in (1,) if case.is_bulk else (1, 16):
        rounds = [[p50(pool, side, case, seconds / ROUNDS, clients) for side in sides] for _ in range(ROUNDS)]
        theirs, ours = (statistics.median(each) for each in zip(*rounds, strict=True))
        good = good and ours <= case.allowed * theirs
        print(
            f"{case.name:32}{clients:>8}{theirs * 1e3:>10.3f}{ours * 1e3:>10.3f}{ours / theirs:>8.2f}{case.allowed:>9.1f}",
            flush=True,
        )
    return good


def processor_seconds(pid: int) -> float:
    """Processor time of a process, and of those that compute for it."""
    found = time.clock_gettime((~pid << 3) | 2)
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread or a process that has ended since
            found += sum(processor_seconds(int(child)) for child in (task / "children").read_text().split())
    return found


def processor(case: Case, sides: tuple[Side, Side], clients: int) -> None:
    """Prints the time of the processor of one call, where so many clients, each with a connection and a thread, ask."""
    each, blocks = (1, 15) if case.is_bulk else (-(-BLOCK_CALLS // clients), BLOCKS)
    count = each * clients
    with contextlib.ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(clients))

        def connected(side: Side) -> Callable[[], object]:
            return asking(stack.enter_context(grpc.insecure_channel(side.address, OPTIONS)), side, case)

        def ask(call: Callable[[], object]) -> None:
            for _ in range(each):
                call()

        calls = [[connected(side) for _ in range(clients)] for side in sides]
        found: list[list[tuple[float, float]]] = [[], []]
        for block in range(-2, blocks):
            for which in (0, 1) if block % 2 else (1, 0):
                server, client = processor_seconds(sides[which].pid), time.process_time()
                if clients == 1:
                    ask(calls[which][0])
                else:
                    list(threads.map(ask, calls[which]))
                if block >= 0:
                    ended = processor_seconds(sides[which].pid), time.process_time()
                    found[which].append(((ended[0] - server) / count, (ended[1] - client) / count))
    theirs, ours = (statistics.median(server for server, _ in each) for each in found)
    added = statistics.median(mine[0] - other[0] for other, mine in zip(*found, strict=True))
    client = [statistics.median(client for _, client in each) for each in found]
    print(
        f"{case.name:32}{theirs * 1e6:>12.1f}{ours * 1e6:>12.1f}{added * 1e6:>12.1f}{1 + added / theirs:>8.2f}"
        f"{client[0] * 1e6:>12.1f}{client[1] * 1e6:>12.1f}{1 + (added + client[1] - client[0]) / (theirs + client[0]):>8.2f}"
        f"{1 / (min(server for server, _ in found[0]) + added):>10.0f}",
        flush=True,
    )


def main(arguments: argparse.Namespace) -> bool:
    asked = [case for case in cases() if case.name.startswith(arguments.only)]
    with contextlib.ExitStack() as stack:
        settings: dict[str, Any] = {"address": "127.0.0.1:0", "workers": 1}
        if arguments.auth:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "auth.toml"
            digest = hashlib.sha256(TOKEN.encode()).hexdigest()
            path.write_text(f'[[token]]\nname = "bench"\nsha256 = "{digest}"\naccess = "write"\n')
            settings["auth"] = str(path)
        if arguments.metrics:
            settings["metrics"] = "127.0.0.1:0"
        token = TOKEN if arguments.auth else ""
        with unseen_logs():
            server = stack.enter_context(Server(Config(**settings)))
        # Spawned: grpc does not like to be forked once it was used.
        pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(PROCESSES))
        worker = server.worker_pids[0]
        store(server.address, token)
        ours = [Side(server.address, worker, f"/xlashape.v1.{case.service}/{case.rpc}", token) for case in asked]
        sizes = pool.starmap(answer_sizes, zip(ours, asked, strict=True))
        command = [sys.executable, __file__, "--echo", json.dumps(sizes)]
        peer = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert peer.stdout is not None
        assert peer.stdin is not None
        address = f"127.0.0.1:{json.loads(peer.stdout.readline())['port']}"
        theirs = [Side(address, peer.pid, f"/echo.Echo/{number}", token) for number in range(len(asked))]
        good = True
        if arguments.processor:
            print(
                f"{'microseconds of the processor':32}{'echo':>12}{'ours':>12}{'added':>12}{'ratio':>8}{'client':>12}{'ours':>12}{'both':>8}{'a second':>10}"
            )
        else:
            print(f"{'':32}{'clients':>8}{'echo ms':>10}{'ours ms':>10}{'ratio':>8}{'allowed':>9}")
        for case, sides in zip(asked, zip(theirs, ours, strict=True), strict=True):
            if arguments.processor:
                processor(case, sides, arguments.clients)
            else:
                good = waits(pool, case, sides, arguments.seconds) and good
        peer.stdin.close()
    return good


@contextlib.contextmanager
def unseen_logs() -> Generator[None]:
    """Has a server that is started meanwhile write its log to nowhere, which is not where the table goes."""
    shown = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(shown, 2)
        os.close(shown)


def store(address: str, token: str) -> None:
    """Stores the module that cases name."""
    request = v1.PutModuleRequest(data=module_text()).SerializeToString()
    side = Side(address, 0, "/xlashape.v1.HloService/PutModule", token)
    with grpc.insecure_channel(address, OPTIONS) as channel:
        asking(channel, side, Case("", "", [[request]], 0.0))()


def answer_sizes(side: Side, case: Case) -> list[int]:
    """The sizes of the answers to the first request."""
    with grpc.insecure_channel(side.address, OPTIONS) as channel:
        return asking(channel, side, case)()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--echo"]:
        echo(json.loads(sys.argv[2]))
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
        parser.add_argument("--processor", action="store_true", help="measure time of the processor")
        parser.add_argument("--clients", type=int, default=1, help="with --processor: how many ask at a time")
        parser.add_argument("--auth", action="store_true", help="with tokens")
        parser.add_argument("--metrics", action="store_true", help="with metrics")
        parser.add_argument("--only", default="", help="cases whose names begin so")
        sys.exit(0 if main(parser.parse_args()) else 1)
