"""Questions about whole modules: an instruction that is refused has an error, the others are answered."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from xlashape.cli import main
from xlashape.errors import DeadlineExceededError, InvalidModuleError, LimitExceededError
from xlashape.hlo import HloModule
from xlashape.indexing import Knowledge, module_indexing, module_reads
from xlashape.limits import budget
from xlashape.proto import xla

# The dot in the middle pairs dimensions of 3 and 4 elements.
TEXT = """HloModule m

ENTRY e {
  p = f32[2,3] parameter(0)
  q = f32[4,5] parameter(1)
  t = f32[3,2] transpose(p), dimensions={1,0}
  bad = f32[2,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT n = f32[2,5] negate(bad)
}
"""


@pytest.fixture
def module() -> HloModule:
    proto = HloModule.parse(TEXT.replace("[4,5]", "[3,5]")).proto
    (q,) = [each for each in proto.computations[0].instructions if each.name == "q"]
    q.shape.dimensions[0] = 4
    return HloModule.from_proto(proto)


def test_maps_of_the_other_instructions(module):
    found = {indexing.instruction.name: indexing for indexing in module_indexing(module)}
    assert list(found) == ["t", "bad", "n"]
    assert isinstance(found["bad"].error, InvalidModuleError)
    assert "'bad'" in found["bad"].error.message
    assert [reads.knowledge for reads in found["bad"].operands] == [Knowledge.UNKNOWN] * 2
    assert found["t"].error is None
    assert str(found["n"].operands[0].map).startswith("(d0, d1) -> (d0, d1)")
    assert [len(indexing) for indexing in found.values()] == [3, 3, 3]


def test_reads_of_the_other_instructions(module):
    found = {reads.instruction.name: reads for reads in module_reads(module)}
    assert isinstance(found["bad"].error, InvalidModuleError)
    assert found["bad"].operands == ()
    assert found["n"].error is None
    assert found["n"].operands[0].utilisation.utilisation == 1.0


def test_an_error_names_the_output_that_is_computed():
    """Output 0 of the start repeats its operand."""
    text = """HloModule m, replica_count=3 ENTRY e { p = f32[4] parameter(0)
    s = (f32[4], f32[12]) all-gather-start(p), replica_groups={{0,1,2}}, dimensions={0}
    ROOT d = f32[12] all-gather-done(s) }"""
    (good,) = module_reads(HloModule.parse(text))
    (bad,) = module_reads(HloModule.parse(text.replace("f32[12]", "f32[8]")))
    assert good.error is None
    assert isinstance(bad.error, InvalidModuleError)
    assert good.output == bad.output == 1


@pytest.mark.parametrize("question", [module_indexing, module_reads])
def test_the_budget_in_force_ends_the_answer(module, question):
    with pytest.raises(LimitExceededError), budget(steps=0):
        list(question(module))
    with pytest.raises(DeadlineExceededError), budget(deadline=time.monotonic() - 1):
        list(question(module))


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments, standalone_mode=False)
    assert result.exit_code == 0, result.exception
    return result.output


def test_the_command_line_shows_the_reason_and_goes_on(module, tmp_path: Path):
    path = tmp_path / "m.pb"
    path.write_bytes(module.to_bytes())
    text = run("map", str(path))
    assert (
        "bad (dot, in e)\n  not known: instruction 'bad' (dot) pairs dimensions of 3 and 4 elements\n\nn (negate"
        in text
    )
    answers = {row["instruction"]: row for row in json.loads(run("map", "--json", str(path)))["maps"]}
    assert "pairs dimensions" in answers["bad"]["error"]
    assert answers["n"]["error"] is None
    assert "bad is not known: instruction 'bad' (dot)" in run("reads", str(path))
    rows = {row["instruction"]: row for row in json.loads(run("reads", "--json", str(path)))["reads"]}
    assert "pairs dimensions" in rows["bad"]["error"]


def test_one_instruction_alone_is_an_error(module, tmp_path: Path):
    path = tmp_path / "m.pb"
    path.write_bytes(module.to_bytes())
    for command in ("map", "reads"):
        with pytest.raises(InvalidModuleError):
            CliRunner().invoke(main, [command, str(path), "bad"], standalone_mode=False, catch_exceptions=False)


def test_an_empty_tuple_in_place_of_an_array_is_refused():
    text = """HloModule m ENTRY e { x = f32[4] parameter(0) n = s32[] parameter(1)
    ROOT r = f32[<=4] set-dimension-size(x, n), dimensions={0} }"""
    module = HloModule.parse(text).proto
    module.computations[0].instructions[1].shape.CopyFrom(xla.ShapeProto(element_type=xla.TUPLE))
    answers = list(module_indexing(HloModule.from_proto(module)))
    assert [type(each.error) for each in answers if each.instruction.name == "r"] == [InvalidModuleError]
