"""Large programs, compared in parts: verdicts on small programs that are compared as large ones."""

from __future__ import annotations

from typing import Any

import pytest
from equivalent_programs import mutated, rows, texts

from xlashape.evaluation.run_module import module_of
from xlashape.reports.equivalent import compare, equivalent
from xlashape.reports.equivalent.compare import ComparedProgram, Comparison


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "_LARGE", -1)


@pytest.mark.parametrize("row", [r for r in rows("mutant") if r["program"] == "g_attention"], ids=lambda r: r["kind"])
def test_mutants_differ_from_their_base(row: dict[str, Any]) -> None:
    modules = [module_of(texts(row["program"])[row["base"]]), module_of(mutated(row))]
    comparison = Comparison(modules)
    found = comparison.compare(comparison.whole, ComparedProgram(modules[1])).verdict
    assert found.startswith("equal") if row["verdict"] == "same" else found == "differs"


@pytest.mark.parametrize("side", [4, 256])
def test_an_answer_says_that_it_rests_on_some_elements(side: int) -> None:
    parameters = f"x = f32[{side},{side}] parameter(0)  y = f32[{side},{side}] parameter(1)"
    a, b = [
        f"HloModule m\nENTRY e {{ {parameters}  s = f32[{side},{side}] add(x, {first})  "
        f"ROOT r = f32[{side},{side}] add(s, {second}) }}"
        for first, second in ("yx", "xy")
    ]
    found = equivalent(a, b)
    assert found.verdict == "equal over the reals"
    assert found.is_sampled == ("some elements alone" in found.headline()) == (side == 256)
