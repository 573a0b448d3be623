"""The table of docs/performance.md: our time beside XLA's and NumPy's in one run, what questions take, and time and
memory an instruction as modules grow.

    python tests/benchmarks/bench_ratios.py [--write] [MOST]

XLA is jaxlib of this interpreter. Times are those of the processor, the best of some rounds, in which both sides take
turns. Each round reads a new module and prints it once; on both sides, modules and texts end after the clock has
stopped. Python's cycle collector runs as users have it. MOST is the most instructions of a made-up module (1,000,000,
which takes 3 GB).
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench_buffers import measure
from bench_scan import program

import xlashape as xs
from xlashape import hlo
from xlashape.hlo import HloModule, Opcode

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("XLASHAPE_SHARED", ROOT.parent / "shared"))
PAGE = ROOT / "docs/performance.md"
BEGIN, END = "<!-- made by tests/benchmarks/bench_ratios.py --write -->", "<!-- end -->"
MODELS = ("hlo_llama31_8b_bf16_1x8", "gemma2_2b_keras_jax", "resnet50_keras_jax_f32")
BUFFERS = (
    "bf16[4096,8192]{1,0:T(8,128)(2,1)}",
    "s8[8192,8192]{1,0:T(8,128)(4,1)}",
    "s8[8192,8192]{1,0:T(32,128)(32,1)}",
    "s4[8192,8192]{1,0:T(8,128)(8,1)E(4)}",
)

_XLA = """
import sys, time
from jaxlib import _hlo
text = open(sys.argv[1]).read()
for _ in sys.stdin:
    start = time.process_time()
    module = _hlo.hlo_module_from_text(text)
    parsed = time.process_time()
    printed = module.to_string()
    print(parsed - start, time.process_time() - parsed, flush=True)
    del module, printed
"""
_MEMORY = """
import os, sys
from xlashape.hlo import HloModule
def held():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
HloModule.from_bytes(HloModule.from_bytes(b"HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }").to_bytes())
before = held()
module = HloModule.load(sys.argv[1])
taken = held() - before
print(taken / sum([len(each) for each in module.computations]), taken / len(module.to_bytes()))
"""


def seconds(*steps: Callable[[Any], Any], given: Any) -> list[float]:
    """The CPU time of each step, which takes the result of the one before it; the first takes `given`. All results live
    until the clock has stopped.
    """
    results, spent = [given], []
    for step in steps:
        start = time.process_time()
        result = step(results[-1])
        spent.append(time.process_time() - start)
        results.append(result)
    return spent


def read_and_print(text: str) -> list[float]:
    """The seconds in which a new module is read from text, and printed for the first time."""
    return seconds(HloModule.parse, HloModule.to_text, given=text)


def collector() -> Iterator[str]:
    """Whether Python's cycle collector runs while times are taken."""
    state = "ran as Python starts it" if gc.isenabled() and not gc.get_freeze_count() else "was paused"
    yield f"Python's cycle collector {state}; it starts after {gc.get_threshold()[0]} new objects."


def models() -> Iterator[str]:
    """Reading and printing whole models."""
    yield "| model | read, ms | ÷ XLA | print, ms | ÷ XLA | most memory while loading ÷ bytes |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for name in MODELS:
        path = SHARED / "hlo/models" / f"{name}.hlo"
        text = path.read_text()
        data = HloModule.parse(text).to_bytes()
        with tempfile.NamedTemporaryFile(suffix=".pb") as file:
            file.write(data)
            file.flush()
            held = most_memory(file.name)[1]
        command = [sys.executable, "-c", _XLA, str(path)]
        xla = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert xla.stdin is not None
        assert xla.stdout is not None
        ours, theirs = [1e9, 1e9], [1e9, 1e9]
        for _ in range(9):
            xla.stdin.write("\n")
            xla.stdin.flush()
            theirs = list(map(min, theirs, map(float, xla.stdout.readline().split())))
            ours = list(map(min, ours, read_and_print(text)))
        xla.stdin.close()
        xla.wait()
        cells = [f"{mine * 1e3:,.0f} | {mine / other:.1f}" for mine, other in zip(ours, theirs, strict=True)]
        yield f"| {name} | {' | '.join(cells)} | {held:.1f} |"


