"""Large programs, compared in parts: verdicts on small programs that are compared as large ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from equivalent_programs import after, before, mutated, rows, texts

from xlashape.evaluation.run_module import evaluate, module_of
from xlashape.reports.equivalent import compare, equivalent
from xlashape.reports.equivalent.compare import ComparedProgram, Comparison


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "_LARGE", -1)


@pytest.mark.parametrize("row", [r for r in rows("mutant") if r["program"] == "g_attention"], ids=lambda r: r["kind"])
def test_mutants_differ_from_their_base(row: dict[str, Any]) -> None:
    modules = [module_of(texts(row["program"])[row["base"]]), module_of(mutated(row))]
    comparison = Comparison(modules)
    found = comparison.compare(comparison.whole, ComparedProgram(modules[1]))
    if row["verdict"] == "same":
        assert found.verdict.startswith("equal")
        return
    assert found.verdict == "differs" and found.difference is not None
    shown = found.difference
    values = [np.asarray(evaluate(module, shown.inputs)[shown.output])[shown.element] for module in modules]
    np.testing.assert_allclose(values, [shown.a_value, shown.b_value], rtol=1e-5)
    assert not np.allclose(*values, rtol=1e-4)


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


def test_a_change_is_shown_by_some_elements_of_the_outputs_that_it_reaches() -> None:
    """One change reaches the new value of a weight alone, and the other the layers above it alone."""
    n, layers = 64, 6
    lines = [f"w{i} = f32[{n},{n}] parameter({i})" for i in range(layers)]
    lines += [f"x0 = f32[8,{n}] parameter({layers})"]
    for i in range(layers):
        product = f"dot(x{i}, w{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        lines += [f"d{i} = f32[8,{n}] {product}", f"x{i + 1} = f32[8,{n}] tanh(d{i})"]
        lines += [f"m{i} = f32[{n},{n}] multiply(w{i}, w{i})", f"v{i} = f32[{n},{n}] subtract(w{i}, m{i})"]
    outputs = [f"v{i}" for i in range(layers)] + [f"x{layers}"]
    shapes = ", ".join([f"f32[{n},{n}]"] * layers + [f"f32[8,{n}]"])
    text = "ENTRY e {\n" + "\n".join(lines) + f"\nROOT r = ({shapes}) tuple({', '.join(outputs)})\n}}"
    for old, new, output in (("subtract(w4, m4)", "add(w4, m4)", 4), ("tanh(d2)", "negate(d2)", layers)):
        found = equivalent(text, text.replace(old, new))
        assert (found.verdict, found.output) == ("differs", output)
        assert found.inputs is not None and len(found.inputs) == layers + 1


@pytest.mark.parametrize("row", rows("spmd"), ids=lambda row: row["program"])
def test_partitioned_programs_are_equal_to_their_global_ones(row: dict[str, Any]) -> None:
    found = equivalent(before(row["program"]), after(row["program"]))
    assert found.verdict == "equal over the reals" and found.is_sampled


@pytest.mark.parametrize(
    "row",
    [r for r in rows("mutant") if r["program"] in ("g_mlp", "g_norm")],
    ids=lambda r: f"{r['program']} {r['kind']}",
)
def test_mutants_of_partitioned_programs_differ_from_the_global_ones(row: dict[str, Any]) -> None:
    found = equivalent(before(row["program"]), mutated(row))
    assert found.verdict.startswith("equal") if row["verdict"] == "same" else found.verdict == "differs"
