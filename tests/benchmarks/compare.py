"""What a change costs: the same steps by two source trees, in turns, as ratios of this tree to the other.

    python tests/benchmarks/compare.py BASE_TREE [--rounds N] [STEP …]

BASE_TREE is a checkout of an earlier commit (`git worktree add ../base TAG`, then `python protos/schema_compiler.py` in
it). STEP selects the steps whose name contains one of the words. Each tree runs in processes of its own. A round asks
both trees for one measurement of a step, in alternating order, and each measurement is the best of some repetitions;
the ratio is that of the two measurements of a round. Printed are the best seconds of each tree, their ratio, and the
median, least and greatest ratio of all rounds. Times are CPU time of the process, so that other programs disturb
little; RPCs are wall time. A step under *cold* runs in a new process each time, with modules imported and nothing
cached.

The steps are in compare_steps.py.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from compare_steps import SHARED, STEPS, Step

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 1.10  # slower than this, by the median of the rounds and by the best times, is marked

IMPORTS = {
    "import xlashape": "import xlashape",
    "import Shape": "from xlashape import Shape; Shape.parse('f32[3,5]{1,0:T(2,2)}')",
    "import HloModule": "from xlashape import HloModule",
    "import indexing": "from xlashape import indexing; indexing.output_to_input",
}


def measure(run: Step, *, is_cold: bool, clock: Callable[[], float]) -> float:
    """Seconds of one run: the best of those that fit into a fifth of a second, three at least; of a cold step, its only
    run."""
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
