"""Modules per second of a scan, beside decoding the same bytes with protobuf alone, and what a second process adds.

    python tests/benchmarks/bench_scan.py [COUNT]

COUNT made-up modules (10,000) of six instructions each. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.corpus import text_of
from xlashape import HloModule, scan
from xlashape.proto import xla


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with TemporaryDirectory() as folder:
        dumps = Path(folder, "dumps")
        dumps.mkdir()
        for number in range(count):
            # Text whose content differs: files with the same content are scanned once.
            data = HloModule.parse(text_of(number).replace("jit_f", f"jit_{number}_")).to_bytes()
            (dumps / f"m{number}.pb").write_bytes(data)
        began = time.perf_counter()
        for path in dumps.iterdir():
            xla.HloModuleProto.FromString(path.read_bytes())
        alone = time.perf_counter() - began
        print(f"read and decode with protobuf alone: {count / alone:,.0f} modules/s")
        first = 0.0
        for name, datasets in (
            ("without accesses", ["modules", "instructions", "copies"]),
            ("default", None),
            ("with maps", list(scan.DATASETS)),
        ):
            for jobs in (1, 2):
                began = time.perf_counter()
                scan.scan(str(dumps), Path(folder, f"{name}{jobs}"), jobs=jobs, datasets=datasets)
                took = time.perf_counter() - began
                first = took if jobs == 1 else first
                efficiency = f", efficiency {first / took / 2:.0%}" if jobs == 2 else ""
                print(
                    f"{name}, {jobs} jobs: {count / took:,.0f} modules/s, {took / alone:.0f} times protobuf "
                    f"alone{efficiency}"
                )


if __name__ == "__main__":
    main()
