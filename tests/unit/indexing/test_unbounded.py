"""Dimensions without a bound: maps that do not depend on sizes are known, as those of jaxlib 0.12.0.1; others are unknown."""

from __future__ import annotations

import pytest

from xlashape import indexing
from xlashape.hlo import HloModule
from xlashape.indexing import Knowledge

LAST = (1 << 63) - 1
"""The last index of a dimension without a bound, in XLA's maps."""

PARAMETERS = """  x = f32[?,8] parameter(0)
  y = f32[8,3] parameter(1)
  z = f32[?,8] parameter(2)
  k = f32[4,8] parameter(3)
  c = f32[] parameter(4)
"""
ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
TURN = "turn { p = f32[?,8] parameter(0) n = f32[?,8] negate(p) ROOT t = f32[8,?] transpose(n), dimensions={1,0} }\n"
SAME = f"(d0, d1) -> (d0, d1), domain: d0 in [0, {LAST}], d1 in [0, 7]"

KNOWN = {
    "f32[?,8] negate(x)": [SAME],
    "f32[?,8] copy(x)": [SAME],
    "f32[?,8] add(x, z)": [SAME, SAME],
    "f32[?,8] add(x, k)": [SAME, SAME],
    "f32[?,8] clamp(c, x, z)": [f"(d0, d1) -> (), domain: d0 in [0, {LAST}], d1 in [0, 7]", SAME, SAME],
    "u32[?,8] bitcast-convert(x)": [SAME],
    "f32[8,?] transpose(x), dimensions={1,0}": [
        f"(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, {LAST}]",
    ],
    "f32[?,8,2] broadcast(x), dimensions={0,1}": [
        f"(d0, d1, d2) -> (d0, d1), domain: d0 in [0, {LAST}], d1 in [0, 7], d2 in [0, 1]"
    ],
    "f32[8] reduce(x, c), dimensions={0}, to_apply=add": [
        f"(d0)[s0] -> (s0, d0), domain: d0 in [0, 7], s0 in [0, {LAST}]",
        "(d0) -> (), domain: d0 in [0, 7]",
    ],
    "f32[?] reduce(x, c), dimensions={1}, to_apply=add": [
        f"(d0)[s0] -> (d0, s0), domain: d0 in [0, {LAST}], s0 in [0, 7]",
        f"(d0) -> (), domain: d0 in [0, {LAST}]",
    ],
    "f32[?,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}": [
        f"(d0, d1)[s0] -> (d0, s0), domain: d0 in [0, {LAST}], d1 in [0, 2], s0 in [0, 7]",
        f"(d0, d1)[s0] -> (s0, d1), domain: d0 in [0, {LAST}], d1 in [0, 2], s0 in [0, 7]",
    ],
    "f32[4,8] slice(x), slice={[0:4], [0:8]}": ["(d0, d1) -> (d0, d1), domain: d0 in [0, 3], d1 in [0, 7]"],
    "f32[?,8] all-reduce(x), replica_groups={{0}}, to_apply=add": [SAME],
    "f32[8,?] fusion(x), kind=kLoop, calls=turn": [
        f"(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, {LAST}]",
    ],
}


@pytest.mark.parametrize("instruction", KNOWN)
def test_known(instruction: str) -> None:
    root = HloModule.parse(f"HloModule m\n{ADD}{TURN}ENTRY e {{\n{PARAMETERS}  ROOT r = {instruction}\n}}").entry.root
    answer = indexing.output_to_input(root)
    assert [reads.map.to_text() for reads in answer] == KNOWN[instruction]
    for operand in range(len(answer)):
        (written,) = indexing.input_to_output(root, operand)
        assert written.knowledge is Knowledge.EXACT
    assert indexing.output_to_ancestors(root)[root.operands[0]].knowledge is Knowledge.EXACT
    assert indexing.operand_utilisation(root)[0].reads is None
    assert indexing.operand_reads(root)


@pytest.mark.parametrize(
    "instruction",
    [
        "f32[?,8] reverse(x), dimensions={0}",
        "f32[?] reshape(x)",
        "f32[?,8] concatenate(x, z), dimensions={0}",
        "f32[?,8] pad(x, c), padding=1_0x0_0",
    ],
)
def test_unknown(instruction: str) -> None:
    """XLA takes the largest int64 for the size and leads to elements that do not exist."""
    root = HloModule.parse(f"HloModule m\nENTRY e {{\n{PARAMETERS}  ROOT r = {instruction}\n}}").entry.root
    assert indexing.output_to_input(root)[0].knowledge is Knowledge.UNKNOWN
    assert indexing.input_to_output(root)[0].knowledge is Knowledge.UNKNOWN
