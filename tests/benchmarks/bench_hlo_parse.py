"""Parsing HLO text: MB/s and memory, beside jaxlib's parser in the same run where it is installed.

    python tests/benchmarks/bench_hlo_parse.py [TEXT …] [--jaxlib PYTHON]

Without arguments: the whole models of the shared folder, else the texts committed as vectors. `--jaxlib` names an
interpreter that has jaxlib if this one has not. Times are CPU seconds, the best of three runs, the two parsers taking
turns. Memory is the peak above what was there before, and how often the message itself, decoded from its bytes, would
fit into it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("XLASHAPE_SHARED", ROOT.parent / "shared"))

_XLA = """
import json, sys, time
from jaxlib import _hlo
for line in sys.stdin:
    text = open(json.loads(line)).read()
    start = time.process_time()
    module = _hlo.hlo_module_from_text(text)
    parsed = time.process_time()
    data = module.as_serialized_hlo_module_proto()
    print(json.dumps([parsed - start, time.process_time() - start]), flush=True)
    del module, data
"""

_MEMORY = """
import resource, sys
from xlashape.hlo import HloModule
from xlashape.proto import xla
def rss():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()
def peak():
    # ru_maxrss would count what the parent had before exec.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
HloModule.parse("HloModule m\\nENTRY e { ROOT c = f32[] constant(1) }")
text = open(sys.argv[1]).read()
before = rss()
if sys.argv[2] == "parse":
    made = HloModule.parse(text)
    print(peak() - before, rss() - before, len(text))
else:
    data = open(sys.argv[3], "rb").read()
    before = rss()
    made = xla.HloModuleProto.FromString(data)
    print(rss() - before, 0, 0)
"""


def best(call, runs: int = 3) -> float:
    """The least CPU time of some calls, whose results end after the clock has stopped."""
    least = 1e9
    for _ in range(runs):
        start = time.process_time()
        result = call()
        least = min(least, time.process_time() - start)
        del result
    return least


def memory(path: Path, proto: Path) -> tuple[int, int]:
    """(peak of parsing, size of the message) in bytes, each in a process of its own."""
    found = []
    for step in ("parse", "decode"):
        command = [sys.executable, "-c", _MEMORY, str(path), step, str(proto)]
        found.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]))
    return found[0], found[1]


def main(paths: list[Path], python: str | None) -> None:
    """Prints one line a text."""
    import tempfile

    from xlashape.hlo import HloModule

    xla = None
    if python is not None:
        xla = subprocess.Popen(
            [python, "-c", _XLA], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    print(
        f"{'text':28} {'MB':>6} {'MB/s':>7} {'jaxlib':>7} {'+proto':>7} {'ratio':>6} {'peak MB':>8} {'message':>8} "
        f"{'×':>5}"
    )
    for path in paths:
        text = path.read_text()
        size = len(text) / 1e6
        ours, theirs, whole = 1e9, None, None
        for _ in range(3):
            ours = min(ours, best(lambda text=text: HloModule.parse(text), 1))
            if xla is not None:
                assert xla.stdin is not None
                assert xla.stdout is not None
                xla.stdin.write(json.dumps(str(path)) + "\n")
                xla.stdin.flush()
                parsed, serialized = json.loads(xla.stdout.readline())
                theirs, whole = min(theirs or 1e9, parsed), min(whole or 1e9, serialized)
        with tempfile.NamedTemporaryFile() as proto:
            proto.write(HloModule.parse(text).to_bytes())
            proto.flush()
            peak, message = memory(path, Path(proto.name))
        known = "      -       -      -"
        if theirs is not None and whole is not None:
            known = f"{size / theirs:7.1f} {size / whole:7.1f} {ours / theirs:6.1f}"
        print(
            f"{path.name[:28]:28} {size:6.2f} {size / ours:7.2f} {known} {peak / 1e6:8.1f} {message / 1e6:8.1f} "
            f"{peak / max(message, 1):5.2f}"
        )


def interpreter(arguments: list[str]) -> str | None:
    """An interpreter with jaxlib: the one named, or this one."""
    if "--jaxlib" in arguments:
        at = arguments.index("--jaxlib")
        _, python = arguments.pop(at), arguments.pop(at)
        return python
    known = subprocess.run([sys.executable, "-c", "import jaxlib"], capture_output=True, check=False).returncode
    return None if known else sys.executable


if __name__ == "__main__":
    rest = sys.argv[1:]
    with_jaxlib = interpreter(rest)
    texts = [Path(name) for name in rest] or sorted(SHARED.glob("hlo/models/*.hlo"))
    main(texts or sorted((ROOT / "tests/vectors/hlo").glob("*.hlo")), with_jaxlib)