def most_memory(path: str) -> tuple[float, float]:
    """The most bytes that loading a file takes for an instruction, and for a byte of the serialized module."""
    command = [sys.executable, "-c", _MEMORY, path]
    of_instruction, of_byte = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(of_instruction), float(of_byte)


def growth(most: int) -> Iterator[str]:
    """What an instruction costs as modules grow."""
    yield "| instructions | read, µs each | load from a proto, µs each | print, µs each | most memory while reading, kB each |"
    yield "| ---: | ---: | ---: | ---: | ---: |"
    count = 1000
    while count <= most:
        text = program(count, 0)
        module = HloModule.parse(text)
        data, total = module.to_bytes(), sum([len(each) for each in module.computations])
        del module
        spent = [1e9, 1e9, 1e9]
        for _ in range(3 if count < 100_000 else 1):
            read, printed = read_and_print(text)
            [loaded] = seconds(HloModule.from_bytes, given=data)
            spent = list(map(min, spent, (read, loaded, printed)))
        with tempfile.NamedTemporaryFile(suffix=".hlo") as file:
            file.write(text.encode())
            file.flush()
            held, _ = most_memory(file.name)
        cells = " | ".join([f"{each / total * 1e6:.1f}" for each in spent])
        yield f"| {count:,} | {cells} | {held / 1000:.1f} |"
        count *= 10


def walked(data: bytes) -> HloModule:
    """A new module, whose instructions were looked at once."""
    module = HloModule.from_proto(data)
    for each in module.instructions():
        _ = each.opcode, each.operands, each.shape, each.users
    return module


def changed(data: bytes) -> HloModule:
    """A new module that differs in the opcode of its last addition."""
    module = walked(data)
    [*_, last] = [each for each in module.entry.instructions if each.opcode is Opcode.ADD]
    last.set_opcode(Opcode.SUBTRACT)
    return walked(module.to_bytes())


QUESTIONS: dict[str, Callable[[HloModule], Any]] = {
    "verify": hlo.verify,
    "cost": xs.cost,
    "memory": xs.memory,
    "copies": xs.copies,
    "reads": xs.reads,
}


def questions() -> Iterator[str]:
    """What is asked of whole models for the first time."""
    yield f"| µs an instruction | {' | '.join(QUESTIONS)} | diff with one change | print again |"
    yield f"| --- |{' ---: |' * (len(QUESTIONS) + 2)}"
    for name in MODELS[:2]:
        data = HloModule.parse((SHARED / "hlo/models" / f"{name}.hlo").read_text()).to_bytes()
        spent = [1e9] * (len(QUESTIONS) + 2)
        for _ in range(3):
            times = [seconds(ask, given=walked(data))[0] for ask in QUESTIONS.values()]
            times += seconds(partial(xs.diff, walked(data)), given=changed(data))
            printed = walked(data)
            printed.to_text()
            times += seconds(HloModule.to_text, given=printed)
            spent = list(map(min, spent, times))
        total = sum(1 for _ in printed.instructions())
        yield f"| {name} | {' | '.join([f'{each / total * 1e6:.1f}' for each in spent])} |"


def buffers() -> Iterator[str]:
    """Buffers in tiles beside copies of the same bytes."""
    yield "| 64 MB | pack ÷ copy | pack into memory that is there ÷ copy | unpack ÷ copy |"
    yield "| --- | ---: | ---: | ---: |"
    for text in BUFFERS:
        out, pack, unpack = [each.strip("×") for each in measure(text, 5).split() if each.endswith("×")][:3]
        yield f"| `{text}` | {pack} | {out} | {unpack} |"


def main(arguments: list[str]) -> None:
    most = next((int(each) for each in arguments if each.isdecimal()), 1_000_000)
    lines: list[str] = []
    for part in (collector(), models(), questions(), growth(most), buffers()):
        for line in part:
            print(line, flush=True)
            lines.append(line)
        lines.append("")
    if "--write" in arguments:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text("\n".join([f"{before}{BEGIN}", "", *lines, f"{END}{rest.partition(END)[2]}"]))


if __name__ == "__main__":
    main(sys.argv[1:])
