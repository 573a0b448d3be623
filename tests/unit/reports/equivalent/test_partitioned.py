"""Partitioned programs of many kinds, and what they compute when a collective is left out or wrong.

`tests/vectors/partitioned` has programs that jaxlib 0.12.0.1 partitioned for 8 devices of the CPU, the inputs and
outputs of running the smaller ones (`tests/proof/partitioned.py`), and which mutants of some compute something else.
"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import collective_mutants
import numpy as np
import pytest

import xlashape as xs

FOLDER = Path(__file__).parents[3] / "vectors" / "partitioned"
with tarfile.open(FOLDER / "programs.tar.xz") as archive:
    TEXTS = {each.name: io.TextIOWrapper(archive.extractfile(each), "utf-8").read() for each in archive}  # type: ignore[arg-type]  # all members are files
ROWS = [json.loads(line) for line in (FOLDER / "mutants.jsonl").read_text(encoding="utf-8").splitlines()]
PROGRAMS = sorted({name.split(".")[0] for name in TEXTS})
MUTATED = sorted({row["program"] for row in ROWS})


@pytest.mark.parametrize("program", PROGRAMS)
def test_partitioned_programs_are_equal_to_their_global_ones(program: str) -> None:
    before, after = (TEXTS[f"{program}.{stage}.txt"] for stage in ("before", "after"))
    with np.load(FOLDER / "values.npz") as values:
        run = {key.rsplit(".", 1)[1]: values[key] for key in values if key.split(".")[0] == program}
    assert not run or collective_mutants.as_run(before, after, run)
    assert xs.equivalent(before, after).verdict.startswith("equal")


@pytest.mark.parametrize("program", MUTATED)
def test_a_wrong_collective_is_found(program: str) -> None:
    before, after = (TEXTS[f"{program}.{stage}.txt"] for stage in ("before", "after"))
    truths = {(r["kind"], r["instruction"]): r["truth"] for r in ROWS if r["program"] == program}
    seen = 0
    for mutant in collective_mutants.mutants(after):
        truth = truths.get((mutant.kind, mutant.instruction))
        if truth is not None:
            found = xs.equivalent(before, mutant.text)
            assert found.verdict == "differs" if truth == "differs" else found.verdict != "differs", mutant[:2]
            seen += 1
    assert seen == len(truths)
