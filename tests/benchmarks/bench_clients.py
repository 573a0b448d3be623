"""The clients of all languages against one server: small calls beside the bare stub of the language, bulk, and maps evaluated here and there.

    python tests/benchmarks/bench_clients.py [LANGUAGE …]            # times
    python tests/benchmarks/bench_clients.py --lines [LANGUAGE …]    # lines of code that are written by hand

Each language has a program that takes the server's address, asks its own client and the bare generated stub in turns, and prints one JSON object of
times in microseconds:

| key | what is timed |
|---|---|
| small_call, bare_stub | ByteSize of one shape, the median of 2,000 calls |
| million_indices | 1,000,000 indices of rank 2 by the client's function for many, the best of 5 |
| evaluate_here, evaluate_there | a map at 1,000,000 points by the client itself, and by the server's EvaluateMap, the best of 5 |

A small call may take 1.1 times as long as that of the bare stub. `python-asyncio` is AsyncClient beside a bare stub of grpc.aio, with the blocking client in
the same turns: its time is the last column.

A line of code has something on it that is neither space nor comment. Tests, examples, benchmarks and generated code are not counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import grpc
import numpy as np
from pygments.lexers import get_lexer_for_filename
from pygments.token import Comment, String

from xlashape.proto import v1
from xlashape.symbolic import IndexingMap
from xlashape_client import AsyncClient, Client
from xlashape_server import Config, Server

CLIENTS = Path(__file__).resolve().parents[2] / "clients"
SOURCES = {
    "python": "python/xlashape_client/**/*.py",
    "go": "go/*.go",
    "rust": "rust/src/*.rs",
    "java": "java/client/src/main/**/*.java",
    "cpp": "cpp/[is]*/**/*.*",
    "typescript": "typescript/src/*.ts",
}
"""The files of each client that are written by hand, and their tests where those stand beside them."""
COMMANDS = {
    "cpp": [
        "sh",
        "-c",
        "cmake -S . -B build/bench -DCMAKE_BUILD_TYPE=Release -DXLASHAPE_BUILD_BENCHMARKS=ON -DXLASHAPE_BUILD_TESTS=OFF"
        ' -DXLASHAPE_BUILD_EXAMPLES=OFF >&2 && cmake --build build/bench >&2 && exec build/bench/xlashape_bench "$0"',
    ],
    "go": ["go", "run", "./conformance/bench"],
    "java": [
        "sh",
        "-c",
        "mvn --quiet --batch-mode -Dstyle.color=never -DskipTests -pl client,conformance package >&2 &&"
        " exec java -cp 'conformance/target/testee/*' io.github.xlashape.conformance.Benchmark \"$0\"",
    ],
    "typescript": [
        "sh",
        "-c",
        'npm run --silent build && npm run --silent check && exec node build/conformance/bench.js "$0"',
    ],
    "rust": ["cargo", "run", "--quiet", "--release", "--package", "xlashape-conformance", "--bin", "bench", "--"],
}
"""The program of each language, run in its folder with the address as its last argument."""
ALLOWED = 1.1
SHAPE = "bf16[20,300]{1,0:T(8,128)(2,1)}"
TEXT = "(d0, d1) -> ((d0 * 128 + d1) floordiv 8, (d0 * 128 + d1) mod 8), domain: d0 in [0, 7999], d1 in [0, 127]"


def code_lines(path: Path) -> int:
    """The lines that hold code. Of a file of Rust those before its tests."""
    text = path.read_text().partition("#[cfg(test)]\nmod tests")[0]
    counted: set[int] = set()
    line = 1
    for kind, value in get_lexer_for_filename(path.name).get_tokens(text):
        is_code = (
            kind not in Comment or kind in Comment.Preproc or kind in Comment.PreprocFile
        ) and kind not in String.Doc
        for i, part in enumerate(value.split("\n")):
            line += i > 0
            if is_code and part.strip():
                counted.add(line)
    return len(counted)


def print_lines(chosen: list[str]) -> None:
    for language in chosen or SOURCES:
        files = [path for path in sorted(CLIENTS.glob(SOURCES[language])) if not path.name.endswith("_test.go")]
        counts = {path: code_lines(path) for path in files}
        print(f"{language:12}{sum(counts.values()):6}")
        for path, count in counts.items():
            print(f"{'':12}{count:6}  {path.relative_to(CLIENTS / language)}")


def micros(run: Any) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e6


def bare_stub(channel: Any) -> Any:
    return channel.unary_unary(
        "/xlashape.v1.ShapeService/ByteSize",
        request_serializer=v1.ByteSizeRequest.SerializeToString,
        response_deserializer=v1.ByteSizeResponse.FromString,
    )


def of_python(address: str) -> dict[str, float]:
    numbers = np.stack(np.divmod(np.arange(1_000_000), 128), axis=1)
    parsed = IndexingMap.parse(TEXT)
    with Client(address) as client, grpc.insecure_channel(address) as channel:
        stub = bare_stub(channel)
        ours: list[float] = []
        bare: list[float] = []
        for _ in range(2000):
            ours.append(micros(lambda: client.byte_size(SHAPE)))
            bare.append(micros(lambda: stub(v1.ByteSizeRequest(shapes=[v1.ShapeInput(text=SHAPE)]))))
        best = {
            "million_indices": lambda: client.linear_indices("f32[8000,128]{1,0:T(8,128)}", numbers),
            "evaluate_here": lambda: parsed.evaluate_batch(numbers),
            "evaluate_there": lambda: client.evaluate_map_batch(TEXT, numbers),
        }
        times = {name: min(micros(run) for _ in range(5)) for name, run in best.items()}
    return {"small_call": median(ours), "bare_stub": median(bare), **times}


async def awaited_micros(run: Any) -> float:
    start = time.perf_counter()
    await run()
    return (time.perf_counter() - start) * 1e6


async def of_asyncio(address: str) -> dict[str, float]:
    numbers = np.stack(np.divmod(np.arange(1_000_000), 128), axis=1)
    parsed = IndexingMap.parse(TEXT)
    blocking = Client(address)
    async with AsyncClient(address) as client, grpc.aio.insecure_channel(address) as channel:
        stub = bare_stub(channel)

        async def block() -> None:
            blocking.byte_size(SHAPE)

        small: dict[str, Any] = {
            "small_call": lambda: client.byte_size(SHAPE),
            "bare_stub": lambda: stub(v1.ByteSizeRequest(shapes=[v1.ShapeInput(text=SHAPE)])),
            "blocking_call": block,
        }
        taken: dict[str, list[float]] = {name: [] for name in small}
        names = [*small]
        for _ in range(2000):
            random.shuffle(names)  # each is slowed down by the one before
            for name in names:
                taken[name].append(await awaited_micros(small[name]))
        best = {
            "million_indices": lambda: client.linear_indices("f32[8000,128]{1,0:T(8,128)}", numbers),
            "evaluate_there": lambda: client.evaluate_map_batch(TEXT, numbers),
        }
        times = {name: min([await awaited_micros(run) for _ in range(5)]) for name, run in best.items()}
    blocking.close()
    here = min(micros(lambda: parsed.evaluate_batch(numbers)) for _ in range(5))
    return {**{name: median(values) for name, values in taken.items()}, **times, "evaluate_here": here}


def main() -> int:
    if "--lines" in sys.argv:
        print_lines([name for name in sys.argv[1:] if name != "--lines"])
        return 0
    chosen = sys.argv[1:] or ["python", "python-asyncio", *COMMANDS]
    slow = False
    print(
        f"{'language':15}{'small call':>12}{'bare stub':>12}{'ratio':>8}{'10⁶ indices':>14}{'map here':>12}{'map there':>12}{'blocking':>12}"
    )
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server:
        for language in chosen:
            command = COMMANDS.get(language)
            if language == "python-asyncio":
                times = asyncio.run(of_asyncio(server.address))
            elif command is None:
                times = of_python(server.address)
            elif shutil.which(command[0]) is None:
                print(f"{language:15}{command[0]} is not here")
                continue
            else:
                done = subprocess.run(
                    [*command, server.address],
                    cwd=CLIENTS / language,
                    stdout=subprocess.PIPE,
                    check=True,
                    env=os.environ,
                )
                times = json.loads(done.stdout)
            ratio = times["small_call"] / times["bare_stub"]
            slow = slow or ratio > ALLOWED
            print(
                f"{language:15}{times['small_call']:9.0f} µs{times['bare_stub']:9.0f} µs{ratio:8.2f}"
                f"{times['million_indices'] / 1000:11.0f} ms{times['evaluate_here'] / 1000:9.0f} ms{times['evaluate_there'] / 1000:9.0f} ms"
                + (f"{times['blocking_call']:9.0f} µs" if "blocking_call" in times else "")
            )
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
