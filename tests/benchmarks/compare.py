"""What a change costs: the same steps by two source trees, in turns, as ratios of this tree to the other.

    python tests/benchmarks/compare.py BASE_TREE [--rounds N] [STEP …]

BASE_TREE is a checkout of an earlier commit (`git worktree add ../base TAG`, then `python protos/schema_compiler.py` in it). STEP selects the
steps whose name contains one of the words. Each tree runs in processes of its own. A round asks both trees for one measurement of a step, in
alternating order, and each measurement is the best of some repetitions; the ratio is that of the two measurements of a round. Printed are the
best seconds of each tree, their ratio, and the median, least and greatest ratio of all rounds. Times are CPU time of the process, so that
other programs disturb little; RPCs are wall time. A step under *cold* runs in a new process each time, with modules imported and nothing cached.

Only public names are used, since both trees must have them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("XLASHAPE_SHARED", ROOT.parent / "shared"))
VECTORS = ROOT / "tests" / "vectors"
LIMIT = 1.10  # slower than this, by the median of the rounds and by the best times, is marked

Step = Callable[[], Any]
STEPS: dict[str, Callable[[], Step]] = {}
IMPORTS = {
    "import xlashape": "import xlashape",
    "import Shape": "from xlashape import Shape; Shape.parse('f32[3,5]{1,0:T(2,2)}')",
    "import HloModule": "from xlashape import HloModule",
    "import indexing": "from xlashape import indexing; indexing.output_to_input",
}


def step(name: str) -> Callable[[Callable[[], Step]], Callable[[], Step]]:
    """Registers a function that prepares a step and returns what is measured."""

    def add(prepare: Callable[[], Step]) -> Callable[[], Step]:
        STEPS[name] = prepare
        return prepare

    return add


def _model_texts() -> list[str]:
    """Some 200 kB of HLO text of every kind; whole models where there are any."""
    paths = sorted((VECTORS / "hlo").glob("*.after.hlo"))
    texts = [path.read_text() for path in paths]
    return texts + [path.read_text() for path in sorted((SHARED / "hlo" / "models").glob("*.hlo"))[:1]]


def _modules() -> list[Any]:
    from xlashape import HloModule

    return [HloModule.parse(text) for text in _model_texts()]


def _map_texts(call: str) -> list[dict[str, str]]:
    rows = [json.loads(line) for line in (VECTORS / "maps.jsonl").read_text().splitlines()]
    return [row for row in rows if row["call"] == call]


SHAPES = (
    "f32[{0},128]{{1,0}}",
    "bf16[{0},128]{{1,0:T(8,128)(2,1)S(1)}}",
    "s4[{0},<=7]{{0,1:T(*,4)(2,1)L(16)E(4)S(5)M(8)}}",
    "(f32[{0},128]{{1,0}}, s32[], (bf16[{0}]{{0}}, token[]))",
)


@step("shape parse, new text")
def _() -> Step:
    from xlashape import Shape

    fresh = itertools.count(1_000)

    def run() -> None:
        for _ in range(100):
            size = next(fresh)
            for template in SHAPES:
                Shape.parse(template.format(size))

    return run


@step("shape parse, same text")
def _() -> Step:
    from xlashape import Shape

    texts = [template.format(size) for size in range(8, 58) for template in SHAPES]
    return lambda: [Shape.parse(text) for text in texts]


@step("shape print")
def _() -> Step:
    from xlashape import Shape

    fresh = itertools.count(1_000)

    def run() -> None:
        shapes = [Shape("bf16", (next(fresh), 128)) for _ in range(200)]
        for shape in shapes:
            str(shape)

    return run


@step("shape proto")
def _() -> Step:
    from xlashape import Shape

    messages = [Shape.parse(template.format(size)).to_proto() for size in range(8, 58) for template in SHAPES]
    return lambda: [Shape.from_proto(message).to_proto() for message in messages]


TILED = (
    "f32[7,50,300,130]{3,2,1,0}",
    "bf16[7,50,300,130]{3,2,1,0:T(8,128)(2,1)}",
    "f32[7,50,300,130]{2,3,1,0:T(*,7,100)(5,6)}",
)


@step("tiling linear_index")
def _() -> Step:
    from xlashape import Shape, tiling

    shapes = [Shape.parse(text) for text in TILED]
    return lambda: [tiling.linear_index(shape, (3, 20, 100, column)) for shape in shapes for column in range(100)]


@step("tiling multi_index")
def _() -> Step:
    from xlashape import Shape, tiling

    shapes = [Shape.parse(text) for text in TILED]
    return lambda: [tiling.multi_index(shape, position) for shape in shapes for position in range(0, 100_000, 1_000)]


@step("tiling linear_indices, 100,000")
def _() -> Step:
    import numpy as np

    from xlashape import Shape, tiling

    shapes = [Shape.parse(text) for text in TILED]
    rows = np.stack([np.random.default_rng(0).integers(0, size, 100_000) for size in (7, 50, 300, 130)], 1)
    return lambda: [tiling.linear_indices(shape, rows) for shape in shapes]


@step("tiling multi_indices, 100,000")
def _() -> Step:
    import numpy as np

    from xlashape import Shape, tiling

    shapes = [Shape.parse(text) for text in TILED]
    positions = np.random.default_rng(0).integers(0, 13_650_000, 100_000)
    return lambda: [tiling.multi_indices(shape, positions) for shape in shapes]


@step("tiling first question of a shape")
def _() -> Step:
    from xlashape import Shape, tiling

    fresh = itertools.count(1_000)

    def run() -> None:
        for _ in range(50):
            shape = Shape.parse(f"bf16[{next(fresh)},300]{{1,0:T(8,128)(2,1)}}")
            tiling.physical_bytes(shape)
            tiling.linear_index(shape, (7, 7))

    return run


@step("pack and unpack")
def _() -> Step:
    import numpy as np

    from xlashape import Shape, tiling

    shape = Shape.parse("f32[300,500]{1,0:T(8,128)}")
    array = np.arange(150_000, dtype=np.float32).reshape(300, 500)
    return lambda: tiling.unpack(shape, tiling.pack(shape, array))


@step("hlo parse")
def _() -> Step:
    from xlashape import HloModule

    texts = _model_texts()
    return lambda: [HloModule.parse(text) for text in texts]


@step("hlo print")
def _() -> Step:
    modules = _modules()
    return lambda: [module.to_text() for module in modules]


@step("hlo load and walk")
def _() -> Step:
    from xlashape import HloModule

    data = [module.proto.SerializeToString() for module in _modules()]

    def run() -> None:
        for item in data:
            for instruction in HloModule.from_proto(item).instructions():
                _ = instruction.name, instruction.opcode, instruction.shape, instruction.operands
                _ = instruction.users, instruction.called_computations

    return run


@step("hlo verify")
def _() -> Step:
    try:
        from xlashape.hlo.verifier import verify
    except ImportError:  # older trees
        from xlashape.hlo.verify import verify  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    modules = _modules()
    return lambda: [verify(module) for module in modules]


@step("maps of modules, warm")
def _() -> Step:
    from xlashape import indexing

    modules = _modules()
    return lambda: [sum(1 for _ in indexing.module_indexing(module)) for module in modules]


@step("maps of modules, new views")
def _() -> Step:
    from xlashape import HloModule, indexing

    data = [module.proto.SerializeToString() for module in _modules()]
    return lambda: [sum(1 for _ in indexing.module_indexing(HloModule.from_proto(item))) for item in data]


@step("maps of modules, cold")
def _() -> Step:
    from xlashape import HloModule, indexing

    warm = HloModule.parse("HloModule m\nENTRY e { p = f32[3]{0} parameter(0) ROOT n = f32[3]{0} negate(p) }")
    assert sum(1 for _ in indexing.module_indexing(warm))
    modules = _modules()
    return lambda: [sum(1 for _ in indexing.module_indexing(module)) for module in modules]


@step("operand reads, cold")
def _() -> Step:
    from xlashape import HloModule, indexing

    warm = HloModule.parse("HloModule m\nENTRY e { p = f32[3]{0} parameter(0) ROOT n = f32[3]{0} negate(p) }")
    list(indexing.module_reads(warm))
    modules = [HloModule.load(path) for path in sorted((VECTORS / "hlo").glob("*.after.hlo"))[:6]]
    return lambda: [list(indexing.module_reads(module)) for module in modules]


@step("map parse")
def _() -> Step:
    from xlashape import IndexingMap

    texts = [row["map"] for row in _map_texts("simplify")]
    return lambda: [IndexingMap.parse(text) for text in texts]


@step("map simplify, cold")
def _() -> Step:
    from xlashape import IndexingMap

    IndexingMap.parse("(d0) -> (d0 mod 4), domain: d0 in [0, 3]").simplify()
    maps = [IndexingMap.parse(row["map"]) for row in _map_texts("simplify")]
    return lambda: [m.simplify() for m in maps]


@step("map compose, cold")
def _() -> Step:
    from xlashape import IndexingMap

    first = IndexingMap.parse("(d0) -> (d0 mod 4), domain: d0 in [0, 3]")
    first.compose(first)
    pairs = [(IndexingMap.parse(row["first"]), IndexingMap.parse(row["second"])) for row in _map_texts("compose")]
    return lambda: [a.compose(b) for a, b in pairs]


@step("map simplify, again")
def _() -> Step:
    from xlashape import IndexingMap

    texts = [row["map"] for row in _map_texts("simplify")][:300]
    return lambda: [IndexingMap.parse(text).simplify() for text in texts]


@step("map print")
def _() -> Step:
    from xlashape import IndexingMap

    maps = [IndexingMap.parse(row["map"]) for row in _map_texts("simplify")]
    return lambda: [m.to_text() for m in maps]


@step("map evaluate")
def _() -> Step:
    from xlashape import IndexingMap

    m = IndexingMap.parse(
        "(d0, d1, d2) -> ((d0 * 600 + d1 * 30 + d2) / 77, (d0 * 600 + d1 * 30 + d2) mod 77), domain: d0 in [0, 99], d1 in [0, 19], d2 in [0, 29]"
    )
    return lambda: [m.evaluate((row, 7, 9)) for row in range(100)]


@step("map evaluate_batch, 100,000")
def _() -> Step:
    import numpy as np

    from xlashape import IndexingMap

    m = IndexingMap.parse(
        "(d0, d1, d2) -> ((d0 * 600 + d1 * 30 + d2) / 77, (d0 * 600 + d1 * 30 + d2) mod 77), domain: d0 in [0, 99], d1 in [0, 19], d2 in [0, 29]"
    )
    points = np.stack([np.random.default_rng(0).integers(0, size, 100_000) for size in (100, 20, 30)], 1)
    return lambda: m.evaluate_batch(points)


def _with_client(ask: Callable[[Any], Any]) -> Step:
    import atexit

    from xlashape_client import Client
    from xlashape_server import Config, Server

    server = Server(Config(address="127.0.0.1:0", workers=1)).start()
    client = Client(server.address)
    atexit.register(server.stop)
    atexit.register(client.close)
    return lambda: ask(client)


@step("RPC byte_size")
def _() -> Step:
    return _with_client(lambda client: client.byte_size("bf16[20,300]{1,0:T(8,128)(2,1)}"))


@step("RPC linear_index")
def _() -> Step:
    return _with_client(lambda client: client.linear_index("bf16[20,300]{1,0:T(8,128)(2,1)}", (17, 123)))


def measure(run: Step, *, is_cold: bool, clock: Callable[[], float]) -> float:
    """Seconds of one run: the best of those that fit into a fifth of a second, three at least; of a cold step, its only run."""
    best, until, runs = float("inf"), time.perf_counter() + 0.2, 0
    while not runs or (not is_cold and (runs < 3 or time.perf_counter() < until)):
        start = clock()
        run()
        best = min(best, clock() - start)
        runs += 1
    return best


def work(name: str) -> None:
    """The process of one tree: prepares a step and answers each line of input with the seconds it took."""
    run = STEPS[name]()
    clock = time.perf_counter if name.startswith("RPC") else time.process_time
    import gc

    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(measure(run, is_cold=name.endswith("cold"), clock=clock), flush=True)


def environment(tree: Path) -> dict[str, str]:
    """Variables with which an interpreter imports the packages of a tree."""
    paths = [tree, tree / "server", tree / "clients" / "python"]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "XLASHAPE_SHARED": str(SHARED)}


class Worker:
    """A process that measures one step with one tree."""

    def __init__(self, tree: Path, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--work", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(tree),
            cwd=tree,  # processes that the step starts with `-m` look here first
        )
        self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process of the step has failed")
        return line

    def seconds(self) -> float:
        """One measurement."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def seconds_of_import(tree: Path, code: str) -> float:
    """CPU seconds of a new interpreter that runs `code`; the best of three."""
    best = float("inf")
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, env=environment(tree))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def rounds_of(name: str, trees: tuple[Path, Path], rounds: int) -> list[tuple[float, float]]:
    """(seconds of the base, seconds of this tree) for each round."""
    found: list[tuple[float, float]] = []
    if name in IMPORTS:
        for _ in range(rounds):
            base, new = (seconds_of_import(tree, IMPORTS[name]) for tree in trees)
            found.append((base, new))
        return found
    is_cold = name.endswith("cold")
    workers = [] if is_cold else [Worker(tree, name) for tree in trees]
    try:
        for turn in range(rounds):
            pair = [0.0, 0.0]
            for which in (0, 1) if turn % 2 else (1, 0):
                worker = Worker(trees[which], name) if is_cold else workers[which]
                pair[which] = worker.seconds()
                if is_cold:
                    worker.close()
            found.append((pair[0], pair[1]))
    finally:
        for worker in workers:
            worker.close()
    return found


