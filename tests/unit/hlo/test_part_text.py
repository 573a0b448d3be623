"""The text of single instructions and computations: the same lines as in the text of the module."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from xlashape.errors import InvalidArgumentError
from xlashape.hlo import HloModule

FILES = sorted((Path(__file__).parents[2] / "vectors" / "hlo").glob("*.hlo"))
ASYNC = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  s = (f32[4], f32[8]) all-gather-start(p), channel_id=1, replica_groups={{0,1}}, dimensions={0}
  ROOT d = f32[8] all-gather-done(s)
}"""
OPTIONS = [{}, {"style": "short_parsable"}, {"style": "canonical"}, {"print_metadata": False, "print_percent": False}]


def _lines(text: str) -> list[str]:
    return [line.strip().removeprefix("ROOT ") for line in text.splitlines()]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_parts_are_the_lines_of_the_module(path: Path, options: dict[str, object]):
    module = HloModule.load(path)
    text = module.to_text(**options)
    for computation in module.computations:
        block = computation.to_text(**options)
        assert options.get("style") == "canonical" or f"{block}\n\n" in text
        lines = _lines(block)
        for instruction in computation.instructions:
            if options.get("style") != "canonical":  # where the lines of called computations follow
                assert instruction.to_text(**options) in lines
    if options.get("style") == "canonical":
        assert module.entry.to_text(**options) in text
        assert all(
            instruction.to_text(**options) in "\n".join(_lines(module.entry.to_text(**options)))
            for instruction in module.entry.parameters
        )


def test_the_root_is_written_without_root_and_the_entry_with_entry():
    module = HloModule.parse(
        "f { ROOT a = f32[] parameter(0) } ENTRY e { p = f32[2] parameter(0) ROOT m = f32[2] map(p), dimensions={0}, "
        "to_apply=f }"
    )
    assert module.entry.root.to_text() == "%m = f32[2]{0} map(%p), dimensions={0}, to_apply=%f"
    assert module.computation("f").to_text() == "%f (a: f32[]) -> f32[] {\n  ROOT %a = f32[] parameter(0)\n}"
    assert module.entry.to_text(indent_amount=1).splitlines()[0] == "  ENTRY %e (p: f32[2]) -> f32[2] {"
    assert module.entry.root.to_text(indent_amount=1).startswith("  %m = ")
    with pytest.raises(InvalidArgumentError, match="'colour' is not a print option"):
        module.entry.root.to_text(colour=True)


def test_asynchronous_instructions_are_written_as_what_they_wrap():
    module = HloModule.parse(ASYNC)
    assert module.instruction("d").to_text() == "%d = f32[8]{0} all-gather-done(%s)"


def test_a_scheduled_computation_is_written_in_the_order_of_its_schedule():
    module = HloModule.parse(
        "HloModule m, is_scheduled=true\nENTRY e { p = f32[] parameter(0) b = f32[] negate(p) a = f32[] abs(p) ROOT r "
        "= f32[] add(a, b) }"
    )
    assert module.entry.to_text() in module.to_text()
    assert [line.split()[0] for line in module.entry.to_text().splitlines()[1:-1]] == ["%p", "%b", "%a", "ROOT"]


LINES = [
    json.loads(line) for line in (FILES[0].parents[1] / "hlo_lines.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("row", LINES, ids=range(len(LINES)))
def test_an_instruction_alone_is_written_as_xla_writes_it(row: dict[str, Any]):
    """`lines` has what HloInstruction::ToString of jaxlib 0.12.0.1 says, by computation, instruction and style."""
    module = HloModule.parse(row["text"])
    assert len(row["lines"]) > 3
    for key, expected in row["lines"].items():
        computation, instruction, style = key.split("|")
        assert module.computation(computation).instruction(instruction).to_text(style) == expected, key
