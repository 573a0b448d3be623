"""Indexing maps of whole models, an instruction at a time, beside what protobuf alone takes to decode the same module.

    python tests/benchmarks/bench_indexing.py [MODULE …]

Without arguments: the whole models in the folder of shared data, where there are any, and the modules committed as vectors. Times are of the
process, the best of five; views of the module are made before the clock starts. XLA's own analysis of the same models (its
ComputeOutputToInputIndexing, output 0 alone) takes 2 to 4 µs an instruction on the machine where these ratios were made.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from xlashape import indexing
from xlashape.hlo import HloInstruction, HloModule
from xlashape.indexing import analysis, build
from xlashape.proto import xla

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("XLASHAPE_SHARED", ROOT.parent / "shared"))


def best(run: Callable[[], object], before: Callable[[], object] = lambda: None, repeat: int = 5) -> float:
    """Seconds of the fastest of some runs."""
    times = []
    for _ in range(repeat):
        before()
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def forget() -> None:
    """No answer is known."""
    analysis._signatures.clear()
    for cached in (build.identity, build.to_scalar, build._whole):
        cached.cache_clear()


def all_maps(module: HloModule) -> int:
    return sum(1 for _ in indexing.module_indexing(module))


def one_of_each(module: HloModule) -> dict[str, HloInstruction]:
    found: dict[str, HloInstruction] = {}
    for instruction in module.instructions():
        if instruction.operands and not instruction.shape.is_tuple:
            found.setdefault(str(instruction.opcode), instruction)
    return found


def main(paths: list[str]) -> None:
    files = [Path(path) for path in paths] or [
        *sorted((SHARED / "hlo" / "models").glob("*.hlo")),
        *sorted((ROOT / "tests" / "vectors" / "hlo").glob("*.hlo")),
    ]
    print(
        f"{'module':34} {'maps':>7} {'decode':>8} {'cold':>8} {'warm':>8} {'cold ÷':>7} {'warm ÷':>7}   µs a map; ÷ decoding the bytes"
    )
    cold_by_opcode: dict[str, list[float]] = {}
    for path in files:
        module = HloModule.load(path)
        data = module.proto.SerializeToString()
        count = all_maps(module)
        if not count:
            continue
        decode = best(lambda data=data: xla.HloModuleProto.FromString(data)) / count * 1e6
        cold = best(lambda module=module: all_maps(module), forget) / count * 1e6
        warm = best(lambda module=module: all_maps(module)) / count * 1e6
        print(
            f"{path.name:34} {count:7} {decode:8.2f} {cold:8.2f} {warm:8.2f} {cold / decode:7.1f} {warm / decode:7.1f}"
        )
        for opcode, instruction in one_of_each(module).items():
            taken = best(lambda instruction=instruction: indexing.output_to_input(instruction), forget)
            cold_by_opcode.setdefault(opcode, []).append(taken * 1e6)
    print("\none instruction alone, nothing known before, µs:")
    for opcode, times in sorted(cold_by_opcode.items(), key=lambda pair: -max(pair[1])):
        print(f"  {opcode:24} {min(times):8.1f} to {max(times):8.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
