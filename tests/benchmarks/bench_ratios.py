"""The table of docs/performance.md: our time beside XLA's and NumPy's in one run, and time and memory an instruction as
modules grow.

    python tests/benchmarks/bench_ratios.py [--write] [MOST]

XLA is jaxlib of this interpreter. Times are those of the processor, the best of some runs in turns. MOST is the most
instructions of a made-up module (1,000,000, which takes 3 GB).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench_buffers import measure
from bench_hlo_parse import best
from bench_scan import program

from xlashape.hlo import HloModule
from xlashape.hlo.text.writer.module import module_text

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
    module.to_string()
    print(parsed - start, time.process_time() - parsed, flush=True)
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
print(taken / sum([len(each.fields.instructions) for each in module.computations]), taken / len(module.to_bytes()))
"""


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
            now = [best(lambda text=text: HloModule.parse(text), 1), best(lambda data=data: module_text(data), 1)]
            ours = list(map(min, ours, now))
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
        data, total = module.to_bytes(), sum([len(each.fields.instructions) for each in module.computations])
        runs = 3 if count < 100_000 else 1
        spent = [
            best(lambda text=text: HloModule.parse(text), runs),
            best(lambda data=data: HloModule.from_bytes(data), runs),
            best(lambda module=module: module.to_text(), runs),
        ]
        del module
        with tempfile.NamedTemporaryFile(suffix=".hlo") as file:
            file.write(text.encode())
            file.flush()
            held, _ = most_memory(file.name)
        cells = " | ".join([f"{each / total * 1e6:.1f}" for each in spent])
        yield f"| {count:,} | {cells} | {held / 1000:.1f} |"
        count *= 10


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
    for part in (models(), growth(most), buffers()):
        for line in part:
            print(line, flush=True)
            lines.append(line)
        lines.append("")
    if "--write" in arguments:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text("\n".join([f"{before}{BEGIN}", "", *lines, f"{END}{rest.partition(END)[2]}"]))


if __name__ == "__main__":
    main(sys.argv[1:])
