"""Verdicts on pairs of modules, stages and mutants, compared with what executing them showed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from equivalent_programs import PROGRAMS, after, before, mutated, rows, texts

from xlashape.evaluation.run_module import evaluate, input_shapes, module_of
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


# An operation for which an array of the wrong kind is an error, and another one.
OPERATIONS = {
    "f": ("sine", "cosine"),
    "b": ("sine", "cosine"),
    "s": ("not", "negate"),
    "u": ("not", "negate"),
    "c": ("real", "imag"),
}
TYPES = ["f32", "bf16", "f64", "s8", "s32", "s64", "u32", "u64", "c64", "c128"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("first", TYPES)
@pytest.mark.parametrize("second", TYPES)
def test_equal_numbers_of_other_types_are_other_values(first: str, second: str) -> None:
    """Constants of two types that may be held as the same bytes: 1 and, of complex numbers, i."""

    def program(changed: int | None = None) -> str:
        lines, results, shapes = list[str](), list[str](), list[str]()
        for number, kind in enumerate((first, second)):
            literal, opcode = "(0, 1)" if kind[0] == "c" else "1", OPERATIONS[kind[0]][number == changed]
            part = {"c64": "f32", "c128": "f64"}.get(kind, kind)
            lines.append(
                f"c{number} = {kind}[] constant({literal})  b{number} = {kind}[2] broadcast(c{number}), dimensions={{}}"
            )
            lines.append(f"f{number} = {part}[2] {opcode}(b{number})  p{number} = {part}[2] parameter({number})")
            lines.append(f"r{number} = {part}[2] add(f{number}, p{number})")
            results.append(f"r{number}")
            shapes.append(f"{part}[2]")
        return f"ENTRY e {{ {'  '.join(lines)}  ROOT t = ({', '.join(shapes)}) tuple({', '.join(results)}) }}"

    assert verdict(program(), program()).verdict == "equal"
    for output in range(2):
        found = verdict(program(), program(output))
        assert found.verdict == "differs" and found.difference is not None and found.difference.output == output


@pytest.mark.parametrize("row", [r for r in rows("historic") if "inputs" in r], ids=lambda row: row["program"])
def test_stages_have_the_values_that_running_the_program_gave(row: dict[str, Any]) -> None:
    """Those before the wrong pass have NumPy's values, and the others what jaxlib's CPU client returned."""
    stages = texts(row["program"])
    shapes = input_shapes(module_of(before(row["program"])))
    inputs = [np.array(x).reshape(shape.dimensions) for x, shape in zip(row["inputs"], shapes, strict=True)]
    expected = row["right"]
    for name, text in stages.items():
        if name == row["first"]:
            expected = row["wrong"]
        like = before(row["program"]) if re.search(r"^ENTRY \S+_spmd", text, re.MULTILINE) else None  # partitioned
        for x, value in zip(evaluate(text, inputs, like=like), expected, strict=True):
            np.testing.assert_allclose(x[0] if isinstance(x, list) else x, np.array(value), rtol=1e-4, err_msg=name)


def test_floats_that_index_reach_both_ends_and_what_lies_between() -> None:
    """Integers made of floats, beside constants that they are compared with, and ends that they are clamped to."""
    text = """ENTRY e { x = f32[9] parameter(0)  y = f32[6,3] parameter(1)  w = f32[9] floor(x)  i = s32[9] convert(w)
  z = s32[] constant(0)  l = s32[9] broadcast(z), dimensions={}  n = s32[] constant(6)  m = s32[9] broadcast(n), dimensions={}
  p = pred[9] compare(i, l), direction=LT  a = s32[9] add(i, m)  s = s32[9] select(p, a, i)  t = s32[] constant(4)
  u = s32[9] broadcast(t), dimensions={}  c = s32[9] clamp(l, s, u)
  ROOT g = f32[9,3] gather(y, c), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3} }"""
    assert verdict(text, text).verdict == "equal"
    for old, new in (
        ("direction=LT", "direction=LE"),
        ("constant(6)", "constant(5)"),
        ("select(p, a, i)", "select(p, i, a)"),
        ("floor(x)", "ceil(x)"),
        ("constant(4)", "constant(5)"),
    ):
        assert verdict(text, text.replace(old, new)).verdict == "differs", (old, new)
