"""What `xs.equivalent` answers, of pairs and of directories, and the command, the fixture and the option of diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import command_line
import numpy as np
import pytest
from equivalent_programs import before, rows, texts

import xlashape as xs
from xlashape.errors import InvalidArgumentError
from xlashape.pytest_plugin import Hlo

PLUS = "ENTRY e { x = f32[4] parameter(0)  y = f32[4] parameter(1)  ROOT r = f32[4] add(x, y) }"
MINUS = PLUS.replace("add", "subtract")


def dumped(program: str, folder: Path) -> Path:
    """The last stage of a program, beside the others."""
    for name, text in texts(program).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / list(texts(program))[-1]


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    return dumped("gather33479", tmp_path).parent


def test_a_directory_has_a_row_for_each_stage(dumps: Path) -> None:
    found = xs.equivalent(dumps)
    assert found.verdict == "differs" and found.first is not None
    assert [stage.verdict for stage in found.stages].count("differs") == 1
    assert found.stages[-1].file.endswith("cpu_after_optimizations.txt")
    assert (found.instruction, found.source) == ("constant.12", "historic.py:9")


@pytest.mark.parametrize("row", rows("historic"), ids=lambda row: row["program"])
def test_the_pass_that_was_wrong_is_named(row: dict[str, Any], tmp_path: Path) -> None:
    first = xs.equivalent(dumped(row["program"], tmp_path)).first
    assert first is not None and (first.file, first.pass_name) == (row["first"], row["pass"])


def test_inputs_replay_the_difference() -> None:
    row: dict[str, Any] = next(r for r in rows("mutant") if r["program"] == "g_attention" and r["verdict"] == "differs")
    lines = texts(row["program"])[row["base"]].split("\n")
    lines[row["line"]] = row["new"]
    found = xs.equivalent(before(row["program"]), "\n".join(lines))
    assert found.inputs is not None and found.output is not None
    values = [
        xs.evaluate(text, found.inputs)[found.output][found.element]
        for text in (before(row["program"]), "\n".join(lines))
    ]
    np.testing.assert_allclose(values, [found.a_value, found.b_value], rtol=1e-5)
    assert abs(values[0] - values[1]) > 1e-3 * abs(values[0])


def test_what_is_not_known_is_said() -> None:
    constant = "ENTRY e { x = f32[12] parameter(0)  c = f32[12] constant({...})  ROOT r = f32[12] add(x, c) }"
    found = xs.equivalent(constant, constant.replace("add(x, c)", "subtract(x, c)"))
    assert found.verdict == "unknown" and "elided values" in found.reasons[0]
    call = 'ENTRY e {{ x = f32[4] parameter(0)  c = f32[4] custom-call(x), custom_call_target="mine"  ROOT r = f32[4] {}(c) }}'
    assert xs.equivalent(call.format("copy"), call.format("copy")).verdict == "equal"
    found = xs.equivalent(call.format("negate"), call.format("abs"))
    assert found.verdict == "unknown" and "custom-call of 'mine' is not known" in found.reasons[0]


def test_programs_that_do_not_correspond_are_refused() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"output 0 is f32\[4\]\{0\} in one module and f32\[2\]\{0\} in the other"
    ):
        xs.equivalent(
            PLUS,
            "ENTRY e { x = f32[4] parameter(0)  y = f32[4] parameter(1)  ROOT r = f32[2] slice(x), slice={[0:2]} }",
        )
    with pytest.raises(InvalidArgumentError, match="the modules have 2 and 1 inputs"):
        xs.equivalent(PLUS, "ENTRY e { ROOT x = f32[4] parameter(0) }")
    with pytest.raises(InvalidArgumentError, match="takes two programs, or a directory of dumps"):
        xs.equivalent(PLUS)


def test_the_command(tmp_path: Path, dumps: Path) -> None:
    one, other = tmp_path / "a.hlo", tmp_path / "b.hlo"
    one.write_text(PLUS)
    other.write_text(MINUS)
    ran = command_line.run("equivalent", str(one), str(one))
    assert ran.returncode == 0 and ran.stdout.decode().startswith("equal: the programs compute the same")
    ran = command_line.run("equivalent", str(one), str(other), "--seed", "3", "--json")
    document = json.loads(ran.stdout)
    assert ran.returncode == 1 and document["totals"]["verdict"] == "differs"
    assert command_line.run("equivalent", str(dumps)).returncode == 1
    shown = command_line.run("equivalent", str(dumps), "--show", "totals").stdout.decode()
    assert "verdict" in shown and "constant.12" in shown
    assert b"takes A and B, or a directory: 3 names" in command_line.run("equivalent", "a", "b", "c").stderr
    assert b"standard input can be read once" in command_line.run("equivalent", "-", "-").stderr
    ran = command_line.run("diff", str(one), str(other), "--same-meaning")
    assert ran.returncode == 1 and "FAILED differs: on ordinary inputs" in ran.stdout.decode()
    assert command_line.run("diff", str(one), str(one), "--same-meaning").returncode == 0


def test_the_fixture(tmp_path: Path) -> None:
    hlo = Hlo(tmp_path / "x.json", "test", update=False)
    assert hlo.same_meaning(PLUS, PLUS.replace("add(x, y)", "add(y, x)")).verdict == "equal"
    with pytest.raises(AssertionError, match="differs: on ordinary inputs the programs compute something else"):
        hlo.same_meaning(PLUS, MINUS)
