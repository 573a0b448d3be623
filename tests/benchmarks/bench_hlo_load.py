"""Loading whole models: time and memory an instruction, beside what protobuf alone takes to decode the same bytes.

    python tests/benchmarks/bench_hlo_load.py [PROTO …]

Without arguments: every text in the folder of whole models, parsed here, and the modules committed as vectors.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("XLASHAPE_SHARED", ROOT.parent / "shared"))

# Run in a process of its own, so that memory is what this one step took.
_STEP = """
import resource, sys, time
from xlashape.proto import xla
from xlashape.hlo import HloModule
data = open(sys.argv[2], "rb").read()
HloModule.from_proto(xla.HloModuleProto(computations=[dict(instructions=[dict(name="p")])]))
def rss():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()
before, best = rss(), 1e9
step = sys.argv[1]
for repeat in range(3):
    start = time.perf_counter()
    if step == "decode":
        kept = xla.HloModuleProto.FromString(data)
    else:
        kept = HloModule.from_proto(data)
        if step == "walk":
            for one in kept.instructions():
                one.name, one.opcode, one.shape, one.operands, one.users, one.called_computations
    best = min(best, time.perf_counter() - start)
    if not repeat:
        memory = rss() - before
print(best, memory)
"""


def measure(step: str, path: Path) -> tuple[float, int]:
    """(seconds, bytes) of one step on the module in `path`."""
    answer = subprocess.run([sys.executable, "-c", _STEP, step, str(path)], capture_output=True, text=True, check=True)
    seconds, memory = answer.stdout.split()
    return float(seconds), int(memory)


def main(paths: list[Path]) -> None:
    """Prints one line a module and step."""
    from xlashape.hlo import HloModule

    print(f"{'module':28} {'step':8} {'ms':>8} {'µs/instr':>9} {'× decode':>9} {'B/instr':>8} {'× proto':>8}")
    for path in paths:
        size, count = path.stat().st_size, sum(1 for _ in HloModule.load(path).instructions())
        decode = None
        for step in ("decode", "load", "walk"):
            seconds, memory = measure(step, path)
            decode = decode or seconds
            print(
                f"{path.name[:28]:28} {step:8} {seconds * 1e3:8.1f} {seconds / count * 1e6:9.2f} "
                f"{seconds / decode:9.2f} "
                f"{memory / count:8.0f} {memory / size:8.2f}"
            )


def protos(folder: Path) -> list[Path]:
    """The modules to measure, as proto files in `folder`."""
    from xlashape.hlo import HloModule

    found = []
    for text in sorted(SHARED.glob("hlo/models/*.hlo")):
        start = time.perf_counter()
        data = HloModule.load(text).to_bytes()
        print(f"{text.name}: parsed in {time.perf_counter() - start:.2f} s")
        found.append(folder / f"{text.stem}.pb")
        found[-1].write_bytes(data)
    if not found:
        for packed in sorted((ROOT / "tests/vectors/hlo").glob("*.pb.gz")):
            found.append(folder / packed.stem)
            found[-1].write_bytes(gzip.decompress(packed.read_bytes()))
    return found


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        main([Path(name) for name in sys.argv[1:]] or protos(Path(made)))
