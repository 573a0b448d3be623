"""`explain`: rows against the reports and maps that they come from, stand-ins for jitted functions, and the table."""

from __future__ import annotations

from importlib import resources
from types import SimpleNamespace

import pytest

import xlashape as xs
from xlashape.errors import InvalidArgumentError, LimitExceededError, ParseError
from xlashape.indexing import Knowledge, explain, module_reads
from xlashape.limits import budget

ATTENTION = resources.files("xlashape.data") / "attention.hlo.pb"
TEXT = """HloModule m
fused {
  a = f32[64,20] parameter(0)
  t = f32[20,64] transpose(a), dimensions={1,0}
  b = f32[20,64] parameter(1)
  ROOT c = f32[20,64] add(t, b)
}
sum {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
ENTRY e {
  p = f32[64,20]{1,0:T(8,128)} parameter(0)
  q = f32[20,64] parameter(1)
  whole = f32[7] parameter(2)
  f = f32[20,64] fusion(p, q), kind=kLoop, calls=fused
  g = (f32[10,64], s32[20,64]) custom-call(f, whole), custom_call_target="x"
  h = f32[10,64] get-tuple-element(g), index=0
  zero = f32[] constant(0)
  ROOT r = f32[10] reduce(h, zero), dimensions={1}, to_apply=sum
}
"""


def test_rows_are_those_of_the_reports():
    report = explain(ATTENTION)
    by_read = {(row.instruction, row.output, row.operand): row for row in report.rows}
    count = 0
    for reads in module_reads(report.module):
        for operand in reads.operands:
            count += 1
            row = by_read[reads.instruction.name, reads.output, operand.operand]
            shape = reads.instruction.operands[operand.operand].shape
            assert row.part_read == operand.utilisation.utilisation
            assert row.times == operand.utilisation.reads_per_element
            assert row.bytes == xs.tiling.physical_bytes(shape)
            assert row.padding_bytes == row.bytes - xs.shape_util.byte_size_of(shape)
            assert row.bytes_read == operand.utilisation.distinct * shape.element_type.bit_width // 8
            known = [access.efficiency for access in operand.accesses if access.efficiency is not None]
            assert row.efficiency == min(known, default=None)
            maps = xs.indexing.output_to_input(reads.instruction, reads.output)[operand.operand].simplify()
            assert row.map == "\n".join(str(access.map) for access in maps)
    assert count == len(report.rows) == len(by_read) > 20
    names = [explained.instruction.name for explained in report.instructions]
    assert "transpose_copy_fusion" in names and len(set(names)) == len(names)
    costs = [row.bytes_read * row.times * (1 / row.efficiency - 1) for row in report.worst(99)]
    assert len(costs) == count and costs == sorted(costs, reverse=True) and costs[0] > 0
    assert [row.instruction for row in report.worst(2)] == ["ynn_fusion.2", "transpose_copy_fusion.1"]
    assert report.worst(0) == report.worst(-1) == ()


def test_the_table():
    report = explain(TEXT)
    assert str(report).splitlines()[:7] == [
        "m: 3 instructions that read arrays",
        "",
        "instruction   array                                        bytes   padding   part read   times   stride   segments   ideal",
        "─" * 122,
        "f             writes f32[20,64]{1,0}                       5,120        0%",
        "              reads p f32[64,20]{1,0:T(8,128)}            32,768     84.4%      100.0%       1      128         32       1",
        "              reads q f32[20,64]{1,0}                      5,120        0%      100.0%       1        1          1       1",
    ]
    rows = {(row.instruction, row.output, row.operand_name): row for row in report.rows}
    whole = rows["g", 0, "whole"]
    assert whole.knowledge is Knowledge.EVERY_ELEMENT and whole.part_read == 1.0
    assert repr(report) == "<Explanation of 'm': 3 instructions, 8 reads>"
    assert "for output 1 reads f f32[20,64]{1,0}" in str(report)
    assert [explained.bytes for explained in report.instructions] == [5120, 10 * 64 * 4 + 20 * 64 * 4, 40]


def test_operands_that_are_not_read():
    (row,) = explain("ENTRY e { p = f32[4] parameter(0) ROOT b = f32[0] slice(p), slice={[0:0]} }").rows
    assert (row.map, row.part_read, row.segments, row.efficiency) == ("not read", 0.0, None, None)
    assert "reads nothing of p" in str(
        explain("ENTRY e { p = f32[4] parameter(0) ROOT b = f32[0] slice(p), slice={[0:0]} }")
    )


def test_an_instruction_that_is_refused_is_a_row_that_says_so():
    module = xs.HloModule.parse(
        "ENTRY e { p = f32[4] parameter(0) n = f32[4] negate(p) ROOT r = f32[4] reverse(n), dimensions={0} }"
    )
    broken = module.to_proto()
    broken.computations[0].instructions[2].dimensions[0] = 5
    first, second = explain(broken).instructions
    assert first.error is None and second.error is not None and len(first.reads) == 1 and not second.reads
    assert "reads: not known: " in str(explain(broken))


def test_jitted_functions_and_lowered_are_compiled():
    calls: list[str] = []
    data = xs.HloModule.parse(TEXT).to_bytes()

    def lower(*args: object, **kwargs: object) -> object:
        calls.append(f"lower {args} {kwargs}")
        return lowered

    def compile_lowered() -> object:
        calls.append("compile")
        return SimpleNamespace(
            runtime_executable=lambda: SimpleNamespace(
                hlo_modules=lambda: [SimpleNamespace(as_serialized_hlo_module_proto=lambda: data)]
            )
        )

    lowered = SimpleNamespace(compiler_ir=lambda _: None, compile=compile_lowered)
    assert len(explain(SimpleNamespace(lower=lower), 1, flag=2).rows) == len(explain(lowered).rows) == 8
    assert calls == ["lower (1,) {'flag': 2}", "compile", "compile"]


def test_mistakes():
    with pytest.raises(InvalidArgumentError, match="takes no arguments: only a jitted function"):
        explain(TEXT, 1)
    with pytest.raises(InvalidArgumentError, match=r"a function that was not jitted: pass jax.jit\(f\)"):
        explain(len)
    with pytest.raises(ParseError):
        explain("HloModule m {")
    with budget(steps=2), pytest.raises(LimitExceededError):
        explain(ATTENTION)


def test_long_modules_are_cut_in_the_text_alone():
    lines = [f"n{i} = f32[4] negate(n{i - 1})" for i in range(1, 101)]
    report = explain("ENTRY e { n0 = f32[4] parameter(0)\n" + "\n".join(lines) + "\n}")
    assert len(report.instructions) == 100
    assert str(report).endswith("… and 40 more instructions, in .instructions")
    empty = explain("ENTRY e { ROOT n0 = f32[4] parameter(0) }")
    assert str(empty).startswith("module_e: 0 instructions that read arrays\n\ninstruction   array")


def test_bytes_are_a_module_and_not_lowered():
    """`bytes` has a method `lower`, as a jitted function has."""
    text = "HloModule Big ENTRY e { P = f32[4] parameter(0) ROOT n = f32[4] negate(P) }"
    assert [read.operand_name for read in explain(text.encode()).rows] == ["P"]
    assert [read.operand_name for read in explain(bytearray(text.encode())).rows] == ["P"]
