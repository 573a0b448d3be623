"""What `import xlashape` costs, beside `import google.protobuf.message` in the same run; both above an empty
interpreter.

python tests/benchmarks/bench_import.py
"""

from __future__ import annotations

import subprocess
import sys
import time

_RUNS = 15


def seconds(code: str) -> float:
    """The best of some runs of a new interpreter."""
    best = float("inf")
    for _ in range(_RUNS):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        best = min(best, time.perf_counter() - started)
    return best


def main() -> None:
    empty = seconds("pass")
    peer = seconds("import google.protobuf.message") - empty
    print(f"{'import google.protobuf.message':<34}{1e3 * peer:7.1f} ms")
    for code in (
        "import xlashape",
        "from xlashape import Shape",
        "from xlashape import HloModule",
        "from xlashape import indexing",
    ):
        took = seconds(code) - empty
        allowed = f"   allowed {1.5e3 * peer + 30:.1f} ms" if code == "import xlashape" else ""
        print(f"{code:<34}{1e3 * took:7.1f} ms{allowed}")


if __name__ == "__main__":
    main()
