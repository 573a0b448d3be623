"""Verdicts on pairs of modules, stages and mutants, compared with what executing them showed."""

from __future__ import annotations

from typing import Any

import pytest
from equivalent_programs import PROGRAMS, after, before, mutated, rows, texts

from xlashape.evaluation.run_module import module_of
from xlashape.reports.equivalent.compare import ComparedProgram, Comparison, Verdict


def verdict(a: str, b: str) -> Verdict:
    modules = [module_of(a), module_of(b)]
    comparison = Comparison(modules)
    return comparison.compare(comparison.whole, ComparedProgram(modules[1]))


@pytest.mark.parametrize("row", rows("pair"), ids=lambda row: row["name"])
def test_small_pairs_have_the_very_verdict(row: dict[str, Any]) -> None:
    assert verdict(row["a"], row["b"]).verdict == row["verdict"]


@pytest.mark.parametrize("row", rows("mutant"), ids=lambda row: f"{row['program']} {row['kind']} {row['instruction']}")
def test_mutants_differ_and_rewrites_do_not(row: dict[str, Any]) -> None:
    found = verdict(before(row["program"]), mutated(row))
    if row["verdict"] == "differs":
        assert found.verdict == "differs" and found.difference is not None, found
    else:
        assert found.verdict.startswith("equal"), found


@pytest.mark.parametrize("row", rows("spmd"), ids=lambda row: row["program"])
def test_partitioned_programs_are_equal_to_their_global_ones(row: dict[str, Any]) -> None:
    assert verdict(before(row["program"]), after(row["program"])).verdict.startswith("equal")


@pytest.mark.parametrize("program", PROGRAMS)
def test_stages_are_equal_but_for_the_pass_that_was_wrong(program: str) -> None:
    names = list(texts(program))
    comparison = Comparison([module_of(texts(program)[names[0]])])
    last, wrong = comparison.whole, []
    for name in names[1:]:
        this = ComparedProgram(module_of(texts(program)[name]))
        found = comparison.compare(last, this)
        assert found.verdict != "unknown", (name, found)
        wrong += [name] if found.verdict == "differs" else []
        last = this
    assert wrong == [row["first"] for row in rows("historic") if row["program"] == program]
