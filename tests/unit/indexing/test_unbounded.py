"""Dimensions without a bound: maps that do not depend on sizes are known, as those of jaxlib 0.12.0.1; others are
unknown."""

from __future__ import annotations

from itertools import product

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


INDEPENDENT = {
    "f32[?,8] reverse(x), dimensions={1}": 5,
    "f32[?,2,4] reshape(x)": 5,
    "f32[1,?,8] reshape(x)": 5,
    "f32[?] reshape(x)": 40,
    "f32[?,2] reshape(x)": 20,
    "f32[?,2,4] bitcast(x)": 5,
    "f32[8,?]{0,1} bitcast(x)": 5,
    "f32[?,4]{1,0} bitcast(x)": 10,
    "f32[?,16] concatenate(x, z), dimensions={1}": 5,
    "f32[?,8] concatenate(k, x), dimensions={0}": 9,
    "f32[?,12] pad(x, c), padding=0_0x1_3": 5,
    "f32[?,8] pad(x, c), padding=2_0x0_0": 7,
    "f32[?,8] pad(x, c), padding=-2_0x0_0": 3,
    "f32[2,8] dynamic-slice(x, i, i), dynamic_slice_sizes={2,8}": 0,
    "f32[?,8] dynamic-update-slice(x, k, i, i)": 5,
}
"""Instructions whose maps do not depend on how large the unbounded dimension is, and the size that their result has
where it has 5 elements."""


WINDOWS = {
    "f32[?,8] reduce-window(x, c), window={size=2x1}, to_apply=add": 4,
    "f32[?,8] reduce-window(x, c), window={size=2x1 stride=2x1}, to_apply=add": 2,
    "f32[?,8] reduce-window(x, c), window={size=2x1 rhs_dilate=2x1}, to_apply=add": 3,
    "f32[?,8] reduce-window(x, c), window={size=2x1 lhs_dilate=2x1}, to_apply=add": 8,
    "f32[?,8] reduce-window(x, c), window={size=2x1 pad=1_0x0_0}, to_apply=add": 5,
    "f32[?,8] reduce-window(x, c), window={size=2x1 pad=3_-1x0_0}, to_apply=add": 6,
    "f32[?,8] reduce-window(x, c), window={size=2x1 pad=-1_0x0_0}, to_apply=add": 3,
    "f32[?,8] reduce-window(x, c), window={size=3x2 stride=2x1 pad=2_0x1_0 lhs_dilate=2x1 rhs_dilate=2x1}, to_apply=add": 4,
    "f32[1,?,3] convolution(l, v), window={size=2}, dim_labels=b0f_0io->b0f": 4,
    "f32[1,?,3] convolution(l, v), window={size=2 pad=1_0}, dim_labels=b0f_0io->b0f": 5,
}
"""Windows of which every one ends within the array, and the number of windows over 5 elements. How many begin at an
element is not known."""
ALONG_OTHERS = {
    "f32[?,7] reduce-window(x, c), window={size=1x2}, to_apply=add": 5,
    "f32[?,9] reduce-window(x, c), window={size=1x2 pad=0_0x1_1}, to_apply=add": 5,
    "f32[?,7,3] convolution(b, v), window={size=2}, dim_labels=b0f_0io->b0f": 5,
}


@pytest.mark.parametrize("instruction", [*INDEPENDENT, *WINDOWS, *ALONG_OTHERS])
def test_maps_are_those_of_every_size(instruction: str) -> None:
    """The map without a bound, within the bounds of an array of 5 elements, is the map of that array."""
    shape, _, operation = instruction.partition(" ")
    more = "  i = s32[] parameter(5)\n  l = f32[1,?,2] parameter(6)\n  v = f32[2,2,3] parameter(7)\n  b = f32[?,8,2] parameter(8)\n"
    text = f"HloModule m\n{ADD}ENTRY e {{\n{PARAMETERS}{more}  ROOT r = {instruction}\n}}"
    size = {**INDEPENDENT, **WINDOWS, **ALONG_OTHERS}[instruction]
    bounded_text = text.replace(f"r = {shape} {operation}", f"r = {shape.replace('?', str(size))} {operation}")
    unbounded = HloModule.parse(text).entry.root
    bounded = HloModule.parse(bounded_text.replace("[?,8", "[5,8").replace("[1,?,2]", "[1,5,2]")).entry.root
    questions = [(indexing.output_to_input(unbounded), indexing.output_to_input(bounded))]
    if instruction in WINDOWS:
        assert indexing.input_to_output(unbounded)[0].knowledge is Knowledge.UNKNOWN
    else:
        for operand in range(len(unbounded.operands)):
            questions.append((indexing.input_to_output(unbounded, operand), indexing.input_to_output(bounded, operand)))
    compared = 0
    for answers, expected in questions:
        for reads, read in zip(answers, expected, strict=True):
            assert not reads[0].is_conservative
            assert len(reads) == len(read) == 1
            wide, narrow = reads[0].map, read[0].map
            assert not narrow.is_known_empty
            assert [len(group) for group in wide.variable_expressions()] == [
                len(group) for group in narrow.variable_expressions()
            ]
            points = list(product(*[range(v.bounds.lower, v.bounds.upper + 1) for v in narrow.variables]))
            values, inside = narrow.evaluate_batch(points)
            wide_values, wide_inside = wide.evaluate_batch(points)
            compared += int(inside.sum())
            assert (~inside | (wide_inside & (values == wide_values).all(axis=1))).all()
    assert compared


@pytest.mark.parametrize(
    "instruction",
    [
        "f32[?,8] reverse(x), dimensions={0}",
        "f32[8,?] reshape(x)",
        "f32[8,?] bitcast(x)",
        "f64[?,4] bitcast(x)",
        "f32[?,8] concatenate(x, z), dimensions={0}",
        "f32[?,8] concatenate(x, k), dimensions={0}",
        "f32[?,8] pad(x, c), padding=1_1x0_0",
        "f32[?,8] pad(x, c), padding=0_0_1x0_0",
        "f32[?,8] reduce-window(x, c), window={size=2x1 pad=1_1x0_0}, to_apply=add",
    ],
)
def test_unknown(instruction: str) -> None:
    """XLA takes the largest int64 for the size and leads to elements that do not exist."""
    root = HloModule.parse(f"HloModule m\n{ADD}ENTRY e {{\n{PARAMETERS}  ROOT r = {instruction}\n}}").entry.root
    assert indexing.output_to_input(root)[0].knowledge is Knowledge.UNKNOWN
    assert indexing.input_to_output(root)[0].knowledge is Knowledge.UNKNOWN