def main(base: Path, rounds: int, words: list[str]) -> int:
    """Prints a line a step; returns the number of steps that are slower than the limit."""
    names = [name for name in [*IMPORTS, *STEPS] if not words or any(word in name for word in words)]
    slower = 0
    print(f"{'ms':34}{'base':>10}{'this':>10}{'ratio':>8}{'median':>8}{'least':>8}{'greatest':>10}", flush=True)
    for name in names:
        try:
            pairs = rounds_of(name, (base, ROOT), rounds)
        except RuntimeError as error:
            print(f"{name:34}{error}", flush=True)
            slower += 1
            continue
        ratios = sorted([new / old for old, new in pairs])
        old, new = min([pair[0] for pair in pairs]), min([pair[1] for pair in pairs])
        is_slower = statistics.median(ratios) > LIMIT and new / old > LIMIT
        slower += is_slower
        print(
            f"{name:34}{1e3 * old:10.3f}{1e3 * new:10.3f}{new / old:8.2f}{statistics.median(ratios):8.2f}{ratios[0]:8.2f}{ratios[-1]:10.2f}"
            + ("  slower" if is_slower else ""),
            flush=True,
        )
    return slower


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2])
    else:
        parser = argparse.ArgumentParser(description="Compares the speed of this tree with that of another.")
        parser.add_argument("base", type=Path)
        parser.add_argument("--rounds", type=int, default=7)
        parser.add_argument("steps", nargs="*")
        options = parser.parse_intermixed_args()
        sys.exit(1 if main(options.base.resolve(), options.rounds, options.steps) else 0)
