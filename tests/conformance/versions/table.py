"""Prints how well modules of many XLA versions are read, written and answered: a row a version, a column a check of
`xla_versions`.

python tests/conformance/versions/table.py [--reasons]
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from xla_versions import CHECKS, applies, cases, failure  # the path comes first


def main(arguments: list[str]) -> None:
    """Prints a row a version: how many cases pass each check."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: list[str] = []
    for case in cases():
        for check in CHECKS:
            if applies(case, check):
                reason = failure(case, check)
                counts[case.version][check] += 1
                counts[case.version][check, "passed"] += reason is None
                if reason is not None:
                    reasons.append(f"{case.name}: {check}: {reason}")
    width = max(map(len, counts))
    print(" " * width, *CHECKS, sep="  ")
    for version, row in counts.items():
        cells = [f"{row[check, 'passed']}/{row[check]}".rjust(len(check)) for check in CHECKS]
        print(version.ljust(width), *cells, sep="  ")
    totals = [
        (sum(row[check, "passed"] for row in counts.values()), sum(row[check] for row in counts.values()))
        for check in CHECKS
    ]
    print(
        "all".ljust(width),
        *[f"{passed}/{total}".rjust(len(check)) for check, (passed, total) in zip(CHECKS, totals, strict=True)],
        sep="  ",
    )
    if "--reasons" in arguments:
        print(*reasons, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
