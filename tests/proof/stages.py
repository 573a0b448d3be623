"""Counts the verdicts on stages of XLA's passes: `python stages.py FOLDER/PROGRAM …`, folders of dumps that programs.py
made with any version of JAX.

XLA's passes keep the meaning but for bugs, so every `differs` is a false alarm until executing the stages shows the
bug. Stages with the text of the one before are not counted: they are not evaluated. Exits with 1 if a stage differs, or
if more than 5 % are unknown.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import xlashape as xs


def counted(folder: str) -> dict[str, Any]:
    """What is said of the stages of one program."""
    began = time.process_time()
    try:
        found = xs.equivalent(folder)
    except Exception as error:
        return {"folder": folder, "error": f"{type(error).__name__}: {error}", "counts": {}, "told": []}
    files = [Path(folder) / stage.file for stage in found.stages]
    changed = [
        stage
        for stage, file, before in zip(found.stages, files, [None, *files], strict=False)
        if before is None or file.read_bytes() != before.read_bytes()
    ]
    told = [
        [stage.file, stage.verdict, stage.instruction, *stage.reasons]
        for stage in changed
        if not stage.verdict.startswith("equal")
    ]
    counts = Counter(stage.verdict for stage in changed)
    return {"folder": folder, "seconds": time.process_time() - began, "counts": counts, "told": told}


def main() -> int:
    total: Counter[str] = Counter()
    programs = 0
    failed = 0
    with get_context("spawn").Pool(maxtasksperchild=8) as pool:
        for row in pool.imap(counted, sys.argv[1:]):
            programs += 1
            total.update(row["counts"])
            failed += "error" in row
            print(json.dumps(row), flush=True)
    pairs = sum(total.values())
    print(f"{programs} programs, {failed} not read, {pairs} pairs of stages: {dict(total)}")
    return int(bool(total["differs"] or failed or total["unknown"] > 0.05 * pairs))


if __name__ == "__main__":
    sys.exit(main())
