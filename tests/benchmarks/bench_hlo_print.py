"""Printing whole models: MB of text a second, beside jaxlib's own printer in the same run where it is installed.

    python tests/benchmarks/bench_hlo_print.py [ROUNDS [MODULE …]]

Modules are files in any form; without arguments, those in the folder of whole models and the programs committed as
vectors. Times are CPU time, the best of all rounds, the two taking turns. The ratio is our speed ÷ jaxlib's; memory is
the peak that printing adds, in multiples of the text. XLASHAPE_JAXLIB_PYTHON may name an interpreter with jaxlib when
this one has none.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from xlashape.hlo import HloModule

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("XLASHAPE_SHARED", ROOT.parent / "shared"))

# Answers each line of input with the seconds one print takes and the size of the text.
_PEER = """
import sys, time
from jaxlib import _hlo
module = _hlo.HloModule.from_serialized_hlo_module_proto(open(sys.argv[1], "rb").read())
for _ in sys.stdin:
    start = time.process_time()
    text = module.to_string()
    print(time.process_time() - start, len(text), flush=True)
"""


def peer(data: bytes, folder: Path) -> Callable[[], float] | None:
    """A function that prints the module with jaxlib and returns the seconds it took; None without jaxlib."""
    path = folder / "module.pb"
    path.write_bytes(data)
    python = os.environ.get("XLASHAPE_JAXLIB_PYTHON", sys.executable)
    process = subprocess.Popen(
        [python, "-c", _PEER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def step() -> float:
        try:
            stdin.write("\n")
            stdin.flush()
            return float(stdout.readline().split()[0])
        except (BrokenPipeError, IndexError):
            return 0.0

    return step if step() else None


def ours(data: bytes, *, with_proto: bool) -> Callable[[], float]:
    """A function that prints the module and returns the seconds it took: from bytes, or from a message."""
    module = HloModule.from_proto(data).proto if with_proto else data

    def step() -> float:
        start = time.process_time()
        HloModule.from_proto(module).to_text()
        return time.process_time() - start

    return step


def main(arguments: list[str]) -> None:
    """Prints one line a module."""
    import tempfile

    rounds = int(arguments[0]) if arguments else 5
    paths = [Path(name) for name in arguments[1:]] or [
        *sorted((SHARED / "hlo" / "models").glob("*.hlo")),
        *sorted((ROOT / "tests" / "vectors" / "hlo").glob("*.pb.gz"))[:4],
    ]
    print(f"{'module':40} {'MB':>6} {'ours':>7} {'jaxlib':>7} {'ratio':>6} {'from bytes':>10} {'memory':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            data = HloModule.load(path).to_bytes()
            size = len(HloModule.from_proto(data).to_text()) / 1e6
            steps = {"ours": ours(data, with_proto=True), "bytes": ours(data, with_proto=False)}
            theirs = peer(data, Path(folder))
            if theirs is not None:
                steps["jaxlib"] = theirs
            best = {name: min(step() for _ in range(rounds)) for name, step in steps.items()}
            tracemalloc.start()
            HloModule.from_proto(data).to_text()
            memory = tracemalloc.get_traced_memory()[1] / 1e6 / size
            tracemalloc.stop()
            speed = {name: size / seconds for name, seconds in best.items()}
            known = (
                f"{speed['jaxlib']:7.1f} {speed['ours'] / speed['jaxlib']:6.3f}"
                if "jaxlib" in speed
                else f"{'-':>7} {'-':>6}"
            )
            print(f"{path.name:40} {size:6.2f} {speed['ours']:7.1f} {known} {speed['bytes']:10.1f} {memory:6.1f}×")


if __name__ == "__main__":
    main(sys.argv[1:])
